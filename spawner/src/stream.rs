//! Streams to application processes: Unix sockets, or TCP on the loopback interface.

use crate::descriptors::unix_socket;
use crate::handshake::Address;
use cabrank::application_pool::ConnectError;
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags, connect};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A stream to an application process.
#[derive(Debug)]
pub enum AppStream {
    /// A Unix socket.
    Unix(UnixStream),
    /// A TCP socket.
    Tcp(TcpStream),
}

/// The result of opening a connection without waiting.
#[derive(Debug)]
pub enum Opened {
    /// Connected.
    Now(StdUnixStream),
    /// The request's task must connect: the process listens on TCP, or its queue of connections is full
    /// at the moment.
    Later,
}

/// Opens a connection as far as possible without waiting.
pub fn open(address: &Address) -> Result<Opened, ConnectError> {
    let (path, uid) = match address {
        Address::Unix(path) => (path, None),
        Address::UnixOf(path, uid) => (path, Some(*uid)),
        Address::Tcp(_) => return Ok(Opened::Later),
    };
    let to = SocketAddrUnix::new(path).map_err(|e| fault(e.into()))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = unix_socket(flags).map_err(ConnectError::local)?;
    match connect(&fd, &to) {
        Ok(()) => {
            check_listener(&fd, uid).map_err(ConnectError::process)?;
            Ok(Opened::Now(fd.into()))
        }
        Err(Errno::AGAIN) => Ok(Opened::Later),
        Err(e) => Err(fault(e.into())),
    }
}

/// Fails if another user than this one listens. The application's user may own the file of such a socket, and the listener may do
/// for root, which connects, what it does not do for the application.
pub(crate) fn check_listener(connection: impl AsFd, uid: Option<u32>) -> io::Result<()> {
    let Some(uid) = uid else { return Ok(()) };
    let listener = rustix::net::sockopt::socket_peercred(connection)?.uid.as_raw();
    if listener == uid {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "user {listener} listens on its socket, and not the application's user"
    )))
}

/// Classifies an error: a lack of descriptors or memory is the server's, any other error the process's.
fn fault(e: io::Error) -> ConnectError {
    match Errno::from_io_error(&e) {
        Some(Errno::NOMEM | Errno::NOBUFS | Errno::MFILE | Errno::NFILE) => ConnectError::local(e),
        _ => ConnectError::process(e),
    }
}

impl AppStream {
    /// Finishes the connection that [`open`] began.
    pub async fn finish(opened: Opened, address: &Address) -> Result<Self, ConnectError> {
        let ready = |s| UnixStream::from_std(s).map(AppStream::Unix).map_err(ConnectError::local);
        match (opened, address) {
            (Opened::Now(stream), _) => ready(stream),
            (Opened::Later, Address::Tcp(at)) => {
                let stream = TcpStream::connect(at).await.map_err(fault)?;
                stream.set_nodelay(true).map_err(fault)?;
                Ok(AppStream::Tcp(stream))
            }
            (Opened::Later, Address::Unix(_) | Address::UnixOf(..)) => {
                // A Unix socket does not report room in its queue: retry, with growing pauses.
                let mut pause = Duration::from_millis(1);
                loop {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(50));
                    if let Opened::Now(stream) = open(address)? {
                        return ready(stream);
                    }
                }
            }
        }
    }

    /// Acknowledges all bytes to the peer at once.
    ///
    /// Otherwise the system of a peer on TCP holds a small part back for up to 40 ms, until what came before it is acknowledged.
    pub(crate) fn acknowledge(&self) {
        if let AppStream::Tcp(stream) = self {
            // A connection that has ended has nothing to acknowledge.
            let _ = rustix::net::sockopt::set_tcp_quickack(stream, true);
        }
    }

    /// Returns whether the peer has neither closed the stream nor sent bytes, as far as the runtime knows.
    ///
    /// This usually takes no system call: the runtime has been notified of both.
    pub fn is_quiet(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let (ready, read) = match self {
            AppStream::Unix(stream) => {
                (stream.poll_read_ready(&mut cx), stream.try_read(&mut [0; 1]))
            }
            AppStream::Tcp(stream) => {
                (stream.poll_read_ready(&mut cx), stream.try_read(&mut [0; 1]))
            }
        };
        // Without readiness, `try_read` makes no system call. A last read that filled its buffer leaves the
        // readiness behind.
        ready.is_pending() || read.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }

    /// Returns whether the peer has neither closed the stream nor sent bytes, as the kernel knows.
    ///
    /// It takes a system call. [`is_quiet`](Self::is_quiet) may not know of bytes that have just arrived.
    pub fn is_silent(&self) -> bool {
        use rustix::net::{RecvFlags, recv};
        let look = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let seen = match self {
            AppStream::Unix(stream) => recv(stream, &mut [0; 1][..], look),
            AppStream::Tcp(stream) => recv(stream, &mut [0; 1][..], look),
        };
        seen.is_err_and(|e| e == Errno::AGAIN)
    }

    /// Ends the server's side of the stream.
    pub fn end_output(&self) -> io::Result<()> {
        use rustix::net::{Shutdown, shutdown};
        let ended = match self {
            AppStream::Unix(stream) => shutdown(stream, Shutdown::Write),
            AppStream::Tcp(stream) => shutdown(stream, Shutdown::Write),
        };
        ended.map_err(io::Error::from)
    }
}

impl AsFd for AppStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            AppStream::Unix(stream) => stream.as_fd(),
            AppStream::Tcp(stream) => stream.as_fd(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn pair() -> (StdUnixStream, AppStream) {
        let (theirs, ours) = StdUnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (theirs, AppStream::Unix(UnixStream::from_std(ours).unwrap()))
    }

    async fn notified(stream: &AppStream) {
        let AppStream::Unix(stream) = stream else { unreachable!() };
        stream.readable().await.unwrap();
    }

    #[tokio::test]
    async fn a_connection_is_quiet_until_the_other_side_closes_it() {
        let (theirs, stream) = pair();
        assert!(stream.is_quiet());
        drop(theirs);
        notified(&stream).await;
        assert!(!stream.is_quiet());
    }

    #[tokio::test]
    async fn unrequested_bytes_are_noticed() {
        let (mut theirs, stream) = pair();
        theirs.write_all(b"HTTP/1.1 408").unwrap();
        notified(&stream).await;
        assert!(!stream.is_quiet());
    }
}
