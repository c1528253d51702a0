//! Stock: what is made for it, because somebody adds, or because there is less of it than the minimum.
//!
//! A key is filled up once something of it has been made and while anything of it stays: it is lent, idle or
//! being made for stock. So a key of which nothing can be made is never tried by itself, and one that was
//! given up, whose last one was evicted, invalidated or cleared, is forgotten (`keys.rs`): whoever borrows it
//! again, or adds, begins afresh. (A pool without keys has one description for ever, and is always filled
//! up.) After a failure it is left alone for half a second, then for twice as long with each further one:
//! also if what was made is over when it comes into stock.
//!
//! Who adds, and the maintenance, may be cut short as any borrower: what they have begun to make is kept
//! (`creation.rs`). So it is if a runtime drops the task of the maintenance: the pool is there still, and so are
//! those who may want it. It is none of the minimum. Whoever fills up stock next, or adds, polls it on
//! (`unfinished.rs`). A close cuts nothing short, and keeps nothing: what was being made is destroyed when it comes,
//! and what is left then is dropped.
//!
//! The keys that can be filled up stand in two lists: those of which something was left need no room for it, the
//! others do. Those that are left alone for a while stand in two heaps, likewise, by the end
//! of that (O(log n) of them to come and to go: the pauses differ). So who fills up searches for nothing, and is
//! not woken for what there is no room for.

use super::creation::{Begun, InCreation, Room};
use super::effects::Effects;
use super::error::AddError;
use super::event::PoolEvent;
use super::factory::{Creation, Form};
use super::guard::Loan;
use super::keys::Select;
use super::maintenance_task::MaintenanceTask;
use super::pool::Inner;
use super::slot::{Content, Meta, Place, Standing, Sub};
use super::state::State;
use crate::clock::Time;
use crate::collections::indexed_heap::IndexedHeap;
use crate::collections::slab_list::Key;
use crate::section::Guarded;
use crate::sync::has_failed;
use std::time::Duration;

/// How long stock is not filled up after a failure; doubled with each further one.
const BACK_OFF: Duration = Duration::from_millis(500);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

/// A place in stock for what is made, and what was left of it by another, if anything was.
pub(super) type Begin<F> = (Key, Option<Creation<F>>);

/// What stock is to be filled up with, and of which key.
pub(super) struct Vacancy<F: Form> {
    pub(super) begin: Begin<F>,
    pub(super) key: Key,
    meta: Meta<F>,
}

/// What a section finds for who fills stock up.
pub(super) enum NextRefill<F: Form> {
    This(Vacancy<F>),
    /// Nothing yet: one key was left alone for long enough, and others may have been, too.
    Again,
    Nothing,
}

/// How what was made for stock comes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    InTime,
    /// Its lifetime has ended meanwhile, or there was nothing made at all.
    Expired,
    /// The pool has been closed meanwhile.
    Closed,
}

impl<F: Form> State<F> {
    /// Whether stock of it is to be kept.
    fn is_kept(&self, sub: &Sub<F>) -> bool {
        sub.made && (sub.permanent || sub.total > sub.leaving)
    }
    /// There is less stock than the minimum, and its own limits leave room for more, or something was left of it.
    fn is_below_minimum(&self, sub: &Sub<F>) -> bool {
        !self.closed
            && sub.idle.len() + sub.adding < self.limits.min_idle
            && (sub.total < self.limits.max_total_per_key || !sub.unfinished.is_empty())
            && self.is_kept(sub)
    }

    /// The key takes its place among those with too little stock, or leaves it.
    pub(super) fn watch_minimum(&mut self, key: Key, fx: &mut Effects<F>) {
        let sub = &self.subs[key.index()];
        let below = self.is_below_minimum(sub);
        let (needs_room, later) = (sub.unfinished.is_empty(), sub.back_off_until);
        self.stand_below_minimum(key, below.then_some(Standing { needs_room, later }));
        // Else there is no room for it: whoever makes some says so (`left`).
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

    /// A key that is forgotten.
    pub(super) fn forget_refills(&mut self, key: Key) {
        self.stand_below_minimum(key, None);
    }

    /// There is room for one more, of whatever key.
    pub(super) fn watch_room(&mut self, fx: &mut Effects<F>) {
        if let Some((at, key)) = self.next_refill_due() {
            self.schedule(MaintenanceTask::Refill, key, Some(at), self.clock.now(), fx);
        }
    }

    /// What a section may end with that changed no count: where newcomers may barge, those in line can leave
    /// room that was theirs, because they give up or are woken to try again. (A fair pool has none while
    /// anybody is in line.)
    #[inline]
    pub(super) fn watch_line(&mut self, fx: &mut Effects<F>) {
        if !self.options.fair && self.limits.min_idle > 0 {
            self.watch_room(fx);
        }
    }

    /// Begins with the key that could have been filled up for longest, if one can be: first with those of which
    /// something was left. Before that, those that were left alone for long enough come back to the others: one in
    /// each section, however many there are (rule 2).
    pub(super) fn next_refill(&mut self, fx: &mut Effects<F>) -> NextRefill<F> {
        // What there is goes to those who wait. Of a closed pool, no key is below its minimum.
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

    /// When a key can be filled up again, and which.
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

    /// One more in stock, made outside the lock: what was left of the key, else in a place of its own.
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

    /// What was made for stock, or has been begun and left; nothing, if it failed.
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

    /// Stock could be made for the key, or not. Noted while the place that was taken for it is there: so nobody
    /// finds that free, and tries again at once, and the key is there still.
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

    /// Whether a borrower that makes one is to say so: it is the first of its key.
    pub(super) fn is_first_of_key(&self, slot: Key) -> bool {
        let sub = &self.subs[self.slots[slot.index()].key.index()];
        self.limits.min_idle > 0 && !sub.made
    }
    /// It has been made, and is about to be lent.
    pub(super) fn note_first_created(&mut self, slot: Key, fx: &mut Effects<F>) {
        let key = self.slots[slot.index()].key;
        self.subs[key.index()].made = true;
        self.watch_minimum(key, fx);
    }

    /// Who is to be filled up is known, and when.
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

/// A place in stock, and what was made for it: given back, and destroyed, unless it is put there.
struct Refilling<'p, F: Form> {
    pool: &'p Inner<F>,
    slot: Option<Key>,
    resource: Option<F::Resource>,
    meta: Meta<F>,
    /// The key whose minimum it is for, of which it is noted how this ends; none if somebody adds.
    refills: Option<Key>,
}

impl<F: Form> Refilling<'_, F> {
    /// It cannot be used. Said before anything is destroyed or told: what is called for that may maintain the pool.
    fn failed(&mut self, error: AddError<F::Error>) -> AddError<F::Error> {
        if let Some(key) = self.refills {
            self.pool.critical(|state, fx| state.note_refill(key, false, fx));
        }
        error
    }
    fn put(mut self) -> Arrival {
        let slot = self.take_slot();
        let resource = self.resource.take().expect("it has been made");
        let loan = Loan::new(slot, self.meta.clone(), resource);
        self.pool.critical(|state, fx| {
            let arrival = state.added(slot, Content::Ready(loan), fx);
            if let Some(key) = self.refills {
                state.note_refill(key, arrival == Arrival::InTime, fx);
            }
            arrival
        })
    }
    /// The place, for somebody else to take care of.
    fn take_slot(&mut self) -> Key {
        self.slot.take().expect("taken only by those who consume it")
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
    /// Fills stock up to the minimum, one after the other (PROP-RP-REFILLED).
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
                    self.report(&meta, PoolEvent::CreateFailed(failure));
                }
                Err(AddError::Passivate(failure)) => {
                    self.report(&meta, PoolEvent::PassivateFailed(failure));
                }
                Err(AddError::Invalid) => self.report(&meta, PoolEvent::Invalid),
                Ok(()) | Err(AddError::Closed | AddError::Full) => {}
            }
        }
    }

    /// Makes a resource for stock. Its lifetime may have ended by the time it is there.
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
                    self.report(&refilling.meta, PoolEvent::ValidatePanicked(message));
                    return Err(error);
                }
            }
        }
        if let Err(failure) = self.factory.passivate(metadata, resource).await {
            return Err(refilling.failed(AddError::Passivate(failure)));
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
