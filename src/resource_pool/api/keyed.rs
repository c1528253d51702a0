//! The calls of a pool that selects resources by key.

use super::build_error::BuildError;
use super::builder::Builder;
use super::error::{AddError, BorrowError};
use super::factory::{Form, ResourceFactory};
use super::guard::Borrowed;
use super::pool::KeyedResourcePool;
use crate::kernel::clock::Deadline;
use crate::kernel::section::{Patience, now};
use crate::resource_pool::state::options::number;
use crate::resource_pool::work::borrowers_time::BorrowersTime;
use std::future::Future;
use std::hash::Hash;
use std::panic::Location;
use std::time::Duration;

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
        self.resize(|limits| {
            limits.max_total_per_key = limit;
            Ok(())
        })
    }

    /// Borrows a resource of the key, as [`borrow`](Self::borrow) does, on any runtime.
    ///
    /// # Errors
    /// Returns the errors of [`borrow`](Self::borrow). [`BorrowError::TimedOut`] needs a pool with a runtime.
    ///
    /// # Cancel safety
    /// As [`ResourcePool::borrow_async`](crate::resource_pool::ResourcePool::borrow_async).
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    #[track_caller]
    pub fn borrow_async(
        &self,
        key: &K,
    ) -> impl Future<Output = Result<Borrowed<'_, F>, BorrowError<F::Error>>> {
        let caller = Location::caller();
        async move { self.inner().lend_async(key, Patience::Task, caller).await }
    }

    /// Borrows a resource of the key, as [`try_borrow`](Self::try_borrow) does. The future awaits only the factory, or a creation
    /// of the pool's that has room.
    ///
    /// # Errors
    /// Returns the errors of [`try_borrow`](Self::try_borrow).
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    #[track_caller]
    pub fn try_borrow_async(
        &self,
        key: &K,
    ) -> impl Future<Output = Result<Borrowed<'_, F>, BorrowError<F::Error>>> {
        let caller = Location::caller();
        async move { self.inner().lend_async(key, Patience::None, caller).await }
    }

    /// Creates an idle resource of the key, as [`add`](Self::add) does.
    ///
    /// # Errors
    /// Returns the errors of [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`ResourcePool::add_async`](crate::resource_pool::ResourcePool::add_async).
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub async fn add_async(&self, key: &K) -> Result<(), AddError<F::Error>> {
        self.inner().add(key).await
    }

    /// Creates idle resources of the key, one after the other, until `number` are idle.
    ///
    /// Resources that the maintenance, or another caller, is creating count: the call waits for them. So it also waits until a
    /// pool with `min_idle` is warm. Called by a creation of its own pool, it may wait for itself.
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
        self.inner().prefill(key, number, Patience::Task).await
    }

    /// Destroys the idle resources of the key.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
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
        let active = self.inner().with_known_key(key, |s, key, _| s.subs[key].active);
        active.unwrap_or(0)
    }
    /// Returns how many resources of the key are idle.
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn num_idle_of(&self, key: &K) -> usize {
        let idle = self.inner().with_known_key(key, |s, key, _| s.subs[key].idle.len());
        idle.unwrap_or(0)
    }
    /// Returns how many borrowers of the key wait for their turn.
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn num_waiting_of(&self, key: &K) -> usize {
        let waiting = self.inner().with_known_key(key, |s, key, _| s.subs[key].queue.len());
        waiting.unwrap_or(0)
    }
    /// Returns how many keys have a resource, a waiter or a look-up.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
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
    #[doc = include_str!("example.txt")]
    /// # let pool = KeyedResourcePool::builder(Connections).build()?;
    /// assert_eq!(*pool.borrow(&"a.example")?, "connection to a.example");
    /// assert_eq!(*pool.borrow(&"b.example")?, "connection to b.example");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`ResourcePool::borrow`](crate::resource_pool::ResourcePool::borrow).
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    #[track_caller]
    pub fn borrow(&self, key: &K) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(key, BorrowersTime::MaxWait)
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
    #[track_caller]
    pub fn borrow_timeout(
        &self,
        key: &K,
        timeout: Duration,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(key, self.inner().time_of(timeout))
    }

    /// Borrows a resource of the key without waiting for other borrowers. It may create one.
    ///
    /// # Errors
    /// Returns the errors of [`borrow`](Self::borrow), and [`BorrowError::WouldBlock`].
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    #[track_caller]
    pub fn try_borrow(&self, key: &K) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(key, BorrowersTime::Begun(Patience::None))
    }

    #[track_caller]
    fn borrow_by(
        &self,
        key: &K,
        time: BorrowersTime,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.inner().lend(key, time, Location::caller())
    }

    /// Creates an idle resource of the key, as [`ResourcePool::add`](crate::resource_pool::ResourcePool::add) does.
    ///
    /// # Errors
    /// Returns the errors of [`ResourcePool::add`](crate::resource_pool::ResourcePool::add).
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn add(&self, key: &K) -> Result<(), AddError<F::Error>> {
        now(self.add_async(key))
    }

    /// Creates idle resources of the key, until `number` are idle.
    ///
    /// Resources that the maintenance, or another caller, is creating count: the call waits for them. So it also waits until a
    /// pool with `min_idle` is warm. Called by a creation of its own pool, it may wait for itself.
    ///
    /// # Errors
    /// Returns the first error of [`add`](Self::add). The resources added before stay.
    ///
    /// # Panics
    /// Panics if the key's hash, comparison or clone does.
    pub fn prefill(&self, key: &K, number: usize) -> Result<(), AddError<F::Error>> {
        now(self.inner().prefill(key, number, Patience::Thread(Deadline::Never)))
    }
}
