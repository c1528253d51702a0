//! What is in stock: how a resource becomes idle or leaves, and what the limits, a clear and a close make of
//! it.

use super::effects::{Dead, Effect, Effects};
use super::factory::Form;
use super::guard::Loan;
use super::slot::{Content, Place};
use super::state::{CLASSES, Outcome, State};
use crate::slab_list::{Key, List};

impl<F: Form> State<F> {
    /// The one that is lent next: the newest, or the oldest if the pool is `fifo`. Passes over those that
    /// are being tested.
    #[inline]
    pub(super) fn stock_of(&self, key: Key) -> Option<Key> {
        let idle = &self.subs[key.index()].idle;
        let mut at = if self.options.fifo { idle.front() } else { idle.back() };
        while let Some(slot) = at
            && self.slots[slot.index()].tested
        {
            at = match self.options.fifo {
                true => List::<super::slot::InIdle>::after(&self.slots, slot),
                false => List::<super::slot::InIdle>::before(&self.slots, slot),
            };
        }
        at
    }

    /// The same, but for those that have been there for too long, or have lived for too long: they leave.
    #[inline]
    pub(super) fn fresh_stock_of(&mut self, key: Key, fx: &mut Effects<F>) -> Option<Key> {
        let mut slot = self.stock_of(key);
        while self.timed
            && let Some(stale) = slot
            && self.is_stale(stale)
        {
            self.evict(stale, fx);
            slot = self.stock_of(key);
        }
        slot
    }

    /// The idle one, of any key, that came back longest ago.
    pub(super) fn least_recently_used(&self) -> Option<Key> {
        self.by_age().find(|slot| !self.slots[slot.index()].tested)
    }

    /// All idle ones, the oldest first.
    pub(super) fn by_age(&self) -> impl Iterator<Item = Key> + use<'_, F> {
        let one = (!self.keyed).then(|| self.subs[0].idle.iter(&self.slots));
        let all = self.keyed.then(|| self.by_age.iter(&self.slots));
        one.into_iter().flatten().chain(all.into_iter().flatten())
    }

    /// Out of the lists of idle ones.
    #[inline]
    pub(super) fn leave_stock(&mut self, slot: Key) {
        let entry = &self.slots[slot.index()];
        let (key, tested) = (entry.key, entry.tested);
        let sub = &mut self.subs[key.index()];
        sub.idle.remove(&mut self.slots, slot);
        sub.tested -= usize::from(tested);
        self.tested -= usize::from(tested);
        self.idle -= 1;
        if self.keyed {
            self.by_age.remove(&mut self.slots, slot);
        }
        if self.options.test_while_idle {
            self.turns.remove(&mut self.slots, slot);
        }
    }

    /// The loan is over; false if it had been taken back before.
    #[inline]
    pub(super) fn end_loan(&mut self, slot: Key) -> bool {
        let entry = &self.slots[slot.index()];
        if entry.place == Place::Reclaimed {
            return false;
        }
        let key = entry.key;
        if self.abandoned_after.is_some() && entry.lent.is_linked() {
            self.lent.remove(&mut self.slots, slot);
        }
        self.subs[key.index()].active -= 1;
        self.active -= 1;
        true
    }

    /// A borrower gives it back: to the oldest waiter that can use it, else into stock.
    #[inline]
    pub(super) fn give_back(&mut self, slot: Key, content: Content<F>, fx: &mut Effects<F>) {
        match self.end_loan(slot) {
            true => self.stock(slot, content, fx),
            false => self.give_back_late(slot, content, fx),
        }
    }

    /// It had been given up for lost.
    #[cold]
    fn give_back_late(&mut self, slot: Key, content: Content<F>, fx: &mut Effects<F>) {
        let dead = self.bury(slot, fx);
        fx.push(Effect::Destroy(Dead { content, ..dead }));
    }

    /// A borrower gives back the place for a resource that was not made, or keeps the resource for good.
    pub(super) fn give_back_place(&mut self, slot: Key, fx: &mut Effects<F>) {
        let key = self.slots[slot.index()].key;
        match self.end_loan(slot) {
            true => {
                self.remove(slot);
                self.left(key, fx);
            }
            false => drop(self.bury(slot, fx)),
        }
    }

    /// A borrower gives it up: it is destroyed.
    pub(super) fn invalidate(&mut self, slot: Key, content: Content<F>, fx: &mut Effects<F>) {
        if !self.end_loan(slot) {
            return self.give_back_late(slot, content, fx);
        }
        let key = self.slots[slot.index()].key;
        self.leave(slot, content, fx);
        self.changed(key, fx);
    }

    /// It is lent for so long that its place is given to others.
    pub(super) fn reclaim(&mut self, slot: Key, fx: &mut Effects<F>) {
        self.end_loan(slot);
        self.end_life(slot);
        self.count_out(slot, Place::Reclaimed);
        let key = self.slots[slot.index()].key;
        self.left(key, fx);
    }

    /// What nobody has any more becomes idle, or leaves if it must not be lent again or there is no room.
    #[inline]
    pub(super) fn stock(&mut self, slot: Key, content: Content<F>, fx: &mut Effects<F>) {
        let entry = &mut self.slots[slot.index()];
        let key = entry.key;
        let old = entry.epoch != self.epoch || entry.expired;
        if self.closed || old || self.has_too_many(key) || self.timed && self.has_outlived(slot) {
            self.leave(slot, content, fx);
            return self.changed(key, fx);
        }
        let sub = &mut self.subs[key.index()];
        let entry = &mut self.slots[slot.index()];
        entry.place = Place::Idle;
        entry.content = content;
        if self.timed {
            entry.since = self.clock.now();
        }
        sub.idle.push_back(&mut self.slots, slot);
        self.idle += 1;
        if self.keyed {
            self.by_age.push_back(&mut self.slots, slot);
        }
        if self.options.test_while_idle {
            self.turns.push_back(&mut self.slots, slot);
        }
        self.changed(key, fx);
        if self.subs[key.index()].idle.len() > self.limits.max_idle()
            && self.slots[slot.index()].place == Place::Idle
        {
            self.evict(slot, fx);
        }
        if self.limits.min_idle > 0 {
            self.watch_minimum(key, fx);
        }
        self.is_idle_due(key, fx);
    }

    /// After a limit was lowered.
    pub(super) fn has_too_many(&self, key: Key) -> bool {
        let sub = &self.subs[key.index()];
        self.total - self.leaving > self.limits.max_total
            || sub.total - sub.leaving > self.limits.max_total_per_key
    }

    fn is_there(&self, slot: Key) -> bool {
        !self.slots[slot.index()].tested
    }

    /// An idle one leaves.
    pub(super) fn evict(&mut self, slot: Key, fx: &mut Effects<F>) {
        if self.slots[slot.index()].tested {
            // Its tester has it, and will find this.
            self.slots[slot.index()].expired = true;
            return;
        }
        self.leave_stock(slot);
        let content = self.slots[slot.index()].content.take();
        self.leave(slot, content, fx);
        if self.waiting > 0 {
            self.stand_in_line(self.slots[slot.index()].key);
        }
    }

    /// It leaves the pool: to be destroyed after the section, and counted until then.
    pub(super) fn leave(&mut self, slot: Key, content: Content<F>, fx: &mut Effects<F>) {
        self.end_life(slot);
        let entry = &mut self.slots[slot.index()];
        entry.place = Place::Leaving;
        let key = entry.key;
        let sub = &mut self.subs[key.index()];
        sub.leaving += 1;
        self.leaving += 1;
        let meta = sub.metadata.clone();
        fx.push(Effect::Destroy(Dead { slot: Some(slot), content, meta }));
        if self.limits.min_idle > 0 {
            self.watch_minimum(key, fx);
        }
    }

    /// It has been destroyed.
    pub(super) fn destroyed(&mut self, slot: Key, fx: &mut Effects<F>) {
        let key = self.slots[slot.index()].key;
        self.subs[key.index()].leaving -= 1;
        self.leaving -= 1;
        self.remove(slot);
        self.left(key, fx);
    }

    /// One resource of the key exists no more.
    pub(super) fn left(&mut self, key: Key, fx: &mut Effects<F>) {
        self.changed(key, fx);
        if self.limits.min_idle > 0 {
            self.watch_minimum(key, fx);
            // There is room for one more, of whatever key.
            let due = self.next_filling();
            self.is_due(due, fx);
        }
        self.forget_if_empty(key, fx);
        self.tell_if_over(fx);
    }

    pub(super) fn tell_if_over(&mut self, fx: &mut Effects<F>) {
        if self.is_over() {
            while !self.closing.is_empty() {
                fx.wake(self.waiters.resolve_front(&mut self.closing, Outcome::Closed));
            }
        }
    }

    /// Room for one more in stock, made outside the lock.
    pub(super) fn reserve_stock(&mut self, key: Key, fx: &mut Effects<F>) -> Option<Key> {
        let sub = &self.subs[key.index()];
        let full = sub.idle.len().saturating_add(sub.adding) >= self.limits.max_idle()
            || self.total >= self.limits.max_total
            || sub.total >= self.limits.max_total_per_key;
        if full {
            return None;
        }
        let sub = &mut self.subs[key.index()];
        sub.adding += 1;
        if sub.below_minimum.is_linked() && sub.idle.len() + sub.adding >= self.limits.min_idle {
            self.below_minimum.remove(&mut self.subs, key);
        }
        let slot = self.reserve(key, Place::Adding);
        if self.waiting > 0 {
            self.stand_in_line(key);
        }
        if self.limits.min_idle > 0 {
            self.watch_minimum(key, fx);
        }
        Some(slot)
    }

    /// What was made for stock, if it was.
    pub(super) fn added(&mut self, slot: Key, made: Option<Box<Loan<F>>>, fx: &mut Effects<F>) {
        let key = self.slots[slot.index()].key;
        self.subs[key.index()].adding -= 1;
        match made {
            Some(loan) => self.stock(slot, Content::Ready(loan), fx),
            None => {
                self.remove(slot);
                self.left(key, fx);
            }
        }
        if self.limits.min_idle > 0 && self.subs.contains(key.index()) {
            self.watch_minimum(key, fx);
        }
    }

    /// All idle ones of the key leave.
    pub(super) fn clear_key(&mut self, key: Key, fx: &mut Effects<F>) {
        let mut at = self.subs[key.index()].idle.front();
        while let Some(slot) = at {
            at = List::<super::slot::InIdle>::after(&self.slots, slot);
            self.evict(slot, fx);
        }
    }

    /// All idle ones leave.
    pub(super) fn clear(&mut self, fx: &mut Effects<F>) {
        self.for_all_keys(|state, key| state.clear_key(key, fx));
    }

    /// All idle ones leave, and what else exists will. One section, so that none of them is lent after it.
    pub(super) fn clear_all(&mut self, fx: &mut Effects<F>) {
        self.epoch += 1;
        self.clear(fx);
    }

    /// From now on nobody is served: those who wait are told, and what is idle leaves.
    pub(super) fn close(&mut self, fx: &mut Effects<F>) {
        self.closed = true;
        fx.push(Effect::StopMaintenance);
        self.for_all_keys(|state, key| state.close_key(key, fx));
        self.tell_if_over(fx);
    }

    fn close_key(&mut self, key: Key, fx: &mut Effects<F>) {
        while !self.subs[key.index()].queue.is_empty() {
            let queue = &mut self.subs[key.index()].queue;
            fx.wake(self.waiters.resolve_front(queue, Outcome::Closed));
            self.waiting -= 1;
        }
        self.stand_in_line(key);
        self.clear_key(key, fx);
        self.forget_if_empty(key, fx);
    }

    /// After a limit was changed: what is too much leaves, the longest idle first, and who can now be
    /// served is. One section, for all keys are under the new limits at once.
    pub(super) fn fit(&mut self, fx: &mut Effects<F>) {
        self.for_all_keys(|state, key| state.fit_key(key, fx));
        while self.total - self.leaving > self.limits.max_total
            && let Some(slot) = self.least_recently_used()
        {
            self.evict(slot, fx);
        }
        self.for_all_keys(|state, key| state.stand_in_line(key));
        self.settle(fx);
        self.for_all_keys(|state, key| state.forget_if_empty(key, fx));
    }

    fn fit_key(&mut self, key: Key, fx: &mut Effects<F>) {
        loop {
            let sub = &self.subs[key.index()];
            let too_many = sub.idle.len() > self.limits.max_idle()
                || sub.total - sub.leaving > self.limits.max_total_per_key;
            if !too_many {
                break;
            }
            let oldest = sub.idle.iter(&self.slots).find(|slot| self.is_there(*slot));
            let Some(slot) = oldest else { break };
            self.evict(slot, fx);
        }
        // Also if there is no minimum any more.
        self.watch_minimum(key, fx);
    }

    fn for_all_keys(&mut self, mut action: impl FnMut(&mut Self, Key)) {
        for index in 0..self.subs.capacity() {
            if self.subs.contains(index) {
                action(self, Key::new(index));
            }
        }
    }

    pub(super) fn begin_life(&mut self, slot: Key) {
        if self.lifetimes.is_some() {
            let class = usize::from(self.slots[slot.index()].class) % CLASSES;
            self.lives[class].push_back(&mut self.slots, slot);
        }
    }
    #[inline]
    pub(super) fn end_life(&mut self, slot: Key) {
        if self.lifetimes.is_some() {
            let entry = &self.slots[slot.index()];
            if entry.life.is_linked() {
                self.lives[usize::from(entry.class)].remove(&mut self.slots, slot);
            }
        }
    }
}
