//! The body of an answer, read as it comes.

use super::errors::within;
use std::io::{self, BufRead, ErrorKind, Read};

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes.
    Length(u64),
    /// With an empty chunk.
    Chunked,
    /// With the connection.
    Close,
}

/// The rest of a body.
#[derive(Debug)]
enum Rest {
    Length(u64),
    /// The rest of a chunk.
    Chunk(u64),
    /// The next chunk, from its size on.
    NextChunk,
    Close,
    End,
}

/// A body. Reading it returns the bytes that have come, and then the end, or an error if the body is incomplete.
#[derive(Debug)]
pub struct Body<'a, R> {
    input: &'a mut R,
    rest: Rest,
}

impl<'a, R: BufRead> Body<'a, R> {
    pub(super) fn new(input: &'a mut R, framing: Framing) -> Body<'a, R> {
        let rest = match framing {
            Framing::Length(size) => Rest::Length(size),
            Framing::Chunked => Rest::NextChunk,
            Framing::Close => Rest::Close,
        };
        Body { input, rest }
    }

    /// Reads the size of the next chunk. The last chunk has an empty line behind it.
    fn next_chunk(&mut self) -> io::Result<()> {
        let line = line(self.input).map_err(within)?;
        let size = u64::from_str_radix(&line, 16);
        let size = size.map_err(|_| io::Error::other(format!("the chunk size {line:?}")))?;
        self.rest = Rest::Chunk(size);
        if size == 0 {
            self.end_of_chunk()?;
            self.rest = Rest::End;
        }
        Ok(())
    }

    fn end_of_chunk(&mut self) -> io::Result<()> {
        self.rest = Rest::NextChunk;
        match line(self.input).map_err(within)?.as_str() {
            "" => Ok(()),
            other => Err(io::Error::other(format!("a chunk ends with {other:?}"))),
        }
    }

    /// Reads at most `most` bytes. The end of the input is an error.
    fn part(&mut self, into: &mut [u8], most: u64) -> io::Result<u64> {
        let most = usize::try_from(most).map_or(into.len(), |most| most.min(into.len()));
        match self.input.read(&mut into[..most]) {
            Ok(0) => Err(within(ErrorKind::UnexpectedEof.into())),
            Ok(size) => Ok(size as u64),
            Err(error) => Err(within(error)),
        }
    }
}

impl<R: BufRead> Read for Body<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        if matches!(self.rest, Rest::NextChunk) {
            self.next_chunk()?;
        }
        let size = match self.rest {
            Rest::End | Rest::NextChunk | Rest::Length(0) => 0,
            Rest::Close => self.input.read(into).map_err(within)? as u64,
            Rest::Length(left) => {
                let size = self.part(into, left)?;
                self.rest = Rest::Length(left - size);
                size
            }
            Rest::Chunk(left) => {
                let size = self.part(into, left)?;
                self.rest = Rest::Chunk(left - size);
                if left == size {
                    self.end_of_chunk()?;
                }
                size
            }
        };
        Ok(size as usize)
    }
}

/// Reads a line without its end. The end of the input before any byte is an `UnexpectedEof`.
pub(super) fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    let read = input.read_until(b'\n', &mut line);
    if let Err(error) = read {
        return Err(if line.is_empty() { error } else { within(error) });
    }
    let text = String::from_utf8_lossy(line.strip_suffix(b"\r\n").unwrap_or(&line)).into_owned();
    match line.is_empty() {
        true => Err(ErrorKind::UnexpectedEof.into()),
        false if line.ends_with(b"\r\n") => Ok(text),
        false => Err(io::Error::other(format!("closed within the line {text:?}"))),
    }
}
