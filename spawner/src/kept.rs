//! The frames of a kept session: how a connection carries one request after another.
//!
//! ```text
//! server    u32 length, name NUL value NUL …     the head, as in the session protocol
//! server    u32 length, bytes                    a part of the body, any number of times
//! server    u32 0                                the end of the request, also without a body
//!
//! loader   'I' u24 length, head                 an interim answer (103), any number of times
//! loader   'H' u24 length, head                 once, complete
//! loader   'D' u24 length, bytes                a part of the body, any number of times
//! loader   'E' u24 0                            the application has finished
//!    or    'A' u24 0                            the answer stays incomplete
//! ```
//!
//! All numbers are big-endian. `docs/kept-sessions.md` specifies the protocol for authors of loaders. This
//! module works on bytes only: it does no I/O and allocates no memory.

use std::fmt;
use std::num::NonZeroU32;

/// The largest head of an answer that is accepted.
pub const MAX_REPLY_HEAD: usize = 128 * 1024;

/// The end of a request.
pub const END: [u8; 4] = [0; 4];

/// Bytes in front of each frame of an answer.
const FRAME_HEAD: usize = 4;

/// Appends the head of a request to `out`. Names and values contain no NUL.
pub fn push_head(out: &mut Vec<u8>, pairs: &[(&str, &str)]) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    for part in pairs.iter().flat_map(|(name, value)| [name, value]) {
        out.extend_from_slice(part.as_bytes());
        out.push(0);
    }
    let size = u32::try_from(out.len() - begin - 4).expect("a head is shorter than 4 GiB");
    out[begin..begin + 4].copy_from_slice(&size.to_be_bytes());
}

/// Returns the bytes in front of a part of the request's body that has `size` bytes.
pub fn body_frame(size: NonZeroU32) -> [u8; 4] {
    size.get().to_be_bytes()
}

/// Appends `data` as parts of the request's body to `out`.
pub fn push_body(out: &mut Vec<u8>, data: &[u8]) {
    for part in data.chunks(1 << 30) {
        // A part fits into a u32, and `chunks` returns no empty one.
        if let Some(size) = u32::try_from(part.len()).ok().and_then(NonZeroU32::new) {
            out.extend_from_slice(&body_frame(size));
            out.extend_from_slice(part);
        }
    }
}

/// Decodes one answer from the bytes of a connection.
///
/// The caller passes the bytes that have arrived and are not yet consumed. After [`Part::End`] the decoder
/// is ready for the connection's next answer.
#[derive(Debug, Default)]
pub struct Decoder {
    expects: Expects,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expects {
    /// The head of the answer, or an abort.
    #[default]
    Head,
    /// The next frame after the head.
    Frame,
    /// So many bytes of the body, more than 0.
    Data(usize),
}

/// The result of one step of a [`Decoder`].
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The number of bytes of the input that the caller drops.
    pub consumed: usize,
    /// The part of the answer.
    pub part: Part<'a>,
}

/// A part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The input ends before the next part. `missing` more bytes are certain to come, unless the
    /// connection breaks.
    Incomplete {
        /// The number of bytes that are certain to come.
        missing: usize,
    },
    /// The head of an interim answer, as [`Head`](Part::Head). The answer follows.
    Interim(&'a [u8]),
    /// The head, as in the session protocol, with its empty line.
    Head(&'a [u8]),
    /// The next bytes of the body, at least one.
    Body(&'a [u8]),
    /// The application has finished. The connection is free for the next request if `consumed` is the
    /// whole input.
    End,
    /// The application failed, and its answer stays incomplete. The connection ends.
    Abort,
}

/// A breach of the protocol by the loader. The connection cannot be used further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFrame {
    /// The type of a frame is not one of `I`, `H`, `D`, `E`, `A`.
    Unknown(u8),
    /// A frame of a known type comes where the protocol does not allow it.
    OutOfPlace(u8),
    /// An end or abort frame has a length.
    HasLength(u8),
    /// The head has more bytes than the server accepts.
    LongHead(usize),
}

impl Decoder {
    /// Returns whether no byte of an answer was consumed since the last end.
    #[cfg(test)]
    pub fn is_at_start(&self) -> bool {
        self.expects == Expects::Head
    }

    /// Returns the next part of the answer.
    ///
    /// # Errors
    /// The bytes are not an answer of a kept session.
    pub fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<'a>, BadFrame> {
        let mut rest = input;
        loop {
            let consumed = input.len() - rest.len();
            if let Expects::Data(size) = self.expects {
                let incomplete = Part::Incomplete { missing: size };
                if rest.is_empty() {
                    return Ok(Decoded { consumed, part: incomplete });
                }
                let take = size.min(rest.len());
                self.expects = match size - take {
                    0 => Expects::Frame,
                    left => Expects::Data(left),
                };
                return Ok(Decoded { consumed: consumed + take, part: Part::Body(&rest[..take]) });
            }
            let Some((&[kind, a, b, c], after)) = rest.split_first_chunk::<FRAME_HEAD>() else {
                let part = Part::Incomplete { missing: FRAME_HEAD - rest.len() };
                return Ok(Decoded { consumed, part });
            };
            let size = u32::from_be_bytes([0, a, b, c]) as usize;
            let consumed = consumed + FRAME_HEAD;
            match (kind, self.expects) {
                (b'I' | b'H', Expects::Head) if size > MAX_REPLY_HEAD => {
                    return Err(BadFrame::LongHead(size));
                }
                (b'I' | b'H', Expects::Head) => {
                    let Some(head) = after.get(..size) else {
                        let part = Part::Incomplete { missing: size - after.len() };
                        return Ok(Decoded { consumed: consumed - FRAME_HEAD, part });
                    };
                    let part = match kind {
                        b'I' => Part::Interim(head),
                        _ => {
                            self.expects = Expects::Frame;
                            Part::Head(head)
                        }
                    };
                    return Ok(Decoded { consumed: consumed + size, part });
                }
                (b'D', Expects::Frame) => {
                    if size > 0 {
                        self.expects = Expects::Data(size);
                    }
                    rest = after;
                }
                (b'E' | b'A', _) if size > 0 => return Err(BadFrame::HasLength(kind)),
                (b'E', Expects::Frame) => {
                    self.expects = Expects::Head;
                    return Ok(Decoded { consumed, part: Part::End });
                }
                (b'A', _) => return Ok(Decoded { consumed, part: Part::Abort }),
                (b'I' | b'H' | b'D' | b'E', _) => return Err(BadFrame::OutOfPlace(kind)),
                _ => return Err(BadFrame::Unknown(kind)),
            }
        }
    }
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unknown(kind) => write!(f, "a frame of unknown type {:?}", char::from(kind)),
            Self::OutOfPlace(kind) => {
                write!(f, "a frame of type {:?} in the wrong place", char::from(kind))
            }
            Self::HasLength(kind) => {
                write!(f, "a frame of type {:?} with a length", char::from(kind))
            }
            Self::LongHead(size) => {
                write!(f, "a head of {size} bytes; the server accepts {MAX_REPLY_HEAD}")
            }
        }
    }
}

impl std::error::Error for BadFrame {}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
