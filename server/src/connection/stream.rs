//! The stream of a client's connection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A stream to a client.
#[derive(Debug)]
pub(crate) enum Stream {
    /// A TCP socket.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
}

macro_rules! each {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
        }
    };
}

impl Stream {
    /// Returns the socket, which this thread's runtime no longer watches.
    pub(crate) fn into_socket(self) -> io::Result<OwnedFd> {
        Ok(match self {
            Stream::Tcp(stream) => stream.into_std()?.into(),
            Stream::Unix(stream) => stream.into_std()?.into(),
        })
    }

    /// Waits until bytes, or the end of the input, can be read without a wait.
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_read_ready(cx))
    }

    /// As [`poll_read_ready`](Self::poll_read_ready).
    pub(crate) async fn readable(&self) -> io::Result<()> {
        each!(self, stream => stream.ready(Interest::READABLE).await.map(drop))
    }

    /// Ends the server's output (`SHUT_WR`). The client may go on sending.
    pub(crate) fn shut_write(&self) -> io::Result<()> {
        use rustix::net::{Shutdown, shutdown};
        each!(self, stream => Ok(shutdown(stream, Shutdown::Write)?))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        each!(self, stream => stream.as_fd())
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}
