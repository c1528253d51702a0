//! The socket of a listener.

use crate::configuration::Listener;
use std::io;
use std::net::TcpListener;
use tokio::net::TcpSocket;

/// The number of connections that may wait to be accepted. The kernel may have a lower limit.
const BACKLOG: u32 = 4096;
/// The number of bytes that the kernel holds for a client before the server waits. More would hide how slowly
/// the client reads.
const UNSENT: u32 = 128 * 1024;

/// Binds the address of a listener and listens. Connections wait until they are accepted.
pub(crate) fn listen(listener: &Listener) -> io::Result<TcpListener> {
    let at = listener.address;
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
