//! Waits that only a failing test sits out.

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
