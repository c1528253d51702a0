//! The state under the mutex: a state machine of owners and queues, with counters that its conditions compare.
//!
//! [`modes`](super::modes) describes an owner, [`transitions`](super::transitions) its steps,
//! [`settle`](super::settle) the grants at the end of each critical section. A section looks only at the owners that it
//! lets go on. A dump and an error copy all owners.
//!
//! No wake-up is lost (PROP-ILK-NO-LOST-WAKE-UP): a waiter is queued before the lock is released, and each change that
//! lets it go on ends in `settle`. Builds with debug assertions check this against every owner (`invariants`).
//!
//! Rails hangs in a circle of waits (`rails-upgrade-deadlock`) and beside a leaked execution (`rails-leaked-share`).
//! Its newcomers overtake an unload for ever (`rails-starved-request`).

use super::caller::{Caller, OwnerId, OwnerKey, Owners};
use super::modes::{Mode, Owner, Purpose, Queue, Waiter};
use crate::execution::ambient;
use crate::kernel::alarm::Alarm;
use crate::kernel::clock::Time;
use crate::kernel::collections::arena::Arena;
use crate::kernel::collections::list::Links;
use crate::kernel::collections::wait_queue::Wake;
use crate::kernel::effects::{Effects, OnWaiter};
use crate::kernel::sync::Condvar;
use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::Arc;
use std::thread::Thread;

#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) owner: OwnerId,
    pub(super) purpose: Purpose,
    pub(super) depth: u32,
}

#[derive(Default)]
pub(crate) struct State {
    pub(super) holder: Option<Holder>,
    pub(super) generation: u64,
    /// The owners, and the entries of former ones. An entry is used again as it is, so that an execution that begins
    /// neither allocates nor copies.
    pub(super) owners: Arena<Owner, Owners>,
    /// The entries of former owners.
    free: Vec<OwnerKey>,
    /// Numbers the executions, for their identifiers.
    uses: u64,
    /// How many owners there are.
    pub(super) entered: usize,
    /// How many owners have a share.
    pub(super) running: usize,
    /// How many owners are in a permit block.
    pub(super) permitting: usize,
    /// Each holds the owners of one mode, in order of arrival: see [`Mode::queue`].
    pub(super) queues: [Queue; 6],
    /// The ends of the tasks' waits that have a time limit.
    pub(super) deadlines: BTreeSet<(Time, OwnerId)>,
    /// When the timer looks at the deadlines next. Empty while it sleeps without limit.
    pub(super) timer: Alarm,
}

impl State {
    /// Returns whether each owner runs: no owner holds, waits or permits.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.running == self.entered
    }
    pub(super) fn all(&self) -> impl Iterator<Item = &Owner> {
        self.owners.iter().map(|(_, owner)| owner).filter(|owner| owner.mode != Mode::Out)
    }
    /// Returns the owner, unless its execution has ended.
    pub(super) fn find(&self, id: OwnerId) -> Option<&Owner> {
        let found = self.owners.get(id.key());
        found.filter(|owner| owner.id == id && owner.mode != Mode::Out)
    }
    /// Returns the owner of an execution that has not ended: its caller has a view.
    pub(super) fn owner(&self, id: OwnerId) -> &Owner {
        self.find(id).expect("an execution with a view has not ended")
    }
    pub(super) fn owner_mut(&mut self, id: OwnerId) -> &mut Owner {
        let owner = &mut self.owners[id.key()];
        debug_assert_eq!(owner.id, id, "an execution with a view has not ended");
        owner
    }

    /// Adds an owner, which runs.
    #[inline]
    pub(super) fn add(&mut self, caller: &Caller, now: Time, inside: bool) -> OwnerId {
        self.uses += 1;
        let key = self.free.pop().unwrap_or_else(|| self.new_entry());
        let id = OwnerId::new(key, self.uses);
        let owner = &mut self.owners[key];
        (owner.id, owner.mode, owner.views) = (id, Mode::Running, 1);
        (owner.inside, owner.sees) = (inside, Some(self.generation));
        (owner.at, owner.since) = (caller.at, now);
        let thread = (!caller.is_task).then(ambient::thread);
        if owner.thread.as_ref().map(Thread::id) != thread {
            owner.thread = thread.map(|_| std::thread::current());
        }
        self.entered += 1;
        self.running += 1;
        id
    }
    #[cold]
    fn new_entry(&mut self) -> OwnerKey {
        let key = self.owners.next_key();
        self.owners.insert(Owner {
            id: OwnerId::new(key, 0),
            mode: Mode::Out,
            permits: 0,
            views: 0,
            inside: false,
            sees: None,
            waiter: None,
            thread: None,
            at: Location::caller(),
            since: Time::default(),
            name: None,
            links: Links::default(),
        })
    }
    /// Removes an owner, which is in no queue and has no waiter.
    #[inline]
    pub(super) fn remove(&mut self, id: OwnerId) {
        let owner = self.owner_mut(id);
        owner.name = None;
        let (mode, permits) = (owner.mode, std::mem::take(&mut owner.permits));
        owner.mode = Mode::Out;
        self.entered -= 1;
        self.running -= usize::from(mode == Mode::Running);
        self.permitting -= usize::from(permits > 0);
        self.free.push(id.key());
    }

    pub(super) fn set_mode(&mut self, id: OwnerId, mode: Mode) {
        let generation = self.generation;
        let owner = self.owner_mut(id);
        let former = std::mem::replace(&mut owner.mode, mode);
        match mode {
            // It accepts unloads until it goes on.
            Mode::Waiting(Purpose::Unload) => owner.sees = None,
            Mode::Running => owner.sees = owner.sees.or(Some(generation)),
            _ => {}
        }
        self.running += usize::from(mode == Mode::Running);
        self.running -= usize::from(former == Mode::Running);
    }
    pub(super) fn set_permits(&mut self, id: OwnerId, permits: u32) {
        let owner = self.owner_mut(id);
        let former = std::mem::replace(&mut owner.permits, permits);
        self.permitting += usize::from(permits > 0);
        self.permitting -= usize::from(former > 0);
    }

    /// Returns whether any owner is in this mode, which is one of a queue.
    pub(super) fn any(&self, mode: Mode) -> bool {
        mode.queue().is_some_and(|queue| !self.queues[queue].is_empty())
    }
    pub(super) fn enqueue(&mut self, id: OwnerId, mode: Mode) {
        self.set_mode(id, mode);
        let queue = mode.queue().expect("the mode of a queue");
        self.queues[queue].push_back(&mut self.owners, id.key());
    }
    pub(super) fn unlink(&mut self, id: OwnerId) {
        if let Some(queue) = self.owner(id).mode.queue() {
            self.queues[queue].remove(&mut self.owners, id.key());
        }
    }

    /// Notes that a call waits for this owner.
    pub(super) fn await_owner(&mut self, id: OwnerId, caller: Caller, now: Time) {
        let wake = match caller.is_task {
            true => Wake::Task(None),
            false => Wake::Thread(Arc::new(Condvar::new())),
        };
        let waiter = Waiter {
            wake,
            granted: false,
            expired: false,
            deadline: None,
            at: caller.at,
            since: now,
            backtrace: None,
        };
        self.owner_mut(id).waiter = Some(Box::new(waiter));
    }
    /// Returns when the wait of a call for this owner began.
    pub(super) fn since(&self, id: OwnerId) -> Time {
        self.owner(id).waiter.as_ref().expect("the call waits").since
    }
    /// Ends the wait of a call.
    pub(super) fn end_wait(&mut self, id: OwnerId, fx: &mut Effects<OnWaiter>) {
        let waiter = self.owner_mut(id).waiter.take().expect("the call waits");
        if let Some(deadline) = waiter.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        // A waker is user code: it is dropped after the lock.
        if let Wake::Task(Some(waker)) = waiter.wake {
            fx.push(OnWaiter::Drop(waker));
        }
    }
    /// Wakes the call that waits for this owner, if there is one.
    pub(super) fn grant(&mut self, id: OwnerId, fx: &mut Effects<OnWaiter>) {
        if let Some(waiter) = &mut self.owner_mut(id).waiter {
            waiter.granted = true;
            fx.push(OnWaiter::Wake(match &mut waiter.wake {
                Wake::Thread(condvar) => Wake::Thread(condvar.clone()),
                Wake::Task(waker) => Wake::Task(waker.take()),
            }));
        }
    }

    /// Returns the condition variables of all waiting threads.
    pub(super) fn threads(&self) -> Vec<Arc<Condvar>> {
        let waiters = self.all().filter_map(|owner| owner.waiter.as_ref());
        waiters.filter_map(|waiter| waiter.wake.thread()).cloned().collect()
    }
}
