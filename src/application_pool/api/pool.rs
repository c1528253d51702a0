//! The pool as its users hold it: handles, and every call but the gets (`get.rs`).

use super::close_timed_out::CloseTimedOut;
use super::error::{BuildError, GetError, not_zero};
use super::event::DetachReason;
use super::options::{PoolOptions, RestartMode};
use super::snapshot::{Counts, Snapshot};
use super::spawner::{Identifier, Spawner};
use crate::application_pool::state::state::End;
use crate::application_pool::work::inner::Inner;
use crate::kernel::at_work::AtWork;
use crate::kernel::clock::{Deadline, Span};
use crate::kernel::handle::{Close, Handle, WeakHandle};
use crate::kernel::section::Guarded;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A pool of application processes. Clones are handles to the same pool; dropping the last one closes
/// it.
///
/// ```
/// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
/// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
/// # let shop = PoolOptions::new("/srv/shop");
/// let other = pool.clone();
/// drop(pool);
/// assert!(other.get(&shop).is_ok(), "a handle is left");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ApplicationPool<S: Spawner>(Handle<Inner<S>>);

impl<S: Spawner> Clone for ApplicationPool<S> {
    fn clone(&self) -> Self {
        ApplicationPool(self.0.clone())
    }
}

/// A handle that does not keep the pool open.
///
/// ```
/// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
/// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
/// # let shop = PoolOptions::new("/srv/shop");
/// let weak = pool.downgrade();
/// assert!(weak.upgrade().is_some());
/// drop(pool);
/// assert!(weak.upgrade().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WeakPool<S: Spawner>(WeakHandle<Inner<S>>);

impl<S: Spawner> WeakPool<S> {
    /// Returns the pool, if a handle keeps it open.
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
    pub(crate) fn from_inner(inner: Arc<Inner<S>>) -> Self {
        ApplicationPool(Handle::new(inner))
    }
    #[inline]
    pub(crate) fn inner(&self) -> &Arc<Inner<S>> {
        self.0.target()
    }

    /// Detaches the process with this identifier. Returns whether there was such a process.
    ///
    /// A detached process gets no more sessions. It finishes those it has, within the drain's
    /// timeout, and is shut down.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use cabrank::Session;
    ///
    /// let session = pool.get(&shop)?;
    /// assert!(pool.detach(Session::identifier(&session)));
    /// assert_eq!(pool.counts().draining, 1); // it finishes this session
    /// drop(session);
    /// assert_eq!(pool.counts().draining, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn detach(&self, identifier: Identifier) -> bool {
        self.inner().critical(|state, fx| {
            state.detach_without_lock(identifier, DetachReason::Requested, fx)
        })
    }

    /// Detaches the process with this identifier, as [`detach`](Self::detach) does, because it has ended or refuses connections.
    /// Returns whether there was such a process.
    ///
    /// Unlike [`process_has_failed`](Self::process_has_failed), it does not count as a failed spawn, however young the process is:
    /// call it where a request may be the cause.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use cabrank::Session;
    ///
    /// let process = Session::identifier(&pool.get(&shop)?);
    /// assert!(pool.process_is_gone(process));
    /// assert!(!pool.process_is_gone(process));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn process_is_gone(&self, identifier: Identifier) -> bool {
        self.inner()
            .critical(|state, fx| state.detach_without_lock(identifier, DetachReason::Gone, fx))
    }

    /// Disables the process with this identifier. Returns whether it is attached.
    ///
    /// A disabled process finishes its sessions, is given no more, and stays in the pool: for example, to look at it with
    /// a debugger. It keeps its place, is not evicted, and does not count for its group's minimum. It ends as any other by
    /// a restart, [`detach`](Self::detach) or [`close`](Self::close). If as many processes are disabled as
    /// [`max`](crate::application_pool::Builder::max) or [`max_per_app`](crate::application_pool::Builder::max_per_app) allows, gets wait until one is enabled.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use cabrank::Session;
    ///
    /// let process = Session::identifier(&pool.get(&shop)?);
    /// assert!(pool.disable(process));
    /// assert_ne!(Session::identifier(&pool.get(&shop)?), process); // another one serves
    /// assert!(pool.enable(process));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn disable(&self, identifier: Identifier) -> bool {
        self.inner().critical(|state, _| state.set_enabled(identifier, false))
    }
    /// Enables the process with this identifier after [`disable`](Self::disable): it is given sessions again. Returns
    /// whether it is attached.
    pub fn enable(&self, identifier: Identifier) -> bool {
        self.inner().critical(|state, _| state.set_enabled(identifier, true))
    }

    /// Reports that the process with this identifier has failed: it has crashed, or its spawner has found it broken.
    /// Returns whether there is such a process, attached or about to be.
    ///
    /// [Detaches](Self::detach) it. A process that fails soon after it was ready counts as a failed spawn: see
    /// [`Builder::back_off`](crate::application_pool::Builder::back_off).
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use cabrank::Session;
    ///
    /// let process = Session::identifier(&pool.get(&shop)?);
    /// assert!(pool.process_has_failed(process)); // called when the process is seen to end
    /// assert_eq!(pool.counts().count, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn process_has_failed(&self, identifier: Identifier) -> bool {
        self.inner().critical(|state, fx| state.process_has_failed(identifier, fx))
    }

    /// Detaches all processes of the group with this name, as [`detach`](Self::detach) does, and
    /// forgets the group: the next get for it makes a new one. Returns whether there was such a group.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// drop(pool.get(&shop)?);
    /// assert!(pool.detach_group("/srv/shop"));
    /// assert_eq!(pool.counts().count, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn detach_group(&self, name: &str) -> bool {
        self.inner().critical(|state, fx| state.detach_group(name, fx))
    }

    /// Restarts the group with this name: replaces its processes by processes with new code. Returns whether there is
    /// such a group in an open pool.
    ///
    /// Does what a new `restart.txt` does, and works without restart files. A group that backs off spawns at once. A
    /// group that was detached by name and only drains is gone: it is not restarted.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use cabrank::application_pool::RestartMode;
    ///
    /// drop(pool.get(&shop)?);
    /// // The old process serves until the new one is ready.
    /// assert!(pool.restart_group("/srv/shop", RestartMode::Rolling));
    /// assert!(!pool.restart_group("/srv/unknown", RestartMode::Immediate));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restart_group(&self, name: &str, mode: RestartMode) -> bool {
        self.inner().critical(|state, fx| state.restart_group(name, mode, fx))
    }

    /// Spawns the group's [minimum of processes](PoolOptions::with_min_processes) before its first get, and keeps it.
    /// Does not wait for the spawns. Looks at the restart files on the calling thread.
    ///
    /// The pool spawns them one after the other, as far as it has room: no process of another group is evicted. The
    /// observer learns of a failed spawn, which is repeated after the back-off. Passenger's `passenger_pre_start` and
    /// Commons Pool's `preparePool` are alike.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// let shop = PoolOptions::new("/srv/shop").with_min_processes(2);
    /// pool.pre_start(&shop)?;
    /// while pool.counts().count < 2 {
    ///     std::thread::yield_now(); // they boot in the background
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`GetError::Closed`].
    pub fn pre_start(&self, options: &PoolOptions) -> Result<(), GetError> {
        let inner = self.inner();
        // Processes that start now have the code that the files show now.
        let look = inner.restart_files.as_ref();
        let look = look.map(|files| files.look(options.restart_dir(), inner.clock()));
        inner.critical(|state, _| state.pre_start(options, look.as_deref()))
    }

    /// Sets how many processes the pool may have. If it has more, they stay, and it
    /// spawns fewer. A rolling restart under way may have to wait until some have left.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// pool.set_max(12)?;
    /// assert!(pool.set_max(0).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::Zero`] if `max` is 0.
    pub fn set_max(&self, max: usize) -> Result<(), BuildError> {
        not_zero("max", Some(max))?;
        self.inner().critical(|state, _| state.mutate_max(max));
        Ok(())
    }

    /// Sets how many processes one group may have; `None`: as many as the pool.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// pool.set_max_per_app(2)?;
    /// pool.set_max_per_app(None)?; // no limit of its own
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::Zero`] if the limit is 0.
    pub fn set_max_per_app(&self, max_per_app: impl Into<Option<usize>>) -> Result<(), BuildError> {
        let max_per_app = max_per_app.into();
        not_zero("max_per_app", max_per_app)?;
        self.inner().critical(|state, _| state.mutate_max_per_app(max_per_app));
        Ok(())
    }

    /// Sets for how long a process may be idle before it is shut down; `None`: for ever.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use std::time::Duration;
    ///
    /// pool.set_max_idle_time(Duration::from_secs(60))?;
    /// pool.set_max_idle_time(None)?; // processes stay for ever
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::Zero`] if the time is zero.
    pub fn set_max_idle_time(
        &self,
        max_idle_time: impl Into<Option<Duration>>,
    ) -> Result<(), BuildError> {
        let max_idle_time = max_idle_time.into();
        not_zero("max_idle_time", max_idle_time)?;
        self.inner().critical(|state, fx| {
            state.max_idle_time = max_idle_time.map(Span::new);
            if let Some(due) = state.next_due() {
                state.is_due(due, fx);
            }
        });
        Ok(())
    }

    /// Does what the cleaner's thread does in one pass: for pools built without it.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, ManualClock, PoolOptions, in_memory::InMemorySpawner};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let builder = ApplicationPool::builder(InMemorySpawner::new()).clock(time.clock());
    /// let pool = builder.cleaner(false).max_idle_time(Duration::from_secs(300)).build()?;
    ///
    /// drop(pool.get(&PoolOptions::new("/srv/shop"))?);
    /// time.advance(Duration::from_secs(300));
    /// pool.clean();
    /// assert_eq!(pool.counts().count, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clean(&self) {
        self.inner().critical(|state, fx| state.clean(fx));
    }

    /// Returns how many processes and gets there are, in O(1).
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// let session = pool.get(&shop)?;
    /// let counts = pool.counts();
    /// assert_eq!((counts.count, counts.active, counts.waiting), (1, 1, 0));
    /// # drop(session);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn counts(&self) -> Counts {
        self.inner().critical(|state, _| state.counts())
    }

    /// Returns a picture of the whole pool: of one moment, unless the pool is large (see [`Snapshot`]).
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// let session = pool.get(&shop)?;
    /// let snapshot = pool.snapshot();
    /// assert_eq!(snapshot.groups[0].name, "/srv/shop");
    /// assert_eq!(snapshot.groups[0].processes[0].sessions, 1);
    /// # drop(session);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.inner().snapshot()
    }

    /// Closes the pool and waits until its spawns have ended. May be called again.
    ///
    /// A spawn has ended when its process is attached, or was not wanted and its `shut_down` has returned.
    ///
    /// Gets that wait fail with [`GetError::Closed`]. Idle processes are shut down now, busy
    /// ones when their sessions have ended. Spawns in flight are cancelled.
    ///
    /// Called from within a spawn, `shut_down` or the observer, it does not wait.
    ///
    /// Dropping the last handle closes the pool without waiting.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use cabrank::application_pool::GetError;
    ///
    /// pool.close();
    /// assert!(matches!(pool.get(&shop), Err(GetError::Closed)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) {
        let inner = self.inner();
        Inner::close(inner);
        if !AtWork::is_for(&**inner) {
            // This wait ends: by its contract a spawner ends a spawn that is cancelled.
            inner.wait_for(End::OfSpawns, Deadline::Never);
        }
    }

    /// Closes the pool as [`close`](Self::close) does, and waits until it has no session, process or spawn left, but
    /// for at most `timeout`.
    ///
    /// Sessions that are left after that end within the drain timeout, cancelled spawns as soon as their spawner
    /// returns. May be called again.
    ///
    /// Each `shut_down` has returned then. The values of the processes may still be about to be dropped, on a thread of
    /// their own.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use std::time::Duration;
    ///
    /// let session = pool.get(&shop)?;
    /// let error = pool.close_timeout(Duration::ZERO).unwrap_err();
    /// assert_eq!((error.groups(), error.processes(), error.sessions()), (1, 1, 1));
    /// drop(session);
    /// pool.close_timeout(Duration::from_secs(1))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CloseTimedOut`] says what is left. Called from within a spawn, `shut_down` or the observer, it does not wait.
    pub fn close_timeout(&self, timeout: Duration) -> Result<(), CloseTimedOut> {
        let inner = self.inner();
        let deadline = inner.clock().deadline(timeout);
        Inner::close(inner);
        match inner.wait_for_everything(deadline) {
            true => Ok(()),
            false => Err(CloseTimedOut::new(self.snapshot())),
        }
    }

    /// Waits until a closed pool has no session, process or spawn left. Returns whether that was so within
    /// `timeout`. [`close_timeout`](Self::close_timeout) closes it as well, and says what is left.
    ///
    /// Called from within a spawn, `shut_down` or the observer, it does not wait: it would wait for itself.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use std::time::Duration;
    ///
    /// let session = pool.get(&shop)?;
    /// pool.close();
    /// assert!(!pool.wait_closed(Duration::ZERO), "a session is open");
    /// drop(session);
    /// assert!(pool.wait_closed(Duration::from_secs(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_closed(&self, timeout: Duration) -> bool {
        let deadline = self.inner().clock().deadline(timeout);
        self.inner().wait_for_everything(deadline)
    }

    /// Returns a handle that does not keep the pool open.
    pub fn downgrade(&self) -> WeakPool<S> {
        WeakPool(self.0.downgrade())
    }
}

impl<S: Spawner> fmt::Debug for ApplicationPool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApplicationPool").field(&self.counts()).finish()
    }
}
