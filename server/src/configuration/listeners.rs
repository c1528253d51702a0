//! Where the server listens: on TCP addresses, on Unix sockets, or on both.

use crate::client::Protocol;
use crate::configuration::options::Options;
use crate::configuration::places::Sockets;
use crate::failure::Failure;
use crate::listen::socket_file::UnixPlace;
use cabrank_spawner::{gid_of, uid_of};
use std::net::SocketAddr;
use std::path::Path;

/// A TCP address or a Unix socket to listen on.
#[derive(Clone, Debug)]
pub(crate) enum Listener {
    /// The default is 127.0.0.1, unlike Passenger's (every address): a development server should not be
    /// open to the network unless the user asks for that.
    Tcp {
        address: SocketAddr,
        /// Whether `::` leaves IPv4 to other listeners.
        is_v6_only: bool,
    },
    Unix(UnixPlace),
}

/// Returns the listeners of a server, the addresses first. A relative path is one below `root`.
///
/// # Errors
/// The owner or the group of the sockets does not exist.
pub(crate) fn of(options: &Options, root: &Path) -> Result<Vec<Listener>, Failure> {
    let of = |sockets: &Option<Sockets>, protocol| {
        let paths = sockets.iter().flat_map(|sockets| sockets.0.clone());
        paths.map(move |path| (path, protocol)).collect::<Vec<_>>()
    };
    let sockets =
        [of(&options.socket, Protocol::Http1), of(&options.scgi_socket, Protocol::Scgi)].concat();
    let mut all = Vec::new();
    if sockets.is_empty() || options.address.is_set() || options.port.is_set() {
        let ips = &options.address.0;
        let is_v6_only = ips.iter().any(|ip| ip.to_canonical().is_ipv4());
        for (i, &ip) in ips.iter().enumerate() {
            // A mapped address is one of IPv4.
            let is_v6_only = is_v6_only && !ip.to_canonical().is_ipv4();
            let address = SocketAddr::new(ip, options.port.0);
            if !ips[..i].contains(&ip) {
                all.push(Listener::Tcp { address, is_v6_only });
            }
        }
    }
    let owner = options.socket_owner.as_deref().map(uid_of).transpose()?;
    let group = options.socket_group.as_deref().map(gid_of).transpose()?;
    let mode = options.socket_mode.0;
    for (i, (path, protocol)) in sockets.iter().enumerate() {
        let protocol = *protocol;
        if !sockets[..i].contains(&(path.clone(), protocol)) {
            all.push(Listener::Unix(UnixPlace {
                path: root.join(path),
                protocol,
                mode,
                owner,
                group,
            }));
        }
    }
    Ok(all)
}
