//! The end of an execution that is dropped while it has no share.
//!
//! A future that waits to load or reload has given its share up. If it is dropped while another owner holds, the
//! share is not back yet (see [`Returning`]). The hooks must not be completed beside the holder, and the drop must
//! not wait for it. So the end of the holder's section lets the share in and ends the execution.
//!
//! The holder's thread then calls the hooks, outside of all its own executions. Locks that it has taken stay locked.
//! A thread must therefore not load while it keeps a lock that a hook takes. The load also waits for executions whose
//! hooks take that lock.

use super::Execution;
use super::interlock::Returning;
use crate::execution::ambient::Outside;
use crate::user_code::drop_contained;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Locked only while the execution is taken out.
struct Late(Mutex<Option<Execution<'static>>>);

/// Drops the execution once its share is back.
pub(super) fn end(execution: Execution<'static>, returning: &Returning) {
    let late = Arc::new(Late(Mutex::new(Some(execution))));
    if returning.wakes(Waker::from(late.clone())) {
        late.wake();
    }
}

impl Wake for Late {
    fn wake(self: Arc<Self>) {
        let execution = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The thread that let the share in may be in executions of its own, to which this one does not belong.
        let _outside = Outside::step();
        // If its share has been given up again, its drop is deferred again.
        drop_contained(execution);
    }
}
