//! One request: its head, its body, and the end of its answer. [`attempts`] gets the answer.

use crate::client::encode::{self, ConnectionField, OwnReply};
use crate::client::proxy_protocol::{ProxyHead, proxy_head};
use crate::configuration::ServerLimits;
use crate::connection::core::{Core, Scratch};
use crate::connection::pace::Pace;
use crate::connection::watched::{Connection, Left};
use crate::exchange::attempts;
use crate::exchange::end::{End, Refusal};
use crate::exchange::error_page;
use crate::exchange::serving::Serving;
use crate::request::body::Body;
use crate::request::head::{AnswerTo, BadRequest, Limits, MAX_FIELDS};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// How long a stop waits for the rest of a head.
const LAST_HEAD: Duration = Duration::from_secs(1);
/// How long the server reads the rest of a body that it does not need.
///
/// To close a connection with unread input resets it. A client that is still sending then sees the reset
/// instead of the answer, for example that its upload is too large.
const LEFTOVER: Duration = Duration::from_secs(10);
/// How long the server reads what follows a malformed request, for the same reason.
const LINGER: Duration = Duration::from_secs(2);

/// The next step of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// No request has come.
    Wait,
    /// It waits for another request.
    Served,
    Close,
}

/// Serves the requests that have arrived.
pub(crate) async fn serve(core: &Core, client: &mut Connection, has_served: bool) -> Next {
    let mut scratch = core.scratch();
    let next = serve_all(core, client, &mut scratch, has_served).await;
    core.recycle(scratch);
    next
}

async fn serve_all(
    core: &Core,
    client: &mut Connection,
    scratch: &mut Scratch,
    has_served: bool,
) -> Next {
    let serving = &*core.serving;
    let limits = &serving.limits;
    let is_proxy = serving.trusted_proxies.contains(client.peer.remote.ip().to_canonical());
    if !has_served && is_proxy && !read_proxy_head(limits, client, scratch).await {
        return Next::Close;
    }
    let mut next = Next::Wait;
    loop {
        match read_head(limits, client, scratch).await {
            Head::Nothing => return next,
            Head::Complete => {}
            Head::Closed => return Next::Close,
            Head::Refused(status, why) => {
                let refusal = Refusal::Request(status, why);
                let _ = respond(serving, client, scratch, &refusal, ConnectionField::Close).await;
                linger(client, scratch).await;
                return Next::Close;
            }
        }
        let stays = serve_one(core, client, scratch).await;
        // A client that half-closes gets an answer to each request that it has sent.
        let is_last = client.has_ended && scratch.input.is_empty();
        if !stays || client.is_closing() || is_last {
            return Next::Close;
        }
        next = Next::Served;
        if scratch.input.is_empty() {
            return next;
        }
    }
}

/// Reads the head of the PROXY protocol, if there is one. Returns false if the connection ends.
async fn read_proxy_head(
    limits: &ServerLimits,
    client: &mut Connection,
    scratch: &mut Scratch,
) -> bool {
    loop {
        match proxy_head(scratch.input.unread()) {
            Ok(ProxyHead::Incomplete) => {}
            Ok(ProxyHead::Absent) => return true,
            Ok(ProxyHead::Present { size, peer }) => {
                scratch.input.consume(size);
                if let Some(peer) = peer {
                    client.peer = peer;
                }
                return true;
            }
            Err(why) => {
                tracing::warn!("the proxy {} sent a malformed head: {why}", client.peer.remote);
                return false;
            }
        }
        if !matches!(more(limits, client, scratch).await, More::Bytes) {
            return false;
        }
    }
}

enum More {
    Bytes,
    Ended,
    TooLong,
}

/// Reads more of a head.
async fn more(limits: &ServerLimits, client: &mut Connection, scratch: &mut Scratch) -> More {
    let begun = client.watch.now();
    more_since(limits.timeouts.header, client, scratch, begun).await
}

async fn more_since(
    limit: Duration,
    client: &mut Connection,
    scratch: &mut Scratch,
    begun: crate::connection::sweep::Tick,
) -> More {
    let mut stops_since = None;
    poll_fn(|cx| {
        client.watch.register(cx);
        match client.poll_read(cx, &mut scratch.input) {
            Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(More::Ended),
            Poll::Ready(Ok(_)) => return Poll::Ready(More::Bytes),
            Poll::Pending => {}
        }
        if client.is_closing() {
            let since = *stops_since.get_or_insert(client.watch.now());
            if client.watch.has_passed(LAST_HEAD, since) {
                return Poll::Ready(More::Ended);
            }
        }
        match !limit.is_zero() && client.watch.has_passed(limit, begun) {
            true => Poll::Ready(More::TooLong),
            false => Poll::Pending,
        }
    })
    .await
}

enum Head {
    /// No byte of a request is there.
    Nothing,
    Complete,
    Closed,
    Refused(u16, String),
}

/// Reads the head of a request.
async fn read_head(limits: &ServerLimits, client: &mut Connection, scratch: &mut Scratch) -> Head {
    let of_head = Limits { size: limits.max_header_size, fields: MAX_FIELDS };
    if scratch.input.is_empty() {
        // The socket is readable, or it was a false alarm.
        let read = poll_fn(|cx| Poll::Ready(client.poll_read(cx, &mut scratch.input))).await;
        match read {
            Poll::Pending => return Head::Nothing,
            Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Head::Closed,
            Poll::Ready(Ok(_)) => {}
        }
    }
    let begun = client.watch.now();
    loop {
        match scratch.head.parse(scratch.input.unread(), &of_head) {
            Ok(Some(size)) => {
                scratch.input.consume(size);
                return Head::Complete;
            }
            Ok(None) => {}
            Err(BadRequest { status, why }) => {
                scratch.head.clear();
                return Head::Refused(status, why.into_owned());
            }
        }
        match more_since(limits.timeouts.header, client, scratch, begun).await {
            More::Bytes => {}
            More::Ended => {
                scratch.head.clear();
                return Head::Closed;
            }
            More::TooLong => {
                scratch.head.clear();
                return Head::Refused(408, "the head of the request came too slowly".into());
            }
        }
    }
}

/// Serves one request. Returns whether the connection can carry another one.
async fn serve_one(core: &Core, client: &mut Connection, scratch: &mut Scratch) -> bool {
    let serving = &*core.serving;
    let max_body = serving.limits.max_body;
    let mut body = Body::new(&scratch.head, max_body, || serving.buffers.request());
    let mut asked = false;
    let end = match acceptable(&body, max_body) {
        Err(refusal) => End::Refused(refusal),
        Ok(()) => match receive(serving, client, scratch, &mut body, &mut asked).await {
            Ok(()) => attempts::answer(core, client, scratch, &mut body).await,
            Err(end) => end,
        },
    };
    let stays = match end {
        End::Answered { stays } => stays && scratch.head.keeps_alive(),
        End::Refused(refusal) => {
            let closes = client.is_closing() || client.has_ended || refusal.closes();
            let connection = match closes {
                true => ConnectionField::Close,
                false => ConnectionField::as_asked(&scratch.head),
            };
            if respond(serving, client, scratch, &refusal, connection).await.is_err() {
                return false;
            }
            if matches!(refusal, Refusal::Stream(..)) {
                linger(client, scratch).await;
                return false;
            }
            !closes && scratch.head.keeps_alive()
        }
        End::GivenUp(why) => {
            tracing::debug!("the connection from {} is closed: {why}", client.peer.remote);
            return false;
        }
        End::Cut(_) | End::Left | End::TooLong | End::Switched => return false,
    };
    // A client that asks before it sends its body, and gets a refusal, does not send it.
    let is_unasked = scratch.head.expects_continue() && !asked && scratch.input.is_empty();
    if body.is_received() {
        return stays;
    }
    !is_unasked && discard(client, scratch, &mut body).await && stays
}

fn acceptable(body: &Body, max_body: u64) -> Result<(), Refusal> {
    if body.declares_too_much() {
        return Err(Refusal::Request(413, format!("the limit for a body is {max_body} bytes")));
    }
    Ok(())
}

/// Reads the body, up to the limits of memory and file.
async fn receive(
    serving: &Serving,
    client: &mut Connection,
    scratch: &mut Scratch,
    body: &mut Body,
    asked: &mut bool,
) -> Result<(), End> {
    let refused = |bad: BadRequest| End::Refused(Refusal::Stream(bad.status, bad.why.into_owned()));
    body.take(&mut scratch.input).map_err(refused)?;
    if body.is_received() {
        return Ok(());
    }
    if scratch.head.expects_continue() && !body.has_begun() {
        client.write_all(encode::CONTINUE).await.map_err(|Left| End::Left)?;
    }
    *asked = true;
    if serving.limits.buffer_request == 0 {
        return Ok(());
    }
    let mut pace = Pace::new(client.body_limits());
    poll_fn(|cx| {
        client.watch.register(cx);
        loop {
            if let Err(bad) = body.take(&mut scratch.input) {
                return Poll::Ready(Err(refused(bad)));
            }
            if body.is_received() || body.is_full() {
                return Poll::Ready(Ok(()));
            }
            let mut moved = false;
            match body.poll_progress(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => moved = true,
                Poll::Ready(Err(e)) => {
                    serving.buffers.no_space("a request", &e);
                    return Poll::Ready(Err(End::Refused(Refusal::NoSpace)));
                }
            }
            if body.has_room() {
                match client.poll_read(cx, &mut scratch.input) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => {
                        return Poll::Ready(Err(End::Left));
                    }
                    Poll::Ready(Ok(count)) => {
                        pace.moved(count, client.watch.now());
                        moved = true;
                    }
                }
            } else {
                pace.stop(client.watch.now());
            }
            if moved {
                continue;
            }
            if body.has_room()
                && let Err(slow) = pace.wait(&client.watch)
            {
                let refusal = Refusal::Stream(408, slow.of_sender().into());
                return Poll::Ready(Err(End::Refused(refusal)));
            }
            return Poll::Pending;
        }
    })
    .await
}

/// Sends an error page.
async fn respond(
    serving: &Serving,
    client: &mut Connection,
    scratch: &mut Scratch,
    refusal: &Refusal,
    connection: ConnectionField,
) -> Result<(), Left> {
    let details = serving.application.shows_details;
    let Scratch { head, to_client, .. } = scratch;
    let page = error_page::page(refusal, head, details);
    let to = if head.method().is_empty() { AnswerTo::Other } else { head.answer_to() };
    to_client.clear();
    let (body, fields) = (page.body.as_bytes(), page.fields());
    let reply =
        OwnReply { status: page.status, content_type: page.content_type, body, fields: &fields };
    encode::own_reply(to_client, &reply, connection, to);
    client.write_all(to_client).await
}

/// Reads the rest of the body and throws it away. Returns whether its end has come.
async fn discard(client: &mut Connection, scratch: &mut Scratch, body: &mut Body) -> bool {
    let begun = client.watch.now();
    poll_fn(|cx| {
        client.watch.register(cx);
        loop {
            if body.discard(&mut scratch.input).is_err() {
                return Poll::Ready(false);
            }
            if body.is_received() {
                return Poll::Ready(true);
            }
            match client.poll_read(cx, &mut scratch.input) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Ready(Ok(_)) if !client.watch.has_passed(LEFTOVER, begun) => {}
                Poll::Ready(Ok(_)) => return Poll::Ready(false),
                Poll::Pending if client.watch.has_passed(LEFTOVER, begun) => {
                    return Poll::Ready(false);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}

/// Ends the server's output, and reads what the client still sends.
async fn linger(client: &mut Connection, scratch: &mut Scratch) {
    let _ = client.stream.shut_write();
    let begun = client.watch.now();
    poll_fn(|cx| {
        client.watch.register(cx);
        loop {
            scratch.input.clear();
            match client.poll_read(cx, &mut scratch.input) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(_)) if !client.watch.has_passed(LINGER, begun) => {}
                Poll::Ready(Ok(_)) => return Poll::Ready(()),
                Poll::Pending if client.watch.has_passed(LINGER, begun) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}
