//! The head of a client's request, parsed in place and recycled.
//!
//! A [`RequestHead`] keeps its buffers between requests, so that a connection in its steady state allocates
//! nothing. `httparse` finds the lines; this module decides what they mean, and refuses what another server
//! could understand in another way (RFC 9112, 11.2).

use super::fields::{Field, Span};
use std::borrow::Cow;

/// The largest number of fields of a request.
pub(crate) const MAX_FIELDS: usize = 128;

/// The limits of a request's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The largest size of the head in bytes.
    pub(crate) size: usize,
    /// The largest number of fields, at most [`MAX_FIELDS`].
    pub(crate) fields: usize,
}

/// The reason why the agent refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadRequest {
    /// The status of the answer.
    pub(crate) status: u16,
    /// The text for the client.
    pub(crate) why: Cow<'static, str>,
}

/// The client's version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    #[default]
    Http11,
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
    bytes: Vec<u8>,
    fields: Vec<Field>,
    method: Span,
    target: Span,
    framing: RequestFraming,
    version: Version,
}

impl RequestHead {
    /// Parses a head at the start of `input`, and returns its size; `None`: the head is incomplete.
    ///
    /// While the head is incomplete, the caller passes the same bytes again with those that have arrived
    /// since. The parser remembers where it stopped, so that a slow client costs no more than a fast one.
    /// A caller that gives up an incomplete head calls [`clear`](Self::clear).
    ///
    /// # Errors
    /// The request is malformed, ambiguous or too large. The connection cannot be used again.
    pub(crate) fn parse(
        &mut self,
        input: &[u8],
        limits: &Limits,
    ) -> Result<Option<usize>, BadRequest> {
        let _ = (input, limits);
        todo!()
    }

    /// Forgets the head, and keeps the buffers unless they are unusually large.
    pub(crate) fn clear(&mut self) {
        todo!()
    }

    /// Returns the method, which may be any token.
    pub(crate) fn method(&self) -> &str {
        todo!()
    }

    /// Returns whether the method is safe to repeat (RFC 9110, 9.2.1): GET, HEAD, OPTIONS or TRACE.
    pub(crate) fn is_safe(&self) -> bool {
        todo!()
    }

    /// Returns what a reply must know about the method.
    pub(crate) fn answer_to(&self) -> AnswerTo {
        todo!()
    }

    /// Returns the target in the origin form (`/path?query`), or `*`. The client's bytes are unchanged.
    pub(crate) fn target(&self) -> &[u8] {
        todo!()
    }

    /// Returns the target up to its query.
    pub(crate) fn path(&self) -> &[u8] {
        todo!()
    }

    /// Returns the target after its first `?`.
    pub(crate) fn query(&self) -> Option<&[u8]> {
        todo!()
    }

    /// Returns the client's version.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Returns names and values of all fields in their order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        std::iter::empty()
    }

    /// Returns the value of the first field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&[u8]> {
        let _ = name;
        todo!()
    }

    /// Returns whether a field of this name has the token in its comma-separated list.
    pub(crate) fn has_token(&self, name: &str, token: &str) -> bool {
        let _ = (name, token);
        todo!()
    }

    /// Returns how the end of the body shows.
    pub(crate) fn framing(&self) -> RequestFraming {
        self.framing
    }

    /// Returns whether the client keeps its connection open after the answer.
    pub(crate) fn keeps_alive(&self) -> bool {
        todo!()
    }

    /// Returns whether the client waits for `100 Continue` before it sends the body.
    pub(crate) fn expects_continue(&self) -> bool {
        todo!()
    }

    /// Returns the protocols that the client asks to switch to: the value of `Upgrade`.
    ///
    /// `Connection` must have named the field, or the value is not for the agent.
    pub(crate) fn upgrade(&self) -> Option<&[u8]> {
        todo!()
    }

    /// Returns the host, with its port if the client named one. Empty: the client named none.
    ///
    /// In the absolute form (`GET http://host/path`) the target overrides the `Host` field.
    pub(crate) fn host(&self) -> &[u8] {
        todo!()
    }
}
