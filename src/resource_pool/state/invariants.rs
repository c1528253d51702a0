//! The invariants of the pool, by the names that `spec/` gives them.

use super::names::SubKey;
use super::options::WhenExhausted;
use super::slot::{Content, InAge, InIdle, Order, Slot, SlotState, Sub};
use super::state::{Outcome, State};
use crate::kernel::collections::list::List;
use crate::kernel::section::{Invariant, invariants};
use crate::resource_pool::api::factory::Form;
use std::cell::RefCell;

impl<F: Form> State<F> {
    pub(crate) const INVARIANTS: &'static [Invariant<Self>] = invariants! {
        "INV-RP-COUNTS" "every number is that of the slots it counts" counts;
        "INV-RP-MAX-TOTAL" "at most max_total resources exist, unless the limit was lowered" max_total;
        "INV-RP-MAX-ACTIVE" "at most max_active resources of a key are lent, unless the limit was lowered" max_active (each);
        "INV-RP-MAX-TOTAL-PER-KEY" "at most max_total_per_key resources of a key exist, unless the limit was lowered" max_total_per_key (each);
        "INV-RP-MAX-IDLE" "at most max_idle resources of a key are idle, besides those that are tested or that a retrying waiter is on its way to" max_idle (each);
        "INV-RP-ONE-PLACE" "a slot has content exactly if its state says so" one_place;
        "INV-RP-EPOCH" "no idle resource is older than the last clear_all" epoch;
        "INV-RP-LIFETIME" "every resource whose lifetime has not ended is in a list of lifetimes" lifetime;
        "INV-RP-CLOSED" "a closed pool has no waiter, orders no creation, and has no idle resource that is not tested" closed;
        "INV-RP-IDLE-ORDER" "each list of idle resources is ordered by their return, and complete" idle_order (each);
        "INV-RP-AGE-ORDER" "the list of all idle resources is ordered by their return, and complete; the keys above min_idle are known" age_order;
        "INV-RP-WAITING" "waiting and retrying are the numbers of such borrowers" waiting;
        "INV-RP-ORDERS" "each creation that the pool ordered is in its list, and counted" orders;
        "INV-RP-MAX-CREATING" "at most max_creating creations are in flight and not overdue, where the pool creates" max_creating;
        "INV-RP-ORDERED" "where the pool creates, a key that lacks a creation has no place for one" ordered;
        "INV-RP-LINE" "the eligible keys stand in line, by the tickets of their oldest waiters" line;
        "INV-RP-EXACT-WAKE-UP" "in a fair pool nothing is free while an eligible key waits" exact_wake_up (each);
        "INV-RP-BARGING" "in a barging pool as many waiters retry as can be served" barging (each);
    };

    /// Returns whether limits hold exactly: they are unchanged, and abandoned loans keep their places.
    fn exact(&self) -> bool {
        !self.resized && !self.options.remove_abandoned
    }
    fn all_keys(&self, holds: impl Fn(SubKey, &Sub<F>) -> bool) -> bool {
        self.subs.in_scope().all(|(key, sub)| holds(key, sub))
    }
    fn all_slots(&self, holds: impl Fn(&Slot<F>) -> bool) -> bool {
        self.slots.iter().all(|(_, slot)| holds(slot))
    }
    /// Returns whether the key is eligible in an open pool and has not more loans than a lowered `max_active`.
    fn could_be_served(&self, key: SubKey, sub: &Sub<F>) -> bool {
        let grows = self.options.when_exhausted == WhenExhausted::Grow;
        let lowered = !grows && sub.active > self.limits.max_active;
        !self.closed && !lowered && self.is_eligible(key)
    }
}

/// The slots of one key, counted by their states.
#[derive(Clone, Debug, Default)]
struct Tally {
    total: usize,
    active: usize,
    idle: usize,
    adding: usize,
    leaving: usize,
    outside: usize,
    in_time: usize,
    overdue: usize,
    dropped: usize,
}

thread_local! {
    /// Kept, so that a test which counts allocations may run with the invariants.
    static TALLIES: RefCell<Vec<Tally>> = const { RefCell::new(Vec::new()) };
}

/// Counts the slots of all keys in one pass, and returns whether each key has the right numbers.
fn all_tallies<F: Form>(state: &State<F>, is_right: impl Fn(&Sub<F>, &Tally) -> bool) -> bool {
    TALLIES.with_borrow_mut(|tallies| {
        tallies.clear();
        for (_, slot) in state.slots.iter() {
            let key = slot.key.index();
            tallies.resize(tallies.len().max(key + 1), Tally::default());
            let tally = &mut tallies[key];
            let is_outside = matches!(slot.state, SlotState::Replaced | SlotState::Reclaimed);
            tally.outside += usize::from(is_outside);
            tally.total += usize::from(!is_outside);
            match slot.state {
                SlotState::Lent => tally.active += 1,
                SlotState::Idle => tally.idle += 1,
                SlotState::Adding => tally.adding += 1,
                SlotState::Leaving | SlotState::Marked => tally.leaving += 1,
                SlotState::Replaced | SlotState::Reclaimed => {}
            }
            match slot.order {
                Order::None => {}
                Order::InTime => tally.in_time += 1,
                Order::Overdue => tally.overdue += 1,
                Order::Dropped => tally.dropped += 1,
            }
        }
        let none = Tally::default();
        let mut keys = state.subs.iter();
        keys.all(|(key, sub)| is_right(sub, tallies.get(key.index()).unwrap_or(&none)))
    })
}

fn counts<F: Form>(state: &State<F>) -> bool {
    let count =
        |is: fn(SlotState) -> bool| state.slots.iter().filter(|(_, slot)| is(slot.state)).count();
    let in_total =
        |slot| !matches!(slot, SlotState::Replaced | SlotState::Reclaimed | SlotState::Marked);
    state.total == count(in_total)
        && state.active == count(|slot| slot == SlotState::Lent)
        && state.idle == count(|slot| slot == SlotState::Idle)
        && state.leaving == count(|slot| slot == SlotState::Leaving)
        && state.tested == state.slots.iter().filter(|(_, slot)| slot.tested).count()
        && all_tallies(state, |sub, tally| {
            sub.total == tally.total
                && sub.active == tally.active
                && sub.idle.len() == tally.idle
                && sub.adding == tally.adding
                && sub.leaving == tally.leaving
                && sub.outside == tally.outside
        })
}

fn max_total<F: Form>(state: &State<F>) -> bool {
    !state.exact() || state.total <= state.limits.max_total
}

fn max_active<F: Form>(state: &State<F>) -> bool {
    let bounded = state.exact() && state.options.when_exhausted != WhenExhausted::Grow;
    !bounded || state.all_keys(|_, sub| sub.active <= state.limits.max_active)
}

fn max_total_per_key<F: Form>(state: &State<F>) -> bool {
    !state.exact() || state.all_keys(|_, sub| sub.total <= state.limits.max_total_per_key)
}

fn max_idle<F: Form>(state: &State<F>) -> bool {
    state.all_keys(|_, sub| {
        let idle = (sub.idle.len() - sub.tested).saturating_sub(sub.retrying);
        idle <= state.limits.max_idle()
    })
}

fn one_place<F: Form>(state: &State<F>) -> bool {
    state.all_slots(|slot| {
        let here = !matches!(slot.content, Content::Nothing);
        match slot.state {
            SlotState::Idle => here != slot.tested,
            SlotState::Replaced => here,
            SlotState::Adding | SlotState::Leaving => !here,
            // With the borrower, or granted and not picked up yet.
            SlotState::Lent | SlotState::Reclaimed | SlotState::Marked => true,
        }
    })
}

fn epoch<F: Form>(state: &State<F>) -> bool {
    state
        .all_slots(|slot| slot.epoch == state.epoch || slot.tested || slot.state != SlotState::Idle)
}

fn lifetime<F: Form>(state: &State<F>) -> bool {
    let lives = |slot| matches!(slot, SlotState::Idle | SlotState::Lent | SlotState::Adding);
    state.lifetimes.is_none()
        || state.all_slots(|slot| !lives(slot.state) || slot.expired || slot.life.is_linked())
}

fn closed<F: Form>(state: &State<F>) -> bool {
    let left = |slot: &Slot<F>| slot.state == SlotState::Idle && !slot.tested;
    let ordered = state.creating + state.overdue;
    !state.closed || state.waiting + ordered == 0 && state.all_slots(|slot| !left(slot))
}

fn idle_order<F: Form>(state: &State<F>) -> bool {
    // Compared pair by pair: a test for allocations runs with the invariants.
    let of_key = |list: &List<InIdle>| {
        let slots = list.iter(&state.slots).map(|slot| &state.slots[slot]);
        slots.map(|slot| (slot.since, slot.nth_idle)).is_sorted()
    };
    state.all_keys(|_, sub| of_key(&sub.idle))
}

fn age_order<F: Form>(state: &State<F>) -> bool {
    let of_all = |list: &List<InAge>| {
        let slots = list.iter(&state.slots).map(|slot| &state.slots[slot]);
        slots.map(|slot| (slot.since, slot.nth_idle)).is_sorted()
    };
    of_all(&state.by_age) && state.by_age.len() == state.idle && state.spare_is_known()
}

fn waiting<F: Form>(state: &State<F>) -> bool {
    let waiting: usize = state.subs.iter().map(|(_, sub)| sub.queue.len()).sum();
    let retrying: usize = state.subs.iter().map(|(_, sub)| sub.retrying).sum();
    state.waiting == waiting && state.retrying == retrying && retrying == called(state)
}

/// Returns how many waiters were woken to retry, and have not.
fn called<F: Form>(state: &State<F>) -> usize {
    state.waiters.outcomes().filter(|outcome| matches!(outcome, Outcome::Retry)).count()
}

fn orders<F: Form>(state: &State<F>) -> bool {
    let count = |order: Order| state.slots.iter().filter(|(_, slot)| slot.order == order).count();
    let sorted = |list: &List<InIdle>| {
        list.iter(&state.slots).map(|slot| state.slots[slot].ordered_at).is_sorted()
    };
    state.creating == count(Order::InTime)
        && state.overdue == count(Order::Overdue)
        && state.dropping == count(Order::Dropped)
        && state.all_slots(|slot| match slot.order {
            Order::None => true,
            Order::InTime | Order::Overdue => slot.state == SlotState::Adding,
            Order::Dropped => slot.state == SlotState::Leaving,
        })
        && all_tallies(state, |sub, tally| {
            sub.orders.len() == tally.in_time
                && sub.overdue.len() == tally.overdue
                && sub.dropping == tally.dropped
                && sorted(&sub.overdue)
        })
}

fn max_creating<F: Form>(state: &State<F>) -> bool {
    !state.creates || state.creating <= state.options.max_creating
}

fn ordered<F: Form>(state: &State<F>) -> bool {
    let may_create = state.creates && !state.closed && !state.creates_enough();
    let room = state.total < state.limits.max_total;
    let gives_way = !state.giving_way.is_empty() && state.dropping == 0;
    !may_create || state.to_order.is_empty() || !(room || gives_way)
}

fn line<F: Form>(state: &State<F>) -> bool {
    let lends = |key| state.line.iter().find(|(_, other)| *other == key).map(|line| line.0);
    let orders = |key| state.to_order.iter().find(|(_, other)| *other == key).map(|line| line.0);
    state.all_keys(|key, _| (lends(key), orders(key)) == state.tickets_in_lines(key))
}

fn exact_wake_up<F: Form>(state: &State<F>) -> bool {
    let free = state.free();
    !state.options.fair || state.all_keys(|key, sub| !state.could_be_served(key, sub) || free == 0)
}

fn barging<F: Form>(state: &State<F>) -> bool {
    let free = state.free();
    state.options.fair
        || state.all_keys(|key, sub| !state.could_be_served(key, sub) || called(state) >= free)
}
