//! A share that is to come back to an execution: it was given up for something that was dropped, and
//! somebody else holds.
//!
//! Nobody's own wait ends with its coming, so there may be any number who watch for it: threads and tasks
//! that ask, or wait for children, by the same share. Each is in the owner's slab under its own name, and is
//! taken out when the share is let in, and woken; or takes itself out, when it gives up or is dropped. None
//! looks at the others for that: it knows its place. The
//! owner keeps its place in the queue meanwhile, whoever comes and goes. So no wake-up is one watcher's instead
//! of another's, and none is kept longer than its watcher lives. A watcher is in the slab before the lock is
//! released under which it found the share missing, so none is lost, either.
//!
//! # At the end of an execution
//! What ends an execution runs under its share (PROP-ILK-USE-UNDER-SHARE), so it has to wait for it. A drop must
//! not wait: on a runtime with one thread, the holder may be a task that goes on only when the drop has
//! returned. So a drop leaves its end behind, as a waker: whoever lets the share in wakes it, after the lock,
//! and after everybody else.

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

/// A share that is not there. It comes back, unless it is forfeited.
pub(crate) struct Returning {
    record: Arc<Record>,
    level: u32,
}

impl Running<'_> {
    /// None if it has its share, or never will again.
    pub(crate) fn returning(&self) -> Option<Returning> {
        let record = self.record();
        let gone = !self.has_share() && record.vitals().context() != Context::LOST;
        gone.then(|| record.returning(self.level))
    }
    /// Waits until its share is there: as long as somebody holds.
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
    /// The same without blocking the thread.
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
    /// If a future was dropped that had given this level's share up, waits until it is back.
    pub(super) fn regain(self: &Arc<Self>, level: u32, limit: Limit) -> Result<(), AcquireError> {
        match self.vitals().context() == Context::forsaken(level) {
            true => self.returning(level).wait(limit),
            false => Ok(()),
        }
    }
}

#[cfg(debug_assertions)]
impl Running<'_> {
    /// Whether what is called now may count on it: it has its share, or nothing is promised to it.
    pub(crate) fn may_be_used(&self, interlock: &Interlock) -> bool {
        let is_lost = self.record().vitals().context() == Context::LOST;
        self.has_share() || is_lost || !self.is_of(interlock)
    }
}

impl Returning {
    /// A thread waits until it is back. [`AcquireError::Nested`] if none is to come, and
    /// [`AcquireError::Deadlock`] if this thread is in the execution that holds.
    pub(super) fn wait(&self, limit: Limit) -> Result<(), AcquireError> {
        now(self.come(limit.patience()))
    }
    /// The same for whoever waits like this. Dropped by a task, it watches no more.
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
    /// Whether the share is back. If not, the waker is woken when it is, or when it is forfeited.
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
    /// Who was dropped waits, holds and permits no more.
    fn take_back(&self) -> Step {
        let key = self.record.key();
        self.record.home.slowly(|state| {
            state.adopt(key);
            state.take_back(key)
        })
    }
    /// Who sees it first says so.
    fn has_come(&self) {
        let (vitals, alone) = (self.record.vitals(), Context::alone(self.level));
        let _ = vitals.exchange(Context::forsaken(self.level), alone)
            || vitals.exchange(Context::above(self.level), alone);
    }
}

/// A watcher's place in its owner's slab, and its name: places are used again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watching {
    place: usize,
    id: u64,
}

/// Somebody's watch for a share.
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
        state.watcher(self.key, self.watching).expect("not woken yet")
    }
    fn give_up(&mut self, state: &mut State, _: &mut After) {
        let left = state.unwatch(self.key, self.watching);
        state.withdrawn.extend(left.map(|watcher| watcher.wake));
    }
}

impl State {
    /// Whether a share is back that was given up for something dropped or leaked. None if none is to come.
    fn recover(&mut self, key: Key) -> Option<Step> {
        self.adopt(key);
        match self.owner(key).mode {
            // Who was forfeited finds out by what it asks for next.
            Mode::Running | Mode::Forfeited => Some(Step::Done),
            Mode::Resuming { .. } => Some(Step::Wait),
            _ => None,
        }
    }
    /// The holder, if it is one of these.
    pub(super) fn holder_among(&self, here: &[OwnerId]) -> Option<OwnerId> {
        let holder = self.owner(self.holder?.key).id();
        here.contains(&holder).then_some(holder)
    }

    /// From here on this one is woken, too, when the share is let in. `last`: after everybody else.
    pub(super) fn watch(&mut self, key: Key, wake: Wake, last: bool) -> Watching {
        self.tickets += 1;
        let id = self.tickets;
        let place = self.owners[key.index()].watchers.insert(Watcher { id, wake, last });
        Watching { place, id }
    }
    /// None once it was woken.
    fn watcher(&mut self, key: Key, Watching { place, id }: Watching) -> Option<&mut Wake> {
        let watcher = self.owners[key.index()].watchers.get_mut(place);
        watcher.filter(|watcher| watcher.id == id).map(|watcher| &mut watcher.wake)
    }
    fn unwatch(&mut self, key: Key, watching: Watching) -> Option<Watcher> {
        self.watcher(key, watching)?;
        self.owners[key.index()].watchers.try_remove(watching.place)
    }
    /// There is nothing left to be watched for.
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
    fn a_watcher_is_not_taken_for_who_has_its_place_afterwards() {
        let interlock = crate::Interlock::new();
        let running = interlock.enter();
        let key = running.record().key();
        interlock.inner().state.break_state(|state| watches_are_told_apart(state, key));
    }

    fn watches_are_told_apart(state: &mut State, key: Key) {
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
