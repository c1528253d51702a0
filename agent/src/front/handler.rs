//! One request: through the pool to a process, and again if that process turned out to be dying.

use super::error_page::{self, Trouble};
use super::leftover::Outbound;
use super::response_body::ResponseBody;
use super::upload::Upload;
use super::{Failed, Inbound, Peer, Reached, http_exchange, session_exchange};
use crate::app::handshake::Protocol;
use crate::app::{Pool, Session};
use crate::config::Settings;
use cabrank::{ConnectError, GetError, PoolOptions};
use hyper::body::Incoming;
use hyper::header;
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use std::sync::Arc;
use tokio::sync::watch;

/// How often a request is tried in all, if each try but the last ended with a process that died or a
/// connection that had gone stale. Fewer would fail requests when all processes are killed one after
/// the other; more would let a request that kills its process kill more of them.
const MAX_ATTEMPTS: usize = 5;
/// How many processes that cannot be connected to are passed over: as many as by the pool itself.
const MAX_REFUSALS: usize = 10;

/// What requests need.
pub(crate) struct Front {
    pub(crate) pool: Pool,
    /// One object for all requests: the pool compares pointers before it compares anything else.
    pub(crate) options: PoolOptions,
    pub(crate) settings: Arc<Settings>,
    /// Becomes true when the agent shuts down.
    pub(crate) closing: watch::Receiver<bool>,
}

impl Front {
    /// Answers one request, always. Dropping the future cancels it: its place in the queue, or its
    /// session, is given back.
    pub(crate) async fn handle(
        &self,
        peer: Peer,
        mut request: Request<Incoming>,
    ) -> Response<Outbound> {
        // Asked whether to send its body and told no, a client sends something else next.
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
        let is_wanted = match response.body() {
            ResponseBody::Http(_) => true, // what it answered early the application may go on reading
            _ => waits_to_be_asked && !inbound.upload.is_touched(),
        };
        response.map(|body| Outbound::new(body, (!is_wanted).then_some(inbound.upload)))
    }

    fn acceptable(&self, inbound: &Inbound) -> Result<(), Trouble> {
        if inbound.parts.method == Method::CONNECT {
            let why = "this is not a proxy".to_owned();
            return Err(Trouble::Refused(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        if inbound.upload.declares_too_much() {
            let why = format!("the limit is {} bytes", self.settings.max_body);
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
                Protocol::Session => session_exchange::exchange(session, inbound).await,
                Protocol::HttpSession => {
                    let afresh = tries.turned_down;
                    http_exchange::exchange(session, inbound, afresh, upgrade, &self.closing).await
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
                !inbound.upload.is_touched() && tries.once_more(&inbound.parts, reached, is_gone);
            let trouble = trouble(inbound, pid, why, reached, again);
            if !again {
                return Err(trouble);
            }
        }
    }
}

/// How often a request has failed.
#[derive(Debug, Default)]
struct Tries {
    failed: usize,
    refused: usize,
    /// A process that lives has closed the connection without an answer.
    turned_down: bool,
}

impl Tries {
    /// Counts a failure. Whether trying again can do no harm (RFC 9110, 9.2.2): none of it can have
    /// reached the application, or its method is idempotent. A process that lives, and closed the connection
    /// all the same, is asked once more only, in case it had closed it before the request came.
    fn once_more(&mut self, request: &Parts, reached: Reached, is_gone: bool) -> bool {
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

/// Gives the session back. A process that is dying, or cannot be connected to, leaves the pool: the
/// result is whether it does. One that lives and merely closed this connection stays: otherwise one bad
/// URL could empty the pool.
fn give_back(session: Session, reached: Reached) -> bool {
    let is_gone = reached == Reached::Nowhere || session.process.is_dying();
    if is_gone {
        session.fail();
    } else {
        // What made it close this one has perhaps closed the others.
        session.process.connections.close_kept(&session.process.key);
    }
    is_gone
}

fn trouble(inbound: &Inbound, pid: u32, why: String, reached: Reached, again: bool) -> Trouble {
    if let Some((status, why)) = inbound.upload.broke() {
        return Trouble::Refused(*status, why.clone()); // the client's doing, not the application's
    }
    if reached == Reached::Verdict(StatusCode::BAD_REQUEST) {
        return Trouble::Refused(StatusCode::BAD_REQUEST, why);
    }
    if reached == Reached::Verdict(StatusCode::SERVICE_UNAVAILABLE) {
        return Trouble::Get(GetError::Connect(ConnectError::local(why)));
    }
    let what = if again { "trying again" } else { "giving up" };
    let (method, path) = (&inbound.parts.method, inbound.parts.uri.path());
    if again {
        tracing::debug!(pid, "App {pid}: no answer to {method} {path}: {why}; {what}");
    } else {
        tracing::warn!(pid, "App {pid}: no answer to {method} {path}: {why}; {what}");
    }
    Trouble::NoAnswer(why)
}
