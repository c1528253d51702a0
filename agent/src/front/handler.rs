//! One request: through the pool to a process, and again if that process turned out to be dying.

use super::error_page::{self, Trouble};
use super::leftover::Outbound;
use super::response_body::ResponseBody;
use super::upload::Upload;
use super::{Failed, Inbound, Peer, Reached, http_exchange, session_exchange};
use crate::app::Pool;
use crate::app::handshake::Protocol;
use crate::config::Settings;
use cabrank::PoolOptions;
use hyper::body::Incoming;
use hyper::header;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use std::sync::Arc;
use tokio::sync::watch;

/// How often a request is tried in all. Each try but the last ended with a process that died or a
/// connection that had gone stale. Fewer would fail requests when all processes are killed one after
/// the other; more would let a request that kills its process kill more of them.
const MAX_ATTEMPTS: usize = 5;

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
        let mut attempt = 1;
        loop {
            let session = self.pool.get_async(&self.options).await.map_err(Trouble::Get)?;
            let done = match session.process.protocol {
                Protocol::Session => session_exchange::exchange(session, inbound).await,
                Protocol::HttpSession => {
                    http_exchange::exchange(session, inbound, upgrade, &self.closing).await
                }
            };
            let failed = match done {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            let again = attempt < MAX_ATTEMPTS && may_try_again(inbound, failed.reached);
            let trouble = settle(inbound, failed, again);
            if !again {
                return Err(trouble);
            }
            attempt += 1;
        }
    }
}

/// Whether trying once more can do no harm.
fn may_try_again(inbound: &Inbound, reached: Reached) -> bool {
    let can_be_sent_again = !inbound.upload.is_touched();
    match reached {
        Reached::Nowhere | Reached::NotTheApp => can_be_sent_again,
        Reached::TheApp => can_be_sent_again && inbound.parts.method.is_idempotent(),
        Reached::Verdict(_) => false,
    }
}

/// Gives the session back. A process that is dying, or cannot be connected to, leaves the pool. One
/// that lives and merely closed this connection stays: otherwise one bad URL could empty the pool.
fn settle(inbound: &Inbound, failed: Failed, again: bool) -> Trouble {
    let Failed { session, why, reached } = failed;
    let mut pid = 0;
    if let Some(session) = session {
        pid = session.process.pid;
        if reached == Reached::Nowhere || session.process.is_dying() {
            session.fail();
        } else {
            session.process.drop_kept();
        }
    }
    if let Some((status, why)) = inbound.upload.broke() {
        return Trouble::Refused(*status, why.clone()); // the client's doing, not the application's
    }
    if reached == Reached::Verdict(StatusCode::BAD_REQUEST) {
        return Trouble::Refused(StatusCode::BAD_REQUEST, why);
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
