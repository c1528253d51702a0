//! An owner's name and place, and what is known of it without the mutex.

use crate::clock::Time;
use crate::collections::slab_list::Key;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Names one execution: an owner's place, and how often it was used. Shown as `place.use`.
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

/// Where an owner is in its own frames: the level rises with each exclusive section and permit block
/// inside which it is, and each level has its shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) level: u32,
    pub(super) shares: u32,
}

impl Context {
    /// In no execution.
    pub(super) const OUT: Context = Context { level: 0, shares: 0 };
    /// Forfeited.
    pub(super) const LOST: Context = Context { level: u32::MAX, shares: 0 };
    /// An execution has begun.
    pub(super) const BASE: Context = Context { level: 1, shares: 1 };
    /// The bit of a level whose future was dropped.
    const FORSAKEN: u32 = 1 << 31;

    /// An execution that may give up nothing.
    pub(super) const TWOFOLD: Context = Context { level: 1, shares: 2 };
    /// With one share on this level.
    pub(super) const fn alone(level: u32) -> Context {
        Context { level, shares: 1 }
    }
    /// In something that this share alone may do, where it is given up.
    pub(super) const fn above(level: u32) -> Context {
        Context { level: level.wrapping_add(1), shares: 0 }
    }
    /// The same; but the future that waited there was dropped, and nobody waits for the share.
    pub(super) const fn forsaken(level: u32) -> Context {
        Context { level: level.wrapping_add(1) | Context::FORSAKEN, shares: 0 }
    }

    /// Where an execution is that has begun and was not forfeited, whoever waits for its share.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn inside(self) -> Option<Context> {
        let begun = !matches!(self, Context::OUT | Context::LOST);
        begun.then_some(Context { level: self.level & !Context::FORSAKEN, ..self })
    }
    /// Whether it is in something that was begun on this level.
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

/// What is known of an owner without the mutex.
///
/// # Synchronization
/// All accesses are relaxed. Who writes the context:
/// - the owner's guard, mostly without the mutex; so whoever ends a critical section meanwhile may look at it
///   between any two of its writes, and each has to be true by itself. So an execution begins and ends with
///   one store, and is changed in between by exchanges alone, which fail once it is forfeited;
/// - under the mutex, `forfeit`, by an exchange, which fails if the owner was quicker; and whoever lets an
///   owner in that waits for that, or for a share that was given up before it was seen, or to hold without one.
///
/// Who reads it under the mutex, in a slow period, sees of every owner that it has left, if it has: the context
/// is stored before the word is counted down, and the word was read to begin the period. That an owner has
/// begun, or is a level further up or down, it may see sooner or later than the mutex says so: the invariants
/// allow for that.
#[derive(Debug)]
pub(super) struct Vitals {
    place: Key,
    uses: AtomicU64,
    context: AtomicU64,
    /// When the execution began, in ticks of the clock.
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
    /// A new execution: it has a name of its own from here on.
    #[inline]
    pub(super) fn rename(&self) {
        // Not a read-modify-write: nobody else writes.
        self.uses.store(self.uses.load(Relaxed) + 1, Relaxed);
    }
    #[inline]
    pub(super) fn begin(&self, now: Time) {
        self.begin_at(now, Context::BASE);
    }
    /// It begins where it stays at first: nobody sees it on the way there.
    #[inline]
    pub(super) fn begin_at(&self, now: Time, context: Context) {
        debug_assert_eq!(self.context(), Context::OUT, "an execution begins once");
        self.since.store(now.ticks(), Relaxed);
        self.context.store(context.pack(), Relaxed);
    }
    /// It is over, forfeited or not.
    #[inline]
    pub(super) fn end(&self) {
        self.context.store(Context::OUT.pack(), Relaxed);
    }
    /// False if it was not `from`.
    pub(super) fn exchange(&self, from: Context, to: Context) -> bool {
        self.context.compare_exchange(from.pack(), to.pack(), Relaxed, Relaxed).is_ok()
    }
    pub(super) fn is_live(&self, id: OwnerId) -> bool {
        self.id() == id && !matches!(self.context(), Context::OUT | Context::LOST)
    }
}

/// A registered owner's place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) key: Key,
    pub(super) vitals: Arc<Vitals>,
}
