//! Drives a creation on, on the runtime that the pool was built with, after its borrower has left (`orphans.rs`).

use super::creation::InCreation;
use super::inner::Inner;
use super::refilling::Refilling;
use super::time_limits::Limit;
use crate::kernel::section::{Guarded, Patience};
use crate::kernel::sync::has_failed;
use crate::kernel::user_code::drop_contained;
use crate::resource_pool::api::factory::{Creation, Form};
use crate::resource_pool::state::names::{Meta, SlotKey};
use crate::resource_pool::state::waiting::WaitToGiveWay;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

/// An orphaned creation, until its task begins. The runtime may drop the task before that.
struct Orphan<F: Form> {
    pool: Arc<Inner<F>>,
    slot: Option<SlotKey>,
    meta: Meta<F>,
    creation: Option<Creation<F>>,
    overdue: Option<Limit>,
}

impl<F: Form> Orphan<F> {
    async fn run(mut self) {
        let slot = self.slot.take().expect("taken here only");
        let creation = self.creation.take().expect("taken here only");
        let refilling = Refilling::new(&self.pool, slot, self.meta.clone(), None);
        let creation = InCreation::new(refilling, creation, true);
        self.pool.complete(slot, &self.meta, creation, self.overdue.take()).await;
    }
}

impl<F: Form> Drop for Orphan<F> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take().filter(|_| !has_failed()) else { return };
        if let Some(runtime) = self.pool.runtime.get() {
            runtime.end();
        }
        // The creation goes before its place: until then it still occupies it.
        drop_contained(self.creation.take());
        self.pool.end_creation(slot);
    }
}

impl<F: Form> Inner<F> {
    /// Returns whether the pool drives orphaned creations on.
    pub(crate) fn drives(&self) -> bool {
        self.runtime.get().is_some_and(|runtime| !runtime.has_ended())
    }

    /// Spawns a task for an orphaned creation. If there can be none, the creation is dropped.
    pub(crate) fn drive(
        &self,
        slot: SlotKey,
        meta: Meta<F>,
        creation: Creation<F>,
        overdue: Option<Limit>,
    ) {
        let (Some(runtime), Some(pool)) = (self.runtime.get(), self.me.upgrade()) else {
            unreachable!("a borrower has the pool, and the state was asked whether it drives")
        };
        let orphan = Orphan { pool, slot: Some(slot), meta, creation: Some(creation), overdue };
        runtime.spawn(Box::pin(orphan.run()));
    }

    /// Completes an orphaned creation, unless it gives way.
    ///
    /// The wait begins when the creation first pends, so a creation that is ready at once costs no section.
    pub(crate) async fn complete(
        &self,
        slot: SlotKey,
        meta: &Meta<F>,
        creation: InCreation<'_, F>,
        mut overdue: Option<Limit>,
    ) {
        let (wait, mut turn) = (|| self.turn(WaitToGiveWay::new(slot), Patience::Task), None);
        let mut fill = pin!(self.finish(creation));
        let filled = poll_fn(|cx| {
            if let Poll::Ready(filled) = fill.as_mut().poll(cx) {
                return Poll::Ready(Some(filled));
            }
            if overdue.as_mut().is_some_and(|limit| limit.poll(self, cx).is_ready()) {
                overdue = None;
                self.critical(|state, fx| state.note_overdue(slot, fx));
            }
            Pin::new(turn.get_or_insert_with(wait)).poll(cx).map(|_| None)
        });
        if let Some(Err(error)) = filled.await {
            self.report_add(meta, error);
        }
    }
}
