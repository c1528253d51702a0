//! Time beside the specification: resources expire, and upkeep evicts, tests and refills.

use crate::refinement::calls::Call;
use crate::refinement::history::End;
use crate::refinement::mirror::{Ended, Ends, Mirror, granted_place};
use cabrank_spec::resource_pool::action::Action;
use cabrank_spec::resource_pool::state::{At, SlotId};

impl Mirror {
    /// Moves the clock. Idle resources that expire are not lent any more.
    pub(crate) fn pass(&mut self, seconds: u64) {
        self.now += seconds * 1_000;
        let places = self.spec.clients.iter().filter_map(granted_place);
        self.created.extend(places.map(|id| (id, self.now)));
        for at in 0..self.spec.idle.len() {
            let idle = &self.spec.idle[at];
            let age = self.now - self.idle_since[&(idle.slot.id, idle.since)];
            let too_long = self.world.max_idle_time.is_some_and(|time| age >= time * 1_000);
            if !idle.expired && (too_long || self.has_outlived(idle.slot.id)) {
                self.section(Action::Outlive { at });
            }
        }
        for client in 0..self.spec.clients.len() {
            let slot = self.spec.clients[client].slot().copied();
            let has_expired = |id| self.has_outlived(id) || self.was_granted_long_ago(id);
            if slot.is_some_and(|slot| !slot.expired && has_expired(slot.id)) {
                self.section(Action::Expire { client });
            }
            if let At::Evicting { slot, mut victim, granted } = self.spec.clients[client] {
                let age = self.now - self.idle_since[&(victim.slot.id, victim.since)];
                victim.expired |= self.world.max_idle_time.is_some_and(|time| age >= time * 1_000);
                victim.slot.expired |= self.has_outlived(victim.slot.id);
                self.spec.clients[client] = At::Evicting { slot, victim, granted };
            }
        }
        self.age_what_is_added();
    }

    /// A creation that is taken over keeps its age.
    pub(super) fn age_what_is_added(&mut self) {
        for at in 0..self.spec.adding.len() {
            self.spec.adding[at].expired |= self.has_outlived(self.spec.adding[at].id);
        }
    }

    pub(super) fn was_granted_long_ago(&self, id: SlotId) -> bool {
        let end = self.granted_since.get(&id).zip(self.world.max_idle_time);
        end.is_some_and(|(since, time)| self.now >= since + time * 1_000)
    }

    pub(super) fn has_outlived(&self, id: SlotId) -> bool {
        let end = self.world.max_lifetime.map(|time| self.created[&id] + time * 1_000);
        end.is_some_and(|end| self.now >= end)
    }

    /// Moves the clock, and maintains the pool.
    pub(crate) fn maintain(&mut self, seconds: u64, ends: &mut Ends) {
        self.pass(seconds);
        let runs = self.next_run.is_none_or(|next| self.now >= next);
        while let Some(at) = self.next_that_has_outlived() {
            self.evict(at);
        }
        if runs {
            self.next_run = self.world.test_while_idle.then_some(self.now + 1_000);
            while let Some(at) = self.next_to_evict() {
                self.evict(at);
            }
        }
        if self.world.test_while_idle && runs && !self.spec.closed {
            for _ in 0..self.turns.len() {
                if self.turns.is_empty() {
                    break;
                }
                self.turns.rotate_left(1);
                let (id, _) = self.turns[self.turns.len() - 1];
                self.test(id, |mirror, _| mirror.call(Call::Validate, id, ends) == Some(End::Well));
            }
        }
        self.refill(ends);
    }

    /// Returns whether the test's clock says what is due. The real back-off of an order ends by another clock.
    pub(crate) fn knows_the_time(&self) -> bool {
        !self.spec.options.creates || self.back_off.is_none()
    }

    fn evict(&mut self, at: usize) {
        self.section(Action::Age { at });
        self.apply(Action::Evict { at, hard: true });
    }

    /// Of several that have outlived, the real pool says which leaves first.
    fn next_that_has_outlived(&self) -> Option<usize> {
        let outlived = |&at: &usize| self.has_outlived(self.spec.idle[at].slot.id);
        let all = (0..self.spec.idle.len()).filter(outlived);
        all.min_by_key(|&at| self.turn(self.spec.idle[at].slot.id))
    }

    fn next_to_evict(&self) -> Option<usize> {
        self.spec.idle.iter().position(|idle| {
            let age = self.now - self.idle_since[&(idle.slot.id, idle.since)];
            let has_passed = |time: Option<u64>| time.is_some_and(|time| age >= time * 1_000);
            let spare = self.spec.num_idle_of(idle.slot.key) > self.spec.limits.min_idle;
            has_passed(self.world.max_idle_time)
                || spare && has_passed(self.world.soft_max_idle_time)
        })
    }

    fn refill(&mut self, ends: &mut Ends) {
        while self.spec.creates && self.spec.wants_refill(0) {
            self.apply(Action::Refill { key: 0 });
        }
        while self.spec.wants_refill(0) && self.back_off.is_none_or(|(until, _)| self.now >= until)
        {
            let Ok(mut adding) = self.add(Action::Refill { key: 0 }) else { return };
            let failures = self.back_off.map_or(0, |(_, failures)| failures);
            self.back_off = match self.run_add(&mut adding, ends) {
                Some(Ended::Added) => None,
                _ => Some((self.now + (500 << failures).min(60_000), failures + 1)),
            };
        }
    }
}
