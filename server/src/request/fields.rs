//! The fields of a head: where they are, and which of them the server knows.
//!
//! The parsers classify each name once, so that later code compares a byte instead of a string. A field is
//! a pair of ranges in the buffer of its head; the functions here get that buffer as `bytes`.

use crate::request::numbers::put_number;
use std::num::NonZeroU16;
use std::ops::Range;

/// The largest number of fields that `Connection` may name. More would make a head expensive.
const MAX_NAMED: usize = 64;

/// A range of bytes in the buffer of a head. Heads are at most a mebibyte long, so 32 bits suffice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Returns the range of `part`, which is a slice of `whole`.
    pub(crate) fn of(part: &[u8], whole: &[u8]) -> Span {
        let start = part.as_ptr().addr() - whole.as_ptr().addr();
        debug_assert!(start + part.len() <= whole.len(), "the part is not of this buffer");
        Span::from(start..start + part.len())
    }
    pub(crate) fn get(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.range()]
    }
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
    /// Returns the bytes as text. Methods and names of fields are ASCII.
    pub(crate) fn text(self, bytes: &[u8]) -> &str {
        std::str::from_utf8(self.get(bytes)).unwrap_or_default()
    }
    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Span {
        Span { start: range.start as u32, end: range.end as u32 }
    }
}

/// A field's name, as far as the server treats it specially.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A field that the server passes on as it is.
    Other,
    Connection,
    ContentLength,
    ContentType,
    Cookie,
    Date,
    /// A name that the server treats specially, with `_` in place of `-`: as a variable it would pass for that field.
    Disguised,
    Expect,
    Forwarded,
    /// Any other field by which proxies report scheme, host or path of the original request:
    /// `X-Forwarded-Host`, `-Port`, `-Prefix`, `-Ssl` and so on, `X-Url-Scheme`, `Front-End-Https`.
    ForwardedDetail,
    ForwardedFor,
    ForwardedProto,
    Host,
    KeepAlive,
    /// `Proxy`, which as `HTTP_PROXY` would redirect the application's own requests (httpoxy).
    Proxy,
    ProxyAuthenticate,
    ProxyConnection,
    Status,
    Te,
    Trailer,
    TransferEncoding,
    /// Any other name with `_`: as a variable it would pass for the field with `-`.
    Underscored,
    Upgrade,
}

impl Name {
    /// Classifies a name. The length decides first, so that most names are compared at most once.
    pub(crate) fn classify(name: &[u8]) -> Name {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let found = match name.len() {
            2 if is("te") => Name::Te,
            4 if is("host") => Name::Host,
            4 if is("date") => Name::Date,
            5 if is("proxy") => Name::Proxy,
            6 if is("cookie") => Name::Cookie,
            6 if is("expect") => Name::Expect,
            6 if is("status") => Name::Status,
            7 if is("trailer") => Name::Trailer,
            7 if is("upgrade") => Name::Upgrade,
            9 if is("forwarded") => Name::Forwarded,
            10 if is("connection") => Name::Connection,
            10 if is("keep-alive") => Name::KeepAlive,
            12 if is("content-type") => Name::ContentType,
            14 if is("content-length") => Name::ContentLength,
            15 if is("x-forwarded-for") => Name::ForwardedFor,
            16 if is("proxy-connection") => Name::ProxyConnection,
            17 if is("transfer-encoding") => Name::TransferEncoding,
            17 if is("x-forwarded-proto") => Name::ForwardedProto,
            18 if is("proxy-authenticate") => Name::ProxyAuthenticate,
            _ => Name::Other,
        };
        if found != Name::Other {
            return found;
        }
        if name.contains(&b'_') {
            return Name::with_underscores(name);
        }
        let begins_like = |known: &str| {
            name.get(..known.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(known.as_bytes()))
        };
        match ["x-forwarded-", "x-url-scheme", "front-end-https"].into_iter().any(begins_like) {
            true => Name::ForwardedDetail,
            false => Name::Other,
        }
    }

    /// Classifies a name with `_`, by the start that decides.
    fn with_underscores(name: &[u8]) -> Name {
        let mut start = [b'-'; 32];
        let start = &mut start[..name.len().min(32)];
        for (to, from) in start.iter_mut().zip(name) {
            *to = if *from == b'_' { b'-' } else { *from };
        }
        match Name::classify(start) {
            Name::Other => Name::Underscored,
            _ => Name::Disguised,
        }
    }

    /// Returns whether such a field always concerns one connection only.
    fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Name::Connection
                | Name::KeepAlive
                | Name::ProxyAuthenticate
                | Name::ProxyConnection
                | Name::Te
                | Name::Trailer
                | Name::TransferEncoding
                | Name::Upgrade
        )
    }
}

/// One field of a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: Span,
    /// The value without the white space around it.
    pub(crate) value: Span,
    pub(crate) known: Name,
    /// Whether the field concerns only this connection (RFC 9110, 7.6.1): the server does not pass it on.
    pub(crate) is_hop_by_hop: bool,
    pub(crate) place: Place,
    /// The index of the next field of the same name.
    pub(crate) next: Option<NonZeroU16>,
}

/// The place of a field among those of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// No other field has this name.
    Only,
    /// Later fields have the same name.
    First,
    /// An earlier field has the same name.
    Later,
}

impl Field {
    pub(crate) fn new(name: Span, value: Span, known: Name) -> Field {
        let is_hop_by_hop = known.is_hop_by_hop();
        Field { name, value, known, is_hop_by_hop, place: Place::Only, next: None }
    }
    pub(crate) fn has_name_of(&self, other: &Field, bytes: &[u8]) -> bool {
        self.name.get(bytes).eq_ignore_ascii_case(other.name.get(bytes))
    }
}

/// Copies what `httparse` found in `head` to `fields`.
pub(crate) fn take(parsed: &[httparse::Header<'_>], head: &[u8], fields: &mut Vec<Field>) {
    fields.clear();
    fields.extend(parsed.iter().map(|header| {
        let name = header.name.as_bytes();
        Field::new(Span::of(name, head), Span::of(header.value, head), Name::classify(name))
    }));
}

/// The options of the `Connection` field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
}

/// Reads `Connection`, and marks the fields that it names as hop-by-hop, if it is that of this connection.
///
/// `Connection` can remove neither a message's length nor its target.
///
/// # Errors
/// It names more than [`MAX_NAMED`] fields.
pub(crate) fn read_connection(
    bytes: &[u8],
    fields: &mut [Field],
    is_own: bool,
) -> Result<Wishes, &'static str> {
    let mut wishes = Wishes::default();
    let mut named = 0;
    for i in 0..fields.len() {
        if fields[i].known != Name::Connection {
            continue;
        }
        for token in tokens(fields[i].value.get(bytes)) {
            let is = |known: &str| token.eq_ignore_ascii_case(known.as_bytes());
            match token.len() {
                5 if is("close") => wishes.close = true,
                7 if is("upgrade") => wishes.upgrade = true,
                10 if is("keep-alive") => wishes.keep_alive = true,
                _ if !is_own => {}
                _ if named == MAX_NAMED => return Err("Connection names too many fields"),
                _ => {
                    named += 1;
                    for field in &mut *fields {
                        field.is_hop_by_hop |=
                            !matches!(field.known, Name::ContentLength | Name::Host)
                                && field.name.get(bytes).eq_ignore_ascii_case(token);
                    }
                }
            }
        }
    }
    Ok(wishes)
}

/// Returns the elements of a comma-separated list, without those that are empty.
pub(crate) fn tokens(value: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    value.split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

/// Returns the number that a `Content-Length` gives: digits only, without sign, list or space.
pub(crate) fn length(value: &[u8]) -> Option<u64> {
    if !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Appends a field, as it is.
pub(crate) fn put_field(out: &mut Vec<u8>, bytes: &[u8], field: &Field) {
    out.extend_from_slice(field.name.get(bytes));
    out.extend_from_slice(b": ");
    out.extend_from_slice(field.value.get(bytes));
    out.extend_from_slice(b"\r\n");
}

/// Appends `Content-Length`.
pub(crate) fn put_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"Content-Length: ");
    put_number(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Whether an incomplete head may be complete by now.
///
/// Each new piece of a head would cost a parser a pass over all pieces before it. So after the first pass
/// only the new bytes are searched, for the empty line that ends a head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    seen: usize,
}

impl Progress {
    /// Returns whether the parser should look at `input`. Otherwise the head is still incomplete.
    pub(crate) fn is_due(&mut self, input: &[u8]) -> bool {
        let seen = std::mem::replace(&mut self.seen, input.len());
        // A head without fields is the empty line alone, which no line end precedes.
        if seen < 2 || seen >= input.len() {
            return true;
        }
        // The empty line may have begun in the last three bytes of the earlier pieces: `\n\r` and `\n`.
        let new = &input[seen.saturating_sub(3)..];
        new.windows(2).any(|w| w == b"\n\n") || new.windows(3).any(|w| w == b"\n\r\n")
    }
}

/// Empties a recycled buffer, and gives the memory of an unusually large one back.
pub(crate) fn recycle<T>(buffer: &mut Vec<T>) {
    const KEPT: usize = 16 * 1024;
    buffer.clear();
    if buffer.capacity() * size_of::<T>() > KEPT {
        *buffer = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_classified_whatever_their_case() {
        for (name, known) in [
            ("Host", Name::Host),
            ("TRANSFER-ENCODING", Name::TransferEncoding),
            ("x-forwarded-for", Name::ForwardedFor),
            ("X-Forwarded-Proto", Name::ForwardedProto),
            ("X-Forwarded-Host", Name::ForwardedDetail),
            ("x-forwarded-ssl", Name::ForwardedDetail),
            ("Front-End-Https", Name::ForwardedDetail),
            ("X-Forwarded", Name::Other),
            ("X_Forwarded_Proto", Name::Disguised),
            ("x-url_scheme", Name::Disguised),
            ("api_key", Name::Underscored),
            ("content_LENGTH", Name::Disguised),
            ("Transfer_Encoding", Name::Disguised),
            ("_", Name::Underscored),
            ("Accept", Name::Other),
        ] {
            assert_eq!(Name::classify(name.as_bytes()), known, "{name}");
        }
    }

    #[test]
    fn connection_cannot_name_hundreds_of_fields() {
        let head = format!("Connection: {}\r\n\r\n", "a,".repeat(MAX_NAMED + 1));
        let mut parsed = [httparse::EMPTY_HEADER; 1];
        let (_, parsed) = httparse::parse_headers(head.as_bytes(), &mut parsed).unwrap().unwrap();
        let mut fields = Vec::new();
        take(parsed, head.as_bytes(), &mut fields);
        assert!(read_connection(head.as_bytes(), &mut fields, true).is_err());
    }

    #[test]
    fn a_length_has_digits_only() {
        assert_eq!(length(b"0042"), Some(42));
        for bad in ["", "+1", "-1", "1 ", "1,1", "0x1", "18446744073709551616"] {
            assert_eq!(length(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn progress_is_due_once_the_empty_line_is_there() {
        for head in [&b"a\r\n\r\n"[..], b"a\n\n", b"a\n\r\n", b"\r\n"] {
            for cut in 1..head.len() {
                let mut progress = Progress::default();
                assert!(progress.is_due(&head[..cut]), "the first look");
                assert!(progress.is_due(head), "{head:?} {cut}");
            }
        }
        let mut progress = Progress::default();
        assert!(progress.is_due(b"GET / HTTP/1.1\r\n"), "the first look");
        assert!(!progress.is_due(b"GET / HTTP/1.1\r\nHost: a\r\n"));
    }
}
