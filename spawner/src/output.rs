//! The output of application processes.
//!
//! Each line becomes a log line. While a process starts, the output is also kept for the error that is
//! shown if the process does not become ready.
//!
//! An application that cannot boot is started again and again, and fails in the same way each time. So
//! after a failed boot, the output of the next one is held back. It is logged if the process becomes ready
//! or fails in another way.

use crate::boot_error::names_an_error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The target of the log lines that applications print.
pub const APP_OUTPUT: &str = "app_output";

/// The first line of Python's errors.
const TRACEBACK: &str = "Traceback (most recent call last):";
/// The longest log line; a longer line is logged in pieces.
const MAX_LINE: usize = 8192;
/// How many bytes of output are kept while a process starts. The end is kept, where the error is.
const MAX_KEPT: usize = 64 * 1024;

/// The output of one process.
#[derive(Debug)]
pub(crate) struct Output {
    pid: u32,
    boot: Mutex<Option<Boot>>,
}

/// The output while the process starts.
#[derive(Debug)]
struct Boot {
    kept: String,
    log: BootLog,
}

/// When the output of a process that starts is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BootLog {
    /// At once.
    Live,
    /// Once it is known how the boot ends.
    Held,
}

impl Output {
    /// Creates the output of a process, and keeps it from the beginning.
    pub(crate) fn new(pid: u32, log: BootLog) -> Self {
        Output { pid, boot: Mutex::new(Some(Boot { kept: String::new(), log })) }
    }

    fn boot(&self) -> MutexGuard<'_, Option<Boot>> {
        self.boot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs and keeps one line, which has no line break.
    pub(crate) fn line(&self, stream: &'static str, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        // On a terminal, a carriage return in a line would let it look like a line of the server's own.
        let line = line.trim_end_matches('\r').replace('\r', "\\r");
        if let Some(Boot { kept, log }) = &mut *self.boot() {
            kept.push_str(&line);
            kept.push('\n');
            if kept.len() > MAX_KEPT {
                let cut = kept.ceil_char_boundary(kept.len() - MAX_KEPT / 2);
                kept.drain(..cut);
            }
            if *log == BootLog::Held {
                return;
            }
        }
        if !line.is_empty() {
            let pid = self.pid;
            // No level of the application is known: frameworks write their logs to standard error, too.
            match stream == "stderr" && (line == TRACEBACK || names_an_error(&line)) {
                true => {
                    tracing::error!(target: APP_OUTPUT, pid, stream, "App {pid} {stream}: {line}");
                }
                false => {
                    tracing::info!(target: APP_OUTPUT, pid, stream, "App {pid} {stream}: {line}");
                }
            }
        }
    }

    /// Logs the error that the process has named in the handshake.
    pub(crate) fn log_error(&self, text: &str) {
        for line in text.lines().filter(|line| !line.is_empty()) {
            tracing::error!(target: APP_OUTPUT, pid = self.pid, "App {} error: {line}", self.pid);
        }
    }

    /// Returns the output that was kept until now.
    pub(crate) fn kept(&self) -> String {
        self.boot().as_ref().map_or_else(String::new, |boot| boot.kept.clone())
    }

    /// Ends the boot of a process that is ready: logs the output that was held back, and keeps no more.
    pub(crate) fn ready(&self) {
        if let Some(Boot { kept, log: BootLog::Held }) = self.boot().take() {
            self.log_lines("boot", &kept);
        }
    }

    /// Ends the boot of a process that has failed. Returns the output that was kept, and whether it has
    /// been logged.
    pub(crate) fn failed(&self) -> (String, BootLog) {
        self.boot().take().map_or((String::new(), BootLog::Live), |boot| (boot.kept, boot.log))
    }

    /// Logs the lines of a text of the process.
    pub(crate) fn log_lines(&self, kind: &'static str, text: &str) {
        for line in text.lines().filter(|line| !line.is_empty()) {
            tracing::info!(target: APP_OUTPUT, pid = self.pid, "App {} {kind}: {line}", self.pid);
        }
    }

    /// Reads `from` to its end. `begun` are bytes of it that were read before.
    pub(crate) async fn forward(
        &self,
        stream: &'static str,
        mut from: impl AsyncRead + Unpin,
        begun: Vec<u8>,
    ) {
        let mut lines = Lines { pending: begun };
        let mut buffer = [0; 4096];
        loop {
            lines.each(|line| self.line(stream, line));
            match from.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(n) => lines.pending.extend_from_slice(&buffer[..n]),
            }
        }
        if !lines.pending.is_empty() {
            self.line(stream, &lines.pending);
        }
    }
}

/// Splits a stream into lines of limited length.
struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    fn each(&mut self, mut take: impl FnMut(&[u8])) {
        let mut start = 0;
        loop {
            let rest = &self.pending[start..];
            match rest.iter().take(MAX_LINE).position(|&b| b == b'\n') {
                Some(end) => {
                    take(&rest[..end]);
                    start += end + 1;
                }
                None if rest.len() >= MAX_LINE => {
                    take(&rest[..MAX_LINE]);
                    start += MAX_LINE;
                }
                None => break,
            }
        }
        self.pending.drain(..start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_at_line_breaks_and_at_the_limit() {
        let mut lines = Lines { pending: b"a\nb".to_vec() };
        let mut seen = Vec::new();
        lines.each(|l| seen.push(l.to_vec()));
        assert_eq!(seen, [b"a"]);
        lines.pending.extend_from_slice(&[b'x'; MAX_LINE]);
        lines.each(|l| seen.push(l.to_vec()));
        assert_eq!((seen[1].len(), lines.pending.len()), (MAX_LINE, 1));
    }

    #[test]
    fn no_part_of_a_line_looks_like_a_line_of_its_own() {
        let output = Output::new(1, BootLog::Live);
        output.line("stderr", b"a\rERROR b\r");
        assert_eq!(output.failed().0, "a\\rERROR b\n");
    }

    #[tokio::test]
    async fn kept_output_is_limited_and_ends_with_the_last_line() {
        let output = Output::new(1, BootLog::Live);
        let text = "é".repeat(40).into_bytes();
        for _ in 0..5000 {
            output.line("stdout", &text);
        }
        output.forward("stderr", &b"the end"[..], b"almost ".to_vec()).await;
        let (kept, log) = output.failed();
        assert_eq!(log, BootLog::Live);
        assert!(kept.len() <= MAX_KEPT && kept.ends_with("almost the end\n"));
        output.line("stdout", b"more");
        assert_eq!(output.failed().0, "");
    }
}
