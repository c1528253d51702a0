//! The sockets of the listeners.

use crate::client::Protocol;
use crate::configuration::Listener;
use crate::failure::{Failure, Kind};
use crate::listen::socket_file::{self, SocketFile};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use tokio::net::TcpSocket;

/// The number of connections that may wait to be accepted. The kernel may have a lower limit.
const BACKLOG: u16 = 4096;
/// The number of bytes that the kernel holds for a client before the server waits. More would hide how slowly
/// the client reads.
const UNSENT: u32 = 128 * 1024;

/// An open socket on which the server listens.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, Protocol),
}

impl Socket {
    pub(crate) fn try_clone(&self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(listener) => Socket::Tcp(listener.try_clone()?),
            Socket::Unix(listener, protocol) => Socket::Unix(listener.try_clone()?, *protocol),
        })
    }
}

/// The place where the server listens, for people: `http://127.0.0.1:3000`, `unix:/run/app.sock` or `scgi:/run/app.scgi`.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
    Scgi(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(address) => write!(f, "http://{address}"),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
            Place::Scgi(path) => write!(f, "scgi:{}", path.display()),
        }
    }
}

/// All places where a server listens. Its drop removes the files of the sockets.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    pub(crate) sockets: Vec<Socket>,
    pub(crate) places: Vec<Place>,
    files: Vec<SocketFile>,
}

impl Listening {
    /// Returns the TCP addresses.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let address = |place: &Place| match place {
            Place::Tcp(address) => Some(*address),
            Place::Unix(_) | Place::Scgi(_) => None,
        };
        self.places.iter().filter_map(address).collect()
    }

    /// Returns the first socket for SCGI.
    pub(crate) fn scgi_socket(&self) -> Option<PathBuf> {
        self.places.iter().find_map(|place| match place {
            Place::Scgi(path) => Some(path.clone()),
            Place::Tcp(_) | Place::Unix(_) => None,
        })
    }

    /// Returns all places, separated by commas.
    pub(crate) fn text(&self) -> String {
        self.places.iter().map(Place::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Opens the sockets of all listeners. Connections wait until they are accepted.
///
/// # Errors
/// The server cannot listen at an address.
pub(crate) fn listen(listeners: &[Listener]) -> Result<Listening, Failure> {
    let mut all = Listening::default();
    for listener in listeners {
        match listener {
            Listener::Tcp { address, is_v6_only } => {
                let (socket, address) = bind(*address, *is_v6_only)
                    .and_then(|socket| socket.local_addr().map(|address| (socket, address)))
                    .map_err(|e| failure(*address, &e))?;
                all.sockets.push(Socket::Tcp(socket));
                all.places.push(Place::Tcp(address));
            }
            Listener::Unix(place) => {
                let path = &place.path;
                let (socket, file) = socket_file::listen(place, BACKLOG.into()).map_err(|e| {
                    let remedy = socket_file::remedy(path, &e);
                    let text =
                        format!("cannot listen on the socket {}: {e}. {remedy}", path.display());
                    Failure::new(Kind::Address, text)
                })?;
                all.sockets.push(Socket::Unix(socket, place.protocol));
                all.places.push(match place.protocol {
                    Protocol::Http1 => Place::Unix(path.clone()),
                    Protocol::Scgi => Place::Scgi(path.clone()),
                });
                all.files.push(file);
            }
        }
    }
    Ok(all)
}

fn bind(at: SocketAddr, is_v6_only: bool) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Allows a port whose last owner is gone but has lingering connections. A living owner keeps it.
    socket.set_reuseaddr(true)?;
    if at.is_ipv6() {
        // The default of the system may differ (`net.ipv6.bindv6only`).
        socket2::SockRef::from(&socket).set_only_v6(is_v6_only)?;
    }
    socket.bind(at)?;
    // Accepted connections inherit both. An older kernel may refuse the second; the server then notices a slow
    // reader later.
    socket.set_nodelay(true)?;
    let _ = socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT);
    socket.listen(BACKLOG.into())?.into_std()
}

/// Returns the failure to listen at an address.
fn failure(at: SocketAddr, e: &io::Error) -> Failure {
    let remedy = match e.kind() {
        io::ErrorKind::AddrInUse => {
            "Another program listens there: stop it, or choose another port with --port."
        }
        io::ErrorKind::PermissionDenied => {
            "Ports below 1024 need special rights: choose another port with --port."
        }
        io::ErrorKind::AddrNotAvailable => {
            "This machine does not have the address: choose another with --address."
        }
        _ => "Choose another with --address and --port.",
    };
    let message = format!("cannot listen on port {} of {}: {e}. {remedy}", at.port(), at.ip());
    Failure::new(Kind::Address, message)
}
