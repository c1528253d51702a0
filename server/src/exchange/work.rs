//! The application's side of one request: the session and the connection.

use crate::client::encode;
use crate::exchange::end::{Reached, Refusal};
use crate::exchange::processes::Hold;
use crate::lane::decoder::Decoder;
use crate::lane::pairs;
use crate::request::body::Body;
use crate::request::head::{RequestFraming, RequestHead};
use crate::request::origin::{Forwarded, Peer};
use cabrank::application_pool::ConnectError;
use cabrank_spawner::Protocol;
use cabrank_spawner::chain::Chain;
use cabrank_spawner::connections::Lent;
use cabrank_spawner::process::AppInfo;
use cabrank_spawner::stream::AppStream;
use std::sync::Arc;
use std::time::Instant;

/// The session and the connection of a request.
///
/// Dropping it closes the connection, and ends the session.
#[derive(Debug)]
pub(crate) struct Work {
    /// Declared first: the connection closes before the session ends.
    pub(crate) link: Link,
    /// `None` once the application has sent its whole answer.
    pub(crate) hold: Option<Hold>,
    pub(crate) process: Arc<AppInfo>,
    pub(crate) decoder: Decoder,
    /// Whether any byte of the request was sent.
    pub(crate) has_written: bool,
    /// The beginning of the session.
    pub(crate) since: Instant,
}

/// The connection to the process.
#[derive(Debug)]
pub(crate) enum Link {
    /// The request's own connection (`session`).
    Own(AppStream),
    /// A connection that stays open (`http_session`, kept sessions).
    Lent(Lent),
}

impl Link {
    pub(crate) fn stream(&mut self) -> &mut AppStream {
        match self {
            Link::Own(stream) => stream,
            Link::Lent(lent) => lent.stream(),
        }
    }
}

impl Work {
    /// Opens or borrows the session's connection, and encodes the head of the request into `to_app`.
    ///
    /// # Errors
    /// The caller ends the session according to the state of its process.
    pub(crate) async fn begin(
        mut hold: Hold,
        core: usize,
        request: Request<'_>,
        to_app: &mut Vec<u8>,
    ) -> Result<Work, (Hold, Refusal)> {
        let process = Arc::clone(&hold.process);
        if let Err(why) = encode_head(&process, request, to_app) {
            return Err((hold, Refusal::Request(400, why)));
        }
        let link = match process.protocol {
            Protocol::Session => match hold.opened.take() {
                Some(opened) => {
                    AppStream::finish(opened, &process.endpoint.address).await.map(Link::Own)
                }
                None => Err(ConnectError::local("the session has no connection")),
            },
            Protocol::KeptSession | Protocol::HttpSession => {
                let lent = process.connections.borrow(&process.endpoint, core);
                lent.await.map(Link::Lent)
            }
        };
        match link {
            Ok(link) => {
                let decoder = Decoder::new(process.protocol);
                let (hold, since) = (Some(hold), Instant::now());
                Ok(Work { link, hold, process, decoder, has_written: false, since })
            }
            Err(e) => {
                let why = Chain(&e).to_string();
                let refusal = match e.is_local() {
                    true => Refusal::local(why),
                    false => Refusal::NoAnswer { why, reached: Reached::Nowhere },
                };
                Err((hold, refusal))
            }
        }
    }

    /// Returns the connection after a complete exchange, and ends the session.
    ///
    /// The connection comes first, so that the next session can borrow it.
    pub(crate) fn finish(self, can_keep: bool) {
        let Work { link, hold, process, .. } = self;
        process.set_answered();
        match link {
            Link::Lent(lent) if can_keep => lent.keep(),
            link => drop(link),
        }
        drop(hold);
    }

    /// Returns whether the process takes one request at a time, or a few.
    pub(crate) fn is_limited(&self) -> bool {
        self.process.concurrency > 0
    }
}

/// A request whose body has been read, as far as it is read before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) head: &'a RequestHead,
    pub(crate) body: &'a Body,
    pub(crate) peer: &'a Peer,
    pub(crate) origin: &'a Forwarded,
}

fn encode_head(
    process: &AppInfo,
    request: Request<'_>,
    to_app: &mut Vec<u8>,
) -> Result<(), String> {
    let Request { head, body, peer, origin } = request;
    to_app.clear();
    if process.protocol == Protocol::HttpSession {
        encode::http_request(to_app, head, peer, origin, body.framing());
        return Ok(());
    }
    let length = match body.framing() {
        RequestFraming::Length(length) => Some(length),
        RequestFraming::None | RequestFraming::Chunked => None,
    };
    pairs::session_pairs(to_app, head, peer, origin, &process.password, length)
        .map_err(|refused| refused.why.into_owned())
}
