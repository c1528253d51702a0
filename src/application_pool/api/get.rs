//! The pseudocode's `get`, for threads and tasks. `work/getting.rs` has the procedure, which waits as its caller can.

use super::error::GetError;
use super::options::PoolOptions;
use super::pool::ApplicationPool;
use super::session::{Lease, Session};
use super::spawner::Spawner;
use crate::kernel::clock::Deadline;
use crate::kernel::section::{Patience, now};
use std::time::Duration;

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
    ///   after it was ready" if the processes die early: see [`Builder::back_off`](crate::application_pool::Builder::back_off).
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
