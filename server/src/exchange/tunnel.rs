//! The connection between client and application after an upgrade to another protocol, such as WebSocket.
//!
//! A tunnel holds its session until the server stops. Then it gives the session up, so that the pool asks the
//! process to leave, and goes on: the application may say farewell (WebSocket: close code 1012). So a tunnel
//! ends with its process, within the process's own time to leave.

use crate::connection::core::Bytes;
use crate::connection::input::Input;
use crate::connection::watched::Connection;
use crate::exchange::attempt::Attempt;
use crate::exchange::processes::Hold;
use crate::observe::record::Record;
use cabrank_spawner::process::AppInfo;
use cabrank_spawner::stream::AppStream;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// The pause between two looks whether the process has ended, once the application's output has.
const LOOK: Duration = Duration::from_secs(1);

/// Copies bytes both ways until both sides have closed, or the process has ended. The record counts them.
pub(crate) async fn run(
    client: &mut Connection,
    bytes: &mut Bytes,
    attempt: Attempt,
    record: &mut Record<'_>,
) {
    let Attempt { lane, hold, process, .. } = attempt;
    let Some(app) = lane.into_stream() else { return };
    client.counts_as_request = None;
    let mut tunnel = Tunnel { app, hold, process, up: Way::default(), down: Way::default() };
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
    /// `None` once the server stops.
    hold: Option<Hold>,
    process: Arc<AppInfo>,
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
        if client.is_closing() {
            self.hold = None;
        }
        // A client that fails is gone. An application that fails may have sent its last bytes before.
        let Record { received, sent, .. } = record;
        match self.up.copy(cx, &mut client.stream, &mut bytes.input, &mut self.app, received) {
            Err(Broken::Sender(e)) => return Poll::Ready(Err(e)),
            Err(Broken::Receiver) => self.up.is_done = true,
            Ok(()) => {}
        }
        loop {
            let (app, waiting) = (&mut self.app, &mut bytes.from_app);
            match self.down.copy(cx, app, waiting, &mut client.stream, sent) {
                Err(Broken::Sender(_)) => self.down.has_ended = true,
                Err(Broken::Receiver) => return Poll::Ready(Ok(())),
                Ok(()) => break,
            }
        }
        if self.down.is_done {
            if self.up.is_done || self.process.endpoint.has_exited() {
                return Poll::Ready(Ok(()));
            }
            let _ = client.watch.has_passed(LOOK, client.watch.now());
        }
        Poll::Pending
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
