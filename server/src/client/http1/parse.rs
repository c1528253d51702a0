//! The parser of HTTP/1 heads. `httparse` finds the lines; this module decides what they mean. It refuses what another
//! server could understand in another way (RFC 9112, 11.2):
//!
//! | request | answer |
//! |---|---|
//! | `Content-Length` and `Transfer-Encoding` together, or two lengths that differ | 400 |
//! | `Transfer-Encoding` in HTTP/1.0, or without `chunked` at its end | 400 |
//! | another coding before `chunked` | 501 |
//! | no `Host` in HTTP/1.1, more than one, or a malformed one | 400 |
//! | a control character, a bare CR, a folded line, a space before a colon | 400 |
//! | a target that is longer than the limit; a head that is | 414; 431 |
//! | a version that is neither 1.0 nor 1.1 | 505 |
//! | `CONNECT` | 405 |
//!
//! A line may end with a bare LF (RFC 9112, 2.2). A fragment is cut off the target.
use crate::client::http1::Http1;
use crate::request::fields::{self, Name, Progress, Span};
use crate::request::head::{BadRequest, Head, RequestFraming, Version};
use crate::request::host::names_a_host;
use crate::request::repeats::mark_repeats;
use crate::request::target;
use std::mem::MaybeUninit;

/// The largest number of fields of a request.
pub(crate) const MAX_FIELDS: usize = 1024;
/// The largest number of bytes of empty lines before a request.
const MAX_EMPTY_LINES: usize = 16;

/// The limits of a request's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The largest size of the head in bytes.
    pub(crate) size: usize,
    /// The largest number of fields, at most [`MAX_FIELDS`].
    pub(crate) fields: usize,
}

/// Parses one head after another.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    progress: Progress,
}

impl Parser {
    /// Parses a head at the start of `input`. Returns its size, and what it says of the connection; `None`: the head is
    /// incomplete.
    ///
    /// While the head is incomplete, the caller passes the same bytes again with those that have arrived
    /// since. The parser remembers how far it came, so that a slow client costs no more than a fast one.
    /// A caller that gives up an incomplete head calls [`clear`](Self::clear).
    ///
    /// # Errors
    /// The request is malformed, ambiguous or too large. The connection cannot be used again.
    pub(crate) fn parse(
        &mut self,
        head: &mut Head,
        input: &[u8],
        limits: &Limits,
    ) -> Result<Option<(usize, Http1)>, BadRequest> {
        let is_too_long = input.len() >= limits.size;
        let input = &input[..input.len().min(limits.size)];
        if input.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count() > MAX_EMPTY_LINES {
            return Err(BadRequest::new(400, "there are empty lines instead of a request"));
        }
        let parsed =
            if self.progress.is_due(input) { parse_lines(head, input, limits)? } else { None };
        if parsed.is_none() && is_too_long {
            return Err(too_long(input));
        }
        if parsed.is_some() {
            self.progress = Progress::default();
        }
        Ok(parsed)
    }

    /// Forgets an incomplete head.
    pub(crate) fn clear(&mut self) {
        self.progress = Progress::default();
    }
}

fn parse_lines(
    head: &mut Head,
    input: &[u8],
    limits: &Limits,
) -> Result<Option<(usize, Http1)>, BadRequest> {
    let mut room = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut []);
    let room = &mut room[..limits.fields.min(MAX_FIELDS)];
    let size = match parsed.parse_with_uninit_headers(input, room) {
        Ok(httparse::Status::Complete(size)) => size,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(e) => return Err(malformed(e, input)),
    };
    let lines = &input[..size];
    head.bytes.clear();
    head.bytes.extend_from_slice(lines);
    (head.script_name, head.reported) = Default::default();
    fields::take(parsed.headers, lines, &mut head.fields);
    mark_repeats(&head.bytes, &mut head.fields);
    let wishes = fields::read_connection(&head.bytes, &mut head.fields, true)
        .map_err(|why| BadRequest::new(400, why))?;
    head.version = if parsed.version == Some(0) { Version::Http10 } else { Version::Http11 };
    head.method = Span::of(parsed.method.unwrap_or_default().as_bytes(), lines);
    let expects_continue = read_framing(head)?;
    read_host(head)?;
    target::read(head, Span::of(parsed.path.unwrap_or_default().as_bytes(), lines))?;
    head.read_upgrade(wishes);
    Ok(Some((size, Http1::new(head.version, wishes, expects_continue))))
}

/// Determines the body's length (RFC 9112, 6.3). Returns whether the client waits for `100 Continue`.
fn read_framing(head: &mut Head) -> Result<bool, BadRequest> {
    let (mut length, mut codings, mut is_chunked, mut expects) = (None, 0_usize, false, false);
    for field in &head.fields {
        let value = field.value.get(&head.bytes);
        match field.known {
            Name::ContentLength => {
                let given = fields::length(value)
                    .ok_or(BadRequest::new(400, "Content-Length is not a number"))?;
                if length.replace(given).is_some() {
                    return Err(BadRequest::new(400, "there are two Content-Lengths"));
                }
            }
            Name::TransferEncoding => {
                for coding in value.split(|b| *b == b',') {
                    let was_chunked = is_chunked;
                    is_chunked = coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
                    if was_chunked {
                        let why = "a transfer coding follows chunked";
                        return Err(BadRequest::new(400, why));
                    }
                    codings += 1;
                }
            }
            Name::Expect => expects |= value.eq_ignore_ascii_case(b"100-continue"),
            _ => {}
        }
    }
    head.framing = match (codings, length) {
        (0, None) => RequestFraming::None,
        (0, Some(length)) => RequestFraming::Length(length),
        (_, Some(_)) => {
            let why = "the request has both Content-Length and Transfer-Encoding";
            return Err(BadRequest::new(400, why));
        }
        (_, None) if head.version == Version::Http10 => {
            let why = "HTTP/1.0 has no Transfer-Encoding";
            return Err(BadRequest::new(400, why));
        }
        (_, None) if !is_chunked => {
            let why = "Transfer-Encoding does not end with chunked";
            return Err(BadRequest::new(400, why));
        }
        (1, None) => RequestFraming::Chunked,
        (_, None) => {
            let why = "the only transfer coding that this server knows is chunked";
            return Err(BadRequest::new(501, why));
        }
    };
    let has_body = !matches!(head.framing, RequestFraming::None | RequestFraming::Length(0));
    Ok(expects && has_body && head.version == Version::Http11)
}

/// Finds the `Host` field.
///
/// If a request names two hosts, then proxy, server and application may each believe another one.
/// Attackers use that for cache poisoning and forged links, so the server refuses it (RFC 9112, 3.2).
fn read_host(head: &mut Head) -> Result<(), BadRequest> {
    let mut given = head.fields.iter().filter(|field| field.known == Name::Host);
    head.host = match (given.next(), given.next()) {
        (Some(_), Some(_)) => {
            return Err(BadRequest::new(400, "the request has more than one Host header"));
        }
        (None, _) if head.version == Version::Http11 => {
            return Err(BadRequest::new(400, "the request has no Host header"));
        }
        (None, _) => Span::default(),
        (Some(host), None) => host.value,
    };
    if !head.host.is_empty() && !names_a_host(head.host.get(&head.bytes)) {
        let why = "the Host header is not of the form host or host:port";
        return Err(BadRequest::new(400, why));
    }
    Ok(())
}

/// Returns the error for a head that is as long as the limit allows, and has no end.
fn too_long(input: &[u8]) -> BadRequest {
    if input.trim_ascii_start().contains(&b'\n') {
        BadRequest::new(431, "the request's head is too long")
    } else {
        BadRequest::new(414, "the request's target is too long")
    }
}

fn malformed(error: httparse::Error, input: &[u8]) -> BadRequest {
    use httparse::Error;
    match error {
        Error::TooManyHeaders => BadRequest::new(431, "the request has too many header fields"),
        Error::HeaderName => BadRequest::new(400, "the name of a header field is malformed"),
        Error::HeaderValue => BadRequest::new(400, "the value of a header field is malformed"),
        Error::Version if names_a_version(input) => {
            BadRequest::new(505, "this server speaks HTTP/1.1 and HTTP/1.0")
        }
        _ => BadRequest::new(400, "the request's first line is malformed"),
    }
}

/// Returns whether the first line has three parts, of which the last is a version of HTTP.
fn names_a_version(input: &[u8]) -> bool {
    let line = input.trim_ascii_start().split(|b| *b == b'\n').next().unwrap_or_default();
    let version = line.trim_ascii_end().split(|b| *b == b' ').nth(2);
    version.and_then(|v| v.strip_prefix(b"HTTP/")).is_some_and(|number| {
        matches!(number, [major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit())
    })
}

/// Parses a whole head, for tests.
#[cfg(test)]
pub(crate) fn parsed(input: &str) -> (Head, Http1) {
    let mut head = Head::default();
    let limits = Limits { size: 8192, fields: MAX_FIELDS };
    let parsed = Parser::default().parse(&mut head, input.as_bytes(), &limits);
    let (size, http1) = parsed.unwrap_or_else(|bad| panic!("{input:?}: {bad:?}")).unwrap();
    assert_eq!(size, input.len(), "{input:?}");
    (head, http1)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
