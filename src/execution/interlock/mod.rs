//! The load interlock: many executions run application code; a load or an unload runs alone.
//!
//! An execution is an owner (not a thread), with a share from its begin to its end. To load, it gives its
//! share up, waits until it is alone, and loads. Then other waiting loads have their turn, and it goes on
//! with its share. An unload also waits for permit blocks to end. In a permit block an execution has no share
//! and uses no loaded value, so it may wait for an execution that loads.
//!
//! ```
//! use cabrank::Interlock;
//! use cabrank::execution::interlock::{LoadError, Loaded};
//!
//! let interlock = Interlock::new();
//! let greeting = Loaded::new();
//! let length = interlock.run(|r| {
//!     let text = greeting.get_or_load(r, || std::str::from_utf8(b"hello"))?;
//!     Ok::<_, LoadError<_>>(text.len())
//! });
//! assert_eq!(length.unwrap(), 5);
//! ```
//!
//! # The state
//! The mutex guards a state machine: its `transitions` are functions, whose guards compare counters. At the
//! end of each critical section `settle` grants every wait that can end; those waiters, and only they, are
//! woken after the lock. So no wake-up is lost: a waiter is queued before the lock is released, and every
//! change that makes its guard true ends in `settle`. Builds with debug assertions check this against every
//! owner (`invariants`).
//!
//! A critical section looks only at the owners that it lets go on, with two exceptions:
//! - A deadlock report and a dump copy all owners.
//! - A child's wait is counted in its parent, and further up while parents wait for children in permit blocks.
//!   That takes as many steps as the chain is long (`State::change`).
//!
//! # The word
//! While no owner holds, waits, or has an entry, the machine needs only the number of running owners. One
//! atomic word has that number: to enter or to leave is one compare-and-exchange. A caller that needs more
//! sets the word's top bit, `SLOW`, under the mutex. From then on every exchange fails, and the word changes
//! only under the mutex. The number moves into the machine, and moves back once no owner holds, waits or has
//! an entry.
//! - No owner is missed: an exchange either came before the bit, and is in the number, or fails.
//! - No owner is counted twice: one that entered through the word is *anonymous* in the machine, part of a
//!   number. Its guard takes the mutex and vouches for it (`State::adopt`).
//! - A holder sees the effects of earlier shares: both exchange the same word, or lock the same mutex.
//!
//! # Without a reloader
//! Where no interlock is needed, keep an `Option<Interlock>`: entering is then free.
//!
//! # Origin
//! Rails' load interlock. There a circle of waits hangs (`rails-upgrade-deadlock`), and a leaked execution
//! keeps its share for ever (`rails-leaked-share`). `spec/` defines these and its other defects.

mod alone;
mod ambient;
mod child;
mod dump;
mod enter;
mod error;
mod exclusive;
mod inner;
#[cfg(any(test, debug_assertions))]
mod invariants;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod invariants_tests;
mod loaded;
mod modes;
mod outside;
mod owner;
mod permit;
mod reloads;
mod returning;
mod running;
mod scope;
mod settle;
mod state;
mod tasks;
mod transitions;
mod vitals;
mod world;

pub use alone::{Loading, Unloading};
pub use child::Child;
pub use dump::{Dump, OwnerDump, OwnerState};
pub use error::{AcquireError, Deadlock, LoadError};
pub use loaded::{Handle, Loaded};
pub use modes::{Accepts, Purpose};
pub(crate) use reloads::Reloads;
pub(crate) use returning::Returning;
pub use running::Running;
pub(crate) use scope::{Outside, Scope, Share, Within};
pub use tasks::{LoadingGuard, UnloadingGuard};
pub use vitals::OwnerId;
pub(crate) use world::World;

use crate::clock::{Clock, ClockListener};
use crate::section::Lock;
use crate::sync::Word;
use inner::{Inner, Limit};
use state::State;
use std::fmt;
use std::sync::{Arc, Weak};
use vitals::Context;

/// The load interlock. Cheap to clone: all clones are the same interlock.
///
/// ```
/// let interlock = cabrank::Interlock::new();
/// let result = interlock.run(|running| {
///     // No loaded value is unloaded here.
///     running.load(|_loading| {
///         // No other execution runs here.
///         6 * 7
///     })
/// });
/// assert_eq!(result.unwrap(), 42);
/// ```
#[derive(Clone)]
pub struct Interlock(Arc<Inner>);

impl Interlock {
    /// Creates an interlock without executions.
    pub fn new() -> Self {
        Interlock::with_clock(Clock::monotonic())
    }
    /// The same, with a clock for time-outs and ages.
    pub fn with_clock(clock: Clock) -> Self {
        let inner = Arc::new(Inner {
            word: Word::new(0),
            state: Lock::new(State::new(clock.clone()), clock),
            world: World::default(),
            spares: std::sync::Mutex::default(),
        });
        if inner.state.clock().is_manual() {
            let tick: Weak<dyn ClockListener> = Arc::downgrade(&inner) as Weak<dyn ClockListener>;
            inner.state.clock().add_listener(tick);
        }
        Interlock(inner)
    }

    /// Returns all owners at one moment: their shares, their waits, and which owner blocks which.
    ///
    /// ```
    /// let interlock = cabrank::Interlock::new();
    /// interlock.run(|_| assert_eq!(interlock.dump().owners.len(), 1));
    /// assert!(interlock.dump().owners.is_empty());
    /// ```
    pub fn dump(&self) -> Dump {
        let picture = self.0.state.look(dump::Picture::of);
        picture.develop()
    }

    /// Returns how many unloads there were.
    pub fn generation(&self) -> u64 {
        self.0.state.look(|state| state.generation)
    }

    /// Takes out an execution whose guard will not come, because it was leaked or its thread is lost. It then
    /// counts no longer, not even as a child. Returns false if it has not entered, or already leaves.
    ///
    /// For an operator who sees in the [`dump`](Self::dump) which execution blocks all others. If its guard
    /// does come, its requests fail with [`AcquireError::Forfeited`]. Until then, entering takes the mutex.
    /// The interlock's guarantees do not cover what a forfeited execution still does.
    ///
    /// ```
    /// let interlock = cabrank::Interlock::new();
    /// std::mem::forget(interlock.enter()); // it keeps its share
    /// let lost = interlock.dump().owners[0].id;
    /// assert!(interlock.forfeit(lost));
    /// interlock.run(|r| r.unload(|_| ())).unwrap();
    /// ```
    pub fn forfeit(&self, owner: OwnerId) -> bool {
        self.0.slowly(|state| {
            let found = state.owners.get(owner.key().index());
            let Some(vitals) = found.map(|owner| owner.vitals.clone()) else { return false };
            let context = vitals.context();
            if !vitals.is_live(owner) || !vitals.exchange(context, Context::LOST) {
                return false;
            }
            state.adopt(owner.key());
            state.forfeit(owner.key());
            true
        })
    }

    #[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Default for Interlock {
    fn default() -> Self {
        Interlock::new()
    }
}

impl fmt::Debug for Interlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interlock").field("generation", &self.generation()).finish_non_exhaustive()
    }
}
