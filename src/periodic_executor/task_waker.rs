//! A runtime's waker, as it is shown to those who wake a task.
//!
//! It is foreign: its clone, its drop and its wake may panic, or call the executor. The slot in which a sleeper
//! shows its waker must not meet with that. It clones the waker that it is given and drops the one
//! that it had in the middle of its own exchange; a panic there leaves it occupied for good, and no
//! close, wake or open wakes anybody any more. So what is shown is a waker of our own, which has the runtime's and
//! wakes and drops it contained.
//!
//! The task refers weakly to the one that it has shown last, and shows that again: a task that is polled in
//! its pause, and always by the same waker, allocates nothing. Weakly, because the runtime's waker may be
//! all that keeps the task: who takes the waker out of the slot has the last of it, as if it were shown itself.

use crate::user_code::{UserValue, contain};
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

/// What a task has shown last.
#[derive(Default)]
pub(super) struct Shown(Weak<TaskWaker>);

impl Shown {
    /// A waker of our own for the runtime's. If that panics when it is cloned, nothing has changed, and this is
    /// what it said.
    pub(super) fn by(&mut self, waker: &Waker) -> Result<Waker, String> {
        // To compare two wakers calls nothing of theirs.
        let again = self.0.upgrade().filter(|task_waker| task_waker.0.will_wake(waker));
        let task_waker = match again {
            Some(task_waker) => task_waker,
            None => Arc::new(TaskWaker(UserValue::new(contain(|| waker.clone())?))),
        };
        self.0 = Arc::downgrade(&task_waker);
        Ok(Waker::from(task_waker))
    }
}
