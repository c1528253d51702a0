//! The end of an execution that is dropped while it has no share.
//!
//! A future that is dropped while it waits to reload, or to load, has given its share up; and if somebody
//! holds just then, it does not have it back. What completes it must not run beside the holder, and the
//! drop must not wait for the holder's end: see [`Returning`]. So the rest of the
//! execution is left to whoever lets its share in: the end of the holder's section.
//!
//! That one's thread calls the hooks then, outside of all executions that it is in. What it has locked stays
//! locked: but a lock that a hook takes is none to be kept while one loads, since the load waits for
//! executions whose hooks take it, too.

use super::Execution;
use super::interlock::Returning;
use crate::execution::ambient::Outside;
use crate::user_code::drop_contained;
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
        // Whoever has let it in may be in executions of its own, which this one is not a part of.
        let _outside = Outside::step();
        // If its share is not back, it is left again.
        drop_contained(execution);
    }
}
