//! Doubly linked lists whose links are slab keys.
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

use slab::Slab;
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// A slab key that fits, with its `Option`, into four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(NonZeroU32);

impl Key {
    /// The first key of a slab.
    pub(crate) const FIRST: Key = Key(NonZeroU32::MIN);

    /// Returns the key of the slab's entry `index`.
    ///
    /// # Panics
    /// Panics at 2³² − 1 entries.
    #[inline]
    pub(crate) fn new(index: usize) -> Key {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Key(number.expect("fewer than 2³² - 1 entries"))
    }
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// An element's place in one list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    prev: Option<Key>,
    next: Option<Key>,
    linked: bool,
}

impl Links {
    #[inline]
    pub(crate) fn is_linked(&self) -> bool {
        self.linked
    }
    /// Unlinks and returns the previous links.
    ///
    /// Copies the fields one at a time on purpose: a wide load of fields just written by narrow stores defeats
    /// store-to-load forwarding and stalls.
    #[inline]
    fn unlink(&mut self) -> Links {
        let Links { prev, next, linked } = *self;
        self.prev = None;
        self.next = None;
        self.linked = false;
        Links { prev, next, linked }
    }
}

/// An element that can be in the list named `L`.
pub(crate) trait Linked<L> {
    fn links(&self) -> &Links;
    fn links_mut(&mut self) -> &mut Links;
}

/// A list of elements of a slab. The caller passes the slab to each operation.
#[derive(Debug)]
pub(crate) struct List<L> {
    front: Option<Key>,
    back: Option<Key>,
    len: usize,
    name: PhantomData<fn(L)>,
}

impl<L> Default for List<L> {
    fn default() -> Self {
        List::new()
    }
}

impl<L> List<L> {
    pub(crate) const fn new() -> Self {
        List { front: None, back: None, len: 0, name: PhantomData }
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
    pub(crate) fn front(&self) -> Option<Key> {
        self.front
    }

    #[inline]
    pub(crate) fn back(&self) -> Option<Key> {
        self.back
    }

    #[inline]
    pub(crate) fn push_front<T: Linked<L>>(&mut self, slab: &mut Slab<T>, key: Key) {
        let next = self.front;
        self.link(slab, key, None, next);
    }
    #[inline]
    pub(crate) fn push_back<T: Linked<L>>(&mut self, slab: &mut Slab<T>, key: Key) {
        let prev = self.back;
        self.link(slab, key, prev, None);
    }
    /// In front of `next`; at the end, if there is none.
    pub(crate) fn push_before<T: Linked<L>>(
        &mut self,
        slab: &mut Slab<T>,
        key: Key,
        next: Option<Key>,
    ) {
        let prev = next.map_or(self.back, |next| Self::before(slab, next));
        self.link(slab, key, prev, next);
    }
    pub(crate) fn pop_front<T: Linked<L>>(&mut self, slab: &mut Slab<T>) -> Option<Key> {
        let key = self.front?;
        self.remove(slab, key);
        Some(key)
    }
    #[inline]
    pub(crate) fn remove<T: Linked<L>>(&mut self, slab: &mut Slab<T>, key: Key) {
        let Links { prev, next, linked } = slab[key.index()].links_mut().unlink();
        debug_assert!(linked, "{key:?} is not in this list");
        *self.next_of(slab, prev) = next;
        *self.prev_of(slab, next) = prev;
        self.len -= 1;
    }
    /// Returns the element behind `key`.
    pub(crate) fn after<T: Linked<L>>(slab: &Slab<T>, key: Key) -> Option<Key> {
        #[cfg(test)]
        crate::steps::step();
        slab[key.index()].links().next
    }
    /// Returns the element before `key`.
    pub(crate) fn before<T: Linked<L>>(slab: &Slab<T>, key: Key) -> Option<Key> {
        #[cfg(test)]
        crate::steps::step();
        slab[key.index()].links().prev
    }
    pub(crate) fn iter<'a, T: Linked<L>>(
        &self,
        slab: &'a Slab<T>,
    ) -> impl Iterator<Item = Key> + use<'a, L, T> {
        std::iter::successors(self.front, |key| Self::after(slab, *key))
    }

    #[inline]
    fn link<T: Linked<L>>(
        &mut self,
        slab: &mut Slab<T>,
        key: Key,
        prev: Option<Key>,
        next: Option<Key>,
    ) {
        let links = slab[key.index()].links_mut();
        debug_assert!(!links.linked, "{key:?} is in this list already");
        *links = Links { prev, next, linked: true };
        *self.next_of(slab, prev) = Some(key);
        *self.prev_of(slab, next) = Some(key);
        self.len += 1;
    }
    /// Returns the link to the element after `at`, or the front of the list.
    #[inline]
    fn next_of<'a, T: Linked<L>>(
        &'a mut self,
        slab: &'a mut Slab<T>,
        at: Option<Key>,
    ) -> &'a mut Option<Key> {
        at.map_or(&mut self.front, |key| &mut slab[key.index()].links_mut().next)
    }
    /// Returns the link to the element before `at`, or the back of the list.
    #[inline]
    fn prev_of<'a, T: Linked<L>>(
        &'a mut self,
        slab: &'a mut Slab<T>,
        at: Option<Key>,
    ) -> &'a mut Option<Key> {
        at.map_or(&mut self.back, |key| &mut slab[key.index()].links_mut().prev)
    }
}

/// Declares a list's name, and the field of the element that holds its links.
macro_rules! linked {
    ($(#[$doc:meta])* $name:ident, $element:ident $(<$p:ident: $bound:path>)?, $($field:tt).+) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) enum $name {}
        impl $(<$p: $bound>)? crate::collections::slab_list::Linked<$name> for $element $(<$p>)? {
            fn links(&self) -> &crate::collections::slab_list::Links {
                &self.$($field).+
            }
            fn links_mut(&mut self) -> &mut crate::collections::slab_list::Links {
                &mut self.$($field).+
            }
        }
    };
}
pub(crate) use linked;
