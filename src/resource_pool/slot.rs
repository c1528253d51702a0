//! One resource's place in the pool, and one key's.
//!
//! | place | content | in the lists | counts as |
//! |---|---|---|---|
//! | `Lent` | with its borrower; none while it is made | `lent`*, `lives`* | active |
//! | `Idle` | here; with its tester while it is tested | `idle`, `by_age`, `lives`* | idle |
//! | `Idle`, not finished | here | both named `unfinished`, `lives`* | idle |
//! | `Adding` | none yet | `lives`* | adding |
//! | `Marked` | here, or with whoever destroys it: its place in the total is another key's | `lives`*, for it may come back | leaving, of its key alone |
//! | `Replaced` | here: its places are another's of its own key | `lives`*, likewise | nothing |
//! | `Reclaimed` | with a borrower that has abandoned it | none | nothing |
//! | `Leaving` | being destroyed | none | leaving |
//!
//! *: only in pools whose options need that list.

use super::factory::{Creation, Form};
use super::guard::Loan;
use crate::clock::Time;
use crate::collections::indexed_heap::{self, Placed};
use crate::collections::slab_list::{Key, Links, List, linked};
use crate::collections::wait_queue::Queue;
use crate::user_code::UserValue;
use std::sync::Arc;

/// Keeps the user's metadata where it is dropped contained.
pub(crate) type Shared<T> = Arc<UserValue<T>>;

/// What describes a key's resources; in a pool without keys, all of them.
pub(crate) type Meta<F> = Shared<<F as Form>::Metadata>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Lent,
    Idle,
    Adding,
    Marked,
    Replaced,
    Reclaimed,
    Leaving,
}

/// What is in a slot.
pub(crate) enum Content<F: Form> {
    Nothing,
    Ready(Box<Loan<F>>),
    /// A creation that was left by who had begun it: stock that is not finished yet.
    Unfinished(Box<Creation<F>>),
}

impl<F: Form> Content<F> {
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Content::Nothing)
    }
}

pub(crate) struct Slot<F: Form> {
    pub(super) place: Place,
    pub(super) key: Key,
    pub(super) content: Content<F>,
    /// Its name: a slab's key is used again.
    pub(super) serial: u64,
    /// How many times everything had been cleared when it was made.
    pub(super) epoch: u64,
    /// Somebody tests it: it is here, and cannot be taken.
    pub(super) tested: bool,
    /// Not to be lent again.
    pub(super) expired: bool,
    /// When it began to be made; before that, when its place was reserved.
    pub(super) created: Time,
    /// Idle, or lent, since.
    pub(super) since: Time,
    /// The how-manieth it was that became idle.
    pub(super) nth_idle: u64,
    /// How many times its key had been cleared when its place was given to another.
    pub(super) cleared: u64,
    /// In which of the lists of equal lifetimes.
    pub(super) class: u8,
    pub(super) idle: Links,
    pub(super) age: Links,
    pub(super) life: Links,
    pub(super) lent: Links,
    pub(super) turn: Links,
}

linked!(
    /// The idle resources of one key, in the order in which they came back.
    InIdle, Slot<F: Form>, idle
);
linked!(
    /// The idle resources of all keys, in that order.
    InAge, Slot<F: Form>, age
);
linked!(
    /// The resources of one class of lifetimes, in the order of their end.
    InLives, Slot<F: Form>, life
);
linked!(
    /// The lent resources, in the order in which they were lent.
    InLent, Slot<F: Form>, lent
);
linked!(
    /// The idle resources, in the order in which they are to be tested.
    InTurn, Slot<F: Form>, turn
);

/// What there is of one key.
pub(crate) struct Sub<F: Form> {
    /// Its name: a slab's key is used again.
    pub(super) id: u64,
    pub(super) metadata: Meta<F>,
    /// The hash of its metadata.
    pub(super) hash: u64,
    /// Lent, or reserved for a borrower.
    pub(super) active: usize,
    /// Being made for stock.
    pub(super) adding: usize,
    /// All that exist, to the end of their destruction.
    pub(super) total: usize,
    /// Of those, how many leave, or make room for another key.
    pub(super) leaving: usize,
    /// Replaced and reclaimed ones: of this key, and counted no more.
    pub(super) outside: usize,
    /// Look-ups that have come to it.
    pub(super) held: usize,
    pub(super) of_hash: Links,
    /// Something of it has been made: then stock is filled up, while anything is left.
    pub(super) made: bool,
    /// The one key of a pool without keys: it is never forgotten.
    pub(super) permanent: bool,
    pub(super) idle: List<InIdle>,
    /// Stock that is not finished, in the order in which it was left; the above has the others.
    pub(super) unfinished: List<InIdle>,
    /// How many times it was cleared.
    pub(super) cleared: u64,
    /// Of `idle`, how many are being tested.
    pub(super) tested: usize,
    pub(super) queue: Queue,
    /// Woken to try again, and not there yet: only if newcomers may barge.
    pub(super) retrying: usize,
    pub(super) in_line: indexed_heap::Place,
    pub(super) below_minimum: Links,
    /// In which of the lists and heaps of keys below their minimum it stands; none: in none.
    pub(super) standing: Option<Standing>,
    pub(super) backing_off: indexed_heap::Place,
    pub(super) spare: indexed_heap::Place,
    /// After a failure, stock is not filled up before.
    pub(super) back_off_until: Option<Time>,
    pub(super) failures: u32,
}

impl<F: Form> Sub<F> {
    pub(super) fn new(id: u64, metadata: Meta<F>, hash: u64) -> Self {
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
            idle: List::new(),
            unfinished: List::new(),
            cleared: 0,
            tested: 0,
            queue: Queue::default(),
            retrying: 0,
            in_line: indexed_heap::Place::default(),
            below_minimum: Links::default(),
            standing: None,
            backing_off: indexed_heap::Place::default(),
            spare: indexed_heap::Place::default(),
            back_off_until: None,
            failures: 0,
        }
    }
    /// The key of a pool that has no other. It is kept at its minimum from the beginning.
    pub(super) fn only(metadata: Meta<F>) -> Self {
        Sub { permanent: true, made: true, ..Sub::new(0, metadata, 0) }
    }
    /// Idle ones that can be taken.
    #[inline]
    pub(super) fn available(&self) -> usize {
        self.idle.len() - self.tested + self.unfinished.len()
    }
    /// All idle ones.
    #[inline]
    pub(super) fn idle_count(&self) -> usize {
        self.idle.len() + self.unfinished.len()
    }
}

/// Where a key stands of which there is less stock than the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Nothing was left of it that could be polled on.
    pub(super) needs_room: bool,
    /// Until then it is left alone.
    pub(super) later: Option<Time>,
}

linked!(
    /// The keys of one hash, in the order in which they were made.
    OfHash, Sub<F: Form>, of_hash
);
linked!(
    /// The keys of which stock can be filled up now, in the order in which that came to be.
    BelowMinimum, Sub<F: Form>, below_minimum
);

/// The keys of which stock can be filled up at a time, after a failure.
#[derive(Debug)]
pub(crate) enum BackingOff {}
impl<F: Form> Placed<BackingOff> for Sub<F> {
    fn place(&mut self) -> &mut indexed_heap::Place {
        &mut self.backing_off
    }
}

/// The eligible keys, by the ticket of their oldest waiter.
#[derive(Debug)]
pub(crate) enum InLine {}
impl<F: Form> Placed<InLine> for Sub<F> {
    fn place(&mut self) -> &mut indexed_heap::Place {
        &mut self.in_line
    }
}

/// The keys with more stock than the minimum, by the one that came back longest ago.
#[derive(Debug)]
pub(crate) enum Spare {}
impl<F: Form> Placed<Spare> for Sub<F> {
    fn place(&mut self) -> &mut indexed_heap::Place {
        &mut self.spare
    }
}
