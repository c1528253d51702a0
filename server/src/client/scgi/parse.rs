//! The parser of SCGI heads: a netstring of names and values, each ended by NUL.
//!
//! The variables of a front become the neutral [`Head`], so that all later rules are those of HTTP. The parser refuses with 400 each
//! request that a front leaves to doubt:
//!
//! - The netstring has a length without leading zeros, and ends with a comma. One above the limit gets 431.
//! - `CONTENT_LENGTH` comes first, and `SCGI` is 1.
//! - A variable of CGI that comes twice has one value. Fields (`HTTP_…`) may come several times.
//! - The name of a field has capitals, digits and `_` behind `HTTP_`. A value has no control character.
//! - Method, target and host are as in HTTP/1. Variables that the server does not know are left out.
//!
//! The requests of stock fronts decide the rest:
//!
//! - nginx without request buffering sends as `CONTENT_LENGTH` what it has received, and only `HTTP_CONTENT_LENGTH` is right. So the
//!   larger one counts. A body that is longer than the client has announced is refused.
//! - A front decodes a chunked body, and may still send `HTTP_TRANSFER_ENCODING`: it is left out.
//! - The path is that of `REQUEST_URI`. `SCRIPT_NAME` of Apache is the whole path, unless there is `PATH_INFO`: see [`mount`].

use crate::client::http1::parse::MAX_FIELDS;
use crate::request::fields::{self, Field, Name, Span};
use crate::request::head::{BadRequest, Head, RequestFraming, Version};
use crate::request::host::names_a_host;
use crate::request::origin;
use crate::request::peer::{Peer, Scheme};
use crate::request::repeats::mark_repeats;
use crate::request::target;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// The largest number of digits of a netstring's length. Heads are at most a mebibyte long.
const MAX_DIGITS: usize = 7;

const fn bad(why: &'static str) -> BadRequest {
    BadRequest::new(400, why)
}

/// Parses a head at the start of `input`. Returns its size; `None`: the head is incomplete.
///
/// # Errors
/// The request is malformed, ambiguous or too large. The connection cannot be used again.
pub(crate) fn parse(
    head: &mut Head,
    input: &[u8],
    max_size: usize,
) -> Result<Option<usize>, BadRequest> {
    let Some((start, length)) = length(input)? else { return Ok(None) };
    let size = start + length + 1;
    if size > max_size {
        return Err(BadRequest::new(431, "the request's head is too long"));
    }
    let Some(netstring) = input.get(..size) else { return Ok(None) };
    if netstring[size - 1] != b',' {
        return Err(bad("the head of the SCGI request does not end with a comma"));
    }
    head.bytes.clear();
    head.fields.clear();
    head.bytes.extend_from_slice(&netstring[start..size - 1]);
    read(head)?;
    Ok(Some(size))
}

/// Returns where the netstring begins, and its length. `None`: the length is incomplete.
fn length(input: &[u8]) -> Result<Option<(usize, usize)>, BadRequest> {
    let digits = input.iter().take(MAX_DIGITS).take_while(|b| b.is_ascii_digit()).count();
    match input.get(digits) {
        None => Ok(None),
        Some(b':') if digits > 0 && (digits == 1 || input[0] != b'0') => {
            let number = fields::length(&input[..digits]).unwrap_or_default();
            Ok(Some((digits + 1, number as usize)))
        }
        Some(_) => Err(bad("the request does not begin as one of SCGI")),
    }
}

/// The variables that say what CGI knows of a request; empty: not given.
#[derive(Default)]
struct Variables {
    all: [Span; KNOWN.len()],
    /// The length of the body that the client has announced.
    announced: Span,
}

/// The names of the variables, in the order of [`Known`].
const KNOWN: [&[u8]; 15] = [
    b"CONTENT_LENGTH",
    b"CONTENT_TYPE",
    b"HTTPS",
    b"PATH_INFO",
    b"REMOTE_ADDR",
    b"REMOTE_PORT",
    b"REQUEST_METHOD",
    b"REQUEST_SCHEME",
    b"REQUEST_URI",
    b"SCGI",
    b"SCRIPT_FILENAME",
    b"SCRIPT_NAME",
    b"SERVER_ADDR",
    b"SERVER_PORT",
    b"SERVER_PROTOCOL",
];

#[derive(Clone, Copy)]
enum Known {
    ContentLength,
    ContentType,
    Https,
    PathInfo,
    RemoteAddr,
    RemotePort,
    RequestMethod,
    RequestScheme,
    RequestUri,
    Scgi,
    ScriptFilename,
    ScriptName,
    ServerAddr,
    ServerPort,
    ServerProtocol,
}

impl Variables {
    fn span(&self, known: Known) -> Span {
        self.all[known as usize]
    }

    fn get<'a>(&self, head: &'a Head, known: Known) -> &'a [u8] {
        self.span(known).get(&head.bytes)
    }

    fn parsed<T: FromStr>(&self, head: &Head, known: Known) -> Option<T> {
        std::str::from_utf8(self.get(head, known)).ok()?.parse().ok()
    }
}

fn read(head: &mut Head) -> Result<(), BadRequest> {
    let variables = take(head)?;
    if variables.get(head, Known::Scgi) != b"1" {
        return Err(bad("the variable SCGI is not 1"));
    }
    mark_repeats(&head.bytes, &mut head.fields);
    // A front passes its client's field on. The client must not remove what the front has set.
    let wishes = fields::read_connection(&head.bytes, &mut head.fields, false).map_err(bad)?;
    head.version = match variables.get(head, Known::ServerProtocol) {
        b"HTTP/1.0" => Version::Http10,
        _ => Version::Http11,
    };
    head.method = variables.span(Known::RequestMethod);
    if !is_token(head.method.get(&head.bytes)) {
        return Err(bad("REQUEST_METHOD is not a method"));
    }
    head.framing = framing(head, &variables)?;
    read_host(head)?;
    let uri = variables.span(Known::RequestUri);
    let given = uri.get(&head.bytes);
    if given.iter().any(|b| *b <= b' ' || *b == 0x7f) || std::str::from_utf8(given).is_err() {
        return Err(bad("REQUEST_URI has a space or a control character, or is not UTF-8"));
    }
    target::read(head, uri)?;
    head.script_name = mount(head, &variables);
    head.reported = Some(reported(head, &variables));
    head.read_upgrade(wishes);
    Ok(())
}

/// Takes the variables out of the netstring, and makes fields of those that are the client's.
fn take(head: &mut Head) -> Result<Variables, BadRequest> {
    let mut variables = Variables::default();
    let block = head.bytes.len();
    let (mut at, mut is_first) = (0, true);
    while at < block {
        let name = until_nul(&head.bytes[..block], at)?;
        let value = until_nul(&head.bytes[..block], name.range().end + 1)?;
        at = value.range().end + 1;
        let text = name.get(&head.bytes);
        if is_first != (text == b"CONTENT_LENGTH") && is_first {
            return Err(bad("CONTENT_LENGTH is not the first variable"));
        }
        is_first = false;
        if let Some(field) = text.strip_prefix(b"HTTP_") {
            let is_name = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_';
            if field.is_empty() || !field.iter().all(is_name) {
                return Err(bad("the name of a header field is malformed"));
            }
            take_field(head, Span::of(field, &head.bytes), value, &mut variables)?;
        } else if let Ok(known) = KNOWN.binary_search(&text) {
            let place = &mut variables.all[known];
            set_once(place, value, &head.bytes)?;
        }
    }
    if is_first {
        return Err(bad("the head of the SCGI request is empty"));
    }
    let content_type = variables.span(Known::ContentType);
    if !content_type.is_empty() {
        let mut given = head.fields.iter().filter(|field| field.known == Name::ContentType);
        match given.next() {
            Some(field) if field.value.get(&head.bytes) != content_type.get(&head.bytes) => {
                return Err(bad("CONTENT_TYPE is not that of the client"));
            }
            Some(_) => {}
            None => {
                let name = head.compose(b"content-type");
                push(head, name, content_type)?;
            }
        }
    }
    Ok(variables)
}

/// Sets a variable, which may come once more with the same value.
fn set_once(place: &mut Span, value: Span, bytes: &[u8]) -> Result<(), BadRequest> {
    if *place != Span::default() && place.get(bytes) != value.get(bytes) {
        return Err(bad("a variable of CGI has two values"));
    }
    *place = value;
    Ok(())
}

/// Takes a field of the client. `_` in its variable stands for `-`.
fn take_field(
    head: &mut Head,
    name: Span,
    value: Span,
    variables: &mut Variables,
) -> Result<(), BadRequest> {
    let text = value.get(&head.bytes);
    if text.iter().any(|b| (*b < b' ' && *b != b'\t') || *b == 0x7f) {
        return Err(bad("the value of a header field is malformed"));
    }
    let value = Span::of(text.trim_ascii(), &head.bytes);
    head.bytes[name.range()].iter_mut().for_each(|b| match b {
        b'_' => *b = b'-',
        b => b.make_ascii_lowercase(),
    });
    match name.get(&head.bytes) {
        b"content-length" => set_once(&mut variables.announced, value, &head.bytes),
        // The front has decoded the body.
        b"transfer-encoding" => Ok(()),
        _ => push(head, name, value),
    }
}

fn push(head: &mut Head, name: Span, value: Span) -> Result<(), BadRequest> {
    if head.fields.len() == MAX_FIELDS {
        return Err(BadRequest::new(431, "the request has too many header fields"));
    }
    let known = Name::classify(name.get(&head.bytes));
    head.fields.push(Field::new(name, value, known));
    Ok(())
}

fn until_nul(block: &[u8], start: usize) -> Result<Span, BadRequest> {
    let rest = block.get(start..).unwrap_or_default();
    let length = rest.iter().position(|b| *b == 0);
    let length = length.ok_or(bad("a variable of the SCGI request does not end"))?;
    Ok(Span::from(start..start + length))
}

/// Returns whether it is a token (RFC 9110, 5.6.2), as a method is.
fn is_token(text: &[u8]) -> bool {
    let is_sign = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    !text.is_empty() && text.iter().all(is_sign)
}

/// Determines the body's length.
fn framing(head: &Head, variables: &Variables) -> Result<RequestFraming, BadRequest> {
    let number = |value: &[u8]| match value {
        [] => Err(bad("CONTENT_LENGTH is not a number")),
        digits => fields::length(digits).ok_or(bad("CONTENT_LENGTH is not a number")),
    };
    let given = number(variables.get(head, Known::ContentLength))?;
    let announced = match variables.announced.get(&head.bytes) {
        [] => None,
        digits => Some(number(digits)?),
    };
    match (given, announced) {
        (0, None) => Ok(RequestFraming::None),
        (length, None) => Ok(RequestFraming::Length(length)),
        (received, Some(length)) if received <= length => Ok(RequestFraming::Length(length)),
        _ => Err(bad("CONTENT_LENGTH is not that of the client")),
    }
}

/// Finds the host, which may be missing: the front has taken a request of HTTP/1.0, or knows no host.
fn read_host(head: &mut Head) -> Result<(), BadRequest> {
    let mut given = head.fields.iter().filter(|field| field.known == Name::Host);
    head.host = match (given.next(), given.next()) {
        (Some(_), Some(_)) => return Err(bad("the request has more than one Host header")),
        (Some(host), None) => host.value,
        (None, _) => Span::default(),
    };
    match head.host.is_empty() || names_a_host(head.host.get(&head.bytes)) {
        true => Ok(()),
        false => Err(bad("the Host header is not of the form host or host:port")),
    }
}

/// Returns the mount that the front names, without a slash at its end.
///
/// `mod_proxy_scgi` of Apache sends the whole path as `SCRIPT_NAME`. Its `SCRIPT_FILENAME` is `proxy:scgi://…`, and then only a
/// `PATH_INFO` shows that the operator has told it the mount.
fn mount(head: &Head, variables: &Variables) -> Span {
    let is_whole_path = variables.get(head, Known::ScriptFilename).starts_with(b"proxy:")
        && variables.span(Known::PathInfo).is_empty();
    if is_whole_path {
        return Span::default();
    }
    let name = variables.get(head, Known::ScriptName);
    Span::of(name.strip_suffix(b"/").unwrap_or(name), &head.bytes)
}

/// Returns the ends of the client's connection to the front.
///
/// A front may report no address, as nginx on a Unix socket does. The client then has the unspecified address, which no proxy
/// has: the address of the front itself would be trusted.
fn reported(head: &Head, variables: &Variables) -> Peer {
    let given = variables.get(head, Known::RemoteAddr);
    let address = std::str::from_utf8(given).ok().and_then(origin::address);
    let address = address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let port = |known| variables.parsed::<u16>(head, known);
    let named = Scheme::named(variables.get(head, Known::RequestScheme)).unwrap_or_default();
    let scheme = match variables.get(head, Known::Https) {
        https if [&b"on"[..], b"1"].iter().any(|on| https.eq_ignore_ascii_case(on)) => {
            Scheme::Https
        }
        _ => named,
    };
    let own = variables.parsed(head, Known::ServerAddr).unwrap_or(Ipv4Addr::LOCALHOST.into());
    let usual = if scheme == Scheme::Https { 443 } else { 80 };
    Peer {
        remote: SocketAddr::new(address, port(Known::RemotePort).unwrap_or(0)),
        local: SocketAddr::new(own, port(Known::ServerPort).unwrap_or(usual)),
        scheme,
        is_reported: true,
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
