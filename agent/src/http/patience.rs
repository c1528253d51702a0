//! The limit on waiting for a client that holds an application process.
//!
//! The time runs only while the agent waits for the client. It stops while the application computes, and
//! while the application is slow to read the request.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// Turns a wait that is too long into an error.
#[derive(Debug)]
pub(crate) struct Patience {
    /// Zero: no limit.
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    waits: bool,
}

impl Patience {
    pub(crate) fn of(limit: Duration) -> Self {
        Patience { limit, timer: None, waits: false }
    }

    /// Passes `polled` on. Returns the limit as an error if it has been pending for longer.
    pub(crate) fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<T>,
    ) -> Poll<Result<T, Duration>> {
        if let Poll::Ready(there) = polled {
            self.waits = false;
            return Poll::Ready(Ok(there));
        }
        if self.limit.is_zero() {
            return Poll::Pending;
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        if !self.waits {
            self.waits = true;
            timer.as_mut().reset(Instant::now() + limit);
        }
        timer.as_mut().poll(cx).map(|()| Err(limit))
    }
}

/// A client's connection that fails if the client stops reading.
#[derive(Debug)]
pub(crate) struct PatientStream {
    stream: TcpStream,
    patience: Patience,
}

impl PatientStream {
    pub(crate) fn new(stream: TcpStream, limit: Duration) -> Self {
        PatientStream { stream, patience: Patience::of(limit) }
    }

    fn judge<T>(
        patience: &mut Patience,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        patience.judge(cx, polled).map(|judged| {
            judged.unwrap_or_else(|_| {
                let why = "the client does not read its response";
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            })
        })
    }
}

impl AsyncRead for PatientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for PatientStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(cx, buf);
        Self::judge(&mut this.patience, cx, polled)
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        Self::judge(&mut this.patience, cx, polled)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
