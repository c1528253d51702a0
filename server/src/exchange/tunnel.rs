//! The connection between client and application after an upgrade to another protocol, such as WebSocket.
//!
//! A tunnel holds its session until the server stops, or until its process has been leaving for a time. Then it asks the
//! process to end its WebSockets, which the loader of ASGI does at once (close codes 1001 and 1012). It also gives the
//! session up, so that the pool asks the process to leave as soon as its other requests have ended. The tunnel goes on:
//! the application may say farewell. It does so to a client that reads: a client that takes no byte for the same time is cut
//! off then, so that its process can leave. When the process is gone, the client has this time for the last bytes.
//!
//! A side may end its output and still take bytes. It may also be gone, or read no further, and the other side would wait for
//! it for ever. So a tunnel in which one side has ended its output ends when no byte has moved for the same time. The end of
//! a side lies behind bytes that the other side does not take. So the kernel is asked for it (`POLLRDHUP`) while bytes wait.

use crate::connection::core::Bytes;
use crate::connection::input::Input;
use crate::connection::sweep::Tick;
use crate::connection::watched::Connection;
use crate::exchange::attempt::Attempt;
use crate::exchange::processes::Hold;
use crate::observe::record::Record;
use cabrank_spawner::process::AppInfo;
use cabrank_spawner::stream::AppStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// Copies bytes both ways until both sides have closed, or the process has ended. The record counts them.
///
/// `limit` is its time after the pool has detached its process, its time after the end of its process, and the longest pause
/// once one side has ended its output.
pub(crate) async fn run(
    client: &mut Connection,
    bytes: &mut Bytes,
    attempt: Attempt,
    limit: Duration,
    record: &mut Record<'_>,
) {
    let Attempt { lane, hold, process, .. } = attempt;
    let Some(app) = lane.into_stream() else { return };
    client.counts_as_request = None;
    let (up, down) = Default::default();
    let mut tunnel =
        Tunnel { app, hold, process, limit, drains: None, gone: None, rests: None, up, down };
    // The head of the answer.
    let begun = client.stream.write_all(&bytes.to_client).await;
    let ended = match begun {
        Ok(()) => {
            record.sent += bytes.to_client.len() as u64;
            poll_fn(|cx| tunnel.poll(cx, client, bytes, record)).await
        }
        Err(e) => Err(e),
    };
    if let Err(e) = ended {
        tracing::debug!("an upgraded connection ended: {e}");
    }
}

/// The application's side of a tunnel, and how far each direction has come.
struct Tunnel {
    app: AppStream,
    /// `None` once the process is asked to leave.
    hold: Option<Hold>,
    process: Arc<AppInfo>,
    limit: Duration,
    /// The beginning of the limit.
    drains: Option<Tick>,
    /// When the end of the process was noticed.
    gone: Option<Tick>,
    /// The beginning of a pause, and the bytes that had moved before.
    rests: Option<(Tick, u64)>,
    /// From the client to the application.
    up: Way,
    /// From the application to the client.
    down: Way,
}

/// One direction. Its bytes wait in a buffer of the request.
#[derive(Default)]
struct Way {
    /// The sender has ended its output.
    has_ended: bool,
    /// The receiver knows it.
    is_done: bool,
}

/// The side that failed.
enum Broken {
    Sender(io::Error),
    Receiver,
}

impl Tunnel {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut Connection,
        bytes: &mut Bytes,
        record: &mut Record<'_>,
    ) -> Poll<io::Result<()>> {
        client.watch.register(cx);
        if self.hold.is_some() && (client.is_closing() || self.is_overdue(client)) {
            self.process.end_websockets();
            self.hold = None;
        }
        // A client that fails is gone. An application that fails may have sent its last bytes before.
        let Record { received, sent, .. } = record;
        match self.up.copy(cx, &mut client.stream, &mut bytes.input, &mut self.app, received) {
            Err(Broken::Sender(e)) => return Poll::Ready(Err(e)),
            Err(Broken::Receiver) => self.up.is_done = true,
            Ok(()) => {}
        }
        let is_gone = self.process.endpoint.is_gone();
        loop {
            let (app, waiting) = (&mut self.app, &mut bytes.from_app);
            match self.down.copy(cx, app, waiting, &mut client.stream, sent) {
                Err(Broken::Sender(_)) => self.down.has_ended = true,
                Err(Broken::Receiver) => return Poll::Ready(Ok(())),
                // Another process may hold the connection of one that is gone.
                Ok(()) if is_gone && !self.down.has_ended && self.app.is_silent() => {
                    self.down.has_ended = true;
                }
                Ok(()) => break,
            }
        }
        let is_done = self.down.is_done && (self.up.is_done || is_gone);
        if is_done || self.is_over(client, is_gone) {
            return Poll::Ready(Ok(()));
        }
        let (waits_for_app, waits_for_client) =
            (!bytes.input.is_empty(), !bytes.from_app.is_empty());
        // Bytes of a side that is gone may still be on their way to the other.
        let has_ended = self.up.has_ended
            || self.down.has_ended
            || (waits_for_app && has_hung_up(&client.stream))
            || (waits_for_client && has_hung_up(&self.app));
        let may_end = has_ended || (self.hold.is_none() && waits_for_client);
        if self.rests_too_long(client, *received + *sent) {
            if may_end {
                return Poll::Ready(Ok(()));
            }
            // No event reports that a side hangs up while bytes wait: look again.
            let _ = client.watch.has_passed(self.limit, client.watch.now());
        }
        Poll::Pending
    }
}

/// Returns whether a peer has ended its output (`POLLRDHUP`), or is gone (`POLLHUP`, `POLLERR`). It takes a system call.
fn has_hung_up(end: &impl AsFd) -> bool {
    let mut looked = [PollFd::new(end, PollFlags::RDHUP)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // An interrupted call is made again at the next look.
    poll(&mut looked, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

impl Tunnel {
    /// Returns whether the process has been gone for too long.
    fn is_over(&mut self, client: &Connection, is_gone: bool) -> bool {
        if !is_gone {
            return false;
        }
        let since = *self.gone.get_or_insert(client.watch.now());
        client.watch.has_passed(self.limit, since)
    }

    /// Returns whether no byte has moved for too long. `moved` counts the bytes.
    fn rests_too_long(&mut self, client: &Connection, moved: u64) -> bool {
        let since = match self.rests {
            Some((since, before)) if before == moved => since,
            _ => client.watch.now(),
        };
        self.rests = Some((since, moved));
        client.watch.has_passed(self.limit, since)
    }

    /// Returns whether the process has been leaving for too long.
    fn is_overdue(&mut self, client: &Connection) -> bool {
        let endpoint = &self.process.endpoint;
        if !self.process.connections.is_draining(endpoint.identifier) {
            return false;
        }
        let since = *self.drains.get_or_insert(client.watch.now());
        client.watch.has_passed(self.limit, since)
    }
}

impl Way {
    /// Copies as much as both sides allow without a wait. `copied` counts the bytes.
    fn copy(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        waiting: &mut Input,
        mut to: impl AsyncWrite + Unpin,
        copied: &mut u64,
    ) -> Result<(), Broken> {
        while !self.is_done {
            let step = if !waiting.is_empty() {
                let written = Pin::new(&mut to).poll_write(cx, waiting.unread());
                let passed = written.map_ok(|count| {
                    waiting.consume(count);
                    *copied += count as u64;
                });
                passed.map_err(|_| Broken::Receiver)
            } else if self.has_ended {
                let ended = Pin::new(&mut to).poll_shutdown(cx);
                ended.map_ok(|()| self.is_done = true).map_err(|_| Broken::Receiver)
            } else {
                let read = waiting.poll_read(cx, from);
                read.map_ok(|count| self.has_ended = count == 0).map_err(Broken::Sender)
            };
            match step {
                Poll::Pending => break,
                Poll::Ready(done) => done?,
            }
        }
        Ok(())
    }
}
