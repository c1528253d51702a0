//! The body of a request, read before a process is taken.
//!
//! The body goes to memory, then to a file. Beyond the limit of the file it is streamed: the process is taken,
//! and the rest follows at the pace of client and application.

use crate::connection::input::Input;
use crate::request::chunked::BadChunk;
use crate::request::framing::Reader;
use crate::request::head::{BadRequest, RequestFraming};
use crate::request::spool::{Spool, SpoolLimits};
use std::io;
use std::task::{Context, Poll};

/// The body of one request.
#[derive(Debug)]
pub(crate) struct Body {
    /// The part of the body that the client has not sent yet.
    rest: Reader,
    framing: RequestFraming,
    /// `None`: the request has no body.
    spool: Option<Spool>,
    /// The largest length in bytes; 0: no limit.
    max: u64,
    /// The number of bytes that have arrived.
    received: u64,
    /// The number of bytes at the front of the spool that the application got. They stay there as long as the
    /// whole body is in memory, so that it can be sent again.
    sent: usize,
    is_consumed: bool,
}

impl Body {
    /// Creates a body. `limits` is called only if it has bytes.
    pub(crate) fn new(
        framing: RequestFraming,
        max: u64,
        limits: impl FnOnce() -> SpoolLimits,
    ) -> Self {
        let rest = Reader::from(framing);
        let spool = if rest.is_done() { None } else { Some(Spool::new(limits())) };
        Body { rest, framing, spool, max, received: 0, sent: 0, is_consumed: false }
    }

    /// Fails if the declared length exceeds the limit.
    ///
    /// # Errors
    /// The refusal of the request.
    pub(crate) fn is_acceptable(&self) -> Result<(), BadRequest> {
        match self.framing {
            RequestFraming::Length(length) if self.max > 0 && length > self.max => {
                Err(self.too_large())
            }
            _ => Ok(()),
        }
    }

    fn too_large(&self) -> BadRequest {
        let why = format!("the limit for a body is {} bytes", self.max);
        BadRequest { status: 413, why: why.into() }
    }

    /// Returns whether the client has sent the whole body.
    pub(crate) fn is_received(&self) -> bool {
        self.rest.is_done()
    }

    /// Returns the number of bytes that have arrived.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Returns whether memory and file are full, so that the process must take the body now.
    pub(crate) fn is_full(&self) -> bool {
        self.spool.as_ref().is_none_or(|spool| spool.room() == 0 && !spool.has_work())
    }

    /// Returns whether [`take`](Self::take) would take bytes now.
    pub(crate) fn has_room(&self) -> bool {
        self.spool.as_ref().is_some_and(|spool| spool.room() > 0)
    }

    /// Takes the body's part of the client's input, as far as there is room. Returns the number of bytes.
    ///
    /// # Errors
    /// The body is malformed or too large. The connection cannot be used again.
    pub(crate) fn take(&mut self, input: &mut Input) -> Result<usize, BadRequest> {
        let Some(spool) = &mut self.spool else { return Ok(0) };
        let mut taken = 0;
        while !input.is_empty() && spool.room() > 0 && !self.rest.is_done() {
            let room = spool.room().min(input.len());
            let piece = self.rest.next(&input.unread()[..room]).map_err(malformed)?;
            let data = &input.unread()[piece.skip..][..piece.data];
            let count = spool.push(data);
            debug_assert_eq!(count, data.len(), "there was room");
            input.consume(piece.len());
            taken += count;
        }
        self.received += taken as u64;
        if self.max > 0 && self.received > self.max {
            return Err(self.too_large());
        }
        Ok(taken)
    }

    /// Drops the body's part of the client's input.
    ///
    /// # Errors
    /// The body is malformed.
    pub(crate) fn discard(&mut self, input: &mut Input) -> Result<(), BadRequest> {
        while !input.is_empty() && !self.rest.is_done() {
            let piece = self.rest.next(input.unread()).map_err(malformed)?;
            input.consume(piece.len());
        }
        Ok(())
    }

    /// Advances the file of the body.
    ///
    /// # Errors
    /// The file cannot be written or read: the disk is full, for example.
    pub(crate) fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.spool.as_mut().filter(|spool| spool.has_work()) {
            Some(spool) => spool.poll_progress(cx),
            None => Poll::Pending,
        }
    }

    /// Returns how the application finds the end of the body, for its head. A body that has arrived has a length.
    ///
    /// The result may change: the coding of the bytes that follow a head is that of the head.
    pub(crate) fn framing(&self) -> RequestFraming {
        match self.framing {
            RequestFraming::Chunked if self.is_received() => RequestFraming::Length(self.received),
            framing => framing,
        }
    }

    /// Returns the next bytes for the application. Empty: they are in the file, or have not arrived, or the
    /// body has ended.
    pub(crate) fn next(&self) -> &[u8] {
        self.spool.as_ref().map_or(&[], |spool| &spool.front()[self.sent..])
    }

    /// Notes that the application gets `count` bytes of [`next`](Self::next).
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent += count;
        if !self.is_in_memory()
            && let Some(spool) = &mut self.spool
        {
            spool.consume(std::mem::take(&mut self.sent));
            self.is_consumed = true;
        }
    }

    fn is_in_memory(&self) -> bool {
        let in_memory = |spool: &Spool| spool.front().len() as u64 == spool.len();
        self.is_received() && !self.is_consumed && self.spool.as_ref().is_none_or(in_memory)
    }

    /// Returns whether the application got the whole body.
    pub(crate) fn is_sent(&self) -> bool {
        self.is_received() && self.spool.as_ref().map_or(0, Spool::len) == self.sent as u64
    }

    /// Prepares the body for another attempt. Returns false if a part of it is gone.
    pub(crate) fn rewind(&mut self) -> bool {
        self.sent = 0;
        !self.is_consumed
    }
}

fn malformed(bad: BadChunk) -> BadRequest {
    BadRequest { status: 400, why: bad.0.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    /// The place of the file is counted for all threads.
    #[test]
    fn a_request_without_a_body_asks_for_no_place_of_its_file() {
        for framing in [RequestFraming::None, RequestFraming::Length(0)] {
            let body = Body::new(framing, 0, || unreachable!());
            assert!(body.is_received() && body.is_sent() && body.next().is_empty());
        }
    }
}
