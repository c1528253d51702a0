//! The pool's invariants, by the names that `spec/` gives them: asserted at the end of every critical
//! section in builds with debug assertions.

use super::factory::Form;
use super::options::WhenExhausted;
use super::slot::{Content, InAge, InIdle, Place, Slot};
use super::state::State;
use crate::collections::slab_list::{Key, List};

macro_rules! holds {
    ($name:literal, $condition:expr, $($say:tt)+) => {
        assert!($condition, "{} does not hold: {}", $name, format_args!($($say)+))
    };
}

impl<F: Form> State<F> {
    pub(super) fn assert_invariants(&self) {
        self.assert_counts();
        self.assert_limits();
        self.assert_places();
        self.assert_order();
        self.assert_waiters();
        // No invariants of the machine, which looks at all keys where the pool has a list of them, and in whose
        // stock everything idle is.
        debug_assert!(self.knows_what_is_below_minimum(), "a key is filled up, or not, wrongly");
    }

    fn count(&self, of: Option<Key>, is: impl Fn(Place) -> bool) -> usize {
        let slots = self.slots.iter().map(|(_, slot)| slot);
        slots.filter(|slot| of.is_none_or(|key| key == slot.key) && is(slot.place)).count()
    }

    /// INV-RP-COUNTS: every number is that of the slots it counts.
    fn assert_counts(&self) {
        let counted = |place| !matches!(place, Place::Replaced | Place::Reclaimed);
        let leaves = |place| matches!(place, Place::Leaving | Place::Condemned);
        let total = self.count(None, |place| counted(place) && place != Place::Condemned);
        holds!("INV-RP-COUNTS", self.total == total, "total {} of {total}", self.total);
        let active = self.count(None, |place| place == Place::Lent);
        holds!("INV-RP-COUNTS", self.active == active, "active {} of {active}", self.active);
        let idle = self.count(None, |place| place == Place::Idle);
        holds!("INV-RP-COUNTS", self.idle == idle, "idle {} of {idle}", self.idle);
        let leaving = self.count(None, |place| place == Place::Leaving);
        holds!("INV-RP-COUNTS", self.leaving == leaving, "leaving {} of {leaving}", self.leaving);
        for (index, sub) in &self.subs {
            let of = Some(Key::new(index));
            let numbers = [
                (sub.total, self.count(of, counted)),
                (sub.active, self.count(of, |place| place == Place::Lent)),
                (sub.in_stock(), self.count(of, |place| place == Place::Idle)),
                (sub.adding, self.count(of, |place| place == Place::Adding)),
                (sub.leaving, self.count(of, leaves)),
                (sub.outside, self.count(of, |place| !counted(place))),
            ];
            for (number, counted) in numbers {
                holds!("INV-RP-COUNTS", number == counted, "key {index}: {numbers:?}");
            }
        }
    }

    /// INV-RP-MAX-IDLE: stock is within its limit, but for what a test keeps from leaving. INV-RP-MAX-ACTIVE,
    /// INV-RP-MAX-TOTAL, INV-RP-MAX-TOTAL-PER-KEY: so is what is lent, and what exists, as long as no limit
    /// was lowered, and no place was taken from a borrower that gives it back.
    fn assert_limits(&self) {
        let exact = !self.resized && !self.options.remove_abandoned;
        let (total, most) = (self.total, self.limits.max_total);
        holds!("INV-RP-MAX-TOTAL", !exact || total <= most, "{total} of {most}");
        let bounded = exact && self.options.when_exhausted != WhenExhausted::Grow;
        for (index, sub) in &self.subs {
            let (active, most) = (sub.active, self.limits.max_active);
            let within = !bounded || active <= most;
            holds!("INV-RP-MAX-ACTIVE", within, "key {index}: {active} of {most}");
            let (total, most) = (sub.total, self.limits.max_total_per_key);
            let within = !exact || total <= most;
            holds!("INV-RP-MAX-TOTAL-PER-KEY", within, "key {index}: {total} of {most}");
            // Who was woken to try again is on its way to one.
            let idle = (sub.in_stock() - sub.tested).saturating_sub(sub.retrying);
            let most = self.limits.max_idle();
            holds!("INV-RP-MAX-IDLE", idle <= most, "key {index}: {idle} of {most}");
        }
    }

    /// INV-RP-ONE-PLACE: the content is where the place says. INV-RP-EPOCH, INV-RP-LIFETIME: what is in
    /// stock may be lent, and what lives has its end. INV-RP-CLOSED: a closed pool keeps nothing that it can
    /// let go.
    fn assert_places(&self) {
        for (index, slot) in &self.slots {
            let here = !matches!(slot.content, Content::Nothing);
            let right = match slot.place {
                Place::Idle => here != slot.tested,
                Place::Replaced => here,
                Place::Adding | Place::Leaving => !here,
                // With the borrower, or granted and not picked up yet.
                Place::Lent | Place::Reclaimed | Place::Condemned => true,
            };
            holds!("INV-RP-ONE-PLACE", right, "slot {index} is {:?}", slot.place);
            let current = slot.epoch == self.epoch || slot.tested || slot.place != Place::Idle;
            holds!("INV-RP-EPOCH", current, "slot {index} of an older epoch is in stock");
            let life = !self.lifetimes.is_some_and(|_| {
                matches!(slot.place, Place::Idle | Place::Lent | Place::Adding)
                    && !slot.expired
                    && !slot.life.is_linked()
            });
            holds!("INV-RP-LIFETIME", life, "slot {index} has no end");
            let may_stay = !self.closed || slot.place != Place::Idle || slot.tested;
            holds!("INV-RP-CLOSED", may_stay, "slot {index} is in a closed pool's stock");
        }
        let tested = self.slots.iter().filter(|(_, slot)| slot.tested).count();
        holds!("INV-RP-COUNTS", tested == self.tested, "tested {} of {tested}", self.tested);
        holds!("INV-RP-CLOSED", !self.closed || self.waiting == 0, "{} wait", self.waiting);
    }

    /// INV-RP-IDLE-ORDER: who came back first is the first, in each list of idle ones; what is not finished is in
    /// lists of its own. (Without a list of
    /// its own: what allocates nothing is to be seen in builds that look at the invariants, too.)
    fn assert_order(&self) {
        for (index, sub) in &self.subs {
            let of_key = |list: &List<InIdle>, unfinished: bool| {
                let slots = || list.iter(&self.slots).map(|slot| &self.slots[slot.index()]);
                let is = |slot: &Slot<F>| matches!(slot.content, Content::Unfinished(_));
                slots().all(|slot| is(slot) == unfinished)
                    && slots().map(|slot| (slot.since, slot.nth_idle)).is_sorted()
            };
            let sorted = of_key(&sub.idle, false) && of_key(&sub.unfinished, true);
            holds!("INV-RP-IDLE-ORDER", sorted, "key {index}");
        }
        let of_all = |list: &List<InAge>| {
            let slots = list.iter(&self.slots).map(|slot| &self.slots[slot.index()]);
            slots.map(|slot| (slot.since, slot.nth_idle)).is_sorted()
        };
        let number: usize = self.subs.iter().map(|(_, sub)| sub.unfinished.len()).sum();
        let unfinished = self.unfinished.len() == number && of_all(&self.unfinished);
        holds!("INV-RP-IDLE-ORDER", unfinished, "of what is not finished");
        let complete = self.by_age.len() + self.unfinished.len() == self.idle;
        holds!("INV-RP-IDLE-ORDER", of_all(&self.by_age) && complete, "over all keys");
        holds!("INV-RP-IDLE-ORDER", self.knows_what_is_spare(), "beyond the minimum");
    }

    /// INV-RP-WAITING, INV-RP-LINE, INV-RP-EXACT-WAKE-UP, INV-RP-BARGING.
    fn assert_waiters(&self) {
        let waiting: usize = self.subs.iter().map(|(_, sub)| sub.queue.len()).sum();
        holds!("INV-RP-WAITING", self.waiting == waiting, "{} of {waiting}", self.waiting);
        let retrying: usize = self.subs.iter().map(|(_, sub)| sub.retrying).sum();
        holds!("INV-RP-WAITING", self.retrying == retrying, "retrying {}", self.retrying);
        let mut line = 0;
        for (index, sub) in &self.subs {
            let key = Key::new(index);
            let wanted = match self.is_eligible(key) {
                true => self.waiters.front_ticket(&sub.queue),
                false => None,
            };
            let in_line = self.line.iter().find(|(_, other)| *other == key);
            let right = in_line.map(|(ticket, _)| ticket) == wanted;
            holds!("INV-RP-LINE", right, "key {index} stands in line wrongly");
            line += usize::from(wanted.is_some());
            let block = self.options.when_exhausted != WhenExhausted::Grow;
            let lowered = sub.active > self.limits.max_active;
            if self.closed || block && lowered || !self.is_eligible(key) {
                continue;
            }
            if self.options.fair {
                let free = self.free();
                holds!("INV-RP-EXACT-WAKE-UP", free == 0, "key {index} waits, {free} are free");
            } else {
                let on_their_way = self.retrying >= self.free();
                holds!("INV-RP-BARGING", on_their_way, "key {index} sleeps beside what is free");
            }
        }
        holds!("INV-RP-LINE", self.line.len() == line, "{} in line", self.line.len());
    }
}
