//! The senders whose word on the client's address and scheme counts.
//!
//! `--trusted-proxies` lists them. A server that listens on loopback addresses alone also trusts the loopback: a proxy on the
//! same machine is then the only way for a client of another machine. `--trusted-proxies none` trusts nobody.
//!
//! A local user can forge an address on such a server. The loopback counts only as the address of a connection, and in a
//! list that a trusted proxy has sent: never as an address that the PROXY protocol reports.

use crate::request::fields::Name;
use crate::request::head::Head;
use crate::request::networks::Networks;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// The largest part of a field's name that the log shows.
const MAX_NAME: usize = 40;

/// The trusted proxies of a server.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    listed: Networks,
    loopback: bool,
    /// Whether the log has a line about a sender that is not trusted.
    has_noted: AtomicBool,
}

impl Trust {
    /// Returns the trust of a server that listens on these addresses. `listed`: the value of `--trusted-proxies`.
    pub(crate) fn new(listed: Option<&Networks>, listens_on: &[SocketAddr]) -> Trust {
        let is_off = listed.is_some_and(Networks::is_empty);
        let is_local = listens_on.iter().all(|address| address.ip().to_canonical().is_loopback());
        Trust {
            listed: listed.cloned().unwrap_or_default(),
            loopback: is_local && !is_off,
            has_noted: AtomicBool::new(false),
        }
    }

    /// Returns whether the other end of a connection is a trusted proxy. `is_reported`: the PROXY protocol gave the address.
    pub(crate) fn is_proxy(&self, address: IpAddr, is_reported: bool) -> bool {
        let is_local = self.loopback && !is_reported && address.to_canonical().is_loopback();
        is_local || self.listed.contains(address)
    }

    /// Returns whether an address that a trusted proxy has sent in a list is that of another one.
    pub(crate) fn follows(&self, address: IpAddr) -> bool {
        self.listed.contains(address) || self.loopback && address.to_canonical().is_loopback()
    }

    /// Logs the first request with a field of proxies whose sender is not trusted.
    pub(crate) fn note_fields(&self, head: &Head, sender: IpAddr) {
        if self.has_noted.load(Ordering::Relaxed) {
            return;
        }
        let of_proxy = |known| {
            use Name::{Forwarded, ForwardedDetail, ForwardedFor, ForwardedProto};
            matches!(known, Forwarded | ForwardedDetail | ForwardedFor | ForwardedProto)
        };
        let Some(field) = head.fields.iter().find(|field| of_proxy(field.known)) else { return };
        let name = field.name.get(&head.bytes);
        self.note_untrusted(&String::from_utf8_lossy(&name[..name.len().min(MAX_NAME)]), sender);
    }

    /// Logs the first field or variable of proxies whose sender is not trusted.
    pub(crate) fn note_untrusted(&self, name: &str, sender: IpAddr) {
        if self.has_noted.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            "{sender} sends {name}, and is not a trusted proxy: the server does not believe it. If {sender} is your \
             proxy, name it with --trusted-proxies {sender}. Further requests like this are not logged."
        );
    }
}

#[cfg(test)]
impl From<Networks> for Trust {
    fn from(listed: Networks) -> Trust {
        Trust { listed, ..Trust::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::http1::parse::parsed;

    fn is_proxy(trust: &Trust, address: &str, is_reported: bool) -> bool {
        trust.is_proxy(address.parse().unwrap(), is_reported)
    }

    fn trust(listed: Option<&str>, listens_on: &[&str]) -> Trust {
        let listed = listed.map(|text| text.parse().unwrap());
        let addresses: Vec<_> = listens_on.iter().map(|at| at.parse().unwrap()).collect();
        Trust::new(listed.as_ref(), &addresses)
    }

    #[test]
    fn the_loopback_is_trusted_exactly_if_the_server_listens_nowhere_else() {
        let local = ["127.0.0.1:80", "[::1]:80", "127.9.9.9:80", "[::ffff:127.0.0.1]:80"];
        for address in ["127.0.0.1", "::1", "127.0.0.9", "::ffff:127.0.0.1"] {
            assert!(is_proxy(&trust(None, &local), address, false), "{address}");
            assert!(is_proxy(&trust(Some("10.0.0.1"), &local), address, false), "{address}");
            // A server without an address listens on Unix sockets alone.
            assert!(is_proxy(&trust(None, &[]), address, false), "{address}");
            for other in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "10.0.0.1:80"] {
                let trust = trust(None, &["127.0.0.1:80", other]);
                assert!(!is_proxy(&trust, address, false), "{address} {other}");
                assert!(!trust.follows(address.parse().unwrap()), "{address} {other}");
            }
        }
        assert!(!is_proxy(&trust(None, &local), "192.0.2.1", false));
    }

    #[test]
    fn none_trusts_nobody() {
        let trust = trust(Some("none"), &["127.0.0.1:80"]);
        assert!(!is_proxy(&trust, "127.0.0.1", false) && !is_proxy(&trust, "::1", false));
        assert!(!trust.follows("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_loopback_address_that_the_proxy_protocol_reports_is_trusted_only_if_it_is_listed() {
        assert!(!is_proxy(&trust(None, &["127.0.0.1:80"]), "127.0.0.1", true));
        assert!(!is_proxy(&trust(Some("10.0.0.1"), &["127.0.0.1:80"]), "127.0.0.1", true));
        let listed = trust(Some("127.0.0.1,10.0.0.1"), &["127.0.0.1:80"]);
        assert!(is_proxy(&listed, "127.0.0.1", true));
        assert!(is_proxy(&listed, "10.0.0.1", true));
    }

    #[test]
    fn only_a_field_of_proxies_is_worth_a_line_and_only_one() {
        let trust = trust(None, &["0.0.0.0:80"]);
        let sender = "192.0.2.1".parse().unwrap();
        let note = |field: &str| {
            let (head, _) = parsed(&format!("GET / HTTP/1.1\r\nHost: a\r\n{field}: 1\r\n\r\n"));
            trust.note_fields(&head, sender);
            trust.has_noted.load(Ordering::Relaxed)
        };
        assert!(!note("X-Real-IP") && !note("Accept"));
        assert!(note("X-Forwarded-Host"));
    }
}
