//! Runs the effects of a section, without the lock.

use super::inner::Inner;
use crate::application_pool::api::spawner::{Process, ShutDown, Spawner};
use crate::application_pool::state::effects::{Effect, Effects};
use crate::kernel::at_work::AtWork;
use crate::kernel::section::Guarded;
use crate::kernel::user_code::{contain, drop_contained};
use std::mem::take;
use std::sync::Arc;

impl<S: Spawner> Effects<S> {
    /// Takes every effect out of the list and runs it.
    #[cold]
    pub(crate) fn run(&mut self, pool: &Arc<Inner<S>>) {
        let _at_work = AtWork::begin(&**pool);
        self.list.run(|effect| effect.run(pool));
        let (disposals, discards) = (take(&mut self.disposals), take(&mut self.discards));
        if disposals > 0 {
            pool.critical(|state, fx| {
                state.disposing -= disposals;
                state.discarding -= discards;
                state.notify_if_ended(fx);
            });
        }
    }
}

impl<S: Spawner> Effect<S> {
    fn run(self, pool: &Arc<Inner<S>>) {
        match self {
            Effect::Wake(wake) => wake.wake(),
            Effect::Dispose(entry, how) => {
                let _ = contain(|| entry.process.shut_down(how));
            }
            Effect::Unwanted(process) => {
                let _ = contain(|| process.shut_down(ShutDown::Drained));
            }
            Effect::DropError(error) => drop_contained(error),
            Effect::DropEntry(entry) => drop(entry),
            Effect::DropTables(tables) => drop(tables),
            Effect::DropWaker(waker) => drop_contained(waker),
            Effect::Cancel(token) => token.cancel(),
            Effect::Event(event) => {
                pool.notify_observer(&event);
                drop_contained(event);
            }
            Effect::Begins(begun, event) => {
                pool.notify_observer(&event);
                if let Some(end) = begun.has_begun() {
                    pool.notify_observer(&end);
                    drop_contained(end);
                }
                drop_contained(event);
            }
            Effect::Ends(begun, event) => {
                if let Some(event) = begun.ends(event) {
                    pool.notify_observer(&event);
                    drop_contained(event);
                }
            }
            Effect::Look(dir) => pool.start_looking(dir),
            Effect::Spawn(order) => pool.start_spawner_thread(order),
            Effect::WakeCleaner => pool.wake_cleaner(),
        }
    }
}
