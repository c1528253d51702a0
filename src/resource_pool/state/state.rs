//! The state of a pool, and what a section does for a borrower that is served: it grants a resource or a place, and
//! turns the grant into the borrower's next step. `line.rs` has the borrowers that wait.

use super::effects::{Dead, Effects, FailedOrder};
use super::loan::Loan;
use super::maintenance_task::MaintenanceTask;
use super::names::{Meta, SlotKey, Slots, SubKey, Subs};
use super::options::{Limits, Options, WhenExhausted};
use super::refusal::Refusal;
use super::slot::{
    BackingOff, BelowMinimum, Content, GivesWay, InAge, InLent, InLine, InLives, InOrders, InTurn,
    OfHash, Order, Slot, SlotState, Spare, Sub,
};
use crate::kernel::alarm::Alarm;
use crate::kernel::clock::{Clock, Span, Time};
use crate::kernel::collections::arena::Arena;
use crate::kernel::collections::indexed_heap::IndexedHeap;
use crate::kernel::collections::list::{Links, List};
use crate::kernel::collections::touched::TouchedArena;
use crate::kernel::collections::wait_queue::{Queue, WaiterKey, Waiters};
use crate::kernel::section::Patience;
use crate::resource_pool::api::factory::Form;
use std::collections::{HashMap, VecDeque};
use std::panic::Location;
use std::sync::Arc;

/// The number of different lifetimes that the jitter yields.
pub(crate) const CLASSES: usize = 16;

/// How a wait ends.
pub(crate) enum Outcome<F: Form> {
    Granted(Grant),
    /// A resource or place may be free: retry.
    Retry,
    /// A creation that was ordered while it waited has failed.
    Failed(Box<FailedOrder<F>>),
    Closed,
    /// The pool drops the creation of the task that waits.
    Dropped,
    /// A creation has ended, or is overdue: a caller that fills looks again.
    Look,
}

/// A slot that is reserved for a waiter: with a resource, or for one to be created in the place of the victim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) slot: SlotKey,
    pub(crate) victim: Option<SlotKey>,
}

/// The next step of a borrower.
pub(crate) enum Step<F: Form> {
    /// Activate this resource.
    Take(Box<Loan<F>>),
    /// Create a resource.
    Create(Box<ToCreate<F>>),
    Wait(WaitForTurn),
    Refused(Refusal),
    Failed(Box<FailedOrder<F>>),
}

/// A resource that a borrower creates in a slot that is reserved for it. Boxed: a [`Step`] is two words.
pub(crate) struct ToCreate<F: Form> {
    pub(crate) slot: SlotKey,
    pub(crate) meta: Meta<F>,
    /// The key has no resource yet: the pool has to learn when this one is created.
    pub(crate) first: bool,
    /// Destroyed before the creation begins.
    pub(crate) victim: Option<Dead<F>>,
}

/// A place in the queue of a key.
// Aligned, so that a [`Step`] is two whole words.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub(crate) struct WaitForTurn {
    pub(crate) key: SubKey,
    pub(crate) waiter: WaiterKey,
}

pub(crate) struct State<F: Form> {
    pub(crate) slots: Arena<Slot<F>, Slots>,
    /// The keys. The end of the section settles each that was touched (`settle.rs`).
    pub(crate) subs: TouchedArena<Sub<F>, Subs>,
    /// The keys of each hash.
    pub(crate) keys: HashMap<u64, List<OfHash>, foldhash::fast::FixedState>,
    /// How few keys are left when the tables become smaller.
    pub(crate) shrink_at: usize,
    /// How many keys were inserted.
    pub(crate) keys_created: u64,
    /// The touched keys that have their places in the line; empty between sections.
    pub(crate) lined: VecDeque<SubKey>,
    /// The resource that became idle in this section. There is one at most.
    pub(crate) came: Option<SlotKey>,
    pub(crate) waiters: Waiters<Outcome<F>>,
    /// Callers that wait for the end of a closed pool.
    pub(crate) closing: Queue,
    /// The callers that wait for the end of a creation (`filling.rs`).
    pub(crate) filling: Queue,
    /// The keys with a waiter that can be lent to, by the ticket of the oldest.
    pub(crate) line: IndexedHeap<u64, InLine>,
    /// The keys that lack a creation of the pool's, by the ticket of the oldest waiter without one.
    pub(crate) to_order: IndexedHeap<u64, InOrders>,
    /// How many borrowers are in the queues of all keys.
    pub(crate) waiting: usize,
    /// How many of them retry, of all keys. `serve_first` and `end_retry` change it with that of the key.
    pub(crate) retrying: usize,
    pub(crate) total: usize,
    pub(crate) active: usize,
    pub(crate) idle: usize,
    pub(crate) tested: usize,
    /// Resources that leave and are not destroyed yet.
    pub(crate) leaving: usize,
    pub(crate) by_age: List<InAge>,
    /// Whether the pool creates, and not its borrowers: its runtime has not ended.
    pub(crate) creates: bool,
    /// How many creations of the pool are in flight and not overdue; how many are overdue; and how many were dropped, and
    /// their tasks have not ended.
    pub(crate) creating: usize,
    pub(crate) overdue: usize,
    pub(crate) dropping: usize,
    /// The keys with an overdue creation that gives way.
    pub(crate) giving_way: IndexedHeap<u64, GivesWay>,
    pub(crate) lives: [List<InLives>; CLASSES],
    pub(crate) lent: List<InLent>,
    pub(crate) turns: List<InTurn>,
    /// Keys below `min_idle`, and those of them that back off.
    pub(crate) below_minimum: List<BelowMinimum>,
    pub(crate) backing_off: IndexedHeap<Time, BackingOff>,
    pub(crate) spare: IndexedHeap<u64, Spare>,
    /// How often a resource became idle.
    pub(crate) times_idle: u64,
    pub(crate) limits: Limits,
    /// Whether a limit was ever changed: older resources may exceed it.
    pub(crate) resized: bool,
    pub(crate) options: Arc<Options>,
    pub(crate) max_idle_time: Option<Span>,
    pub(crate) soft_max_idle_time: Option<Span>,
    pub(crate) abandoned_after: Option<Span>,
    pub(crate) lifetimes: Option<[Span; CLASSES]>,
    /// The class of the first resource. It differs between pools, and between processes.
    pub(crate) first_class: usize,
    /// Whether an option depends on times.
    pub(crate) timed: bool,
    /// Whether `settle.rs` has to look at more than the line and the surplus: so it has, or an option may have changed.
    pub(crate) keeps_up: bool,
    pub(crate) clock: Clock,
    pub(crate) epoch: u64,
    pub(crate) serials: u64,
    pub(crate) closed: bool,
    /// The alarm of each maintenance task.
    pub(crate) alarms: [Alarm; MaintenanceTask::ALL.len()],
    /// With an `eviction_interval`, when each maintenance task looks at idle resources again.
    pub(crate) next_run: [Option<Time>; MaintenanceTask::ALL.len()],
}

impl<F: Form> State<F> {
    /// Serves a borrower of the key, or puts it into the queue.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        key: SubKey,
        patience: &Patience,
        fx: &mut Effects<F>,
    ) -> Step<F> {
        if self.closed {
            return Step::Refused(Refusal::Closed);
        }
        let sub = &self.subs[key];
        // A newcomer never overtakes a waiter (PROP-RP-NO-OVERTAKING).
        let waits = !sub.queue.is_empty();
        if !(waits && self.is_served_directly(sub)) && self.may_lend(sub) {
            if let Some(grant) = self.grant(key, fx) {
                if waits {
                    self.overtake(key);
                }
                return self.pick_up(grant, None);
            }
        }
        self.wait(key, patience)
    }

    /// Returns whether one more resource of the key may be lent.
    #[inline]
    pub(crate) fn may_lend(&self, sub: &Sub<F>) -> bool {
        sub.active < self.limits.max_active || self.options.when_exhausted == WhenExhausted::Grow
    }

    /// Reserves a resource or a place for a borrower of the key, in this order:
    /// 1. an idle resource of the key;
    /// 2. a free place in the total;
    /// 3. the place of an expired idle resource of the key (PROP-RP-VICTIM);
    /// 4. the place of the least recently used idle resource of another key.
    ///
    /// Where the pool creates, only the first of these serves a borrower.
    ///
    /// `State::victim` chooses the resource whose place is taken.
    ///
    /// So no borrower creates beside an idle resource of its key (PROP-RP-IDLE-FIRST).
    #[inline]
    pub(crate) fn grant(&mut self, key: SubKey, fx: &mut Effects<F>) -> Option<Grant> {
        let has_place = self.creates || self.has_place(key);
        let grant = match self.next_fresh_idle(key, has_place, fx) {
            Some(slot) => {
                self.remove_idle(slot);
                self.slots[slot].state = SlotState::Lent;
                Grant { slot, victim: None }
            }
            None if self.creates => return None,
            None => self.grant_new(key)?,
        };
        self.subs.touch(key).active += 1;
        self.active += 1;
        Some(grant)
    }

    /// Begins the borrower's time, at the end of which the loan looks abandoned. The time of the factory before this
    /// does not count.
    pub(crate) fn begin_loan(
        &mut self,
        slot: SlotKey,
        borrowed_at: &'static Location<'static>,
        fx: &mut Effects<F>,
    ) {
        if self.abandoned_after.is_none() {
            return;
        }
        let now = self.clock.now();
        let entry = &mut self.slots[slot];
        entry.since = now;
        (entry.borrowed_at, entry.label) = (Some(borrowed_at), None);
        let key = entry.key;
        self.lent.push_back(&mut self.slots, slot);
        let due = self.abandoned_at(slot);
        self.schedule(MaintenanceTask::Evict, key, due, now, fx);
    }

    /// Returns whether one more resource of the key may exist.
    #[inline]
    fn has_place(&self, key: SubKey) -> bool {
        let of_key = self.subs[key].total;
        self.total < self.limits.max_total && of_key < self.limits.max_total_per_key
    }

    #[cold]
    fn grant_new(&mut self, key: SubKey) -> Option<Grant> {
        // `next_fresh_idle` left the last expired resource of the key for this.
        let expired = self.next_idle(key);
        if expired.is_none() && self.subs[key].total >= self.limits.max_total_per_key {
            return None;
        }
        let victim = match expired {
            None if self.total < self.limits.max_total => None,
            expired => Some(self.victim(expired)?),
        };
        if let Some(victim) = victim {
            self.mark_for_eviction(victim, key);
        }
        Some(Grant { slot: self.reserve(key, SlotState::Lent), victim })
    }

    /// Returns the class of the resource with this number. Two in succession are half of the classes apart, four a
    /// quarter: so a small pool uses all of the jitter.
    fn class_of(&self, serial: u64) -> u8 {
        let reversed = (serial - 1).reverse_bits() >> (u64::BITS - CLASSES.ilog2());
        ((reversed as usize).wrapping_add(self.first_class) % CLASSES) as u8
    }

    /// Reserves a slot for a creation. The caller has checked the limits (PROP-RP-WITHIN).
    pub(crate) fn reserve(&mut self, key: SubKey, state: SlotState) -> SlotKey {
        self.serials += 1;
        let now = self.now_if_timed();
        let slot = Slot {
            state,
            key,
            content: Content::Nothing,
            serial: self.serials,
            epoch: self.epoch,
            tested: false,
            expired: false,
            created: now,
            since: now,
            nth_idle: 0,
            cleared: 0,
            class: self.class_of(self.serials),
            idle: Links::default(),
            age: Links::default(),
            life: Links::default(),
            lent: Links::default(),
            turn: Links::default(),
            borrowed_at: None,
            label: None,
            ordered_at: 0,
            order: Order::None,
            waiter: None,
        };
        let slot = self.slots.insert(slot);
        self.begin_life(slot);
        self.subs.touch(key).total += 1;
        self.total += 1;
        slot
    }

    /// Turns a grant into the next step of a borrower, which waited with this ticket.
    #[inline]
    pub(crate) fn pick_up(&mut self, grant: Grant, ticket: Option<u64>) -> Step<F> {
        match self.slots[grant.slot].content.take() {
            Content::Ready(mut loan) => {
                if self.creates {
                    // Its place in line, should the resource fail.
                    loan.ticket = ticket.unwrap_or_else(|| self.waiters.new_ticket());
                }
                Step::Take(loan)
            }
            Content::Nothing => {
                let victim = grant.victim.map(|victim| self.take_victim(victim));
                self.create_in(grant.slot, victim)
            }
        }
    }

    pub(crate) fn create_in(&mut self, slot: SlotKey, victim: Option<Dead<F>>) -> Step<F> {
        let meta = self.subs[self.slots[slot].key].metadata.clone();
        let first = self.is_first_of_key(slot);
        Step::Create(Box::new(ToCreate { slot, meta, first, victim }))
    }

    /// Stops counting a slot that stays in the slab.
    pub(crate) fn uncount(&mut self, slot: SlotKey, state: SlotState) {
        let entry = &mut self.slots[slot];
        entry.state = state;
        let sub = self.subs.touch(entry.key);
        entry.cleared = sub.cleared;
        sub.total -= 1;
        sub.outside += 1;
        self.total -= 1;
    }

    /// Removes a slot that is no longer counted.
    pub(crate) fn remove_uncounted(&mut self, slot: SlotKey) -> Dead<F> {
        self.end_life(slot);
        let entry = self.slots.remove(slot);
        let sub = self.subs.touch(entry.key);
        sub.outside -= 1;
        let meta = sub.metadata.clone();
        Dead { slot: None, content: entry.content, meta }
    }

    /// Takes back a grant that was not picked up. A resource that must not be lent any more leaves.
    pub(crate) fn return_grant(&mut self, grant: Grant, fx: &mut Effects<F>) {
        let slot = grant.slot;
        self.slots[slot].expired |= self.is_outdated(slot);
        let mut content = self.slots[slot].content.take();
        if let Content::Ready(loan) = &mut content {
            loan.fresh = false;
        }
        let Some(victim) = grant.victim else {
            return match content {
                Content::Nothing => self.give_back_place(slot, fx),
                content => self.give_back(slot, content, fx),
            };
        };
        // The victim gets its place back, and may stay.
        self.end_loan(slot);
        self.remove(slot);
        self.spare_victim(victim, fx);
    }

    /// Removes a slot that is in no list of idle or lent resources.
    pub(crate) fn remove(&mut self, slot: SlotKey) {
        self.end_life(slot);
        let entry = self.slots.remove(slot);
        self.subs.touch(entry.key).total -= 1;
        // The place of a marked victim belongs to another resource already.
        if entry.state != SlotState::Marked {
            self.total -= 1;
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.closed && self.total == 0 && self.waiting == 0
    }
}
