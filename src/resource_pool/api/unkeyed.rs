//! The calls of a pool whose resources are all alike.

use super::builder::Builder;
use super::error::{AddError, BorrowError};
use super::factory::{Form, ResourceFactory};
use super::guard::Borrowed;
use super::pool::ResourcePool;
use crate::kernel::clock::Deadline;
use crate::kernel::section::{Patience, now};
use crate::resource_pool::work::borrowers_time::BorrowersTime;
use crate::resource_pool::work::looking_up::TheKey;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

impl<F: Form> ResourcePool<F> {
    /// Returns a builder for a pool. `factory` creates the resources that `metadata` describes.
    ///
    /// An asynchronous factory is passed as [`Async`](crate::resource_pool::Async)`(factory)`.
    pub fn builder(factory: F, metadata: F::Metadata) -> Builder<F, Self> {
        Builder::new(factory, Some(metadata))
    }

    /// Borrows a resource, as [`borrow`](Self::borrow) does, on any runtime.
    ///
    /// In a pool with a runtime it takes [`max_wait`](Builder::max_wait) at most. Otherwise it has no timeout of its own: drop the
    /// future, or wrap it into a timeout of the runtime. A blocking factory is called from within the future.
    ///
    /// # Errors
    /// Returns the errors of [`borrow`](Self::borrow). [`BorrowError::TimedOut`] needs a pool with a runtime.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await. A waiter leaves the queue and passes on what it was granted. A creation
    /// of its own is dropped at once; one of the [pool's](super::super#creations) goes on. A resource that is being tested or
    /// activated is destroyed.
    #[track_caller]
    pub fn borrow_async(
        &self,
    ) -> impl Future<Output = Result<Borrowed<'_, F>, BorrowError<F::Error>>> {
        let caller = Location::caller();
        async move { self.inner().lend_async(TheKey, Patience::Task, caller).await }
    }

    /// Borrows a resource, as [`try_borrow`](Self::try_borrow) does. The future awaits only the factory, or a creation
    /// of the pool's that has room.
    ///
    /// # Errors
    /// Returns the errors of [`try_borrow`](Self::try_borrow).
    #[track_caller]
    pub fn try_borrow_async(
        &self,
    ) -> impl Future<Output = Result<Borrowed<'_, F>, BorrowError<F::Error>>> {
        let caller = Location::caller();
        async move { self.inner().lend_async(TheKey, Patience::None, caller).await }
    }

    /// Creates an idle resource, as [`add`](Self::add) does.
    ///
    /// # Errors
    /// Returns the errors of [`add`](Self::add).
    ///
    /// # Cancel safety
    /// The future may be dropped at any await. A creation in flight is dropped at once. A resource that is being
    /// tested or passivated is destroyed.
    pub async fn add_async(&self) -> Result<(), AddError<F::Error>> {
        self.inner().add(TheKey).await
    }

    /// Creates idle resources, one after the other, until `number` are idle.
    ///
    /// Resources that the maintenance, or another caller, is creating count: the call waits for them. So it also waits until a
    /// pool with `min_idle` is warm. Called by a creation of its own pool, it may wait for itself.
    ///
    /// # Errors
    /// Returns the first error of [`add_async`](Self::add_async). The resources added before stay.
    ///
    /// # Cancel safety
    /// As [`add_async`](Self::add_async). The resources added before stay.
    pub async fn prefill_async(&self, number: usize) -> Result<(), AddError<F::Error>> {
        self.inner().prefill(TheKey, number, Patience::Task).await
    }
}

impl<F: ResourceFactory> ResourcePool<F> {
    /// Borrows an idle resource, else creates one, else waits for its turn.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// let mut connection = pool.borrow()?;
    /// connection.push_str(", in use");
    /// drop(connection); // returns it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`BorrowError::Closed`] if the pool is closed;
    /// - [`BorrowError::Create`], [`BorrowError::Invalid`] or [`BorrowError::Activate`] if no resource could be
    ///   created;
    /// - [`BorrowError::Exhausted`] or [`BorrowError::TimedOut`], depending on the options.
    ///
    /// # Panics
    /// Does not panic if the factory does: that is an error.
    #[track_caller]
    #[inline]
    pub fn borrow(&self) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(BorrowersTime::MaxWait)
    }

    /// Borrows a resource, and waits for at most `timeout` instead of `max_wait`.
    ///
    /// The time begins with the call, and includes resources that fail. It does not interrupt the factory.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").max_active(1).build()?;
    /// use cabrank::resource_pool::BorrowError;
    /// use std::time::Duration;
    ///
    /// let only = pool.borrow()?;
    /// assert!(matches!(pool.borrow_timeout(Duration::from_millis(1)), Err(BorrowError::TimedOut(_))));
    /// # drop(only);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`borrow`](Self::borrow).
    #[track_caller]
    pub fn borrow_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(self.inner().time_of(timeout))
    }

    /// Borrows a resource without waiting for other borrowers. It may create one.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
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
    #[track_caller]
    pub fn try_borrow(&self) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(BorrowersTime::Begun(Patience::None))
    }

    #[inline]
    #[track_caller]
    fn borrow_by(&self, time: BorrowersTime) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.inner().lend(TheKey, time, Location::caller())
    }

    /// Creates an idle resource.
    ///
    /// When this returns, another caller may have borrowed the resource already. The pool destroys the resource at once
    /// if meanwhile its lifetime ended, a limit was lowered or [`clear_all`](Self::clear_all) was called. That is no
    /// error.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
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

    /// Creates idle resources, until `number` are idle.
    ///
    /// Resources that the maintenance, or another caller, is creating count: the call waits for them. So it also waits until a
    /// pool with `min_idle` is warm. Called by a creation of its own pool, it may wait for itself.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// pool.prefill(3)?;
    /// assert_eq!(pool.num_idle(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the first error of [`add`](Self::add). The resources added before stay.
    pub fn prefill(&self, number: usize) -> Result<(), AddError<F::Error>> {
        now(self.inner().prefill(TheKey, number, Patience::Thread(Deadline::Never)))
    }
}
