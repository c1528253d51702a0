//! The handles of a pool: [`ResourcePool`], whose resources are all alike, and [`KeyedResourcePool`].

use super::factory::{Async, Form, ResourceFactory};
use super::snapshot::Snapshot;
use crate::kernel::handle::{Close, Handle, WeakHandle};
use crate::kernel::section::{Guarded, Patience, now};
#[cfg(feature = "metrics")]
use crate::kernel::user_code::contain;
use crate::resource_pool::state::state::State;
use crate::resource_pool::state::waiting::WaitForEnd;
use crate::resource_pool::work::inner::Inner;
#[cfg(feature = "metrics")]
use crate::resource_pool::work::to_metrics;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A pool of resources.
///
/// Clones are handles to the same pool. Dropping the last one closes it. `F` is the [factory](crate::resource_pool), in either
/// form. `K` says how resources are selected: [`ResourcePool`] and [`KeyedResourcePool`] are the two pools there are.
pub struct Pool<F: Form, K>(Handle<Inner<F>>, PhantomData<fn() -> K>);

/// A handle that does not keep the pool open.
///
/// ```
#[doc = include_str!("example.txt")]
/// let pool = ResourcePool::builder(Connections, "db.example").build()?;
/// let weak = pool.downgrade();
/// assert!(weak.upgrade().is_some());
/// drop(pool); // the last handle: the pool closes
/// assert!(weak.upgrade().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WeakPool<F: Form, K>(WeakHandle<Inner<F>>, PhantomData<fn() -> K>);

/// Selects the resources of a [`ResourcePool`]: they are all alike.
#[derive(Debug)]
pub enum Unkeyed {}

/// Selects the resources of a [`KeyedResourcePool`], by a key of type `K`.
#[derive(Debug)]
pub struct Keyed<K>(PhantomData<K>);

/// A pool of resources that are all alike: a [`KeyedResourcePool`] with one key. See the [module](crate::resource_pool).
///
/// ```
#[doc = include_str!("example.txt")]
/// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
/// let pool = ResourcePool::builder(Connections, "db.example").max_active(4).build()?;
/// assert_eq!(*pool.borrow()?, "connection to db.example");
/// assert_eq!(pool.num_idle(), 1); // it is back in the pool
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type ResourcePool<F> = Pool<F, Unkeyed>;

/// A pool whose factory is asynchronous. [`Async`] has an example.
///
/// The pool needs no runtime of its own. [`build_on`](crate::resource_pool::Builder::build_on) takes one for the maintenance.
pub type AsyncResourcePool<F> = ResourcePool<Async<F>>;

/// A pool of resources by key, which is the metadata of the [factory](crate::resource_pool) `F`.
///
/// `max_active`, `max_idle`, `min_idle` and `max_total_per_key` hold for each key, `max_total` for all keys together.
/// A key at its own limit delays no other key: a resource or place that becomes free goes to the oldest waiter that can
/// use it.
///
/// When `max_total` is reached, the pool evicts a resource to create another in its place. It takes an idle resource
/// of the key that has expired, else the least recently used idle resource of another key.
///
/// Each call hashes, compares and clones its key itself. A panic of `Hash`, `Eq` or `Clone` unwinds from that call, as
/// from a `HashMap`. It leaves the pool unharmed, because nothing is reserved by then.
///
/// ```
/// use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory};
///
/// struct Connections;
/// impl ResourceFactory for Connections {
///     type Resource = String;
///     type Metadata = &'static str; // the key: where to connect to
///     type Error = std::io::Error;
///     fn create(&self, address: &&'static str) -> std::io::Result<String> {
///         Ok(format!("connection to {address}"))
///     }
/// }
///
/// let pool = KeyedResourcePool::builder(Connections).max_active(4).max_total(8).build()?;
/// assert_eq!(*pool.borrow(&"a.example")?, "connection to a.example");
/// assert_eq!(*pool.borrow(&"b.example")?, "connection to b.example");
/// assert_eq!(pool.num_idle(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type KeyedResourcePool<K, F> = Pool<F, Keyed<K>>;

/// A handle that does not keep a [`ResourcePool`] open.
pub type WeakResourcePool<F> = WeakPool<F, Unkeyed>;

/// A handle that does not keep a [`KeyedResourcePool`] open.
pub type WeakKeyedResourcePool<K, F> = WeakPool<F, Keyed<K>>;

impl<F: Form, K> Pool<F, K> {
    pub(crate) fn of(inner: Arc<Inner<F>>) -> Self {
        Pool(Handle::new(inner), PhantomData)
    }
    #[inline]
    pub(crate) fn inner(&self) -> &Arc<Inner<F>> {
        self.0.target()
    }

    /// Destroys all idle resources. Borrowed ones are not affected.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// pool.prefill(2)?;
    /// pool.clear();
    /// assert_eq!(pool.num_total(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) {
        self.inner().critical(|state, fx| state.clear(fx));
    }
    /// Invalidates every existing resource, such as after a failover.
    ///
    /// Idle resources are destroyed now, borrowed ones when they are returned, and ones being created for the idle list
    /// as soon as they are created. A waiter that was granted a resource and has not picked it up gets another one.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// let old = pool.borrow()?;
    /// pool.clear_all(); // say, the password has changed
    /// drop(old);
    /// assert_eq!(pool.num_total(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear_all(&self) {
        self.inner().critical(|state, fx| state.clear_all(fx));
    }
    /// Closes the pool, and waits for no borrower. Closing it again changes nothing.
    ///
    /// Waiters fail with [`BorrowError::Closed`](crate::resource_pool::BorrowError::Closed), including those that were granted a
    /// resource and have not picked it up. Idle resources are destroyed now, borrowed ones when they are returned: by tasks in a
    /// pool with a runtime, else by this call. `wait_closed` waits for that.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// use cabrank::resource_pool::BorrowError;
    ///
    /// pool.close();
    /// assert!(matches!(pool.borrow(), Err(BorrowError::Closed)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) {
        Close::close(self.inner());
    }
    /// Returns whether the pool is closed.
    pub fn is_closed(&self) -> bool {
        self.inner().state.look(|state| state.closed)
    }
    /// Waits until no resource of a closed pool is left. Returns false if one is left after `timeout`. In a forked child it
    /// returns true at once.
    pub fn wait_closed(&self, timeout: Duration) -> bool {
        let patience = Patience::Thread(self.inner().clock().deadline(timeout));
        self.inner().origin.is_forked()
            || now(self.inner().turn(WaitForEnd::new(patience), patience)).is_ok()
    }
    /// Waits until no resource of a closed pool is left. Cancel-safe.
    pub async fn wait_closed_async(&self) {
        if !self.inner().origin.is_forked() {
            let turn = self.inner().turn(WaitForEnd::new(Patience::Task), Patience::Task);
            let _ = turn.await;
        }
    }

    /// Returns how many resources are lent, or reserved for a borrower.
    pub fn num_active(&self) -> usize {
        self.inner().state.look(|state| state.active)
    }
    /// Returns how many resources are idle.
    pub fn num_idle(&self) -> usize {
        self.inner().state.look(|state| state.idle)
    }
    /// Returns how many resources exist, including those being created or destroyed.
    pub fn num_total(&self) -> usize {
        self.inner().state.look(|state| state.total)
    }
    /// Returns how many borrowers wait for their turn.
    pub fn num_waiting(&self) -> usize {
        self.inner().state.look(|state| state.waiting)
    }
    /// Returns a consistent picture of the pool.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// let connection = pool.borrow()?;
    /// let snapshot = pool.snapshot();
    /// assert_eq!((snapshot.active, snapshot.idle, snapshot.waiting), (1, 0, 0));
    /// # drop(connection);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot<F::Metadata> {
        let copied = self.inner().state.look(State::copied);
        copied.in_order()
    }
    /// Destroys the idle resources for which `keep` returns false.
    ///
    /// `keep` runs without the pool's lock, and its resource cannot be lent meanwhile. The call skips resources that
    /// are being tested, or that a concurrent call looks at. [`clear`](Self::clear) skips none.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// pool.prefill(2)?;
    /// pool.retain(|_address, connection| connection.is_empty());
    /// assert_eq!(pool.num_idle(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics if `keep` does. The resource that `keep` looked at is then destroyed.
    pub fn retain(&self, keep: impl FnMut(&F::Metadata, &mut F::Resource) -> bool) {
        self.inner().retain(keep);
    }
    /// Runs the maintenance that is due, and returns when it should run again.
    ///
    /// `None` means that nothing is due until another call changes the pool. A pool with an asynchronous factory
    /// that was built without a runtime is maintained by this call alone.
    ///
    /// # Cancel safety
    /// As [`add_async`](ResourcePool::add_async): the dropped call may have been creating, testing or passivating.
    pub async fn maintain_async(&self) -> Option<Duration> {
        self.inner().maintain().await;
        self.inner().due_in()
    }
    /// Returns a handle that does not keep the pool open.
    pub fn downgrade(&self) -> WeakPool<F, K> {
        WeakPool(self.0.downgrade(), PhantomData)
    }
}

#[cfg(feature = "metrics")]
impl<F: Form, K> Pool<F, K> {
    /// Sets the gauges of a [named](crate::resource_pool::Builder::name) pool: see [observation](super::super#observation). A program
    /// calls this before each scrape, or every few seconds. Requires the feature `metrics`.
    pub fn record_gauges(&self) {
        let Some(name) = self.inner().observed.name() else { return };
        let numbers = self.inner().state.look(|state| {
            [state.active, state.idle, state.total, state.waiting].map(|number| number as f64)
        });
        let _ = contain(|| to_metrics::gauges(name, numbers));
    }
}

impl<F: ResourceFactory, K> Pool<F, K> {
    /// Runs the maintenance that is due: evicts, tests idle resources, and refills the idle list.
    ///
    /// Only a pool that was built without maintenance needs this call.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # use cabrank::ManualClock;
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let pool = ResourcePool::builder(Connections, "db.example")
    ///     .max_idle_time(Duration::from_secs(60))
    ///     .clock(time.clock())
    ///     .maintenance(false)
    ///     .build()?;
    /// pool.add()?;
    /// time.advance(Duration::from_secs(60));
    /// pool.maintain();
    /// assert_eq!(pool.num_idle(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn maintain(&self) {
        now(self.inner().maintain());
    }
}

impl<F: Form, K> Clone for Pool<F, K> {
    fn clone(&self) -> Self {
        Pool(self.0.clone(), PhantomData)
    }
}
impl<F: Form, K> fmt::Debug for Pool<F, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Copied first: the writer is user code, and may call the pool.
        let (numbers, closed) = self.inner().critical(|state, _| {
            ([state.active, state.idle, state.total, state.waiting], state.closed)
        });
        let mut debug = f.debug_struct("ResourcePool");
        for (name, number) in ["active", "idle", "total", "waiting"].iter().zip(&numbers) {
            debug.field(name, number);
        }
        debug.field("closed", &closed).finish()
    }
}
impl<F: Form, K> WeakPool<F, K> {
    /// Returns the pool, if a handle keeps it open.
    pub fn upgrade(&self) -> Option<Pool<F, K>> {
        self.0.upgrade().map(|handle| Pool(handle, PhantomData))
    }
}
impl<F: Form, K> Clone for WeakPool<F, K> {
    fn clone(&self) -> Self {
        WeakPool(self.0.clone(), PhantomData)
    }
}
impl<F: Form, K> fmt::Debug for WeakPool<F, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakResourcePool")
    }
}
