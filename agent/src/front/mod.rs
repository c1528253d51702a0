//! The path of a request from an HTTP client to an application process and back.
//!
//! - [`server`] accepts connections and speaks HTTP with clients;
//! - [`host`] finds the host of a request, and [`headers`] removes hop-by-hop fields;
//! - [`handler`] takes one request through the pool, and retries it if its process was dying;
//! - [`session_exchange`] and [`http_exchange`] speak the two protocols with a process, and
//!   [`session_codec`] encodes the first;
//! - [`response_body`] streams the answer;
//! - [`error_page`] is the response if there is no answer;
//! - [`leftover`] reads the rest of a request's body, so that its client can read the answer.

pub(crate) mod error_page;
pub(crate) mod handler;
pub(crate) mod headers;
pub(crate) mod host;
pub(crate) mod http_exchange;
pub(crate) mod leftover;
pub(crate) mod response_body;
pub(crate) mod server;
pub(crate) mod session_codec;
pub(crate) mod session_exchange;

use crate::app::Session;
use crate::chain::Chain;
use crate::http::upload::Upload;
use cabrank::application_pool::ConnectError;
use hyper::http::{StatusCode, request::Parts};
use std::net::SocketAddr;

/// One request that is not answered yet.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) parts: Parts,
    pub(crate) upload: Upload,
    pub(crate) peer: Peer,
}

/// The two addresses of a client's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// An exchange without an answer.
pub(crate) struct Failed {
    pub(crate) session: Option<Session>,
    pub(crate) why: String,
    pub(crate) reached: Reached,
}

impl Failed {
    /// Creates the failure of an exchange that got no connection.
    pub(crate) fn to_connect(session: Session, error: &ConnectError) -> Self {
        // The agent lacks descriptors or memory, so another process would not help.
        let local = Reached::Verdict(StatusCode::SERVICE_UNAVAILABLE);
        let reached = if error.is_local() { local } else { Reached::Nowhere };
        Failed { session: Some(session), why: Chain(error).to_string(), reached }
    }
}

/// How far a failed exchange had come. The retry depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The agent could not connect to the process.
    Nowhere,
    /// No byte of the request can have reached the application.
    NotTheApp,
    /// The application may have seen the request, but sent no byte of an answer.
    TheApp,
    /// The request or the answer is wrong, so a retry would not help.
    Verdict(StatusCode),
}
