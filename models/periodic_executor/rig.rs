//! What the models of the periodic executor share.
//!
//! What is noted here is noted without a step: between two steps no other thread runs, so a note that
//! follows a step belongs to it. loom sees only the step, and reorders what does not depend on it: where
//! a note has to meet the executor's, it follows a step on the executor's word (`is_open`).

pub(in crate::models) use crate::models::rig::{block_on, explore, poll_once, spawn};
pub(in crate::models) use crate::periodic_executor::{Flow, JoinError, Joined, Phase, Registry};
pub(in crate::models) use crate::sync::lock_free;
pub(in crate::models) use crate::{ManualClock, PeriodicExecutor};

use crate::periodic_executor::{ExecutorBuilder, OnThread};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// A number that grows.
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

/// An executor that sleeps until it is woken, on a clock that stands.
pub(in crate::models) fn builder() -> ExecutorBuilder<OnThread> {
    let clock = ManualClock::new().clock();
    PeriodicExecutor::builder(Duration::MAX).clock(clock).unregistered()
}

/// A target that counts its calls, and stops at the one that finds news.
pub(in crate::models) fn until_news(
    calls: &Count,
    news: &Count,
) -> impl FnMut() -> Flow + Send + 'static {
    let (calls, news) = (calls.clone(), news.clone());
    move || {
        calls.up();
        if news.get() > 0 { Flow::Stop } else { Flow::Continue }
    }
}

/// Panics as a target may, and not as a model that fails: no report is made of it.
pub(in crate::models) fn scripted_panic() -> ! {
    std::panic::resume_unwind(Box::new(crate::user_code::SCRIPTED))
}
