//! Drives a creation on, on the runtime that the pool was built with, after its borrower has left (`orphans.rs`).

use super::creation::InCreation;
use super::error::Failure;
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
use std::time::Duration;

/// The time that a creation has, in a pool with a runtime and without a `create_timeout`.
const CREATE_TIMEOUT: Duration = Duration::from_secs(30);

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

    /// Begins a creation. With a runtime, its time is limited.
    pub(super) fn creation(&self, meta: &Meta<F>) -> Creation<F> {
        let mut creation = F::create(self.factory.clone(), meta.clone());
        if !self.drives() {
            return creation;
        }
        let limit = self.options.create_timeout.unwrap_or(CREATE_TIMEOUT);
        let Some(at) = self.clock().deadline(limit).instant() else { return creation };
        let Some(pool) = self.me.upgrade() else { return creation };
        // Begun by the first poll: a timer may need the runtime that polls it.
        let mut timer = None;
        Box::pin(poll_fn(move |cx| {
            if let Poll::Ready(made) = creation.as_mut().poll(cx) {
                return Poll::Ready(made);
            }
            // A timer that panics, such as outside its runtime, limits nothing.
            let timer = timer.get_or_insert_with(|| {
                let runtime = pool.runtime.get()?;
                contain(|| (runtime.sleep)(at)).ok()
            });
            let Some(sleep) = timer else { return Poll::Pending };
            match contain(|| sleep.as_mut().poll(cx)) {
                Ok(Poll::Ready(())) => Poll::Ready(Err(Failure::TimedOut)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(_) => {
                    drop_contained(timer.take());
                    Poll::Pending
                }
            }
        }))
    }
}
