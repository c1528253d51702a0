//! What is due at a time, and when: idle ones that have been there for too long, lifetimes that end, loans
//! that look abandoned; and, with `refilling.rs` and `testing.rs`, stock below its minimum and tests.
//!
//! All of it is known without a search, so that a section does as much whatever the number of resources and
//! keys is. Lifetimes and loans are in lists by their ends. So is what is idle; but of a key at its minimum
//! nothing leaves by the soft time. So what can leave by it is looked for by key: those with more than the
//! minimum come in the order of their oldest (`State::spare`, whose place costs O(log n) of the keys in it,
//! for which key is next changes with each return). What is being tested cannot leave, and is passed over:
//! one for each call that tests or retains just now, not more.

use super::effects::{Effect, Effects};
use super::event::PoolEvent;
use super::factory::Form;
use super::maintenance_task::MaintenanceTask;
use super::slot::{InAge, InIdle, Meta, Place};
use super::state::State;
use crate::clock::{Span, Time};
use crate::collections::slab_list::{Key, List};
use std::time::Duration;

/// After this time whoever was to do what was due is asked again.
const OVERDUE: Duration = Duration::from_millis(500);

/// One pass of the sweep: it does what was over when it began, and evicts so many at most.
pub(super) struct Pass {
    now: Time,
    evictions: usize,
}

/// What is over.
enum Expired {
    Life(Key),
    Loan(Key),
    Idle(Key),
}

impl<F: Form> State<F> {
    /// The time; in a pool that does nothing at a time, none that means anything.
    #[inline]
    pub(super) fn now_if_timed(&self) -> Time {
        if self.timed { self.clock.now() } else { Time::default() }
    }
    /// The end of its lifetime has come.
    pub(super) fn has_outlived(&self, slot: Key) -> bool {
        self.lifetimes.is_some() && self.has_outlived_at(slot, self.clock.now())
    }
    pub(super) fn has_outlived_at(&self, slot: Key, now: Time) -> bool {
        self.ends_at(slot).is_some_and(|end| now >= end)
    }
    pub(super) fn ends_at(&self, slot: Key) -> Option<Time> {
        let entry = &self.slots[slot.index()];
        let lifetimes = self.lifetimes.as_ref()?;
        Some(entry.created.plus_span(lifetimes[usize::from(entry.class)]))
    }
    /// An idle one that must not be lent any more (PROP-RP-FRESH).
    pub(super) fn has_expired(&self, slot: Key) -> bool {
        let now = self.now_if_timed();
        self.idle_after(slot, self.max_idle_time).is_some_and(|at| now >= at)
            || self.has_outlived_at(slot, now)
    }
    pub(super) fn abandoned_at(&self, slot: Key) -> Option<Time> {
        self.idle_after(slot, self.abandoned_after)
    }
    /// When it has been where it is for that long.
    fn idle_after(&self, slot: Key, time: Option<Span>) -> Option<Time> {
        Some(self.slots[slot.index()].since.plus_span(time?))
    }

    /// When an idle one of the key is due: by the soft time if no minimum protects it (PROP-RP-MIN-IDLE).
    fn idle_due(&self, slot: Key) -> Option<Time> {
        let sub = &self.subs[self.slots[slot.index()].key.index()];
        let soft = self.soft_max_idle_time.filter(|_| sub.idle.len() > self.limits.min_idle);
        self.idle_after(slot, soft.or(self.max_idle_time))
    }

    /// Something of the key is due then: the maintenance is woken if it sleeps for longer, or if its time has
    /// passed long since. (Then it is busy, and this is one wake too many; or its task was dropped by the
    /// runtime, and this begins a new one.)
    pub(super) fn schedule(
        &mut self,
        task: MaintenanceTask,
        key: Key,
        at: Option<Time>,
        now: Time,
        fx: &mut Effects<F>,
    ) {
        if let Some(at) = at {
            if !self.wakes_by(task, at, now) {
                let until = &mut self.sleeps_until[task as usize];
                let overdue = until.is_some_and(|until| until.plus(OVERDUE) < now);
                // For what it is overdue it is woken as of now.
                *until = Some(if overdue { at.min(now) } else { at });
                fx.push(Effect::WakeMaintenance(task, self.subs[key.index()].metadata.clone()));
            }
        }
    }

    /// Whether whoever does what is due wakes by then, as far as is known: the other side of the above.
    fn wakes_by(&self, task: MaintenanceTask, at: Time, now: Time) -> bool {
        let wakes = |until: Time| until <= at && until.plus(OVERDUE) >= now;
        self.sleeps_until[task as usize].is_some_and(wakes)
    }

    /// After one of the key has become idle: the oldest may be above the minimum now.
    #[inline]
    pub(super) fn schedule_idle(&mut self, key: Key, fx: &mut Effects<F>) {
        let exact = self.options.eviction_interval.is_none();
        if !exact || self.timed {
            self.schedule_oldest_idle(key, exact, fx);
        }
    }
    fn schedule_oldest_idle(&mut self, key: Key, exact: bool, fx: &mut Effects<F>) {
        // It has just come back, most often: the time need not be asked for again.
        let newest = self.subs[key.index()].idle.back().filter(|_| self.timed);
        let now = newest.map_or_else(|| self.clock.now(), |slot| self.slots[slot.index()].since);
        if !exact {
            // While nothing was idle, no run was due.
            for task in MaintenanceTask::ALL {
                self.schedule(task, key, self.next_run(task), now, fx);
            }
        }
        let sub = &self.subs[key.index()];
        let oldest = sub.idle.front().filter(|_| exact).and_then(|slot| self.idle_due(slot));
        let left = [sub.idle.back(), sub.unfinished.back()].into_iter().flatten();
        let lives = left.filter_map(|slot| self.ends_at(slot)).min();
        let unfinished = self.unfinished_due().filter(|_| exact);
        let due = [oldest, lives, unfinished].into_iter().flatten().min();
        self.schedule(MaintenanceTask::Evict, key, due, now, fx);
    }

    /// Does one thing that is over, and says whether there is another (PROP-RP-EVICTED).
    pub(super) fn evict_next(&mut self, pass: &mut Option<Pass>, fx: &mut Effects<F>) -> bool {
        let pass = pass.get_or_insert_with(|| self.begin_pass());
        match self.next_expired(pass) {
            None => return false,
            Some(Expired::Life(slot)) => {
                self.end_life(slot);
                self.slots[slot.index()].expired = true;
                if self.slots[slot.index()].place == Place::Idle {
                    self.evict(slot, fx);
                }
            }
            Some(Expired::Loan(slot)) => self.abandon(slot, pass.now, fx),
            Some(Expired::Idle(slot)) => {
                pass.evictions -= 1;
                self.evict(slot, fx);
            }
        }
        self.next_expired(pass).is_some()
    }

    fn begin_pass(&mut self) -> Pass {
        let now = self.clock.now();
        let evictions = match self.begin_run(MaintenanceTask::Evict, now) {
            true => self.options.evictions_per_run.unwrap_or(usize::MAX),
            false => 0,
        };
        Pass { now, evictions }
    }

    /// Whether the idle ones are to be looked at: always, or after each interval.
    pub(super) fn begin_run(&mut self, task: MaintenanceTask, now: Time) -> bool {
        let Some(interval) = self.options.eviction_interval else { return true };
        let next = &mut self.next_run[task as usize];
        let runs = next.is_none_or(|next| now >= next);
        if runs {
            *next = Some(now.plus(interval));
        }
        runs
    }

    fn next_expired(&self, pass: &Pass) -> Option<Expired> {
        let over = |at: Option<Time>| at.is_some_and(|at| pass.now >= at);
        let lives = self.lives.iter().filter_map(List::front);
        if let Some(slot) = lives.into_iter().find(|slot| over(self.ends_at(*slot))) {
            return Some(Expired::Life(slot));
        }
        let lent = self.lent.front().filter(|slot| over(self.abandoned_at(*slot)));
        if let Some(slot) = lent {
            return Some(Expired::Loan(slot));
        }
        // Whatever is due by the hard time is older than what is due by the soft one alone.
        let hard =
            || self.oldest_idle().filter(|at| over(self.idle_after(*at, self.max_idle_time)));
        let soft = || self.spare().filter(|at| over(self.idle_after(*at, self.soft_max_idle_time)));
        if pass.evictions == 0 {
            return None;
        }
        // No minimum protects what is not finished.
        let unfinished = self.unfinished.front().filter(|_| over(self.unfinished_due()));
        unfinished.or_else(hard).or_else(soft).map(Expired::Idle)
    }

    fn abandon(&mut self, slot: Key, now: Time, fx: &mut Effects<F>) {
        self.lent.remove(&mut self.slots, slot);
        let entry = &mut self.slots[slot.index()];
        let meta = self.subs[entry.key.index()].metadata.clone();
        let removed = self.options.remove_abandoned;
        let event =
            PoolEvent::Abandoned { id: entry.serial, lent_for: now.since(entry.since), removed };
        fx.push(Effect::Report(meta, event));
        if removed {
            self.reclaim(slot, fx);
        }
    }

    /// When there is something to do again.
    pub(super) fn next_due(&self, task: MaintenanceTask) -> Option<Time> {
        if self.is_done(task) {
            return None;
        }
        let next_run = self.next_run(task).filter(|_| self.idle > 0);
        match task {
            MaintenanceTask::Evict => {
                let lives = self.lives.iter().filter_map(|list| self.ends_at(list.front()?));
                let lent = self.lent.front().and_then(|slot| self.abandoned_at(slot));
                let idle = match self.options.eviction_interval {
                    Some(_) => next_run,
                    None => self.next_idle_due(),
                };
                lives.chain(lent).chain(idle).min()
            }
            MaintenanceTask::Refill => {
                let refilling = self.next_refill_due().map(|(at, _)| at);
                next_run.into_iter().chain(refilling).min()
            }
        }
    }

    /// A key of which something is there that is done at a time, for whom it is to be told that nobody does it. Not
    /// always the one that is due first: that would be looked for. None: nothing is due, or only what is being tested.
    pub(super) fn concerned(&self, task: MaintenanceTask) -> Option<Meta<F>> {
        self.next_due(task)?;
        let lives = self.lives.iter().filter_map(List::front).chain(self.lent.front());
        let mut slots = lives.chain(self.oldest_idle()).chain(self.unfinished.front());
        let of_slot = || slots.next().map(|slot| self.slots[slot.index()].key);
        let refilling =
            self.next_refill_due().filter(|_| task == MaintenanceTask::Refill).map(|(_, key)| key);
        refilling.or_else(of_slot).map(|key| self.subs[key.index()].metadata.clone())
    }

    /// When the idle ones are looked at again, if they are at intervals.
    pub(super) fn next_run(&self, task: MaintenanceTask) -> Option<Time> {
        let looks = match task {
            MaintenanceTask::Evict => {
                self.max_idle_time.is_some() || self.soft_max_idle_time.is_some()
            }
            MaintenanceTask::Refill => self.options.test_while_idle,
        };
        self.next_run[task as usize].filter(|_| looks)
    }

    /// Nothing is due any more; but something may be if a loan begins that was prepared before the close.
    pub(super) fn is_done(&self, task: MaintenanceTask) -> bool {
        // What is lent when a pool is closed may look abandoned later.
        self.closed && (task == MaintenanceTask::Refill || self.lent.is_empty())
    }

    /// The oldest is due by the hard time, the oldest of those that no minimum protects by the soft one. What
    /// is being tested cannot leave; the end of its test says when it is due (`end_test`).
    fn next_idle_due(&self) -> Option<Time> {
        let hard = self.oldest_idle().and_then(|slot| self.idle_after(slot, self.max_idle_time));
        let soft = self.spare().and_then(|slot| self.idle_after(slot, self.soft_max_idle_time));
        hard.into_iter().chain(soft).chain(self.unfinished_due()).min()
    }

    /// The idle one, of any key, that is finished and came back longest ago: the first to leave.
    pub(super) fn oldest_idle(&self) -> Option<Key> {
        let mut at = self.by_age.front();
        while let Some(slot) = at.filter(|slot| self.slots[slot.index()].tested) {
            at = List::<InAge>::after(&self.slots, slot);
        }
        at
    }
    /// The same of one key.
    pub(super) fn oldest_of(&self, key: Key) -> Option<Key> {
        let mut at = self.subs[key.index()].idle.front();
        while let Some(slot) = at.filter(|slot| self.slots[slot.index()].tested) {
            at = List::<InIdle>::after(&self.slots, slot);
        }
        at
    }

    /// The oldest of those that no minimum protects.
    fn spare(&self) -> Option<Key> {
        let (_, key) = self.spare.first()?;
        self.oldest_of(key)
    }
    fn spare_of(&self, key: Key) -> Option<Key> {
        let more = self.subs[key.index()].idle.len() > self.limits.min_idle;
        if more { self.oldest_of(key) } else { None }
    }
    /// The key takes its place among those with more than the minimum, or leaves it: after its stock, or what
    /// is tested of it, has changed.
    #[inline]
    pub(super) fn watch_spare(&mut self, key: Key) {
        if self.soft_max_idle_time.is_some() {
            self.update_spare(key);
        }
    }
    fn update_spare(&mut self, key: Key) {
        let oldest = self.spare_of(key).map(|slot| self.slots[slot.index()].nth_idle);
        self.spare.set(&mut self.subs, key, oldest);
    }

    /// Whoever does what is due sleeps until then at most, or has been woken. (Of what is lent, lifetimes end
    /// when it comes back.)
    #[cfg(any(test, debug_assertions))]
    pub(super) fn maintenance_knows_due_times(&self) -> bool {
        let idle = self.slots.iter().filter(|(_, slot)| slot.place == Place::Idle && !slot.tested);
        let lives = idle.filter_map(|(index, slot)| {
            self.ends_at(Key::new(index)).filter(|_| slot.life.is_linked())
        });
        let lent = self.lent.front().and_then(|slot| self.abandoned_at(slot));
        let next_run = self.next_run(MaintenanceTask::Evict).filter(|_| self.idle > 0);
        let idle = match self.options.eviction_interval {
            Some(_) => next_run,
            None => self.next_idle_due(),
        };
        let sweep = lives.chain(lent).chain(idle).min();
        let told = |task: MaintenanceTask, due: Option<Time>| {
            due.filter(|_| !self.is_done(task)).is_none_or(|due| {
                let latest = due.max(self.clock.now());
                self.sleeps_until[task as usize].is_some_and(|until| until <= latest)
            })
        };
        told(MaintenanceTask::Evict, sweep)
            && told(MaintenanceTask::Refill, self.next_due(MaintenanceTask::Refill))
    }

    /// INV-RP-IDLE-ORDER: each key that has something to spare is known, by the oldest of it.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn spare_is_known(&self) -> bool {
        let known: usize = self
            .spare
            .iter()
            .filter(|&(nth, key)| {
                self.spare_of(key).is_some_and(|slot| self.slots[slot.index()].nth_idle == nth)
            })
            .count();
        let keeps = self.soft_max_idle_time.is_some();
        let keys = self.subs.iter().filter(|&(key, _)| self.spare_of(Key::new(key)).is_some());
        known == self.spare.len() && (!keeps || known == keys.count())
    }
}
