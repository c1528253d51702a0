//! The pseudocode's `session_has_been_closed`.
//!
//! In the pseudocode a session refers to its process weakly: its close has no effect after the process is gone. The
//! pseudocode reads `detached` without the lock (E15). An action is one step, so this machine cannot
//! express that; the models of the real code do.
//!
//! Errata: E13 (a draining process), E14 (max_requests), E36 (the last session), E37 (making room). Invariants:
//! INV-MAX-REQUESTS, INV-PROCESS-IDLE, INV-INACTIVE-ORDER.

use crate::application_pool::checkout::End;
use crate::application_pool::configuration::ClientId;
use crate::application_pool::pool::{Client, Place, Pool, Reason};
use crate::application_pool::rules::Erratum::*;

/// The end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The client closed it: one more request is processed.
    Closed,
    /// The client never used it.
    Unused,
    /// The process broke it.
    Failed,
    /// The process refused the connection. The client looks for another in the same section, which settles.
    Refused,
}

impl Pool {
    /// Ends a client's session and its get.
    pub(crate) fn session_has_been_closed(&mut self, client: ClientId, ending: Ending) {
        self.end_session(client, ending);
        self.clients[client] = Client::OUT;
    }

    pub(crate) fn end_session(&mut self, client: ClientId, ending: Ending) {
        let Some(identifier) = self.clients[client].at.process() else { return };
        // From here on the client no longer counts for the process.
        self.clients[client].at = crate::application_pool::pool::At::InSession(None);
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
        let proved = self.session_proves(self.process(identifier));
        let info = self.process_mut(identifier);
        info.sessions -= 1;
        info.processed += usize::from(ending == Ending::Closed);
        info.last_used = now;
        if proved && matches!(ending, Ending::Closed | Ending::Failed) {
            info.failures_before = None;
        }
        let idle = info.is_idle();
        let processed = info.processed;
        // The pseudocode's move_to_front for an idle process; a busy one goes behind its equals.
        self.insert(identifier, if idle { End::Front } else { End::Back });
        if idle {
            self.groups[group].idle += 1;
            self.inactive_apps.push(identifier);
            self.mutate_active(self.active - 1);
        }
        let info = self.process(identifier);
        let (retires, marked) = (self.place(info) == Place::Retiring, info.marked);
        let max_requests = self.options_of(info).max_requests;
        if matches!(ending, Ending::Failed | Ending::Refused) {
            self.detach_failed(identifier);
        } else if idle && self.makes_room(group) {
            // Before the group's own gets: otherwise these could keep the place for ever (E37).
            self.detach_process(identifier, Reason::Evicted(None));
        } else if idle && retires {
            let reason = if marked { Reason::Evicted(None) } else { Reason::MaxRequests };
            self.detach_process(identifier, reason);
        } else if self.written(E14) && max_requests > 0 && processed >= max_requests {
            self.detach_process(identifier, Reason::MaxRequests);
        }
        self.changed(group);
        if idle {
            self.tell_of_idle();
        }
    }
}
