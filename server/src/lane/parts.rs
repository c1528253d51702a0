//! The words of all lanes: a request as they get it, the steps of its answer, and how far it has come.

use crate::request::head::{Head, RequestFraming};
use crate::request::origin::Forwarded;
use crate::request::peer::Peer;

/// A request as a process gets it: the head, and how the end of its body shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) head: &'a Head,
    pub(crate) peer: &'a Peer,
    pub(crate) origin: &'a Forwarded,
    pub(crate) framing: RequestFraming,
    /// The length of the path below which the application is served, at the start of the target.
    pub(crate) mount: usize,
    /// Whether the application gets fields with `_` in their names.
    pub(crate) underscores: bool,
}

/// How far a request without an answer has come. The retry depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The server could not connect to the process.
    Nowhere,
    /// No byte of the request can have reached the application.
    NotTheApp,
    /// The application may have seen the request, but sent no byte of an answer.
    TheApp,
    /// The application has sent an interim answer, which the client may have got.
    Interim,
    /// The application has sent bytes that are no answer. Another attempt would not help.
    Nonsense,
}

/// The result of one step of an answer.
///
/// The first `skip` bytes of the input are not data, then follow `data` bytes of the body, then `after` bytes
/// that are not data. The caller consumes all of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) skip: usize,
    pub(crate) data: usize,
    pub(crate) after: usize,
    pub(crate) what: Found,
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The input ends before the next part.
    NeedsMore,
    /// An interim answer: its head is in `reply`.
    Interim,
    /// The head is in `reply`.
    Head,
    /// Bytes of the body, or its end.
    Data,
    /// The connection refuses the request, which the application does not see.
    Refusal,
}

/// The meaning that the end of a process's connection has for the answer that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The answer is incomplete.
    Broken,
    /// It is the end of the answer if the process lives: the answer has no length.
    PerhapsWhole,
    /// The client lacks nothing: only the process's word that it has finished is missing.
    Whole,
}

/// How the work for a client that has left ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abandon {
    /// With the connection, which the server closes at once.
    AtOnce,
    /// With the connection, which the server closes a moment after the first byte of the answer.
    AfterFirstByte,
    /// With the end of the answer.
    AtItsEnd,
}

impl Step {
    /// Returns the step of an input that ends too early.
    pub(super) fn needs_more() -> Self {
        Step { skip: 0, data: 0, after: 0, what: Found::NeedsMore }
    }
}

/// Returns the error for a head that cannot be read.
pub(super) fn malformed(why: String) -> String {
    format!("the head of the application's answer is malformed: {why}")
}
