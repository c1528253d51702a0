//! Forgets groups that are not used: their records would otherwise stay until they are detached by name.
//!
//! A group is unused if it has no process, no spawn and no get, and wants nothing. `State::settle` ends each change of
//! that, so it keeps the list.

use super::effects::{Effect, Effects};
use super::group::{Group, Want};
use super::spawner::Spawner;
use super::state::{LARGE, State};
use crate::collections::slab_list::Key;
use std::mem::take;
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
    pub(crate) fn forget_if_unused(&mut self, key: Key, fx: &mut Effects<S>) {
        let group = self.group(key);
        // A get clears `forgotten` before the group gets a process.
        debug_assert!(!group.forgotten || group.size == 0);
        if !group.forgotten || group.is_used() {
            return;
        }
        self.leave_want(key);
        self.end_back_off(key);
        self.leave_unused(key);
        // The name goes with the record (INV-GROUP-ACCESSIBLE).
        let group = self.groups.remove(key.index());
        self.group_by_name.remove(&group.name);
        if let Some(error) = group.last_error {
            fx.push(Effect::DropError(error));
        }
        if self.groups.is_empty() && self.groups.capacity() > LARGE {
            // Tables never shrink otherwise (erratum E41). They are freed without the lock.
            let groups = (take(&mut self.groups), take(&mut self.group_by_name));
            let processes = (take(&mut self.processes), take(&mut self.by_identifier));
            let heaps = (take(&mut self.inactive_apps), take(&mut self.backing_off));
            fx.push(Effect::DropTables(Box::new((groups, processes, heaps))));
        }
    }

    /// Notes whether the group is used. If it is not, it is forgotten after this time.
    #[cold]
    pub(crate) fn note_use(&mut self, key: Key, time: Duration, fx: &mut Effects<S>) {
        let group = self.group(key);
        let unused = group.is_idle() && !self.closed;
        if unused == group.unused.is_linked() {
            return;
        }
        self.leave_unused(key);
        if unused {
            let due = self.clock.now().plus(time);
            self.group_mut(key).forget_at = due;
            self.unused.push_back(&mut self.groups, key);
            self.is_due(due, fx);
        }
    }

    pub(crate) fn leave_unused(&mut self, key: Key) {
        if self.group(key).unused.is_linked() {
            self.unused.remove(&mut self.groups, key);
        }
    }
}
