//! A client's connection: its stream, and the watch over its end.

use crate::client::Protocol;
use crate::configuration::ServerLimits;
use crate::connection::input::Input;
use crate::connection::pace::{Limits, Pace, Slow};
use crate::connection::stream::Stream;
use crate::connection::sweep::Watch;
use crate::request::peer::Peer;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// An end of input this soon after the request's last byte is a half-close: the client waits for its answer.
/// A later one means that the client has left.
pub(crate) const HALF_CLOSE: Duration = Duration::from_millis(250);
/// The largest number of bytes that are read ahead while a request is in progress.
const READ_AHEAD: usize = 64 * 1024;

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) peer: Peer,
    pub(crate) protocol: Protocol,
    pub(crate) watch: Watch,
    /// The time of the last byte that has arrived.
    last_byte: Instant,
    /// Whether the end of the client's input has arrived.
    pub(crate) has_ended: bool,
    /// The longest pause of the client, and its least rate.
    pause: Duration,
    rate: u64,
    /// A stop waits until this is gone: while the connection carries requests. `None` after an upgrade.
    pub(crate) counts_as_request: Option<mpsc::Sender<()>>,
}

/// The client has closed its connection and does not wait for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left;

impl Connection {
    pub(crate) fn new(
        stream: Stream,
        peer: Peer,
        protocol: Protocol,
        watch: Watch,
        limits: &ServerLimits,
        counts: mpsc::Sender<()>,
    ) -> Self {
        Connection {
            stream,
            peer,
            protocol,
            watch,
            last_byte: Instant::now(),
            has_ended: false,
            pause: limits.timeouts.client,
            rate: limits.min_client_rate,
            counts_as_request: Some(counts),
        }
    }

    /// Returns whether the server is stopping, so that the connection closes after this answer.
    pub(crate) fn is_closing(&self) -> bool {
        self.watch.is_closing()
    }

    /// Returns the limits of the pace of bodies.
    pub(crate) fn body_limits(&self) -> Limits {
        self.limits(Duration::from_secs(10))
    }

    /// Returns the limits of the pace of answers.
    ///
    /// The window is longer: the kernel of a client that reads slowly asks for more only when half of its
    /// buffer is empty.
    pub(crate) fn answer_limits(&self) -> Limits {
        self.limits(Duration::from_secs(60))
    }

    fn limits(&self, window: Duration) -> Limits {
        Limits { pause: self.pause, rate: self.rate, window }
    }

    /// Reads once. 0: the end of the input.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut Input,
    ) -> Poll<io::Result<usize>> {
        if self.has_ended {
            return Poll::Ready(Ok(0));
        }
        let read = input.poll_read(cx, &mut self.stream);
        match &read {
            Poll::Ready(Ok(0)) => self.has_ended = true,
            Poll::Ready(Ok(_)) => self.last_byte = Instant::now(),
            _ => {}
        }
        read
    }

    /// Writes once.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    /// Looks whether the client has left, while a whole request is in progress.
    ///
    /// Bytes that arrive belong to the next request. They are kept up to a bound; beyond it the server stops
    /// looking.
    pub(crate) fn poll_left(&mut self, cx: &mut Context<'_>, input: &mut Input) -> Poll<Left> {
        while !self.has_ended && input.len() < READ_AHEAD {
            match self.poll_read(cx, input) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) if self.last_byte.elapsed() >= HALF_CLOSE => {
                    return Poll::Ready(Left);
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Left),
            }
        }
        Poll::Pending
    }

    /// Waits for `work`, unless the client leaves before. `work` is polled again when a process is gone.
    pub(crate) async fn unless_left<T>(
        &mut self,
        input: &mut Input,
        work: impl Future<Output = T>,
    ) -> Result<T, Left> {
        let mut work = std::pin::pin!(work);
        poll_fn(|cx| {
            self.watch.register(cx);
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            self.poll_left(cx, input).map(Err)
        })
        .await
    }

    /// Writes all bytes, at the client's pace.
    ///
    /// # Errors
    /// The client has left, or is too slow.
    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> Result<(), Left> {
        let mut pace = Pace::new(self.answer_limits());
        let mut written = 0;
        poll_fn(|cx| {
            self.watch.register(cx);
            while written < bytes.len() {
                match self.poll_write(cx, &bytes[written..]) {
                    Poll::Ready(Ok(count)) => {
                        written += count;
                        pace.moved(count, self.watch.now());
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Left)),
                    Poll::Pending => {
                        let waits: Result<(), Slow> = pace.wait(&self.watch);
                        return if waits.is_err() { Poll::Ready(Err(Left)) } else { Poll::Pending };
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }
}
