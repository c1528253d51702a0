//! The effects of a critical section (`run_effects.rs`).

use super::begun::Begun;
use super::entry::Entry;
use super::spawn_order::SpawnOrder;
use super::table_keys::GroupKey;
use crate::application_pool::api::error::SpawnError;
use crate::application_pool::api::event::Event;
use crate::application_pool::api::spawner::{CancelToken, ShutDown, Spawner};
use crate::kernel::collections::wait_queue::Wake;
use crate::kernel::effects::{self, Round};
use crate::kernel::sync::Arc;
use crate::kernel::user_code::SlowDrop;
use std::path::Path;
use std::task::Waker;

pub(crate) enum Effect<S: Spawner> {
    /// A waiter has its outcome.
    Wake(Wake),
    /// A process has left the pool: shut it down, and drop it.
    Dispose(Arc<Entry<S>>, ShutDown),
    /// A spawn that was given up has made a process (erratum E12).
    Unwanted(SlowDrop<S::Process>),
    /// This may be the last reference to an error of the spawner.
    DropError(SpawnError),
    /// This may be the last reference to a process.
    DropEntry(Arc<Entry<S>>),
    DropWaker(Waker),
    /// The state's tables: empty, but large, so that freeing them takes long.
    DropTables(Box<dyn Send>),
    Cancel(CancelToken),
    Event(Event),
    /// A process has begun, or has ended.
    Begins(std::sync::Arc<Begun>, Event),
    Ends(std::sync::Arc<Begun>, Event),
    Spawn(SpawnOrder),
    /// Look at the restart files in this directory.
    Look(std::sync::Arc<Path>),
    /// The cleaner would sleep too long, or is to end.
    WakeCleaner,
}

impl<S: Spawner> effects::Effect for Effect<S> {
    fn round(&self) -> Round {
        match self {
            Effect::Wake(_) => Round::WakeUp,
            Effect::Spawn(_) | Effect::Look(_) | Effect::WakeCleaner => Round::Upkeep,
            _ => Round::UserCode,
        }
    }
}

pub(crate) struct Effects<S: Spawner> {
    pub(crate) list: effects::Effects<Effect<S>>,
    /// How many `Dispose` and `Unwanted` effects are in the list: each shuts a process down.
    pub(crate) disposals: usize,
    /// How many of them are `Unwanted`: newcomers, which belong to their spawns.
    pub(crate) discards: usize,
    /// Whether the pool has an observer. Without one, events are not even built.
    observed: bool,
}

impl<S: Spawner> Effects<S> {
    pub(crate) fn new(observed: bool) -> Self {
        Effects { list: effects::Effects::new(), disposals: 0, discards: 0, observed }
    }
    pub(crate) fn push(&mut self, effect: Effect<S>) {
        if matches!(effect, Effect::Dispose(..) | Effect::Unwanted(_)) {
            self.disposals += 1;
        }
        self.discards += usize::from(matches!(effect, Effect::Unwanted(_)));
        self.list.push(effect);
    }
    pub(crate) fn event(&mut self, event: impl FnOnce() -> Event) {
        if self.observed {
            self.push(Effect::Event(event()));
        }
    }
    /// Returns what orders the events of a new process; `None` without an observer.
    pub(crate) fn begun(&self) -> Option<std::sync::Arc<Begun>> {
        self.observed.then(std::sync::Arc::default)
    }
    pub(crate) fn begins(
        &mut self,
        begun: Option<&std::sync::Arc<Begun>>,
        event: impl FnOnce() -> Event,
    ) {
        if let Some(begun) = begun {
            self.push(Effect::Begins(begun.clone(), event()));
        }
    }
    pub(crate) fn ends(
        &mut self,
        begun: Option<&std::sync::Arc<Begun>>,
        event: impl FnOnce() -> Event,
    ) {
        if let Some(begun) = begun {
            self.push(Effect::Ends(begun.clone(), event()));
        }
    }
    /// Takes the order to spawn for this group out of the list, for a thread that already spawns.
    pub(crate) fn take_order(&mut self, group: GroupKey) -> Option<SpawnOrder> {
        let is_it = |e: &Effect<S>| matches!(e, Effect::Spawn(order) if order.group == group);
        match self.list.take(is_it) {
            Some(Effect::Spawn(order)) => Some(order),
            _ => None,
        }
    }
}

#[cfg(all(test, feature = "in-memory", not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::PoolOptions;
    use crate::application_pool::api::options::RestartMode;
    use crate::application_pool::api::spawner::Identifier;
    use crate::application_pool::state::spawn_order::Kind;
    use crate::in_memory::InMemorySpawner;

    /// A thread that ends a spawn takes its next order out of the list, from any place.
    #[test]
    fn an_order_that_is_taken_leaves_the_others_as_they_were() {
        let event =
            |name: &str| Event::Restarting { group: name.into(), mode: RestartMode::Rolling };
        for at in 0..4 {
            let mut fx: Effects<InMemorySpawner> = Effects::new(true);
            let group = |index| GroupKey::new(index);
            for nth in 0..4 {
                if nth == at {
                    for index in [8, 7] {
                        fx.push(Effect::Spawn(SpawnOrder {
                            group: group(index),
                            ticket: Identifier(index as u64),
                            kind: Kind::Addition,
                            options: PoolOptions::new("/srv/x"),
                            cancel: CancelToken::new(),
                            reload: false,
                        }));
                    }
                }
                fx.event(|| event(&nth.to_string()));
            }
            assert_eq!(fx.take_order(group(7)).map(|order| order.ticket), Some(Identifier(7)));
            assert!(fx.take_order(group(7)).is_none());
            let mut left = Vec::new();
            fx.list.run(|effect| match effect {
                Effect::Event(Event::Restarting { group, .. }) => left.push(group.to_string()),
                Effect::Spawn(order) => left.push(format!("order {}", order.ticket)),
                _ => {}
            });
            let events = (0..4).map(|nth| nth.to_string());
            let expected: Vec<String> = ["order 8".to_owned()].into_iter().chain(events).collect();
            assert_eq!(left, expected);
        }
    }
}
