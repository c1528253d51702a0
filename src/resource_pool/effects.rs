//! The effects of a critical section, which run without the lock (`run_effects.rs`).

use super::event::Event;
use super::factory::Form;
use super::maintenance_task::MaintenanceTask;
use super::slot::{Content, Meta, SlotKey};
use crate::collections::wait_queue::Wake;
use std::task::Waker;

/// A resource that has left the pool.
pub(crate) struct Dead<F: Form> {
    /// Its slot, which is released after the destruction, unless another resource has its place.
    pub(super) slot: Option<SlotKey>,
    pub(super) content: Content<F>,
    pub(super) meta: Meta<F>,
}

pub(crate) enum Effect<F: Form> {
    /// A waiter has its outcome.
    Wake(Wake),
    /// Maintenance of this key is due.
    WakeMaintenance(MaintenanceTask, Meta<F>),
    /// The last maintenance may be finished: ends its executor.
    StopMaintenance,
    Destroy(Dead<F>),
    /// Drops the pool's own reference to a key.
    Forget(Meta<F>),
    DropWaker(Waker),
    Report(Meta<F>, Event<F::Error>),
}

/// The effects of one section. The first wake-up needs no allocation.
pub(crate) struct Effects<F: Form> {
    pub(super) wake: Option<Wake>,
    pub(super) rest: Vec<Effect<F>>,
}

impl<F: Form> Effects<F> {
    #[inline]
    pub(super) fn new() -> Self {
        Effects { wake: None, rest: Vec::new() }
    }
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.wake.is_none() && self.rest.capacity() == 0
    }
    pub(super) fn push(&mut self, effect: Effect<F>) {
        match effect {
            Effect::Wake(wake) if self.wake.is_none() => self.wake = Some(wake),
            effect => self.rest.push(effect),
        }
    }
    pub(super) fn drop_waker(&mut self, waker: Option<Waker>) {
        self.rest.extend(waker.map(Effect::DropWaker));
    }
}
