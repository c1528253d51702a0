//! How many steps a section makes from one element of a list or a heap to another: for tests that show that
//! this does not grow with the number of elements.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

pub(crate) fn step() {
    STEPS.set(STEPS.get() + 1);
}

/// What comes of it, and how many steps it made.
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = STEPS.get();
    let result = work();
    (result, STEPS.get() - before)
}
