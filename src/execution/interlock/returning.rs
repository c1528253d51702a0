//! A share that is to come back to an execution that is at its end.
//!
//! Whoever was dropped while it waited to hold, or permitted, has given its share up; while somebody holds,
//! it is not back. What ends an execution runs under its share (S8), so it has to wait for it. A drop must
//! not wait: on a runtime with one thread, the holder may be a task that goes on only when the drop has
//! returned. So a drop leaves its end behind, as a waker: whoever lets the share in wakes it, after the lock,
//! and after everybody else.

#[cfg(debug_assertions)]
use super::Interlock;
use super::modes::{Asker, Step};
use super::owner::{Context, Record};
use super::running::Running;
use crate::foreign::release;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A share that is not there. It comes back, unless it is forfeited.
pub(crate) struct Returning {
    record: Arc<Record>,
    level: u32,
}

impl Running<'_> {
    /// None if it has its share, or never will again.
    pub(crate) fn returning(&self) -> Option<Returning> {
        let record = self.record();
        let gone = !self.has_share() && record.vitals().context() != Context::LOST;
        gone.then(|| Returning { record: record.clone(), level: self.level })
    }
    /// Waits until its share is there: as long as somebody holds.
    pub(crate) fn await_share(&self) {
        if let Some(returning) = self.returning() {
            let step = returning.take_back(Asker::Thread, None);
            returning.record.home.wait_for_share(returning.record.key(), step);
            returning.has_come();
        }
    }
    /// The same without blocking the thread.
    pub(crate) async fn await_share_async(&self) {
        poll_fn(|cx| match self.returning() {
            Some(returning) if !returning.wakes(cx.waker().clone()) => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
    }
}

#[cfg(debug_assertions)]
impl Running<'_> {
    /// Whether what is called now may count on it: it has its share, or nothing is promised to it.
    pub(crate) fn may_be_used(&self, interlock: &Interlock) -> bool {
        let is_lost = self.record().vitals().context() == Context::LOST;
        self.has_share() || is_lost || !self.is_of(interlock)
    }
}

impl Returning {
    /// Whether the share is back. If not, the waker is woken when it is, or when it is forfeited.
    pub(crate) fn wakes(&self, waker: Waker) -> bool {
        let is_back = self.take_back(Asker::Task, Some(waker)) == Step::Done;
        if is_back {
            self.has_come();
        }
        is_back
    }
    fn take_back(&self, asker: Asker, mut waker: Option<Waker>) -> Step {
        let key = self.record.key();
        let (step, former) = self.record.home.slowly(|state| {
            state.adopt(key);
            let step = state.take_back(key, asker);
            let late = &mut state.owners[key.index()].late;
            (step, std::mem::replace(late, waker.take_if(|_| step == Step::Wait)))
        });
        release((waker, former));
        step
    }
    fn has_come(&self) {
        let vitals = self.record.vitals();
        let now = vitals.context();
        if now != Context::LOST {
            vitals.exchange(now, Context::alone(self.level));
        }
    }
}
