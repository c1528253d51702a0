//! The pseudocode's `get`, for threads and tasks: one procedure, which waits as its caller can.
//!
//! 1. Look at the restart files, without the lock (`looking.rs`).
//! 2. One critical section serves the caller, makes it wait, or refuses it.
//! 3. A caller that waits gets its outcome by a [`Attempts`](crate::kernel::section::Turn).
//! 4. Connect to the process, without the lock. If the process is at fault, one section detaches it and looks for
//!    another.

use super::checkout::{Attempts, Checkout};
use super::effects::Effects;
use super::ending::Ending;
use super::error::{ConnectError, GetError};
use super::event::Event;
use super::inner::{Inner, WaitForProcess};
use super::looking::Looked;
use super::options::PoolOptions;
use super::pool::ApplicationPool;
use super::session::{Lease, Session};
use super::spawner::{Process, Spawner};
use super::state::{Outcome, State};
use crate::kernel::at_work::AtWork;
use crate::kernel::clock::{Deadline, Time};
use crate::kernel::section::{Guarded, Patience, now};
use crate::kernel::user_code::{contain, drop_contained};
use std::sync::Arc;
use std::time::Duration;

/// How many processes a get tries to connect to.
const MAX_ATTEMPTS: usize = 10;

const THREAD: Patience = Patience::Thread(Deadline::Never);

impl<S: Spawner> ApplicationPool<S> {
    /// Returns a session with a process of the application.
    ///
    /// Uses the least busy process with room. Otherwise spawns a process, or, if the pool is full, waits for one:
    /// first come, first served. There is no time limit; where sessions may last long, use [`get_timeout`].
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// let session = pool.get(&shop)?; // spawns the first process
    /// assert_eq!(session.request("hello"), "hello from /srv/shop");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`GetError::Closed`], [`GetError::QueueFull`] and [`GetError::QueuedTooLong`].
    /// - [`GetError::Spawn`] if a spawn failed and the group has no process. The same error says "a process failed soon
    ///   after it was ready" if the processes die early: see [`Builder::back_off`](super::Builder::back_off).
    /// - [`GetError::Connect`] if no connection could be opened: after ten attempts with as many
    ///   processes, or at once if the caller's side is at fault.
    /// - [`GetError::InCallback`] if it would have to wait, and this pool has called the calling user code.
    ///
    /// # Panics
    /// Never because of a panicking spawner, process or observer: those are errors.
    ///
    /// [`get_timeout`]: Self::get_timeout
    pub fn get(&self, options: &PoolOptions) -> Result<Session<S>, GetError> {
        now(self.inner().get(options, THREAD)).map_err(|error| *error)
    }

    /// Gets a session as [`get`](Self::get) does, and waits for at most `timeout`.
    ///
    /// The time begins with the call: the look at the restart files counts, and so do attempts to connect that fail. A
    /// get that waits neither for a look nor for a process is served even later.
    ///
    /// With `Duration::ZERO` it never blocks. It begins a look, and goes by the last look of its group. A group that has
    /// none yet is served from the end of that look on.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).max(1).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use cabrank::application_pool::GetError;
    /// use std::time::Duration;
    ///
    /// let only = pool.get(&shop)?;
    /// let late = pool.get_timeout(&shop, Duration::from_millis(1));
    /// assert!(matches!(late, Err(GetError::TimedOut)));
    /// # drop(only);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Self::get), and [`GetError::TimedOut`].
    pub fn get_timeout(
        &self,
        options: &PoolOptions,
        timeout: Duration,
    ) -> Result<Session<S>, GetError> {
        now(self.inner().get(options, self.patience(timeout))).map_err(|error| *error)
    }

    /// Gets a session as [`get`](Self::get) does, if a process has room right now. Otherwise asks for one to be
    /// spawned, if the pool has room for it: a get that does not wait evicts no other process.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use cabrank::application_pool::GetError;
    ///
    /// // There is no process yet. The call begins to spawn one.
    /// assert!(matches!(pool.try_get(&shop), Err(GetError::WouldBlock)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Self::get), and [`GetError::WouldBlock`].
    pub fn try_get(&self, options: &PoolOptions) -> Result<Session<S>, GetError> {
        now(self.inner().get(options, Patience::None)).map_err(|error| *error)
    }

    /// Gets a session as [`get`](Self::get) does, in a future for any runtime. The future has no timeout of its
    /// own: drop it, or wrap it into one of the runtime's. It calls `Process::connect` within a poll.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let session = pool.get_async(&shop).await?;
    /// assert_eq!(session.request("hello"), "hello from /srv/shop");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    ///
    /// # Cancel safety
    /// May be dropped at any await. A get that waits leaves its queue; one that was served meanwhile passes the
    /// process on to the next in line.
    pub async fn get_async(&self, options: &PoolOptions) -> Result<Session<S>, GetError> {
        self.inner().get(options, Patience::Task).await.map_err(|error| *error)
    }

    /// Gets a process as [`get`](Self::get) does, without the connection: for callers that connect on their own.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use cabrank::application_pool::Process;
    ///
    /// let lease = pool.checkout(&shop)?;
    /// let connection = lease.process().connect()?; // or in a way of your own
    /// let session = lease.connected(connection);
    /// assert_eq!(session.request("hello"), "hello from /srv/shop");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Self::get) except [`GetError::Connect`].
    pub fn checkout(&self, options: &PoolOptions) -> Result<Lease<S>, GetError> {
        now(self.inner().checkout(options, THREAD)).map_err(|error| *error)
    }

    /// Checks out a process as [`checkout`](Self::checkout) does, and waits for at most `timeout`.
    /// The time counts as for [`get_timeout`](Self::get_timeout).
    ///
    /// # Errors
    /// Those of [`checkout`](Self::checkout), and [`GetError::TimedOut`].
    pub fn checkout_timeout(
        &self,
        options: &PoolOptions,
        timeout: Duration,
    ) -> Result<Lease<S>, GetError> {
        now(self.inner().checkout(options, self.patience(timeout))).map_err(|error| *error)
    }

    /// Checks out a process as [`checkout`](Self::checkout) does, if one has room right now.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// drop(pool.checkout(&shop)?); // spawns a process, which is idle now
    /// assert!(pool.try_checkout(&shop).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`checkout`](Self::checkout), and [`GetError::WouldBlock`].
    pub fn try_checkout(&self, options: &PoolOptions) -> Result<Lease<S>, GetError> {
        now(self.inner().checkout(options, Patience::None)).map_err(|error| *error)
    }

    /// [`checkout`](Self::checkout) as a future: for callers that connect asynchronously.
    ///
    /// # Errors
    /// Those of [`checkout`](Self::checkout).
    ///
    /// # Cancel safety
    /// As for [`get_async`](Self::get_async).
    pub async fn checkout_async(&self, options: &PoolOptions) -> Result<Lease<S>, GetError> {
        self.inner().checkout(options, Patience::Task).await.map_err(|error| *error)
    }

    fn patience(&self, timeout: Duration) -> Patience {
        Patience::Thread(self.inner().clock().deadline(timeout))
    }
}

// The errors are boxed, so that a success has no room for one. With that room, the success is copied in other widths
// than it was written in, for which a processor stalls.
impl<S: Spawner> Inner<S> {
    #[inline]
    async fn get(
        self: &Arc<Self>,
        options: &PoolOptions,
        patience: Patience,
    ) -> Result<Session<S>, Box<GetError>> {
        // Once a get (erratum E24), and outside the lock: it is file I/O.
        let look = match &self.restart_files {
            Some(files) => Some(self.look(files, options, patience).await?),
            None => None,
        };
        let (mut attempt, mut waits_since) = (1, None);
        let mut attempts = Attempts::default();
        let mut begun = self.begin(|state, fx| {
            state.checkout_first(options, look.as_ref(), &mut attempts, patience, fx)
        });
        loop {
            let lease = match begun {
                Ok(lease) => lease,
                Err(checkout) => self.wait(checkout, patience, &mut waits_since).await?,
            };
            let error = match connect(&lease) {
                Ok(connection) => {
                    self.report_wait(options, waits_since);
                    return Ok(lease.connected(connection));
                }
                Err(error) => error,
            };
            if error.is_local() || attempt == MAX_ATTEMPTS {
                // The process seems to have crashed, or the caller's side is at fault (erratum E31:
                // PROP-LOCAL-FAILURE).
                lease.end(if error.is_local() { Ending::Unused } else { Ending::Failed });
                return Err(Box::new(GetError::Connect(error)));
            }
            attempt += 1;
            let refused = lease.into_entry();
            begun = self.begin(|state, fx| {
                match state.look_of(options, look.as_ref(), fx) {
                    Ok(look) => {
                        state.checkout_again(&refused, options, look, &mut attempts, patience, fx)
                    }
                    // The group was detached by name meanwhile, and has forgotten its last look.
                    Err(error) => {
                        state.end_session(&refused, Ending::Failed, fx);
                        Checkout::Fail(error)
                    }
                }
            });
            drop_contained(error);
        }
    }

    #[inline]
    async fn checkout(
        self: &Arc<Self>,
        options: &PoolOptions,
        patience: Patience,
    ) -> Result<Lease<S>, Box<GetError>> {
        let look = match &self.restart_files {
            Some(files) => Some(self.look(files, options, patience).await?),
            None => None,
        };
        let mut attempts = Attempts::default();
        let begun = self.begin(|state, fx| {
            state.checkout_first(options, look.as_ref(), &mut attempts, patience, fx)
        });
        let mut waits_since = None;
        let lease = match begun {
            Ok(lease) => lease,
            Err(checkout) => self.wait(checkout, patience, &mut waits_since).await?,
        };
        self.report_wait(options, waits_since);
        Ok(lease)
    }

    /// One critical section. Returns the lease if it served the get at once.
    #[inline]
    fn begin(
        self: &Arc<Self>,
        checkout: impl FnOnce(&mut State<S>, &mut Effects<S>) -> Checkout<S>,
    ) -> Result<Lease<S>, Checkout<S>> {
        let mut other = None;
        // A process leaves the section in a register. To return the whole `Checkout` would copy it by fields of other
        // widths than it was written in, for which a processor stalls.
        let served = self.critical(|state, fx| match checkout(state, fx) {
            Checkout::Serve(entry) => Some(entry),
            checkout => {
                other = Some(checkout);
                None
            }
        });
        served.map(Lease::new).ok_or_else(|| other.expect("it was not served"))
    }

    /// Continues a get that was not served at once. Sets `since` to the beginning of its first wait.
    async fn wait(
        self: &Arc<Self>,
        checkout: Checkout<S>,
        patience: Patience,
        since: &mut Option<Time>,
    ) -> Result<Lease<S>, Box<GetError>> {
        match checkout {
            Checkout::Serve(entry) => Ok(Lease::new(entry)),
            Checkout::Fail(error) => Err(Box::new(error)),
            Checkout::Wait { group, waiter } => {
                since.get_or_insert_with(|| self.clock().now());
                // User code that this pool calls could wait for a spawn that its own thread has to start.
                let in_callback = AtWork::is_for(&**self);
                let patience = match in_callback {
                    true => Patience::Thread(self.clock().deadline(Duration::ZERO)),
                    false => patience,
                };
                let outcome = self.turn(WaitForProcess { group, waiter }, patience).await;
                let late = if in_callback { GetError::InCallback } else { GetError::TimedOut };
                let outcome = outcome.map_err(|()| Box::new(late))?;
                outcome.into_lease().map_err(Box::new)
            }
        }
    }

    /// Tells the observer of a get that was served after a wait: once, however often it waited.
    fn report_wait(self: &Arc<Self>, options: &PoolOptions, since: Option<Time>) {
        if let Some(began) = since.filter(|_| self.observer.is_some()) {
            let _at_work = AtWork::begin(&**self);
            let waited = self.clock().now().since(began);
            let group = options.app_group_name().into();
            self.notify_observer(&Event::Waited { group, waited });
        }
    }
}

impl<S: Spawner> Outcome<S> {
    fn into_lease(self) -> Result<Lease<S>, GetError> {
        match self {
            Outcome::Serve(entry) => Ok(Lease::new(entry)),
            Outcome::SpawnFailed(error) => Err(GetError::Spawn(error)),
            Outcome::QueuedTooLong => Err(GetError::QueuedTooLong),
            Outcome::Closed | Outcome::Looked(_) => Err(GetError::Closed),
        }
    }
}

impl<S: Spawner> State<S> {
    /// Carries out the first attempt of a get.
    #[inline]
    fn checkout_first(
        &mut self,
        options: &PoolOptions,
        looked: Option<&Looked>,
        attempts: &mut Attempts,
        patience: Patience,
        fx: &mut Effects<S>,
    ) -> Checkout<S> {
        match self.look_of(options, looked, fx) {
            Ok(look) => self.checkout_without_lock(options, look, attempts, patience, fx),
            Err(error) => Checkout::Fail(error),
        }
    }
}

/// Connects to the process of a lease.
#[inline(always)] // Otherwise the connection is copied on its way to the caller.
fn connect<S: Spawner>(
    lease: &Lease<S>,
) -> Result<<S::Process as Process>::Connection, ConnectError> {
    match contain(|| lease.process().connect()) {
        Ok(connected) => connected,
        Err(panic) => Err(ConnectError::local(format!("connect panicked: {panic}"))),
    }
}
