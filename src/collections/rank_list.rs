//! Elements ordered by a small number, with every operation in O(1): "the least busy process".
//!
//! One [`List`] for each rank, and a bitmap of three levels that says which of them are occupied: the
//! lowest and the highest are found in three steps, whatever the number of elements. Equal ranks keep
//! the order in which they were pushed. Ranks above [`MAX_RANK`] count as equal.

use crate::collections::slab_list::{Key, Linked, List};
use slab::Slab;

/// 64³ − 1.
pub(crate) const MAX_RANK: usize = 262_143;

/// Lists by rank.
#[derive(Debug)]
pub(crate) struct RankList<L> {
    lists: Vec<List<L>>,
    /// Which of the first 64 ranks are occupied: all that most processes ever have.
    low: u64,
    /// Which of all ranks are, by levels: what the bits of one level's words stand for are the words
    /// of the level before.
    levels: [Vec<u64>; 3],
    len: usize,
}

impl<L> Default for RankList<L> {
    fn default() -> Self {
        RankList { lists: Vec::new(), low: 0, levels: [const { Vec::new() }; 3], len: 0 }
    }
}

impl<L> RankList<L> {
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first element of the lowest rank.
    #[inline]
    pub(crate) fn first(&self) -> Option<Key> {
        let rank = self.lowest()?;
        self.lists[rank].front()
    }
    /// The first element of the highest rank.
    pub(crate) fn first_of_highest(&self) -> Option<Key> {
        let rank = self.highest()?;
        self.lists[rank].front()
    }

    /// Before all others of its rank.
    #[inline]
    pub(crate) fn push_front<T: Linked<L>>(&mut self, slab: &mut Slab<T>, key: Key, rank: usize) {
        self.list(rank).push_front(slab, key);
    }
    /// Behind all others of its rank.
    #[inline]
    pub(crate) fn push_back<T: Linked<L>>(&mut self, slab: &mut Slab<T>, key: Key, rank: usize) {
        self.list(rank).push_back(slab, key);
    }
    /// Removes an element that was pushed with this rank.
    #[inline]
    pub(crate) fn remove<T: Linked<L>>(&mut self, slab: &mut Slab<T>, key: Key, rank: usize) {
        let rank = rank.min(MAX_RANK);
        self.lists[rank].remove(slab, key);
        self.len -= 1;
        if self.lists[rank].is_empty() {
            self.vacate(rank);
        }
    }

    /// By rank, lowest first. For the invariants: not O(1).
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn iter<'a, T: Linked<L>>(
        &'a self,
        slab: &'a Slab<T>,
    ) -> impl Iterator<Item = (usize, Key)> + 'a {
        let ranks = self.lists.iter().enumerate();
        ranks.flat_map(|(rank, list)| list.iter(slab).map(move |key| (rank, key)))
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
