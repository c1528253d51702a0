//! Streams to application processes: Unix sockets, or TCP on the loopback interface.

use super::handshake::Address;
use cabrank::application_pool::ConnectError;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with,
};
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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

/// The result of opening a connection without waiting.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Connected.
    Now(StdUnixStream),
    /// The request's task must connect: the process listens on TCP, or its queue of connections is full
    /// at the moment.
    Later,
}

/// Opens a connection as far as possible without waiting.
pub(crate) fn open(address: &Address) -> Result<Opened, ConnectError> {
    let Address::Unix(path) = address else { return Ok(Opened::Later) };
    let to = SocketAddrUnix::new(path).map_err(|e| fault(e.into()))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|e| ConnectError::local(io::Error::from(e)))?;
    match connect(&fd, &to) {
        Ok(()) => Ok(Opened::Now(fd.into())),
        Err(Errno::AGAIN) => Ok(Opened::Later),
        Err(e) => Err(fault(e.into())),
    }
}

/// Classifies an error: a lack of descriptors or memory is the agent's, any other error the process's.
fn fault(e: io::Error) -> ConnectError {
    match Errno::from_io_error(&e) {
        Some(Errno::NOMEM | Errno::NOBUFS | Errno::MFILE | Errno::NFILE) => ConnectError::local(e),
        _ => ConnectError::process(e),
    }
}

impl AppStream {
    /// Finishes the connection that [`open`] began.
    pub(crate) async fn finish(opened: Opened, address: &Address) -> Result<Self, ConnectError> {
        let ready = |s| UnixStream::from_std(s).map(AppStream::Unix).map_err(ConnectError::local);
        match (opened, address) {
            (Opened::Now(stream), _) => ready(stream),
            (Opened::Later, Address::Tcp(at)) => {
                let stream = TcpStream::connect(at).await.map_err(fault)?;
                stream.set_nodelay(true).map_err(fault)?;
                Ok(AppStream::Tcp(stream))
            }
            (Opened::Later, Address::Unix(_)) => {
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

    /// Returns whether the peer has neither closed the stream nor sent bytes.
    ///
    /// The function asks the kernel, which knows this before the runtime does.
    fn is_quiet(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = match self {
            AppStream::Unix(stream) => recv(stream, &mut [0; 1], flags),
            AppStream::Tcp(stream) => recv(stream, &mut [0; 1], flags),
        };
        peeked.is_err_and(|e| e == Errno::AGAIN)
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

/// A stream that can be checked while hyper reads and writes it.
///
/// Each call holds the lock without waiting for I/O. The check runs only while the connection is idle.
#[derive(Debug)]
pub(crate) struct Watched(Arc<Mutex<AppStream>>);

/// Checks a [`Watched`] stream without keeping it open.
#[derive(Debug)]
pub(crate) struct Watch(Weak<Mutex<AppStream>>);

impl Watched {
    pub(crate) fn new(stream: AppStream) -> (Self, Watch) {
        let stream = Arc::new(Mutex::new(stream));
        let watch = Watch(Arc::downgrade(&stream));
        (Watched(stream), watch)
    }
    fn stream(&self) -> MutexGuard<'_, AppStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Returns whether the stream is open on both sides and has no unread bytes: it can take a request.
    pub(crate) fn is_quiet(&self) -> bool {
        self.0.upgrade().is_some_and(|stream| Watched(stream).stream().is_quiet())
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write(cx, buf)
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write_vectored(cx, bufs)
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn pair() -> (StdUnixStream, Watched, Watch) {
        let (theirs, ours) = StdUnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let stream = AppStream::Unix(UnixStream::from_std(ours).unwrap());
        let (stream, watch) = Watched::new(stream);
        (theirs, stream, watch)
    }

    #[tokio::test]
    async fn a_connection_is_quiet_until_the_other_side_closes_it() {
        let (theirs, _stream, watch) = pair();
        assert!(watch.is_quiet());
        drop(theirs);
        assert!(!watch.is_quiet());
    }

    #[tokio::test]
    async fn unrequested_bytes_are_noticed_and_stay_unread() {
        let (mut theirs, mut stream, watch) = pair();
        theirs.write_all(b"HTTP/1.1 408").unwrap();
        assert!(!watch.is_quiet() && !watch.is_quiet());
        let mut read = [0; 12];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut read).await.unwrap();
        assert_eq!(&read, b"HTTP/1.1 408");
        assert!(watch.is_quiet());
    }

    #[tokio::test]
    async fn a_watch_does_not_keep_the_stream_open() {
        let (mut theirs, stream, watch) = pair();
        drop(stream);
        assert!(!watch.is_quiet());
        assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0, "the stream is closed");
    }
}
