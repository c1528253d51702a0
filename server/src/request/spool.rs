//! A queue of bytes with a bound in memory, then in a file, and then full.
//!
//! One task owns the queue. [`push`](Spool::push) and [`front`](Spool::front) never wait; file input and output
//! run on tokio's blocking threads, one step at a time, and [`poll_progress`](Spool::poll_progress) waits for the step.
//!
//! The bytes are, from the oldest to the newest:
//!
//! | part | holds at most | moves |
//! |---|---|---|
//! | `front` | `memory` bytes, or one step | to the caller |
//! | the file | `file` bytes, as a ring | to `front` once that is empty |
//! | `back` | one step | to the file once it is full, or to `front` once all before it is gone |
//!
//! A step has `memory` bytes, within [`MIN_STEP`] and [`MAX_STEP`], and owns the buffer that it moves. So the
//! memory of a queue is at most thrice that, and a queue that fits in `front` costs one buffer.

use cabrank_spawner::instance_dir::Instance;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// The smallest and the largest size of a step that is not the last.
const MIN_STEP: usize = 4 * 1024;
const MAX_STEP: usize = 256 * 1024;

/// The bounds of a queue, and the place of its file.
#[derive(Clone, Debug)]
pub(crate) struct SpoolLimits {
    /// The largest number of bytes in memory before the queue uses a file.
    pub(crate) memory: usize,
    /// The largest number of bytes beyond that; 0: the queue never uses a file.
    pub(crate) file: u64,
    /// The place of the file.
    pub(crate) directory: Directory,
}

/// The directory of files.
#[derive(Clone, Debug)]
pub(crate) enum Directory {
    /// A part of the instance directory, which may move.
    Instance(Instance),
    #[cfg(test)]
    Fixed(Arc<std::path::Path>),
}

impl Directory {
    /// Creates a file that has no name. The function blocks.
    fn file(&self) -> io::Result<File> {
        match self {
            Directory::Instance(instance) => instance.buffer(),
            #[cfg(test)]
            Directory::Fixed(path) => tempfile::tempfile_in(path),
        }
    }
}

impl std::fmt::Display for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Directory::Instance(instance) => instance.buffered().display().fmt(f),
            #[cfg(test)]
            Directory::Fixed(path) => path.display().fmt(f),
        }
    }
}

/// A first-in-first-out queue of bytes.
#[derive(Debug)]
pub(crate) struct Spool {
    limits: SpoolLimits,
    front: Vec<u8>,
    /// The number of bytes of `front` that were consumed.
    consumed: usize,
    back: Vec<u8>,
    file: Option<Arc<File>>,
    /// The positions of the next byte to read and to write. The place in the file is the position modulo
    /// the file's limit.
    read_at: u64,
    write_at: u64,
    step: Option<JoinHandle<Step>>,
    /// Whether a write has failed. The queue uses only its memory from then on.
    is_unwritable: bool,
}

/// The result of a step, with the buffer that it owned.
#[derive(Debug)]
enum Step {
    Written(io::Result<Arc<File>>, Vec<u8>),
    Read(io::Result<()>, Vec<u8>),
}

impl Spool {
    /// Creates an empty queue. It has neither buffer nor file yet.
    pub(crate) fn new(limits: SpoolLimits) -> Self {
        Spool {
            limits,
            front: Vec::new(),
            consumed: 0,
            back: Vec::new(),
            file: None,
            read_at: 0,
            write_at: 0,
            step: None,
            is_unwritable: false,
        }
    }

    /// Appends as many bytes as fit now, and returns their number.
    ///
    /// Less than all: the queue waits for its file ([`poll_progress`](Self::poll_progress)), or it is full until bytes
    /// are consumed.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        let (now, rest) = bytes.split_at(bytes.len().min(self.room_in_front()));
        self.front.extend_from_slice(now);
        let later = &rest[..rest.len().min(self.room_in_back())];
        self.back.extend_from_slice(later);
        self.refill();
        now.len() + later.len()
    }

    /// Returns the number of bytes that [`push`](Self::push) would take now.
    pub(crate) fn room(&self) -> usize {
        self.room_in_front() + self.room_in_back()
    }

    /// Bytes may only go to `front` if no others are to follow those that are there.
    fn room_in_front(&self) -> usize {
        let is_last = self.in_file() == 0 && self.back.is_empty();
        if is_last { self.limits.memory.saturating_sub(self.front.len()) } else { 0 }
    }

    fn room_in_back(&self) -> usize {
        if self.is_unwritable {
            return 0;
        }
        let beyond = self.limits.file.saturating_sub(self.in_file() + self.back.len() as u64);
        let step = self.step_size().saturating_sub(self.back.len());
        usize::try_from(beyond).map_or(step, |beyond| beyond.min(step))
    }

    fn step_size(&self) -> usize {
        self.limits.memory.clamp(MIN_STEP, MAX_STEP)
    }

    /// Returns the number of bytes in the file, with those that a step is writing or reading.
    fn in_file(&self) -> u64 {
        self.write_at - self.read_at
    }

    /// Returns the oldest bytes that are in memory.
    ///
    /// Empty, although the queue is not: the bytes are in the file, and [`poll_progress`](Self::poll_progress) brings
    /// them.
    pub(crate) fn front(&self) -> &[u8] {
        &self.front[self.consumed..]
    }

    /// Removes bytes from the front. `count` is at most the length of [`front`](Self::front).
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.front().len(), "more bytes consumed than there are");
        self.consumed += count;
        // Moving the rest costs no more than the bytes before it have cost.
        if self.consumed * 2 >= self.front.len() {
            self.front.drain(..self.consumed);
            self.consumed = 0;
        }
        self.refill();
    }

    /// Moves `back` to the front if all bytes before it are gone.
    fn refill(&mut self) {
        if self.front.is_empty() && self.in_file() == 0 && !self.back.is_empty() {
            std::mem::swap(&mut self.front, &mut self.back);
        }
        debug_assert!(self.in_file() <= self.limits.file, "the ring overflows");
        debug_assert!(
            self.is_empty() || self.has_work() || !self.front.is_empty(),
            "bytes are stuck"
        );
    }

    /// Returns whether a write has failed. The queue then takes no more than its memory holds.
    pub(crate) fn is_unwritable(&self) -> bool {
        self.is_unwritable
    }

    /// Returns the number of bytes in the queue, in memory and file.
    pub(crate) fn len(&self) -> u64 {
        self.front().len() as u64 + self.in_file() + self.back.len() as u64
    }

    /// Returns whether the queue has no bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether [`poll_progress`](Self::poll_progress) has something to do: a step runs, or one can begin.
    pub(crate) fn has_work(&self) -> bool {
        self.step.is_some() || self.can_read() || self.can_write()
    }

    fn can_read(&self) -> bool {
        self.front.is_empty() && self.in_file() > 0
    }

    fn can_write(&self) -> bool {
        self.back.len() >= self.step_size() && !self.is_unwritable
    }

    /// Waits for [`poll_progress`](Self::poll_progress).
    #[cfg(test)]
    pub(crate) async fn progress(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_progress(cx)).await
    }

    /// Starts a step of file input or output if one is due. Ready when the step has ended.
    ///
    /// After a step, front or room have changed. Without a step the result is pending, and no wake-up follows.
    /// A caller that stops polling loses nothing: the step goes on, and the next call waits for it.
    ///
    /// # Errors
    /// The file cannot be written or read. After a failed write, for example to a full disk, the queue still
    /// has all its bytes, and takes no more than its memory holds. After a failed read its bytes are lost.
    pub(crate) fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.step.is_none() {
            if self.can_read() {
                self.start_read();
            } else if self.can_write() {
                self.start_write();
            }
        }
        let Some(step) = &mut self.step else { return Poll::Pending };
        let step = ready!(Pin::new(step).poll(cx));
        self.step = None;
        Poll::Ready(match step {
            Ok(step) => self.finish(step),
            Err(e) => Err(io::Error::other(e)),
        })
    }

    fn start_write(&mut self) {
        let buffer = std::mem::take(&mut self.back);
        let at = self.write_at;
        self.write_at += buffer.len() as u64;
        let (file, limits) = (self.file.clone(), self.limits.clone());
        self.step = Some(tokio::task::spawn_blocking(move || {
            let opened = file.map_or_else(|| limits.directory.file().map(Arc::new), Ok);
            let written = opened.and_then(|file| {
                let (first, second) = buffer.split_at(until_wrap(at, buffer.len(), &limits));
                file.write_all_at(first, at % limits.file)?;
                file.write_all_at(second, 0)?;
                Ok(file)
            });
            Step::Written(written, buffer)
        }));
    }

    fn start_read(&mut self) {
        let Some(file) = self.file.clone() else { return };
        let mut buffer = std::mem::take(&mut self.front);
        let length = self.step_size().min(usize::try_from(self.in_file()).unwrap_or(usize::MAX));
        let (at, limits) = (self.read_at, self.limits.clone());
        self.step = Some(tokio::task::spawn_blocking(move || {
            buffer.resize(length, 0);
            let (first, second) = buffer.split_at_mut(until_wrap(at, length, &limits));
            let read = file.read_exact_at(first, at % limits.file);
            Step::Read(read.and_then(|()| file.read_exact_at(second, 0)), buffer)
        }));
    }

    fn finish(&mut self, step: Step) -> io::Result<()> {
        match step {
            Step::Written(Ok(file), mut buffer) => {
                self.file = Some(file);
                if self.back.is_empty() {
                    buffer.clear();
                    self.back = buffer;
                }
            }
            Step::Written(Err(e), mut buffer) => {
                self.write_at -= buffer.len() as u64;
                buffer.append(&mut self.back);
                self.back = buffer;
                self.is_unwritable = true;
                self.refill();
                return Err(e);
            }
            Step::Read(Ok(()), buffer) => {
                self.read_at += buffer.len() as u64;
                self.front = buffer;
            }
            Step::Read(Err(e), _) => return Err(e),
        }
        self.refill();
        Ok(())
    }
}

/// Returns how many of `length` bytes from position `at` come before the end of the ring.
fn until_wrap(at: u64, length: usize, limits: &SpoolLimits) -> usize {
    let left = limits.file - at % limits.file;
    usize::try_from(left).map_or(length, |left| left.min(length))
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
