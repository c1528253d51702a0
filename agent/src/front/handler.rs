//! One request: through the pool to a process, with a retry if that process was dying.

use super::error_page::{self, Trouble};
use super::leftover::Outbound;
use super::response_body::ResponseBody;
use super::{Failed, Inbound, Peer, Reached, http_exchange, session_exchange};
use crate::app::handshake::Protocol;
use crate::app::{Pool, Session};
use crate::config::Settings;
use crate::http::upload::Upload;
use cabrank::PoolOptions;
use cabrank::application_pool::{ConnectError, GetError};
use hyper::body::Incoming;
use hyper::header;
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use std::sync::Arc;
use tokio::sync::watch;

/// The largest number of attempts of one request, if processes die or connections are stale.
///
/// With fewer attempts, requests fail when all processes are killed one after the other. With more
/// attempts, a request that kills its process kills more of them.
const MAX_ATTEMPTS: usize = 5;
/// The largest number of failed connects of one request, as many as the pool itself allows.
const MAX_REFUSALS: usize = 10;

/// The parts of the agent that requests need.
pub(crate) struct Front {
    pub(crate) pool: Pool,
    /// One object for all requests: the pool compares pointers before it compares contents.
    pub(crate) options: PoolOptions,
    pub(crate) settings: Arc<Settings>,
    /// Becomes true when the agent shuts down.
    pub(crate) closing: watch::Receiver<bool>,
}

impl Front {
    /// Answers one request, if need be with an error page.
    ///
    /// Dropping the future cancels the request, and returns its place in the queue or its session.
    pub(crate) async fn handle(
        &self,
        peer: Peer,
        mut request: Request<Incoming>,
    ) -> Response<Outbound> {
        // A client that asks before it sends its body, and gets a refusal, sends another request next.
        let waits_to_be_asked = request.headers().contains_key(header::EXPECT);
        let mut upgrade = super::headers::asks_for_upgrade(request.headers())
            .then(|| hyper::upgrade::on(&mut request));
        let (mut parts, body) = request.into_parts();
        let host = super::host::settle(&mut parts);
        let upload = Upload::new(body, self.settings.max_body, self.settings.client_timeout);
        let inbound = Inbound { parts, upload, peer };
        let acceptable = host
            .map_err(|why| Trouble::Refused(StatusCode::BAD_REQUEST, why.to_owned()))
            .and_then(|()| self.acceptable(&inbound));
        let answered = match acceptable {
            Err(trouble) => Err(trouble),
            Ok(()) => self.answer(&inbound, &mut upgrade).await,
        };
        let response = answered.unwrap_or_else(|trouble| {
            let with_details = self.settings.shows_details();
            error_page::respond(&trouble, &inbound.parts.headers, with_details)
        });
        let is_body_wanted = match response.body() {
            ResponseBody::Http(_) => true, // the application may read on after its answer
            _ => waits_to_be_asked && !inbound.upload.is_touched(),
        };
        response.map(|body| Outbound::new(body, (!is_body_wanted).then_some(inbound.upload)))
    }

    fn acceptable(&self, inbound: &Inbound) -> Result<(), Trouble> {
        if inbound.parts.method == Method::CONNECT {
            let why = "this server is not a proxy".to_owned();
            return Err(Trouble::Refused(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        if inbound.upload.declares_too_much() {
            let why = format!("the limit for a body is {} bytes", self.settings.max_body);
            return Err(Trouble::Refused(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        Ok(())
    }

    async fn answer(
        &self,
        inbound: &Inbound,
        upgrade: &mut Option<OnUpgrade>,
    ) -> Result<Response<ResponseBody>, Trouble> {
        let mut tries = Tries::default();
        loop {
            let session = self.pool.get_async(&self.options).await.map_err(Trouble::Get)?;
            let done = match session.process.protocol {
                // The agent does not choose a socket with kept sessions yet.
                Protocol::Session | Protocol::KeptSession => {
                    session_exchange::exchange(session, inbound).await
                }
                Protocol::HttpSession => {
                    let only_new = tries.turned_down;
                    http_exchange::exchange(session, inbound, only_new, upgrade, &self.closing)
                        .await
                }
            };
            let failed = match done {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            let Failed { session, why, reached } = failed;
            let pid = session.as_ref().map_or(0, |session| session.process.pid);
            let is_gone = session.is_some_and(|session| give_back(session, reached));
            let again =
                !inbound.upload.is_touched() && tries.may_retry(&inbound.parts, reached, is_gone);
            let trouble = trouble(inbound, pid, why, reached, again);
            if !again {
                return Err(trouble);
            }
        }
    }
}

/// The failed attempts of one request.
#[derive(Debug, Default)]
struct Tries {
    failed: usize,
    refused: usize,
    /// Whether a living process has closed the connection without an answer.
    turned_down: bool,
}

impl Tries {
    /// Counts a failure, and returns whether a retry is safe (RFC 9110, 9.2.2).
    ///
    /// A retry is safe if the request has not reached the application, or if its method is idempotent.
    /// If a living process closed the connection, the request is retried once: the process may have
    /// closed it before the request came.
    fn may_retry(&mut self, request: &Parts, reached: Reached, is_gone: bool) -> bool {
        match reached {
            Reached::Verdict(_) => return false,
            Reached::TheApp if !request.method.is_idempotent() => return false,
            Reached::TheApp if !is_gone => return !std::mem::replace(&mut self.turned_down, true),
            Reached::Nowhere => self.refused += 1,
            Reached::NotTheApp | Reached::TheApp => self.failed += 1,
        }
        self.failed < MAX_ATTEMPTS && self.refused < MAX_REFUSALS
    }
}

/// Returns the session to the pool, and returns whether its process leaves the pool.
///
/// A process leaves if it is dying or refuses connections. A living process that closed this connection
/// stays: otherwise one bad URL could empty the pool.
fn give_back(session: Session, reached: Reached) -> bool {
    let is_gone = reached == Reached::Nowhere || session.process.is_dying();
    if is_gone {
        Session::fail(session);
    } else {
        // The process may have closed its other connections for the same reason.
        session.process.connections.close_idle(&session.process.endpoint);
    }
    is_gone
}

fn trouble(inbound: &Inbound, pid: u32, why: String, reached: Reached, again: bool) -> Trouble {
    if let Some((status, why)) = inbound.upload.broke() {
        return Trouble::Refused(*status, why.clone()); // the client's fault, not the application's
    }
    if reached == Reached::Verdict(StatusCode::BAD_REQUEST) {
        return Trouble::Refused(StatusCode::BAD_REQUEST, why);
    }
    if reached == Reached::Verdict(StatusCode::SERVICE_UNAVAILABLE) {
        return Trouble::Get(GetError::Connect(ConnectError::local(why)));
    }
    let next = if again { "retrying" } else { "giving up" };
    let (method, path) = (&inbound.parts.method, inbound.parts.uri.path());
    if again {
        tracing::debug!(pid, "App {pid}: no answer to {method} {path}: {why}; {next}");
    } else {
        tracing::warn!(pid, "App {pid}: no answer to {method} {path}: {why}; {next}");
    }
    Trouble::NoAnswer(why)
}
