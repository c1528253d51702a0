//! Drives a creation on, on the runtime that the pool was built with, after its borrower has left (`orphans.rs`).

use super::creation::InCreation;
use super::factory::{Creation, Form};
use super::inner::Inner;
use super::refilling::Refilling;
use super::slot::Meta;
use super::waiting::WaitToGiveWay;
use crate::collections::slab_list::Key;
use crate::section::{Guarded, Patience};
use crate::sync::has_failed;
use crate::user_code::{contain, drop_contained};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

/// An orphaned creation, until its task begins. The runtime may drop the task before that.
struct Orphan<F: Form> {
    pool: Arc<Inner<F>>,
    slot: Option<Key>,
    meta: Meta<F>,
    creation: Option<Creation<F>>,
}

impl<F: Form> Orphan<F> {
    async fn run(mut self) {
        let slot = self.slot.take().expect("taken here only");
        let creation = self.creation.take().expect("taken here only");
        let refilling = Refilling::new(&self.pool, slot, self.meta.clone(), None);
        self.pool.complete(slot, &self.meta, InCreation::new(refilling, creation, true)).await;
    }
}

impl<F: Form> Drop for Orphan<F> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take().filter(|_| !has_failed()) else { return };
        // The creation goes before its place: until then it still occupies it.
        drop_contained(self.creation.take());
        self.pool.end_creation(slot);
    }
}

impl<F: Form> Inner<F> {
    /// Returns whether the pool drives orphaned creations on.
    pub(super) fn drives(&self) -> bool {
        self.runtime.get().is_some()
    }

    /// Spawns a task for an orphaned creation. If there can be none, the creation is dropped.
    pub(super) fn drive(&self, slot: Key, meta: Meta<F>, creation: Creation<F>) {
        let (Some(runtime), Some(pool)) = (self.runtime.get(), self.me.upgrade()) else {
            unreachable!("a borrower has the pool, and the state was asked whether it drives")
        };
        let orphan = Orphan { pool, slot: Some(slot), meta, creation: Some(creation) };
        let _ = contain(|| (runtime.spawn)(Box::pin(orphan.run())));
    }

    /// Completes an orphaned creation, unless it gives way.
    async fn complete(&self, slot: Key, meta: &Meta<F>, creation: InCreation<'_, F>) {
        let mut gives_way = self.turn(WaitToGiveWay::new(slot), Patience::Task);
        let mut fill = pin!(self.finish(creation));
        let filled = poll_fn(|cx| match Pin::new(&mut gives_way).poll(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => fill.as_mut().poll(cx).map(Some),
        });
        if let Some(Err(error)) = filled.await {
            self.report_add(meta, error);
        }
    }
}
