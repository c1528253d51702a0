//! The requests that have arrived on a connection: one after another.

use crate::client::{Side, proxy_protocol};
use crate::connection::core::{Core, Scratch};
use crate::connection::reading::{More, more};
use crate::connection::watched::Connection;
use crate::exchange::end::Refusal;
use crate::exchange::stages;
use crate::observe::record::Record;
use crate::request::head::BadRequest;
use crate::request::peer::Peer;
use std::future::poll_fn;
use std::task::Poll;

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
    let Peer { remote, is_reported, .. } = client.peer;
    let is_proxy = serving.trust.is_proxy(remote.ip(), is_reported);
    let limit = serving.limits.timeouts.header;
    if !has_served && is_proxy && !proxy_protocol::read(client, &mut scratch.bytes, limit).await {
        return Next::Close;
    }
    let mut next = Next::Wait;
    loop {
        let mut side = match read_head(core, client, scratch).await {
            Head::Nothing => return next,
            Head::Complete(side) => {
                take_report(core, client, scratch);
                side
            }
            Head::Closed => return Next::Close,
            Head::Refused(status, why) => {
                // Boxed, because few requests are so, and each would take the memory.
                Box::pin(refuse(core, client, scratch, Refusal::Stream(status, why))).await;
                return Next::Close;
            }
        };
        let stays = stages::serve(core, client, &scratch.head, &mut scratch.bytes, &mut side).await;
        let input = &scratch.bytes.input;
        // A client that half-closes gets an answer to each request that it has sent.
        let is_last = client.has_ended && input.is_empty();
        if !stays || client.is_closing() || is_last {
            return Next::Close;
        }
        next = Next::Served;
        if input.is_empty() {
            return next;
        }
    }
}

/// Takes the client's addresses and scheme of a protocol whose heads have them, if the front is trusted.
fn take_report(core: &Core, client: &mut Connection, scratch: &Scratch) {
    let Some(reported) = scratch.head.reported else { return };
    let Peer { remote, is_reported, .. } = client.peer;
    let trust = &core.serving.trust;
    match trust.is_proxy(remote.ip(), is_reported) {
        true => client.peer = reported,
        false => trust.note_untrusted("REMOTE_ADDR", remote.ip().to_canonical()),
    }
}

/// Refuses a request whose head cannot be read.
async fn refuse(core: &Core, client: &mut Connection, scratch: &mut Scratch, refusal: Refusal) {
    let Scratch { head, bytes, .. } = scratch;
    let mut side = client.protocol.unreadable();
    let mut record = Record::new(head, client.peer.remote.ip().to_canonical());
    let serving = &*core.serving;
    let page =
        stages::respond(serving, client, head, bytes, &mut side, &refusal, &mut record).await;
    drop(record);
    if page.is_ok() {
        stages::linger(client, bytes).await;
    }
}

enum Head {
    /// No byte of a request is there.
    Nothing,
    Complete(Side),
    Closed,
    Refused(u16, String),
}

/// Reads the head of a request into `scratch`.
async fn read_head(core: &Core, client: &mut Connection, scratch: &mut Scratch) -> Head {
    let Scratch { head, heads, bytes } = scratch;
    let input = &mut bytes.input;
    let limits = &core.serving.limits;
    if input.is_empty() {
        // The socket is readable, or it was a false alarm.
        let read = poll_fn(|cx| Poll::Ready(client.poll_read(cx, input))).await;
        match read {
            Poll::Pending => return Head::Nothing,
            Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Head::Closed,
            Poll::Ready(Ok(_)) => {}
        }
    }
    let begun = client.watch.now();
    let end = loop {
        match heads.parse(client.protocol, head, input.unread(), limits.max_header_size) {
            Ok(Some((size, side))) => {
                input.consume(size);
                return Head::Complete(side);
            }
            Ok(None) => {}
            Err(BadRequest { status, why }) => break Head::Refused(status, why.into_owned()),
        }
        match more(client, input, limits.timeouts.header, begun).await {
            More::Bytes => {}
            More::Ended => break Head::Closed,
            More::TooLong => {
                break Head::Refused(408, "the head of the request came too slowly".into());
            }
        }
    };
    head.clear();
    heads.clear();
    end
}
