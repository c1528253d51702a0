//! Due times: idle times, lifetimes and abandoned loans. `refill.rs` and `in_test.rs` add refills and tests.
//!
//! The next due entry is found without a search, whatever the number of resources and keys is.
//! Lifetimes, loans and idle resources are in lists ordered by their end. The soft idle time does not apply to a key at
//! its minimum, so `State::spare` has the other keys, ordered by their oldest resource. An update there costs O(log n)
//! of these keys. Resources under test cannot leave and are skipped: at most one for each running test or `retain`.

use super::effects::{Abandoned, Effect, Effects};
use super::maintenance_task::MaintenanceTask;
use super::names::{Meta, SlotKey, SubKey};
use super::slot::{InAge, InIdle, SlotState};
use super::state::State;
use crate::kernel::clock::{Span, Time};
use crate::kernel::collections::list::List;
use crate::resource_pool::api::factory::Form;
use std::time::Duration;

/// A maintenance task that is late by more than this is woken again.
const LATE: Duration = Duration::from_millis(500);

/// One eviction pass. It handles what was due at `now`, and evicts at most `evictions` idle resources.
pub(crate) struct Pass {
    now: Time,
    evictions: usize,
}

/// An entry whose time has passed.
enum Expired {
    Life(SlotKey),
    Loan(SlotKey),
    Idle(SlotKey),
}

impl<F: Form> State<F> {
    /// Returns the time, or a default value in a pool without timed options.
    #[inline]
    pub(crate) fn now_if_timed(&self) -> Time {
        if self.timed { self.clock.now() } else { Time::default() }
    }
    /// Returns whether the resource's lifetime has ended.
    pub(crate) fn has_outlived(&self, slot: SlotKey) -> bool {
        self.lifetimes.is_some() && self.has_outlived_at(slot, self.clock.now())
    }
    #[inline]
    pub(crate) fn has_outlived_at(&self, slot: SlotKey, now: Time) -> bool {
        self.ends_at(slot).is_some_and(|end| now >= end)
    }
    #[inline]
    pub(crate) fn ends_at(&self, slot: SlotKey) -> Option<Time> {
        let lifetimes = self.lifetimes.as_ref()?;
        let entry = &self.slots[slot];
        Some(entry.created.plus_span(lifetimes[usize::from(entry.class)]))
    }
    /// Returns whether an idle resource is too old to be lent (PROP-RP-FRESH).
    pub(crate) fn has_expired(&self, slot: SlotKey) -> bool {
        let now = self.now_if_timed();
        self.idle_after(slot, self.max_idle_time).is_some_and(|at| now >= at)
            || self.has_outlived_at(slot, now)
    }
    pub(crate) fn abandoned_at(&self, slot: SlotKey) -> Option<Time> {
        self.idle_after(slot, self.abandoned_after)
    }
    /// Returns when the resource has been in its place for `time`.
    fn idle_after(&self, slot: SlotKey, time: Option<Span>) -> Option<Time> {
        Some(self.slots[slot].since.plus_span(time?))
    }

    /// Returns when an idle resource is due. The soft time applies only above `min_idle` (PROP-RP-MIN-IDLE).
    fn idle_due(&self, slot: SlotKey) -> Option<Time> {
        let sub = &self.subs[self.slots[slot].key];
        let soft = self.soft_max_idle_time.filter(|_| sub.idle.len() > self.limits.min_idle);
        self.idle_after(slot, soft.or(self.max_idle_time))
    }

    /// Wakes the maintenance task if it would sleep past `at`, or is overdue.
    ///
    /// An overdue task is either busy, and the wake-up is spurious; or its runtime has dropped it, and the wake-up
    /// starts a new one.
    pub(crate) fn schedule(
        &mut self,
        task: MaintenanceTask,
        key: SubKey,
        at: Option<Time>,
        now: Time,
        fx: &mut Effects<F>,
    ) {
        if let Some(at) = at {
            let alarm = &mut self.alarms[task as usize];
            let is_overdue = alarm.is_overdue(LATE, now);
            if is_overdue {
                alarm.clear();
            }
            // The overdue work is due now, even if `at` is later.
            if alarm.ring_by(if is_overdue { at.min(now) } else { at }) {
                fx.push(Effect::WakeMaintenance(task, self.subs[key].metadata.clone()));
            }
        }
    }

    /// Schedules eviction after a resource of the key became idle: the oldest may now be above `min_idle`.
    #[inline]
    pub(crate) fn schedule_idle(&mut self, key: SubKey, fx: &mut Effects<F>) {
        let exact = self.options.eviction_interval.is_none();
        if !exact || self.timed {
            self.schedule_oldest_idle(key, exact, fx);
        }
    }
    fn schedule_oldest_idle(&mut self, key: SubKey, exact: bool, fx: &mut Effects<F>) {
        // The newest has usually just come back: its time saves reading the clock.
        let newest = self.subs[key].idle.back().filter(|_| self.timed);
        let now = newest.map_or_else(|| self.clock.now(), |slot| self.slots[slot].since);
        if !exact {
            // No run was due while the idle list was empty.
            for task in MaintenanceTask::ALL {
                self.schedule(task, key, self.next_run(task), now, fx);
            }
        }
        let sub = &self.subs[key];
        let oldest = sub.idle.front().filter(|_| exact).and_then(|slot| self.idle_due(slot));
        let life = sub.idle.back().and_then(|slot| self.ends_at(slot));
        let due = oldest.into_iter().chain(life).min();
        self.schedule(MaintenanceTask::Evict, key, due, now, fx);
    }

    /// Handles one expired entry. Returns whether another one is left (PROP-RP-EVICTED).
    pub(crate) fn evict_next(&mut self, pass: &mut Option<Pass>, fx: &mut Effects<F>) -> bool {
        let pass = pass.get_or_insert_with(|| self.begin_pass());
        match self.next_expired(pass) {
            None => return false,
            Some(Expired::Life(slot)) => {
                self.end_life(slot);
                self.slots[slot].expired = true;
                if self.slots[slot].state == SlotState::Idle {
                    self.evict(slot, fx);
                }
            }
            Some(Expired::Loan(slot)) => self.abandon(slot, pass.now, fx),
            Some(Expired::Idle(slot)) => {
                pass.evictions -= 1;
                self.evict(slot, fx);
            }
        }
        // The order of the idle resources follows from the key's counts.
        self.settle(fx);
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

    /// Returns whether the task examines idle resources now: always, or once in each `eviction_interval`.
    pub(crate) fn begin_run(&mut self, task: MaintenanceTask, now: Time) -> bool {
        let Some(interval) = self.options.eviction_interval else { return true };
        let next = &mut self.next_run[task as usize];
        let runs = next.is_none_or(|next| now >= next);
        if runs {
            *next = Some(now.plus(interval));
        }
        runs
    }

    fn next_expired(&self, pass: &Pass) -> Option<Expired> {
        let expired = |at: Option<Time>| at.is_some_and(|at| pass.now >= at);
        let lives = self.lives.iter().filter_map(List::front);
        if let Some(slot) = lives.into_iter().find(|slot| expired(self.ends_at(*slot))) {
            return Some(Expired::Life(slot));
        }
        let lent = self.lent.front().filter(|slot| expired(self.abandoned_at(*slot)));
        if let Some(slot) = lent {
            return Some(Expired::Loan(slot));
        }
        // A resource past the hard time is older than all that are past the soft time alone.
        let hard =
            || self.oldest_idle().filter(|at| expired(self.idle_after(*at, self.max_idle_time)));
        let soft =
            || self.spare().filter(|at| expired(self.idle_after(*at, self.soft_max_idle_time)));
        if pass.evictions == 0 {
            return None;
        }
        hard().or_else(soft).map(Expired::Idle)
    }

    fn abandon(&mut self, slot: SlotKey, now: Time, fx: &mut Effects<F>) {
        self.lent.remove(&mut self.slots, slot);
        let entry = &mut self.slots[slot];
        let meta = self.subs[entry.key].metadata.clone();
        let removed = self.options.remove_abandoned;
        let abandoned = Abandoned {
            id: entry.serial,
            lent_for: now.since(entry.since),
            removed,
            label: entry.label.clone(),
            borrowed_at: entry.borrowed_at.expect("set when the loan began"),
        };
        fx.push(Effect::Report(meta, abandoned));
        if removed {
            self.reclaim(slot);
        }
    }

    /// Returns when the task has work again.
    pub(crate) fn next_due(&self, task: MaintenanceTask) -> Option<Time> {
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

    /// Returns a key with timed work, for the report that the maintenance could not start.
    ///
    /// It need not be the key that is due first: finding that one takes a search. Returns `None` if no work is
    /// due, or only that of resources under test.
    pub(crate) fn concerned(&self, task: MaintenanceTask) -> Option<Meta<F>> {
        self.next_due(task)?;
        let lives = self.lives.iter().filter_map(List::front).chain(self.lent.front());
        let mut slots = lives.chain(self.oldest_idle());
        let of_slot = || slots.next().map(|slot| self.slots[slot].key);
        let refilling =
            self.next_refill_due().filter(|_| task == MaintenanceTask::Refill).map(|(_, key)| key);
        refilling.or_else(of_slot).map(|key| self.subs[key].metadata.clone())
    }

    /// Returns when the task's next run is, in a pool with an `eviction_interval`.
    pub(crate) fn next_run(&self, task: MaintenanceTask) -> Option<Time> {
        let looks = match task {
            MaintenanceTask::Evict => {
                self.max_idle_time.is_some() || self.soft_max_idle_time.is_some()
            }
            MaintenanceTask::Refill => self.options.test_while_idle,
        };
        self.next_run[task as usize].filter(|_| looks)
    }

    /// Returns whether a closed pool leaves the task no work. A loan that was activated before the close may bring
    /// some.
    pub(crate) fn is_done(&self, task: MaintenanceTask) -> bool {
        // A resource that was lent at the close may look abandoned later.
        self.closed && (task == MaintenanceTask::Refill || self.lent.is_empty())
    }

    /// Returns when the next idle resource is due.
    ///
    /// A resource under test cannot leave; `end_test` schedules it.
    fn next_idle_due(&self) -> Option<Time> {
        let hard = self.oldest_idle().and_then(|slot| self.idle_after(slot, self.max_idle_time));
        let soft = self.spare().and_then(|slot| self.idle_after(slot, self.soft_max_idle_time));
        hard.into_iter().chain(soft).min()
    }

    /// Returns the resource, of any key, that is idle for longest: the first to leave (PROP-RP-VICTIM).
    pub(crate) fn oldest_idle(&self) -> Option<SlotKey> {
        let mut at = self.by_age.front();
        while let Some(slot) = at.filter(|slot| self.slots[*slot].tested) {
            at = List::<InAge>::after(&self.slots, slot);
        }
        at
    }
    /// Returns the resource of the key that is idle for longest.
    pub(crate) fn oldest_of(&self, key: SubKey) -> Option<SlotKey> {
        let mut at = self.subs[key].idle.front();
        while let Some(slot) = at.filter(|slot| self.slots[*slot].tested) {
            at = List::<InIdle>::after(&self.slots, slot);
        }
        at
    }

    /// Returns the oldest idle resource of all keys above `min_idle`.
    fn spare(&self) -> Option<SlotKey> {
        let (_, key) = self.spare.first()?;
        self.oldest_of(key)
    }
    fn spare_of(&self, key: SubKey) -> Option<SlotKey> {
        let more = self.subs[key].idle.len() > self.limits.min_idle;
        if more { self.oldest_of(key) } else { None }
    }
    /// Updates the key's place in `spare`, after its idle list or its tests changed.
    #[inline]
    pub(crate) fn watch_spare(&mut self, key: SubKey) {
        if self.soft_max_idle_time.is_some() {
            self.update_spare(key);
        }
    }
    fn update_spare(&mut self, key: SubKey) {
        let oldest = self.spare_of(key).map(|slot| self.slots[slot].nth_idle);
        self.spare.set(self.subs.links(), key, oldest);
    }

    /// Returns whether each task wakes by its next due time. Lifetimes of lent resources do not count: the return
    /// checks them.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn maintenance_knows_due_times(&self) -> bool {
        let idle =
            self.slots.iter().filter(|(_, slot)| slot.state == SlotState::Idle && !slot.tested);
        let lives =
            idle.filter_map(|(index, slot)| self.ends_at(index).filter(|_| slot.life.is_linked()));
        let lent = self.lent.front().and_then(|slot| self.abandoned_at(slot));
        let next_run = self.next_run(MaintenanceTask::Evict).filter(|_| self.idle > 0);
        let idle = match self.options.eviction_interval {
            Some(_) => next_run,
            None => self.next_idle_due(),
        };
        let evict = lives.chain(lent).chain(idle).min();
        let knows = |task: MaintenanceTask, due: Option<Time>| {
            due.filter(|_| !self.is_done(task)).is_none_or(|due| {
                let latest = due.max(self.clock.now());
                self.alarms[task as usize].rings_by(latest)
            })
        };
        knows(MaintenanceTask::Evict, evict)
            && knows(MaintenanceTask::Refill, self.next_due(MaintenanceTask::Refill))
    }

    /// INV-RP-AGE-ORDER: `spare` holds each key above `min_idle`, by its oldest idle resource.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn spare_is_known(&self) -> bool {
        let known: usize = self
            .spare
            .iter()
            .filter(|&(nth, key)| {
                self.spare_of(key).is_some_and(|slot| self.slots[slot].nth_idle == nth)
            })
            .count();
        let keeps = self.soft_max_idle_time.is_some();
        let keys = self.subs.iter().filter(|&(key, _)| self.spare_of(key).is_some());
        known == self.spare.len() && (!keeps || known == keys.count())
    }
}
