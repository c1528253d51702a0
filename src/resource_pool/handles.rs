//! The handles of a pool: [`ResourcePool`], whose resources are all alike, and [`KeyedResourcePool`].

use super::builder::Builder;
use super::error::{AddError, BorrowError};
use super::factory::{Async, Form, ResourceFactory};
use super::guard::Borrowed;
use super::keys::{Select, TheKey};
use super::options::{BuildError, Limits, number};
use super::pool::Inner;
use super::snapshot::Snapshot;
use super::state::State;
use super::waiting::WaitForEnd;
use crate::clock::Deadline;
use crate::handle::{Close, Handle, WeakHandle};
use crate::section::{Guarded, Patience, now};
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A pool of resources.
///
/// Clones are handles to the same pool. Dropping the last one closes it. `F` is the [factory](super), in either
/// form. `K` says how resources are selected: [`ResourcePool`] and [`KeyedResourcePool`] are the two pools there are.
pub struct Pool<F: Form, K>(Handle<Inner<F>>, PhantomData<fn() -> K>);

/// A handle that does not keep the pool open.
pub struct WeakPool<F: Form, K>(WeakHandle<Inner<F>>, PhantomData<fn() -> K>);

/// Selects the resources of a [`ResourcePool`]: they are all alike.
#[derive(Debug)]
pub enum Unkeyed {}

/// Selects the resources of a [`KeyedResourcePool`], by a key of type `K`.
#[derive(Debug)]
pub struct Keyed<K>(PhantomData<K>);

/// A pool of resources that are all alike: a [`KeyedResourcePool`] with one key. See the [module](super).
///
/// ```
/// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
/// # struct Connections;
/// # impl ResourceFactory for Connections {
/// #     type Resource = String;
/// #     type Metadata = &'static str;
/// #     type Error = std::io::Error;
/// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
/// #         Ok(format!("connection to {address}"))
/// #     }
/// # }
/// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
/// let pool = ResourcePool::builder(Connections, "db.example").max_active(4).build()?;
/// assert_eq!(*pool.borrow()?, "connection to db.example");
/// assert_eq!(pool.num_idle(), 1); // it is back in the pool
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type ResourcePool<F> = Pool<F, Unkeyed>;

/// A pool whose factory is asynchronous. [`Async`] has an example.
///
/// The pool needs no runtime of its own. [`build_on`](Builder::build_on) takes one for the maintenance.
pub type AsyncResourcePool<F> = ResourcePool<Async<F>>;

/// A pool of resources by key, which is the metadata of the [factory](super) `F`.
///
/// `max_active`, `max_idle`, `min_idle` and `max_total_per_key` hold for each key, `max_total` for all keys together.
/// A key at its own limit delays no other key: a resource or place that becomes free goes to the oldest waiter that can
/// use it.
///
/// When `max_total` is reached, the pool evicts a resource to make room. It takes an idle resource of the key that
/// has expired, else the least recently used idle resource of another key.
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
    pub(super) fn of(inner: Arc<Inner<F>>) -> Self {
        Pool(Handle::new(inner), PhantomData)
    }
    #[inline]
    pub(super) fn inner(&self) -> &Arc<Inner<F>> {
        self.0.target()
    }

    fn resize(&self, change: impl FnOnce(&mut Limits)) -> Result<(), BuildError> {
        self.inner().critical(|state, fx| {
            let mut limits = state.limits;
            change(&mut limits);
            limits.check()?;
            state.limits = limits;
            state.resized = true;
            state.fit(fx);
            Ok(())
        })
    }
    /// Changes `max_active`.
    ///
    /// If more resources are lent than a lower limit allows, the pool lends fewer as they are returned. A higher limit
    /// serves waiters at once.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// pool.set_max_active(16)?;
    /// pool.set_max_active(None)?; // no limit
    /// assert!(pool.set_max_active(0).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns a [`BuildError`] as the builder does.
    pub fn set_max_active(&self, limit: impl Into<Option<usize>>) -> Result<(), BuildError> {
        let limit = number(limit.into());
        self.resize(|limits| limits.max_active = limit)
    }
    /// Changes `max_total`.
    ///
    /// The pool destroys idle resources beyond a lower limit now, and borrowed ones when they are returned.
    ///
    /// # Errors
    /// Returns a [`BuildError`] as the builder does.
    pub fn set_max_total(&self, limit: impl Into<Option<usize>>) -> Result<(), BuildError> {
        let limit = number(limit.into());
        self.resize(|limits| limits.max_total = limit)
    }
    /// Changes `max_idle`. From now on the limit no longer follows `max_active`, as it does by default.
    ///
    /// The pool destroys idle resources beyond a lower limit, the longest idle ones first.
    ///
    /// # Errors
    /// Returns a [`BuildError`] as the builder does.
    pub fn set_max_idle(&self, limit: impl Into<Option<usize>>) -> Result<(), BuildError> {
        let limit = number(limit.into());
        self.resize(|limits| limits.max_idle = Some(limit))
    }
    /// Changes `min_idle`.
    ///
    /// # Errors
    /// Returns a [`BuildError`] as the builder does.
    pub fn set_min_idle(&self, number: usize) -> Result<(), BuildError> {
        self.resize(|limits| limits.min_idle = number)
    }

    /// Destroys all idle resources. Borrowed ones are not affected.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
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
    /// Idle resources are destroyed now, borrowed ones when they are returned, and ones being created for the idle
    /// list as soon as they are created. A waiter that was granted a resource and has not picked it up gets another one.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
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
    /// Closes the pool, and returns at once. Closing it again changes nothing.
    ///
    /// Waiters fail with [`BorrowError::Closed`], including those that were granted a resource and have not picked it
    /// up. Idle resources are destroyed now, borrowed ones when they are returned. `wait_closed` waits for that.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
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
    /// Waits until no resource of a closed pool is left. Returns false if one is left after `timeout`.
    pub fn wait_closed(&self, timeout: Duration) -> bool {
        let patience = Patience::Thread(self.inner().clock().deadline(timeout));
        now(self.inner().turn(WaitForEnd::new(patience), patience)).is_ok()
    }
    /// Waits until no resource of a closed pool is left. Cancel-safe.
    pub async fn wait_closed_async(&self) {
        let turn = self.inner().turn(WaitForEnd::new(Patience::Task), Patience::Task);
        let _ = turn.await;
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
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
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
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
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
    /// A creation in flight is kept, as that of a cancelled [`add_async`](ResourcePool::add_async) is. A resource that
    /// is being tested or passivated is destroyed.
    pub async fn maintain_async(&self) -> Option<Duration> {
        self.inner().maintain().await;
        self.inner().due_in()
    }
    /// Returns a handle that does not keep the pool open.
    pub fn downgrade(&self) -> WeakPool<F, K> {
        WeakPool(self.0.downgrade(), PhantomData)
    }
}

impl<F: ResourceFactory, K> Pool<F, K> {
    /// Runs the maintenance that is due: evicts, tests idle resources, and refills the idle list.
    ///
    /// Only a pool that was built without maintenance needs this call.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
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

impl<F: Form> ResourcePool<F> {
    /// Returns a builder for a pool. `factory` creates the resources that `metadata` describes.
    ///
    /// An asynchronous factory is passed as [`Async`]`(factory)`.
    pub fn builder(factory: F, metadata: F::Metadata) -> Builder<F, Self> {
        Builder::new(factory, Some(metadata))
    }

    /// Borrows a resource, as [`borrow`](Self::borrow) does, on any runtime.
    ///
    /// The call has no time-out of its own: drop the future, or wrap it into a time-out of the runtime. A blocking
    /// factory is called from within the future.
    ///
    /// # Errors
    /// Returns the errors of [`borrow`](Self::borrow), except [`BorrowError::TimedOut`].
    ///
    /// # Cancel safety
    /// The future may be dropped at any await. A waiter leaves the queue and passes on what it was granted. A creation
    /// in flight is kept for the next borrower, once. A resource that is being tested or activated is destroyed.
    pub async fn borrow_async(&self) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.inner().lend(TheKey, &Patience::Task).await
    }

    /// Borrows a resource, as [`try_borrow`](Self::try_borrow) does. The future awaits only the factory.
    ///
    /// # Errors
    /// Returns the errors of [`try_borrow`](Self::try_borrow).
    pub async fn try_borrow_async(&self) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.inner().lend(TheKey, &Patience::None).await
    }

    /// Creates an idle resource, as [`add`](Self::add) does. An unfinished creation is completed first.
    ///
    /// # Errors
    /// Returns the errors of [`add`](Self::add), including the failure of an unfinished creation.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await. A creation in flight is kept for the next caller that borrows or adds,
    /// once. A resource that is being tested or passivated is destroyed.
    pub async fn add_async(&self) -> Result<(), AddError<F::Error>> {
        self.inner().add(TheKey).await
    }

    /// Creates `number` idle resources, one after the other.
    ///
    /// # Errors
    /// Returns the first error of [`add_async`](Self::add_async). The resources added before stay.
    ///
    /// # Cancel safety
    /// As [`add_async`](Self::add_async). The resources added before stay.
    pub async fn prefill_async(&self, number: usize) -> Result<(), AddError<F::Error>> {
        for _ in 0..number {
            self.add_async().await?;
        }
        Ok(())
    }
}

impl<F: ResourceFactory> ResourcePool<F> {
    /// Borrows an idle resource, else creates one, else waits for its turn.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// let mut connection = pool.borrow()?;
    /// connection.push_str(", in use");
    /// drop(connection); // returns it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`BorrowError::Closed`] if the pool is closed;
    /// - [`BorrowError::Create`], [`BorrowError::Invalid`] or [`BorrowError::Activate`] if no resource could be created;
    /// - [`BorrowError::Exhausted`] or [`BorrowError::TimedOut`], depending on the options.
    ///
    /// # Panics
    /// Does not panic if the factory does: that is an error.
    #[inline]
    pub fn borrow(&self) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(self.inner().patience(self.inner().options.max_wait))
    }

    /// Borrows a resource, and waits for at most `timeout` instead of `max_wait`.
    ///
    /// The time begins with the call, and includes resources that fail. It does not interrupt the factory.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
    /// # let pool = ResourcePool::builder(Connections, "db.example").max_active(1).build()?;
    /// use cabrank::resource_pool::BorrowError;
    /// use std::time::Duration;
    ///
    /// let only = pool.borrow()?;
    /// assert!(matches!(pool.borrow_timeout(Duration::from_millis(1)), Err(BorrowError::TimedOut)));
    /// # drop(only);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`borrow`](Self::borrow).
    pub fn borrow_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(self.inner().patience(Some(timeout)))
    }

    /// Borrows a resource without waiting for other borrowers. It may create one.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
    /// # let pool = ResourcePool::builder(Connections, "db.example").max_active(1).build()?;
    /// use cabrank::resource_pool::BorrowError;
    ///
    /// let only = pool.try_borrow()?;
    /// assert!(matches!(pool.try_borrow(), Err(BorrowError::WouldBlock)));
    /// # drop(only);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`borrow`](Self::borrow), and [`BorrowError::WouldBlock`].
    pub fn try_borrow(&self) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(Patience::None)
    }

    #[inline]
    fn borrow_by(&self, patience: Patience) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        now(self.inner().lend(TheKey, &patience))
    }

    /// Creates an idle resource.
    ///
    /// When this returns, another caller may have borrowed the resource already. The pool destroys the resource at once
    /// if meanwhile its lifetime ended, a limit was lowered or [`clear_all`](Self::clear_all) was called. That is no
    /// error.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// pool.add()?;
    /// assert_eq!((pool.num_active(), pool.num_idle()), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`AddError::Full`] at `max_idle` or `max_total`;
    /// - [`AddError::Closed`] if the pool is closed, also while the resource is created;
    /// - [`AddError::Create`], [`AddError::Invalid`] or [`AddError::Passivate`] if no resource could be created.
    pub fn add(&self) -> Result<(), AddError<F::Error>> {
        now(self.add_async())
    }

    /// Creates `number` idle resources.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// pool.prefill(3)?;
    /// assert_eq!(pool.num_idle(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the first error of [`add`](Self::add). The resources added before stay.
    pub fn prefill(&self, number: usize) -> Result<(), AddError<F::Error>> {
        now(self.prefill_async(number))
    }
}

impl<K, F: Form<Metadata = K>> KeyedResourcePool<K, F>
where
    K: Clone + Eq + Hash,
{
    /// Returns a builder for a pool whose resources `factory` creates.
    pub fn builder(factory: F) -> Builder<F, Self> {
        Builder::new(factory, None)
    }

    /// Changes `max_total_per_key`.
    ///
    /// # Errors
    /// Returns a [`BuildError`] as the builder does.
    pub fn set_max_total_per_key(&self, limit: impl Into<Option<usize>>) -> Result<(), BuildError> {
        let limit = number(limit.into());
        self.resize(|limits| limits.max_total_per_key = limit)
    }

    /// Borrows a resource of the key, as [`borrow`](Self::borrow) does, on any runtime.
    ///
    /// # Errors
    /// Returns the errors of [`borrow`](Self::borrow), except [`BorrowError::TimedOut`].
    ///
    /// # Cancel safety
    /// As [`ResourcePool::borrow_async`].
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub async fn borrow_async(&self, key: &K) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.inner().lend(key, &Patience::Task).await
    }

    /// Borrows a resource of the key, as [`try_borrow`](Self::try_borrow) does. The future awaits only the factory.
    ///
    /// # Errors
    /// Returns the errors of [`try_borrow`](Self::try_borrow).
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub async fn try_borrow_async(
        &self,
        key: &K,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.inner().lend(key, &Patience::None).await
    }

    /// Creates an idle resource of the key, as [`add`](Self::add) does. An unfinished creation is completed first.
    ///
    /// # Errors
    /// Returns the errors of [`add`](Self::add), including the failure of an unfinished creation.
    ///
    /// # Cancel safety
    /// As [`ResourcePool::add_async`].
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub async fn add_async(&self, key: &K) -> Result<(), AddError<F::Error>> {
        self.inner().add(key).await
    }

    /// Creates `number` idle resources of the key, one after the other.
    ///
    /// # Errors
    /// Returns the first error of [`add_async`](Self::add_async). The resources added before stay.
    ///
    /// # Cancel safety
    /// As [`add_async`](Self::add_async). The resources added before stay.
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub async fn prefill_async(&self, key: &K, number: usize) -> Result<(), AddError<F::Error>> {
        for _ in 0..number {
            self.add_async(key).await?;
        }
        Ok(())
    }

    /// Destroys the idle resources of the key.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
    /// # let pool = KeyedResourcePool::builder(Connections).build()?;
    /// pool.prefill(&"a.example", 2)?;
    /// pool.add(&"b.example")?;
    /// pool.clear_key(&"a.example");
    /// assert_eq!((pool.num_idle_of(&"a.example"), pool.num_idle_of(&"b.example")), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn clear_key(&self, key: &K) {
        self.inner().with_known_key(key, |state, key, fx| state.clear_key(key, fx));
    }
    /// Returns how many resources of the key are lent, or reserved for a borrower.
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn num_active_of(&self, key: &K) -> usize {
        let active = self.inner().with_known_key(key, |s, key, _| s.subs[key.index()].active);
        active.unwrap_or(0)
    }
    /// Returns how many resources of the key are idle.
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn num_idle_of(&self, key: &K) -> usize {
        let idle = self.inner().with_known_key(key, |s, key, _| s.subs[key.index()].idle_count());
        idle.unwrap_or(0)
    }
    /// Returns how many borrowers of the key wait for their turn.
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn num_waiting_of(&self, key: &K) -> usize {
        let waiting = self.inner().with_known_key(key, |s, key, _| s.subs[key.index()].queue.len());
        waiting.unwrap_or(0)
    }
    /// Returns how many keys have a resource, a waiter or a look-up.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
    /// # let pool = KeyedResourcePool::builder(Connections).build()?;
    /// pool.add(&"a.example")?;
    /// pool.add(&"b.example")?;
    /// assert_eq!(pool.num_keys(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn num_keys(&self) -> usize {
        self.inner().state.look(|state| state.subs.len())
    }
}

impl<K, F: ResourceFactory<Metadata = K>> KeyedResourcePool<K, F>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
{
    /// Borrows an idle resource of the key, else creates one, else waits for its turn.
    ///
    /// To create one, the pool may evict an idle resource of another key.
    ///
    /// ```
    /// # use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory, ResourcePool};
    /// # struct Connections;
    /// # impl ResourceFactory for Connections {
    /// #     type Resource = String;
    /// #     type Metadata = &'static str;
    /// #     type Error = std::io::Error;
    /// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
    /// #         Ok(format!("connection to {address}"))
    /// #     }
    /// # }
    /// # let pool = KeyedResourcePool::builder(Connections).build()?;
    /// assert_eq!(*pool.borrow(&"a.example")?, "connection to a.example");
    /// assert_eq!(*pool.borrow(&"b.example")?, "connection to b.example");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`ResourcePool::borrow`].
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn borrow(&self, key: &K) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(key, self.inner().patience(self.inner().options.max_wait))
    }

    /// Borrows a resource of the key, and waits for at most `timeout` instead of `max_wait`.
    ///
    /// The time does not interrupt the factory.
    ///
    /// # Errors
    /// Returns the errors of [`borrow`](Self::borrow).
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn borrow_timeout(
        &self,
        key: &K,
        timeout: Duration,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(key, self.inner().patience(Some(timeout)))
    }

    /// Borrows a resource of the key without waiting for other borrowers. It may create one.
    ///
    /// # Errors
    /// Returns the errors of [`borrow`](Self::borrow), and [`BorrowError::WouldBlock`].
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn try_borrow(&self, key: &K) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(key, Patience::None)
    }

    fn borrow_by(
        &self,
        key: &K,
        patience: Patience,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        now(self.inner().lend(key, &patience))
    }

    /// Creates an idle resource of the key, as [`ResourcePool::add`] does.
    ///
    /// # Errors
    /// Returns the errors of [`ResourcePool::add`].
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn add(&self, key: &K) -> Result<(), AddError<F::Error>> {
        now(self.add_async(key))
    }

    /// Creates `number` idle resources of the key.
    ///
    /// # Errors
    /// Returns the first error of [`add`](Self::add). The resources added before stay.
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn prefill(&self, key: &K, number: usize) -> Result<(), AddError<F::Error>> {
        now(self.prefill_async(key, number))
    }
}

impl<F: Form> Inner<F> {
    /// Borrows a resource of the selected key, as a guard.
    #[inline]
    async fn lend(
        &self,
        key: impl Select<F>,
        patience: &Patience,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        match self.borrow(key, patience).await {
            Ok(loan) => Ok(Borrowed::new(self, loan)),
            Err(denied) => Err(denied.into()),
        }
    }

    /// Returns the patience of a thread. Its time begins with the call.
    #[inline]
    fn patience(&self, timeout: Option<Duration>) -> Patience {
        let deadline = timeout.map_or(Deadline::Never, |time| self.clock().deadline(time));
        Patience::Thread(deadline)
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
