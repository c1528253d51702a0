//! The kept session as a pure state machine: whose bytes an application reads, and whose bytes a client gets.
//!
//! A kept session carries one request after another over one connection between the server and a process
//! (`docs/kept-sessions.md`). Each request may belong to another client. The application may leave something behind that
//! outlives the answer: a thread that goes on reading the request, a thread that goes on writing the answer, or a
//! process that it has forked. The machine shows what each of them may do, and when.
//!
//! The machine runs *as ruled*, or *as written*: with one of the [defects](rules::Defect) of the loaders before these rules.
//!
//! # The state
//! A [`KeptSession`](state::KeptSession) is a value, without threads, clocks and sockets. It has:
//!
//! * for each request, how far its client has come: waiting, answered, cut or left;
//! * the connection: the bytes on their way in both directions, and which side has ended;
//! * the loader: the request that it serves, and the one whose rest it discards;
//! * the remnants of each request: a reader, a writer and a child.
//!
//! A request has three items, its *head*, a *part* of its body and its *end*. An answer has *data* and its *end*, or it is
//! *aborted*. Each item carries the number of its request and of the attempt, so that a foreign one shows.
//!
//! # The rules
//! * The input of a request ends before the end of its answer is sent. A read and this end exclude each other. If a read is
//!   in progress at that moment, the loader ends the connection.
//! * A write and the end of the answer exclude each other.
//! * A forked child uses no socket of its parent, and leaves.
//! * The loader discards the rest of a request to its end before it takes the next head.
//! * The server sends no request before the previous answer has ended. It ends a connection on which bytes come while it
//!   awaits none, and after an abort.
//! * The server keeps no connection whose client has left before the end of the answer.
//! * The server sends a request again only if no byte of an answer has come.
//!
//! # Reading it
//! Start with [`state`], [`server`] and [`loader`] (about 300 lines). [`properties`] states what holds, and [`machine`] lists
//! the possible actions. [`check`](crate::checking::check) visits every state of each of the [`configurations`]. [`story`] writes a
//! counterexample down. [`walks`] chooses walks through the machine, which `conformance.py` plays against real loaders.
//!
//! # What is not promised
//! * The loader may never learn that a thread has left bytes of the request unread: it discards them.
//! * The machine has one connection at a time. Connections of one process share nothing but the application.

pub mod configurations;
pub mod loader;
pub mod machine;
pub mod properties;
pub mod rules;
pub mod server;
pub mod state;
pub mod story;
pub mod system;
pub mod walks;
