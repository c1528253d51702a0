//! The invariants of the pool, by the names that `spec/` gives them.

use super::names::SubKey;
use super::options::WhenExhausted;
use super::slot::{Content, InAge, InIdle, Order, Slot, SlotState, Sub};
use super::state::{Outcome, State};
use crate::kernel::collections::list::List;
use crate::kernel::section::{Invariant, invariants};
use crate::resource_pool::api::factory::Form;

impl<F: Form> State<F> {
    pub(crate) const INVARIANTS: &'static [Invariant<Self>] = invariants! {
        "INV-RP-COUNTS" "every number is that of the slots it counts" counts;
        "INV-RP-MAX-TOTAL" "at most max_total resources exist, unless the limit was lowered" max_total;
        "INV-RP-MAX-ACTIVE" "at most max_active resources of a key are lent, unless the limit was lowered" max_active;
        "INV-RP-MAX-TOTAL-PER-KEY" "at most max_total_per_key resources of a key exist, unless the limit was lowered" max_total_per_key;
        "INV-RP-MAX-IDLE" "at most max_idle resources of a key are idle, besides those that are tested or that a retrying waiter is on its way to" max_idle;
        "INV-RP-ONE-PLACE" "a slot has content exactly if its state says so" one_place;
        "INV-RP-EPOCH" "no idle resource is older than the last clear_all" epoch;
        "INV-RP-LIFETIME" "every resource whose lifetime has not ended is in a list of lifetimes" lifetime;
        "INV-RP-CLOSED" "a closed pool has no waiter, orders no creation, and has no idle resource that is not tested" closed;
        "INV-RP-IDLE-ORDER" "each list of idle resources is ordered by their return, and complete" idle_order;
        "INV-RP-WAITING" "waiting and retrying are the numbers of such borrowers" waiting;
        "INV-RP-ORDERS" "each creation that the pool ordered is in its list, and counted" orders;
        "INV-RP-MAX-CREATING" "at most max_creating creations are in flight and not overdue, where the pool creates" max_creating;
        "INV-RP-ORDERED" "where the pool creates, a key that lacks a creation has no place for one" ordered;
        "INV-RP-LINE" "the eligible keys stand in line, by the tickets of their oldest waiters" line;
        "INV-RP-EXACT-WAKE-UP" "in a fair pool nothing is free while an eligible key waits" exact_wake_up;
        "INV-RP-BARGING" "in a barging pool as many waiters retry as can be served" barging;
    };

    fn count(&self, of: Option<SubKey>, is: impl Fn(SlotState) -> bool) -> usize {
        let slots = self.slots.iter().map(|(_, slot)| slot);
        slots.filter(|slot| of.is_none_or(|key| key == slot.key) && is(slot.state)).count()
    }
    /// Returns whether limits hold exactly: they are unchanged, and abandoned loans keep their places.
    fn exact(&self) -> bool {
        !self.resized && !self.options.remove_abandoned
    }
    fn all_keys(&self, holds: impl Fn(SubKey, &Sub<F>) -> bool) -> bool {
        self.subs.iter().all(|(key, sub)| holds(key, sub))
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

fn counts<F: Form>(state: &State<F>) -> bool {
    let counted = |slot| !matches!(slot, SlotState::Replaced | SlotState::Reclaimed);
    let leaves = |slot| matches!(slot, SlotState::Leaving | SlotState::Marked);
    let in_total = |slot| counted(slot) && slot != SlotState::Marked;
    state.total == state.count(None, in_total)
        && state.active == state.count(None, |slot| slot == SlotState::Lent)
        && state.idle == state.count(None, |slot| slot == SlotState::Idle)
        && state.leaving == state.count(None, |slot| slot == SlotState::Leaving)
        && state.tested == state.slots.iter().filter(|(_, slot)| slot.tested).count()
        && state.all_keys(|key, sub| {
            let of = Some(key);
            sub.total == state.count(of, counted)
                && sub.active == state.count(of, |slot| slot == SlotState::Lent)
                && sub.idle.len() == state.count(of, |slot| slot == SlotState::Idle)
                && sub.adding == state.count(of, |slot| slot == SlotState::Adding)
                && sub.leaving == state.count(of, leaves)
                && sub.outside == state.count(of, |slot| !counted(slot))
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
    let of_all = |list: &List<InAge>| {
        let slots = list.iter(&state.slots).map(|slot| &state.slots[slot]);
        slots.map(|slot| (slot.since, slot.nth_idle)).is_sorted()
    };
    state.all_keys(|_, sub| of_key(&sub.idle))
        && of_all(&state.by_age)
        && state.by_age.len() == state.idle
        && state.spare_is_known()
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
    let slots = |of: Option<SubKey>, order: Order| {
        let all = state.slots.iter().map(|(_, slot)| slot);
        all.filter(move |slot| of.is_none_or(|key| key == slot.key) && slot.order == order).count()
    };
    let sorted = |list: &List<InIdle>| {
        list.iter(&state.slots).map(|slot| state.slots[slot].ordered_at).is_sorted()
    };
    state.creating == slots(None, Order::InTime)
        && state.overdue == slots(None, Order::Overdue)
        && state.dropping == slots(None, Order::Dropped)
        && state.all_slots(|slot| match slot.order {
            Order::None => true,
            Order::InTime | Order::Overdue => slot.state == SlotState::Adding,
            Order::Dropped => slot.state == SlotState::Leaving,
        })
        && state.all_keys(|key, sub| {
            sub.orders.len() == slots(Some(key), Order::InTime)
                && sub.overdue.len() == slots(Some(key), Order::Overdue)
                && sub.dropping == slots(Some(key), Order::Dropped)
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
