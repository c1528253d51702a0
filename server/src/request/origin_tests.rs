//! The origin of requests behind proxies, and of those that pretend to be.

use super::*;
use crate::client::http1::parse::parsed;
use crate::request::networks::Networks;

/// Returns address, port and scheme of a request with these fields that comes from this peer.
fn origin(from: &str, fields: &str) -> (String, u16, Scheme) {
    let input = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let (head, _) = parsed(&input);
    let remote = SocketAddr::new(from.parse().unwrap(), 5555);
    let peer = Peer {
        remote,
        local: "127.0.0.1:3000".parse().unwrap(),
        scheme: Scheme::Http,
        is_reported: false,
    };
    let trusted: Networks = "10.0.0.0/8, ::1".parse().unwrap();
    let origin = Forwarded::of(&head, &peer, &trusted.into());
    assert_eq!(origin.from_proxy, from.contains("10.") || from == "::1", "{from}");
    (origin.remote.to_string(), origin.remote_port, origin.scheme)
}

#[track_caller]
fn is(from: &str, fields: &str, remote: &str, port: u16, scheme: Scheme) {
    assert_eq!(origin(from, fields), (remote.to_owned(), port, scheme), "{from} {fields:?}");
}

use Scheme::{Http, Https};

#[test]
fn a_client_cannot_forge_its_origin() {
    for fields in [
        "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\n",
        "Forwarded: for=1.1.1.1;proto=https\r\n",
        "X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Ssl: on\r\n",
    ] {
        is("192.0.2.1", fields, "192.0.2.1", 5555, Http);
        is("::ffff:192.0.2.1", fields, "192.0.2.1", 5555, Http);
    }
}

#[test]
fn a_trusted_proxy_gives_address_and_scheme() {
    let fields = "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\n";
    is("10.0.0.1", fields, "1.1.1.1", 0, Https);
    is("::ffff:10.0.0.1", fields, "1.1.1.1", 0, Https);
    is("::1", fields, "1.1.1.1", 0, Https);
    is("10.0.0.1", "X-Forwarded-For: [2001:db8::1]:80\r\n", "2001:db8::1", 80, Http);
    is("10.0.0.1", "X-Forwarded-For: 1.1.1.1:80\r\n", "1.1.1.1", 80, Http);
    is("10.0.0.1", "X-Forwarded-Proto: https\r\n", "10.0.0.1", 5555, Https);
    is("10.0.0.1", "", "10.0.0.1", 5555, Http);
}

#[test]
fn a_chain_ends_at_the_first_address_that_is_not_trusted() {
    // The client has sent the first entry itself.
    is("10.0.0.1", "X-Forwarded-For: 6.6.6.6, 1.1.1.1\r\n", "1.1.1.1", 0, Http);
    is("10.0.0.1", "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 1.1.1.1\r\n", "1.1.1.1", 0, Http);
    is("10.0.0.1", "X-Forwarded-For: 6.6.6.6, 1.1.1.1, 10.0.0.2\r\n", "1.1.1.1", 0, Http);
    is("10.0.0.1", "X-Forwarded-For: 10.0.0.3, 10.0.0.2\r\n", "10.0.0.3", 0, Http);
    is("10.0.0.1", "X-Forwarded-For: 1.1.1.1, unknown, 10.0.0.2\r\n", "10.0.0.2", 0, Http);
    is("10.0.0.1", "X-Forwarded-For: unknown\r\n", "10.0.0.1", 5555, Http);
    is("10.0.0.1", "X-Forwarded-For: fe80::1%eth0\r\n", "fe80::1", 0, Http);
}

#[test]
fn a_chain_of_local_proxies_is_followed_to_its_client() {
    let (head, _) = parsed(
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6, 203.0.113.7, 127.0.0.1\r\n\r\n",
    );
    let address: SocketAddr = "127.0.0.1:5555".parse().unwrap();
    let peer = Peer { remote: address, local: address, scheme: Scheme::Http, is_reported: false };
    let origin = Forwarded::of(&head, &peer, &Trust::new(None, &[address]));
    assert_eq!(origin.remote.to_string(), "203.0.113.7");
}

#[test]
fn the_scheme_is_the_one_of_the_same_place() {
    let one = "X-Forwarded-For: 6.6.6.6, 1.1.1.1\r\nX-Forwarded-Proto: ";
    is("10.0.0.1", &format!("{one}https, http\r\n"), "1.1.1.1", 0, Http);
    is("10.0.0.1", &format!("{one}http, https\r\n"), "1.1.1.1", 0, Https);
    let two = "X-Forwarded-For: 1.1.1.1, 10.0.0.2\r\nX-Forwarded-Proto: ";
    is("10.0.0.1", &format!("{two}https, http\r\n"), "1.1.1.1", 0, Https);
    is("10.0.0.1", &format!("{two}https\r\n"), "1.1.1.1", 0, Https);
    is("10.0.0.1", &format!("{two}gopher\r\n"), "1.1.1.1", 0, Http);
}

#[test]
fn forwarded_is_read_if_the_other_fields_are_missing() {
    is("10.0.0.1", "Forwarded: for=1.1.1.1;proto=https\r\n", "1.1.1.1", 0, Https);
    let v6 = "Forwarded: Host=x ; For=\"[2001:db8::1]:80\";by=\"a,b;c\\\"\"\r\n";
    is("10.0.0.1", v6, "2001:db8::1", 80, Http);
    let two = "Forwarded: for=6.6.6.6;proto=https, for=1.1.1.1\r\nForwarded: for=10.0.0.2\r\n";
    is("10.0.0.1", two, "1.1.1.1", 0, Http);
    is("10.0.0.1", "Forwarded: for=_hidden;proto=https\r\n", "10.0.0.1", 5555, Https);
    is("10.0.0.1", "Forwarded: for=1.1.1.1, \"\r\n", "10.0.0.1", 5555, Http);
    let both = "X-Forwarded-For: 1.1.1.1\r\nForwarded: for=6.6.6.6;proto=https\r\n";
    is("10.0.0.1", both, "1.1.1.1", 0, Http);
    let long = format!("Forwarded: {}for=10.0.0.2\r\n", "for=10.0.0.3,".repeat(100));
    is("10.0.0.1", &long, "10.0.0.3", 0, Http);
}
