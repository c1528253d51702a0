//! Reads more of a head, within the time for it.

use crate::connection::input::Input;
use crate::connection::sweep::{Idle, Tick};
use crate::connection::watched::Connection;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// How long a stop waits for the rest of a head.
const LAST_HEAD: Duration = Duration::from_secs(1);

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    Bytes,
    /// The client sends no more, the connection makes room for another one, or the server stops.
    Ended,
    TooLong,
}

/// Reads once. `limit` is the time for the head since `begun`; zero: no limit.
pub(crate) async fn more(
    client: &mut Connection,
    input: &mut Input,
    limit: Duration,
    begun: Tick,
) -> More {
    let mut stops_since = None;
    let more = poll_fn(|cx| {
        client.watch.register(cx);
        match client.poll_read(cx, input) {
            Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(More::Ended),
            Poll::Ready(Ok(_)) => return Poll::Ready(More::Bytes),
            Poll::Pending => {}
        }
        if client.watch.is_evicted() {
            return Poll::Ready(More::Ended);
        }
        client.watch.set_idle(Idle::Owing);
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
    .await;
    client.watch.set_busy();
    more
}
