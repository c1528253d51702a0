//! Counts the steps from one element of a list or a heap to another, for tests of a section's cost.
//!
//! Such a test shows that the number of steps does not grow with the number of elements.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Counts one step of this thread.
pub(crate) fn step() {
    STEPS.set(STEPS.get() + 1);
}

/// Runs `work` and returns its result and the number of its steps.
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = STEPS.get();
    let result = work();
    (result, STEPS.get() - before)
}
