//! The server's side: it sends one request after another, and gives each answer to its client.

use crate::kept::rules::Planted::{
    AwaitsNothing, KeepsAbandoned, RetriesAfterByte, TakesCutForWhole,
};
use crate::kept::state::{Client, Connection, Foreign, Item, KeptSession, Kind, Request};

/// The most attempts for one request.
const ATTEMPTS: u8 = 2;

impl KeptSession {
    /// Returns the request that begins next, if the server may send one.
    pub fn next_request(&self) -> Option<Request> {
        let waits = |client: &Client| matches!(client, Client::Waits { .. });
        let next = self.clients.iter().position(waits)? as Request;
        (self.awaited.is_none() && self.to_send.is_empty()).then_some(next)
    }

    /// The server begins a request on the connection: it sends the head.
    pub fn begin(&mut self) {
        let Some(request) = self.next_request() else { return };
        let Client::Waits { attempt, .. } = self.clients[usize::from(request)] else { return };
        let item = |kind| Item { request, attempt, kind };
        self.awaited = Some(request);
        self.to_send = [Kind::Part, Kind::End].map(item).to_vec();
        self.transmit(item(Kind::Head));
    }

    /// The server sends the next item of its request.
    pub fn send_next(&mut self) {
        let item = self.to_send.remove(0);
        self.transmit(item);
    }

    fn transmit(&mut self, item: Item) {
        if let Some(connection) = self.connection.as_mut().filter(|c| !c.is_ended) {
            connection.requests.push(item);
        }
    }

    /// The server receives the next item of the answer.
    pub fn receive(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let item = connection.answers.remove(0);
        let Some(request) = self.awaited else {
            return self.hang_up();
        };
        let client = &mut self.clients[usize::from(request)];
        if item.request != request && *client != Client::Left {
            self.foreign.get_or_insert(Foreign::Got(request, item.request));
        }
        if let Client::Waits { begun, .. } = client {
            let first = *begun.get_or_insert(item.attempt);
            self.has_mixed |= item.request == request && item.attempt != first;
        }
        match item.kind {
            Kind::End => {
                self.awaited = None;
                if *client == Client::Left {
                    return self.hang_up();
                }
                *client = Client::Answered;
            }
            Kind::Abort => {
                if *client != Client::Left {
                    *client = Client::Cut;
                }
                self.hang_up();
            }
            _ => {}
        }
    }

    /// The server notices that the loader has ended the connection.
    pub fn notice_end(&mut self) {
        let retries_late = self.rules.has(RetriesAfterByte);
        if let Some(request) = self.awaited {
            let client = &mut self.clients[usize::from(request)];
            if let Client::Waits { attempt, begun } = *client {
                let may = (begun.is_none() || retries_late) && attempt + 1 < ATTEMPTS;
                *client = match may {
                    _ if self.rules.has(TakesCutForWhole) && begun.is_some() => Client::Answered,
                    true => Client::Waits { attempt: attempt + 1, begun },
                    false => Client::Cut,
                };
            }
        }
        self.hang_up();
    }

    /// The client leaves. `at_once`: the server ends the connection; else it awaits the end of the answer.
    pub fn abandon(&mut self, at_once: bool) {
        let Some(request) = self.awaited else { return };
        self.clients[usize::from(request)] = Client::Left;
        if self.rules.has(KeepsAbandoned) {
            self.awaited = None;
            return;
        }
        self.to_send.clear();
        if at_once {
            return self.hang_up();
        }
        if let Some(connection) = &mut self.connection {
            connection.is_half_closed = true;
        }
    }

    /// The server opens a connection.
    pub fn connect(&mut self) {
        self.connection = Some(Connection::default());
        self.connections += 1;
    }

    /// Ends the connection, from the server's side.
    fn hang_up(&mut self) {
        if !self.rules.has(AwaitsNothing) {
            self.awaited = None;
        }
        self.to_send.clear();
        self.connection = None;
        self.unread = None;
    }
}
