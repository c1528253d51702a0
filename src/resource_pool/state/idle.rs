//! The idle list: how a resource becomes idle or leaves, and how limits, `clear` and `close` act on it.

use super::effects::{Dead, Effect, Effects};
use super::names::{SlotKey, SubKey};
use super::options::LendOrder;
use super::slot::{Content, InIdle, Order, Slot, SlotState, Sub};
use super::state::{CLASSES, Outcome, State};
use crate::kernel::clock::Time;
use crate::kernel::collections::list::List;
use crate::resource_pool::api::factory::Form;

impl<F: Form> State<F> {
    /// Returns the resource to lend next: the newest or the oldest, by `lend_order` (PROP-RP-ORDER). Skips resources
    /// under test.
    #[inline]
    pub(crate) fn next_idle(&self, key: SubKey) -> Option<SlotKey> {
        let idle = &self.subs[key].idle;
        let oldest_first = self.options.lend_order == LendOrder::OldestFirst;
        let mut at = if oldest_first { idle.front() } else { idle.back() };
        while let Some(slot) = at.filter(|slot| self.slots[*slot].tested) {
            at = match oldest_first {
                true => List::<InIdle>::after(&self.slots, slot),
                false => List::<InIdle>::before(&self.slots, slot),
            };
        }
        at
    }

    /// Like [`next_idle`](Self::next_idle), but evicts expired resources. Without a free place the last of them
    /// stays, as the victim of `grant_new`.
    #[inline]
    pub(crate) fn next_fresh_idle(
        &mut self,
        key: SubKey,
        has_place: bool,
        fx: &mut Effects<F>,
    ) -> Option<SlotKey> {
        let mut slot = self.next_idle(key);
        while let Some(stale) = slot.filter(|slot| self.timed && self.has_expired(*slot)) {
            if !has_place && self.subs[key].available() == 1 {
                return None;
            }
            self.evict(stale, fx);
            slot = self.next_idle(key);
        }
        slot
    }

    /// Iterates over the idle resources, oldest first.
    pub(crate) fn by_age(&self) -> impl Iterator<Item = SlotKey> + use<'_, F> {
        self.by_age.iter(&self.slots)
    }

    // Always inlined, as `end_loan`: the borrow, or the return, then touches the key once.
    #[inline(always)]
    pub(crate) fn remove_idle(&mut self, slot: SlotKey) {
        let entry = &self.slots[slot];
        let (key, tested) = (entry.key, entry.tested);
        let sub = self.subs.touch(key);
        sub.idle.remove(&mut self.slots, slot);
        sub.tested -= usize::from(tested);
        self.tested -= usize::from(tested);
        self.idle -= 1;
        self.by_age.remove(&mut self.slots, slot);
        if self.options.test_while_idle {
            self.turns.remove(&mut self.slots, slot);
        }
    }

    /// Stops counting the borrower's time: from here on the loan cannot look abandoned.
    #[inline]
    pub(crate) fn end_borrowers_time(&mut self, slot: SlotKey) {
        if self.abandoned_after.is_some() && self.slots[slot].lent.is_linked() {
            self.lent.remove(&mut self.slots, slot);
        }
    }

    /// Ends the loan; returns false if the pool reclaimed it before.
    #[inline(always)]
    pub(crate) fn end_loan(&mut self, slot: SlotKey) -> bool {
        let entry = &self.slots[slot];
        if entry.state == SlotState::Reclaimed {
            return false;
        }
        let key = entry.key;
        self.end_borrowers_time(slot);
        self.subs.touch(key).active -= 1;
        self.active -= 1;
        true
    }

    /// Returns a borrower's resource: the oldest waiter that can use it gets it, else it becomes idle.
    #[inline]
    pub(crate) fn give_back(&mut self, slot: SlotKey, content: Content<F>, fx: &mut Effects<F>) {
        match self.end_loan(slot) {
            true => self.become_idle(slot, content, fx),
            false => self.give_back_late(slot, content, fx),
        }
    }

    /// Destroys a resource that was abandoned and has come back.
    #[cold]
    fn give_back_late(&mut self, slot: SlotKey, content: Content<F>, fx: &mut Effects<F>) {
        let dead = self.remove_uncounted(slot);
        fx.push(Effect::Destroy(Dead { content, ..dead }));
    }

    /// Frees the place of a borrower whose creation failed, or that left it or detached its resource.
    pub(crate) fn give_back_place(&mut self, slot: SlotKey, fx: &mut Effects<F>) {
        let Slot { state, .. } = self.slots[slot];
        if matches!(state, SlotState::Adding | SlotState::Leaving) {
            self.added(slot, Content::Nothing, fx);
            return;
        }
        match self.end_loan(slot) {
            true => self.remove(slot),
            false => drop(self.remove_uncounted(slot)),
        }
    }

    pub(crate) fn invalidate(&mut self, slot: SlotKey, content: Content<F>, fx: &mut Effects<F>) {
        if !self.end_loan(slot) {
            return self.give_back_late(slot, content, fx);
        }
        self.leave(slot, content, fx);
    }

    /// Gives the place of an abandoned resource to others.
    pub(crate) fn reclaim(&mut self, slot: SlotKey) {
        self.end_loan(slot);
        self.end_life(slot);
        self.uncount(slot, SlotState::Reclaimed);
    }

    /// Makes a resource idle. It leaves instead if it must not be lent again, or has no room.
    #[inline]
    pub(crate) fn become_idle(&mut self, slot: SlotKey, content: Content<F>, fx: &mut Effects<F>) {
        let key = self.slots[slot].key;
        let now = self.now_if_timed();
        if self.must_leave_at(slot, now) {
            return self.leave(slot, content, fx);
        }
        let entry = &mut self.slots[slot];
        entry.state = SlotState::Idle;
        entry.since = now;
        self.times_idle += 1;
        entry.nth_idle = self.times_idle;
        self.idle += 1;
        entry.content = content;
        let sub = self.subs.touch(key);
        sub.made = true;
        sub.idle.push_back(&mut self.slots, slot);
        self.by_age.push_back(&mut self.slots, slot);
        if self.options.test_while_idle {
            self.turns.push_back(&mut self.slots, slot);
        }
        self.note_came(slot, key);
    }

    /// Notes that a resource became idle, for the end of the section, if something may follow from it alone.
    #[inline]
    pub(crate) fn note_came(&mut self, slot: SlotKey, key: SubKey) {
        if self.keeps_up || self.has_surplus(&self.subs[key]) {
            self.came = Some(slot);
        }
    }

    /// Returns whether a resource must not be lent again, or has no room.
    #[inline]
    pub(crate) fn must_leave(&self, slot: SlotKey) -> bool {
        self.must_leave_at(slot, self.now_if_timed())
    }
    #[inline]
    fn must_leave_at(&self, slot: SlotKey, now: Time) -> bool {
        let entry = &self.slots[slot];
        let old = entry.epoch != self.epoch || entry.expired;
        self.closed || old || self.has_too_many(entry.key) || self.has_outlived_at(slot, now)
    }

    /// Returns whether more than `max_idle` resources are idle. For each retrying waiter one idle resource is not
    /// counted: the waiter is about to take it (PROP-RP-CALLED-FOR).
    #[inline]
    pub(crate) fn has_surplus(&self, sub: &Sub<F>) -> bool {
        sub.idle.len() - sub.retrying.min(sub.idle.len()) > self.limits.max_idle()
    }

    /// Evicts one surplus resource of the key: the one that `came`, unless a waiter got it, else the oldest.
    #[cold]
    pub(crate) fn trim(&mut self, key: SubKey, came: Option<SlotKey>, fx: &mut Effects<F>) {
        let came = came.filter(|slot| self.slots[*slot].state == SlotState::Idle);
        if let Some(surplus) = came.or_else(|| self.oldest_of(key)) {
            self.evict(surplus, fx);
        }
    }

    /// Returns whether more resources exist than a lowered limit allows.
    pub(crate) fn has_too_many(&self, key: SubKey) -> bool {
        let sub = &self.subs[key];
        self.total - self.leaving > self.limits.max_total
            || sub.total - sub.leaving > self.limits.max_total_per_key
    }

    /// Evicts an idle resource; one under test leaves when the test ends.
    pub(crate) fn evict(&mut self, slot: SlotKey, fx: &mut Effects<F>) {
        if self.slots[slot].tested {
            // Its tester reads the flag when the test ends.
            self.slots[slot].expired = true;
            return;
        }
        self.remove_idle(slot);
        let content = self.slots[slot].content.take();
        self.leave(slot, content, fx);
    }

    /// Lets the resource leave: it is destroyed after the section and counts until then. The pool
    /// destroys every created resource that it does not detach (PROP-RP-NOTHING-LOST).
    pub(crate) fn leave(&mut self, slot: SlotKey, content: Content<F>, fx: &mut Effects<F>) {
        self.end_life(slot);
        let entry = &mut self.slots[slot];
        entry.state = SlotState::Leaving;
        let key = entry.key;
        let sub = self.subs.touch(key);
        sub.leaving += 1;
        self.leaving += 1;
        let meta = sub.metadata.clone();
        fx.push(Effect::Destroy(Dead { slot: Some(slot), content, meta }));
    }

    /// Frees the place of a resource that left, or of a victim of another key, once it is destroyed.
    pub(crate) fn destroyed(&mut self, slot: SlotKey) {
        let Slot { key, state, order, .. } = self.slots[slot];
        let dropped = usize::from(order == Order::Dropped);
        let sub = self.subs.touch(key);
        sub.leaving -= 1;
        sub.dropping -= dropped;
        self.leaving -= usize::from(state == SlotState::Leaving);
        self.dropping -= dropped;
        self.remove(slot);
    }

    pub(crate) fn notify_if_finished(&mut self, fx: &mut Effects<F>) {
        if self.is_finished() {
            fx.push(Effect::StopMaintenance);
            while !self.closing.is_empty() {
                fx.push(Effect::Wake(
                    self.waiters.resolve_front(&mut self.closing, Outcome::Closed),
                ));
            }
        }
    }

    pub(crate) fn clear_key(&mut self, key: SubKey, fx: &mut Effects<F>) {
        self.subs.touch(key).cleared += 1;
        let mut at = self.subs[key].idle.front();
        while let Some(slot) = at {
            at = List::<InIdle>::after(&self.slots, slot);
            self.evict(slot, fx);
        }
    }

    pub(crate) fn clear(&mut self, fx: &mut Effects<F>) {
        self.for_all_keys(|state, key| state.clear_key(key, fx));
    }

    /// Evicts all idle resources, and drops the pool's own creations: the waiters' share is ordered anew. All others
    /// leave when they come back, granted ones when they are picked up (PROP-RP-CLEAR-ALL). One section: no borrower
    /// takes an old resource in between.
    pub(crate) fn clear_all(&mut self, fx: &mut Effects<F>) {
        self.epoch += 1;
        self.for_all_keys(|state, key| {
            state.clear_key(key, fx);
            state.drop_orders_of(key, fx);
        });
    }

    /// Closes the pool: it serves no borrower, waiters fail, idle resources leave (PROP-RP-CLOSED). Lent ones leave
    /// when they come back or look abandoned; then the close is complete (PROP-RP-CLOSE-ENDS).
    pub(crate) fn close(&mut self, fx: &mut Effects<F>) {
        self.closed = true;
        self.keeps_up = true;
        fx.push(Effect::StopMaintenance);
        self.for_all_keys(|state, key| state.close_key(key, fx));
        self.let_fillers_look(fx);
        self.notify_if_finished(fx);
    }

    fn close_key(&mut self, key: SubKey, fx: &mut Effects<F>) {
        while !self.subs[key].queue.is_empty() {
            let queue = &mut self.subs.touch(key).queue;
            fx.push(Effect::Wake(self.waiters.resolve_front(queue, Outcome::Closed)));
            self.waiting -= 1;
        }
        self.clear_key(key, fx);
        self.drop_orders_of(key, fx);
    }

    /// Applies changed limits: evicts the surplus, longest idle first (PROP-RP-LOWERED). The end of the section serves the
    /// waiters that now have room. One section: the new limits hold for all keys at once.
    pub(crate) fn fit(&mut self, fx: &mut Effects<F>) {
        self.keeps_up = true;
        self.for_all_keys(|state, key| state.fit_key(key, fx));
        while self.total - self.leaving > self.limits.max_total {
            let Some(slot) = self.oldest_idle() else { break };
            self.evict(slot, fx);
        }
    }

    fn fit_key(&mut self, key: SubKey, fx: &mut Effects<F>) {
        // All that follows from its counts follows from the limits, too.
        self.subs.touch(key);
        loop {
            let sub = &self.subs[key];
            let too_many =
                self.has_surplus(sub) || sub.total - sub.leaving > self.limits.max_total_per_key;
            if !too_many {
                break;
            }
            let Some(slot) = self.oldest_of(key) else { break };
            self.evict(slot, fx);
        }
        // With a minimum of zero, the end of the section leaves the key in the list that it stood in.
        self.watch_minimum(key);
        // A lowered minimum may expose resources that are due.
        self.schedule_idle(key, fx);
    }

    pub(crate) fn for_all_keys(&mut self, mut action: impl FnMut(&mut Self, SubKey)) {
        for index in 0..self.subs.capacity() {
            if let Some(key) = self.subs.key_at(index) {
                action(self, key);
            }
        }
    }

    pub(crate) fn begin_life(&mut self, slot: SlotKey) {
        if self.lifetimes.is_some() {
            let class = usize::from(self.slots[slot].class) % CLASSES;
            self.lives[class].push_back(&mut self.slots, slot);
        }
    }
    #[inline]
    pub(crate) fn end_life(&mut self, slot: SlotKey) {
        if self.lifetimes.is_some() {
            let entry = &self.slots[slot];
            if entry.life.is_linked() {
                self.lives[usize::from(entry.class)].remove(&mut self.slots, slot);
            }
        }
    }
}
