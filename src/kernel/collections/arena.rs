//! Tables of elements, and keys that fit one kind of table only.

use slab::Slab;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// The key of an element in the arenas named `N`. Fits, with its `Option`, into four bytes.
pub(crate) struct Key<N> {
    number: NonZeroU32,
    name: PhantomData<fn(N) -> N>,
}

impl<N> Key<N> {
    /// The first key of an arena.
    pub(crate) const FIRST: Self = Key { number: NonZeroU32::MIN, name: PhantomData };

    /// Returns the key of the entry `index`.
    ///
    /// # Panics
    /// Panics at 2³² − 1 entries.
    #[inline]
    pub(crate) fn new(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Key { number: number.expect("fewer than 2³² - 1 entries"), name: PhantomData }
    }
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.number.get() as usize - 1
    }
}

// Derived, these would ask for the same of `N`, which is only a name.
impl<N> Clone for Key<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N> Copy for Key<N> {}
impl<N> PartialEq for Key<N> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl<N> Eq for Key<N> {}
impl<N> PartialOrd for Key<N> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<N> Ord for Key<N> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}
impl<N> Hash for Key<N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}
impl<N> fmt::Debug for Key<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.index())
    }
}

/// A table of elements of type `T`, named `N`. Each element has a [`Key`], until it is removed; then a later element may
/// get the same key.
#[derive(Debug)]
pub(crate) struct Arena<T, N> {
    slab: Slab<T>,
    name: PhantomData<fn(N) -> N>,
}

impl<T, N> Default for Arena<T, N> {
    fn default() -> Self {
        Arena::new()
    }
}

impl<T, N> Arena<T, N> {
    pub(crate) const fn new() -> Self {
        Arena { slab: Slab::new(), name: PhantomData }
    }
    #[inline]
    pub(crate) fn insert(&mut self, element: T) -> Key<N> {
        Key::new(self.slab.insert(element))
    }
    /// Returns the key of the next element that is inserted.
    #[inline]
    pub(crate) fn next_key(&self) -> Key<N> {
        Key::new(self.slab.vacant_key())
    }
    /// Returns the key of the entry `index`, if it is in use.
    #[inline]
    pub(crate) fn key_at(&self, index: usize) -> Option<Key<N>> {
        self.slab.contains(index).then(|| Key::new(index))
    }
    #[inline]
    pub(crate) fn remove(&mut self, key: Key<N>) -> T {
        self.slab.remove(key.index())
    }
    #[inline]
    pub(crate) fn get(&self, key: Key<N>) -> Option<&T> {
        self.slab.get(key.index())
    }
    pub(crate) fn contains(&self, key: Key<N>) -> bool {
        self.slab.contains(key.index())
    }
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }
    pub(crate) fn capacity(&self) -> usize {
        self.slab.capacity()
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key<N>, &T)> + Clone {
        self.slab.iter().map(|(index, element)| (Key::new(index), element))
    }
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slab.iter_mut().map(|(_, element)| element)
    }
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.slab.into_iter().map(|(_, element)| element)
    }
    /// Moves all elements to an arena of the capacity that they need, under their keys. Returns the old one.
    ///
    /// The caller passes all keys, because the arena would have to search for them.
    pub(crate) fn shrink(&mut self, mut keys: Vec<Key<N>>) -> Self {
        keys.sort_unstable();
        let moved = keys.into_iter().map(|key| (key.index(), self.slab.remove(key.index())));
        let moved = Arena { slab: moved.collect(), name: PhantomData };
        std::mem::replace(self, moved)
    }
}

impl<T, N> Index<Key<N>> for Arena<T, N> {
    type Output = T;
    #[inline]
    fn index(&self, key: Key<N>) -> &T {
        &self.slab[key.index()]
    }
}
impl<T, N> IndexMut<Key<N>> for Arena<T, N> {
    #[inline]
    fn index_mut(&mut self, key: Key<N>) -> &mut T {
        &mut self.slab[key.index()]
    }
}
