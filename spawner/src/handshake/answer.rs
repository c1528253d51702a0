//! The answer of a loader whose application is ready: its sockets.

use std::net::SocketAddr;
use std::path::{Component, PathBuf};

/// The loader's answer when its application is ready.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) sockets: Vec<Socket>,
    pub(crate) pid: Option<u32>,
    /// The socket for commands, if the loader is a preloader.
    pub(crate) commands: Option<PathBuf>,
    /// Whether the loader ends its WebSockets when it is asked to, and goes on with other requests.
    pub(crate) ends_websockets: bool,
    /// Whether its requests in HTTP begin with their origin: see [`Protocol::HttpSession`].
    pub(crate) takes_origin: bool,
    /// Whether its kept sessions may switch to another protocol.
    pub(crate) takes_upgrades: bool,
}

impl Ready {
    /// Returns the socket for requests: one with a protocol that not each server knows, where the loader offers it, else
    /// `main`.
    pub(crate) fn preferred(&self) -> Option<&Socket> {
        let better = self.sockets.iter().find(|s| !s.protocol.may_be_main());
        better.or_else(|| self.sockets.iter().find(|s| s.name == "main"))
    }
}

/// One socket that the process listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) protocol: Protocol,
    /// The number of simultaneous sessions; 0: any number.
    pub(crate) concurrency: usize,
}

/// The address that a process listens on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A Unix socket on which only this user may listen.
    UnixOf(PathBuf, u32),
    /// A TCP socket.
    Tcp(SocketAddr),
}

/// The protocol of a process's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// One request a connection.
    Session,
    /// One request after another, in the frames of [`crate::kept`].
    KeptSession,
    /// HTTP/1.1.
    ///
    /// A loader may ask for the origin of each request. The target then is
    /// `/PASSWORD,SCHEME;ADDRESS;PORT,TARGET`, where `TARGET` is the client's. The server writes it into each request, so that
    /// a client's own target never stands there. If the application is served below a path, `;PATH` follows the port.
    HttpSession,
}

impl Protocol {
    /// All protocols.
    pub const ALL: &[Protocol] = &[Protocol::Session, Protocol::KeptSession, Protocol::HttpSession];

    /// Returns the name in the line of a socket.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Session => "session",
            Protocol::KeptSession => "kept_session",
            Protocol::HttpSession => "http_session",
        }
    }

    /// Returns the protocol with this name.
    pub fn of_name(name: &str) -> Option<Protocol> {
        Protocol::ALL.iter().copied().find(|protocol| protocol.name() == name)
    }

    /// Returns the names of the protocols that the socket `main` may have.
    pub fn names_of_main() -> Vec<&'static str> {
        Protocol::ALL.iter().filter(|known| known.may_be_main()).map(|known| known.name()).collect()
    }

    /// Returns whether the socket `main` may have it: each server must be able to serve that socket.
    pub fn may_be_main(self) -> bool {
        match self {
            Protocol::Session | Protocol::HttpSession => true,
            Protocol::KeptSession => false,
        }
    }

    /// Returns whether a connection carries one request after another. A request then borrows one from
    /// [`Connections`](crate::connections::Connections); else its session opens one.
    pub fn keeps_connections(self) -> bool {
        match self {
            Protocol::Session => false,
            Protocol::KeptSession | Protocol::HttpSession => true,
        }
    }
}

/// Parses `NAME;ADDRESS;PROTOCOL;CONCURRENCY`.
///
/// Returns `None` for a socket beside `main` whose protocol the server does not know: a loader may offer
/// protocols of the future.
pub(crate) fn parse_socket(value: &str) -> Result<Option<Socket>, String> {
    let parts: Vec<_> = value.split(';').collect();
    let [name, address, protocol, concurrency] = parts[..] else {
        return Err("expected NAME;ADDRESS;PROTOCOL;CONCURRENCY".into());
    };
    let is_main = name == "main";
    let known = Protocol::of_name(protocol).filter(|known| !is_main || known.may_be_main());
    let Some(protocol) = known else {
        return if is_main { Err(format!("unknown protocol {protocol}")) } else { Ok(None) };
    };
    let concurrency = concurrency.parse().map_err(|_| "bad concurrency".to_owned())?;
    Ok(Some(Socket { name: name.into(), address: parse_address(address)?, protocol, concurrency }))
}

pub(crate) fn parse_address(address: &str) -> Result<Address, String> {
    if let Some(path) = address.strip_prefix("unix:") {
        let path = PathBuf::from(path);
        let normal =
            path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
        if !path.is_absolute() || !normal {
            return Err("the socket's path is not absolute and normal".into());
        }
        return Ok(Address::Unix(path));
    }
    match address.strip_prefix("tcp://").map(str::parse::<SocketAddr>) {
        Some(Ok(at)) if at.ip().is_loopback() => Ok(Address::Tcp(at)),
        _ => Err("the address is neither unix:/path nor tcp://127.0.0.1:PORT".into()),
    }
}
