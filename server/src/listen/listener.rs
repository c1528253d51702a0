//! The socket of a listener.

use crate::configuration::Listener;
use crate::failure::{Failure, Kind};
use std::io;
use std::net::{SocketAddr, TcpListener};
use tokio::net::TcpSocket;

/// The number of connections that may wait to be accepted. The kernel may have a lower limit.
const BACKLOG: u32 = 4096;
/// The number of bytes that the kernel holds for a client before the server waits. More would hide how slowly
/// the client reads.
const UNSENT: u32 = 128 * 1024;

/// Opens the socket of a listener. Returns it with its address. Connections wait until they are accepted.
///
/// # Errors
/// The address cannot be listened at.
pub(crate) fn listen(listener: &Listener) -> Result<(TcpListener, SocketAddr), Failure> {
    let at = listener.address;
    bind(at)
        .and_then(|socket| socket.local_addr().map(|address| (socket, address)))
        .map_err(|e| failure(at, &e))
}

fn bind(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Allows a port whose last owner is gone but has lingering connections. A living owner keeps it.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    // Accepted connections inherit both. An older kernel may refuse the second; the server then notices a slow
    // reader later.
    socket.set_nodelay(true)?;
    let _ = socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT);
    socket.listen(BACKLOG)?.into_std()
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
