//! Runs the creations that the pool orders (`orders.rs`), each in a task of the runtime that the pool was built with.

use super::creation::InCreation;
use super::inner::Inner;
use super::refilling::{Reason, Refilling};
use super::time_limits::Limit;
use crate::kernel::any_runtime::TimerEnd;
use crate::kernel::section::{Guarded, Patience};
use crate::kernel::sync::has_failed;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::state::effects::Ordered;
use crate::resource_pool::state::waiting::WaitForDrop;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

/// An order, until its task begins. The runtime may drop the task before that.
struct Order<F: Form> {
    pool: Arc<Inner<F>>,
    ordered: Option<Ordered<F>>,
}

impl<F: Form> Order<F> {
    async fn run(mut self) {
        let Ordered { slot, meta, victim } = self.ordered.take().expect("taken here only");
        let pool = &*self.pool;
        // From here on, its drop ends the order.
        let filling = Refilling::new(pool, slot, meta, Reason::Order);
        if let Some(victim) = victim {
            pool.destroy_in_time(victim).await;
        }
        pool.begin_creation_time(slot);
        let creation = InCreation::new(pool.creation(filling.meta()), filling);
        pool.complete(creation, WaitForDrop::new(slot), pool.overdue_limit()).await;
    }
}

impl<F: Form> Drop for Order<F> {
    fn drop(&mut self) {
        let Some(Ordered { slot, meta, victim }) = self.ordered.take().filter(|_| !has_failed())
        else {
            return;
        };
        let _lost = Refilling::new(&self.pool, slot, meta, Reason::Order);
        if let Some(victim) = victim {
            self.pool.destroy(victim);
        }
    }
}

impl<F: Form> Inner<F> {
    /// Spawns the task of an order. If there can be none, the drop ends the order.
    pub(crate) fn begin_order(&self, ordered: Ordered<F>) {
        let (Some(runtime), Some(pool)) = (self.runtime.get(), self.me.upgrade()) else {
            unreachable!("a pool that creates has a runtime, and its caller has the pool")
        };
        let order = Order { pool, ordered: Some(ordered) };
        runtime.spawn(Box::pin(order.run()));
    }

    /// Completes a creation of the pool's, in a task or by the maintenance, unless it is dropped.
    ///
    /// The wait begins when the creation first pends, so a creation that is ready at once costs no section.
    pub(crate) async fn complete(
        &self,
        creation: InCreation<F, Refilling<'_, F>>,
        wait: WaitForDrop,
        mut overdue: Option<Limit>,
    ) {
        let slot = wait.slot();
        let (mut wait, mut turn) = (Some(wait), None);
        let mut fill = pin!(self.finish(creation));
        let filled = poll_fn(|cx| {
            if let Poll::Ready(filled) = fill.as_mut().poll(cx) {
                return Poll::Ready(Some(filled));
            }
            let end = overdue.as_mut().map_or(Poll::Pending, |limit| limit.poll_end(self, cx));
            if let Poll::Ready(end) = end {
                overdue = None;
                // Where the runtime dropped its timer, it may be overdue as well.
                if end != TimerEnd::Panicked {
                    self.critical(|state, fx| state.note_overdue(slot, fx));
                }
            }
            if let Some(wait) = wait.take() {
                turn = Some(self.turn(wait, Patience::Task));
            }
            Pin::new(turn.as_mut().expect("begun above")).poll(cx).map(|_| None)
        });
        if let Some(Err(failed)) = filled.await {
            failed.filling.fail(failed.error).await;
        }
    }

    /// A task of an order, or of a timer, was dropped by the runtime, which has ended.
    pub(crate) fn note_runtime_end(&self) {
        if let Some(runtime) = self.runtime.get() {
            runtime.end();
            self.critical(|state, _| state.runtime_has_ended());
            self.report_runtime_end();
        }
    }

    /// Asks a runtime that has ended whether it takes tasks again, for a borrower that creates for itself or waits.
    pub(crate) fn ask_runtime(&self) {
        let Some(runtime) = self.runtime.get().filter(|runtime| runtime.begins_question()) else {
            return;
        };
        let question = Question(self.me.clone());
        runtime.spawn(Box::pin(async move {
            let pool = question.0.upgrade();
            if let Some(runtime) = pool.as_ref().and_then(|pool| pool.runtime.get()) {
                runtime.is_back();
            }
            if let Some(pool) = pool {
                pool.critical(|state, _| state.runtime_is_back());
            }
        }));
    }
}

/// A task that the runtime runs only if it takes tasks.
struct Question<F: Form>(std::sync::Weak<Inner<F>>);

impl<F: Form> Drop for Question<F> {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade().filter(|_| !has_failed()) {
            if let Some(runtime) = pool.runtime.get() {
                runtime.end_question();
            }
        }
    }
}
