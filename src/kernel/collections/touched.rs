//! A table that notes which elements were changed, so that the end of a section can settle these, and no other.
//!
//! An element is changed through [`touch`](TouchedArena::touch), so no change can do without what follows from it. Links and notes,
//! from which nothing follows, change through [`links`](TouchedArena::links).

use super::arena::{Arena, Key};
use std::ops::Deref;

/// The note of a touch, within the element.
pub(crate) struct Note<N> {
    touched: bool,
    /// The element that was touched next.
    next: Option<Key<N>>,
}

impl<N> Default for Note<N> {
    fn default() -> Self {
        Note { touched: false, next: None }
    }
}

/// An element that has room for the note.
pub(crate) trait Touch<N> {
    fn note(&mut self) -> &mut Note<N>;
}

/// An arena whose elements are changed by touches.
///
/// Most sections touch one element. For these a touch is one comparison and one store.
pub(crate) struct TouchedArena<T, N> {
    elements: Arena<T, N>,
    /// The element that was touched last.
    last: Option<Key<N>>,
    /// The first and the last of those that were touched before it.
    others: Option<(Key<N>, Key<N>)>,
    #[cfg(any(test, debug_assertions))]
    scope: Scope<N>,
}

/// The elements at which the invariants look: all, or those whose touches the section has settled.
#[cfg(any(test, debug_assertions))]
struct Scope<N> {
    settled: [Option<Key<N>>; 4],
    /// Further ones were settled, so that the invariants look at all.
    further: bool,
    is_narrow: bool,
}

impl<T: Touch<N>, N> TouchedArena<T, N> {
    pub(crate) fn new() -> Self {
        TouchedArena {
            elements: Arena::new(),
            last: None,
            others: None,
            #[cfg(any(test, debug_assertions))]
            scope: Scope { settled: [None; 4], further: false, is_narrow: false },
        }
    }
    /// Returns the element, to change it.
    #[inline]
    pub(crate) fn touch(&mut self, key: Key<N>) -> &mut T {
        if self.last != Some(key) {
            self.note_last();
            self.last = Some(key);
        }
        &mut self.elements[key]
    }
    /// Puts the element that was touched last behind the others.
    #[inline]
    fn note_last(&mut self) {
        let Some(key) = self.last.take() else { return };
        let note = self.elements[key].note();
        if note.touched {
            return;
        }
        note.touched = true;
        let first = self.others.map_or(key, |(first, last)| {
            self.elements[last].note().next = Some(key);
            first
        });
        self.others = Some((first, key));
    }
    /// Returns the elements, to change what no touch is for: the links of lists and heaps, what the settling itself notes, and the
    /// note of a failure for an error.
    #[inline]
    pub(crate) fn links(&mut self) -> &mut Arena<T, N> {
        &mut self.elements
    }
    /// Inserts an element, which counts as touched.
    pub(crate) fn insert(&mut self, element: T) -> Key<N> {
        let key = self.elements.insert(element);
        self.touch(key);
        key
    }
    /// Removes an element, which is not touched.
    pub(crate) fn remove(&mut self, key: Key<N>) -> T {
        let mut element = self.elements.remove(key);
        let is_touched = self.last == Some(key) || element.note().touched;
        debug_assert!(!is_touched, "the next element with this key would count as touched");
        element
    }
    /// Returns the touched element, if it is the only one.
    #[inline]
    pub(crate) fn only_touched(&self) -> Option<Key<N>> {
        if self.others.is_none() { self.last } else { None }
    }
    /// Forgets the only touch.
    #[inline]
    pub(crate) fn forget_only(&mut self) {
        #[cfg(any(test, debug_assertions))]
        self.last.into_iter().for_each(|key| self.note_settled(key));
        self.last = None;
    }
    /// Forgets the first touch, and returns its element.
    pub(crate) fn next_touched(&mut self) -> Option<Key<N>> {
        self.note_last();
        let (first, last) = self.others?;
        let note = self.elements[first].note();
        note.touched = false;
        self.others = note.next.take().map(|next| (next, last));
        #[cfg(any(test, debug_assertions))]
        self.note_settled(first);
        Some(first)
    }
    #[cfg(any(test, debug_assertions))]
    fn note_settled(&mut self, key: Key<N>) {
        match self.scope.settled.iter_mut().find(|place| place.is_none_or(|other| other == key)) {
            Some(place) => *place = Some(key),
            None => self.scope.further = true,
        }
    }
    /// Narrows the look of the invariants to the elements that were settled, or widens it and forgets these.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn narrow(&mut self, to_settled: bool) {
        self.scope.is_narrow = to_settled;
        if !to_settled {
            self.scope.settled = [None; 4];
            self.scope.further = false;
        }
    }
    /// Returns the elements at which an invariant of each element looks.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn in_scope(&self) -> impl Iterator<Item = (Key<N>, &T)> {
        let is_narrow = self.scope.is_narrow && !self.scope.further;
        let settled = self.scope.settled.iter().flatten().filter(move |_| is_narrow);
        let settled = settled.filter_map(|key| Some((*key, self.elements.get(*key)?)));
        settled.chain(self.elements.iter().filter(move |_| !is_narrow))
    }
    #[inline]
    pub(crate) fn any_touched(&self) -> bool {
        self.last.is_some() || self.others.is_some()
    }
}

impl<T, N> Deref for TouchedArena<T, N> {
    type Target = Arena<T, N>;
    #[inline]
    fn deref(&self) -> &Arena<T, N> {
        &self.elements
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    struct Of;
    #[derive(Default)]
    struct Element(Note<Of>);
    impl Touch<Of> for Element {
        fn note(&mut self) -> &mut Note<Of> {
            &mut self.0
        }
    }

    fn of(number: usize) -> (TouchedArena<Element, Of>, Vec<Key<Of>>) {
        let mut arena = TouchedArena::new();
        let keys = (0..number).map(|_| arena.insert(Element::default())).collect();
        (arena, keys)
    }
    fn settled(arena: &mut TouchedArena<Element, Of>) -> Vec<usize> {
        std::iter::from_fn(|| arena.next_touched()).map(Key::index).collect()
    }

    #[test]
    fn the_scope_is_narrowed_to_the_elements_that_were_settled() {
        let (mut arena, keys) = of(10);
        let in_scope = |arena: &TouchedArena<Element, Of>| {
            arena.in_scope().map(|(key, _)| key.index()).collect::<Vec<_>>()
        };
        settled(&mut arena);
        arena.narrow(true);
        assert_eq!(in_scope(&arena), (0..10).collect::<Vec<_>>(), "more than there is room for");
        arena.narrow(false);
        for key in [3, 7, 3] {
            arena.touch(keys[key]);
        }
        settled(&mut arena);
        assert_eq!(in_scope(&arena), (0..10).collect::<Vec<_>>());
        arena.narrow(true);
        assert_eq!(in_scope(&arena), [3, 7]);
        arena.remove(keys[7]);
        assert_eq!(in_scope(&arena), [3]);
        arena.narrow(false);
        arena.touch(keys[5]);
        arena.forget_only();
        arena.narrow(true);
        assert_eq!(in_scope(&arena), [5]);
    }

    #[test]
    fn each_touched_element_is_settled_once_in_the_order_of_the_touches() {
        let (mut arena, keys) = of(3);
        assert_eq!(settled(&mut arena), [0, 1, 2], "new ones are touched");
        assert!(!arena.any_touched());
        for key in [keys[2], keys[2], keys[0], keys[2], keys[0]] {
            arena.touch(key);
        }
        assert_eq!(settled(&mut arena), [2, 0]);
        assert_eq!(settled(&mut arena), [0_usize; 0]);
    }

    #[test]
    fn the_only_touched_element() {
        let (mut arena, keys) = of(2);
        assert_eq!((arena.only_touched(), arena.any_touched()), (None, true), "two are touched");
        settled(&mut arena);
        assert_eq!(arena.only_touched(), None);
        arena.touch(keys[1]);
        assert_eq!(arena.only_touched(), Some(keys[1]));
        arena.touch(keys[0]);
        assert_eq!(arena.only_touched(), None);
    }

    #[test]
    fn an_element_that_is_touched_while_others_are_settled_is_settled_again() {
        let (mut arena, keys) = of(2);
        assert_eq!(arena.next_touched(), Some(keys[0]));
        arena.touch(keys[0]);
        arena.touch(keys[1]);
        assert_eq!(settled(&mut arena), [1, 0]);
    }
}
