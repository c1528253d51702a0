//! Requests of the session protocols: names and values, as CGI names them (RFC 3875).
//!
//! A field `X-Name` becomes the variable `HTTP_X_NAME`, and fields of one name become one variable. A name with
//! `_` could pass for another field, so such fields are left out.

use crate::lane::parts::Message;
use crate::request::fields::{Field, Name, Place};
use crate::request::head::{BadRequest, Head, RequestFraming};
use crate::request::host::without_port;
use crate::request::numbers::{put_ip, put_number};
use crate::request::origin::Forwarded;
use crate::request::peer::Scheme;
use std::net::IpAddr;

/// The largest number of fields with `_` in their names. Each is compared with all others.
const MAX_UNDERSCORED: usize = 100;
const SOFTWARE: &str = concat!("cabrank/", env!("CARGO_PKG_VERSION"));

/// Appends a request's head: a big-endian u32 length, then names and values, each ended by NUL.
///
/// A process that takes upgrades gets the client's wish to switch to another protocol. A request with a body has none: the body
/// could end behind the switch.
///
/// # Errors
/// The protocol cannot express the request: its decoded path has a NUL. Or it has too many fields with `_`. `out` is then as
/// it was.
pub(crate) fn session_pairs(
    out: &mut Vec<u8>,
    message: Message<'_>,
    password: &str,
    takes_upgrades: bool,
) -> Result<(), BadRequest> {
    let Message { head, peer, origin, framing, mount, underscores } = message;
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut pairs = Pairs(out);
    pairs.put("REQUEST_URI", head.target());
    let (script, path) = head.path().split_at(mount);
    pairs.put("SCRIPT_NAME", script);
    if let Err(bad) = pairs.path_info(path) {
        out.truncate(start);
        return Err(bad);
    }
    pairs.put("QUERY_STRING", head.query().unwrap_or_default());
    pairs.put("REQUEST_METHOD", head.method().as_bytes());
    pairs.put("SERVER_PROTOCOL", head.version().name().as_bytes());
    pairs.put("SERVER_SOFTWARE", SOFTWARE.as_bytes());
    match without_port(head.host()) {
        [] => pairs.address("SERVER_NAME", peer.local.ip().to_canonical()),
        name => pairs.put("SERVER_NAME", name),
    }
    pairs.number("SERVER_PORT", peer.local.port());
    pairs.address("REMOTE_ADDR", origin.remote);
    if origin.remote_port != 0 {
        pairs.number("REMOTE_PORT", origin.remote_port);
    }
    if origin.scheme == Scheme::Https {
        pairs.put("HTTPS", b"on");
    }
    if let RequestFraming::Length(length) = framing {
        pairs.number("CONTENT_LENGTH", length);
    }
    if let Some(protocols) = head.upgrade().filter(|_| takes_upgrades && !framing.has_bytes()) {
        pairs.put("HTTP_CONNECTION", b"Upgrade");
        pairs.put("HTTP_UPGRADE", protocols);
    }
    let is_underscored = |field: &&Field| field.known == Name::Underscored;
    if underscores && head.fields.iter().filter(is_underscored).count() > MAX_UNDERSCORED {
        out.truncate(start);
        let why = "the request has more than 100 header fields with `_` in their names";
        return Err(BadRequest::new(431, why));
    }
    for (i, field) in head.fields.iter().enumerate() {
        if is_passed_on(field, origin) && (field.known != Name::Underscored || underscores) {
            pairs.field(head, i);
        }
    }
    pairs.put("PASSENGER_CONNECT_PASSWORD", password.as_bytes());
    // The limit of a request's head is far below 4 GiB.
    let size = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
    Ok(())
}

/// Returns whether this field begins a variable.
fn is_passed_on(field: &Field, origin: &Forwarded) -> bool {
    let is_of_proxy =
        matches!(field.known, Name::Forwarded | Name::ForwardedDetail | Name::ForwardedProto);
    // The server has answered `Expect` itself, and knows the body's length better.
    let is_own = matches!(field.known, Name::Expect | Name::ContentLength);
    // As a variable it would pass for another field.
    !field.is_hop_by_hop
        && !is_own
        && !matches!(field.known, Name::Proxy | Name::Disguised)
        && field.place != Place::Later
        && (origin.from_proxy || !is_of_proxy)
}

/// Returns whether the variable of this field, which has `_` in its name, is that of another field.
fn is_taken(head: &Head, at: usize) -> bool {
    let name = head.fields[at].name.get(&head.bytes);
    let is_mark = |byte: &u8| matches!(byte, b'-' | b'_');
    let same = |(a, b): (&u8, &u8)| a.eq_ignore_ascii_case(b) || is_mark(a) && is_mark(b);
    head.fields.iter().enumerate().any(|(i, field)| {
        let other = field.name.get(&head.bytes);
        // A name without `_` comes first, and then the first one.
        (i < at || field.known != Name::Underscored)
            && i != at
            && name.len() == other.len()
            && name.iter().zip(other).all(same)
    })
}

struct Pairs<'a>(&'a mut Vec<u8>);

impl Pairs<'_> {
    fn put(&mut self, name: &str, value: &[u8]) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        self.0.extend_from_slice(value);
        self.0.push(0);
    }

    fn number(&mut self, name: &str, value: impl itoa::Integer) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        put_number(self.0, value);
        self.0.push(0);
    }

    fn address(&mut self, name: &str, value: IpAddr) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        put_ip(self.0, value);
        self.0.push(0);
    }

    /// Puts the decoded path. An incomplete escape stays as it is.
    fn path_info(&mut self, path: &[u8]) -> Result<(), BadRequest> {
        self.0.extend_from_slice(b"PATH_INFO\0");
        let path = if path == b"*" { b"" } else { path };
        let hex = |byte: u8| char::from(byte).to_digit(16);
        let mut rest = path;
        while let [first, after @ ..] = rest {
            let escaped = match after {
                [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)),
                _ => None,
            };
            let (byte, next) = match escaped {
                Some((high, low)) => ((high * 16 + low) as u8, &after[2..]),
                None => (*first, after),
            };
            if byte == 0 {
                return Err(BadRequest::new(400, "the path has a NUL character"));
            }
            self.0.push(byte);
            rest = next;
        }
        self.0.push(0);
        Ok(())
    }

    /// Puts the variable of a field, with the values of the later fields of the same name.
    fn field(&mut self, head: &Head, at: usize) {
        let field = &head.fields[at];
        let name = field.name.get(&head.bytes);
        if field.known == Name::Underscored && is_taken(head, at) {
            return;
        }
        if field.known != Name::ContentType {
            self.0.extend_from_slice(b"HTTP_");
        }
        self.0.extend(name.iter().map(|b| match b {
            b'-' => b'_',
            b => b.to_ascii_uppercase(),
        }));
        self.0.push(0);
        self.0.extend_from_slice(field.value.get(&head.bytes));
        let separator: &[u8] = if field.known == Name::Cookie { b"; " } else { b", " };
        let mut next = field.next;
        while let Some(at) = next {
            let twin = &head.fields[usize::from(at.get())];
            self.0.extend_from_slice(separator);
            self.0.extend_from_slice(twin.value.get(&head.bytes));
            next = twin.next;
        }
        self.0.push(0);
    }
}

#[cfg(test)]
#[path = "pairs_tests.rs"]
mod tests;
