//! The text's `get`: looks at the restart file, checks a process out, connects.
//!
//! The text tries up to ten times, each time in two critical sections: one that checks a process out,
//! one that detaches it if connecting to it failed. In between, a client is in
//! [`At::Connecting`]; before another attempt, in [`At::Again`].
//!
//! Errata: E16 (who is interrupted), E19 (who gives up), E24 (when the restart file is looked at), E31
//! (whose fault it is). Invariants: INV-WAITING.

use crate::configuration::{ClientId, GroupId};
use crate::pool::{At, Client, Event, Failure, Pool};
use crate::rules::Erratum::*;
use crate::session::Ending;

impl Pool {
    pub(crate) fn get(&mut self, client: ClientId, group: GroupId, waits: bool) {
        let look = self.files[self.options_brought(group).restart_dir];
        let options = self.brought[group];
        self.clients[client] = Client { at: At::Again, group, options, attempt: 1, look };
        self.checkout_without_lock(client, waits, true);
    }

    /// Another attempt, or (E17 as written) another turn of a wait that was woken.
    pub(crate) fn retry(&mut self, client: ClientId) {
        self.checkout_without_lock(client, true, false);
    }

    pub(crate) fn connected(&mut self, client: ClientId) {
        let process = self.clients[client].at.process();
        self.clients[client].at = At::InSession(process);
    }

    /// The app process seems to have crashed; or it is the client's own side (E31), which condemns
    /// nobody and which no other process would mend.
    pub(crate) fn connect_fails(&mut self, client: ClientId, local: bool) {
        let condemns = !local || self.written(E31);
        self.end_session(client, if condemns { Ending::Failed } else { Ending::Unused });
        if local || self.clients[client].attempt >= self.config().max_attempts {
            self.fails(client, Failure::Connect);
        } else {
            self.clients[client].at = At::Again;
            self.clients[client].attempt += 1;
        }
    }

    /// A get ends before it has a session: its time is up, or whoever asked has gone.
    pub(crate) fn give_up(&mut self, client: ClientId) {
        let Client { at, group, .. } = self.clients[client];
        match at {
            At::Connecting(_) => match self.written(E16) {
                true => {} // Nobody counts its session down.
                false => self.end_session(client, Ending::Unused),
            },
            At::Waiting(_) | At::Again => {
                let waiting = self.waiting;
                let waited = self.leave_queue(client);
                if self.written(E16) {
                    self.waiting = waiting;
                }
                if waited {
                    // The group may have stood in line for this get alone.
                    self.settle(group);
                }
            }
            At::Out | At::Spawning | At::InSession(_) => unreachable!("it is not in a get"),
        }
        self.fails(client, Failure::GaveUp);
    }

    /// A get has a process.
    pub(crate) fn serve(&mut self, client: ClientId, process: usize) {
        self.leave_queue(client);
        self.clients[client].at = match self.config().connects {
            true => At::Connecting(Some(process)),
            false => At::InSession(Some(process)),
        };
        self.tell(Event::Served { client, process });
    }

    /// A get ends with an error.
    pub(crate) fn fails(&mut self, client: ClientId, why: Failure) {
        self.leave_queue(client);
        self.clients[client] = Client::OUT;
        self.tell(Event::Failed { client, why });
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
