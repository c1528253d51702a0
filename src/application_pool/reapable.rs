//! The groups that can lose an idle process, by how long that process has been idle.
//!
//! A group can if it is above its minimum and has an idle process. The pool evicts the longest idle process of all
//! these groups (erratum E29), and its cleaner wakes when that process is due (E30, E40). A search for it would pass
//! over each process that a minimum protects (E41).
//!
//! A group's rank is that of its longest idle process, by a count of processes that became idle. Commonly a group comes
//! here because a process has become idle just now, so its rank is the highest. Such groups form a list. Any other
//! group, such as one that has just lost the minimum's protection, goes to a heap. So a get and its close stay O(1),
//! and everything else is O(log n).

use super::group::Group;
use crate::collections::indexed_heap::{HeapIndex, InHeap, IndexedHeap};
use crate::collections::slab_list::{Key, Links, List, linked};
use slab::Slab;

/// The groups that can lose an idle process.
#[derive(Debug, Default)]
pub(crate) struct Reapable {
    /// In the order of their ranks.
    recent: List<Recent>,
    others: IndexedHeap<u64, Others>,
}

/// One group's part of [`Reapable`].
#[derive(Debug, Default)]
pub(crate) struct Reaped {
    rank: Option<u64>,
    recent: Links,
    others: HeapIndex,
}

impl Reaped {
    /// Returns the rank of the group's longest idle process, if the group can lose it.
    #[inline]
    pub(crate) fn rank(&self) -> Option<u64> {
        self.rank
    }
}

linked!(
    /// `Reapable::recent`: by rank.
    Recent, Group, reaped.recent
);

/// Names the heap `Reapable::others`.
#[derive(Debug)]
pub(crate) enum Others {}
impl InHeap<Others> for Group {
    fn index(&mut self) -> &mut HeapIndex {
        &mut self.reaped.others
    }
}

impl Reapable {
    /// Gives the group this rank, or removes it.
    pub(crate) fn set(&mut self, groups: &mut Slab<Group>, key: Key, rank: Option<u64>) {
        let group = &mut groups[key.index()].reaped;
        group.rank = rank;
        if group.recent.is_linked() {
            self.recent.remove(groups, key);
        }
        let last = self.recent.back().and_then(|last| groups[last.index()].reaped.rank);
        if rank.is_some() && last < rank {
            self.others.set(groups, key, None);
            self.recent.push_back(groups, key);
        } else {
            self.others.set(groups, key, rank);
        }
    }

    /// Returns the group with the longest idle process.
    pub(crate) fn first(&self, groups: &Slab<Group>) -> Option<Key> {
        let recent = self.recent.front();
        let rank = recent.and_then(|key| groups[key.index()].reaped.rank);
        match self.others.first() {
            Some((other, key)) if rank.is_none_or(|rank| other < rank) => Some(key),
            _ => recent,
        }
    }

    /// For the invariants: returns whether each group is where its rank puts it, and only there.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn is_in_order(&self, groups: &Slab<Group>) -> bool {
        let rank = |key: Key| groups[key.index()].reaped.rank;
        let ranked = groups.iter().filter(|(_, group)| group.reaped.rank.is_some()).count();
        let recent: Vec<_> = self.recent.iter(groups).map(rank).collect();
        ranked == recent.len() + self.others.len()
            && recent.is_sorted_by(|a, b| a.is_some() && a < b)
            && self.others.iter().all(|(other, key)| Some(other) == rank(key))
    }
}
