//! The stages of one request: its body is read, [`attempts`] get the answer, and what is left of both is cleared away.

use crate::client::{Page, Side};
use crate::connection::core::{Bytes, Core};
use crate::connection::input::Input;
use crate::connection::pace::Pace;
use crate::connection::sweep::Idle;
use crate::connection::watched::{Connection, Left};
use crate::exchange::attempts;
use crate::exchange::end::{End, Refusal};
use crate::exchange::error_page;
use crate::exchange::request::Request;
use crate::exchange::serving::Serving;
use crate::observe::record::{Ended, Record};
use crate::request::body::Body;
use crate::request::head::{AnswerTo, BadRequest, Head};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// How long the server reads the rest of a body that it does not need.
///
/// To close a connection with unread input resets it. A client that is still sending then sees the reset
/// instead of the answer, for example that its upload is too large.
const LEFTOVER: Duration = Duration::from_secs(10);
/// How long the server reads what follows a malformed request, for the same reason.
const LINGER: Duration = Duration::from_secs(2);

/// Serves one request. Returns whether the connection can carry another one.
pub(crate) async fn serve(
    core: &Core,
    client: &mut Connection,
    head: &Head,
    bytes: &mut Bytes,
    side: &mut Side,
) -> bool {
    let serving = &*core.serving;
    let mut request = Request::new(serving, head, client.peer);
    let mut asked = false;
    let end = match request.is_acceptable() {
        Err(bad) => End::Refused(Refusal::Request(bad.status, bad.why.into_owned())),
        Ok(()) => {
            let input = &mut bytes.input;
            let received = receive(serving, client, input, &mut request.body, side, &mut asked);
            match received.await {
                Ok(()) => attempts::answer(core, client, &mut request, bytes, side).await,
                Err(end) => end,
            }
        }
    };
    request.record.received += request.body.received();
    if !matches!(end, End::Refused(_)) {
        request.record.end = end.kind();
    }
    match end {
        End::Answered => {}
        End::Refused(refusal) => {
            if side.sends_before_it_reads() && !request.body.is_received() {
                discard(client, &mut bytes.input, &mut request.body).await;
            }
            let record = &mut request.record;
            if let Err(Left) = respond(serving, client, head, bytes, side, &refusal, record).await {
                return false;
            }
            if matches!(refusal, Refusal::Stream(..)) {
                linger(client, bytes).await;
                return false;
            }
        }
        End::GivenUp(why) => {
            tracing::debug!("the connection from {} is closed: {why}", client.peer.remote);
            return false;
        }
        End::Cut(_) | End::Left | End::TooLong | End::Switched => return false,
    }
    // A client that asks before it sends its body, and gets a refusal, does not send it.
    let is_unasked = side.go_ahead().is_some() && !asked && bytes.input.is_empty();
    let is_received = request.body.is_received()
        || !is_unasked && discard(client, &mut bytes.input, &mut request.body).await;
    is_received && side.stays()
}

/// Reads the body, up to the limits of memory and file. `asked`: the client was asked for it, or needs not be.
async fn receive(
    serving: &Serving,
    client: &mut Connection,
    input: &mut Input,
    body: &mut Body,
    side: &Side,
    asked: &mut bool,
) -> Result<(), End> {
    let refused = |bad: BadRequest| End::Refused(Refusal::Stream(bad.status, bad.why.into_owned()));
    body.take(input).map_err(refused)?;
    if body.is_received() {
        return Ok(());
    }
    if let Some(go_ahead) = side.go_ahead().filter(|_| body.received() == 0) {
        client.write_all(go_ahead).await.map_err(|Left| End::Left)?;
    }
    *asked = true;
    if serving.limits.buffer_request == 0 {
        return Ok(());
    }
    let mut pace = Pace::new(client.body_limits());
    poll_fn(|cx| {
        client.watch.register(cx);
        loop {
            if let Err(bad) = body.take(input) {
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
                match client.poll_read(cx, input) {
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

/// Sends an error page, and notes it in the record.
///
/// # Errors
/// The client has left, or does not take the page.
pub(crate) async fn respond(
    serving: &Serving,
    client: &mut Connection,
    head: &Head,
    bytes: &mut Bytes,
    side: &mut Side,
    refusal: &Refusal,
    record: &mut Record<'_>,
) -> Result<(), Left> {
    let closes = client.is_closing() || client.has_ended || refusal.closes();
    let page = error_page::page(refusal, head, serving.application_of(head).shows_details);
    let to = if head.method().is_empty() { AnswerTo::Other } else { head.answer_to() };
    let (body, fields) = (page.body.as_bytes(), page.fields());
    let page = Page { status: page.status, content_type: page.content_type, body, fields: &fields };
    bytes.to_client.clear();
    side.push_page(&mut bytes.to_client, &page, to, closes);
    let taken = client.write_all(&bytes.to_client).await;
    record.end = match taken {
        Ok(()) => Ended::Refused,
        Err(Left) => Ended::Left,
    };
    taken?;
    record.status = page.status;
    record.sent += bytes.to_client.len() as u64;
    Ok(())
}

/// Reads the rest of the body and throws it away. Returns whether its end has come.
///
/// The client has its answer. While it sends nothing, the connection counts as idle: otherwise clients that send nothing
/// more would keep the places of others.
async fn discard(client: &mut Connection, input: &mut Input, body: &mut Body) -> bool {
    let begun = client.watch.now();
    let is_received = poll_fn(|cx| {
        client.watch.register(cx);
        loop {
            if body.discard(input).is_err() {
                return Poll::Ready(false);
            }
            if body.is_received() {
                return Poll::Ready(true);
            }
            match client.poll_read(cx, input) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Ready(Ok(_)) if !client.watch.has_passed(LEFTOVER, begun) => {
                    client.watch.set_busy();
                }
                Poll::Ready(Ok(_)) => return Poll::Ready(false),
                Poll::Pending
                    if client.watch.is_evicted() || client.watch.has_passed(LEFTOVER, begun) =>
                {
                    return Poll::Ready(false);
                }
                Poll::Pending => {
                    client.watch.set_idle(Idle::Answered);
                    return Poll::Pending;
                }
            }
        }
    })
    .await;
    client.watch.set_busy();
    // A connection that makes room carries no other request.
    is_received && !client.watch.is_evicted()
}

/// Ends the server's output, and reads the bytes that the client still sends. Meanwhile the connection may count as idle, as
/// in [`discard`].
pub(crate) async fn linger(client: &mut Connection, bytes: &mut Bytes) {
    let _ = client.stream.shut_write();
    let begun = client.watch.now();
    poll_fn(|cx| {
        client.watch.register(cx);
        loop {
            bytes.input.clear();
            match client.poll_read(cx, &mut bytes.input) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(_)) if !client.watch.has_passed(LINGER, begun) => {
                    client.watch.set_busy();
                }
                Poll::Ready(Ok(_)) => return Poll::Ready(()),
                Poll::Pending
                    if client.watch.is_evicted() || client.watch.has_passed(LINGER, begun) =>
                {
                    return Poll::Ready(());
                }
                Poll::Pending => {
                    client.watch.set_idle(Idle::Answered);
                    return Poll::Pending;
                }
            }
        }
    })
    .await;
    client.watch.set_busy();
}
