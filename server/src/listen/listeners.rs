//! The listeners of one core, and the connections that they accept.

use crate::client::Protocol;
use crate::connection::stream::Stream;
use crate::listen::listener::Socket;
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// The facts that a listener knows of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    /// The address of the other end.
    pub(crate) remote: SocketAddr,
    pub(crate) protocol: Protocol,
}

/// The kind of a connection's socket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    Tcp,
    Unix,
}

impl Family {
    /// Returns the stream, which the runtime of this thread watches.
    pub(crate) fn stream(self, socket: OwnedFd) -> io::Result<Stream> {
        match self {
            Family::Tcp => TcpStream::from_std(socket.into()).map(Stream::Tcp),
            Family::Unix => UnixStream::from_std(socket.into()).map(Stream::Unix),
        }
    }
}

/// The address of the other end of a Unix socket, which has none: any program of this machine. The port is unknown.
const OF_UNIX: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Incoming {
    fn over_tcp(remote: SocketAddr) -> Incoming {
        Incoming { remote, protocol: Protocol::Http1 }
    }

    fn over_unix(protocol: Protocol) -> Incoming {
        Incoming { remote: OF_UNIX, protocol }
    }
}

/// The listeners of one core.
pub(crate) struct Listeners {
    all: Vec<Watched>,
    /// The listener that is asked first, so that none waits for another one that is busy.
    first: usize,
}

/// A listener that the runtime of this thread watches.
enum Watched {
    Tcp(TcpListener),
    Unix(UnixListener, Protocol),
}

impl Listeners {
    pub(crate) fn new(listeners: Vec<Socket>) -> io::Result<Listeners> {
        let watch = |socket| match socket {
            Socket::Tcp(listener) => TcpListener::from_std(listener).map(Watched::Tcp),
            Socket::Unix(listener, protocol) => {
                UnixListener::from_std(listener).map(|listener| Watched::Unix(listener, protocol))
            }
        };
        let all = listeners.into_iter().map(watch).collect::<io::Result<_>>()?;
        Ok(Listeners { all, first: 0 })
    }

    /// Accepts a connection of any listener.
    pub(crate) fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Stream, Incoming)>> {
        for i in 0..self.all.len() {
            let index = (self.first + i) % self.all.len();
            let accepted = match &self.all[index] {
                Watched::Tcp(listener) => listener
                    .poll_accept(cx)
                    .map_ok(|(stream, remote)| (Stream::Tcp(stream), Incoming::over_tcp(remote))),
                Watched::Unix(listener, protocol) => listener
                    .poll_accept(cx)
                    .map_ok(|(stream, _)| (Stream::Unix(stream), Incoming::over_unix(*protocol))),
            };
            if accepted.is_ready() {
                self.first = index + 1;
                return accepted;
            }
        }
        Poll::Pending
    }

    /// Accepts one connection that waits, without a wait.
    pub(crate) fn accept_waiting(&self) -> Option<(OwnedFd, Family, Incoming)> {
        self.all.iter().find_map(|listener| match listener {
            Watched::Tcp(listener) => {
                let (stream, remote) = accept(listener, |at| SocketAddr::try_from(at).ok())?;
                Some((stream, Family::Tcp, Incoming::over_tcp(remote)))
            }
            Watched::Unix(listener, protocol) => {
                let (stream, _) = accept(listener, |_| Some(OF_UNIX))?;
                Some((stream, Family::Unix, Incoming::over_unix(*protocol)))
            }
        })
    }
}

/// Accepts one connection, without a wait.
fn accept(
    listener: impl AsFd,
    remote: impl Fn(SocketAddrAny) -> Option<SocketAddr>,
) -> Option<(OwnedFd, SocketAddr)> {
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match acceptfrom_with(&listener, flags) {
            Ok((stream, at)) => {
                if let Some(remote) = at.and_then(&remote) {
                    return Some((stream, remote));
                }
            }
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(_) => return None,
        }
    }
}
