//! Which pools the current thread works for.
//!
//! A thread works for a pool while it spawns for it, runs its effects or reports a wait to its
//! observer. Closing the pool from within such work must not wait for that work to end.

use std::cell::RefCell;
use std::sync::Arc;

crate::sync::thread::thread_local! {
    /// The addresses of the pools, innermost last.
    // loom's macro takes no `const` block.
    #[allow(clippy::missing_const_for_thread_local)]
    static WORKS_FOR: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

/// The thread works for a pool until this is dropped.
pub(crate) struct WorksFor {
    entered: bool,
}

impl WorksFor {
    pub(crate) fn pool<P>(pool: &Arc<P>) -> Self {
        // A thread that ends has lost its locals, and still closes the sessions that it kept.
        let pool = Arc::as_ptr(pool) as usize;
        WorksFor { entered: WORKS_FOR.try_with(|pools| pools.borrow_mut().push(pool)).is_ok() }
    }
    /// Returns whether this thread works for the pool. Returns true also while the thread's locals are being destroyed:
    /// it may work for the pool then, and must not wait for itself.
    pub(crate) fn is_for<P>(pool: &Arc<P>) -> bool {
        let pool = Arc::as_ptr(pool) as usize;
        WORKS_FOR.try_with(|pools| pools.borrow().contains(&pool)).unwrap_or(true)
    }
}

impl Drop for WorksFor {
    fn drop(&mut self) {
        if self.entered {
            let _ = WORKS_FOR.try_with(|pools| pools.borrow_mut().pop());
        }
    }
}
