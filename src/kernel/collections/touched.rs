//! A table that notes which elements were changed, so that the end of a section can settle these, and no other.
//!
//! An element is changed through [`touch`](TouchedArena::touch), so no change can do without what follows from it. Only links, and
//! what the settling notes, change through [`links`](TouchedArena::links).

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
}

impl<T: Touch<N>, N> TouchedArena<T, N> {
    pub(crate) fn new() -> Self {
        TouchedArena { elements: Arena::new(), last: None, others: None }
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
    /// Returns the elements, to change what no touch is for: the links of lists and heaps, and what the settling itself notes.
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
        self.last = None;
    }
    /// Forgets the first touch, and returns its element.
    pub(crate) fn next_touched(&mut self) -> Option<Key<N>> {
        self.note_last();
        let (first, last) = self.others?;
        let note = self.elements[first].note();
        note.touched = false;
        self.others = note.next.take().map(|next| (next, last));
        Some(first)
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
