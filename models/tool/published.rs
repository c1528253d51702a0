//! Memory cells that show loom what a change of a lock-free word publishes.
//!
//! Each change writes a cell of its own before the change, and reads the cell of the last change after it. loom
//! fails the execution where the write does not happen before the read. So a model fails when an ordering
//! (`orderings.rs`) is too weak for what the word promises, even if all the model's other data is behind locks.
//! The cells are no steps: they add no interleaving. shuttle knows no orderings, so the cells are empty there.

use std::sync::{Mutex, PoisonError};

/// The cell of the last change of one word.
#[derive(Debug, Default)]
pub(super) struct Published(Mutex<Option<Write>>);

/// A write that precedes a change.
#[derive(Debug)]
pub(super) struct Write {
    #[cfg(feature = "loom")]
    cell: loom::cell::UnsafeCell<()>,
}

impl Write {
    /// Writes a new cell. Call it before the change.
    pub(super) fn before_change() -> Write {
        #[cfg(feature = "loom")]
        {
            let cell = loom::cell::UnsafeCell::new(());
            // The write is an event of its own: what this thread published before does not cover it.
            cell.with_mut(|_| ());
            Write { cell }
        }
        #[cfg(not(feature = "loom"))]
        Write {}
    }
}

impl Published {
    /// Call it after a change, in the same step: asserts that the last change happens before this one.
    pub(super) fn changed(&self, write: Write) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        read(last.as_ref());
        *last = Some(write);
    }
    /// Asserts that the last change happens before a read. The caller calls it in the same step as the read.
    pub(super) fn seen(&self) {
        read(self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref());
    }
}

fn read(last: Option<&Write>) {
    #[cfg(feature = "loom")]
    if let Some(write) = last {
        write.cell.with(|_| ());
    }
    #[cfg(not(feature = "loom"))]
    let _ = last;
}
