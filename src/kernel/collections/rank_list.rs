//! Slab elements ordered by a small number, the rank, with each operation in O(1).
//!
//! The pool finds its least busy process by it. There is one [`List`] for each rank, and a bitmap of three levels that
//! marks the occupied ones. So the lowest and the highest rank are found in three steps, whatever the number of
//! elements. Elements of equal rank keep the order in which they were pushed. Ranks above [`MAX_RANK`] count
//! as equal.

use crate::kernel::collections::arena::{Arena, Key};
use crate::kernel::collections::list::{Linked, List, Of};

/// The highest rank that the bitmap can mark: 64³ − 1.
pub(crate) const MAX_RANK: usize = 262_143;

/// A list of elements by rank. The caller passes the arena to each operation.
#[derive(Debug)]
pub(crate) struct RankList<L: Of> {
    lists: Vec<List<L>>,
    /// A bit for each occupied rank below 64. Most processes never have a higher one.
    low: u64,
    /// A bit for each occupied rank from 64 on. A bit of a higher level stands for a non-zero word of the level
    /// before.
    levels: [Vec<u64>; 3],
    len: usize,
}

impl<L: Of> Default for RankList<L> {
    fn default() -> Self {
        RankList { lists: Vec::new(), low: 0, levels: [const { Vec::new() }; 3], len: 0 }
    }
}

impl<L: Of> RankList<L> {
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the first element of the lowest rank.
    #[inline]
    pub(crate) fn first(&self) -> Option<Key<L::Arena>> {
        let rank = self.lowest()?;
        self.lists[rank].front()
    }
    /// Returns the last element of this rank.
    #[inline]
    pub(crate) fn last_of(&self, rank: usize) -> Option<Key<L::Arena>> {
        self.lists.get(rank)?.back()
    }
    /// Returns the first element of the highest rank.
    pub(crate) fn first_of_highest(&self) -> Option<Key<L::Arena>> {
        let rank = self.highest()?;
        self.lists[rank].front()
    }

    /// Adds an element before all others of its rank.
    #[inline]
    pub(crate) fn push_front<T: Linked<L>>(
        &mut self,
        arena: &mut Arena<T, L::Arena>,
        key: Key<L::Arena>,
        rank: usize,
    ) {
        self.list(rank).push_front(arena, key);
    }
    /// Adds an element behind all others of its rank.
    #[inline]
    pub(crate) fn push_back<T: Linked<L>>(
        &mut self,
        arena: &mut Arena<T, L::Arena>,
        key: Key<L::Arena>,
        rank: usize,
    ) {
        self.list(rank).push_back(arena, key);
    }
    /// Removes an element that was pushed with this rank.
    #[inline]
    pub(crate) fn remove<T: Linked<L>>(
        &mut self,
        arena: &mut Arena<T, L::Arena>,
        key: Key<L::Arena>,
        rank: usize,
    ) {
        let rank = rank.min(MAX_RANK);
        self.lists[rank].remove(arena, key);
        self.len -= 1;
        if self.lists[rank].is_empty() {
            self.vacate(rank);
        }
    }

    /// Returns all elements by rank, lowest first. For the invariants only: not O(1).
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn iter<'a, T: Linked<L>>(
        &'a self,
        arena: &'a Arena<T, L::Arena>,
    ) -> impl Iterator<Item = (usize, Key<L::Arena>)> + 'a {
        let ranks = self.lists.iter().enumerate();
        ranks.flat_map(|(rank, list)| list.iter(arena).map(move |key| (rank, key)))
    }

    #[inline]
    fn list(&mut self, rank: usize) -> &mut List<L> {
        let rank = rank.min(MAX_RANK);
        if rank >= self.lists.len() {
            self.grow(rank);
        }
        if rank < 64 {
            self.low |= 1 << rank;
        } else {
            self.occupy(rank);
        }
        self.len += 1;
        &mut self.lists[rank]
    }
    #[cold]
    fn grow(&mut self, rank: usize) {
        self.lists.resize_with(rank + 1, List::default);
    }
    #[cold]
    fn occupy(&mut self, mut at: usize) {
        for level in &mut self.levels {
            let (word, bit) = (at / 64, at % 64);
            if word >= level.len() {
                level.resize(word + 1, 0);
            }
            level[word] |= 1 << bit;
            at = word;
        }
    }
    #[inline]
    fn vacate(&mut self, rank: usize) {
        if rank < 64 {
            self.low &= !(1 << rank);
        } else {
            self.vacate_high(rank);
        }
    }
    #[cold]
    fn vacate_high(&mut self, mut at: usize) {
        for level in &mut self.levels {
            let (word, bit) = (at / 64, at % 64);
            level[word] &= !(1 << bit);
            if level[word] != 0 {
                return;
            }
            at = word;
        }
    }
    #[inline]
    fn lowest(&self) -> Option<usize> {
        if self.low != 0 {
            return Some(self.low.trailing_zeros() as usize);
        }
        self.descend(|word| word.trailing_zeros() as usize)
    }
    fn highest(&self) -> Option<usize> {
        let high = self.descend(|word| 63 - word.leading_zeros() as usize);
        high.or_else(|| (self.low != 0).then(|| 63 - self.low.leading_zeros() as usize))
    }
    fn descend(&self, bit: impl Fn(u64) -> usize) -> Option<usize> {
        if self.levels[2].first().is_none_or(|&top| top == 0) {
            return None;
        }
        Some(self.levels.iter().rev().fold(0, |at, level| at * 64 + bit(level[at])))
    }
}
