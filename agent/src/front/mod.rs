//! From an HTTP client to an application process and back.
//!
//! [`server`] accepts and speaks HTTP with clients; [`host`] settles whom a request is for; [`handler`]
//! takes one request through the pool, again if the process it met was dying; [`session_exchange`] and
//! [`http_exchange`] are the two ways of talking to a process, with [`session_codec`] for the bytes of
//! the first. Bodies are streamed both ways ([`upload`], [`response_body`]), and clients waited for with
//! [`patience`]; [`error_page`] is what is said when there is no answer, and [`leftover`] sees to it that
//! a client that is still sending can read what it is told.

pub(crate) mod error_page;
pub(crate) mod handler;
pub(crate) mod headers;
pub(crate) mod host;
pub(crate) mod http_exchange;
pub(crate) mod leftover;
pub(crate) mod patience;
pub(crate) mod response_body;
pub(crate) mod server;
pub(crate) mod session_codec;
pub(crate) mod session_exchange;
pub(crate) mod upload;

use crate::app::Session;
use cabrank::ConnectError;
use hyper::http::{StatusCode, request::Parts};
use std::net::SocketAddr;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One request, as long as it is not answered.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) parts: Parts,
    pub(crate) upload: upload::Upload,
    pub(crate) peer: Peer,
}

/// Who asks, and where they came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// An exchange that gave no answer.
pub(crate) struct Failed {
    pub(crate) session: Option<Session>,
    pub(crate) why: String,
    pub(crate) reached: Reached,
}

impl Failed {
    /// There was no connection to send it over.
    pub(crate) fn to_connect(session: Session, error: &ConnectError) -> Self {
        // The agent's own want of descriptors or memory: another process would not help.
        let local = Reached::Verdict(StatusCode::SERVICE_UNAVAILABLE);
        let reached = if error.is_local() { local } else { Reached::Nowhere };
        Failed { session: Some(session), why: error.to_string(), reached }
    }
}

/// How far a failed exchange had come: what may be done about it follows from this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// No connection to the process could be made.
    Nowhere,
    /// No byte of the request can have reached the application.
    NotTheApp,
    /// The application may have seen the request, and no byte of an answer came.
    TheApp,
    /// There is something wrong with the request or the answer; asking again would not help.
    Verdict(StatusCode),
}
