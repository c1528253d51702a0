//! The load interlock: many executions run application code; one at a time loads or unloads it, while
//! none runs.
//!
//! An execution is an owner (never a thread), and has a share from its begin to its end. To load, it
//! gives its share up, waits until it is alone, loads, lets those who wait to load have their turn, and
//! goes on with its share. To unload is the same, except that it also waits for permit blocks to end.
//! In a permit block an execution has no share, and promises to use nothing that is loaded: it may wait
//! there for somebody who loads.
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
//! `state` is a machine under one mutex: every one of its `transitions` is a function, and their guards are
//! comparisons of counters. At the end of each critical section `settle` gives
//! everybody who can go on what they wait for, under the lock, and wakes exactly them after it. So
//! no wake-up is lost: a waiter is in its queue before the lock is released, and whatever makes its
//! guard true ends in `settle`. `invariants` holds all of this against every owner in builds with debug
//! assertions.
//!
//! A critical section looks at nobody but those whom it lets go on, with two exceptions: where somebody is
//! told of a deadlock, and for a dump, it copies everybody; and that a child's wait begins or ends is counted
//! in its parent, and on in that one's while they wait for children in permit blocks (`State::change`):
//! as many steps as their line is long.
//!
//! # The word
//! As long as nobody holds, waits, or has an entry, all that the machine has to know is how many
//! run. Then this number is in one atomic word: to enter or to leave is one compare-and-exchange.
//! The first who needs more sets the word's top bit, `SLOW`, under the mutex: from there on no
//! exchange succeeds, and the word changes only under the mutex. The number moves into the machine, and
//! everybody comes through the mutex until nobody holds, waits or has an entry; then it moves back.
//! - Nobody is missed: an exchange either came before the bit, and is in the number, or fails.
//! - Nobody is counted twice: who entered through the word is *anonymous* in the machine, one of a
//!   number, until its guard comes and vouches for it (`State::adopt`).
//! - What was done under a share is seen by who holds next: both exchange the same word, or lock the
//!   same mutex.
//!
//! # Without a reloader
//! Entering costs nothing where there is no interlock: keep an `Option<Interlock>`.

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

/// The load interlock. Cheap to clone: all clones are one.
///
/// ```
/// let interlock = cabrank::Interlock::new();
/// let result = interlock.run(|running| {
///     // Nothing that is loaded goes away here.
///     running.load(|_loading| {
///         // Nobody else runs here.
///         6 * 7
///     })
/// });
/// assert_eq!(result.unwrap(), 42);
/// ```
#[derive(Clone)]
pub struct Interlock(Arc<Inner>);

impl Interlock {
    /// An interlock in which nobody runs.
    pub fn new() -> Self {
        Interlock::with_clock(Clock::monotonic())
    }
    /// The same, with a clock for its time-outs and ages.
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

    /// Everybody in it, at one moment: who has what, who waits for what, since when, and for whom.
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

    /// How often something was unloaded.
    pub fn generation(&self) -> u64 {
        self.0.state.look(|state| state.generation)
    }

    /// Takes an execution out whose guard will not come, because it was leaked or its thread is lost:
    /// it counts for nothing any more, nor as a child that its parent waits for. False if it has not entered, or
    /// leaves already. (In the original what it had stays taken for ever: its defect `rails-leaked-share`.)
    ///
    /// For an operator who has seen in the [`dump`](Self::dump) who keeps everybody waiting. If the guard
    /// does come, it finds out: what it asks for then fails with [`AcquireError::Forfeited`]. Until it
    /// comes, entering takes the mutex.
    ///
    /// The interlock's promises are not kept for what a forfeited execution still does.
    ///
    /// ```
    /// let interlock = cabrank::Interlock::new();
    /// std::mem::forget(interlock.enter()); // its share stays
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
