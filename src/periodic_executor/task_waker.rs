//! A runtime's waker, wrapped so that its panics stay contained.
//!
//! A runtime's waker is user code: its clone, its drop and its wake may panic, or call the executor. The slot in which
//! a sleeping run shows its waker must not meet with that. The slot clones the new waker and drops the former one in
//! the middle of its own exchange. A panic there would leave the slot occupied for ever, and no signal would wake the
//! run again. Therefore the run shows a waker of the library's own, which holds the runtime's waker and contains the
//! panics of its wake and its drop.
//!
//! A task refers weakly to the last waker that it has shown, and shows that one again. So a task that is
//! polled in its pause by the same waker allocates nothing. The reference is weak because the runtime's waker
//! may be all that keeps the task alive. The thread that takes the waker out of the slot must own the last of it.

use crate::kernel::user_code::{UserValue, contain};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

struct TaskWaker(UserValue<Waker>);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        let _ = contain(|| self.0.wake_by_ref());
    }
}

/// The waker that a task has shown last.
#[derive(Default)]
pub(super) struct ShownWaker(Weak<TaskWaker>);

impl ShownWaker {
    /// Returns the library's waker for the runtime's, the last one again if it is for the same task.
    ///
    /// # Errors
    /// The message of a panic of the runtime's clone. The waker shown last stays as it is.
    pub(super) fn wrap(&mut self, waker: &Waker) -> Result<Waker, String> {
        // `will_wake` compares two pointers; it calls no user code.
        let same = self.0.upgrade().filter(|shown| shown.0.will_wake(waker));
        let shown = match same {
            Some(shown) => shown,
            None => Arc::new(TaskWaker(UserValue::new(contain(|| waker.clone())?))),
        };
        self.0 = Arc::downgrade(&shown);
        Ok(Waker::from(shown))
    }
}
