//! Destructions. In a pool with a runtime they run in its tasks; else the caller whose section let the resource leave destroys
//! it.
//!
//! One task, the *destroyer*, begins one destruction after the other. It yields to the runtime's other tasks where they take
//! their time. A destruction that awaits something goes on in a task of its own, so it delays no other. If the runtime drops the
//! destroyer, the resources that it still had are destroyed at once.

use super::inner::Inner;
use super::time_limits::limited;
use crate::kernel::any_runtime::AnyRuntime;
use crate::kernel::section::Guarded;
use crate::kernel::sync::has_failed;
use crate::kernel::user_code::contain;
use crate::resource_pool::api::error::Failure;
use crate::resource_pool::api::event::Event;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::state::effects::Dead;
use crate::resource_pool::state::names::{Meta, SlotKey};
use crate::resource_pool::state::slot::Content;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How long the destroyer goes on before it yields, and for how long it yields.
///
/// A timer, and not a wake-up of itself: a runtime may look at its other timers and sockets only when no task is ready.
const TURN: Duration = Duration::from_millis(1);

/// The task that begins the destructions.
struct Destroyer<F: Form> {
    pool: Arc<Inner<F>>,
    has_ended: bool,
}

impl<F: Form> Destroyer<F> {
    async fn run(mut self) {
        let mut turn = self.pool.clock().deadline(TURN);
        while let Some(dead) = self.pool.dying.next() {
            let pool = self.pool.clone();
            let mut destruction = Box::pin(async move { pool.destroy_in_time(dead).await });
            let pends = poll_fn(|cx| Poll::Ready(destruction.as_mut().poll(cx).is_pending())).await;
            if let Some(runtime) = self.pool.runtime.get().filter(|_| pends) {
                runtime.spawn(destruction);
            }
            if self.pool.clock().has_passed(turn) && self.pool.dying.has_more() {
                self.pool.pause(TURN).await;
                turn = self.pool.clock().deadline(TURN);
            }
        }
        self.has_ended = true;
    }
}

impl<F: Form> Drop for Destroyer<F> {
    fn drop(&mut self) {
        if !self.has_ended && !has_failed() {
            while let Some(dead) = self.pool.dying.next() {
                self.pool.destroy(dead);
            }
        }
    }
}

/// The place of a resource that is being destroyed. Its drop frees it.
struct Place<'p, F: Form> {
    pool: &'p Inner<F>,
    /// Absent if another resource has the place.
    slot: Option<SlotKey>,
}

impl<F: Form> Drop for Place<'_, F> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.filter(|_| !has_failed()) {
            self.pool.critical(|state, _| state.destroyed(slot));
        }
    }
}

impl<F: Form> Inner<F> {
    /// Returns the runtime, if its tasks can destroy. After its end no limit would end an asynchronous call.
    fn runtime_to_destroy(&self) -> Option<&AnyRuntime> {
        let runtime = self.runtime.get().filter(|runtime| !runtime.has_ended());
        runtime.filter(|_| !self.origin.is_forked())
    }

    /// Destroys the resource in a task, or here if there can be none.
    pub(crate) fn destroy_apart(&self, dead: Dead<F>) {
        let Some(runtime) = self.runtime_to_destroy() else { return self.destroy(dead) };
        if self.dying.add(dead) {
            let pool = self.me.upgrade().expect("its caller has the pool");
            runtime.spawn(Box::pin(Destroyer { pool, has_ended: false }.run()));
        }
    }

    /// Destroys the resource here.
    pub(crate) fn destroy(&self, dead: Dead<F>) {
        let _place = Place { pool: self, slot: dead.slot };
        if let Content::Ready(loan) = dead.content {
            self.dispose(&dead.meta, loan.resource);
        }
    }
    pub(crate) fn dispose(&self, meta: &Meta<F>, resource: F::Resource) {
        if self.origin.is_forked() {
            return std::mem::forget(resource);
        }
        if let Err(message) = contain(|| self.factory.destroy(meta, resource)) {
            self.report(meta, Event::DestroyPanicked(message));
        }
        self.observed.destroyed();
    }

    /// Destroys the resource by the asynchronous call, within its time limit.
    pub(crate) async fn destroy_in_time(&self, dead: Dead<F>) {
        let _place = Place { pool: self, slot: dead.slot };
        if let Content::Ready(loan) = dead.content {
            self.dispose_in_time(&dead.meta, loan.resource).await;
        }
    }
    pub(crate) async fn dispose_in_time(&self, meta: &Meta<F>, resource: F::Resource) {
        if self.runtime_to_destroy().is_none() {
            return self.dispose(meta, resource);
        }
        let call = self.factory.destroy_async(meta, resource);
        match limited!(self, destroy_timeout, call).map_err(|why| *why) {
            Ok(()) => {}
            Err(Failure::Panicked(message)) => self.report(meta, Event::DestroyPanicked(message)),
            Err(Failure::TimedOut) => self.report(meta, Event::DestroyTimedOut),
            Err(Failure::Error(_)) => unreachable!("a destruction returns no error"),
        }
        self.observed.destroyed();
    }
}
