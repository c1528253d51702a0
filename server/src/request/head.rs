//! The head of a request, whatever protocol it has come by. It is parsed once, and recycled.
//!
//! A [`Head`] keeps its buffers between requests, so that a connection in its steady state allocates nothing. The
//! protocols of [`client`](crate::client) write it, and those of [`lane`](crate::lane) read it.

/// Returns whether a client could send requests within a connection that is upgraded to this protocol. They would name their
/// own origin, and pass all limits.
fn carries_requests(protocol: &[u8]) -> bool {
    let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default();
    ["h2c", "h2", "http", "tls"].iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
use crate::request::fields::tokens;
use crate::request::fields::{self, Field, Name, Span, Wishes};
use crate::request::peer::Peer;
use std::borrow::Cow;

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

impl RequestFraming {
    /// Returns whether bytes of a body, or of its chunks, follow the head.
    pub(crate) fn has_bytes(self) -> bool {
        !matches!(self, RequestFraming::None | RequestFraming::Length(0))
    }
}

/// The kind of request that a reply answers. A reply to `HEAD` has no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerTo {
    Head,
    Other,
}

/// The head of a request.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// A copy of the head, followed by parts that the parser has composed.
    pub(crate) bytes: Vec<u8>,
    pub(crate) fields: Vec<Field>,
    pub(crate) method: Span,
    pub(crate) target: Span,
    /// The length of the target up to its query.
    pub(crate) path_length: usize,
    /// The mount that the front names; empty: none.
    pub(crate) script_name: Span,
    /// The addresses and the scheme that the front reports, if its protocol has them.
    pub(crate) reported: Option<Peer>,
    pub(crate) host: Span,
    pub(crate) version: Version,
    pub(crate) framing: RequestFraming,
    /// Empty: the client asks for no upgrade.
    pub(crate) upgrade: Span,
}

impl Head {
    /// Forgets the head, and keeps the buffers unless they are unusually large.
    pub(crate) fn clear(&mut self) {
        let Head { mut bytes, mut fields, .. } = std::mem::take(self);
        fields::recycle(&mut bytes);
        fields::recycle(&mut fields);
        (self.bytes, self.fields) = (bytes, fields);
    }

    /// Appends a part that the head lacks.
    pub(crate) fn compose(&mut self, part: &[u8]) -> Span {
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

    /// Returns the path below which the front serves the application. Empty: it names none.
    pub(crate) fn script_name(&self) -> &[u8] {
        self.script_name.get(&self.bytes)
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

    /// Finds the protocols that the client asks to switch to.
    ///
    /// A request without `Connection: upgrade` asks for nothing, and HTTP/1.0 has no upgrade.
    pub(crate) fn read_upgrade(&mut self, wishes: Wishes) {
        let may = wishes.upgrade && self.version == Version::Http11;
        let asked = self.fields.iter().find(|field| field.known == Name::Upgrade);
        self.upgrade = asked.filter(|_| may).map_or(Span::default(), |field| field.value);
    }

    /// Returns how the end of the body shows.
    pub(crate) fn framing(&self) -> RequestFraming {
        self.framing
    }

    /// Returns the protocols that the client asks to switch to, if it does.
    pub(crate) fn upgrade(&self) -> Option<&[u8]> {
        let protocols = self.upgrade.get(&self.bytes);
        let mut names = protocols.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        (!protocols.is_empty() && !names.any(carries_requests)).then_some(protocols)
    }

    /// Returns the host, with its port if the client named one. Empty: the client named none.
    ///
    /// In the absolute form (`GET http://host/path`) the target overrides the `Host` field.
    pub(crate) fn host(&self) -> &[u8] {
        self.host.get(&self.bytes)
    }
}
