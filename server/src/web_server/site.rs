//! The facts of the server that a web server must know.

use crate::client::Protocol;
use crate::configuration::{Configuration, Listener};
use crate::failure::Failure;
use crate::listen::socket_file::UnixPlace;
use crate::request::trust::Trust;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The directory whose files web servers serve, as under Passenger.
const PUBLIC: &str = "public";

/// The facts of the server that a web server must know.
pub(super) struct Site {
    /// The name of the server, made of letters, digits and `_`.
    pub(super) name: String,
    pub(super) way: Way,
    /// The path below which the application is served; empty: the root.
    pub(super) base_uri: String,
    /// The directory of the files that the web server serves itself, if the application has one.
    pub(super) files: Option<Files>,
    /// Whether the server believes a web server on this machine.
    trusts: bool,
}

/// How a web server reaches the server.
pub(super) enum Way {
    Tcp(SocketAddr),
    Unix(String),
    Scgi(String),
}

/// The directory `public` of an application.
pub(super) enum Files {
    /// Its path, between quotes if it needs them.
    In(String),
    /// The path has a sign that means something else to a web server.
    Unwritable,
}

impl Files {
    fn of(root: &Path) -> Option<Files> {
        let dir = root.join(PUBLIC);
        let is_plain = |c: char| c.is_alphanumeric() || "/._~+@,=:-".contains(c);
        let is_special = |c: char| c.is_control() || "\"'\\$%".contains(c);
        dir.is_dir().then(|| match dir.to_str() {
            Some(path) if path.chars().all(is_plain) => Files::In(path.into()),
            Some(path) if !path.contains(is_special) => Files::In(format!("\"{path}\"")),
            _ => Files::Unwritable,
        })
    }
}

impl Site {
    pub(super) fn of(configuration: &Configuration) -> Result<Site, Failure> {
        let name = configuration.server.name.chars();
        let name = name.map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let listeners = &configuration.listeners;
        let address = |listener: &Listener| match listener {
            Listener::Tcp { address, .. } => Some(*address),
            Listener::Unix(_) => None,
        };
        let addresses: Vec<_> = listeners.iter().filter_map(address).collect();
        let socket = |wanted| {
            listeners.iter().find_map(|listener| match listener {
                Listener::Unix(UnixPlace { path, protocol, .. }) if *protocol == wanted => {
                    Some(path.display().to_string())
                }
                _ => None,
            })
        };
        let tcp = || addresses.first().map(|address| Way::Tcp(local(*address)));
        let way = socket(Protocol::Http1).map(Way::Unix);
        let way = way.or_else(|| socket(Protocol::Scgi).map(Way::Scgi)).or_else(tcp);
        let trust = Trust::new(configuration.server.trusted_proxies.as_ref(), &addresses);
        match way {
            Some(Way::Tcp(address)) if address.port() == 0 => Err(Failure::usage(
                "the port 0 is another one at each start. Name a port with --port, or a socket with --socket.",
            )),
            Some(way) => Ok(Site {
                name,
                way,
                base_uri: configuration.applications[0].base_uri().into(),
                files: Files::of(&configuration.applications[0].app.root),
                trusts: trust.is_proxy(Ipv4Addr::LOCALHOST.into(), false),
            }),
            None => Err(Failure::usage("the server listens nowhere.")),
        }
    }

    /// Returns the first lines: what they are, and what the server needs.
    pub(super) fn head(&self, web_server: &str, command: &str) -> String {
        let mut text = format!(
            "# {web_server} in front of the server {} of cabrank, as `cabrank config {command}` prints it.\n",
            self.name
        );
        if let Way::Unix(path) | Way::Scgi(path) = &self.way {
            text += &format!(
                "# The user of {web_server} needs the right to write to {path}: start cabrank with --socket-group www-data.\n"
            );
        }
        match &self.files {
            Some(Files::In(dir)) => {
                text += &format!(
                    "# {web_server} serves the files of {dir} itself, and needs the right to read them. A request for another path goes to cabrank.\n"
                );
            }
            Some(Files::Unwritable) => {
                text += "# The files of `public` are left out: the path has a quote, %, $ or the like. Name the directory by a link without one.\n";
            }
            None => {}
        }
        if !self.trusts {
            text += "# The server does not believe it yet, because it listens on other addresses than the loopback: start cabrank with\n\
                     # --trusted-proxies 127.0.0.1\n";
        }
        text
    }
}

/// Returns an address of this machine, at which a server on all addresses is reached.
fn local(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
