//! The effects of a critical section, which run without the lock (`run_effects.rs`).

use super::maintenance_task::MaintenanceTask;
use super::names::{Meta, SlotKey};
use super::slot::Content;
use crate::kernel::collections::wait_queue::Wake;
use crate::kernel::effects::{self, Round};
use crate::resource_pool::api::factory::Form;
use std::panic::Location;
use std::task::Waker;
use std::time::Duration;

/// A resource that has left the pool.
pub(crate) struct Dead<F: Form> {
    /// Its slot, which is released after the destruction, unless another resource has its place.
    pub(crate) slot: Option<SlotKey>,
    pub(crate) content: Content<F>,
    pub(crate) meta: Meta<F>,
}

/// A creation that the pool ordered.
pub(crate) struct Ordered<F: Form> {
    pub(crate) slot: SlotKey,
    pub(crate) meta: Meta<F>,
    /// Destroyed before the creation begins.
    pub(crate) victim: Option<Dead<F>>,
}

/// The error of a creation that the pool ordered, and its key.
pub(crate) struct FailedOrder<F: Form> {
    pub(crate) meta: Meta<F>,
    pub(crate) error: F::Failed,
}

/// A loan that looks abandoned: what [`Event::Abandoned`](crate::resource_pool::Event::Abandoned) says of it.
pub(crate) struct Abandoned {
    pub(crate) id: u64,
    pub(crate) lent_for: Duration,
    pub(crate) removed: bool,
    pub(crate) label: Option<Box<str>>,
    pub(crate) borrowed_at: &'static Location<'static>,
}

pub(crate) enum Effect<F: Form> {
    /// A waiter has its outcome.
    Wake(Wake),
    /// Maintenance of this key is due.
    WakeMaintenance(MaintenanceTask, Meta<F>),
    /// The last maintenance may be finished: ends its executor.
    StopMaintenance,
    /// A creation was ordered: begins its task.
    Order(Ordered<F>),
    Destroy(Dead<F>),
    /// Drops the pool's own reference to a key.
    Forget(Meta<F>),
    DropWaker(Waker),
    /// Frees large tables.
    DropTables(Box<dyn Send>),
    /// Reports a loan that looks abandoned.
    Report(Meta<F>, Abandoned),
    /// Reports the failure of a creation whose borrower gave up before it got the error.
    ReportFailed(Box<FailedOrder<F>>),
}

impl<F: Form> effects::Effect for Effect<F> {
    fn round(&self) -> Round {
        match self {
            Effect::Wake(_) => Round::WakeUp,
            Effect::WakeMaintenance(..) | Effect::StopMaintenance | Effect::Order(_) => {
                Round::Upkeep
            }
            _ => Round::UserCode,
        }
    }
}

pub(crate) type Effects<F> = effects::Effects<Effect<F>>;

impl<F: Form> Effects<F> {
    pub(crate) fn drop_waker(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.push(Effect::DropWaker(waker));
        }
    }
}
