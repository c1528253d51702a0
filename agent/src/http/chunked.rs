//! The chunked transfer coding (RFC 9112, 7.1).

use std::ops::Range;

/// The end of a chunked body without trailers.
pub(crate) const END: &[u8] = b"0\r\n\r\n";
/// The end of a chunk.
pub(crate) const CHUNK_END: &[u8] = b"\r\n";

/// The reason why a chunked body cannot be read. The text is for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadChunk(pub(crate) &'static str);

/// What the decoder found in one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The number of bytes of the input that the body has used. The rest belongs to the next call or,
    /// after the end, to the next message.
    pub(crate) consumed: usize,
    /// The range of the input that is data. It may be empty.
    pub(crate) data: Range<usize>,
    /// Whether the body is complete.
    pub(crate) is_end: bool,
}

/// Decodes a body piece by piece. It keeps no bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoder {}

impl Decoder {
    /// Decodes up to the end of the first piece of data in `input`.
    ///
    /// A call consumes the whole input, unless data or the end of the body comes before its end. Chunk
    /// extensions and trailers are skipped.
    ///
    /// # Errors
    /// The coding is malformed, or extensions or trailers are too long. The connection is not usable.
    pub(crate) fn decode(&mut self, input: &[u8]) -> Result<Decoded, BadChunk> {
        let _ = input;
        todo!()
    }
}

/// Appends the line before a chunk of `size` bytes. The chunk and [`CHUNK_END`] follow it.
///
/// A chunk of no bytes would end the body, so the caller leaves it out.
pub(crate) fn size_line(out: &mut Vec<u8>, size: usize) {
    let _ = (out, size);
    todo!()
}
