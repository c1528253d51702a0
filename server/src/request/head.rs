//! The head of a client's request, parsed once and recycled.
//!
//! A [`RequestHead`] keeps its buffers between requests, so that a connection in its steady state allocates
//! nothing. `httparse` finds the lines; this module decides what they mean. It refuses what another server
//! could understand in another way (RFC 9112, 11.2):
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

#[cfg(test)]
use crate::request::fields::tokens;
use crate::request::fields::{self, Field, Name, Progress, Span, Wishes};
use crate::request::host::names_a_host;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// The largest number of fields of a request.
pub(crate) const MAX_FIELDS: usize = 128;
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

/// The reason why the server refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadRequest {
    /// The status of the answer.
    pub(crate) status: u16,
    /// The text for the client.
    pub(crate) why: Cow<'static, str>,
}

impl BadRequest {
    pub(crate) const fn new(status: u16, why: &'static str) -> Self {
        BadRequest { status, why: Cow::Borrowed(why) }
    }
}

/// The client's version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    #[default]
    Http11,
}

impl Version {
    /// Returns the version as messages name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }
}

/// How the end of a request's body shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RequestFraming {
    /// The request has no body.
    #[default]
    None,
    /// The body has this many bytes.
    Length(u64),
    /// The body comes in chunks.
    Chunked,
}

/// The kind of request that a reply answers. A reply to `HEAD` has no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerTo {
    Head,
    Other,
}

/// The head of a request. Its accessors describe the head that [`parse`](Self::parse) read last.
#[derive(Debug, Default)]
pub(crate) struct RequestHead {
    /// A copy of the head, followed by parts that the parser has composed.
    pub(crate) bytes: Vec<u8>,
    pub(crate) fields: Vec<Field>,
    method: Span,
    target: Span,
    /// The length of the target up to its query.
    path_length: usize,
    host: Span,
    version: Version,
    framing: RequestFraming,
    wishes: Wishes,
    expects_continue: bool,
    progress: Progress,
}

impl RequestHead {
    /// Parses a head at the start of `input`, and returns its size; `None`: the head is incomplete.
    ///
    /// While the head is incomplete, the caller passes the same bytes again with those that have arrived
    /// since. The parser remembers how far it came, so that a slow client costs no more than a fast one.
    /// A caller that gives up an incomplete head calls [`clear`](Self::clear).
    ///
    /// # Errors
    /// The request is malformed, ambiguous or too large. The connection cannot be used again.
    pub(crate) fn parse(
        &mut self,
        input: &[u8],
        limits: &Limits,
    ) -> Result<Option<usize>, BadRequest> {
        let is_too_long = input.len() >= limits.size;
        let input = &input[..input.len().min(limits.size)];
        if input.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count() > MAX_EMPTY_LINES {
            return Err(BadRequest::new(400, "there are empty lines instead of a request"));
        }
        let size =
            if self.progress.is_due(input) { self.parse_lines(input, limits)? } else { None };
        if size.is_none() && is_too_long {
            return Err(too_long(input));
        }
        if size.is_some() {
            self.progress = Progress::default();
        }
        Ok(size)
    }

    /// Forgets the head, and keeps the buffers unless they are unusually large.
    pub(crate) fn clear(&mut self) {
        let RequestHead { mut bytes, mut fields, .. } = std::mem::take(self);
        fields::recycle(&mut bytes);
        fields::recycle(&mut fields);
        (self.bytes, self.fields) = (bytes, fields);
    }

    fn parse_lines(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, BadRequest> {
        let mut room = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut parsed = httparse::Request::new(&mut []);
        let room = &mut room[..limits.fields.min(MAX_FIELDS)];
        let size = match parsed.parse_with_uninit_headers(input, room) {
            Ok(httparse::Status::Complete(size)) => size,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(e) => return Err(malformed(e, input)),
        };
        let head = &input[..size];
        self.bytes.clear();
        self.bytes.extend_from_slice(head);
        fields::take(parsed.headers, head, &mut self.fields);
        fields::mark_repeats(&self.bytes, &mut self.fields);
        self.wishes = fields::read_connection(&self.bytes, &mut self.fields)
            .map_err(|why| BadRequest::new(400, why))?;
        self.version = if parsed.version == Some(0) { Version::Http10 } else { Version::Http11 };
        self.method = Span::of(parsed.method.unwrap_or_default().as_bytes(), head);
        self.read_framing()?;
        self.read_host()?;
        self.read_target(Span::of(parsed.path.unwrap_or_default().as_bytes(), head))?;
        Ok(Some(size))
    }

    /// Determines the body's length (RFC 9112, 6.3), and whether the client waits for `100 Continue`.
    fn read_framing(&mut self) -> Result<(), BadRequest> {
        let (mut length, mut codings, mut is_chunked, mut expects) = (None, 0_usize, false, false);
        for field in &self.fields {
            let value = field.value.get(&self.bytes);
            match field.known {
                Name::ContentLength => {
                    let given = fields::length(value)
                        .ok_or(BadRequest::new(400, "Content-Length is not a number"))?;
                    if length.is_some_and(|length| length != given) {
                        return Err(BadRequest::new(
                            400,
                            "there are two different Content-Lengths",
                        ));
                    }
                    length = Some(given);
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
        self.framing = match (codings, length) {
            (0, None) => RequestFraming::None,
            (0, Some(length)) => RequestFraming::Length(length),
            (_, Some(_)) => {
                let why = "the request has both Content-Length and Transfer-Encoding";
                return Err(BadRequest::new(400, why));
            }
            (_, None) if self.version == Version::Http10 => {
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
        let has_body = !matches!(self.framing, RequestFraming::None | RequestFraming::Length(0));
        self.expects_continue = expects && has_body && self.version == Version::Http11;
        Ok(())
    }

    /// Finds the `Host` field.
    ///
    /// If a request names two hosts, then proxy, server and application may each believe another one.
    /// Attackers use that for cache poisoning and forged links, so the server refuses it (RFC 9112, 3.2).
    fn read_host(&mut self) -> Result<(), BadRequest> {
        let mut given = self.fields.iter().filter(|field| field.known == Name::Host);
        self.host = match (given.next(), given.next()) {
            (Some(_), Some(_)) => {
                return Err(BadRequest::new(400, "the request has more than one Host header"));
            }
            (None, _) if self.version == Version::Http11 => {
                return Err(BadRequest::new(400, "the request has no Host header"));
            }
            (None, _) => Span::default(),
            (Some(host), None) => host.value,
        };
        if !self.host.is_empty() && !names_a_host(self.host.get(&self.bytes)) {
            let why = "the Host header is not of the form host or host:port";
            return Err(BadRequest::new(400, why));
        }
        Ok(())
    }

    /// Reduces the target to its origin form. In the absolute form its host overrides the `Host` field.
    ///
    /// The scheme of an absolute target is the client's claim, so nothing depends on it.
    fn read_target(&mut self, target: Span) -> Result<(), BadRequest> {
        let given = target.get(&self.bytes);
        let is_options = self.method.get(&self.bytes) == b"OPTIONS";
        if self.method.get(&self.bytes) == b"CONNECT" {
            return Err(BadRequest::new(405, "this server is not a proxy"));
        }
        let end = given.iter().position(|b| *b == b'#').unwrap_or(given.len());
        if given.first() == Some(&b'/') || (given == b"*" && is_options) {
            self.target = Span::of(&given[..end], &self.bytes);
        } else {
            let rest = after_scheme(&given[..end]);
            let rest = rest.ok_or(BadRequest::new(400, "the request's target is malformed"))?;
            let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
            let (authority, rest) = rest.split_at(end);
            let host = authority.rsplit(|b| *b == b'@').next().unwrap_or_default();
            if !names_a_host(host) {
                return Err(BadRequest::new(400, "the host in the request's target is malformed"));
            }
            let (host, rest) = (Span::of(host, &self.bytes), Span::of(rest, &self.bytes));
            self.set_host(host);
            self.set_target_after_host(rest);
        }
        let target = self.target();
        self.path_length = target.iter().position(|b| *b == b'?').unwrap_or(target.len());
        Ok(())
    }

    fn set_host(&mut self, host: Span) {
        self.host = host;
        match self.fields.iter_mut().find(|field| field.known == Name::Host) {
            Some(field) => field.value = host,
            None => {
                let name = self.compose(b"Host");
                self.fields.push(Field::new(name, host, Name::Host));
            }
        }
    }

    fn set_target_after_host(&mut self, rest: Span) {
        self.target = rest;
        if rest.get(&self.bytes).first() != Some(&b'/') {
            let slash = self.compose(b"/");
            self.bytes.extend_from_within(rest.range());
            self.target = Span::from(slash.range().start..self.bytes.len());
        }
    }

    /// Appends a part that the head lacks.
    fn compose(&mut self, part: &[u8]) -> Span {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(part);
        Span::from(at..self.bytes.len())
    }

    /// Returns the method, which may be any token.
    pub(crate) fn method(&self) -> &str {
        self.method.text(&self.bytes)
    }

    /// Returns whether the method is safe to repeat (RFC 9110, 9.2.1): GET, HEAD, OPTIONS or TRACE.
    pub(crate) fn is_safe(&self) -> bool {
        matches!(self.method(), "GET" | "HEAD" | "OPTIONS" | "TRACE")
    }

    /// Returns what the parser of the reply must know about the method.
    pub(crate) fn answer_to(&self) -> AnswerTo {
        if self.method() == "HEAD" { AnswerTo::Head } else { AnswerTo::Other }
    }

    /// Returns the target in the origin form (`/path?query`), or `*`. Its bytes are the client's.
    pub(crate) fn target(&self) -> &[u8] {
        self.target.get(&self.bytes)
    }

    /// Returns the target up to its query.
    pub(crate) fn path(&self) -> &[u8] {
        &self.target()[..self.path_length]
    }

    /// Returns the target after its first `?`.
    pub(crate) fn query(&self) -> Option<&[u8]> {
        self.target().get(self.path_length + 1..)
    }

    /// Returns the client's version.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Returns names and values of all fields in their order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields.iter().map(|f| (f.name.text(&self.bytes), f.value.get(&self.bytes)))
    }

    /// Returns the values of the fields that have this classified name.
    pub(crate) fn values(&self, known: Name) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.fields.iter().filter(move |f| f.known == known).map(|f| f.value.get(&self.bytes))
    }

    /// Returns the value of the first field of this name.
    #[cfg(test)]
    pub(crate) fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns whether a field of this name has the token in its comma-separated list.
    #[cfg(test)]
    pub(crate) fn has_token(&self, name: &str, token: &str) -> bool {
        let mut fields = self.fields().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        fields.any(|(_, value)| tokens(value).any(|t| t.eq_ignore_ascii_case(token.as_bytes())))
    }

    /// Returns how the end of the body shows.
    pub(crate) fn framing(&self) -> RequestFraming {
        self.framing
    }

    /// Returns whether the client keeps its connection open after the answer.
    pub(crate) fn keeps_alive(&self) -> bool {
        !self.wishes.close && (self.version == Version::Http11 || self.wishes.keep_alive)
    }

    /// Returns whether the client waits for `100 Continue` before it sends the body.
    pub(crate) fn expects_continue(&self) -> bool {
        self.expects_continue
    }

    /// Returns the protocols that the client asks to switch to: the value of `Upgrade`.
    ///
    /// A request without `Connection: upgrade` asks for nothing, and HTTP/1.0 has no upgrade.
    pub(crate) fn upgrade(&self) -> Option<&[u8]> {
        let may = self.wishes.upgrade && self.version == Version::Http11;
        self.values(Name::Upgrade).next().filter(|value| may && !value.is_empty())
    }

    /// Returns the host, with its port if the client named one. Empty: the client named none.
    ///
    /// In the absolute form (`GET http://host/path`) the target overrides the `Host` field.
    pub(crate) fn host(&self) -> &[u8] {
        self.host.get(&self.bytes)
    }
}

/// Returns the part of an absolute target after `http://` or `https://`.
fn after_scheme(target: &[u8]) -> Option<&[u8]> {
    ["http://", "https://"].iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
    })
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

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
