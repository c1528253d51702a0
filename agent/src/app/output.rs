//! The output of application processes.
//!
//! Each line becomes a log line. While a process starts, the output is also kept for the error that is
//! shown if the process does not become ready.

use crate::logging::APP_OUTPUT;
use std::sync::{Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest log line; a longer line is logged in pieces.
const MAX_LINE: usize = 8192;
/// How many bytes of output are kept while a process starts. The end is kept, where the error is.
const MAX_KEPT: usize = 64 * 1024;

/// The output of one process.
#[derive(Debug)]
pub(crate) struct Output {
    pid: u32,
    kept: Mutex<Option<String>>,
}

impl Output {
    /// Creates the output of a process, and keeps it from the beginning.
    pub(crate) fn new(pid: u32) -> Self {
        Output { pid, kept: Mutex::new(Some(String::new())) }
    }

    /// Logs and keeps one line, which has no line break.
    pub(crate) fn line(&self, stream: &'static str, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r');
        if let Some(kept) = &mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner) {
            kept.push_str(line);
            kept.push('\n');
            if kept.len() > MAX_KEPT {
                let cut = kept.ceil_char_boundary(kept.len() - MAX_KEPT / 2);
                kept.drain(..cut);
            }
        }
        if !line.is_empty() {
            tracing::info!(target: APP_OUTPUT, pid = self.pid, stream, "App {} {stream}: {line}", self.pid);
        }
    }

    /// Returns the output that was kept, and keeps no more. Call it once the process is ready or lost.
    pub(crate) fn take(&self) -> String {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
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

    #[tokio::test]
    async fn kept_output_is_limited_and_ends_with_the_last_line() {
        let output = Output::new(1);
        let text = "é".repeat(40).into_bytes();
        for _ in 0..5000 {
            output.line("stdout", &text);
        }
        output.forward("stderr", &b"the end"[..], b"almost ".to_vec()).await;
        let kept = output.take();
        assert!(kept.len() <= MAX_KEPT && kept.ends_with("almost the end\n"));
        output.line("stdout", b"more");
        assert_eq!(output.take(), "");
    }
}
