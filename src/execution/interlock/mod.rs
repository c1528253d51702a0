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
#[cfg(any(test, debug_assertions))]
mod invariants;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod invariants_tests;
mod loaded;
mod modes;
mod outside;
mod owner;
mod permit;
mod returning;
mod running;
mod scope;
mod settle;
mod state;
mod tasks;
mod transitions;
mod world;

pub use alone::{Loading, Unloading};
pub use child::Child;
pub use dump::{Accepts, Dump, OwnerDump, OwnerState};
pub use error::{AcquireError, Deadlock, LoadError};
pub use loaded::{Handle, Loaded};
pub use modes::Purpose;
pub use owner::OwnerId;
pub(crate) use returning::Returning;
pub use running::Running;
pub(crate) use scope::{Outside, Scope, Share, Within};
pub use tasks::{LoadingGuard, UnloadingGuard};
pub(crate) use world::{Reloads, World};

use crate::clock::{Clock, ClockListener, Deadline};
use crate::collections::slab_list::Key;
use crate::collections::wait_queue::Wake;
use crate::sync::{Mutex, Word};
use crate::user_code::{contain, drop_contained};
use modes::{Asker, Outcome, Step};
use owner::{Context, Place};
use state::{SLOW, State};
use std::fmt;
use std::mem::take;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

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

/// What all clones share.
pub(crate) struct Inner {
    /// How many run, or `SLOW`: then nothing else in it counts.
    word: Word,
    state: Mutex<State>,
    clock: Clock,
    world: World,
    /// Places of owners that are in no use. Nothing is done while it is locked.
    spares: std::sync::Mutex<Vec<Place>>,
}

/// How long to wait.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Never,
    Until(Deadline),
    Forever,
}

impl Limit {
    fn asker(self) -> Asker {
        match self {
            Limit::Never => Asker::Impatient,
            Limit::Until(_) | Limit::Forever => Asker::Thread,
        }
    }
    fn deadline(self) -> Deadline {
        match self {
            Limit::Until(deadline) => deadline,
            Limit::Never | Limit::Forever => Deadline::Never,
        }
    }
}

impl Interlock {
    /// An interlock in which nobody runs.
    pub fn new() -> Self {
        Interlock::with_clock(Clock::monotonic())
    }
    /// The same, with a clock for its time-outs and ages.
    pub fn with_clock(clock: Clock) -> Self {
        let inner = Arc::new(Inner {
            word: Word::new(0),
            state: Mutex::new(State::new(clock.clone())),
            clock,
            world: World::default(),
            spares: std::sync::Mutex::default(),
        });
        if inner.clock.is_manual() {
            let tick: Weak<dyn ClockListener> = Arc::downgrade(&inner) as Weak<dyn ClockListener>;
            inner.clock.add_listener(tick);
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
        let picture = self.0.locked(|state| dump::Picture::of(state));
        picture.develop()
    }

    /// How often something was unloaded.
    pub fn generation(&self) -> u64 {
        self.0.locked(|state| state.generation)
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

/// How a blocking wait ended.
enum Waited {
    Granted,
    Forfeited,
    /// The deadline passed. The owner may have to wait for its share.
    TimedOut(Step),
}

impl Inner {
    /// Runs `section` under the lock, gives everybody who can go on what they wait for, asserts every
    /// invariant, releases the lock, and wakes them.
    fn critical<R>(&self, section: impl FnOnce(&mut State) -> R) -> R {
        let (result, after) = {
            let mut state = self.state.lock();
            let result = section(&mut state);
            (result, self.end_section(&mut state))
        };
        after.carry_out();
        result
    }
    /// The same, with everybody coming through the mutex.
    fn slowly<R>(&self, section: impl FnOnce(&mut State) -> R) -> R {
        self.critical(|state| {
            state.slow_down(&self.word);
            section(state)
        })
    }
    /// Looks, or changes what no guard depends on.
    fn locked<R>(&self, section: impl FnOnce(&mut State) -> R) -> R {
        section(&mut self.state.lock())
    }
    fn end_section(&self, state: &mut State) -> After {
        if state.slow {
            state.settle();
            state.speed_up(&self.word);
        }
        #[cfg(debug_assertions)]
        state.assert_invariants();
        After {
            wakes: take(&mut state.wakes),
            withdrawn: take(&mut state.withdrawn),
            late: take(&mut state.late),
        }
    }

    /// One more through the word, unless everybody comes through the mutex.
    #[inline]
    fn enter_fast(&self) -> bool {
        let mut count = self.word.guess();
        while count & SLOW == 0 {
            match self.word.exchange(count, count + 1) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }
    #[inline]
    fn leave_fast(&self) -> bool {
        // Whoever leaves is in the number: it is 1 at least, or SLOW.
        let mut count = self.word.guess().max(1);
        while count & SLOW == 0 {
            match self.word.exchange(count, count - 1) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    /// A thread waits for its outcome.
    fn wait(&self, key: Key, deadline: Deadline) -> Waited {
        let mut state = self.state.lock();
        loop {
            match state.owners[key.index()].outcome.take() {
                Some(Outcome::Granted) => return Waited::Granted,
                Some(Outcome::Forfeited) => return Waited::Forfeited,
                None => {}
            }
            if self.clock.has_passed(deadline) {
                let step = state.cancel(key, Asker::Thread);
                let after = self.end_section(&mut state);
                drop(state);
                after.carry_out();
                return Waited::TimedOut(step);
            }
            let condvar = state.owner(key).condvar.clone();
            self.clock.wait(&condvar, &mut state, deadline);
        }
    }
    /// A thread waits for its share, however long it takes: the sections that are under way end.
    fn wait_for_share(&self, key: Key, step: Step) {
        if step == Step::Wait {
            // Granted, or forfeited: then what comes next finds out.
            self.wait(key, Deadline::Never);
        }
    }

    fn deadline(&self, timeout: Duration) -> Limit {
        Limit::Until(self.clock.deadline(timeout))
    }

    fn register(&self) -> Place {
        self.locked(State::register)
    }
    fn spare(&self) -> Option<Place> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
    /// A place is in no use any more.
    fn keep(&self, place: Place) {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner).push(place);
    }
}

/// What a critical section leaves to be done when the lock is released: foreign code.
struct After {
    wakes: Vec<Wake>,
    withdrawn: Vec<Wake>,
    late: Vec<Wake>,
}

impl After {
    fn carry_out(self) {
        for wake in self.wakes {
            // A waker that panics keeps nobody else asleep.
            let _ = contain(|| wake.wake());
        }
        self.withdrawn.into_iter().for_each(drop_contained);
        // Hooks are run by these: nobody is to wait for them.
        for late in self.late {
            let _ = contain(|| late.wake());
        }
    }
}

impl ClockListener for Inner {
    fn advanced(&self) {
        let condvars = self.locked(|state| {
            let queued = state.owners.iter().filter(|(_, owner)| owner.mode.is_queued());
            let threads = queued.flat_map(|(_, owner)| {
                let watchers = owner.watchers.iter();
                let watchers = watchers.filter_map(|(_, watcher)| watcher.wake.thread());
                watchers.chain([&owner.condvar]).cloned()
            });
            threads.collect::<Vec<_>>()
        });
        condvars.iter().for_each(|condvar| {
            condvar.notify_all();
        });
    }
}
