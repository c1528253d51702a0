//! Forgets groups that are not used: their records would otherwise stay until they are detached by name.
//!
//! A group is unused if it has no process, no spawn and no get, and wants nothing. `State::settle` ends each change of
//! that, so it keeps the list.
//!
//! The tables of a pool follow its groups (erratum E41): the section in which a group is forgotten makes tables smaller that
//! are mostly empty ([`smaller`](crate::kernel::collections::smaller)).

use super::effects::{Effect, Effects};
use super::group::{Group, Want};
use super::state::State;
use super::table_keys::GroupKey;
use crate::application_pool::api::spawner::Spawner;
use crate::kernel::collections::smaller::{LARGE, mostly_empty, smaller_arena, smaller_map};
use std::time::Duration;

impl Group {
    /// Whether a process, a spawn or a get refers to it.
    fn is_used(&self) -> bool {
        let attached = self.size > 0;
        attached || !self.draining.is_empty() || self.spawns_in_flight > 0 || !self.queue.is_empty()
    }
    fn is_idle(&self) -> bool {
        !self.is_used() && self.want == Want::Nothing && self.back_off_until.is_none()
    }
}

impl<S: Spawner> State<S> {
    /// Removes the record of a group that was detached by name, once it is unused.
    pub(crate) fn forget_if_unused(&mut self, key: GroupKey, fx: &mut Effects<S>) {
        let group = self.group(key);
        // A get clears `forgotten` before the group gets a process.
        debug_assert!(!group.forgotten || group.size == 0);
        if !group.forgotten || group.is_used() {
            return;
        }
        self.leave_want(key);
        self.backing_off.set(self.groups.links(), key, None);
        self.leave_unused(key);
        // The name goes with the record (INV-GROUP-ACCESSIBLE).
        let group = self.groups.remove(key);
        self.group_by_name.remove(&group.name);
        if let Some(error) = group.last_error {
            fx.push(Effect::DropError(error));
        }
        let large = self.groups.capacity().max(self.processes.capacity()) > LARGE;
        if large && self.groups.len() <= self.shrink_at {
            self.shrink(fx);
        }
    }

    /// Moves what is left of large tables to smaller ones. They are freed without the lock.
    #[cold]
    fn shrink(&mut self, fx: &mut Effects<S>) {
        // Half of these groups go before the next try, so that a group which stays at a high key is met rarely.
        self.shrink_at = self.groups.len() / 2;
        let keys = self.group_by_name.values().copied().collect();
        let groups = smaller_arena(self.groups.links(), keys);
        if groups.is_some() {
            self.groups_have_grown();
        }
        let attached = self.by_identifier.values().copied();
        let keys = attached.chain(self.draining.iter(&self.processes)).collect();
        let processes = smaller_arena(&mut self.processes, keys);
        let maps = (
            groups.is_some().then(|| smaller_map(&mut self.group_by_name)),
            processes.is_some().then(|| smaller_map(&mut self.by_identifier)),
        );
        let heaps = (self.inactive_apps.shrink(), self.backing_off.shrink());
        fx.push(Effect::DropTables(Box::new((groups, processes, maps, heaps))));
    }

    /// Sets when the table of groups is mostly empty.
    pub(crate) fn groups_have_grown(&mut self) {
        self.shrink_at = mostly_empty(self.groups.capacity());
    }

    /// Notes whether the group is used. If it is not, it is forgotten after this time.
    #[cold]
    pub(crate) fn note_use(&mut self, key: GroupKey, time: Duration, fx: &mut Effects<S>) {
        let group = self.group(key);
        let unused = group.is_idle() && !self.closed;
        if unused == group.unused.is_linked() {
            return;
        }
        self.leave_unused(key);
        if unused {
            let due = self.clock.now().plus(time);
            let groups = self.groups.links();
            groups[key].forget_at = due;
            self.unused.push_back(groups, key);
            self.is_due(due, fx);
        }
    }

    pub(crate) fn leave_unused(&mut self, key: GroupKey) {
        if self.group(key).unused.is_linked() {
            self.unused.remove(self.groups.links(), key);
        }
    }
}
