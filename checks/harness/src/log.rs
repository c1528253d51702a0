//! The lines that a server prints.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// The lines that have come so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<String>>);

impl Log {
    /// Collects lines in a thread of their own, until the last writer has closed.
    pub fn collect(from: impl Read + Send + 'static) -> Log {
        let log = Log::default();
        let kept = log.clone();
        std::thread::spawn(move || {
            // The output of an application may be no UTF-8.
            for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                let mut text = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
                text.push_str(&String::from_utf8_lossy(&line));
                text.push('\n');
            }
        });
        log
    }

    /// Returns all lines so far.
    pub fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
