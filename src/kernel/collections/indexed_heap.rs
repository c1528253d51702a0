//! A binary heap of arena elements that know their index in it: a priority queue with change and removal.
//!
//! Each element has a rank, such as a time. Any element can get another rank, or leave, in O(log n), because it
//! stores its index in the heap; a list would need a search. The element of the lowest rank is found in O(1).
//! The heap keeps its memory until `shrink`, so it does not allocate after warm-up.

use crate::kernel::collections::arena::{Arena, Key};
use crate::kernel::collections::list::Of;

/// The index of an element in one heap, if it is in the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeapIndex(Option<u32>);

/// An element that can be in the heap named `L`.
pub(crate) trait InHeap<L: Of> {
    fn index(&mut self) -> &mut HeapIndex;
}

/// A heap of elements of an arena. The caller passes the arena to each operation.
#[derive(Debug)]
pub(crate) struct IndexedHeap<R, L: Of> {
    heap: Vec<(R, Key<L::Arena>)>,
}

impl<R, L: Of> Default for IndexedHeap<R, L> {
    fn default() -> Self {
        IndexedHeap { heap: Vec::new() }
    }
}

impl<R: Copy + Ord, L: Of> IndexedHeap<R, L> {
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
    /// Moves all elements to as little memory as they need. Returns the old memory.
    pub(crate) fn shrink(&mut self) -> Vec<(R, Key<L::Arena>)> {
        let moved = self.heap.clone();
        std::mem::replace(&mut self.heap, moved)
    }
    /// Returns the lowest rank and its element.
    pub(crate) fn first(&self) -> Option<(R, Key<L::Arena>)> {
        self.heap.first().copied()
    }
    /// Returns all ranks and elements, in the order of the heap's memory.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (R, Key<L::Arena>)> + '_ {
        self.heap.iter().copied()
    }

    /// Inserts the element with this rank, or changes its rank; with `None`, removes it.
    pub(crate) fn set<T: InHeap<L>>(
        &mut self,
        arena: &mut Arena<T, L::Arena>,
        key: Key<L::Arena>,
        rank: Option<R>,
    ) {
        match (arena[key].index().0, rank) {
            (None, None) => {}
            (None, Some(rank)) => {
                self.heap.push((rank, key));
                self.rise(arena, self.heap.len() - 1);
            }
            (Some(at), Some(rank)) => {
                self.heap[at as usize].0 = rank;
                self.settle(arena, at as usize);
            }
            (Some(at), None) => {
                arena[key].index().0 = None;
                self.heap.swap_remove(at as usize);
                if (at as usize) < self.heap.len() {
                    self.settle(arena, at as usize);
                }
            }
        }
    }

    /// Moves an element up or down, to where its rank belongs.
    fn settle<T: InHeap<L>>(&mut self, arena: &mut Arena<T, L::Arena>, at: usize) {
        let at = self.rise(arena, at);
        self.sink(arena, at);
    }
    fn rise<T: InHeap<L>>(&mut self, arena: &mut Arena<T, L::Arena>, mut at: usize) -> usize {
        while at > 0 {
            let above = (at - 1) / 2;
            if self.heap[above].0 <= self.heap[at].0 {
                break;
            }
            self.swap(arena, at, above);
            at = above;
        }
        self.note_index(arena, at);
        at
    }
    fn sink<T: InHeap<L>>(&mut self, arena: &mut Arena<T, L::Arena>, mut at: usize) {
        loop {
            let below =
                [2 * at + 1, 2 * at + 2].into_iter().filter(|below| *below < self.heap.len());
            let Some(least) = below.min_by_key(|below| self.heap[*below].0) else { break };
            if self.heap[at].0 <= self.heap[least].0 {
                break;
            }
            self.swap(arena, at, least);
            at = least;
        }
        self.note_index(arena, at);
    }
    fn swap<T: InHeap<L>>(&mut self, arena: &mut Arena<T, L::Arena>, at: usize, other: usize) {
        #[cfg(test)]
        crate::kernel::steps::step();
        self.heap.swap(at, other);
        self.note_index(arena, at);
    }
    fn note_index<T: InHeap<L>>(&mut self, arena: &mut Arena<T, L::Arena>, at: usize) {
        let (_, key) = self.heap[at];
        arena[key].index().0 = u32::try_from(at).ok();
    }
}

/// Declares a heap's name, the name of its elements' arena, and the field of the element that holds its index.
macro_rules! in_heap {
    ($(#[$doc:meta])* $name:ident: $arena:ty, $element:ident $(<$p:ident: $bound:path>)?, $($field:tt).+) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) enum $name {}
        impl crate::kernel::collections::list::Of for $name {
            type Arena = $arena;
        }
        impl $(<$p: $bound>)? crate::kernel::collections::indexed_heap::InHeap<$name> for $element $(<$p>)? {
            fn index(&mut self) -> &mut crate::kernel::collections::indexed_heap::HeapIndex {
                &mut self.$($field).+
            }
        }
    };
}
pub(crate) use in_heap;

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug)]
    enum Here {}
    impl Of for Here {
        type Arena = Here;
    }
    #[derive(Default)]
    struct Element(HeapIndex);
    impl InHeap<Here> for Element {
        fn index(&mut self) -> &mut HeapIndex {
            &mut self.0
        }
    }

    proptest! {
        /// Compares the heap with a map, in which a search finds the lowest rank.
        #[test]
        fn the_first_is_the_lowest(changes in prop::collection::vec((0_usize..12, prop::option::of(0_u8..9)), 0..200)) {
            let mut arena: Arena<Element, Here> = Arena::new();
            let keys: Vec<_> = (0..12).map(|_| arena.insert(Element::default())).collect();
            let (mut heap, mut map) = (IndexedHeap::<u8, Here>::default(), std::collections::BTreeMap::new());
            for (nth, rank) in changes {
                heap.set(&mut arena, keys[nth], rank);
                match rank {
                    Some(rank) => map.insert(nth, rank),
                    None => map.remove(&nth),
                };
                prop_assert_eq!(heap.first().map(|(rank, _)| rank), map.values().min().copied());
                prop_assert_eq!(heap.len(), map.len());
                let (rank, key) = heap.first().unwrap_or((0, keys[0]));
                let nth = keys.iter().position(|other| *other == key);
                prop_assert!(heap.is_empty() || nth.and_then(|nth| map.get(&nth)) == Some(&rank));
                // The first element may be right although a later one is out of order.
                let is_in_order = |at: usize| at == 0 || heap.heap[(at - 1) / 2].0 <= heap.heap[at].0;
                prop_assert!((0..heap.len()).all(is_in_order));
            }
            let mut last = 0;
            while let Some((rank, key)) = heap.first() {
                prop_assert!(last <= rank);
                last = rank;
                heap.set(&mut arena, key, None);
            }
        }
    }
}
