//! The head of an application's reply, parsed in place and recycled.
//!
//! Processes of the `http_session` protocol answer in HTTP. Those of the session protocols send the fields
//! alone, and the status in a field `Status`.

use super::fields::{Field, Span};
use super::request_head::AnswerTo;

/// The longest head of a reply, in bytes: Passenger's own limit for Ruby.
pub(crate) const MAX_REPLY_HEAD: usize = 128 * 1024;
/// The largest number of header fields in a reply.
pub(crate) const MAX_REPLY_FIELDS: usize = 256;

/// How the end of a reply's body shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplyFraming {
    /// The reply has no body.
    #[default]
    None,
    /// The body has this many bytes.
    Length(u64),
    /// The body comes in chunks.
    Chunked,
    /// The body ends with the connection.
    UntilClose,
}

/// The head of a reply. Its accessors describe the head that was parsed last.
#[derive(Debug, Default)]
pub(crate) struct ReplyHead {
    bytes: Vec<u8>,
    fields: Vec<Field>,
    reason: Span,
    status: u16,
    framing: ReplyFraming,
    closes: bool,
}

impl ReplyHead {
    /// Parses an HTTP head at the start of `input`, and returns its size; `None`: the head is incomplete.
    ///
    /// While the head is incomplete, the caller passes the same bytes again with those that have arrived
    /// since, or calls [`clear`](Self::clear).
    ///
    /// # Errors
    /// The bytes are not a head, or the head must not be passed on. The text is for the log.
    pub(crate) fn parse_http(
        &mut self,
        input: &[u8],
        to: AnswerTo,
    ) -> Result<Option<usize>, String> {
        let _ = (input, to);
        todo!()
    }

    /// Parses a head of the session protocols likewise: fields, with the status in `Status` (default 200).
    ///
    /// # Errors
    /// As [`parse_http`](Self::parse_http). Interim replies and transfer codings do not exist in these
    /// protocols.
    pub(crate) fn parse_cgi(
        &mut self,
        input: &[u8],
        to: AnswerTo,
    ) -> Result<Option<usize>, String> {
        let _ = (input, to);
        todo!()
    }

    /// Forgets the head, and keeps the buffers unless they are unusually large.
    pub(crate) fn clear(&mut self) {
        todo!()
    }

    /// Returns the status, from 100 to 999.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Returns the application's own words for the status. They may be empty.
    pub(crate) fn reason(&self) -> &[u8] {
        todo!()
    }

    /// Returns names and values of all fields in their order, without `Status`.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        std::iter::empty()
    }

    /// Returns the value of the first field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&[u8]> {
        let _ = name;
        todo!()
    }

    /// Returns how the end of the body shows.
    pub(crate) fn framing(&self) -> ReplyFraming {
        self.framing
    }

    /// Returns whether the application closes the connection after this reply (RFC 9112, 9.3).
    pub(crate) fn closes(&self) -> bool {
        self.closes
    }

    /// Returns whether another reply to the same request follows: the status is 1xx, but not 101.
    pub(crate) fn is_interim(&self) -> bool {
        todo!()
    }

    /// Returns whether the connection speaks another protocol after this reply: the status is 101.
    pub(crate) fn switches_protocols(&self) -> bool {
        self.status == 101
    }
}
