//! The bytes of an answer that the client has not taken.

use crate::client::Side;
use crate::connection::pace::Pace;
use crate::connection::watched::Connection;
use crate::exchange::buffers::{Buffers, IN_MEMORY};
use crate::exchange::end::End;
use crate::request::spool::{Spool, SpoolLimits};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;

/// The part of an answer that waits for the client: first `to_client`, then `overflow`, then `staged`.
///
/// `to_client` is the buffer of the request's scratch. Each method gets it from its caller.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// The number of bytes of `to_client` that the client got.
    sent: usize,
    /// The number of bytes that the client has taken.
    delivered: u64,
    /// The bytes that do not fit into `to_client`.
    overflow: Option<Spool>,
    /// The bytes that do not fit into `overflow` now.
    staged: Vec<u8>,
}

impl Outbox {
    /// Returns whether the client has all bytes.
    pub(crate) fn is_empty(&self, to_client: &[u8]) -> bool {
        self.sent == to_client.len()
            && self.staged.is_empty()
            && self.overflow.as_ref().is_none_or(Spool::is_empty)
    }

    /// Returns the number of bytes that the client has taken.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns whether the answer must wait until the client takes bytes.
    pub(crate) fn is_full(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Returns whether the client has a part of what was appended, and not all of it.
    pub(crate) fn is_midway(&self, to_client: &[u8]) -> bool {
        (self.sent > 0 || self.overflow.is_some()) && !self.is_empty(to_client)
    }

    /// Appends a part of the answer, or an interim answer. The caller checks [`is_full`](Self::is_full) before.
    pub(crate) fn push(
        &mut self,
        to_client: &mut Vec<u8>,
        limits: impl FnOnce() -> SpoolLimits,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.overflow.is_none() && to_client.len() - self.sent >= IN_MEMORY {
            self.overflow = Some(Spool::new(limits()));
        }
        if self.sent > IN_MEMORY {
            // A client that is always a little late never takes the last byte. One byte that it has taken stays: it is midway.
            to_client.drain(..self.sent - 1);
            self.sent = 1;
        }
        write(self.end(to_client));
        self.push_staged();
    }

    /// Appends the mark that ends the answer.
    pub(crate) fn push_end(&mut self, to_client: &mut Vec<u8>, side: &Side) {
        side.push_end(self.end(to_client));
    }

    fn end<'a>(&'a mut self, to_client: &'a mut Vec<u8>) -> &'a mut Vec<u8> {
        match &self.overflow {
            None => to_client,
            // The queue may take a part of the bytes only.
            Some(_) => &mut self.staged,
        }
    }

    /// Moves bytes to the queue, as far as there is room. Returns whether any have moved.
    pub(crate) fn push_staged(&mut self) -> bool {
        if self.staged.is_empty() {
            return false;
        }
        let pushed = self.overflow.as_mut().map_or(0, |overflow| overflow.push(&self.staged));
        self.staged.drain(..pushed);
        pushed > 0
    }

    /// Writes as much as the client takes. Returns whether any bytes have moved.
    pub(crate) fn deliver(
        &mut self,
        cx: &mut Context<'_>,
        to_client: &mut Vec<u8>,
        client: &mut Connection,
        reader: &mut Pace,
        buffers: &Buffers,
    ) -> Result<bool, End> {
        let mut moved = false;
        loop {
            moved |= self.push_staged();
            moved |= self.advance_file(cx, buffers)?;
            let is_overflow = self.sent == to_client.len();
            let bytes = if is_overflow {
                to_client.clear();
                self.sent = 0;
                self.overflow.as_ref().map_or(&[][..], Spool::front)
            } else {
                &to_client[self.sent..]
            };
            if bytes.is_empty() {
                break;
            }
            match Pin::new(&mut client.stream).poll_write(cx, bytes) {
                Poll::Pending => return Ok(moved),
                Poll::Ready(Err(_)) => return Err(End::Left),
                Poll::Ready(Ok(count)) => {
                    moved = true;
                    self.delivered += count as u64;
                    reader.moved(count, client.watch.now());
                    match &mut self.overflow {
                        Some(overflow) if is_overflow => overflow.consume(count),
                        _ => self.sent += count,
                    }
                }
            }
        }
        if let Some(overflow) = &self.overflow
            && self.staged.is_empty()
            && overflow.is_empty()
            && !overflow.has_work()
        {
            self.overflow = None;
        }
        Ok(moved)
    }

    /// Moves bytes between the queue's memory and its file. Returns whether a step has ended.
    fn advance_file(&mut self, cx: &mut Context<'_>, buffers: &Buffers) -> Result<bool, End> {
        let Some(overflow) = self.overflow.as_mut().filter(|overflow| overflow.has_work()) else {
            return Ok(false);
        };
        let Poll::Ready(progress) = overflow.poll_progress(cx) else { return Ok(false) };
        if let Err(e) = progress {
            buffers.no_space("an answer", &e);
            // With a full disk, the application waits for the client. A read that failed has lost bytes.
            if !overflow.is_unwritable() {
                return Err(End::GivenUp(format!("the buffer cannot be read: {e}")));
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such a client reads a stream at its pace, so its part is never empty and never large.
    #[test]
    fn bytes_that_a_late_client_has_taken_use_no_memory() {
        let (mut outbox, mut to_client) = (Outbox::default(), Vec::new());
        let limits = || -> SpoolLimits { unreachable!("the client is not late by so much") };
        let (mut pushed, mut taken) = (vec![], vec![]);
        for number in 0..1000u32 {
            let part = number.to_be_bytes().repeat(250);
            pushed.extend_from_slice(&part);
            outbox.push(&mut to_client, limits, |buffer| buffer.extend_from_slice(&part));
            assert!(to_client.len() < 3 * IN_MEMORY, "{} bytes", to_client.len());
            let end = to_client.len() - 1;
            taken.extend_from_slice(&to_client[outbox.sent..end]);
            outbox.sent = end;
            assert!(outbox.is_midway(&to_client));
        }
        taken.extend_from_slice(&to_client[outbox.sent..]);
        assert!(taken == pushed);
    }
}
