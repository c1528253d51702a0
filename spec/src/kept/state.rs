//! The state of a kept session.

use crate::kept::rules::Rules;

/// The number of a request, which is the number of its client, too.
pub type Request = u8;

/// An item of a request or of an answer, on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// The request that it belongs to.
    pub request: Request,
    /// The attempt: a request that is sent again has a second one.
    pub attempt: u8,
    /// Its kind.
    pub kind: Kind,
}

/// The kinds of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The head of a request.
    Head,
    /// A part of a request's body.
    Part,
    /// Head or body of an answer.
    Data,
    /// The end of a request, or of an answer.
    End,
    /// The answer stays incomplete.
    Abort,
}

/// How far a client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// It waits: for its turn, or for its answer.
    Waits {
        /// The attempt that comes next, or that is under way.
        attempt: u8,
        /// The attempt whose answer has begun to come.
        begun: Option<u8>,
    },
    /// It has left before the end of its answer.
    Left,
    /// It has the whole answer.
    Answered,
    /// It has a part of the answer, or an error.
    Cut,
}

/// A connection between the server and the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Connection {
    /// From the server to the loader.
    pub requests: Vec<Item>,
    /// From the loader to the server.
    pub answers: Vec<Item>,
    /// Whether the server has ended its output: the client of the request has left.
    pub is_half_closed: bool,
    /// Whether the loader has ended the connection. Items that it has sent before still arrive.
    pub is_ended: bool,
}

/// The request that the loader serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Serving {
    /// The request.
    pub request: Request,
    /// The attempt.
    pub attempt: u8,
    /// Whether the application has written.
    pub has_written: bool,
}

/// A thread that the application has left behind, to read a request or to write its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Remnant {
    /// There was none yet.
    #[default]
    None,
    /// It is between two calls.
    Free,
    /// It is within a call, which has looked whether the request has ended, and waits for bytes or is about to send.
    Within,
    /// It has ended.
    Ended,
}

/// A process that the application has forked while it served a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Child {
    /// There was none yet.
    #[default]
    None,
    /// It runs.
    Runs {
        /// Whether it has written.
        has_written: bool,
    },
    /// It has left.
    Left,
}

/// The remnants of one request, which the application has left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Left {
    /// The attempt that has left it behind.
    pub attempt: u8,
    /// The number of the connection by which the request has come.
    pub connection: u8,
    /// Whether the input has not ended.
    pub is_input_open: bool,
    /// Whether the end of the request has been read, by any thread.
    pub is_read: bool,
    /// A thread that reads the request.
    pub reader: Remnant,
    /// A thread that writes the answer.
    pub writer: Remnant,
    /// A forked child.
    pub child: Child,
}

/// A byte that came to the wrong place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Foreign {
    /// The input of the first request has yielded bytes of the second.
    Read(Request, Request),
    /// The client of the first request has got bytes of the second's answer.
    Got(Request, Request),
}

/// A kept session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeptSession {
    /// The rules.
    pub rules: Rules,
    /// The clients, one for each request.
    pub clients: Vec<Client>,
    /// The request whose answer the server awaits.
    pub awaited: Option<Request>,
    /// The items of its last request that the server has still to send.
    pub to_send: Vec<Item>,
    /// The connection.
    pub connection: Option<Connection>,
    /// The number of connections so far, which is the number of the last one.
    pub connections: u8,
    /// The request that the loader serves.
    pub serving: Option<Serving>,
    /// The request whose rest the loader discards.
    pub unread: Option<Request>,
    /// The remnants of each request.
    pub left: Vec<Left>,
    /// The first byte that came to the wrong place.
    pub foreign: Option<Foreign>,
    /// Whether the process has crashed, and another has taken its place.
    pub has_crashed: bool,
    /// Whether a client has got bytes of two attempts.
    pub has_mixed: bool,
}

impl KeptSession {
    /// Returns the state before the first request.
    pub fn new(requests: usize, rules: Rules) -> Self {
        KeptSession {
            rules,
            clients: vec![Client::Waits { attempt: 0, begun: None }; requests],
            awaited: None,
            to_send: vec![],
            connection: None,
            connections: 0,
            serving: None,
            unread: None,
            left: vec![Left::default(); requests],
            foreign: None,
            has_crashed: false,
            has_mixed: false,
        }
    }

    /// Returns what was left behind of a request.
    pub fn left(&mut self, request: Request) -> &mut Left {
        &mut self.left[usize::from(request)]
    }

    /// Returns the connection by which a request has come, unless it has ended.
    pub fn connection_of(&mut self, request: Request) -> Option<&mut Connection> {
        let is_same = self.left(request).connection == self.connections;
        self.connection.as_mut().filter(|connection| is_same && !connection.is_ended)
    }

    /// Takes the next item that the server has sent, for the input of a request.
    pub fn take(&mut self, reader: Request) -> Option<Item> {
        let connection = self.connection_of(reader)?;
        let item = (!connection.requests.is_empty()).then(|| connection.requests.remove(0))?;
        if item.request != reader {
            self.foreign.get_or_insert(Foreign::Read(reader, item.request));
        }
        self.left(reader).is_read |= item.kind == Kind::End;
        Some(item)
    }

    /// Sends an item of an answer to the server. On a connection that has ended it gets lost.
    pub fn send(&mut self, request: Request, attempt: u8, kind: Kind) {
        if let Some(connection) = self.connection_of(request) {
            connection.answers.push(Item { request, attempt, kind });
        }
    }

    /// Ends the connection, from the loader's side.
    pub fn end_connection(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.is_ended = true;
            connection.requests.clear();
        }
        self.unread = None;
    }
}
