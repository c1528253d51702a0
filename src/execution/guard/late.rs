//! The end of an execution that is dropped while it has no share.
//!
//! A future that is dropped while it waits to reload, or to load, has given its share up; and if somebody
//! holds just then, it does not have it back. What completes it must not run beside the holder, and the
//! drop must not wait for the holder's end: see [`Returning`]. So the rest of the
//! execution is left to whoever lets its share in: the end of the holder's section.

use super::Execution;
use super::interlock::Returning;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Locked for as long as it takes to take it.
struct Late(Mutex<Option<Execution<'static>>>);

/// Drops it when its share is back.
pub(super) fn end(execution: Execution<'static>, returning: &Returning) {
    let late = Arc::new(Late(Mutex::new(Some(execution))));
    if returning.wakes(Waker::from(late.clone())) {
        late.wake();
    }
}

impl Wake for Late {
    fn wake(self: Arc<Self>) {
        let execution = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // If its share is not back, it is left again.
        drop(execution);
    }
}
