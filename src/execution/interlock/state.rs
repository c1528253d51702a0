//! The state under the mutex: owners, queues, and the counters that the guards compare.
//!
//! [`modes`](super::modes) describes an owner, [`transitions`](super::transitions) its steps.

use super::modes::{Asker, Children, Mode, Outcome, Owner, Purpose, Queue, Step, Tally};
use super::vitals::{OwnerId, Place, Vitals};
use crate::clock::{Clock, Time};
use crate::collections::slab_list::{Key, Links};
use crate::collections::wait_queue::Wake;
use crate::sync::{Condvar, Word};
use slab::Slab;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) key: Key,
    pub(super) purpose: Purpose,
    pub(super) depth: u32,
    /// It had a share before, and regains it.
    pub(super) upgraded: bool,
}

pub(crate) struct State {
    /// Mirrors the word's `SLOW` bit.
    pub(super) slow: bool,
    /// Numbers the slow periods.
    pub(super) epoch: u64,
    /// Owners that entered through the word and were not adopted since.
    pub(super) anonymous: usize,
    /// The sum over the adopted owners.
    pub(super) tally: Tally,
    /// Forfeited owners whose guard has not come.
    pub(super) forfeited: usize,
    pub(super) holder: Option<Holder>,
    pub(super) generation: u64,
    pub(super) owners: Slab<Owner>,
    pub(super) newcomers: Queue,
    pub(super) returning: Queue,
    /// Requests by purpose: `upgrading` of owners with a share, `pending` of owners without one.
    pub(super) upgrading: [Queue; 2],
    pub(super) pending: [Queue; 2],
    pub(super) draining: [Queue; 2],
    /// Counts the owners that were queued.
    pub(super) tickets: u64,
    /// Wakers to call after the lock.
    pub(super) wakes: Vec<Wake>,
    /// Wakers to drop after the lock: they are user code.
    pub(super) withdrawn: Vec<Wake>,
    /// Wakers to call last; see [`returning`](super::returning).
    pub(super) late: Vec<Wake>,
    pub(super) clock: Clock,
}

/// The bit of the word that sends every owner through the mutex.
pub(super) const SLOW: usize = 1 << (usize::BITS - 1);

impl State {
    pub(super) fn new(clock: Clock) -> Self {
        State {
            slow: false,
            epoch: 0,
            anonymous: 0,
            tally: Tally::default(),
            forfeited: 0,
            holder: None,
            generation: 0,
            owners: Slab::new(),
            newcomers: Queue::new(),
            returning: Queue::new(),
            upgrading: Default::default(),
            pending: Default::default(),
            draining: Default::default(),
            tickets: 0,
            wakes: Vec::new(),
            withdrawn: Vec::new(),
            late: Vec::new(),
            clock,
        }
    }

    pub(super) fn register(&mut self) -> Place {
        let entry = self.owners.vacant_entry();
        let key = Key::new(entry.key());
        let vitals = Arc::new(Vitals::new(key));
        entry.insert(Owner {
            epoch: 0,
            mode: Mode::Out,
            entry: None,
            sees: None,
            permits: 0,
            declared: 0,
            awaits: Vec::new(),
            children: Children::none(vitals.id()),
            name: None,
            parent: None,
            queued_at: Time::default(),
            ticket: 0,
            outcome: None,
            wake: None,
            watchers: Slab::new(),
            condvar: Arc::new(Condvar::new()),
            vitals: vitals.clone(),
            links: Links::default(),
        });
        Place { key, vitals }
    }

    /// Begins a slow period: the word's count moves into this state.
    pub(super) fn slow_down(&mut self, word: &Word) {
        if !self.slow {
            let count = word.fetch_or(SLOW);
            self.slow = true;
            self.epoch += 1;
            (self.anonymous, self.tally) = (count, Tally::default());
        }
    }
    /// Ends the slow period if no owner holds, waits, or has an entry.
    pub(super) fn speed_up(&mut self, word: &Word) {
        let Tally { running: _, reject_share, reject_unload, yielded, declared, blocked: _ } =
            self.tally;
        let rest = reject_share + reject_unload + yielded + declared + self.forfeited;
        if self.slow && rest == 0 && self.holder.is_none() && !self.is_any_queued() {
            word.swap(self.running());
            self.slow = false;
        }
    }
    pub(super) fn is_any_queued(&self) -> bool {
        let by_purpose = [&self.upgrading, &self.pending, &self.draining];
        !self.newcomers.is_empty()
            || !self.returning.is_empty()
            || by_purpose.into_iter().flatten().any(|queue| !queue.is_empty())
    }

    /// Returns how many owners have a share.
    pub(super) fn running(&self) -> usize {
        self.anonymous + self.tally.running
    }

    /// Registers an owner that entered through the word, or in an earlier slow period. Its guard vouches for
    /// its share.
    pub(super) fn adopt(&mut self, key: Key) {
        if self.owner(key).epoch != self.epoch {
            self.anonymous -= 1;
            self.renew(key);
            self.begin_to_run(key);
        }
    }
    /// Clears the fields of an earlier period.
    pub(super) fn renew(&mut self, key: Key) {
        let epoch = self.epoch;
        let owner = &mut self.owners[key.index()];
        owner.epoch = epoch;
        owner.clear(Mode::Out);
    }

    pub(super) fn owner(&self, key: Key) -> &Owner {
        &self.owners[key.index()]
    }

    /// Changes an owner: the only way to change a counter that guards compare.
    ///
    /// If the owner's wait for its parent begins or ends, the parent's count changes, too, and so on up the
    /// permit blocks. A loop, because a long chain would overflow the stack.
    pub(super) fn change(&mut self, key: Key, change: impl FnOnce(&mut Owner)) {
        let mut up = self.change_one(key, change);
        while let Some((parent, waits)) = up {
            up = self.change_one(parent.key(), |owner| owner.count_child(parent, waits));
        }
    }
    /// Returns the parent to count this owner in, and whether to add it.
    fn change_one(&mut self, key: Key, change: impl FnOnce(&mut Owner)) -> Option<(OwnerId, bool)> {
        let waited = self.owner(key).waits_for_parent();
        self.count(key, change);
        match (waited, self.owner(key).waits_for_parent()) {
            (None, Some(parent)) => Some((parent, true)),
            (Some(parent), None) => Some((parent, false)),
            _ => None,
        }
    }
    fn count(&mut self, key: Key, change: impl FnOnce(&mut Owner)) {
        let before = self.owner(key).tally();
        change(&mut self.owners[key.index()]);
        let after = self.owner(key).tally();
        self.tally = self.tally.plus(after).minus(before);
    }
    pub(super) fn set_mode(&mut self, key: Key, mode: Mode) {
        self.change(key, |owner| owner.mode = mode);
    }
    /// Gives the owner a share: it sees the current generation.
    pub(super) fn begin_to_run(&mut self, key: Key) {
        let generation = self.generation;
        self.change(key, |owner| {
            owner.mode = Mode::Running;
            owner.restore();
            owner.sees.get_or_insert(generation);
        });
    }

    pub(super) fn queue(&mut self, mode: Mode) -> &mut Queue {
        match mode {
            Mode::Entering => &mut self.newcomers,
            Mode::Arriving | Mode::Resuming { .. } => &mut self.returning,
            Mode::Waiting { purpose, upgrading: true } => &mut self.upgrading[purpose as usize],
            Mode::Waiting { purpose, upgrading: false } => &mut self.pending[purpose as usize],
            Mode::Draining(purpose) => &mut self.draining[purpose as usize],
            Mode::Out | Mode::Running | Mode::Holding | Mode::Yielded | Mode::Forfeited => {
                unreachable!("{mode:?} is not a queued mode")
            }
        }
    }
    pub(super) fn enqueue(&mut self, key: Key, mode: Mode, asker: Asker) -> Step {
        let now = self.clock.now();
        self.tickets += 1;
        let ticket = self.tickets;
        self.withdraw_wake(key);
        self.change(key, |owner| {
            owner.mode = mode;
            match mode {
                Mode::Waiting { purpose, upgrading } => owner.publish(purpose, upgrading),
                Mode::Draining(purpose) => owner.publish(purpose, true),
                _ => owner.restore(),
            }
            (owner.queued_at, owner.ticket) = (now, ticket);
            owner.outcome = None;
            owner.wake = Some(match asker {
                Asker::Thread | Asker::Impatient => Wake::Thread(owner.condvar.clone()),
                Asker::Task => Wake::Task(None),
            });
        });
        let mut queue = std::mem::take(self.queue(mode));
        queue.push_back(&mut self.owners, key);
        *self.queue(mode) = queue;
        Step::Wait
    }
    pub(super) fn unlink(&mut self, key: Key) {
        let mode = self.owner(key).mode;
        if mode.is_queued() {
            let mut queue = std::mem::take(self.queue(mode));
            queue.remove(&mut self.owners, key);
            *self.queue(mode) = queue;
        }
    }
    pub(super) fn withdraw_wake(&mut self, key: Key) {
        self.withdrawn.extend(self.owners[key.index()].wake.take());
    }
    pub(super) fn resolve(&mut self, key: Key, outcome: Outcome) {
        let owner = &mut self.owners[key.index()];
        owner.outcome = Some(outcome);
        self.wakes.extend(owner.wake.take());
        self.wake_watchers(key);
    }
}
