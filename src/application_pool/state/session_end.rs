//! The end of a session under the lock: the second half of the pseudocode's `session_has_been_closed`.
//!
//! A process may leave the pool before its sessions have ended, for example at the deadline of its drain. The end of
//! such a session has no effect. `Found` lists how a close may find its process; a model reaches each case.

use super::effects::Effects;
use super::ending::{Ending, Found};
use super::entry::Entry;
use super::group::Edge;
use super::state::State;
use crate::application_pool::api::event::DetachReason;
use crate::application_pool::api::spawner::{ShutDown, Spawner};

impl<S: Spawner> State<S> {
    /// Ends a session of a process that may have left meanwhile.
    pub(crate) fn end_session(
        &mut self,
        entry: &Entry<S>,
        ending: Ending,
        fx: &mut Effects<S>,
    ) -> Found {
        // Once more: the first look was made without the lock (erratum E15).
        if entry.gone.is_raised() {
            return Found::GoneUnderLock;
        }
        self.close_session(entry, ending, fx)
    }

    fn close_session(&mut self, entry: &Entry<S>, ending: Ending, fx: &mut Effects<S>) -> Found {
        let key = entry.key;
        let info = &mut self.processes[key];
        // Every close counts down, on one path (erratum E14: PROP-SESSIONS).
        info.sessions -= 1;
        if ending == Ending::Closed {
            info.processed += 1;
            self.totals.processed += 1;
        }
        if info.is_detached() {
            if info.sessions == 0 {
                self.end_drain(key, ShutDown::Drained, fx);
            }
            return Found::Draining;
        }

        let now = self.clock.now();
        info.last_used = now;
        if matches!(ending, Ending::Closed | Ending::Failed) {
            info.has_served(now, self.limits.back_off);
        }
        let group_key = info.group;
        let idle = info.is_idle();
        let group = self.groups.touch(group_key);
        group.processes.remove(&mut self.processes, key);
        // The pseudocode's move_to_front, if the process is idle; otherwise it goes behind its equals.
        let edge = if idle { Edge::Front } else { Edge::Back };
        group.processes.insert(&mut self.processes, key, edge);
        if idle {
            group.idle += 1;
            self.becomes_idle(key);
            self.mutate_active(self.active - 1);
        }
        if matches!(ending, Ending::Failed | Ending::Refused) {
            self.detach_failed(key, fx);
        } else if idle && self.makes_room(group_key, now) {
            self.detach_process(key, DetachReason::Evicted, fx);
        }
        Found::Live
    }
}
