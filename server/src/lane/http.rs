//! HTTP/1.1 over connections that stay open between requests (`http_session`).

use crate::lane::parts::{Closed, Found, Message, Step, malformed};
use crate::lane::reply_head::{ReplyFraming, ReplyHead};
use crate::lane::session::{body_of, closed, step_of_body};
use crate::request::chunked;
use crate::request::fields::{Name, put_field, put_length};
use crate::request::framing::Reader;
use crate::request::head::{AnswerTo, RequestFraming};
use crate::request::numbers::{put_ip, put_number};
use crate::request::origin::Forwarded;
use cabrank_spawner::connections::Lent;
use cabrank_spawner::stream::AppStream;
use std::io::Write;

/// The byte NAK in place of an answer: the loader ends the connection, and the application does not see the request.
///
/// No response of Node begins with it, and a loader lets the application write nothing else.
const REFUSAL: u8 = 0x15;

/// A borrowed connection.
#[derive(Debug)]
pub(crate) struct Http {
    lent: Lent,
    /// The body of the answer; `None`: its head has not arrived.
    body: Option<Reader>,
}

impl Http {
    pub(crate) fn new(lent: Lent) -> Self {
        Http { lent, body: None }
    }

    pub(crate) fn stream(&mut self) -> &mut AppStream {
        self.lent.stream()
    }

    pub(crate) fn push_body(&self, out: &mut Vec<u8>, framing: RequestFraming, part: &[u8]) {
        match framing {
            RequestFraming::Chunked => chunked::push(out, part),
            RequestFraming::None | RequestFraming::Length(_) => out.extend_from_slice(part),
        }
    }

    pub(crate) fn push_end(&self, out: &mut Vec<u8>, framing: RequestFraming) {
        if framing == RequestFraming::Chunked {
            out.extend_from_slice(chunked::END);
        }
    }

    pub(crate) fn step(
        &mut self,
        input: &[u8],
        reply: &mut ReplyHead,
        to: AnswerTo,
    ) -> Result<Step, String> {
        match &mut self.body {
            Some(body) => step_of_body(body, input),
            None if input.first() == Some(&REFUSAL) && !self.lent.is_foreign() => {
                Ok(Step { skip: input.len(), what: Found::Refusal, ..Step::needs_more() })
            }
            None => {
                let parsed = reply.parse_http(input, to).map_err(malformed)?;
                let Some(skip) = parsed else { return Ok(Step::needs_more()) };
                if reply.is_interim() {
                    return Ok(Step { skip, what: Found::Interim, ..Step::needs_more() });
                }
                self.body = Some(body_of(reply));
                Ok(Step { skip, what: Found::Head, ..Step::needs_more() })
            }
        }
    }

    pub(crate) fn is_at_head(&self) -> bool {
        self.body.is_none()
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.body.as_ref().is_some_and(Reader::is_done)
    }

    pub(crate) fn closed(&self) -> Closed {
        closed(self.body.as_ref())
    }

    pub(crate) fn end_with_connection(&mut self) {
        self.body = Some(Reader::Done);
    }

    /// Keeps the connection, unless the application closes it after this answer.
    ///
    /// A careless program sends a body all the same with an answer that has none: to HEAD, and with 204 and 304. Another
    /// one does not read the body of a request, and takes it for the next request: see [`push_head`].
    pub(crate) fn give_back(self, reply: &ReplyHead, request: RequestFraming) {
        let has_end = match reply.framing() {
            ReplyFraming::Length(_) | ReplyFraming::Chunked => true,
            ReplyFraming::None => !self.lent.is_foreign(),
            ReplyFraming::UntilClose => false,
        };
        let is_last = self.lent.is_foreign() && request.has_bytes();
        if has_end && !is_last && !reply.closes() {
            self.lent.keep();
        }
    }

    pub(crate) fn into_stream(self) -> Option<AppStream> {
        self.lent.detach()
    }
}

/// The program that gets requests by HTTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiver<'a> {
    /// Whether its HTTP is not ours.
    pub(crate) is_foreign: bool,
    /// The password of the origin in front of each target; `None`: the program does not know such an origin.
    pub(crate) password: Option<&'a str>,
}

/// Appends the head of a request to an application that speaks HTTP.
///
/// The connection to the application stays open. An `Upgrade` of the client is passed on. The application
/// sees the fields of proxies that [`origin`](crate::request::origin) allows.
///
/// A loader gets the origin of the request in front of the target, and the fields as a trusted proxy has sent them. The server
/// is no proxy for it, and adds no address. A client cannot forge the origin: whatever the client sends is part of the target
/// behind it. To another program the server is a proxy, and adds its own client.
///
/// A program whose HTTP is not ours (`is_foreign`) may leave a body unread, and go on to parse it as a request. The client would
/// choose such a request, and another client would get its answer. So a request with a body is the last of its connection,
/// which the program learns, too. It then offers no upgrade, because that would go on after the body.
pub(crate) fn push_head(out: &mut Vec<u8>, message: Message<'_>, receiver: Receiver<'_>) {
    let Receiver { is_foreign, password } = receiver;
    let Message { head, peer, origin, framing, mount, underscores } = message;
    out.extend_from_slice(head.method().as_bytes());
    out.push(b' ');
    if let Some(password) = password {
        push_origin(out, origin, &head.target()[..mount], password);
    }
    out.extend_from_slice(head.target());
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    if head.values(Name::Host).next().is_some() {
        out.extend_from_slice(head.host());
    } else {
        // HTTP/1.0 does not require a host, but HTTP/1.1 does, which the server speaks to the application.
        let _ = write!(out, "{}", peer.local);
    }
    out.extend_from_slice(b"\r\n");
    let mut has_scheme = false;
    for field in &head.fields {
        match field.known {
            _ if field.is_hop_by_hop => continue,
            // The server writes these itself.
            Name::Host | Name::ContentLength => continue,
            Name::ForwardedFor if password.is_none() || !origin.from_proxy => continue,
            Name::Expect => continue, // the server has answered it
            Name::Proxy | Name::Disguised => continue,
            Name::Underscored if !underscores => continue,
            Name::Forwarded | Name::ForwardedDetail if !origin.from_proxy => continue,
            Name::ForwardedProto if !origin.from_proxy => continue,
            Name::ForwardedProto => has_scheme = true,
            _ => {}
        }
        put_field(out, &head.bytes, field);
    }
    if password.is_none() {
        out.extend_from_slice(b"X-Forwarded-For: ");
        for value in head.values(Name::ForwardedFor).filter(|value| !value.is_empty()) {
            out.extend_from_slice(value);
            out.extend_from_slice(b", ");
        }
        put_ip(out, peer.remote.ip().to_canonical());
        out.extend_from_slice(b"\r\n");
        if !has_scheme {
            let _ = write!(out, "X-Forwarded-Proto: {}\r\n", origin.scheme.name());
        }
    }
    match framing {
        RequestFraming::None => {}
        RequestFraming::Length(length) => put_length(out, length),
        RequestFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    if is_foreign && framing.has_bytes() {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if let Some(protocols) = head.upgrade() {
        out.extend_from_slice(b"Connection: upgrade\r\nUpgrade: ");
        out.extend_from_slice(protocols);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the origin in front of a target: see [`Protocol::HttpSession`](cabrank_spawner::Protocol::HttpSession).
fn push_origin(out: &mut Vec<u8>, origin: &Forwarded, mount: &[u8], password: &str) {
    out.push(b'/');
    out.extend_from_slice(password.as_bytes());
    let Forwarded { remote, remote_port, scheme, .. } = origin;
    out.push(b',');
    out.extend_from_slice(scheme.name().as_bytes());
    out.push(b';');
    put_ip(out, *remote);
    out.push(b';');
    put_number(out, *remote_port);
    if !mount.is_empty() {
        out.push(b';');
        out.extend_from_slice(mount);
    }
    out.push(b',');
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
