//! A share that comes back once the current holder releases: its owner gave it up for an operation that was
//! dropped.
//!
//! Any number of threads and tasks may watch for it: those that make a request, or wait for children, by the
//! same share. Each has an entry in the owner's slab. The entry leaves when the share comes back, which wakes
//! it, or when its watcher gives up or is dropped. The owner keeps its place in the queue throughout. So no
//! wake-up goes to the wrong watcher, and no entry outlives its watcher. A watcher registers under the lock
//! under which it found the share missing, so no wake-up is lost.
//!
//! # At the end of an execution
//! The end of an execution runs under its share (PROP-ILK-USE-UNDER-SHARE). But a drop must not wait: on a
//! single-threaded runtime the holder may be a task that goes on only after the drop. So a drop leaves its
//! end behind as a waker, which is called last after the lock under which the share comes back.

#[cfg(debug_assertions)]
use super::Interlock;
use super::ambient;
use super::error::{AcquireError, Deadlock};
use super::inner::{After, Inner, Limit};
use super::modes::{Mode, Step, Watcher};
use super::owner::Record;
use super::running::Running;
use super::state::State;
use super::vitals::{Context, OwnerId};
use crate::collections::slab_list::Key;
use crate::collections::wait_queue::Wake;
use crate::section::{Guarded, Patience, Wait, now};
use crate::sync::Condvar;
use crate::user_code::drop_contained;
use std::mem::take;
use std::sync::Arc;
use std::task::Waker;

/// A share that is missing. It comes back, unless its owner is forfeited.
pub(crate) struct Returning {
    record: Arc<Record>,
    level: u32,
}

impl Running<'_> {
    /// Returns `None` if the share is there, or will never come back.
    pub(crate) fn returning(&self) -> Option<Returning> {
        let record = self.record();
        let gone = !self.has_share() && record.vitals().context() != Context::LOST;
        gone.then(|| record.returning(self.level))
    }
    /// Waits until the share is there.
    ///
    /// # Panics
    /// If this thread is in the execution that holds: it would wait for itself.
    pub(crate) fn await_share(&self) {
        self.share_within(Limit::Forever).unwrap_or_else(|error| panic!("{error}"));
    }
    pub(super) fn share_within(&self, limit: Limit) -> Result<(), AcquireError> {
        let Some(returning) = self.returning() else { return Ok(()) };
        let _ = returning.take_back();
        returning.wait(limit)
    }
    pub(crate) async fn await_share_async(&self) {
        if let Some(returning) = self.returning() {
            let _ = returning.take_back();
            let _ = returning.come(Patience::Task).await;
        }
    }
}

impl Record {
    pub(super) fn returning(self: &Arc<Self>, level: u32) -> Returning {
        Returning { record: self.clone(), level }
    }
    /// Waits for the share, if a dropped future gave it up on this level.
    pub(super) fn regain(self: &Arc<Self>, level: u32, limit: Limit) -> Result<(), AcquireError> {
        match self.vitals().context() == Context::forsaken(level) {
            true => self.returning(level).wait(limit),
            false => Ok(()),
        }
    }
}

#[cfg(debug_assertions)]
impl Running<'_> {
    /// Returns true if user code may run now: the owner has its share, or has no claim to one.
    pub(crate) fn may_be_used(&self, interlock: &Interlock) -> bool {
        let is_lost = self.record().vitals().context() == Context::LOST;
        self.has_share() || is_lost || !self.is_of(interlock)
    }
}

impl Returning {
    /// Blocks until the share is back: [`AcquireError::Nested`] if it will not come,
    /// [`AcquireError::Deadlock`] if this thread is in the execution that holds.
    pub(super) fn wait(&self, limit: Limit) -> Result<(), AcquireError> {
        now(self.come(limit.patience()))
    }
    /// The same with any patience. A task that drops it stops watching.
    pub(super) async fn come(&self, patience: Patience) -> Result<(), AcquireError> {
        let (home, key) = (&self.record.home, self.record.key());
        let watch = {
            let here = match patience {
                Patience::Thread(_) | Patience::None => ambient::beside(&self.record),
                Patience::Task => Vec::new(),
            };
            let wake = match patience {
                Patience::Thread(_) => Wake::Thread(Arc::new(Condvar::new())),
                Patience::Task | Patience::None => Wake::Task(None),
            };
            home.slowly(|state| match state.recover(key).ok_or(AcquireError::Nested)? {
                Step::Done => Ok(None),
                Step::Wait if matches!(patience, Patience::None) => Err(AcquireError::WouldBlock),
                Step::Wait => match state.holder_among(&here) {
                    Some(stuck) => Err(Deadlock::of(state, key, &[stuck])),
                    None => Ok(Some(state.watch(key, wake, false))),
                },
            })?
        };
        if let Some(watching) = watch {
            let come = home.turn(Watch { key, watching }, patience).await;
            come.map_err(|()| AcquireError::TimedOut)?;
        }
        self.has_come();
        Ok(())
    }
    /// Returns true if the share is back. Otherwise wakes the waker when it is, or when the owner is
    /// forfeited.
    pub(crate) fn wakes(&self, waker: Waker) -> bool {
        let key = self.record.key();
        let mut waker = Some(waker);
        let is_back = self.record.home.slowly(|state| {
            state.adopt(key);
            let is_back = state.take_back(key) == Step::Done;
            if !is_back {
                state.watch(key, Wake::Task(waker.take()), true);
            }
            is_back
        });
        drop_contained(waker);
        if is_back {
            self.has_come();
        }
        is_back
    }
    fn take_back(&self) -> Step {
        let key = self.record.key();
        self.record.home.slowly(|state| {
            state.adopt(key);
            state.take_back(key)
        })
    }
    /// Records that the share is back, once.
    fn has_come(&self) {
        let (vitals, alone) = (self.record.vitals(), Context::alone(self.level));
        let _ = vitals.exchange(Context::forsaken(self.level), alone)
            || vitals.exchange(Context::above(self.level), alone);
    }
}

/// An index in the owner's slab, and a unique name, because indices are reused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watching {
    place: usize,
    id: u64,
}

struct Watch {
    key: Key,
    watching: Watching,
}

impl Wait<Inner> for Watch {
    type Outcome = ();
    type GivenUp = ();

    fn take(&mut self, state: &mut State, _: &mut After) -> Option<()> {
        state.watcher(self.key, self.watching).is_none().then_some(())
    }
    fn wake<'s>(&self, state: &'s mut State) -> &'s mut Wake {
        state.watcher(self.key, self.watching).expect("it was not woken yet")
    }
    fn give_up(&mut self, state: &mut State, _: &mut After) {
        let left = state.unwatch(self.key, self.watching);
        state.withdrawn.extend(left.map(|watcher| watcher.wake));
    }
}

impl State {
    /// Checks whether the share is back. `None` if it will not come.
    fn recover(&mut self, key: Key) -> Option<Step> {
        self.adopt(key);
        match self.owner(key).mode {
            // A forfeited owner's next request fails.
            Mode::Running | Mode::Forfeited => Some(Step::Done),
            Mode::Resuming { .. } => Some(Step::Wait),
            _ => None,
        }
    }
    pub(super) fn holder_among(&self, here: &[OwnerId]) -> Option<OwnerId> {
        let holder = self.owner(self.holder?.key).id();
        here.contains(&holder).then_some(holder)
    }

    /// Registers a watcher. `last`: woken after all other waiters.
    pub(super) fn watch(&mut self, key: Key, wake: Wake, last: bool) -> Watching {
        self.tickets += 1;
        let id = self.tickets;
        let place = self.owners[key.index()].watchers.insert(Watcher { id, wake, last });
        Watching { place, id }
    }
    /// Returns `None` once the watcher was woken.
    fn watcher(&mut self, key: Key, Watching { place, id }: Watching) -> Option<&mut Wake> {
        let watcher = self.owners[key.index()].watchers.get_mut(place);
        watcher.filter(|watcher| watcher.id == id).map(|watcher| &mut watcher.wake)
    }
    fn unwatch(&mut self, key: Key, watching: Watching) -> Option<Watcher> {
        self.watcher(key, watching)?;
        self.owners[key.index()].watchers.try_remove(watching.place)
    }
    /// The share is back, or will not come.
    pub(super) fn wake_watchers(&mut self, key: Key) {
        for (_, Watcher { wake, last, .. }) in take(&mut self.owners[key.index()].watchers) {
            let woken = if last { &mut self.late } else { &mut self.wakes };
            woken.push(wake);
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_is_not_mistaken_for_a_later_one_at_its_index() {
        let interlock = crate::Interlock::new();
        let running = interlock.enter();
        let key = running.record().key();
        interlock.inner().state.break_state(|state| watchers_are_distinguished(state, key));
    }

    fn watchers_are_distinguished(state: &mut State, key: Key) {
        let watch = |state: &mut State| state.watch(key, Wake::Task(None), false);

        let [left, stays] = [(); 2].map(|()| watch(state));
        assert!(state.unwatch(key, left).is_some());
        let came = watch(state);
        assert_eq!(came.place, left.place);
        assert!(state.watcher(key, left).is_none() && state.unwatch(key, left).is_none());
        assert!([came, stays].iter().all(|one| state.watcher(key, *one).is_some()));

        state.wake_watchers(key);
        assert_eq!(take(&mut state.wakes).len(), 2);
        let next = [(); 2].map(|()| watch(state));
        assert!([left, came, stays].iter().all(|one| state.watcher(key, *one).is_none()));
        assert!(next.iter().all(|one| state.unwatch(key, *one).is_some()));
    }
}
