//! A count of those that do something now.

use std::sync::atomic::{AtomicUsize, Ordering};

/// One of a number of things. Dropping it ends the count.
///
/// # Synchronization
/// Sequentially consistent: one who counts itself and then looks at a state is seen by one who changes that state and then looks at
/// the count.
pub(super) struct Counted<'a> {
    number: &'a AtomicUsize,
    /// The number before this one.
    pub(super) before: usize,
}

impl<'a> Counted<'a> {
    pub(super) fn one_more(number: &'a AtomicUsize) -> Self {
        Counted { number, before: number.fetch_add(1, Ordering::SeqCst) }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.number.fetch_sub(1, Ordering::SeqCst);
    }
}
