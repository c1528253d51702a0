//! The text's `session_has_been_closed`.
//!
//! A session refers to its process weakly. In this machine the process is then none: closing changes
//! nothing. That the text looks at `detached` without the lock (E15) cannot be said here: an action is
//! one step. The models of the real code say it.
//!
//! Errata: E13 (a draining process), E14 (max_requests). Invariants: INV-MAX-REQUESTS, INV-PROCESS-IDLE,
//! INV-INACTIVE-ORDER.

use crate::checkout::End;
use crate::configuration::{ClientId, GroupId};
use crate::pool::{Client, Place, Pool, Reason};
use crate::rules::Erratum::*;

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was closed: one request more is processed.
    Closed,
    /// It was never used.
    Unused,
    /// Its process broke it.
    Failed,
}

impl Pool {
    /// A client is through with its session.
    pub(crate) fn session_has_been_closed(&mut self, client: ClientId, ending: Ending) {
        self.end_session(client, ending);
        self.clients[client] = Client::OUT;
    }

    pub(crate) fn end_session(&mut self, client: ClientId, ending: Ending) {
        let Some(identifier) = self.clients[client].at.process() else { return };
        // Whoever looks at the clients next does not find it there any more.
        self.clients[client].at = crate::pool::At::InSession(None);
        if ending == Ending::Closed {
            self.totals.processed += 1;
        }
        let now = self.now;
        let info = self.process(identifier);
        if info.detached {
            let info = self.process_mut(identifier);
            info.sessions -= 1;
            info.processed += usize::from(ending == Ending::Closed);
            if info.sessions == 0 {
                self.end_drain(identifier);
            }
            return;
        }

        let group = info.group;
        self.remove(identifier);
        let info = self.process_mut(identifier);
        info.sessions -= 1;
        info.processed += usize::from(ending == Ending::Closed);
        info.last_used = now;
        let idle = info.sessions == 0;
        let processed = info.processed;
        // The text's move_to_front, if it is idle; else it waits its turn among its equals.
        self.insert(identifier, if idle { End::Front } else { End::Back });
        if idle {
            self.groups[group].idle += 1;
            self.inactive_apps.push(identifier);
            self.mutate_active(self.active - 1);
        }
        let info = self.process(identifier);
        let (retires, condemned) = (self.place(info) == Place::Retiring, info.condemned);
        let max_requests = self.options_of(info).max_requests;
        if ending == Ending::Failed {
            self.detach_process(identifier, Reason::Failed);
            self.settle(group);
        } else if idle && retires {
            let reason = if condemned { Reason::Evicted(None) } else { Reason::MaxRequests };
            self.detach_process(identifier, reason);
            self.settle(group);
        } else if self.written(E14) && max_requests > 0 && processed >= max_requests {
            self.detach_process(identifier, Reason::MaxRequests);
            self.settle(group);
        } else if self.is_of_use(group) {
            self.settle(group);
        } else {
            self.refresh(group);
        }
    }

    /// Whether a process that has become less busy can be of use to anybody.
    fn is_of_use(&self, group: GroupId) -> bool {
        !self.groups[group].queue.is_empty() || !self.first.is_empty()
    }
}
