//! The framing of bodies, in both directions: one reader finds their data and their ends.

use crate::request::chunked::{BadChunk, Decoder};
use crate::request::head::RequestFraming;

/// Finds the data of one body in the bytes of a connection. It keeps no bytes.
#[derive(Debug)]
pub(crate) enum Reader {
    /// So many bytes are left, more than 0.
    Length(u64),
    Chunked(Decoder),
    /// The body ends with the connection.
    UntilClose,
    /// The body has ended.
    Done,
}

/// The first bytes of an input: `skip` that are framing, then `data`, then `after` that are framing again.
///
/// The caller consumes all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) skip: usize,
    pub(crate) data: usize,
    pub(crate) after: usize,
}

impl Reader {
    /// Creates the reader of a body of so many bytes.
    pub(crate) fn of_length(length: u64) -> Self {
        if length == 0 { Reader::Done } else { Reader::Length(length) }
    }

    /// Creates the reader of a chunked body.
    pub(crate) fn of_chunks() -> Self {
        Reader::Chunked(Decoder::default())
    }

    /// Returns whether the body has ended.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Reader::Done)
    }

    /// Returns the next piece of a body whose next bytes are these. It is empty if the input is.
    ///
    /// # Errors
    /// The framing is malformed. The connection cannot be used again.
    pub(crate) fn next(&mut self, input: &[u8]) -> Result<Piece, BadChunk> {
        let data = |data| Piece { data, ..Piece::default() };
        Ok(match self {
            Reader::Done => Piece::default(),
            Reader::UntilClose => data(input.len()),
            Reader::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= count as u64;
                if *left == 0 {
                    *self = Reader::Done;
                }
                data(count)
            }
            Reader::Chunked(decoder) => {
                let decoded = decoder.decode(input)?;
                if decoded.is_end {
                    *self = Reader::Done;
                }
                let (start, end) = (decoded.data.start, decoded.data.end);
                Piece { skip: start, data: end - start, after: decoded.consumed - end }
            }
        })
    }
}

impl Piece {
    /// Returns the number of all bytes.
    pub(crate) fn len(self) -> usize {
        self.skip + self.data + self.after
    }
}

impl From<RequestFraming> for Reader {
    fn from(framing: RequestFraming) -> Self {
        match framing {
            RequestFraming::None => Reader::Done,
            RequestFraming::Length(length) => Reader::of_length(length),
            RequestFraming::Chunked => Reader::of_chunks(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all of an input, and returns the data, the bytes behind the body, and whether the body has ended.
    fn read(mut reader: Reader, input: &[u8]) -> (Vec<u8>, &[u8], bool) {
        let (mut data, mut at) = (Vec::new(), 0);
        while at < input.len() && !reader.is_done() {
            let piece = reader.next(&input[at..]).unwrap();
            data.extend_from_slice(&input[at + piece.skip..][..piece.data]);
            at += piece.len();
        }
        (data, &input[at..], reader.is_done())
    }

    #[test]
    fn each_framing_has_its_data_and_its_end() {
        let chunks = b"2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\nrest";
        for (reader, input, data, rest, is_done) in [
            (Reader::of_length(3), &b"abcrest"[..], "abc", "rest", true),
            (Reader::of_length(9), b"abc", "abc", "", false),
            (Reader::of_length(0), b"rest", "", "rest", true),
            (Reader::of_chunks(), chunks, "abc", "rest", true),
            (Reader::of_chunks(), &chunks[..9], "ab", "", false),
            (Reader::UntilClose, b"abcrest", "abcrest", "", false),
        ] {
            let expected = (data.as_bytes().to_vec(), rest.as_bytes(), is_done);
            assert_eq!(read(reader, input), expected, "{input:?}");
        }
        assert_eq!(Reader::of_length(1).next(b"").unwrap(), Piece::default());
        assert!(Reader::of_chunks().next(b"x").is_err());
    }
}
