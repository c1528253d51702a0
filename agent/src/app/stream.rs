//! Streams to application processes: Unix sockets, or TCP on the loopback for those that insist.

use super::handshake::Address;
use cabrank::ConnectError;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A stream to an application process.
#[derive(Debug)]
pub(crate) enum AppStream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// What `Process::connect` can say without waiting.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Connected.
    Now(StdUnixStream),
    /// To be connected by the request's own task: the process listens on TCP, or its queue of
    /// connections is full at the moment.
    Later,
}

/// Opens a connection as far as that goes without waiting.
pub(crate) fn open(address: &Address) -> Result<Opened, ConnectError> {
    let Address::Unix(path) = address else { return Ok(Opened::Later) };
    let to = SocketAddrUnix::new(path).map_err(|e| ConnectError::process(io::Error::from(e)))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(|e| {
        // Out of descriptors or memory: that is ours to mend, not the process's.
        ConnectError::local(io::Error::from(e))
    })?;
    match connect(&fd, &to) {
        Ok(()) => Ok(Opened::Now(fd.into())),
        Err(Errno::AGAIN) => Ok(Opened::Later),
        Err(e @ (Errno::NOMEM | Errno::NOBUFS | Errno::MFILE | Errno::NFILE)) => {
            Err(ConnectError::local(io::Error::from(e)))
        }
        Err(e) => Err(ConnectError::process(io::Error::from(e))),
    }
}

impl AppStream {
    /// Finishes what [`open`] began.
    pub(crate) async fn finish(opened: Opened, address: &Address) -> io::Result<Self> {
        match (opened, address) {
            (Opened::Now(stream), _) => Ok(AppStream::Unix(UnixStream::from_std(stream)?)),
            (Opened::Later, Address::Tcp(at)) => {
                let stream = TcpStream::connect(at).await?;
                stream.set_nodelay(true)?;
                Ok(AppStream::Tcp(stream))
            }
            (Opened::Later, Address::Unix(_)) => {
                // A Unix socket does not tell when its queue has room again: ask, ever less often.
                let mut pause = Duration::from_millis(1);
                loop {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(50));
                    match open(address) {
                        Ok(Opened::Now(stream)) => {
                            return Ok(AppStream::Unix(UnixStream::from_std(stream)?));
                        }
                        Ok(Opened::Later) => {}
                        Err(e) => return Err(io::Error::other(e)),
                    }
                }
            }
        }
    }
}

macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            AppStream::Unix($stream) => $call,
            AppStream::Tcp($stream) => $call,
        }
    };
}

impl AsyncRead for AppStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, s => Pin::new(s).poll_read(cx, buf))
    }
}

impl AsyncWrite for AppStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, s => Pin::new(s).poll_write(cx, buf))
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, s => Pin::new(s).poll_write_vectored(cx, bufs))
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, s => Pin::new(s).poll_flush(cx))
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, s => Pin::new(s).poll_shutdown(cx))
    }
}
