//! Doubly linked lists whose links are keys of an arena.
//!
//! The links lie in the element. So an element's key is its iterator, as the pseudocode's
//! `list<SomeType>` asks: [`List::remove`] takes a key and runs in O(1). An element carries one [`Links`] for
//! each list that it can be in at the same time; the type parameter `L` names the list.
//!
//! # Why not pointers
//! A slab moves its entries when it grows, so pointers into it would dangle. `intrusive-collections` would need a
//! `Slab<Rc<…>>`, an `unsafe impl` for each list, an unsafe cursor to reach an element in O(1), and links in cells
//! that loom cannot see. Measured as a remove and a push to the front (`benches/README.md`), it takes 5 ns where this
//! list takes 7, which is below a twentieth of a get and its close. So the library keeps to safe code. A differential
//! test (`benches/lists/`) compares both lists.

use crate::kernel::collections::arena::{Arena, Key};

/// An element's place in one list.
#[derive(Debug)]
pub(crate) struct Links<N> {
    prev: Option<Key<N>>,
    next: Option<Key<N>>,
    linked: bool,
}

impl<N> Default for Links<N> {
    fn default() -> Self {
        Links { prev: None, next: None, linked: false }
    }
}

impl<N> Links<N> {
    #[inline]
    pub(crate) fn is_linked(&self) -> bool {
        self.linked
    }
    /// Unlinks and returns the previous links.
    ///
    /// Copies the fields one at a time on purpose: a wide load of fields just written by narrow stores defeats
    /// store-to-load forwarding and stalls.
    #[inline]
    fn unlink(&mut self) -> Self {
        let Links { prev, next, linked } = *self;
        self.prev = None;
        self.next = None;
        self.linked = false;
        Links { prev, next, linked }
    }
}

/// The name of a list or heap.
pub(crate) trait Of {
    /// Names the arena of its elements.
    type Arena: std::fmt::Debug;
}

/// An element that can be in the list named `L`.
pub(crate) trait Linked<L: Of> {
    fn links(&self) -> &Links<L::Arena>;
    fn links_mut(&mut self) -> &mut Links<L::Arena>;
}

/// A list of elements of an arena. The caller passes the arena to each operation.
#[derive(Debug)]
pub(crate) struct List<L: Of> {
    front: Option<Key<L::Arena>>,
    back: Option<Key<L::Arena>>,
    len: usize,
}

impl<L: Of> Default for List<L> {
    fn default() -> Self {
        List::new()
    }
}

impl<L: Of> List<L> {
    pub(crate) const fn new() -> Self {
        List { front: None, back: None, len: 0 }
    }
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.front.is_none()
    }
    #[inline]
    pub(crate) fn front(&self) -> Option<Key<L::Arena>> {
        self.front
    }

    #[inline]
    pub(crate) fn back(&self) -> Option<Key<L::Arena>> {
        self.back
    }

    #[inline]
    pub(crate) fn push_front<T: Linked<L>>(
        &mut self,
        arena: &mut Arena<T, L::Arena>,
        key: Key<L::Arena>,
    ) {
        let next = self.front;
        self.link(arena, key, None, next);
    }
    #[inline]
    pub(crate) fn push_back<T: Linked<L>>(
        &mut self,
        arena: &mut Arena<T, L::Arena>,
        key: Key<L::Arena>,
    ) {
        let prev = self.back;
        self.link(arena, key, prev, None);
    }
    /// In front of `next`; at the end, if there is none.
    pub(crate) fn push_before<T: Linked<L>>(
        &mut self,
        arena: &mut Arena<T, L::Arena>,
        key: Key<L::Arena>,
        next: Option<Key<L::Arena>>,
    ) {
        let prev = next.map_or(self.back, |next| Self::before(arena, next));
        self.link(arena, key, prev, next);
    }
    pub(crate) fn pop_front<T: Linked<L>>(
        &mut self,
        arena: &mut Arena<T, L::Arena>,
    ) -> Option<Key<L::Arena>> {
        let key = self.front?;
        self.remove(arena, key);
        Some(key)
    }
    #[inline]
    pub(crate) fn remove<T: Linked<L>>(
        &mut self,
        arena: &mut Arena<T, L::Arena>,
        key: Key<L::Arena>,
    ) {
        let Links { prev, next, linked } = arena[key].links_mut().unlink();
        debug_assert!(linked, "{key:?} is not in this list");
        *self.next_of(arena, prev) = next;
        *self.prev_of(arena, next) = prev;
        self.len -= 1;
    }
    /// Returns the element behind `key`.
    pub(crate) fn after<T: Linked<L>>(
        arena: &Arena<T, L::Arena>,
        key: Key<L::Arena>,
    ) -> Option<Key<L::Arena>> {
        #[cfg(test)]
        crate::kernel::steps::step();
        arena[key].links().next
    }
    /// Returns the element before `key`.
    pub(crate) fn before<T: Linked<L>>(
        arena: &Arena<T, L::Arena>,
        key: Key<L::Arena>,
    ) -> Option<Key<L::Arena>> {
        #[cfg(test)]
        crate::kernel::steps::step();
        arena[key].links().prev
    }
    pub(crate) fn iter<'a, T: Linked<L>>(
        &self,
        arena: &'a Arena<T, L::Arena>,
    ) -> impl Iterator<Item = Key<L::Arena>> + use<'a, L, T> {
        std::iter::successors(self.front, |key| Self::after(arena, *key))
    }

    #[inline]
    fn link<T: Linked<L>>(
        &mut self,
        arena: &mut Arena<T, L::Arena>,
        key: Key<L::Arena>,
        prev: Option<Key<L::Arena>>,
        next: Option<Key<L::Arena>>,
    ) {
        let links = arena[key].links_mut();
        debug_assert!(!links.linked, "{key:?} is in this list already");
        *links = Links { prev, next, linked: true };
        *self.next_of(arena, prev) = Some(key);
        *self.prev_of(arena, next) = Some(key);
        self.len += 1;
    }
    /// Returns the link to the element after `at`, or the front of the list.
    #[inline]
    fn next_of<'a, T: Linked<L>>(
        &'a mut self,
        arena: &'a mut Arena<T, L::Arena>,
        at: Option<Key<L::Arena>>,
    ) -> &'a mut Option<Key<L::Arena>> {
        at.map_or(&mut self.front, |key| &mut arena[key].links_mut().next)
    }
    /// Returns the link to the element before `at`, or the back of the list.
    #[inline]
    fn prev_of<'a, T: Linked<L>>(
        &'a mut self,
        arena: &'a mut Arena<T, L::Arena>,
        at: Option<Key<L::Arena>>,
    ) -> &'a mut Option<Key<L::Arena>> {
        at.map_or(&mut self.back, |key| &mut arena[key].links_mut().prev)
    }
}

/// Declares a list's name, the name of its elements' arena, and the field of the element that holds its links.
macro_rules! linked {
    ($(#[$doc:meta])* $name:ident: $arena:ty, $element:ident $(<$p:ident: $bound:path>)?, $($field:tt).+) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) enum $name {}
        impl crate::kernel::collections::list::Of for $name {
            type Arena = $arena;
        }
        impl $(<$p: $bound>)? crate::kernel::collections::list::Linked<$name> for $element $(<$p>)? {
            fn links(&self) -> &crate::kernel::collections::list::Links<$arena> {
                &self.$($field).+
            }
            fn links_mut(&mut self) -> &mut crate::kernel::collections::list::Links<$arena> {
                &mut self.$($field).+
            }
        }
    };
}
pub(crate) use linked;
