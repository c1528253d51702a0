//! The tools of the periodic executor's models.
//!
//! A [`Count`] changes without a step. No other thread runs between two steps, so a change that follows a
//! step belongs to that step. loom sees only the steps, and reorders those that do not depend on each other. Where the
//! order of a change and a call matters, the change follows a step on the executor's word (`is_open`).

pub(in crate::models) use crate::kernel::sync::lock_free;
pub(in crate::models) use crate::models::rig::{Model, block_on, explore, poll_once, spawn};
pub(in crate::models) use crate::periodic_executor::{Flow, JoinError, Joined, Phase, Registry};
pub(in crate::models) use crate::{ManualClock, PeriodicExecutor};

use crate::periodic_executor::{Builder, OnThread};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A number that grows, and that no scheduler sees.
#[derive(Clone, Default)]
pub(in crate::models) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(in crate::models) fn up(&self) -> usize {
        self.0.fetch_add(1, SeqCst) + 1
    }
    pub(in crate::models) fn get(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Returns a builder of an executor that sleeps until it is woken, on a manual clock that stands still.
pub(in crate::models) fn builder() -> Builder<OnThread> {
    let clock = ManualClock::new().clock();
    PeriodicExecutor::builder(None).clock(clock).unregistered()
}

/// Returns a target that counts its calls, and stops at the first call after `work` has grown.
pub(in crate::models) fn until_work(
    calls: &Count,
    work: &Count,
) -> impl FnMut() -> Flow + Send + 'static {
    let (calls, work) = (calls.clone(), work.clone());
    move || {
        calls.up();
        if work.get() > 0 { Flow::Stop } else { Flow::Continue }
    }
}

/// Panics as user code may. Contained by `user_code`, unlike the panic of a failed assertion; prints no report.
pub(in crate::models) fn scripted_panic() -> ! {
    std::panic::resume_unwind(Box::new(crate::kernel::user_code::SCRIPTED))
}
