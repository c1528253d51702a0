//! The end of a request: one type, from the exchange with a process to the page for the client.

use crate::lane::Reached;
use crate::observe::record::Ended;
use cabrank::application_pool::{ConnectError, GetError};

/// The end of a request.
#[derive(Debug)]
pub(crate) enum End {
    /// The client has the whole answer.
    Answered,
    /// The client has no byte of an answer, and gets a page.
    Refused(Refusal),
    /// The answer ended early, after it had begun. The client may have got a part of it.
    Cut(String),
    /// The client has left.
    Left,
    /// The answer has begun, but the client is too slow to read it, or to send its body, or its body is malformed.
    GivenUp(String),
    /// The answer has begun, but the work takes longer than `--max-request-time`.
    TooLong,
    /// The connection has spoken another protocol since an upgrade, and has ended.
    Switched,
}

/// The reason why a client gets a page instead of an answer.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The pool has no process for the request.
    NoProcess(GetError),
    /// The process gave no answer.
    NoAnswer { why: String, reached: Reached },
    /// The work takes longer than `--max-request-time`.
    TooLong,
    /// The server has no space for the request.
    NoSpace,
    /// The request is at fault.
    Request(u16, String),
    /// The request is at fault, and the server cannot find the next one behind it.
    Stream(u16, String),
}

impl End {
    /// Returns the kind, for the record.
    pub(crate) fn kind(&self) -> Ended {
        match self {
            End::Answered => Ended::Answered,
            End::Refused(_) => Ended::Refused,
            End::Cut(_) => Ended::Cut,
            End::Left => Ended::Left,
            End::GivenUp(_) => Ended::GivenUp,
            End::TooLong => Ended::TooLong,
            End::Switched => Ended::Switched,
        }
    }
}

impl Refusal {
    /// The server lacks descriptors or memory, so that another process would not help.
    pub(crate) fn local(why: String) -> Self {
        Refusal::NoProcess(GetError::Connect(ConnectError::local(why)))
    }

    /// Returns the end of a request whose client has got a part of an answer.
    pub(crate) fn after_a_part(self) -> End {
        match self {
            Refusal::NoAnswer { why, .. } => End::Cut(why),
            Refusal::TooLong => End::TooLong,
            Refusal::NoProcess(error) => End::GivenUp(error.to_string()),
            Refusal::NoSpace => End::GivenUp("the server has no space for the request".into()),
            Refusal::Request(_, why) | Refusal::Stream(_, why) => End::GivenUp(why),
        }
    }

    /// Returns whether the connection cannot be used again.
    pub(crate) fn closes(&self) -> bool {
        matches!(self, Refusal::NoProcess(GetError::Closed) | Refusal::Stream(..))
    }
}
