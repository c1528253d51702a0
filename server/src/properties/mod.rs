//! Promises of each parser that hold for all bytes.
//!
//! Each function takes bytes and panics if the promise is broken. The fuzz targets in `server/fuzz` search for such bytes;
//! tests try a few inputs and all their parts.

mod client;
mod reply;
mod request;

pub use client::{origin, proxy_head};
pub use reply::{cgi_reply, chunked, http_reply};
pub use request::{request_head, scgi_head};

use crate::request::networks::Networks;
use crate::request::peer::{Peer, Scheme};
use crate::request::trust::Trust;

/// Returns a connection from an address in 10.0.0.0/8 or outside of it.
fn peer(from: [u8; 4]) -> Peer {
    let local = ([127, 0, 0, 1], 3000).into();
    Peer { remote: (from, 5555).into(), local, scheme: Scheme::Http, is_reported: false }
}

/// Returns the trust in the proxies of a list.
fn trusting(listed: &str) -> Trust {
    let listed: Networks = listed.parse().expect("networks");
    Trust::new(Some(&listed), &[([0, 0, 0, 0], 3000).into()])
}

/// Returns the input without its first byte, and a place in the rest that the first byte determines.
fn with_cut(input: &[u8]) -> Option<(&[u8], usize)> {
    let (first, rest) = input.split_first()?;
    Some((rest, usize::from(*first) * rest.len() / 256))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUTS: [&str; 11] = [
        "CONTENT_LENGTH\x003\0SCGI\x001\0REQUEST_METHOD\0POST\0REQUEST_URI\0/blog/a%20b?c\0SCRIPT_NAME\0/blog\0HTTP_HOST\0a\0HTTP_X_A\x001\0HTTP_X_A\x002\0HTTP_CONNECTION\0upgrade\0HTTP_UPGRADE\0x\0",
        "71:CONTENT_LENGTH\x000\0SCGI\x001\0REQUEST_METHOD\0GET\0REQUEST_URI\0http://b/%00\0HTTP_TE\x001\0,",
        "GET /a?b HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.0.0.9\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
        "POST http://b/%00 HTTP/1.0\nTransfer-Encoding: chunked\nConnection: upgrade\nUpgrade: x\n\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nX_A: 1\r\nX-A: 2\r\nForwarded: for=10.0.0.1;proto=https\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
        "HTTP/1.0 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "Status: 404 Not Found\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\nabc",
        "3;a=b\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\n",
        "\r\n\r\n\r\nPROXY UNKNOWN\r\n",
    ];

    #[test]
    fn the_properties_hold_for_parts_of_a_few_inputs() {
        let properties =
            [request_head, scgi_head, http_reply, cgi_reply, chunked, origin, proxy_head];
        for input in INPUTS {
            for end in 0..=input.len() {
                for cut in [0, 77, 255] {
                    let input = [&[cut], &input.as_bytes()[..end]].concat();
                    for property in properties {
                        property(&input);
                    }
                }
            }
        }
    }
}
