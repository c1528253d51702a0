//! The head of an application's reply, parsed once and recycled.
//!
//! Processes of the `http_session` protocol answer in HTTP. Those of the session protocols send the fields
//! alone, and the status in a field `Status`.
//!
//! An application is trusted more than a client, so that the parser only refuses what the server cannot pass
//! on without a guess. If a reply has `Transfer-Encoding: chunked` and a `Content-Length`, then the chunks
//! count (RFC 9112, 6.3), and the connection is not used again.

use crate::request::fields::{self, Field, Name, Progress, Span};
use crate::request::head::AnswerTo;
use cabrank_spawner::kept::MAX_REPLY_HEAD;
use std::mem::MaybeUninit;

/// The largest number of header fields in a reply.
pub(crate) const MAX_REPLY_FIELDS: usize = 1024;

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
    pub(crate) bytes: Vec<u8>,
    pub(crate) fields: Vec<Field>,
    reason: Span,
    status: u16,
    framing: ReplyFraming,
    closes: bool,
    progress: Progress,
}

/// The parts of a reply's first line.
struct FirstLine {
    status: u16,
    reason: Span,
    keeps_alive: bool,
}

/// Parses the lines of a head, and returns its size.
type Lines = fn(&mut ReplyHead, &[u8]) -> Result<Option<(usize, FirstLine)>, String>;

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
        self.parse(input, to, Self::http_lines)
    }

    /// Parses a head of the session protocols likewise: fields, with the status in `Status` (default 200).
    ///
    /// # Errors
    /// As [`parse_http`](Self::parse_http). Transfer codings do not exist in these protocols, and interim replies have
    /// [frames of their own](Self::parse_interim).
    pub(crate) fn parse_cgi(
        &mut self,
        input: &[u8],
        to: AnswerTo,
    ) -> Result<Option<usize>, String> {
        self.parse_kept(input, to).and_then(|size| match self.status {
            101 if size.is_some() => Err("its status is 101".into()),
            _ => Ok(size),
        })
    }

    /// Parses the head of a kept session likewise, which may switch to another protocol.
    ///
    /// # Errors
    /// As [`parse_cgi`](Self::parse_cgi).
    pub(crate) fn parse_kept(
        &mut self,
        input: &[u8],
        to: AnswerTo,
    ) -> Result<Option<usize>, String> {
        let size = self.parse(input, to, Self::cgi_lines)?;
        match self.status {
            status @ ..200 if size.is_some() && status != 101 => {
                Err(format!("its status is {status}"))
            }
            _ => Ok(size),
        }
    }

    /// Parses the head of an interim reply likewise. It cannot switch protocols.
    ///
    /// # Errors
    /// As [`parse_http`](Self::parse_http), and if the status is not that of an interim reply.
    pub(crate) fn parse_interim(
        &mut self,
        input: &[u8],
        to: AnswerTo,
    ) -> Result<Option<usize>, String> {
        let size = self.parse(input, to, Self::cgi_lines)?;
        if size.is_none() || self.is_interim() {
            return Ok(size);
        }
        Err(format!("the status of an interim answer is {}", self.status))
    }

    fn parse(&mut self, input: &[u8], to: AnswerTo, lines: Lines) -> Result<Option<usize>, String> {
        let is_too_long = input.len() >= MAX_REPLY_HEAD;
        let input = &input[..input.len().min(MAX_REPLY_HEAD)];
        let found = if self.progress.is_due(input) { lines(self, input)? } else { None };
        match found {
            Some((size, first)) => {
                self.progress = Progress::default();
                self.read_fields(&first, to)?;
                Ok(Some(size))
            }
            None if is_too_long => Err(format!("it is longer than {MAX_REPLY_HEAD} bytes")),
            None => Ok(None),
        }
    }

    fn http_lines(&mut self, input: &[u8]) -> Result<Option<(usize, FirstLine)>, String> {
        let mut room = [const { MaybeUninit::uninit() }; MAX_REPLY_FIELDS];
        let mut parsed = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let size = match config.parse_response_with_uninit_headers(&mut parsed, input, &mut room) {
            Ok(httparse::Status::Complete(size)) => size,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(e) => return Err(e.to_string()),
        };
        let head = &input[..size];
        let reason = parsed.reason.map(str::as_bytes).filter(|reason| !reason.is_empty());
        let first = FirstLine {
            status: parsed.code.unwrap_or_default(),
            // An empty reason may be a text of httparse itself, not a part of the head.
            reason: reason.map_or(Span::default(), |reason| Span::of(reason, head)),
            keeps_alive: parsed.version == Some(1),
        };
        self.copy(head, parsed.headers);
        if first.status < 100 {
            return Err(format!("its status is {}", first.status));
        }
        Ok(Some((size, first)))
    }

    fn cgi_lines(&mut self, input: &[u8]) -> Result<Option<(usize, FirstLine)>, String> {
        // Few replies have more fields than the small room, which costs less to prepare.
        let size = match self.cgi_fields::<32>(input) {
            Err(httparse::Error::TooManyHeaders) => self.cgi_fields::<MAX_REPLY_FIELDS>(input),
            other => other,
        };
        let Some(size) = size.map_err(|e| e.to_string())? else { return Ok(None) };
        let mut first = FirstLine { status: 200, reason: Span::default(), keeps_alive: true };
        for field in &self.fields {
            let value = field.value.get(&self.bytes);
            match field.known {
                Name::Status => (first.status, first.reason) = self.read_status(value)?,
                // The server does not decode bodies of these protocols, so the client would see chunk headers.
                Name::TransferEncoding => return Err(wrong("a Transfer-Encoding", value)),
                _ => {}
            }
        }
        Ok(Some((size, first)))
    }

    fn cgi_fields<const ROOM: usize>(
        &mut self,
        input: &[u8],
    ) -> Result<Option<usize>, httparse::Error> {
        let mut room = [httparse::EMPTY_HEADER; ROOM];
        match httparse::parse_headers(input, &mut room)? {
            httparse::Status::Complete((size, parsed)) => {
                self.copy(&input[..size], parsed);
                Ok(Some(size))
            }
            httparse::Status::Partial => Ok(None),
        }
    }

    fn copy(&mut self, head: &[u8], parsed: &[httparse::Header<'_>]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(head);
        fields::take(parsed, head, &mut self.fields);
    }

    /// Reads the value of `Status`: three digits, and then the end or a reason.
    fn read_status(&self, value: &[u8]) -> Result<(u16, Span), String> {
        let (digits, rest) = value.split_at(value.len().min(3));
        let number = fields::length(digits).filter(|n| *n >= 100);
        let reason = match rest {
            [] => Some(rest),
            [b' ' | b'\t', ..] => Some(rest.trim_ascii_start()),
            _ => None,
        };
        match (number, reason) {
            (Some(number), Some(reason)) => Ok((number as u16, Span::of(reason, &self.bytes))),
            _ => Err(wrong("a bad Status", value)),
        }
    }

    /// Determines the body's length (RFC 9112, 6.3), and whether the connection can be used again.
    fn read_fields(&mut self, first: &FirstLine, to: AnswerTo) -> Result<(), String> {
        let wishes = fields::read_connection(&self.bytes, &mut self.fields, true)?;
        let (mut length, mut is_chunked) = (None, false);
        for field in &self.fields {
            let value = field.value.get(&self.bytes);
            match field.known {
                Name::ContentLength => {
                    let given = fields::length(value)
                        .ok_or_else(|| wrong("a bad Content-Length", value))?;
                    if length.is_some_and(|length| length != given) {
                        return Err("two different lengths".into());
                    }
                    length = Some(given);
                }
                Name::TransferEncoding if is_chunked || !value.eq_ignore_ascii_case(b"chunked") => {
                    return Err(wrong("a Transfer-Encoding that is not chunked", value));
                }
                Name::TransferEncoding => is_chunked = true,
                _ => {}
            }
        }
        self.status = first.status;
        self.reason = first.reason;
        self.framing = match (self.status, is_chunked, length) {
            (100..200 | 204 | 304, ..) => ReplyFraming::None,
            _ if to == AnswerTo::Head => ReplyFraming::None,
            (_, true, _) => ReplyFraming::Chunked,
            (_, false, Some(length)) => ReplyFraming::Length(length),
            (_, false, None) => ReplyFraming::UntilClose,
        };
        let keeps_alive = !wishes.close && (first.keeps_alive || wishes.keep_alive);
        let is_ambiguous = is_chunked && length.is_some();
        self.closes = !keeps_alive || is_ambiguous || self.framing == ReplyFraming::UntilClose;
        Ok(())
    }

    /// Forgets the head, and keeps the buffers unless they are unusually large.
    pub(crate) fn clear(&mut self) {
        let ReplyHead { mut bytes, mut fields, .. } = std::mem::take(self);
        fields::recycle(&mut bytes);
        fields::recycle(&mut fields);
        (self.bytes, self.fields) = (bytes, fields);
    }

    /// Returns the status, from 100 to 999.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Returns the application's own words for the status. They may be empty.
    pub(crate) fn reason(&self) -> &[u8] {
        self.reason.get(&self.bytes)
    }

    /// Returns names and values of all fields in their order.
    #[cfg(test)]
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields.iter().map(|f| (f.name.text(&self.bytes), f.value.get(&self.bytes)))
    }

    /// Returns the value of the first field of this name.
    #[cfg(test)]
    pub(crate) fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns how the end of the body shows.
    pub(crate) fn framing(&self) -> ReplyFraming {
        self.framing
    }

    /// Returns whether the application closes the connection after this reply (RFC 9112, 9.3).
    pub(crate) fn closes(&self) -> bool {
        self.closes
    }

    /// Returns whether the body is a stream of events, which may last as long as its client wants.
    pub(crate) fn streams_events(&self) -> bool {
        const TYPE: &[u8] = b"text/event-stream";
        self.fields.iter().filter(|field| field.known == Name::ContentType).any(|field| {
            let value = field.value.get(&self.bytes);
            let (name, rest) = value.split_at(value.len().min(TYPE.len()));
            name.eq_ignore_ascii_case(TYPE) && matches!(rest, [] | [b';' | b' ' | b'\t', ..])
        })
    }

    /// Returns whether another reply to the same request follows: the status is 1xx, but not 101.
    pub(crate) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && !self.switches_protocols()
    }

    /// Returns whether the connection speaks another protocol after this reply: the status is 101.
    pub(crate) fn switches_protocols(&self) -> bool {
        self.status == 101
    }
}

fn wrong(what: &str, value: &[u8]) -> String {
    format!("{what}: {:?}", String::from_utf8_lossy(value))
}

#[cfg(test)]
#[path = "reply_head_tests.rs"]
mod tests;
