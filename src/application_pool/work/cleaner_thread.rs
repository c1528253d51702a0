//! The pseudocode's `thread cleaner`. It sleeps until the next item is due; without an item, until it is woken (erratum E30).

use super::inner::Inner;
use crate::application_pool::api::spawner::Spawner;
use crate::application_pool::state::state::End;
use crate::kernel::alarm::Alarm;
use crate::kernel::section::Guarded;
use crate::periodic_executor::{Flow, OpenError, PeriodicExecutor, Verdict};
use std::sync::Arc;

impl<S: Spawner> Inner<S> {
    /// Starts the pseudocode's `thread cleaner`: a periodic executor that refers to the pool weakly and chooses each of
    /// its pauses. It ends when the pool is dropped, or when a closed pool is empty.
    pub(crate) fn start_cleaner(self: &Arc<Self>) -> Result<(), OpenError> {
        self.critical(|state, _| {
            state.cleaner_runs = true;
            state.cleaner = Alarm::at_once();
        });
        let cleaner = self.cleaner.get_or_init(|| {
            PeriodicExecutor::builder(None)
                .name("cabrank cleaner")
                .clock(self.clock().clone())
                // Not registered: the pool alone ends it.
                .unregistered()
                .build_weak_ref(Arc::downgrade(self), Inner::cleaner)
        });
        cleaner.open()
    }

    pub(crate) fn wake_cleaner(&self) {
        if let Some(cleaner) = self.cleaner.get() {
            cleaner.wake();
        }
    }

    /// Runs one pass, and returns how long the cleaner sleeps after it. A section that makes an item due earlier
    /// wakes it, even if it does not sleep yet.
    pub(crate) fn cleaner(self: &Arc<Self>) -> Verdict {
        let mut verdict = Verdict::from(Flow::Stop);
        self.critical(|state, fx| {
            state.clean(fx);
            if !state.has_come(End::OfEverything) {
                let due = state.next_due();
                state.cleaner.set(due);
                verdict = Verdict::when_due(due, self.clock());
            }
        });
        verdict
    }
}
