//! What is due at a time: idle ones that have been there for too long, lifetimes that end, loans that look
//! abandoned, tests of what is idle, and stock below its minimum.
//!
//! It sleeps until the next of these is due, and without end while nothing is; whoever makes something
//! due earlier finds that under the lock and wakes it. In a pool with an `eviction_interval`, what
//! concerns idle ones is done in runs that far apart, each looking at `evictions_per_run` of them at
//! most.

use super::effects::{Effect, Effects};
use super::error::AddError;
use super::event::PoolEvent;
use super::factory::{Creation, Failure, Form};
use super::guard::Loan;
use super::pool::Inner;
use super::slot::{BelowMinimum, Content, Meta, Place};
use super::state::State;
use crate::clock::{Span, Time};
use crate::foreign::{contained, release};
use crate::periodic_executor::{
    AsyncPeriodicExecutor, Flow, OpenError, PeriodicExecutor, Runtime, Verdict,
};
use crate::slab_list::{Key, List};
use crate::sync::has_failed;
use std::future::poll_fn;
use std::hash::Hash;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How long stock is not filled up after a failure; doubled with each further one.
const BACK_OFF: Duration = Duration::from_millis(500);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

impl<F: Form> State<F> {
    /// The end of its lifetime has come.
    pub(super) fn has_outlived(&self, slot: Key) -> bool {
        self.ends_at(slot).is_some_and(|end| self.clock.now() >= end)
    }
    pub(super) fn ends_at(&self, slot: Key) -> Option<Time> {
        let entry = &self.slots[slot.index()];
        let lifetimes = self.lifetimes.as_ref()?;
        Some(entry.created.plus_span(lifetimes[usize::from(entry.class)]))
    }
    /// An idle one that must not be lent any more.
    pub(super) fn is_stale(&self, slot: Key) -> bool {
        let too_long = self
            .max_idle_time
            .is_some_and(|time| self.clock.now() >= self.slots[slot.index()].since.plus_span(time));
        too_long || self.has_outlived(slot)
    }
    pub(super) fn abandoned_at(&self, slot: Key) -> Option<Time> {
        let after = self.abandoned_after?;
        Some(self.slots[slot.index()].since.plus_span(after))
    }

    /// When an idle one of the key is due.
    fn idle_due(&self, slot: Key) -> Option<Time> {
        let entry = &self.slots[slot.index()];
        let sub = &self.subs[entry.key.index()];
        let soft = self.soft_max_idle_time.filter(|_| sub.idle.len() > self.limits.min_idle);
        let time = match (soft, self.max_idle_time) {
            (Some(soft), _) => Some(soft),
            (None, hard) => hard,
        };
        time.map(|time| entry.since.plus_span(time))
    }

    /// Something is due then: the maintenance is woken if it sleeps for longer.
    pub(super) fn is_due(&mut self, at: Option<Time>, fx: &mut Effects<F>) {
        if let Some(at) = at
            && self.sleeps_until.is_none_or(|until| at < until)
        {
            self.sleeps_until = Some(at);
            fx.push(Effect::WakeMaintenance);
        }
    }

    /// After one of the key has become idle: the oldest may be above the minimum now.
    pub(super) fn is_idle_due(&mut self, key: Key, fx: &mut Effects<F>) {
        if self.options.eviction_interval.is_some() {
            // While nothing was idle, no run was due.
            self.is_due(self.next_run, fx);
        }
        if !self.timed {
            return;
        }
        let sub = &self.subs[key.index()];
        let exact = self.options.eviction_interval.is_none();
        let oldest = sub.idle.front().filter(|_| exact).and_then(|slot| self.idle_due(slot));
        let newest = sub.idle.back().and_then(|slot| self.ends_at(slot));
        self.is_due(oldest.into_iter().chain(newest).min(), fx);
    }

    /// The key takes its place among those with too little stock, or leaves it.
    pub(super) fn watch_minimum(&mut self, key: Key, fx: &mut Effects<F>) {
        let sub = &self.subs[key.index()];
        let below = !self.closed && sub.idle.len() + sub.adding < self.limits.min_idle;
        match (below, sub.below_minimum.is_linked()) {
            (true, false) => self.below_minimum.push_back(&mut self.subs, key),
            (false, true) => self.below_minimum.remove(&mut self.subs, key),
            _ => {}
        }
        // Else there is no room for it: whoever makes some says so (`left`).
        if below
            && self.total < self.limits.max_total
            && self.subs[key.index()].total < self.limits.max_total_per_key
        {
            let now = self.clock.now();
            let at = self.subs[key.index()].back_off_until.unwrap_or(now);
            self.is_due(Some(at), fx);
        }
    }

    /// A place in stock for the key that has had too little for longest, if it can be filled now.
    fn next_to_fill(&mut self, fx: &mut Effects<F>) -> Option<Key> {
        // What there is room for goes to those who wait.
        if self.closed || self.first_in_line().is_some() || self.total >= self.limits.max_total {
            return None;
        }
        let now = self.clock.now();
        let mut at = self.below_minimum.front();
        while let Some(key) = at {
            let sub = &self.subs[key.index()];
            if sub.back_off_until.is_none_or(|until| now >= until)
                && let Some(slot) = self.reserve_stock(key, fx)
            {
                return Some(slot);
            }
            at = List::<BelowMinimum>::after(&self.subs, key);
        }
        None
    }

    fn begin_add(
        &mut self,
        key: Key,
        fx: &mut Effects<F>,
    ) -> Result<(Key, Meta<F>), AddError<F::Error>> {
        if self.closed {
            return Err(AddError::Closed);
        }
        let slot = self.reserve_stock(key, fx).ok_or(AddError::Full)?;
        Ok((slot, self.subs[key.index()].metadata.clone()))
    }

    /// Stock could be made for the key, or not.
    fn filled(&mut self, key: Key, made: bool) {
        let Some(sub) = self.subs.get_mut(key.index()) else { return };
        if made {
            (sub.failures, sub.back_off_until) = (0, None);
            return;
        }
        let pause = BACK_OFF.saturating_mul(1 << sub.failures.min(10)).min(LONGEST_BACK_OFF);
        sub.failures += 1;
        sub.back_off_until = Some(self.clock.now().plus(pause));
    }

    /// What is over now leaves. Does as much as it removes or tells.
    fn sweep(&mut self, fx: &mut Effects<F>) {
        let now = self.clock.now();
        for class in 0..self.lives.len() {
            while let Some(slot) = self.lives[class].front()
                && self.ends_at(slot).is_some_and(|end| now >= end)
            {
                self.end_life(slot);
                self.slots[slot.index()].expired = true;
                if self.slots[slot.index()].place == Place::Idle {
                    self.evict(slot, fx);
                }
            }
        }
        while let Some(slot) = self.lent.front()
            && self.abandoned_at(slot).is_some_and(|at| now >= at)
        {
            self.abandon(slot, now, fx);
        }
        let runs = match (self.options.eviction_interval, self.next_run) {
            (None, _) | (Some(_), None) => true,
            (Some(_), Some(next)) => now >= next,
        };
        if runs {
            self.evict_idle(now, fx);
        }
    }

    fn evict_idle(&mut self, now: Time, fx: &mut Effects<F>) {
        if let Some(interval) = self.options.eviction_interval {
            self.next_run = Some(now.plus_span(Span::new(interval)));
        }
        if self.max_idle_time.is_none() && self.soft_max_idle_time.is_none() {
            return;
        }
        let mut left = self.options.evictions_per_run.unwrap_or(usize::MAX);
        // The oldest first; those that a minimum protects are passed over.
        while left > 0
            && let Some(slot) = self.next_to_evict(now)
        {
            self.evict(slot, fx);
            left -= 1;
        }
    }

    fn next_to_evict(&self, now: Time) -> Option<Key> {
        let shortest = self.soft_max_idle_time.or(self.max_idle_time)?;
        self.by_age()
            .take_while(|slot| now >= self.slots[slot.index()].since.plus_span(shortest))
            .filter(|slot| !self.slots[slot.index()].tested)
            .find(|slot| self.idle_due(*slot).is_some_and(|due| now >= due))
    }

    fn abandon(&mut self, slot: Key, now: Time, fx: &mut Effects<F>) {
        self.lent.remove(&mut self.slots, slot);
        let entry = &mut self.slots[slot.index()];
        let meta = self.subs[entry.key.index()].metadata.clone();
        let removed = self.options.remove_abandoned;
        let event =
            PoolEvent::Abandoned { id: entry.serial, lent_for: now.since(entry.since), removed };
        fx.push(Effect::Tell(meta, event));
        if removed {
            self.reclaim(slot, fx);
        }
    }

    /// When there is something to do again.
    fn next_due(&self) -> Option<Time> {
        let lives = self.lives.iter().filter_map(|list| self.ends_at(list.front()?));
        let lent = self.lent.front().and_then(|slot| self.abandoned_at(slot));
        let filling = self.next_filling();
        let idle = match self.options.eviction_interval {
            Some(_) if self.idle == 0 => None,
            Some(_) => self.next_run,
            None => self.next_idle_due(),
        };
        lives.chain(lent).chain(filling).chain(idle).min()
    }

    /// Those that a minimum protects are due by the longer time, or never: so it is the oldest of all, or
    /// the oldest of the others.
    fn next_idle_due(&self) -> Option<Time> {
        let unprotected = |slot: &Key| {
            let key = self.slots[slot.index()].key;
            self.subs[key.index()].idle.len() > self.limits.min_idle
        };
        // What is being tested cannot leave; the end of its test says when it is due (`end_test`).
        let here = || self.by_age().filter(|slot| !self.slots[slot.index()].tested);
        let (oldest, others) = (here().next(), here().find(unprotected));
        oldest.into_iter().chain(others).filter_map(|slot| self.idle_due(slot)).min()
    }

    /// When a key can be filled up again that there is room for.
    pub(super) fn next_filling(&self) -> Option<Time> {
        if self.closed || self.first_in_line().is_some() || self.total >= self.limits.max_total {
            return None;
        }
        let subs = self.below_minimum.iter(&self.subs).map(|key| &self.subs[key.index()]);
        let room = subs.filter(|sub| sub.total < self.limits.max_total_per_key);
        room.map(|sub| sub.back_off_until.unwrap_or(self.clock.now())).min()
    }

    /// The idle one whose turn it is to be tested, taken from where it stays.
    fn begin_test(&mut self) -> Option<(Key, Box<Loan<F>>, Meta<F>)> {
        let slot = self.turns.front()?;
        self.turns.remove(&mut self.slots, slot);
        self.turns.push_back(&mut self.slots, slot);
        self.take_for_test(slot)
    }

    pub(super) fn take_for_test(&mut self, slot: Key) -> Option<(Key, Box<Loan<F>>, Meta<F>)> {
        let entry = &mut self.slots[slot.index()];
        if entry.tested || !matches!(entry.content, Content::Ready(_)) {
            return None;
        }
        let Content::Ready(loan) = entry.content.take() else { return None };
        entry.tested = true;
        let sub = &mut self.subs[entry.key.index()];
        sub.tested += 1;
        self.tested += 1;
        let meta = sub.metadata.clone();
        self.stand_in_line(self.slots[slot.index()].key);
        Some((slot, loan, meta))
    }

    /// The test is over: it can be lent again, if it is to be.
    pub(super) fn end_test(
        &mut self,
        slot: Key,
        loan: Box<Loan<F>>,
        passed: bool,
        fx: &mut Effects<F>,
    ) {
        let entry = &mut self.slots[slot.index()];
        let key = entry.key;
        entry.tested = false;
        entry.content = Content::Ready(loan);
        let gone = !passed || entry.expired || entry.epoch != self.epoch;
        let sub = &mut self.subs[key.index()];
        sub.tested -= 1;
        self.tested -= 1;
        let too_many = sub.idle.len() > self.limits.max_idle();
        if gone || self.closed || too_many || self.has_too_many(key) {
            self.evict(slot, fx);
        } else {
            self.is_idle_due(key, fx);
        }
        self.changed(key, fx);
    }
}

/// The executor that does what is due, of either flavour. It ends when this is dropped.
pub(super) struct Maintenance {
    open: Box<dyn Fn() -> Result<(), OpenError> + Send + Sync>,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// A resource under test: destroyed if the test comes to no end.
pub(super) struct Testing<'p, F: Form> {
    pub(super) pool: &'p Inner<F>,
    pub(super) slot: Key,
    pub(super) loan: Option<Box<Loan<F>>>,
    pub(super) meta: Meta<F>,
}

impl<F: Form> Testing<'_, F> {
    pub(super) fn end(mut self, passed: bool) {
        self.put(passed);
    }
    fn put(&mut self, passed: bool) {
        if let Some(loan) = self.loan.take() {
            let slot = self.slot;
            self.pool.critical(|state, fx| state.end_test(slot, loan, passed, fx));
        }
    }
}

impl<F: Form> Drop for Testing<'_, F> {
    fn drop(&mut self) {
        if !has_failed() {
            self.put(false);
        }
    }
}

/// A place in stock, and what is made for it: given back, and destroyed, unless it is put there.
struct Filling<'p, F: Form> {
    pool: &'p Inner<F>,
    slot: Option<Key>,
    resource: Option<F::Resource>,
    meta: Meta<F>,
}

impl<F: Form> Filling<'_, F> {
    fn put(mut self) {
        let slot = self.slot.take().expect("taken only here, and when it is dropped");
        let resource = self.resource.take();
        let loan = resource.map(|resource| Loan::new(slot, self.meta.take(), resource));
        self.pool.critical(|state, fx| state.added(slot, loan, fx));
    }
}

impl<F: Form> Drop for Filling<'_, F> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take().filter(|_| !has_failed()) else { return };
        if let Some(resource) = self.resource.take() {
            self.pool.dispose(&self.meta, resource);
        }
        self.pool.critical(|state, fx| state.added(slot, None, fx));
    }
}

impl<F: Form> Inner<F> {
    /// One pass.
    pub(super) async fn maintain(&self) {
        let tests = self.critical(|state, fx| {
            let runs = state.next_run.is_none_or(|next| state.clock.now() >= next);
            state.sweep(fx);
            let tests = state.options.test_while_idle && runs && !state.closed;
            let most = state.options.evictions_per_run.unwrap_or(usize::MAX);
            if tests { state.turns.len().min(most) } else { 0 }
        });
        for _ in 0..tests {
            if let Some((slot, loan, meta)) = self.critical(|state, _| state.begin_test()) {
                self.test_idle(slot, loan, meta).await;
            }
        }
        while let Some((slot, key)) = self.critical(|state, fx| {
            let slot = state.next_to_fill(fx)?;
            Some((slot, state.slots[slot.index()].key))
        }) {
            let meta = self.meta_of(key);
            let filled = self.fill(slot, meta.clone()).await;
            let made = filled.is_ok();
            match filled {
                Err(AddError::Create(failure)) => {
                    self.tell(&meta, PoolEvent::CreateFailed(failure));
                }
                Err(AddError::Invalid) => self.tell(&meta, PoolEvent::Invalid),
                Ok(()) | Err(AddError::Closed | AddError::Full) => {}
            }
            self.critical(|state, fx| {
                state.filled(key, made);
                if state.subs.contains(key.index()) && state.limits.min_idle > 0 {
                    state.watch_minimum(key, fx);
                }
            });
        }
    }

    pub(super) fn meta_of(&self, key: Key) -> Meta<F> {
        self.state.lock().subs.get(key.index()).and_then(|sub| sub.metadata.clone())
    }

    async fn test_idle(&self, slot: Key, loan: Box<Loan<F>>, meta: Meta<F>) {
        let mut test = Testing { pool: self, slot, loan: Some(loan), meta };
        let resource = &mut test.loan.as_mut().expect("put back below").resource;
        let tested = self.factory.test(self.metadata(&test.meta), resource).await;
        let passed = match tested {
            Ok(true) => true,
            Ok(false) => {
                self.tell(&test.meta, PoolEvent::Invalid);
                false
            }
            Err(message) => {
                self.tell(&test.meta, PoolEvent::ValidatePanicked(message));
                false
            }
        };
        test.end(passed);
    }

    /// Makes a resource for stock.
    pub(super) async fn fill(&self, slot: Key, meta: Meta<F>) -> Result<(), AddError<F::Error>> {
        let creation = self.creation(&meta);
        let mut filling = Filling { pool: self, slot: Some(slot), resource: None, meta };
        let metadata = self.metadata(&filling.meta);
        let made = to_its_end::<F>(creation).await.map_err(AddError::Create)?;
        let resource = filling.resource.insert(made);
        if self.options.test_on_create {
            match self.factory.test(metadata, resource).await {
                Ok(true) => {}
                Ok(false) => return Err(AddError::Invalid),
                Err(message) => return Err(AddError::Create(Failure::Panicked(message))),
            }
        }
        self.factory.lay_down(metadata, resource).await.map_err(AddError::Create)?;
        filling.put();
        Ok(())
    }

    pub(super) async fn add(&self, key: Key) -> Result<(), AddError<F::Error>> {
        let (slot, meta) = self.critical(|state, fx| state.begin_add(key, fx))?;
        self.fill(slot, meta).await
    }
    pub(super) async fn add_to(&self, metadata: &F::Metadata) -> Result<(), AddError<F::Error>>
    where
        F::Metadata: Clone + Eq + Hash,
    {
        let (_, begun) = self.with_key(metadata, |state, key, fx| state.begin_add(key, fx));
        let (slot, meta) = begun?;
        self.fill(slot, meta).await
    }

    pub(super) fn wake_maintenance(&self) {
        if let Some(maintenance) = self.maintenance.get() {
            // If there is no thread to be had, whoever has something that is due earlier tries again.
            let _ = (maintenance.open)();
            (maintenance.wake)();
        }
    }
    /// A pool that is closed needs no more of it.
    pub(super) fn stop_maintenance(&self) {
        if let Some(maintenance) = self.maintenance.get() {
            (maintenance.wake)();
        }
    }
    pub(super) fn open_maintenance(&self) -> Result<(), OpenError> {
        self.maintenance.get().map_or(Ok(()), |maintenance| (maintenance.open)())
    }

    /// After a pass: until when to sleep. Whoever makes something due earlier finds that under the lock,
    /// and wakes it: also if it has not lain down yet.
    pub(super) fn after_pass(&self) -> Verdict {
        self.critical(|state, _| {
            if state.closed {
                return Flow::Stop.into();
            }
            let due = state.next_due();
            state.sleeps_until = due;
            due.map_or(Flow::Idle.into(), |due| Verdict::Until(self.clock.deadline_at(due)))
        })
    }

    /// How long until something is due.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.critical(|state, _| Some(state.next_due()?.since(state.clock.now())))
    }

    /// Has it done by a thread, from when something is due for the first time.
    pub(super) fn maintain_by_thread(self: &Arc<Self>) {
        let executor = PeriodicExecutor::builder(Duration::MAX)
            .name("cabrank maintenance")
            .clock(self.clock.clone())
            // The pool's own end is what ends it.
            .unregistered()
            .weak_ref(Arc::downgrade(self), |pool: &Arc<Self>| {
                super::pool::now(pool.maintain());
                pool.after_pass()
            });
        let opens = executor.clone();
        let wake: Box<dyn Fn() + Send + Sync> = Box::new(move || executor.wake());
        self.maintenance.get_or_init(|| Maintenance { open: Box::new(move || opens.open()), wake });
    }

    /// Has it done by a task.
    pub(super) fn maintain_by_task<R: Runtime>(self: &Arc<Self>, runtime: R) {
        let executor = AsyncPeriodicExecutor::builder(Duration::MAX, runtime)
            .name("cabrank maintenance")
            .clock(self.clock.clone())
            .unregistered()
            .weak_until(Arc::downgrade(self), |pool: Arc<Self>| async move {
                pool.maintain().await;
                pool.after_pass()
            });
        let opens = executor.clone();
        let wake: Box<dyn Fn() + Send + Sync> = Box::new(move || executor.wake());
        self.maintenance.get_or_init(|| Maintenance { open: Box::new(move || opens.open()), wake });
    }

    /// Keeps of the idle ones those that `keep` keeps, each looked at outside the lock.
    pub(super) fn retain(&self, mut keep: impl FnMut(&F::Metadata, &mut F::Resource) -> bool) {
        let serials: Vec<(Key, u64)> = {
            let state = self.state.lock();
            state.by_age().map(|slot| (slot, state.slots[slot.index()].serial)).collect()
        };
        for (slot, serial) in serials {
            let taken = self.critical(|state, _| {
                let entry = state.slots.get(slot.index())?;
                let same = entry.serial == serial && entry.place == Place::Idle;
                if same { state.take_for_test(slot) } else { None }
            });
            let Some((slot, loan, meta)) = taken else { continue };
            let mut test = Testing { pool: self, slot, loan: Some(loan), meta };
            let resource = &mut test.loan.as_mut().expect("put back below").resource;
            // A panic is the caller's: the guard destroys what it was about.
            let kept = keep(self.metadata(&test.meta), resource);
            test.end(kept);
        }
    }
}

/// A panic of a creation is its failure.
async fn to_its_end<F: Form>(mut creation: Creation<F>) -> Result<F::Resource, Failure<F::Error>> {
    let made = poll_fn(|cx| match contained(|| creation.as_mut().poll(cx)) {
        Ok(poll) => poll,
        Err(message) => Poll::Ready(Err(Failure::Panicked(message))),
    });
    let made = made.await;
    release(creation);
    made
}
