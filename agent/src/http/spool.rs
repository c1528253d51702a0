//! A queue of bytes with a bound in memory, then in a file, and then full.
//!
//! One task owns the queue. [`push`](Spool::push) and [`front`](Spool::front) never wait; file input and output
//! run on tokio's blocking threads, one step at a time, and [`progress`](Spool::progress) waits for the step.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The largest number of bytes of one read or write of the file.
pub(crate) const STEP: usize = 256 * 1024;

/// The bounds of a queue, and the place of its file.
#[derive(Clone, Debug)]
pub(crate) struct SpoolLimits {
    /// The largest number of bytes in memory before the queue uses a file.
    pub(crate) memory: usize,
    /// The largest number of bytes in the file; 0: the queue never uses one.
    pub(crate) file: u64,
    /// The directory of the file. The file is unlinked as soon as it is open.
    pub(crate) directory: Arc<Path>,
}

/// A first-in-first-out queue of bytes.
#[derive(Debug)]
pub(crate) struct Spool {
    limits: SpoolLimits,
}

impl Spool {
    /// Creates an empty queue. It has neither buffer nor file yet.
    pub(crate) fn new(limits: SpoolLimits) -> Self {
        Spool { limits }
    }

    /// Appends as many bytes as fit now, and returns their number.
    ///
    /// Less than all: the queue waits for its file ([`progress`](Self::progress)), or it is full until bytes
    /// are consumed.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        let _ = bytes;
        todo!()
    }

    /// Returns the number of bytes that [`push`](Self::push) would take now.
    pub(crate) fn room(&self) -> usize {
        todo!()
    }

    /// Returns the oldest bytes that are in memory.
    ///
    /// Empty, although the queue is not: the bytes are in the file, and [`progress`](Self::progress) brings
    /// them.
    pub(crate) fn front(&self) -> &[u8] {
        todo!()
    }

    /// Removes bytes from the front. `count` is at most the length of [`front`](Self::front).
    pub(crate) fn consume(&mut self, count: usize) {
        let _ = count;
        todo!()
    }

    /// Returns the number of bytes in the queue, in memory and file.
    pub(crate) fn len(&self) -> u64 {
        todo!()
    }

    /// Returns whether the queue has no bytes.
    pub(crate) fn is_empty(&self) -> bool {
        todo!()
    }

    /// Returns whether [`progress`](Self::progress) has something to do: a step runs, or one can begin.
    pub(crate) fn has_work(&self) -> bool {
        todo!()
    }

    /// Starts a step of file input or output if one is due, and waits for its end.
    ///
    /// After a step, front or room have changed. Without a step the future never completes, so that it can
    /// stand in a `select!`. Dropping the future loses nothing: the step goes on, and the next call waits
    /// for it.
    ///
    /// # Errors
    /// The file cannot be written or read; for example the disk is full. The queue has lost bytes, and the
    /// caller gives up the request or the answer.
    pub(crate) async fn progress(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_progress(cx)).await
    }

    /// As [`progress`](Self::progress).
    pub(crate) fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ = cx;
        todo!()
    }
}
