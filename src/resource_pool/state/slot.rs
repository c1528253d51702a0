//! The entries of one resource (`Slot`) and of one key (`Sub`).
//!
//! | state | content | in the lists | counts as |
//! |---|---|---|---|
//! | `Lent` | with its borrower; empty until it is created | `lent`*, `lives`* | active |
//! | `Idle` | in the slot; with its tester during a test | `idle`, `by_age`, `lives`* | idle |
//! | `Adding` | empty until it is created | `lives`*; if the pool creates it, `orders`, and `overdue` once it is | adding |
//! | `Marked` | in the slot, or with the borrower that destroys it; its place in the total is another key's | `lives`*, because it may be spared | leaving, of its key only |
//! | `Replaced` | in the slot; its places are those of a newer resource of its key | `lives`*, likewise | – |
//! | `Reclaimed` | with a borrower that has abandoned it | – | – |
//! | `Leaving` | being destroyed, or a creation that its task drops | – | leaving |
//!
//! *: only in pools whose options need this list.

use super::loan::Loan;
use super::names::{Meta, Slots, SubKey, Subs};
use crate::kernel::clock::Time;
use crate::kernel::collections::indexed_heap::{HeapIndex, in_heap};
use crate::kernel::collections::list::{Links, List, linked};
use crate::kernel::collections::touched::{Note, Touch};
use crate::kernel::collections::wait_queue::{Queue, WaiterKey};
use crate::resource_pool::api::factory::Form;
use std::panic::Location;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    Lent,
    Idle,
    Adding,
    Marked,
    Replaced,
    Reclaimed,
    Leaving,
}

/// Whether the pool creates the resource of a slot (`orders.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// A caller does, or did.
    None,
    InTime,
    /// It takes long, so it may hang.
    Overdue,
    /// Its task drops it.
    Dropped,
}

/// The content of a slot.
pub(crate) enum Content<F: Form> {
    Nothing,
    Ready(Box<Loan<F>>),
}

impl<F: Form> Content<F> {
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Content::Nothing)
    }
}

pub(crate) struct Slot<F: Form> {
    pub(crate) state: SlotState,
    pub(crate) key: SubKey,
    pub(crate) content: Content<F>,
    /// Identifies the resource: the slab reuses its keys.
    pub(crate) serial: u64,
    /// The pool's epoch (its count of `clear_all`) when the place was reserved or reused.
    pub(crate) epoch: u64,
    /// Under test: idle, but it cannot be taken.
    pub(crate) tested: bool,
    /// It must not be lent again.
    pub(crate) expired: bool,
    /// When its creation began; before that, when its place was reserved.
    pub(crate) created: Time,
    /// Since when it is idle or lent.
    pub(crate) since: Time,
    /// Its number in the order of returns to the idle list.
    pub(crate) nth_idle: u64,
    /// Its key's `cleared` when its place was given to another.
    pub(crate) cleared: u64,
    /// The class of its lifetime: its list in `State::lives`.
    pub(crate) class: u8,
    pub(crate) idle: Links<Slots>,
    pub(crate) age: Links<Slots>,
    pub(crate) life: Links<Slots>,
    pub(crate) lent: Links<Slots>,
    pub(crate) turn: Links<Slots>,
    /// The call that borrowed it, and the borrower's label, where loans may look abandoned.
    pub(crate) borrowed_at: Option<&'static Location<'static>>,
    pub(crate) label: Option<Box<str>>,
    /// The last ticket that was given when the pool ordered it: a waiter with this one or an earlier one waited then.
    pub(crate) ordered_at: u64,
    pub(crate) order: Order,
    /// The task that creates it, and waits for a call to drop the creation.
    pub(crate) waiter: Option<WaiterKey>,
}

linked!(
    /// The idle resources of one key, in order of their return; or what the pool creates for it.
    InIdle: Slots, Slot<F: Form>, idle
);
linked!(
    /// The idle resources of all keys.
    InAge: Slots, Slot<F: Form>, age
);
linked!(
    /// The resources of one class of lifetimes, in order of their end.
    InLives: Slots, Slot<F: Form>, life
);
linked!(
    /// The lent resources, in order of their loan.
    InLent: Slots, Slot<F: Form>, lent
);
linked!(
    /// The idle resources, in the order of their tests.
    InTurn: Slots, Slot<F: Form>, turn
);

/// The entry of one key.
pub(crate) struct Sub<F: Form> {
    /// Identifies the key: the slab reuses its keys.
    pub(crate) id: u64,
    pub(crate) metadata: Meta<F>,
    /// The hash of its metadata.
    pub(crate) hash: u64,
    /// Lent, or reserved for a borrower.
    pub(crate) active: usize,
    /// Being created for the idle list.
    pub(crate) adding: usize,
    /// All resources, until their destruction has ended.
    pub(crate) total: usize,
    /// Those of `total` that leave, or are evicted for another key.
    pub(crate) leaving: usize,
    /// Replaced and reclaimed resources, which `total` does not count.
    pub(crate) outside: usize,
    /// Look-ups that hold it.
    pub(crate) held: usize,
    pub(crate) of_hash: Links<Subs>,
    /// A resource of it was created: `min_idle` applies while one is left.
    pub(crate) made: bool,
    /// The one key of a pool without keys, which is never forgotten.
    pub(crate) permanent: bool,
    touched: Note<Subs>,
    pub(crate) idle: List<InIdle>,
    /// Those of `adding` that the pool creates, until they are overdue.
    pub(crate) orders: List<InIdle>,
    /// The same, once they are overdue: the one that was ordered first at the front.
    pub(crate) overdue: List<InIdle>,
    /// Creations that were dropped, and whose tasks have not ended.
    pub(crate) dropping: usize,
    /// Its place among the keys with an overdue creation that gives way.
    pub(crate) gives_way: HeapIndex,
    /// How often it was cleared.
    pub(crate) cleared: u64,
    /// Those of `idle` that are under test.
    pub(crate) tested: usize,
    pub(crate) queue: Queue,
    /// Waiters that were woken to retry and have not done so yet; only in an unfair pool.
    pub(crate) retrying: usize,
    pub(crate) in_line: HeapIndex,
    pub(crate) in_orders: HeapIndex,
    pub(crate) below_minimum: Links<Subs>,
    /// Its list or heap among the keys below their minimum, or `None` at the minimum.
    pub(crate) standing: Option<Standing>,
    pub(crate) backing_off: HeapIndex,
    pub(crate) spare: HeapIndex,
    /// The end of the back-off after a failure.
    pub(crate) back_off_until: Option<Time>,
    pub(crate) failures: u32,
    /// The last creation that failed, for borrowers that wait in vain.
    pub(crate) last_failure: Option<(Time, Arc<str>)>,
}

impl<F: Form> Sub<F> {
    pub(crate) fn new(id: u64, metadata: Meta<F>, hash: u64) -> Self {
        Sub {
            id,
            metadata,
            hash,
            active: 0,
            adding: 0,
            total: 0,
            leaving: 0,
            outside: 0,
            held: 0,
            of_hash: Links::default(),
            made: false,
            permanent: false,
            touched: Note::default(),
            idle: List::new(),
            orders: List::new(),
            overdue: List::new(),
            dropping: 0,
            gives_way: HeapIndex::default(),
            cleared: 0,
            tested: 0,
            queue: Queue::default(),
            retrying: 0,
            in_line: HeapIndex::default(),
            in_orders: HeapIndex::default(),
            below_minimum: Links::default(),
            standing: None,
            backing_off: HeapIndex::default(),
            spare: HeapIndex::default(),
            back_off_until: None,
            failures: 0,
            last_failure: None,
        }
    }
    /// Returns the one key of a pool without keys. Its minimum applies from the beginning.
    pub(crate) fn only(metadata: Meta<F>) -> Self {
        Sub { permanent: true, made: true, ..Sub::new(0, metadata, 0) }
    }
    /// Returns whether nothing needs the key any more. The one key of a pool without keys is always needed.
    #[inline]
    pub(crate) fn is_unused(&self) -> bool {
        let unused = self.total == 0 && self.outside == 0 && self.held == 0 && !self.permanent;
        unused && self.queue.is_empty() && self.retrying == 0
    }
    /// Returns how many idle resources can be taken.
    #[inline]
    pub(crate) fn available(&self) -> usize {
        self.idle.len() - self.tested
    }
}

impl<F: Form> Touch<Subs> for Sub<F> {
    #[inline]
    fn note(&mut self) -> &mut Note<Subs> {
        &mut self.touched
    }
}

/// The list or heap that a key below its minimum is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The end of its back-off, if it backs off.
    pub(crate) later: Option<Time>,
}

linked!(
    /// The keys of one hash, in order of insertion.
    OfHash: Subs, Sub<F: Form>, of_hash
);
linked!(
    /// The keys that can be refilled now, the longest waiting first.
    BelowMinimum: Subs, Sub<F: Form>, below_minimum
);

in_heap!(
    /// The keys that back off after a failure, by the end of the back-off.
    BackingOff: Subs, Sub<F: Form>, backing_off
);

in_heap!(
    /// The keys with a waiter that can be lent to, by the ticket of the oldest.
    InLine: Subs, Sub<F: Form>, in_line
);

in_heap!(
    /// The keys that lack a creation of the pool's, by the ticket of the oldest waiter without one.
    InOrders: Subs, Sub<F: Form>, in_orders
);

in_heap!(
    /// The keys with an overdue creation that gives way, by the order of that.
    GivesWay: Subs, Sub<F: Form>, gives_way
);

in_heap!(
    /// The keys above `min_idle`, by their oldest idle resource.
    Spare: Subs, Sub<F: Form>, spare
);
