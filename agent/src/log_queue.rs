//! The log's way to standard error: a bounded queue, and a thread that empties it.
//!
//! Whoever reads the log may be slow, stopped or gone, and a write to a full pipe waits for ever. So
//! nobody but this thread writes; what the queue has no room for is dropped, counted, and told of when
//! lines go through again.
//!
//! `tracing-appender` has such a thread too, but its guard prints to standard output if the queue is
//! full at the end. With `2>&1` that is the very pipe that is blocked, and the program never ends.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// How many bytes may wait: a burst of some ten thousand lines.
const ROOM: usize = 1 << 20;
/// A buffer that has grown beyond this in a burst is not kept.
const KEPT: usize = 64 << 10;

/// Lines that wait to be written.
pub(crate) struct Queue {
    state: Mutex<State>,
    /// There is something to write.
    filled: Condvar,
    /// All that there was has been written.
    emptied: Condvar,
}

struct State {
    pending: Vec<u8>,
    dropped: usize,
    /// What the thread has taken is not written yet.
    is_writing: bool,
    writer: Option<ThreadId>,
}

impl Queue {
    pub(crate) const fn new() -> Self {
        let state = State { pending: Vec::new(), dropped: 0, is_writing: false, writer: None };
        Queue { state: Mutex::new(state), filled: Condvar::new(), emptied: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread. `tell` is called on it with the number of lines that were lost.
    pub(crate) fn start(
        &'static self,
        sink: impl Write + Send + 'static,
        tell: impl Fn(usize) + Send + 'static,
    ) -> io::Result<()> {
        let thread =
            thread::Builder::new().name("log".into()).spawn(move || self.empty_into(sink, tell))?;
        self.state().writer = Some(thread.thread().id());
        Ok(())
    }

    pub(crate) fn is_started(&self) -> bool {
        self.state().writer.is_some()
    }

    /// One line, with its end. Never waits.
    pub(crate) fn line(&self, line: &[u8]) {
        let mut state = self.state();
        // After one line has been dropped none is taken before that has been told of: the word of it
        // then stands where they are missing. A line on its own always has room, so that there is
        // something to wake the thread for; so has the thread's own, which is that word.
        let has_room = state.pending.is_empty() || state.pending.len() + line.len() <= ROOM;
        if state.dropped == 0 && has_room || state.writer == Some(thread::current().id()) {
            self.put(state, line);
        } else {
            state.dropped += 1;
        }
    }

    /// Text that is not dropped: for what is said once, at the end.
    pub(crate) fn last_word(&self, text: &[u8]) {
        self.put(self.state(), text);
    }

    fn put(&self, mut state: MutexGuard<'_, State>, text: &[u8]) {
        state.pending.extend_from_slice(text);
        drop(state);
        self.filled.notify_one();
    }

    /// Waits until all is written, but not longer than this.
    pub(crate) fn flush(&self, at_most: Duration) {
        let state = self.state();
        let _ = self
            .emptied
            .wait_timeout_while(state, at_most, |s| s.is_writing || !s.pending.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
    }

    fn empty_into(&self, mut sink: impl Write, tell: impl Fn(usize)) {
        let mut batch = Vec::new();
        let mut failed = 0;
        loop {
            let dropped = self.take(&mut batch);
            if dropped > 0 {
                tell(dropped);
                self.state().dropped -= dropped;
            }
            let unwritten = write_all(&mut sink, &batch);
            failed += unwritten.iter().filter(|&&b| b == b'\n').count();
            if unwritten.is_empty() && failed > 0 {
                tell(std::mem::take(&mut failed));
            }
            batch.clear();
            batch.shrink_to(KEPT);
        }
    }

    /// Waits for lines and swaps them for the empty `batch`; returns how many were dropped behind them.
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

/// One event's line, as `tracing-subscriber` writes it: in one piece.
impl Write for &Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.line(line);
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns what could not be written.
fn write_all<'a>(sink: &mut impl Write, mut text: &'a [u8]) -> &'a [u8] {
    while !text.is_empty() {
        match sink.write(text) {
            Ok(0) => break,
            Ok(written) => text = &text[written..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // Someone who shares the terminal or the pipe has made it non-blocking.
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
    fn what_finds_no_room_is_counted_and_told_where_it_is_missing() {
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
    fn flush_waits_for_what_can_be_written_and_not_for_what_cannot() {
        let (reader, writer) = io::pipe().unwrap();
        let queue = started(writer);
        queue.flush(LONG); // there is nothing
        queue.line(b"one\n");
        queue.flush(LONG);
        queue.line(&[b'x'; ROOM + 1]);
        let begun = Instant::now();
        queue.flush(Duration::from_millis(50));
        assert!(begun.elapsed() < LONG);
        drop(reader);
        queue.flush(LONG); // the rest has failed
    }

    #[test]
    fn a_sink_that_is_busy_is_asked_again() {
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

    /// Fails until it is told not to.
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
    fn lines_whose_writing_failed_are_told_of_once_it_works_again() {
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
