//! The pseudocode's `inactive_apps`: the idle processes of all groups, longest idle first.
//!
//! The pseudocode has one list of processes. Here a group orders its own idle processes (`group.rs`), and this list
//! has the groups, each by its longest idle process. Groups whose minimum protects that process are apart. So the
//! pool finds the process to evict (erratum E29) and the next one that is due (E30, E40) without a search. A change
//! of a group's size may end the protection of all its processes, and moves one entry (E41).
//!
//! A group's rank is that of its longest idle process, by a count of processes that became idle. Commonly a group comes
//! here because a process has become idle just now, so its rank is the highest. Such groups form a list. Any other
//! group, such as one that has just lost the minimum's protection, goes to a heap. So a get and its close stay O(1),
//! and everything else is O(log n).

use super::group::Group;
use super::standing::Standing;
use super::table_keys::{GroupKey, Groups};
use crate::kernel::collections::arena::Arena;
use crate::kernel::collections::indexed_heap::{IndexedHeap, in_heap};
use crate::kernel::collections::list::{List, linked};

/// The groups with an idle process.
#[derive(Debug, Default)]
pub(crate) struct InactiveApps {
    /// Groups above their minimum.
    evictable: ByRank,
    /// Groups that would fall below their minimum without that process.
    protected: ByRank,
}

impl InactiveApps {
    /// Moves the group to the place that belongs to this standing; with `None`, removes it.
    // Always inlined, as what calls it is (`State::refresh`).
    #[inline(always)]
    pub(crate) fn set(
        &mut self,
        groups: &mut Arena<Group, Groups>,
        key: GroupKey,
        standing: Option<Standing>,
    ) {
        let place = &mut groups[key].inactive.standing;
        if let Some(before) = std::mem::replace(place, standing) {
            self.part(before).remove(groups, key);
        }
        if let Some(standing) = standing {
            self.part(standing).insert(groups, key, standing.rank);
        }
    }
    #[inline]
    fn part(&mut self, standing: Standing) -> &mut ByRank {
        if standing.protected { &mut self.protected } else { &mut self.evictable }
    }

    /// Frees what its heaps have in reserve: returns their old memory.
    pub(crate) fn shrink(&mut self) -> impl Send + 'static {
        (self.evictable.others.shrink(), self.protected.others.shrink())
    }

    /// Returns the group with the longest idle process that no minimum protects.
    pub(crate) fn first_evictable(&self, groups: &Arena<Group, Groups>) -> Option<GroupKey> {
        self.evictable.first(groups)
    }
    /// Returns the group with the longest idle process that its minimum protects.
    pub(crate) fn first_protected(&self, groups: &Arena<Group, Groups>) -> Option<GroupKey> {
        self.protected.first(groups)
    }

    /// For the invariants: returns whether each group is where its standing puts it, and only there.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn is_in_order(&self, groups: &Arena<Group, Groups>) -> bool {
        [(&self.evictable, false), (&self.protected, true)].into_iter().all(|(part, protected)| {
            let standing = |key: GroupKey| groups[key].inactive.standing;
            let here = |key| standing(key).filter(|standing| standing.protected == protected);
            let rank = |key| here(key).map(|standing| standing.rank);
            let listed = groups.iter().filter(|(key, _)| rank(*key).is_some());
            let recent: Vec<_> = part.recent.iter(groups).map(rank).collect();
            listed.count() == recent.len() + part.others.len()
                && recent.is_sorted_by(|a, b| a.is_some() && a < b)
                && part.others.iter().all(|(other, key)| Some(other) == rank(key))
        })
    }
}

/// Groups by their ranks.
#[derive(Debug, Default)]
struct ByRank {
    /// Each was pushed with the highest rank so far.
    recent: List<Recent>,
    highest: u64,
    others: IndexedHeap<u64, Others>,
}

linked!(
    /// `ByRank::recent`.
    Recent: Groups, Group, inactive.recent
);

in_heap!(
    /// `ByRank::others`.
    Others: Groups, Group, inactive.others
);

impl ByRank {
    #[inline]
    fn insert(&mut self, groups: &mut Arena<Group, Groups>, key: GroupKey, rank: u64) {
        if rank > self.highest {
            self.highest = rank;
            self.recent.push_back(groups, key);
        } else {
            self.others.set(groups, key, Some(rank));
        }
    }
    #[inline]
    fn remove(&mut self, groups: &mut Arena<Group, Groups>, key: GroupKey) {
        if groups[key].inactive.recent.is_linked() {
            self.recent.remove(groups, key);
        } else {
            self.others.set(groups, key, None);
        }
    }
    fn first(&self, groups: &Arena<Group, Groups>) -> Option<GroupKey> {
        let recent = self.recent.front();
        let standing = recent.and_then(|key| groups[key].inactive.standing);
        let rank = standing.map(|standing| standing.rank);
        match self.others.first() {
            Some((other, key)) if rank.is_none_or(|rank| other < rank) => Some(key),
            _ => recent,
        }
    }
}
