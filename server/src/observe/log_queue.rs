//! The path of log lines to standard error: a bounded queue, and a thread that empties it.
//!
//! The reader of the log may be slow, stopped or gone, and a write to a full pipe waits for ever. So
//! only this thread writes. Lines that find the queue full are dropped and counted, and the count is
//! logged as soon as lines go through again.
//!
//! `tracing-appender` has such a thread too, but its guard prints to standard output if the queue is
//! full at the end. With `2>&1` that is the same blocked pipe, and the server would never end.

use crate::observe::plain;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// The capacity of the queue in bytes: a burst of some ten thousand lines.
const CAPACITY: usize = 1 << 20;
/// The writer's buffer shrinks to this size after a burst.
const KEPT_BUFFER: usize = 64 << 10;

/// A queue of lines that wait to be written.
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Signals that a line was added.
    filled: Condvar,
    /// Signals that all lines have been written.
    emptied: Condvar,
}

struct State {
    pending: Vec<u8>,
    dropped: usize,
    /// Whether the writer has taken lines that are not written yet.
    is_writing: bool,
    writer: Option<ThreadId>,
}

impl Queue {
    pub(crate) const fn new() -> Self {
        let state = State { pending: Vec::new(), dropped: 0, is_writing: false, writer: None };
        Queue { state: Mutex::new(state), filled: Condvar::new(), emptied: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Code under this lock does not panic, so a poisoned lock still guards a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the writer thread, which calls `report` with the number of lines that were lost.
    pub(crate) fn start(
        &'static self,
        sink: impl Write + Send + 'static,
        report: impl Fn(usize) + Send + 'static,
    ) -> io::Result<()> {
        let thread = thread::Builder::new()
            .name("log".into())
            .spawn(move || self.empty_into(sink, report))?;
        self.state().writer = Some(thread.thread().id());
        Ok(())
    }

    pub(crate) fn is_started(&self) -> bool {
        self.state().writer.is_some()
    }

    /// Adds one line, which includes its line break. Never waits.
    pub(crate) fn line(&self, line: &[u8]) {
        let mut state = self.state();
        // After a lost line the queue takes no further line until the writer has reported the loss, so
        // that the report stands where the lines are missing. An empty queue takes a line of any length,
        // so that the writer wakes; the writer's own line, the report, is taken always.
        let has_room = state.pending.is_empty() || state.pending.len() + line.len() <= CAPACITY;
        if state.dropped == 0 && has_room || state.writer == Some(thread::current().id()) {
            self.put(state, line);
        } else {
            state.dropped += 1;
        }
    }

    /// Adds text that is never dropped: the last message of the server.
    pub(crate) fn line_kept(&self, text: &[u8]) {
        self.put(self.state(), text);
    }

    fn put(&self, mut state: MutexGuard<'_, State>, text: &[u8]) {
        state.pending.extend_from_slice(text);
        drop(state);
        self.filled.notify_one();
    }

    /// Waits until all lines are written, for at most this time.
    pub(crate) fn flush(&self, at_most: Duration) {
        let state = self.state();
        let _ = self
            .emptied
            .wait_timeout_while(state, at_most, |s| s.is_writing || !s.pending.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
    }

    fn empty_into(&self, mut sink: impl Write, report: impl Fn(usize)) {
        let mut batch = Vec::new();
        let mut failed = 0;
        loop {
            let dropped = self.take(&mut batch);
            if dropped > 0 {
                report(dropped);
                self.state().dropped -= dropped;
            }
            let unwritten = write_all(&mut sink, &batch);
            failed += unwritten.iter().filter(|&&b| b == b'\n').count();
            if unwritten.is_empty() && failed > 0 {
                report(std::mem::take(&mut failed));
            }
            batch.clear();
            batch.shrink_to(KEPT_BUFFER);
        }
    }

    /// Waits for lines and swaps them for the empty `batch`. Returns the number of lines dropped after them.
    fn take(&self, batch: &mut Vec<u8>) -> usize {
        let mut state = self.state();
        state.is_writing = false;
        if state.pending.is_empty() {
            self.emptied.notify_all();
        }
        let mut state = self
            .filled
            .wait_while(state, |s| s.pending.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        state.is_writing = true;
        std::mem::swap(&mut state.pending, batch);
        state.dropped
    }
}

/// `tracing-subscriber` writes each event's line with one call.
impl Write for &Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.line(&plain::line(line));
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes `text`, and returns the part that could not be written.
fn write_all<'a>(sink: &mut impl Write, mut text: &'a [u8]) -> &'a [u8] {
    while !text.is_empty() {
        match sink.write(text) {
            Ok(0) => break,
            Ok(written) => text = &text[written..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // Another process that shares the terminal or the pipe has made it non-blocking.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(_) => break,
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, PipeWriter};
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(30);

    fn started(sink: impl Write + Send + 'static) -> &'static Queue {
        let queue: &'static Queue = Box::leak(Box::new(Queue::new()));
        queue.start(sink, |lost| queue.line(format!("lost {lost}\n").as_bytes())).unwrap();
        queue
    }

    #[test]
    fn lost_lines_are_counted_and_reported_where_they_are_missing() {
        let (reader, writer) = io::pipe().unwrap();
        let queue = started(writer);
        let push = |i: usize| queue.line(format!("line {i}\n").as_bytes());
        (0..150_000).for_each(push);
        let pushing = thread::spawn(move || (150_000..300_000).for_each(push));
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let (mut next, mut lost) = (0, 0);
        while next < 300_000 {
            match lines.next().unwrap().split_once(' ').unwrap() {
                ("line", i) => {
                    assert_eq!(i, next.to_string());
                    next += 1;
                }
                (_, count) => {
                    lost += count.parse::<usize>().unwrap();
                    next += count.parse::<usize>().unwrap();
                }
            }
        }
        pushing.join().unwrap();
        assert!(lost > 0);
        queue.line(b"line again\n");
        assert_eq!(lines.next().unwrap(), "line again");
        queue.flush(LONG);
    }

    #[test]
    fn flush_waits_for_the_writer_but_not_for_a_blocked_one() {
        let (reader, writer) = io::pipe().unwrap();
        let queue = started(writer);
        queue.flush(LONG); // the queue is empty
        queue.line(b"one\n");
        queue.flush(LONG);
        queue.line(&[b'x'; CAPACITY + 1]);
        let begun = Instant::now();
        queue.flush(Duration::from_millis(50));
        assert!(begun.elapsed() < LONG);
        drop(reader);
        queue.flush(LONG); // the write has failed
    }

    #[test]
    fn a_sink_that_would_block_is_retried() {
        struct Busy(Vec<u8>, bool);
        impl Write for Busy {
            fn write(&mut self, text: &[u8]) -> io::Result<usize> {
                self.1 = !self.1;
                if self.1 {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                self.0.write(&text[..text.len().min(2)])
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut busy = Busy(Vec::new(), false);
        assert_eq!(write_all(&mut busy, b"three\n"), b"");
        assert_eq!(busy.0, b"three\n");
    }

    /// Fails until the test mends it.
    struct Broken(PipeWriter, std::sync::mpsc::Receiver<()>, bool);

    impl Write for Broken {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.2 |= self.1.try_recv().is_ok();
            if self.2 { self.0.write(text) } else { Err(io::ErrorKind::StorageFull.into()) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_whose_write_failed_are_reported_once_writes_succeed_again() {
        let (reader, writer) = io::pipe().unwrap();
        let (mend, mended) = std::sync::mpsc::channel();
        let queue = started(Broken(writer, mended, false));
        queue.line(b"one\n");
        queue.line(b"two\n");
        queue.flush(LONG);
        mend.send(()).unwrap();
        queue.line(b"three\n");
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), "three");
        assert_eq!(lines.next().unwrap(), "lost 2");
    }
}
