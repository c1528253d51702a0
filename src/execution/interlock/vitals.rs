//! An owner's name and place, and its data that is readable without the mutex.

use crate::clock::Time;
use crate::collections::slab_list::Key;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Names one execution: an owner's place and a use count. Shown as `place.use`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId {
    place: Key,
    uses: u64,
}

impl OwnerId {
    pub(super) fn key(self) -> Key {
        self.place
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.place.index(), self.uses)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for OwnerId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The position of an owner in its own frames. Each exclusive section and permit block raises the level, and
/// each level has its shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) level: u32,
    pub(super) shares: u32,
}

impl Context {
    /// In no execution.
    pub(super) const OUT: Context = Context { level: 0, shares: 0 };
    pub(super) const LOST: Context = Context { level: u32::MAX, shares: 0 };
    /// An execution that has just begun.
    pub(super) const BASE: Context = Context { level: 1, shares: 1 };
    /// The bit that marks a level whose future was dropped.
    const FORSAKEN: u32 = 1 << 31;

    /// An execution that may not give its share up.
    pub(super) const TWOFOLD: Context = Context { level: 1, shares: 2 };
    /// One share on this level.
    pub(super) const fn alone(level: u32) -> Context {
        Context { level, shares: 1 }
    }
    /// Inside an operation that needs the only share, and has given it up.
    pub(super) const fn above(level: u32) -> Context {
        Context { level: level.wrapping_add(1), shares: 0 }
    }
    /// The same after a drop of the future that waited there.
    pub(super) const fn forsaken(level: u32) -> Context {
        Context { level: level.wrapping_add(1) | Context::FORSAKEN, shares: 0 }
    }

    /// Returns the context of an execution that has begun and was not forfeited, without the `FORSAKEN` bit.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn inside(self) -> Option<Context> {
        let begun = !matches!(self, Context::OUT | Context::LOST);
        begun.then_some(Context { level: self.level & !Context::FORSAKEN, ..self })
    }
    /// Returns true inside an operation that began on this level.
    pub(super) fn is_above(self, level: u32) -> bool {
        self != Context::LOST && self.level & !Context::FORSAKEN > level
    }
    const fn pack(self) -> u64 {
        (self.level as u64) << 32 | self.shares as u64
    }
    const fn unpack(word: u64) -> Self {
        Context { level: (word >> 32) as u32, shares: word as u32 }
    }
}

/// An owner's data that is readable without the mutex.
///
/// # Synchronization
/// All accesses are relaxed. The context has three writers:
/// - The owner's guard, mostly without the mutex. A critical section may read between any two of its writes,
///   so each has to be valid by itself. An execution begins and ends with one store; in between it changes
///   only by exchanges, which fail once it is forfeited.
/// - `forfeit`, under the mutex, by an exchange, which fails if the owner was faster.
/// - A critical section that grants a queued entry, a section without a share, or a share whose owner has not
///   seen it.
///
/// In a slow period a reader under the mutex sees that an owner has left. The owner stores its context before
/// it counts the word down, and the word was read to begin the period. The reader may see a begin, or a
/// change of the level, before or after the mutex does: the invariants allow for that.
#[derive(Debug)]
pub(super) struct Vitals {
    place: Key,
    uses: AtomicU64,
    context: AtomicU64,
    /// The begin of the execution, in ticks of the clock.
    since: AtomicU64,
}

impl Vitals {
    pub(super) fn new(place: Key) -> Self {
        Vitals {
            place,
            uses: AtomicU64::new(0),
            context: AtomicU64::new(Context::OUT.pack()),
            since: AtomicU64::new(0),
        }
    }
    pub(super) fn id(&self) -> OwnerId {
        OwnerId { place: self.place, uses: self.uses.load(Relaxed) }
    }
    pub(super) fn context(&self) -> Context {
        Context::unpack(self.context.load(Relaxed))
    }
    pub(super) fn since(&self) -> Time {
        Time::from_ticks(self.since.load(Relaxed))
    }
    /// Names the next execution.
    #[inline]
    pub(super) fn rename(&self) {
        // No read-modify-write: the guard is the only writer.
        self.uses.store(self.uses.load(Relaxed) + 1, Relaxed);
    }
    #[inline]
    pub(super) fn begin(&self, now: Time) {
        self.begin_at(now, Context::BASE);
    }
    /// Begins in `context`, without a visible intermediate state.
    #[inline]
    pub(super) fn begin_at(&self, now: Time, context: Context) {
        debug_assert_eq!(self.context(), Context::OUT, "an execution begins once");
        self.since.store(now.ticks(), Relaxed);
        self.context.store(context.pack(), Relaxed);
    }
    #[inline]
    pub(super) fn end(&self) {
        self.context.store(Context::OUT.pack(), Relaxed);
    }
    /// Returns false if the context was not `from`.
    pub(super) fn exchange(&self, from: Context, to: Context) -> bool {
        self.context.compare_exchange(from.pack(), to.pack(), Relaxed, Relaxed).is_ok()
    }
    pub(super) fn is_live(&self, id: OwnerId) -> bool {
        self.id() == id && !matches!(self.context(), Context::OUT | Context::LOST)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) key: Key,
    pub(super) vitals: Arc<Vitals>,
}
