//! Bytes that were read from a connection and are not consumed yet.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The smallest room for one read.
const LEAST: usize = 4 * 1024;
/// The room for one read, once a read has filled a smaller one.
const MOST: usize = 64 * 1024;

/// A buffer that is filled at its end and consumed at its start.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
}

impl Input {
    /// Returns the bytes that are not consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Returns whether all bytes are consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Returns the number of bytes that are not consumed.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Removes bytes from the start.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.bytes.len(), "more than there is");
        if self.is_empty() {
            self.clear();
        }
    }

    /// Removes all bytes. The buffer stays.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
    }

    /// Releases a buffer that a large message has made large.
    pub(crate) fn shrink(&mut self) {
        self.clear();
        if self.bytes.capacity() > MOST {
            self.bytes = Vec::new();
        }
    }

    /// Reads once, and returns the number of bytes; 0: the end.
    ///
    /// A read that does not fill the room tells tokio that the socket is empty. The next poll then waits
    /// without a system call.
    pub(crate) fn poll_read<R: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
    ) -> Poll<io::Result<usize>> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let room = self.bytes.capacity() - self.bytes.len();
        if room < LEAST {
            // Doubles, so that a fast sender needs fewer system calls.
            let more = self.bytes.capacity().clamp(LEAST, MOST);
            self.bytes.reserve(more);
        }
        pin!(from.read_buf(&mut self.bytes)).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_leave_in_the_order_of_their_arrival() {
        let mut input = Input::default();
        for part in [&b"one"[..], b"two"] {
            let mut from = part;
            std::future::poll_fn(|cx| input.poll_read(cx, &mut from)).await.unwrap();
        }
        input.consume(2);
        assert_eq!((input.unread(), input.len()), (&b"etwo"[..], 4));
        input.consume(4);
        assert!(input.is_empty());
    }
}
