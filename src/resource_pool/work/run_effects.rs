//! Runs the effects of a critical section: wake-ups, then the maintenance, then user code ([`Effects::run`]). So a hanging
//! destruction delays no waiter and no refill.

use super::inner::Inner;
use crate::kernel::user_code::drop_contained;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::state::effects::{Effect, Effects};

impl<F: Form> Inner<F> {
    /// Runs all effects, and leaves the list without heap memory.
    #[cold]
    pub(crate) fn run_effects(&self, fx: &mut Effects<F>) {
        // Their drop may run user code that hangs, so they are dropped last.
        let mut metas = Vec::new();
        fx.run(|effect| match effect {
            Effect::Wake(wake) => wake.wake(),
            Effect::WakeMaintenance(task, meta) => {
                self.wake_maintenance(task, &meta);
                metas.push(meta);
            }
            Effect::StopMaintenance => self.stop_maintenance(),
            Effect::Order(ordered) => self.begin_order(ordered),
            Effect::Destroy(dead) => self.destroy_apart(dead),
            Effect::Forget(meta) => drop(meta),
            Effect::DropWaker(waker) => drop_contained(waker),
            Effect::DropTables(tables) => drop(tables),
            Effect::Report(meta, loan) => self.report(&meta, loan.into()),
            Effect::ReportFailed(failed) => self.report_failed(&failed.meta, failed.error.into()),
        });
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::kernel::user_code::UserValue;
    use crate::resource_pool::state::effects::Abandoned;
    use crate::resource_pool::state::maintenance_task::MaintenanceTask;
    use crate::resource_pool::state::names::Shared;
    use crate::resource_pool::{ResourceFactory, ResourcePool};
    use std::panic::Location;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    type Log = Arc<Mutex<Vec<&'static str>>>;

    fn note(log: &Log, what: &'static str) {
        log.lock().expect("no panic").push(what);
    }

    struct Metadata(Log, &'static str);
    impl Drop for Metadata {
        fn drop(&mut self) {
            note(&self.0, self.1);
        }
    }

    struct Made;
    impl ResourceFactory for Made {
        type Resource = ();
        type Metadata = Metadata;
        type Error = std::convert::Infallible;
        fn create(&self, _: &Metadata) -> Result<(), std::convert::Infallible> {
            Ok(())
        }
    }

    /// The drop of a key is user code, which may hang.
    #[test]
    fn the_maintenance_values_are_dropped_last() {
        let all = Log::default();
        let pool = ResourcePool::builder(Made, Metadata(all.clone(), "the pool's"));
        let theirs = all.clone();
        let pool = pool.listener(move |_, _| note(&theirs, "reported"));
        let pool = pool.maintenance(false).build().expect("valid");
        let meta = |name| Shared::new(UserValue::new(Metadata(all.clone(), name)));
        let mut fx = Effects::new();
        let loan = Abandoned {
            id: 1,
            lent_for: Duration::ZERO,
            removed: false,
            label: None,
            borrowed_at: Location::caller(),
        };
        fx.push(Effect::Report(meta("an event's"), loan));
        fx.push(Effect::WakeMaintenance(MaintenanceTask::Evict, meta("what is due")));
        fx.push(Effect::StopMaintenance);
        pool.inner().run_effects(&mut fx);
        let order = std::mem::take(&mut *all.lock().expect("no panic"));
        assert_eq!(order, ["reported", "an event's", "what is due"]);
    }
}
