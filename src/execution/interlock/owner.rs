//! Owners: not threads but records, so that guards may go from thread to thread, and tasks are owners
//! like any other.
//!
//! A record is registered once, under the mutex, and used again: each thread keeps a few of those that
//! it used last. So entering allocates nothing and takes no lock. What a dump wants to know of an
//! owner that entered through the word alone is in its [`Vitals`], which its guard writes without the mutex.

use super::inner::Inner;
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

/// A place, and the interlock it is in.
pub(super) struct Record {
    pub(super) home: Arc<Inner>,
    pub(super) place: Place,
}

impl Record {
    pub(super) fn key(&self) -> Key {
        self.place.key
    }
    pub(super) fn vitals(&self) -> &Vitals {
        &self.place.vitals
    }
    pub(super) fn id(&self) -> OwnerId {
        self.vitals().id()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.home.keep(self.place.clone());
    }
}

/// Two references to one record, made once: one for the guard, one for the thread's ambient frame,
/// so that neither is to be counted when an execution begins.
pub(super) struct Seat {
    pub(super) record: Arc<Record>,
    /// Absent while an ambient frame has it, and for good if that was lost in a panic.
    pub(super) twin: Option<Arc<Record>>,
}

impl Seat {
    /// A record that was used before on this thread, or else by anybody, or else a new one.
    #[inline]
    pub(super) fn take(home: &Arc<Inner>) -> Seat {
        cache::take(home).unwrap_or_else(|| Seat::find(home))
    }
    #[cold]
    fn find(home: &Arc<Inner>) -> Seat {
        let place = home.spare().unwrap_or_else(|| home.register());
        let record = Arc::new(Record { home: home.clone(), place });
        Seat { twin: Some(record.clone()), record }
    }
    #[inline]
    pub(super) fn give_back(self) {
        cache::put(self);
    }
}

/// The records that this thread used last, of whatever interlock.
#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
mod cache {
    use super::super::inner::Inner;
    use super::Seat;
    use std::cell::{Cell, RefCell};
    use std::sync::Arc;

    /// How many a thread keeps besides the last. Each keeps its interlock's memory.
    const KEPT: usize = 3;

    std::thread_local! {
        static LAST: Cell<Option<Seat>> = const { Cell::new(None) };
        static OTHERS: RefCell<Vec<Seat>> = const { RefCell::new(Vec::new()) };
    }

    #[inline]
    pub(super) fn take(home: &Arc<Inner>) -> Option<Seat> {
        // A thread that ends keeps nothing any more.
        match LAST.try_with(Cell::take).ok().flatten() {
            Some(seat) if Arc::ptr_eq(&seat.record.home, home) => Some(seat),
            other => take_other(home, other),
        }
    }
    #[cold]
    fn take_other(home: &Arc<Inner>, last: Option<Seat>) -> Option<Seat> {
        last.into_iter().for_each(put_other);
        let found = OTHERS.try_with(|seats| {
            let mut seats = seats.borrow_mut();
            let at = seats.iter().rposition(|seat| Arc::ptr_eq(&seat.record.home, home))?;
            Some(seats.swap_remove(at))
        });
        found.ok().flatten()
    }
    #[inline]
    pub(super) fn put(seat: Seat) {
        let mut seat = Some(seat);
        if let Ok(Some(former)) = LAST.try_with(|last| last.replace(seat.take())) {
            put_other(former);
        }
    }
    #[cold]
    fn put_other(seat: Seat) {
        let mut seat = Some(seat);
        let oldest = OTHERS.try_with(|seats| {
            let mut seats = seats.borrow_mut();
            let oldest = (seats.len() == KEPT).then(|| seats.remove(0));
            seats.extend(seat.take());
            oldest
        });
        drop((oldest, seat));
    }
}

/// In a model all threads are one to `std`, and a record that outlives its execution is an error: none
/// is kept.
#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
mod cache {
    use super::super::inner::Inner;
    use super::Seat;
    use std::sync::Arc;

    pub(super) fn take(_: &Arc<Inner>) -> Option<Seat> {
        None
    }
    pub(super) fn put(_: Seat) {}
}

/// The ancestors of a child, nearest first: those that lived when it was begun.
pub(super) struct Lineage {
    pub(super) id: OwnerId,
    vitals: Arc<Vitals>,
    up: Option<Arc<Lineage>>,
}

impl Lineage {
    /// That of a child of this record's execution. Whoever is over is left out: executions that begin
    /// one another for ever, each before it ends, remember no more than those that live.
    pub(super) fn below(record: &Record, up: Option<Arc<Lineage>>) -> Arc<Lineage> {
        let all_live = Lineage::chain(up.as_ref()).all(|ancestor| ancestor.lives());
        let up = match all_live {
            true => up,
            false => {
                let living: Vec<_> =
                    Lineage::chain(up.as_ref()).filter(|ancestor| ancestor.lives()).collect();
                let above = |up, next: &Arc<Lineage>| {
                    Some(Arc::new(Lineage { id: next.id, vitals: next.vitals.clone(), up }))
                };
                living.into_iter().rev().fold(None, above)
            }
        };
        Arc::new(Lineage { id: record.id(), vitals: record.place.vitals.clone(), up })
    }
    fn chain(nearest: Option<&Arc<Lineage>>) -> impl Iterator<Item = &Arc<Lineage>> {
        std::iter::successors(nearest, |ancestor| ancestor.up.as_ref())
    }
    /// Whether this one is still in its execution. Once it is not, it never is again.
    fn lives(&self) -> bool {
        self.vitals.is_live(self.id)
    }
    /// Whether one of them is still in its execution. The creation of a child was told to it by its
    /// parent, so a parent that has not left is seen.
    pub(super) fn is_live(&self) -> bool {
        self.lives() || Lineage::chain(self.up.as_ref()).any(|ancestor| ancestor.lives())
    }
}

impl Drop for Lineage {
    /// One after the other: a long line of them would be too deep for the stack.
    fn drop(&mut self) {
        let mut up = self.up.take();
        while let Some(mut last) = up.and_then(Arc::into_inner) {
            up = last.up.take();
        }
    }
}
