//! The chunked transfer coding (RFC 9112, 7.1).
//!
//! The decoder is strict: each line ends with CRLF, a size has hexadecimal digits only, and extensions have
//! no control characters. A lenient reader behind a strict proxy, or the other way round, would see other
//! boundaries, which is how requests are smuggled. Extensions and trailers are skipped, and bounded: a peer
//! could otherwise send them without end.

use std::io::Write;
use std::ops::Range;

/// The end of a chunked body without trailers.
pub(crate) const END: &[u8] = b"0\r\n\r\n";
/// The end of a chunk.
pub(crate) const CHUNK_END: &[u8] = b"\r\n";

/// The largest number of digits of a size. More would overflow.
const MAX_DIGITS: u8 = 15;
/// The largest number of bytes of all extensions and trailers of a body.
const MAX_SKIPPED: u16 = 16 * 1024;

/// The reason why a chunked body cannot be read. The text is for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadChunk(pub(crate) &'static str);

/// The parts that the decoder found in one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The number of bytes of the input that belong to the body so far. The rest belongs to the next call
    /// or, after the end, to the next message.
    pub(crate) consumed: usize,
    /// The range of the input that is data. It may be empty.
    pub(crate) data: Range<usize>,
    /// Whether the body is complete.
    pub(crate) is_end: bool,
}

/// The place of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The first digit of a size.
    Size,
    /// After `digits` digits of a size.
    Digits {
        digits: u8,
    },
    /// White space after a size: only an extension may follow.
    AfterSize,
    Extension,
    /// The LF of a size line.
    SizeEnd,
    /// The data: `left` bytes of it.
    Data,
    /// The CR after the data.
    DataCr,
    /// The LF after the data.
    DataLf,
    /// The first byte of a trailer or of the last line.
    Trailer,
    /// Within the name of a trailer.
    TrailerName,
    /// Within its value.
    TrailerValue,
    /// The LF of a trailer.
    TrailerLf,
    /// The LF of the last line.
    LastLf,
    End,
}

/// Decodes a body piece by piece. It keeps no bytes.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    place: Place,
    /// The size that is being read, and then the rest of the chunk's data.
    left: u64,
    skipped: u16,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder { place: Place::Size, left: 0, skipped: 0 }
    }
}

impl Decoder {
    /// Decodes up to the end of the first piece of data in `input`.
    ///
    /// A call consumes the whole input, unless data or the end of the body comes before its end. Chunk
    /// extensions and trailers are skipped.
    ///
    /// # Errors
    /// The coding is malformed, or extensions and trailers are too long. The connection is not usable.
    pub(crate) fn decode(&mut self, input: &[u8]) -> Result<Decoded, BadChunk> {
        let mut at = 0;
        while at < input.len() && self.place != Place::End {
            if self.place == Place::Data {
                let rest = input.len() - at;
                let length = usize::try_from(self.left).map_or(rest, |left| left.min(rest));
                self.left -= length as u64;
                if self.left == 0 {
                    self.place = Place::DataCr;
                }
                let data = at..at + length;
                return Ok(Decoded { consumed: data.end, data, is_end: false });
            }
            self.place = self.after(input[at])?;
            at += 1;
        }
        Ok(Decoded { consumed: at, data: at..at, is_end: self.place == Place::End })
    }

    /// Takes one byte that is not data, and returns the place after it.
    fn after(&mut self, byte: u8) -> Result<Place, BadChunk> {
        const SIZE: BadChunk = BadChunk("the size of a chunk is malformed");
        Ok(match (self.place, byte) {
            (Place::Size, _) => {
                self.left = hex_digit(byte).ok_or(SIZE)?;
                Place::Digits { digits: 1 }
            }
            (Place::Digits { .. } | Place::Extension, b'\r') => Place::SizeEnd,
            (Place::Digits { .. } | Place::AfterSize, b';') => self.skip(Place::Extension)?,
            (Place::Digits { .. } | Place::AfterSize, b' ' | b'\t') => {
                self.skip(Place::AfterSize)?
            }
            (Place::Digits { digits }, _) if digits < MAX_DIGITS => {
                self.left = self.left * 16 + hex_digit(byte).ok_or(SIZE)?;
                Place::Digits { digits: digits + 1 }
            }
            (Place::Digits { .. } | Place::AfterSize, _) => return Err(SIZE),
            (Place::Extension, b) if is_text(b) => self.skip(Place::Extension)?,
            (Place::Extension, _) => {
                return Err(BadChunk("a chunk's extension has a control character"));
            }
            (Place::SizeEnd, b'\n') if self.left == 0 => Place::Trailer,
            (Place::SizeEnd, b'\n') => Place::Data,
            (Place::SizeEnd, _) => return Err(SIZE),
            (Place::DataCr, b'\r') => Place::DataLf,
            (Place::DataLf, b'\n') => Place::Size,
            (Place::DataCr | Place::DataLf, _) => {
                return Err(BadChunk("a chunk is longer than its size"));
            }
            (Place::Trailer, b'\r') => Place::LastLf,
            (Place::TrailerName, b':') => self.skip(Place::TrailerValue)?,
            // A line that is no field could be a request to another reader.
            (Place::Trailer | Place::TrailerName, b) if is_of_name(b) => {
                self.skip(Place::TrailerName)?
            }
            (Place::Trailer | Place::TrailerName, _) => {
                return Err(BadChunk("a trailer is no field"));
            }
            (Place::TrailerValue, b'\r') => Place::TrailerLf,
            (Place::TrailerValue, b) if is_text(b) => self.skip(Place::TrailerValue)?,
            (Place::TrailerLf, b'\n') => Place::Trailer,
            (Place::LastLf, b'\n') => Place::End,
            (Place::TrailerValue | Place::TrailerLf | Place::LastLf, _) => {
                return Err(BadChunk("a trailer has a control character"));
            }
            (Place::Data | Place::End, _) => self.place,
        })
    }

    fn skip(&mut self, next: Place) -> Result<Place, BadChunk> {
        self.skipped += 1;
        if self.skipped > MAX_SKIPPED {
            return Err(BadChunk("the extensions and trailers of the chunks are too long"));
        }
        Ok(next)
    }
}

fn hex_digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

/// Returns whether a line may have this byte: any but control characters, except TAB.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Returns whether the name of a field may have this byte (RFC 9110, 5.6.2).
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Appends a chunk, which is not empty.
pub(crate) fn push(out: &mut Vec<u8>, data: &[u8]) {
    size_line(out, data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(CHUNK_END);
}

/// Appends the line before a chunk of `size` bytes. The chunk and [`CHUNK_END`] follow it.
///
/// A chunk of no bytes would end the body, so the caller leaves it out.
pub(crate) fn size_line(out: &mut Vec<u8>, size: usize) {
    debug_assert!(size > 0, "a chunk of no bytes ends the body");
    // Writing to a vector cannot fail.
    let _ = write!(out, "{size:x}\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes input that comes in pieces of this size. Returns data and number of bytes consumed.
    fn decode(input: &[u8], piece: usize) -> Result<(Vec<u8>, Option<usize>), BadChunk> {
        let (mut decoder, mut data, mut at) = (Decoder::default(), Vec::new(), 0);
        for end in (0..input.len()).step_by(piece).map(|start| (start + piece).min(input.len())) {
            while at < end {
                let decoded = decoder.decode(&input[at..end])?;
                assert!(decoded.consumed > 0 || decoded.is_end, "no progress");
                data.extend_from_slice(&input[at..end][decoded.data]);
                at += decoded.consumed;
                if decoded.is_end {
                    return Ok((data, Some(at)));
                }
            }
        }
        Ok((data, None))
    }

    #[test]
    fn a_body_is_decoded_in_any_pieces() {
        let body = b"4\r\nWiki\r\nA;name=\"v\"\r\n\r\n56789012\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\nGET /";
        for piece in 1..=body.len() {
            let (data, end) = decode(body, piece).unwrap();
            assert_eq!(data, b"Wiki\r\n56789012", "{piece}");
            assert_eq!(end, Some(body.len() - b"GET /".len()), "{piece}");
        }
    }

    #[test]
    fn valid_codings() {
        for (body, data) in [
            ("0\r\n\r\n", ""),
            ("000\r\n\r\n", ""),
            ("0;last\r\n\r\n", ""),
            ("1\r\na\r\n0\r\n\r\n", "a"),
            ("1 \t;x=y\r\na\r\n0\r\n\r\n", "a"),
            ("00000000001\r\na\r\n0\r\n\r\n", "a"),
            ("0C\r\nhello\r\nyou\r\n\r\n0\r\n\r\n", "hello\r\nyou\r\n"),
        ] {
            let (decoded, end) = decode(body.as_bytes(), 1).unwrap();
            assert_eq!((&*decoded, end), (data.as_bytes(), Some(body.len())), "{body:?}");
        }
    }

    #[test]
    fn malformed_codings_are_refused() {
        for body in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "+1\r\na\r\n",
            "0x1\r\na\r\n",
            " 1\r\na\r\n",
            "1 \r\na\r\n",
            "1\na\n",
            "1\r\na\n",
            "1\r\nab\r\n",
            "2\r\na\r\n0",
            "1\rX",
            "1;a\nb\r\n",
            "1;a\0b\r\n",
            "1;a\rb\r\n",
            "0\r\n\n",
            "0\r\nX: \0\r\n\r\n",
            "0\r\nX: a\n\r\n",
            "0\r\nX\r\n\r\n",
            "0\r\n: x\r\n\r\n",
            "0\r\nX : a\r\n\r\n",
            "0\r\n X: a\r\n\r\n",
            "0\r\nGET / HTTP/1.1\r\n\r\n",
            "0\r\n\rX",
            "1000000000000000\r\n",
            "ffffffffffffffffffff\r\n",
        ] {
            assert!(decode(body.as_bytes(), 1).is_err(), "{body:?}");
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded_together() {
        let long = "x".repeat(usize::from(MAX_SKIPPED));
        assert!(decode(format!("0;{}\r\n\r\n", &long[1..]).as_bytes(), 9).unwrap().1.is_some());
        assert!(decode(format!("0;{long}\r\n\r\n").as_bytes(), 9).is_err());
        assert!(
            decode(format!("0\r\nX:{}\r\n\r\n", &long[2..]).as_bytes(), 9).unwrap().1.is_some()
        );
        assert!(decode(format!("0\r\nX:{}\r\n\r\n", &long[1..]).as_bytes(), 9).is_err());
        let many = "1;x\r\na\r\n".repeat(usize::from(MAX_SKIPPED) / 2 + 1);
        assert!(decode(many.as_bytes(), 4096).is_err());
    }

    #[test]
    fn the_encoder_writes_what_the_decoder_reads() {
        let mut out = Vec::new();
        for chunk in [&b"a"[..], &[7; 300], &[8; 70_000]] {
            size_line(&mut out, chunk.len());
            out.extend_from_slice(chunk);
            out.extend_from_slice(CHUNK_END);
        }
        out.extend_from_slice(END);
        let (data, end) = decode(&out, 1000).unwrap();
        assert_eq!((data.len(), end), (70_301, Some(out.len())));
    }
}
