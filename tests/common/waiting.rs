//! Waits that only a failing test sits out.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The limit for everything that should happen at once. Only a failing test waits that long.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Waits until `wanted` holds, where no event reports it.
#[track_caller]
pub(crate) fn before_long(wanted: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !wanted() {
        assert!(Instant::now() < deadline, "did not come about");
        std::thread::yield_now();
    }
}

/// A history has found a difference.
static FOUND: AtomicBool = AtomicBool::new(false);

/// Returns until when a random history waits for what another thread does.
///
/// A thread reaches no limit of half a minute on any machine. After the first difference, shrinking would wait that
/// long for each history.
pub(crate) fn patience() -> Instant {
    Instant::now() + Duration::from_secs(if FOUND.load(Relaxed) { 1 } else { 30 })
}

/// Notes that a history has found a difference.
pub(crate) fn note_difference() {
    FOUND.store(true, Relaxed);
}

/// Looks until `wanted` holds, or patience ends. Returns what was seen last.
pub(crate) fn look_until<T>(look: impl Fn() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let end = patience();
    loop {
        let seen = look();
        if wanted(&seen) {
            return seen;
        }
        if Instant::now() > end {
            note_difference();
            return seen;
        }
        std::thread::yield_now();
    }
}
