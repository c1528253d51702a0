//! Log lines that come at most once a minute, however often their cause does.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(60);

/// One kind of log line.
#[derive(Debug, Default)]
pub(crate) struct Rare(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    left_out: u64,
}

impl Rare {
    /// Calls `log` unless it was called within the last minute. It gets the number of calls left out since.
    pub(crate) fn log(&self, log: impl FnOnce(u64)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| last.elapsed() < PAUSE) {
            state.left_out += 1;
            return;
        }
        state.last = Some(Instant::now());
        let left_out = std::mem::take(&mut state.left_out);
        drop(state);
        log(left_out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_left_out_within_a_minute() {
        let rare = Rare::default();
        let mut calls = 0;
        for _ in 0..3 {
            rare.log(|_| calls += 1);
        }
        assert_eq!((calls, rare.0.lock().unwrap().left_out), (1, 2));
    }
}
