//! Creates resources for the idle list: for `add`, or to refill a key below `min_idle`.
//!
//! `min_idle` applies to a key after its first successful creation, while a resource of it is lent, idle or being
//! created for the idle list. So the pool alone never retries a key whose creation always fails. A key whose last
//! resource was evicted, invalidated or cleared is forgotten (`keys.rs`), until the next borrow or `add`. The one
//! key of a pool without keys is never forgotten and always refilled.
//!
//! After a failure a key backs off for half a second, doubled with each further failure. A new resource that has
//! expired before it reaches the idle list counts as a failure.
//!
//! If a future of `add` or of the maintenance is dropped, for example with its runtime, the pool keeps the unfinished
//! creation (`creation.rs`). The next refill or `add` of the key continues it (`unfinished.rs`). Until then it does
//! not count for `min_idle`. A close interrupts no creation: its resource is destroyed once created, and
//! a creation left unfinished after the close is dropped.
//!
//! Keys below their minimum are in two lists: keys with an unfinished creation need no free place, the others
//! do. Keys that back off are in two heaps, split the same way and sorted by the end of the back-off; back-offs
//! differ, so a list would not stay sorted. So a refill takes no search, and a key without a free place wakes no task.

use super::creation::{Begun, InCreation, Room};
use super::effects::Effects;
use super::error::AddError;
use super::event::Event;
use super::factory::{Creation, Form};
use super::inner::Inner;
use super::keys::Select;
use super::loan::Loan;
use super::maintenance_task::MaintenanceTask;
use super::slot::{Content, Meta, Place, Standing, Sub};
use super::state::State;
use crate::clock::Time;
use crate::collections::indexed_heap::IndexedHeap;
use crate::collections::slab_list::Key;
use crate::section::Guarded;
use crate::sync::has_failed;
use std::time::Duration;

/// The back-off after a first failure.
const BACK_OFF: Duration = Duration::from_millis(500);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

/// A slot for a new idle resource, with the unfinished creation to poll on, if the key has one.
pub(super) type Begin<F> = (Key, Option<Creation<F>>);

/// A slot to create an idle resource in, and its key.
pub(super) struct Vacancy<F: Form> {
    pub(super) begin: Begin<F>,
    pub(super) key: Key,
    meta: Meta<F>,
}

/// The next step of a refill.
pub(super) enum NextRefill<F: Form> {
    This(Vacancy<F>),
    /// The back-off of one key has ended: look again, because that of others may have ended, too.
    Again,
    Nothing,
}

/// How a new resource reaches the idle list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    InTime,
    /// Its lifetime ended before, or its creation failed.
    Expired,
    /// The pool was closed before.
    Closed,
}

impl<F: Form> State<F> {
    /// Returns whether `min_idle` applies to the key.
    fn is_kept(&self, sub: &Sub<F>) -> bool {
        sub.made && (sub.permanent || sub.total > sub.leaving)
    }
    /// Returns whether the key is below `min_idle` and its own limits, or an unfinished creation, allow a refill.
    fn is_below_minimum(&self, sub: &Sub<F>) -> bool {
        !self.closed
            && sub.idle.len() + sub.adding < self.limits.min_idle
            && (sub.total < self.limits.max_total_per_key || !sub.unfinished.is_empty())
            && self.is_kept(sub)
    }

    /// Updates the key's place among the keys below their minimum.
    pub(super) fn watch_minimum(&mut self, key: Key, fx: &mut Effects<F>) {
        let sub = &self.subs[key.index()];
        let below = self.is_below_minimum(sub);
        let (needs_room, later) = (sub.unfinished.is_empty(), sub.back_off_until);
        self.stand_below_minimum(key, below.then_some(Standing { needs_room, later }));
        // In a full pool, `State::left` schedules the refill once a resource is gone.
        if below && (!needs_room || self.has_room()) {
            let now = self.clock.now();
            self.schedule(MaintenanceTask::Refill, key, Some(later.unwrap_or(now)), now, fx);
        }
    }

    fn stand_below_minimum(&mut self, key: Key, standing: Option<Standing>) {
        let stood = std::mem::replace(&mut self.subs[key.index()].standing, standing);
        if stood == standing {
            return;
        }
        if let Some(Standing { needs_room, later }) = stood {
            let among = usize::from(needs_room);
            match later {
                None => self.below_minimum[among].remove(&mut self.subs, key),
                Some(_) => self.backing_off[among].set(&mut self.subs, key, None),
            }
        }
        if let Some(Standing { needs_room, later }) = standing {
            let among = usize::from(needs_room);
            match later {
                None => self.below_minimum[among].push_back(&mut self.subs, key),
                Some(_) => self.backing_off[among].set(&mut self.subs, key, later),
            }
        }
    }

    fn has_room(&self) -> bool {
        self.total < self.limits.max_total
    }

    /// Removes a forgotten key from the keys below their minimum.
    pub(super) fn forget_refills(&mut self, key: Key) {
        self.stand_below_minimum(key, None);
    }

    /// Schedules a refill after a place in the total may have become free.
    pub(super) fn watch_room(&mut self, fx: &mut Effects<F>) {
        if let Some((at, key)) = self.next_refill_due() {
            self.schedule(MaintenanceTask::Refill, key, Some(at), self.clock.now(), fx);
        }
    }

    /// Schedules a refill at the end of a section that changed no count.
    ///
    /// In an unfair pool, a waiter that gives up or retries may leave a free place. A fair pool has no free place
    /// while a waiter is in line.
    #[inline]
    pub(super) fn watch_line(&mut self, fx: &mut Effects<F>) {
        if !self.options.fair && self.limits.min_idle > 0 {
            self.watch_room(fx);
        }
    }

    /// Returns a slot of the next key to refill: the one that waits longest, those with an unfinished creation first.
    ///
    /// Before that, keys whose back-off has ended rejoin the others: one in each section, so that it stays O(1).
    pub(super) fn next_refill(&mut self, fx: &mut Effects<F>) -> NextRefill<F> {
        // Free places belong to the waiters in line. In a closed pool, no key is below its minimum.
        if self.first_in_line().is_some() {
            return NextRefill::Nothing;
        }
        let first = self.backing_off.iter().filter_map(IndexedHeap::first);
        if let Some((until, key)) = first.min_by_key(|(until, _)| *until) {
            if self.clock.now() >= until {
                self.subs[key.index()].back_off_until = None;
                self.watch_minimum(key, fx);
                return NextRefill::Again;
            }
        }
        let vacancy = self.first_below_minimum().and_then(|key| self.vacancy(key, fx));
        vacancy.map_or(NextRefill::Nothing, NextRefill::This)
    }

    fn vacancy(&mut self, key: Key, fx: &mut Effects<F>) -> Option<Vacancy<F>> {
        let begin = self.reserve_idle(key, fx)?;
        let sub = &self.subs[key.index()];
        Some(Vacancy { begin, key, meta: sub.metadata.clone() })
    }

    fn first_below_minimum(&self) -> Option<Key> {
        let [left, needs_room] = &self.below_minimum;
        left.front().or_else(|| needs_room.front().filter(|_| self.has_room()))
    }

    /// Returns when the next key can be refilled, and which.
    pub(super) fn next_refill_due(&self) -> Option<(Time, Key)> {
        if self.first_in_line().is_some() {
            return None;
        }
        let at_once = self.first_below_minimum().map(|key| (self.clock.now(), key));
        let [left, needs_room] = self.backing_off.each_ref().map(IndexedHeap::first);
        let later = left.into_iter().chain(needs_room.filter(|_| self.has_room()));
        at_once.or_else(|| later.min_by_key(|(until, _)| *until))
    }

    fn begin_add(
        &mut self,
        key: Key,
        fx: &mut Effects<F>,
    ) -> Result<Vacancy<F>, AddError<F::Error>> {
        if self.closed {
            return Err(AddError::Closed);
        }
        self.vacancy(key, fx).ok_or(AddError::Full)
    }

    /// Reserves a slot for a new idle resource: that of an unfinished creation of the key, or else a new one.
    fn reserve_idle(&mut self, key: Key, fx: &mut Effects<F>) -> Option<Begin<F>> {
        let sub = &self.subs[key.index()];
        if sub.idle.len().saturating_add(sub.adding) >= self.limits.max_idle() {
            return None;
        }
        let begin = match sub.unfinished.front() {
            Some(left) => (left, Some(self.take_unfinished(left))),
            None => (self.reserve_idle_place(key)?, None),
        };
        self.subs[key.index()].adding += 1;
        if self.waiting > 0 {
            self.update_line(key);
        }
        if self.limits.min_idle > 0 {
            self.watch_minimum(key, fx);
        }
        Some(begin)
    }

    fn reserve_idle_place(&mut self, key: Key) -> Option<Key> {
        let of_key = self.subs[key.index()].total;
        let full = self.total >= self.limits.max_total || of_key >= self.limits.max_total_per_key;
        (!full).then(|| self.reserve(key, Place::Adding))
    }

    /// Ends a creation for the idle list: `content` is empty if it failed.
    pub(super) fn added(&mut self, slot: Key, content: Content<F>, fx: &mut Effects<F>) -> Arrival {
        let key = self.slots[slot.index()].key;
        self.subs[key.index()].adding -= 1;
        if let Content::Nothing = content {
            self.remove(slot);
            self.left(key, fx);
            return Arrival::Expired;
        }
        let arrival = match self.slots[slot.index()].expired || self.has_outlived(slot) {
            _ if self.closed => Arrival::Closed,
            true => Arrival::Expired,
            false => Arrival::InTime,
        };
        self.become_idle(slot, content, fx);
        if self.limits.min_idle > 0 {
            self.watch_minimum(key, fx);
        }
        arrival
    }

    /// Notes whether a refill of the key succeeded.
    ///
    /// Call this before another section can see the slot free: it would retry at once, or forget the key.
    pub(super) fn note_refill(&mut self, key: Key, made: bool, fx: &mut Effects<F>) {
        let sub = &mut self.subs[key.index()];
        if made {
            (sub.failures, sub.back_off_until) = (0, None);
        } else {
            let pause = BACK_OFF.saturating_mul(1 << sub.failures.min(10)).min(LONGEST_BACK_OFF);
            sub.failures += 1;
            sub.back_off_until = Some(self.clock.now().plus(pause));
        }
        if self.limits.min_idle > 0 {
            self.watch_minimum(key, fx);
        }
    }

    /// Returns whether the slot's resource is the first of its key, from which on `min_idle` applies.
    pub(super) fn is_first_of_key(&self, slot: Key) -> bool {
        let sub = &self.subs[self.slots[slot.index()].key.index()];
        self.limits.min_idle > 0 && !sub.made
    }
    /// Notes that the first resource of a key was created and is about to be lent.
    pub(super) fn note_first_created(&mut self, slot: Key, fx: &mut Effects<F>) {
        let key = self.slots[slot.index()].key;
        self.subs[key.index()].made = true;
        self.watch_minimum(key, fx);
    }

    /// Returns whether each key below its minimum is in its list or heap.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn below_minimum_is_known(&self) -> bool {
        let keys = || self.subs.iter().map(|(_, sub)| sub);
        let right = keys().all(|sub| {
            let (needs_room, later) = (sub.unfinished.is_empty(), sub.back_off_until);
            sub.standing == self.is_below_minimum(sub).then_some(Standing { needs_room, later })
                && sub.below_minimum.is_linked() == sub.standing.is_some_and(|s| s.later.is_none())
        });
        let among = |needs_room: bool| {
            let backing_off = self.backing_off[usize::from(needs_room)].iter();
            backing_off.filter(move |(until, key)| {
                let later = Some(*until);
                self.subs[key.index()].standing == Some(Standing { needs_room, later })
            })
        };
        let number: usize = self.backing_off.iter().map(IndexedHeap::len).sum();
        let later = keys().filter(|sub| sub.standing.is_some_and(|s| s.later.is_some()));
        right && among(false).chain(among(true)).count() == number && later.count() == number
    }
}

/// A slot reserved for a new idle resource. Unless it is `put`, its drop destroys the resource and frees the slot.
struct Refilling<'p, F: Form> {
    pool: &'p Inner<F>,
    slot: Option<Key>,
    resource: Option<F::Resource>,
    meta: Meta<F>,
    /// The key that is refilled, which notes the result; `None` for an `add`.
    refills: Option<Key>,
}

impl<F: Form> Refilling<'_, F> {
    /// Notes the failure before a resource is destroyed or a listener notified: user code may call `maintain`.
    fn failed(&mut self, error: AddError<F::Error>) -> AddError<F::Error> {
        if let Some(key) = self.refills {
            self.pool.critical(|state, fx| state.note_refill(key, false, fx));
        }
        error
    }
    fn put(mut self) -> Arrival {
        let slot = self.take_slot();
        let resource = self.resource.take().expect("created before");
        let loan = Loan::new(slot, self.meta.clone(), resource);
        self.pool.critical(|state, fx| {
            let arrival = state.added(slot, Content::Ready(loan), fx);
            if let Some(key) = self.refills {
                state.note_refill(key, arrival == Arrival::InTime, fx);
            }
            arrival
        })
    }
    /// Takes the slot: from here on the caller frees it.
    fn take_slot(&mut self) -> Key {
        self.slot.take().expect("taken only when `self` is consumed")
    }
}

impl<F: Form> Room<F> for Refilling<'_, F> {
    fn leave(mut self, creation: Creation<F>) {
        let slot = self.take_slot();
        self.pool
            .critical(|state, fx| state.added(slot, Content::Unfinished(Box::new(creation)), fx));
    }
}

impl<F: Form> Drop for Refilling<'_, F> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take().filter(|_| !has_failed()) else { return };
        if let Some(resource) = self.resource.take() {
            self.pool.dispose(&self.meta, resource);
        }
        self.pool.critical(|state, fx| state.added(slot, Content::Nothing, fx));
    }
}

impl<F: Form> Inner<F> {
    /// Refills all keys below `min_idle`, one resource at a time (PROP-RP-REFILLED).
    pub(super) async fn refill(&self) {
        loop {
            let vacancy = match self.critical(|state, fx| state.next_refill(fx)) {
                NextRefill::This(vacancy) => vacancy,
                NextRefill::Again => continue,
                NextRefill::Nothing => return,
            };
            let Vacancy { begin, key, meta } = vacancy;
            match self.fill(begin, meta.clone(), Some(key)).await {
                Err(AddError::Create(failure)) => {
                    self.report(&meta, Event::CreateFailed(failure));
                }
                Err(AddError::Passivate(failure)) => {
                    self.report(&meta, Event::PassivateFailed(failure));
                }
                Err(AddError::Invalid) => self.report(&meta, Event::Invalid),
                Ok(()) | Err(AddError::Closed | AddError::Full) => {}
            }
        }
    }

    /// Creates a resource in a reserved slot. Its lifetime may end before it reaches the idle list.
    async fn fill(
        &self,
        (slot, left): Begin<F>,
        meta: Meta<F>,
        refills: Option<Key>,
    ) -> Result<(), AddError<F::Error>> {
        let (creation, begun) = match left {
            Some(creation) => (creation, Begun::ByOther),
            None => {
                self.begin_creation_time(slot);
                (self.creation(&meta), Begun::Here)
            }
        };
        let refilling = Refilling { pool: self, slot: Some(slot), resource: None, meta, refills };
        let (mut refilling, made) = InCreation::new(refilling, creation, begun).await;
        let metadata = &*refilling.meta;
        let resource = match made {
            Ok(resource) => refilling.resource.insert(resource),
            Err(failure) => return Err(refilling.failed(AddError::Create(failure))),
        };
        if self.options.test_on_create {
            match self.factory.validate(metadata, resource).await {
                Ok(true) => {}
                Ok(false) => return Err(refilling.failed(AddError::Invalid)),
                Err(message) => {
                    let error = refilling.failed(AddError::Invalid);
                    self.report(&refilling.meta, Event::ValidatePanicked(message));
                    return Err(error);
                }
            }
        }
        if let Err(failure) = self.factory.passivate(metadata, resource).await {
            return Err(refilling.failed(AddError::Passivate(*failure)));
        }
        match refilling.put() {
            Arrival::InTime | Arrival::Expired => Ok(()),
            Arrival::Closed => Err(AddError::Closed),
        }
    }

    /// Creates a resource for the idle list.
    pub(super) async fn add(&self, key: impl Select<F>) -> Result<(), AddError<F::Error>> {
        let begun = key.select(self, |state, key, fx| state.begin_add(key, fx));
        let Vacancy { begin, meta, .. } = begun?;
        self.fill(begin, meta, None).await
    }
}
