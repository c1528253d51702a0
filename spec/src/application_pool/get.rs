//! The pseudocode's `get`: looks at the restart file, checks out a process, and connects.
//!
//! A get makes up to ten attempts. A critical section checks out a process, and the client connects, in
//! [`At::Connecting`]. If that fails, the next section detaches the process and checks out another. With E38
//! as written these are two sections; in between, the client is in [`At::Again`].
//!
//! Errata: E16 (interruption), E19 (giving up), E24 (looking at the restart file), E31 (connect
//! failures), E38 (its turn). Invariants: INV-WAITING.

use crate::application_pool::configuration::{ClientId, GroupId};
use crate::application_pool::pool::{At, Client, Event, Failure, Pool};
use crate::application_pool::rules::Erratum::*;
use crate::application_pool::session::Ending;

impl Pool {
    pub(crate) fn get(&mut self, client: ClientId, group: GroupId, waits: bool) {
        let look = self.files[self.options_brought(group).restart_dir];
        let options = self.brought[group];
        let turn = 1 + self.clients.iter().map(|client| client.turn).max().unwrap_or(0);
        let (at, attempt, waited) = (At::Again, 1, false);
        self.clients[client] =
            Client { at, group, options, attempt, turn, waited, look, endless: false };
        self.checkout_without_lock(client, waits, true);
    }

    /// Makes another attempt, or (E17 as written) another try after a wake-up.
    pub(crate) fn retry(&mut self, client: ClientId) {
        self.checkout_without_lock(client, true, false);
    }

    pub(crate) fn connected(&mut self, client: ClientId) {
        let process = self.clients[client].at.process();
        self.clients[client].at = At::InSession(process);
    }

    /// Handles a failed connect. A crashed process is detached, and the client tries again. An error on
    /// the client's own side (E31) detaches no process, and another process would not help.
    pub(crate) fn connect_fails(&mut self, client: ClientId, local: bool) {
        let crashed = !local || self.written(E31);
        let ends = local || self.clients[client].attempt >= self.config().max_attempts;
        let ending = match crashed {
            false => Ending::Unused,
            true if ends || self.written(E38) => Ending::Failed,
            true => Ending::Refused,
        };
        self.end_session(client, ending);
        if ends {
            return self.fails(client, Failure::Connect);
        }
        self.clients[client].at = At::Again;
        self.clients[client].attempt += 1;
        if ending == Ending::Refused {
            // At once: otherwise a later get might be served in between (E38).
            self.retry(client);
        }
    }

    /// Ends a get that has no session yet: its deadline passed, or its caller cancelled it.
    pub(crate) fn give_up(&mut self, client: ClientId) {
        let Client { at, group, .. } = self.clients[client];
        match at {
            At::Connecting(_) => match self.written(E16) {
                true => {} // Its session stays counted.
                false => self.end_session(client, Ending::Unused),
            },
            At::Waiting(_) | At::Again => {
                let waiting = self.waiting;
                let waited = self.leave_queue(client);
                if self.written(E16) {
                    self.waiting = waiting;
                }
                if waited {
                    // The group may have stood in a line only for this get.
                    self.changed(group);
                }
            }
            At::Out | At::Spawning | At::InSession(_) => unreachable!("the client is in no get"),
        }
        self.fails(client, Failure::GaveUp);
    }

    /// Gives a process to a get.
    pub(crate) fn serve(&mut self, client: ClientId, process: usize) {
        self.leave_queue(client);
        self.clients[client].at = match self.config().connects {
            true => At::Connecting(Some(process)),
            false => At::InSession(Some(process)),
        };
        self.report(Event::Served { client, process });
    }

    /// Ends a get with an error.
    pub(crate) fn fails(&mut self, client: ClientId, why: Failure) {
        self.leave_queue(client);
        self.clients[client] = Client::OUT;
        self.report(Event::Failed { client, why });
    }

    fn leave_queue(&mut self, client: ClientId) -> bool {
        let group = self.clients[client].group;
        let queue = &mut self.groups[group].queue;
        let place = queue.iter().position(|&c| c == client);
        if let Some(place) = place {
            queue.remove(place);
            self.waiting -= 1;
        }
        place.is_some()
    }
}
