//! A course, and what all of them use: their counts, and a wait for a condition.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One kind of pool under one kind of load. Its drop closes the pool, and asserts that it is empty.
pub(crate) trait Course {
    /// Works the pool until the deadline.
    fn work(&mut self, seed: u64, until: Instant);
    /// Asserts that the pool accounts for each loan, slot and process.
    fn rest(&mut self);
}

/// Counts of all courses, for the report.
pub(crate) struct Done {
    pub(crate) lent: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) created: AtomicU64,
    pub(crate) crashed: AtomicU64,
    pub(crate) resized: AtomicU64,
}

pub(crate) static DONE: Done = Done {
    lent: AtomicU64::new(0),
    refused: AtomicU64::new(0),
    cancelled: AtomicU64::new(0),
    created: AtomicU64::new(0),
    crashed: AtomicU64::new(0),
    resized: AtomicU64::new(0),
};

pub(crate) fn count(of: &AtomicU64) {
    of.fetch_add(1, Ordering::Relaxed);
}

/// Waits until the condition holds. `meanwhile` may move a clock.
#[track_caller]
pub(crate) fn before_long(
    what: &str,
    mut meanwhile: impl FnMut(),
    mut holds: impl FnMut() -> bool,
) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(30), "it does not come to hold: {what}");
        meanwhile();
        std::thread::sleep(Duration::from_micros(200));
    }
}
