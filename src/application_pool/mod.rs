//! The application pool: who wants a session with an application gets one of its processes.
//!
//! # Reading it beside the pseudocode
//! The text is *ApplicationPool algorithm* (Phusion Passenger 3.0.5); names are kept, errors of the
//! text are numbered (E1 to E34) where the code differs from it.
//!
//! | in the text | here | as a pure machine |
//! |---|---|---|
//! | `PoolOptions` | [`PoolOptions`] | `spec/src/configuration.rs` |
//! | `Group`, `ProcessInfo`, instance variables | `group.rs`, `process_info.rs`, `state.rs` | `pool.rs` |
//! | `mutate_active`, `mutate_count`, `mutate_max`, `global_queue_position_became_available` | `state.rs` | `mutators.rs` |
//! | `get` | [`ApplicationPool::get`], `mod.rs` | `get.rs` |
//! | `detach` | [`ApplicationPool::detach`], `mod.rs` | `action.rs` |
//! | `checkout_without_lock`, `select_process`, `needs_restart` | `checkout.rs`, `restart_files.rs` | `checkout.rs`, `restart.rs` |
//! | `spawning_allowed`, `new_app_group_creatable` | `capacity.rs` | `capacity.rs` |
//! | `spawn_in_background`, `spawner_thread_callback` | `spawning.rs` | `spawning.rs` |
//! | `detach_without_lock`, `detach_group_without_lock` | `detach.rs` | `detach.rs` |
//! | `session_has_been_closed` | `session.rs` | `session.rs` |
//! | `cleaner` | `cleaner.rs` | `cleaner.rs` |
//! | invariants | `invariants.rs` | `invariants.rs` |
//!
//! The machine of `spec/` was explored to the last state, and `tests/application_pool/refinement` holds this pool against it.
//!
//! # How it works
//! One lock, and under it only arithmetic: every operation is one critical section in O(1), plus what
//! it removes or wakes. What runs foreign code (spawner, connect, file look-up, wakers, observers, the
//! drop of a user's value) is left to be done after the lock is released (`effects.rs`). A process
//! or capacity that becomes free is handed, under the lock, to whoever has waited for it longest, so
//! nobody overtakes and no wake-up is lost (`wait_queue.rs`).
//!
//! # Limits
//! - A [`Snapshot`] is one consistent picture, so it copies plain numbers of all processes under the
//!   lock: the one section whose length depends on how many there are.
//! - The search for an idle process to evict or to clean passes over processes that a minimum
//!   protects.
//! - A group's record (its restart file's state, its last error) is kept until
//!   [`ApplicationPool::detach_group`].

mod builder;
mod capacity;
mod checkout;
mod cleaner;
mod detach;
mod effects;
mod error;
mod event;
mod get_async;
mod group;
#[cfg(feature = "in-memory")]
pub mod in_memory;
#[cfg(any(test, debug_assertions))]
mod invariants;
#[cfg(all(test, feature = "in-memory", not(any(feature = "loom", feature = "shuttle"))))]
mod invariants_tests;
mod options;
mod process_info;
mod restart_files;
mod session;
mod snapshot;
mod spawner;
mod spawning;
mod state;

pub use builder::Builder;
pub use error::{BuildError, ConnectError, GetError, SpawnError};
pub use event::{DetachReason, Event};
pub use options::{PoolOptions, RestartMode};
pub use session::{Lease, Session};
pub use snapshot::{Counts, GroupSnapshot, ProcessSnapshot, ProcessState, Snapshot, Totals};
pub use spawner::{CancelToken, Identifier, Process, ShutDown, SpawnRequest, Spawner};

#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
use session::Ending;
#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
pub(crate) use session::{Ending, Found};

use crate::clock::{Clock, ClockListener, Deadline, Span};
use crate::collections::slab_list::Key;
use crate::periodic_executor::PeriodicExecutor;
use crate::sync::{Condvar, Mutex, has_failed, may_step_aside};
use crate::user_code::{UserValue, contain, drop_contained};
use checkout::{Asker, Checkout};
use effects::Effects;
use restart_files::RestartFiles;
use state::{Outcome, State};
use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// How often a get tries another process when one cannot be connected to.
const MAX_ATTEMPTS: usize = 10;

type Observer = Box<dyn Fn(&Event) + Send + Sync>;

/// What all handles share.
pub(crate) struct Inner<S: Spawner> {
    spawner: UserValue<S>,
    state: Mutex<State<S>>,
    clock: Clock,
    restart_files: Option<RestartFiles>,
    observer: Option<UserValue<Observer>>,
    spawner_stack_size: Option<usize>,
    /// Unless the pool was built without it.
    pub(crate) cleaner: OnceLock<PeriodicExecutor>,
    /// A closed pool has nothing left.
    closed_signal: Condvar,
}

crate::sync::thread::thread_local! {
    /// The pools for which this thread spawns, carries out effects or tells what it has waited for: what it has
    /// still to do for them may be what closing one of them waits for.
    // loom's macro takes no `const` block.
    #[allow(clippy::missing_const_for_thread_local)]
    static WORKS_FOR: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

/// Says that this thread works for a pool, until it is dropped.
struct WorksFor {
    entered: bool,
}

impl WorksFor {
    fn pool<S: Spawner>(pool: &Arc<Inner<S>>) -> Self {
        // A thread that ends has no locals any more, and closes what sessions it has kept.
        let pool = Arc::as_ptr(pool) as usize;
        WorksFor { entered: WORKS_FOR.try_with(|pools| pools.borrow_mut().push(pool)).is_ok() }
    }
    /// Whether this thread works for the pool. One that ends does not know any more: it may, and must not
    /// wait for itself.
    fn is_for<S: Spawner>(pool: &Arc<Inner<S>>) -> bool {
        let pool = Arc::as_ptr(pool) as usize;
        WORKS_FOR.try_with(|pools| pools.borrow().contains(&pool)).unwrap_or(true)
    }
}

impl Drop for WorksFor {
    fn drop(&mut self) {
        if self.entered {
            let _ = WORKS_FOR.try_with(|pools| pools.borrow_mut().pop());
        }
    }
}

impl<S: Spawner> Inner<S> {
    /// Runs `section` under the lock, asserts every invariant, releases the lock, and carries out
    /// what the section left to be done.
    #[inline]
    pub(crate) fn critical<R>(
        self: &Arc<Self>,
        section: impl FnOnce(&mut State<S>, &mut Effects<S>) -> R,
    ) -> R {
        let mut fx = Effects::new(self.observer.is_some());
        let result = {
            let mut state = self.state.lock();
            let result = section(&mut state, &mut fx);
            state.end_section(&fx);
            result
        };
        fx.run(self);
        std::mem::forget(fx);
        result
    }

    fn look(&self, options: &PoolOptions) -> Option<restart_files::Look> {
        self.restart_files.as_ref().map(|files| files.look(options, &self.clock))
    }

    #[inline]
    fn begin(
        self: &Arc<Self>,
        options: &PoolOptions,
        look: Option<&restart_files::Look>,
        attempt: usize,
        asker: Asker,
    ) -> Checkout<S> {
        let first = attempt == 1;
        let mut other = None;
        // What is served leaves the section in a register: the whole of what it may come to would be copied, and
        // read in other parts than it was written in, for which a processor waits.
        let served = self.critical(|state, fx| {
            match state.checkout_without_lock(options, look, first, asker, fx) {
                Checkout::Serve(entry) => Some(entry),
                checkout => {
                    other = Some(checkout);
                    None
                }
            }
        });
        match served {
            Some(entry) => Checkout::Serve(entry),
            None => other.expect("else it is served"),
        }
    }

    /// The blocking half of the wait.
    fn wait(self: &Arc<Self>, group: Key, waiter: Key, deadline: Deadline) -> Option<Outcome<S>> {
        let mut fx = Effects::new(self.observer.is_some());
        let outcome = {
            let mut state = self.state.lock();
            let condvar = state.waiters.condvar(waiter);
            let mut steps_aside = may_step_aside(self.clock.leaves_time_to_step_aside(deadline));
            let outcome = loop {
                if let Some(outcome) = state.waiters.take(waiter) {
                    break Some(outcome);
                }
                if self.clock.has_passed(deadline) {
                    state.leave_queue(group, waiter, &mut fx);
                    break None;
                }
                if std::mem::take(&mut steps_aside) {
                    state = self.state.step_aside(state, &condvar);
                    continue;
                }
                self.clock.wait(&condvar, &mut state, deadline);
            };
            state.end_section(&fx);
            outcome
        };
        fx.run(self);
        std::mem::forget(fx);
        outcome
    }

    fn begin_close(self: &Arc<Self>) {
        self.critical(|state, fx| state.close(fx));
    }

    /// Waits for what a closing pool comes to.
    pub(crate) fn wait_until(&self, deadline: Deadline, over: impl Fn(&State<S>) -> bool) -> bool {
        let mut state = self.state.lock();
        state.waiting_for_end += 1;
        while !over(&state) && !self.clock.has_passed(deadline) {
            self.clock.wait(&self.closed_signal, &mut state, deadline);
        }
        state.waiting_for_end -= 1;
        over(&state)
    }
}

impl<S: Spawner> State<S> {
    /// What every critical section ends with.
    #[inline]
    fn end_section(&mut self, fx: &Effects<S>) {
        self.disposing += fx.disposals;
        #[cfg(debug_assertions)]
        self.assert_invariants();
    }

    /// A waiter that has not been served gives up.
    fn leave_queue(
        &mut self,
        group: Key,
        waiter: Key,
        fx: &mut Effects<S>,
    ) -> (Option<Outcome<S>>, Option<std::task::Waker>) {
        let left = match self.groups.get_mut(group.index()) {
            Some(record) => self.waiters.cancel(&mut record.queue, waiter),
            // Served, and the group was forgotten since: it is in no queue.
            None => {
                self.waiters.cancel(&mut crate::collections::wait_queue::Queue::default(), waiter)
            }
        };
        if left.0.is_none() {
            self.waiting -= 1;
            // The group may have stood in line for this get alone.
            self.settle(group, fx);
        }
        left
    }
}

impl<S: Spawner> ClockListener for Inner<S> {
    fn advanced(&self) {
        // Under the lock: a thread that has looked at the clock and not yet gone to sleep holds it.
        let (threads, is_waited_for) = {
            let state = self.state.lock();
            (state.waiters.threads(), state.waiting_for_end > usize::from(state.cleaner_runs))
        };
        for condvar in threads {
            condvar.notify_one();
        }
        if is_waited_for {
            self.closed_signal.notify_all();
        }
    }
}

/// A pool of application processes. Clones are handles to the same pool; dropping the last one closes
/// it.
pub struct ApplicationPool<S: Spawner>(Arc<Handle<S>>);

struct Handle<S: Spawner>(Arc<Inner<S>>);

impl<S: Spawner> Drop for Handle<S> {
    fn drop(&mut self) {
        if !has_failed() {
            self.0.begin_close();
        }
    }
}

impl<S: Spawner> Clone for ApplicationPool<S> {
    fn clone(&self) -> Self {
        ApplicationPool(self.0.clone())
    }
}

/// A handle that does not keep the pool open.
pub struct WeakPool<S: Spawner>(Weak<Handle<S>>);

impl<S: Spawner> WeakPool<S> {
    /// The pool, if a handle keeps it open.
    pub fn upgrade(&self) -> Option<ApplicationPool<S>> {
        self.0.upgrade().map(ApplicationPool)
    }
}

impl<S: Spawner> Clone for WeakPool<S> {
    fn clone(&self) -> Self {
        WeakPool(self.0.clone())
    }
}

impl<S: Spawner> fmt::Debug for WeakPool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakPool")
    }
}

impl<S: Spawner> ApplicationPool<S> {
    /// Begins to build a pool whose processes `spawner` makes.
    pub fn builder(spawner: S) -> Builder<S> {
        Builder::new(spawner)
    }

    pub(crate) fn from_inner(inner: Arc<Inner<S>>) -> Self {
        ApplicationPool(Arc::new(Handle(inner)))
    }
    pub(crate) fn inner(&self) -> &Arc<Inner<S>> {
        &self.0.0
    }

    /// A session with a process of the application: the text's `get`.
    ///
    /// Uses the least busy process with room, spawns one if there is none, and waits for one if the
    /// pool is full: first come, first served. Waits without end; so use [`get_timeout`] where
    /// sessions may last long.
    ///
    /// # Errors
    /// [`GetError::Closed`], [`GetError::QueueFull`]; [`GetError::Spawn`] if no process could be
    /// spawned and the group has none; [`GetError::Connect`] if no connection could be opened, after
    /// ten attempts with as many processes, or at once if the caller's side is at fault.
    ///
    /// # Panics
    /// Never because of a panicking spawner, process or observer: those are errors.
    ///
    /// [`get_timeout`]: Self::get_timeout
    pub fn get(&self, options: &PoolOptions) -> Result<Session<S>, GetError> {
        self.get_by(options, Asker::Thread, Deadline::Never)
    }

    /// [`get`](Self::get), for at most `timeout`.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), and [`GetError::TimedOut`].
    pub fn get_timeout(
        &self,
        options: &PoolOptions,
        timeout: Duration,
    ) -> Result<Session<S>, GetError> {
        self.get_by(options, Asker::Thread, self.inner().clock.deadline(timeout))
    }

    /// [`get`](Self::get), if there is a process with room right now. If there is none, asks for one
    /// to be spawned, if there is room for it: for a get that does not wait, nothing is evicted.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), and [`GetError::WouldBlock`].
    pub fn try_get(&self, options: &PoolOptions) -> Result<Session<S>, GetError> {
        self.get_by(options, Asker::Impatient, Deadline::Never)
    }

    /// [`get`](Self::get) without the connection: for callers that connect on their own.
    ///
    /// # Errors
    /// Those of [`get`](Self::get) but for [`GetError::Connect`].
    pub fn checkout(&self, options: &PoolOptions) -> Result<Lease<S>, GetError> {
        let look = self.inner().look(options);
        self.checkout_by(options, look.as_ref(), 1, Asker::Thread, Deadline::Never)
    }

    /// [`checkout`](Self::checkout), for at most `timeout`.
    ///
    /// # Errors
    /// Those of [`checkout`](Self::checkout), and [`GetError::TimedOut`].
    pub fn checkout_timeout(
        &self,
        options: &PoolOptions,
        timeout: Duration,
    ) -> Result<Lease<S>, GetError> {
        let look = self.inner().look(options);
        let deadline = self.inner().clock.deadline(timeout);
        self.checkout_by(options, look.as_ref(), 1, Asker::Thread, deadline)
    }

    /// [`checkout`](Self::checkout), if there is a process with room right now.
    ///
    /// # Errors
    /// Those of [`checkout`](Self::checkout), and [`GetError::WouldBlock`].
    pub fn try_checkout(&self, options: &PoolOptions) -> Result<Lease<S>, GetError> {
        let look = self.inner().look(options);
        self.checkout_by(options, look.as_ref(), 1, Asker::Impatient, Deadline::Never)
    }

    fn checkout_by(
        &self,
        options: &PoolOptions,
        look: Option<&restart_files::Look>,
        attempt: usize,
        asker: Asker,
        deadline: Deadline,
    ) -> Result<Lease<S>, GetError> {
        let inner = self.inner();
        match inner.begin(options, look, attempt, asker) {
            Checkout::Serve(entry) => Ok(Lease::new(entry)),
            Checkout::Fail(error) => Err(error),
            Checkout::Wait { group, waiter } => {
                let begun = inner.clock.now();
                let outcome = inner.wait(group, waiter, deadline);
                let lease = outcome.map_or(Err(GetError::TimedOut), Outcome::into_lease)?;
                inner.tell_waited(options, begun);
                Ok(lease)
            }
        }
    }

    fn get_by(
        &self,
        options: &PoolOptions,
        asker: Asker,
        deadline: Deadline,
    ) -> Result<Session<S>, GetError> {
        // Once a get (erratum E24), and outside the lock: it is file I/O.
        let look = self.inner().look(options);
        let mut attempt = 1;
        loop {
            let lease = self.checkout_by(options, look.as_ref(), attempt, asker, deadline)?;
            match connect(lease) {
                Ok(session) => return Ok(session),
                Err(error) if error.is_local() || attempt == MAX_ATTEMPTS => {
                    return Err(GetError::Connect(error));
                }
                Err(error) => {
                    drop_contained(error);
                    attempt += 1;
                }
            }
        }
    }

    /// Detaches the process with this identifier: it gets no more sessions, finishes those it has,
    /// for at most the drain's time-out, and is shut down. Says whether there was such a process.
    pub fn detach(&self, identifier: Identifier) -> bool {
        self.inner().critical(|state, fx| {
            state.detach_without_lock(identifier, DetachReason::Requested, fx)
        })
    }

    /// Detaches all processes of the group with this name, as [`detach`](Self::detach) does, and
    /// forgets the group; the next get for it begins anew. Says whether there was such a group.
    pub fn detach_group(&self, name: &str) -> bool {
        self.inner().critical(|state, fx| state.detach_group(name, fx))
    }

    /// How many processes there may be in all. If there are more, none is shut down for that; fewer
    /// are spawned. A rolling restart under way may have to wait until some have left.
    ///
    /// # Errors
    /// [`BuildError::MaxIsZero`].
    pub fn set_max(&self, max: usize) -> Result<(), BuildError> {
        if max == 0 {
            return Err(BuildError::MaxIsZero);
        }
        self.inner().critical(|state, fx| state.mutate_max(max, fx));
        Ok(())
    }

    /// How many processes one group may have; 0: as many as the pool.
    pub fn set_max_per_app(&self, max_per_app: usize) {
        self.inner().critical(|state, fx| state.mutate_max_per_app(max_per_app, fx));
    }

    /// For how long a process may be idle before it is shut down; zero: for ever.
    pub fn set_max_idle_time(&self, max_idle_time: Duration) {
        self.inner().critical(|state, fx| {
            state.max_idle_time = Span::new(max_idle_time);
            if let Some(due) = state.next_due() {
                state.is_due(due, fx);
            }
        });
    }

    /// One pass of the cleaner: for pools built without its thread.
    pub fn clean(&self) {
        self.inner().critical(|state, fx| state.clean(fx));
    }

    /// How many processes and gets there are, in O(1).
    pub fn counts(&self) -> Counts {
        self.inner().critical(|state, _| state.counts())
    }

    /// A consistent picture of the whole pool.
    pub fn snapshot(&self) -> Snapshot {
        self.inner().snapshot()
    }

    /// Closes the pool: gets that wait fail with [`GetError::Closed`], idle processes are shut down,
    /// busy ones when their sessions are over, spawns in flight are told to give up. Waits until these
    /// have ended, unless it is called from within one of them, from `shut_down` or from an observer. Where the
    /// locals of a thread that ends are dropped, it may wait or not: not once that thread has forgotten for which
    /// pools it works. May be called again.
    ///
    /// Dropping the last handle does the same without waiting.
    pub fn close(&self) {
        let inner = self.inner();
        inner.begin_close();
        if !WorksFor::is_for(inner) {
            // Ends, because a spawner ends a spawn that is cancelled: that is its contract.
            inner.wait_until(Deadline::Never, |state| state.reserved + state.replacing == 0);
        }
    }

    /// Waits until a closed pool has nothing left: no session, no process, no spawn. Says whether
    /// that came about within `timeout`.
    pub fn wait_closed(&self, timeout: Duration) -> bool {
        let deadline = self.inner().clock.deadline(timeout);
        self.inner().wait_until(deadline, State::is_over)
    }

    /// A handle that does not keep the pool open.
    pub fn downgrade(&self) -> WeakPool<S> {
        WeakPool(Arc::downgrade(&self.0))
    }
}

impl<S: Spawner> fmt::Debug for ApplicationPool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApplicationPool").field(&self.counts()).finish()
    }
}

impl<S: Spawner> Inner<S> {
    fn tell_waited(self: &Arc<Self>, options: &PoolOptions, begun: crate::clock::Time) {
        if let Some(observer) = &self.observer {
            let _works = WorksFor::pool(self);
            let waited = self.clock.now().since(begun);
            let group = options.app_group_name().into();
            let _ = contain(|| observer(&Event::Waited { group, waited }));
        }
    }
}

impl<S: Spawner> Outcome<S> {
    fn into_lease(self) -> Result<Lease<S>, GetError> {
        match self {
            Outcome::Serve(entry) => Ok(Lease::new(entry)),
            Outcome::SpawnFailed(error) => Err(GetError::Spawn(error)),
            Outcome::Closed => Err(GetError::Closed),
        }
    }
}

/// Connects to the process of a lease, and ends the lease as the error's owner demands.
#[inline(always)] // Else a session is copied on its way to who asked for it.
fn connect<S: Spawner>(mut lease: Lease<S>) -> Result<Session<S>, ConnectError> {
    match contain(|| lease.process().connect()) {
        Ok(Ok(connection)) => Ok(lease.connected(connection)),
        Ok(Err(error)) => {
            // The app process seems to have crashed; or it is our side (erratum E31: PROP-LOCAL-FAILURE).
            lease.end(if error.is_local() { Ending::Unused } else { Ending::Failed });
            Err(error)
        }
        Err(panic) => {
            lease.end(Ending::Unused);
            Err(ConnectError::local(format!("connect panicked: {panic}")))
        }
    }
}
