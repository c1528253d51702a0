//! The life of a client's connection: one request after another.
//!
//! An idle connection owns no buffer. The future of a request is boxed, so that it takes no memory while the
//! connection is idle.

use crate::client::Protocol;
use crate::connection::core::Core;
use crate::connection::requests::{self, Next};
use crate::connection::stream::Stream;
use crate::connection::sweep::Idle;
use crate::connection::watched::Connection;
use crate::request::peer::Peer;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a stop waits for the first request of a connection. It may be on its way.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// How long a stop waits for another request of a connection that was used before.
const NEXT_REQUEST: Duration = Duration::from_millis(200);

/// Serves a connection until one side closes it.
///
/// `counts` is dropped as soon as the connection carries no more requests.
pub(crate) async fn serve(
    core: &Arc<Core>,
    stream: Stream,
    peer: Peer,
    protocol: Protocol,
    counts: mpsc::Sender<()>,
) {
    let limits = core.serving.limits;
    let mut client = Connection::new(stream, peer, protocol, core.sweep.watch(), &limits, counts);
    let mut has_served = false;
    while next_request(&mut client, limits.timeouts.keep_alive, has_served).await {
        match Box::pin(requests::serve(core, &mut client, has_served)).await {
            Next::Wait => {}
            Next::Served => has_served = true,
            Next::Close => break,
        }
    }
}

/// Waits for bytes. Returns false if the connection is to be closed.
async fn next_request(client: &mut Connection, limit: Duration, has_served: bool) -> bool {
    if !client.is_closing() {
        client.watch.set_idle(if has_served { Idle::Between } else { Idle::Owing });
    }
    let begun = client.watch.now();
    let waited = poll_fn(|cx| {
        client.watch.register(cx);
        if client.stream.poll_read_ready(cx).is_ready() {
            return Poll::Ready(Some(true));
        }
        if client.watch.is_evicted() {
            return Poll::Ready(Some(false));
        }
        if client.is_closing() {
            return Poll::Ready(None);
        }
        match !limit.is_zero() && client.watch.has_passed(limit, begun) {
            true => Poll::Ready(Some(false)),
            false => Poll::Pending,
        }
    })
    .await;
    client.watch.set_busy();
    if let Some(ready) = waited {
        return ready;
    }
    // The server stops.
    let limit = if has_served { NEXT_REQUEST } else { FIRST_REQUEST };
    tokio::time::timeout(limit, client.stream.readable()).await.is_ok_and(|ready| ready.is_ok())
}
