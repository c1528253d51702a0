//! Polls for a change, up to a limit. The limit may be long: only a failure waits for it.

use std::time::{Duration, Instant};

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Returns the first answer of `ask`, or `None` if there is no answer within the limit.
pub fn poll<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        // At least one look, and one more after the limit: a busy machine may have kept this thread from looking.
        let is_late = begun.elapsed() > limit;
        let answer = ask();
        if answer.is_some() || is_late {
            return answer;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Polls until `done`. Returns whether it was done within the limit.
pub fn until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    poll(limit, || done().then_some(())).is_some()
}
