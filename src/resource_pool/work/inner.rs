//! The part that all handles of one pool share: its state, and the user's values that serve it.

use super::dying::Dying;
use super::maintainer::Maintenance;
use super::observed::Observed;
use crate::kernel::any_runtime::AnyRuntime;
use crate::kernel::clock::{Clock, ClockListener};
use crate::kernel::handle::Close;
use crate::kernel::origin::Origin;
#[cfg(any(test, debug_assertions))]
use crate::kernel::section::Invariant;
use crate::kernel::section::{Guarded, Lock};
use crate::kernel::sync::has_failed;
use crate::kernel::user_code::{UserValue, contain, drop_contained};
use crate::resource_pool::api::event::Event;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::state::effects::{Dead, Effects};
use crate::resource_pool::state::names::Meta;
use crate::resource_pool::state::options::Options;
use crate::resource_pool::state::state::State;
use std::sync::{Arc, OnceLock, Weak};

pub(crate) type Listener<F> =
    Box<dyn Fn(&<F as Form>::Metadata, &Event<<F as Form>::Error>) + Send + Sync>;

/// The pool.
pub(crate) struct Inner<F: Form> {
    pub(crate) factory: Arc<UserValue<F>>,
    pub(crate) state: Lock<State<F>>,
    /// The state has the same.
    pub(crate) options: Arc<Options>,
    pub(crate) listener: Option<UserValue<Listener<F>>>,
    pub(crate) observed: Observed,
    pub(crate) dying: Dying<F>,
    pub(crate) hasher: foldhash::fast::RandomState,
    pub(crate) maintenance: OnceLock<Maintenance>,
    /// The runtime that the pool was built with.
    pub(crate) runtime: OnceLock<AnyRuntime>,
    /// A forked child has the pool's memory, and shares its resources with the parent.
    pub(crate) origin: Origin,
    /// For a loan that outlives the reference it was borrowed by.
    pub(crate) me: Weak<Self>,
}

impl<F: Form> Guarded for Inner<F> {
    type State = State<F>;
    type Effects = Effects<F>;
    #[cfg(any(test, debug_assertions))]
    const INVARIANTS: &'static [Invariant<State<F>>] = State::<F>::INVARIANTS;
    #[cfg(any(test, debug_assertions))]
    fn entries(state: &State<F>) -> usize {
        state.subs.len()
    }
    #[cfg(any(test, debug_assertions))]
    fn narrow(state: &mut State<F>, to_touched: bool) {
        state.subs.narrow(to_touched);
    }

    #[inline]
    fn lock(&self) -> &Lock<State<F>> {
        &self.state
    }
    #[inline]
    fn effects(&self) -> Effects<F> {
        Effects::new()
    }
    #[inline]
    fn settle(&self, state: &mut State<F>, fx: &mut Effects<F>) {
        state.settle(fx);
        // With maintenance, a signal that failed is sent again later.
        #[cfg(debug_assertions)]
        {
            let scheduled = self.maintenance.get().is_some() || state.maintenance_knows_due_times();
            assert!(scheduled, "the maintenance sleeps past a due time");
            assert!(state.below_minimum_is_known(), "a key below its minimum is not known");
            assert!(
                state.keeps_up || !state.needs_upkeep(),
                "the end of a section leaves out what follows"
            );
        }
    }
    #[inline]
    fn is_empty(fx: &Effects<F>) -> bool {
        fx.is_empty()
    }
    #[inline]
    fn run(&self, fx: &mut Effects<F>) {
        self.run_effects(fx);
    }
}

impl<F: Form> Inner<F> {
    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        self.state.clock()
    }

    /// Calls the listener.
    pub(crate) fn report(&self, meta: &Meta<F>, event: Event<F::Error>) {
        self.observed.reported(&event);
        if let Some(listener) = &self.listener {
            let _ = contain(|| listener(meta, &event));
        }
        drop_contained(event);
    }
}

impl<F: Form> Close for Inner<F> {
    fn close(this: &Arc<Self>) {
        // In a forked child another thread may have held the lock.
        if !this.origin.is_forked() {
            this.critical(|state, fx| state.close(fx));
        }
    }
}

impl<F: Form> ClockListener for Inner<F> {
    fn advanced(&self) {
        self.state.clock_advanced(|state| state.waiters.threads());
    }
}

/// Destroys what was granted to futures that were leaked: they cannot pick it up any more.
impl<F: Form> Drop for Inner<F> {
    fn drop(&mut self) {
        if has_failed() {
            return;
        }
        let state = self.state.get_mut();
        let slots = std::mem::take(&mut state.slots);
        let left = slots.into_values().map(|slot| {
            let meta = state.subs[slot.key].metadata.clone();
            Dead { slot: None, content: slot.content, meta }
        });
        let left: Vec<_> = left.collect();
        let wakers = state.waiters.take_wakers();
        // A leaked future may have been granted an error of the factory's.
        let waiters = std::mem::take(&mut state.waiters);
        left.into_iter().for_each(|dead| self.destroy(dead));
        wakers.into_iter().for_each(drop_contained);
        drop_contained(waiters);
    }
}
