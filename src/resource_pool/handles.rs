//! The pools as they are used: handles to what is in `pool.rs`, with keys and without.

use super::builder::ResourcePoolBuilder;
use super::error::{AddError, BorrowError};
use super::factory::{Async, Form, ResourceFactory};
use super::guard::Borrowed;
use super::options::{Limit, Limits, PoolBuildError};
use super::pool::{Closing, Inner, Patience, now};
use super::quick::THE_KEY;
use super::snapshot::PoolSnapshot;
use super::state::Asker;
use crate::sync::has_failed;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

struct Handle<F: Form>(Arc<Inner<F>>);

impl<F: Form> Drop for Handle<F> {
    fn drop(&mut self) {
        if !has_failed() {
            self.0.close();
        }
    }
}

/// A pool of resources. Clones are handles to the same pool; dropping the last one closes it. `F` is the
/// [factory](super), in either form. See the [module](super).
pub struct ResourcePool<F: Form>(Arc<Handle<F>>);

/// A pool whose factory is asynchronous ([`Async`] has an example). It needs no runtime of its own;
/// [`build_on`](ResourcePoolBuilder::build_on) takes one for what is due at a time.
pub type AsyncResourcePool<F> = ResourcePool<Async<F>>;

/// A pool of resources by key: the metadata of the [factory](super) `F`. Each key has its own `max_active`, `max_idle`,
/// `min_idle` and `max_total_per_key`; `max_total` is that of all.
///
/// If the total is reached, stock of the key that has been idle for too long makes room, else the resource of
/// another key that has been idle for longest. A key
/// at its own limit keeps no other key waiting; what becomes free goes to the oldest waiter that can
/// use it, of whatever key.
///
/// A key is hashed, compared and cloned in the call that it is given to, and a panic of its `Hash`, `Eq` or `Clone`
/// is that call's, as in a `HashMap`. The pool is unharmed: nothing has been reserved by then.
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
pub struct KeyedResourcePool<K, F: Form<Metadata = K>>(Arc<Handle<F>>);

/// A handle that does not keep the pool open.
pub struct WeakResourcePool<F: Form>(Weak<Handle<F>>);

/// A handle that does not keep the pool open.
pub struct WeakKeyedResourcePool<K, F: Form<Metadata = K>>(Weak<Handle<F>>);

/// What pools with and without keys have in common.
macro_rules! both {
    ($pool:ident, [$($k:ident,)?], $weak:ident, [$($form:tt)*], [$($sync:tt)*]) => {
        impl<$($k,)? F: $($form)*> $pool<$($k,)? F> {
            pub(super) fn of(inner: Arc<Inner<F>>) -> Self {
                $pool(Arc::new(Handle(inner)))
            }
            #[inline]
            pub(super) fn inner(&self) -> &Arc<Inner<F>> {
                &self.0.0
            }

            fn resize(&self, change: impl FnOnce(&mut Limits)) -> Result<(), PoolBuildError> {
                self.inner().critical(|state, fx| {
                    let mut limits = state.limits;
                    change(&mut limits);
                    limits.check()?;
                    state.limits = limits;
                    state.resized = true;
                    state.look_at_options();
                    state.fit(fx);
                    Ok(())
                })
            }
            /// Changes `max_active`. Those that are lent beyond a lower limit are not missed: as they
            /// come back, fewer are lent. Whoever can be served by a higher one is.
            ///
            /// # Errors
            /// [`PoolBuildError`], as from the builder.
            pub fn set_max_active(&self, limit: impl Into<Limit>) -> Result<(), PoolBuildError> {
                let limit = limit.into().number();
                self.resize(|limits| limits.max_active = limit)
            }
            /// Changes `max_total`. What is idle beyond a lower limit is destroyed now, what is lent when it
            /// comes back.
            ///
            /// # Errors
            /// [`PoolBuildError`], as from the builder.
            pub fn set_max_total(&self, limit: impl Into<Limit>) -> Result<(), PoolBuildError> {
                let limit = limit.into().number();
                self.resize(|limits| limits.max_total = limit)
            }
            /// Changes `max_idle`. What is idle beyond a lower limit is destroyed, the longest idle first. From
            /// now on it no longer follows `max_active`, as it does if it was never set.
            ///
            /// # Errors
            /// [`PoolBuildError`], as from the builder.
            pub fn set_max_idle(&self, limit: impl Into<Limit>) -> Result<(), PoolBuildError> {
                let limit = limit.into().number();
                self.resize(|limits| limits.max_idle = Some(limit))
            }
            /// Changes `min_idle`.
            ///
            /// # Errors
            /// [`PoolBuildError`], as from the builder.
            pub fn set_min_idle(&self, number: usize) -> Result<(), PoolBuildError> {
                self.resize(|limits| limits.min_idle = number)
            }

            /// Destroys what is idle. What is lent is not concerned.
            pub fn clear(&self) {
                self.inner().critical(|state, fx| state.clear(fx));
            }
            /// Destroys what is idle, and has all that exists otherwise destroyed: what is lent, or being made for
            /// a borrower, when it comes back; what is being made for stock, as soon as it is made. For what all
            /// resources depend on and has changed. Whoever was handed one by then, and comes for it later, is
            /// lent another.
            pub fn clear_all(&self) {
                self.inner().critical(|state, fx| state.clear_all(fx));
            }
            /// Closes the pool: who waits is told so, also who was handed something and has not come for it yet;
            /// what is idle is destroyed, and what is lent, or being made for a borrower, when it comes back.
            /// Does not wait for that: `wait_closed` does. To close it again changes nothing.
            pub fn close(&self) {
                self.inner().close();
            }
            /// Whether it is closed.
            pub fn is_closed(&self) -> bool {
                self.inner().lock().closed
            }
            /// Waits until a pool that is closed has nothing left; false if it has after `timeout`.
            pub fn wait_closed(&self, timeout: Duration) -> bool {
                let inner = self.inner();
                inner.wait_closed(inner.clock.deadline(timeout))
            }
            /// Waits likewise, as a task. Cancel-safe.
            pub async fn wait_closed_async(&self) {
                Closing { pool: self.inner(), waiter: None }.await;
            }

            /// How many are lent, or reserved for a borrower: the source's `get_num_active`.
            pub fn num_active(&self) -> usize {
                self.inner().lock().active
            }
            /// How many are in stock: the source's `get_num_idle`.
            pub fn num_idle(&self) -> usize {
                self.inner().lock().idle
            }
            /// How many exist or have a place, being made and being destroyed ones included: the source's
            /// `get_number`.
            pub fn num_total(&self) -> usize {
                self.inner().lock().total
            }
            /// How many borrowers wait for their turn.
            pub fn num_waiting(&self) -> usize {
                self.inner().lock().waiting
            }
            /// One consistent picture.
            pub fn snapshot(&self) -> PoolSnapshot<F::Metadata> {
                let copied = self.inner().lock().copied();
                copied.in_order()
            }
            /// Keeps of the idle ones those that `keep` keeps, and destroys the others. Each is looked at
            /// outside the lock, and cannot be lent meanwhile. Those that are being tested just then are passed
            /// over, and stay if they pass; so is what another call of this looks at just then: of two at a time
            /// neither is asked about all. [`clear`](Self::clear) passes over none.
            ///
            /// # Panics
            /// If `keep` does; the one that it looked at is then destroyed.
            pub fn retain(&self, keep: impl FnMut(&F::Metadata, &mut F::Resource) -> bool) {
                self.inner().retain(keep);
            }
            /// Does what is due at a time now, as the maintenance would; with an asynchronous factory, it is
            /// what does it. Cancel-safe: what had begun to be made is then kept, as that of who adds is; what
            /// was being tested or passivated is destroyed.
            ///
            /// Gives back when it should be called again, if nothing happens before; none: when something
            /// has happened.
            pub async fn maintain_async(&self) -> Option<Duration> {
                self.inner().maintain().await;
                self.inner().due_in()
            }
            /// A handle that does not keep the pool open.
            pub fn downgrade(&self) -> $weak<$($k,)? F> {
                $weak(Arc::downgrade(&self.0))
            }
        }

        impl<$($k,)? F: $($sync)*> $pool<$($k,)? F> {
            /// Does what is due at a time now: evicts, tests what is idle, fills stock up. For pools built
            /// without maintenance.
            pub fn maintain(&self) {
                now(self.inner().maintain());
            }
        }

        impl<$($k,)? F: $($form)*> Clone for $pool<$($k,)? F> {
            fn clone(&self) -> Self {
                $pool(self.0.clone())
            }
        }
        impl<$($k,)? F: $($form)*> fmt::Debug for $pool<$($k,)? F> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // What writes is foreign, and may call the pool.
                let (numbers, closed) = self.inner().critical(|state, _| {
                    ([state.active, state.idle, state.total, state.waiting], state.closed)
                });
                let mut debug = f.debug_struct(stringify!($pool));
                for (name, number) in ["active", "idle", "total", "waiting"].iter().zip(&numbers) {
                    debug.field(name, number);
                }
                debug.field("closed", &closed).finish()
            }
        }
        impl<$($k,)? F: $($form)*> $weak<$($k,)? F> {
            /// The pool, if a handle keeps it open.
            pub fn upgrade(&self) -> Option<$pool<$($k,)? F>> {
                self.0.upgrade().map($pool)
            }
        }
        impl<$($k,)? F: $($form)*> Clone for $weak<$($k,)? F> {
            fn clone(&self) -> Self {
                $weak(self.0.clone())
            }
        }
        impl<$($k,)? F: $($form)*> fmt::Debug for $weak<$($k,)? F> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($weak))
            }
        }
    };
}

both!(ResourcePool, [], WeakResourcePool, [Form], [ResourceFactory]);
both!(
    KeyedResourcePool,
    [K,],
    WeakKeyedResourcePool,
    [Form<Metadata = K>],
    [ResourceFactory<Metadata = K>]
);

impl<F: Form> ResourcePool<F> {
    /// Begins to build a pool: `factory` makes the resources that `metadata` describes. An asynchronous
    /// factory is given as [`Async`]`(factory)`.
    pub fn builder(factory: F, metadata: F::Metadata) -> ResourcePoolBuilder<F, ResourcePool<F>> {
        ResourcePoolBuilder::new(factory, Some(metadata))
    }

    /// [`borrow`](Self::borrow) as a future, for any runtime. It has no time-out of its own: drop it, or wrap
    /// it into one of the runtime's. A synchronous factory is called from within it.
    ///
    /// # Errors
    /// Those of [`borrow`](Self::borrow) but for [`BorrowError::TimedOut`].
    ///
    /// # Cancel safety
    /// May be dropped at any await: whoever waited leaves the queue, and passes on what it had been given;
    /// what had begun to be made is kept for the next borrower, once; what was being tested or activated is
    /// destroyed.
    pub fn borrow_async(
        &self,
    ) -> impl Future<Output = Result<Borrowed<'_, F>, BorrowError<F::Error>>> + Send {
        self.inner().borrow_async(Asker::Task)
    }

    /// [`try_borrow`](Self::try_borrow) as a future: it awaits the factory only.
    ///
    /// # Errors
    /// Those of [`try_borrow`](Self::try_borrow).
    pub async fn try_borrow_async(&self) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.inner().borrow_async(Asker::Impatient).await
    }

    /// [`add`](Self::add) as a future.
    ///
    /// # Errors
    /// Those of [`add`](Self::add). The failure of what others had begun, and left, is this call's.
    ///
    /// # Cancel safety
    /// May be dropped at any await: what had begun to be made is kept, once, for who borrows or makes stock next;
    /// what was being tested or passivated is destroyed. What others had begun, and left, is polled on before
    /// anything is begun here, and dropped if this is dropped, too.
    pub async fn add_async(&self) -> Result<(), AddError<F::Error>> {
        self.inner().add(THE_KEY).await
    }

    /// Makes `number` of them, one after the other.
    ///
    /// # Errors
    /// The first error of [`add_async`](Self::add_async): what was added before stays.
    ///
    /// # Cancel safety
    /// That of [`add_async`](Self::add_async): what was added before stays.
    pub async fn prefill_async(&self, number: usize) -> Result<(), AddError<F::Error>> {
        for _ in 0..number {
            self.add_async().await?;
        }
        Ok(())
    }
}

impl<F: ResourceFactory> ResourcePool<F> {
    /// Borrows a resource: an idle one, else one that is made, else waits for its turn.
    ///
    /// # Errors
    /// [`BorrowError::Closed`]; [`BorrowError::Create`], [`BorrowError::Invalid`] and
    /// [`BorrowError::Activate`] if none could be made; [`BorrowError::Exhausted`] and
    /// [`BorrowError::TimedOut`] as the options say.
    ///
    /// # Panics
    /// Never because of a panicking factory: that is an error.
    #[inline]
    pub fn borrow(&self) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        let inner = self.inner();
        inner.borrow(Asker::Thread, inner.options.max_wait)
    }

    /// [`borrow`](Self::borrow), waiting for `timeout` at most, instead of `max_wait`. Its time begins with the call,
    /// and counts for resources that are tried and fail, too. What the factory is busy with is not cut short.
    ///
    /// # Errors
    /// Those of [`borrow`](Self::borrow).
    pub fn borrow_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.inner().borrow(Asker::Thread, Some(timeout))
    }

    /// [`borrow`](Self::borrow), without waiting for others. It may make a resource.
    ///
    /// # Errors
    /// Those of [`borrow`](Self::borrow), and [`BorrowError::WouldBlock`].
    pub fn try_borrow(&self) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.inner().borrow(Asker::Impatient, None)
    }

    /// Makes a resource for stock. It is there when this returns, unless what befalls stock befell this: others
    /// may have borrowed it, and if meanwhile its lifetime has ended, [`clear_all`](Self::clear_all) was called, or
    /// a limit was lowered, it is destroyed as soon as it is made. That is no error.
    ///
    /// # Errors
    /// [`AddError::Full`] at `max_idle` and `max_total`; [`AddError::Closed`], also if the pool is closed while
    /// the resource is being made, which is destroyed then; [`AddError::Create`], [`AddError::Invalid`] and
    /// [`AddError::Passivate`] if none could be made, or what was made cannot become stock, and is destroyed.
    pub fn add(&self) -> Result<(), AddError<F::Error>> {
        now(self.inner().add(THE_KEY))
    }

    /// Makes `number` of them.
    ///
    /// # Errors
    /// The first error of [`add`](Self::add): what was added before stays.
    pub fn prefill(&self, number: usize) -> Result<(), AddError<F::Error>> {
        (0..number).try_for_each(|_| self.add())
    }
}

impl<K, F: Form<Metadata = K>> KeyedResourcePool<K, F>
where
    K: Clone + Eq + Hash,
{
    /// Begins to build a pool whose resources `factory` makes.
    pub fn builder(factory: F) -> ResourcePoolBuilder<F, KeyedResourcePool<K, F>> {
        ResourcePoolBuilder::new(factory, None)
    }

    /// Changes `max_total_per_key`.
    ///
    /// # Errors
    /// [`PoolBuildError`], as from the builder.
    pub fn set_max_total_per_key(&self, limit: impl Into<Limit>) -> Result<(), PoolBuildError> {
        let limit = limit.into().number();
        self.resize(|limits| limits.max_total_per_key = limit)
    }

    /// [`borrow`](Self::borrow) as a future: see [`ResourcePool::borrow_async`].
    ///
    /// # Errors
    /// Those of [`borrow`](Self::borrow) but for [`BorrowError::TimedOut`].
    ///
    /// # Cancel safety
    /// As there.
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub async fn borrow_async(&self, key: &K) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        let inner = self.inner();
        let (key, step) = inner.with_key(key, |state, key, fx| state.begin(key, Asker::Task, fx));
        inner.lend(key, step, Patience::of_a_task()).await
    }

    /// [`try_borrow`](Self::try_borrow) as a future: it awaits the factory only.
    ///
    /// # Errors
    /// Those of [`try_borrow`](Self::try_borrow).
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub async fn try_borrow_async(
        &self,
        key: &K,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        let inner = self.inner();
        let (key, step) =
            inner.with_key(key, |state, key, fx| state.begin(key, Asker::Impatient, fx));
        inner.lend(key, step, Patience::of_a_task()).await
    }

    /// [`add`](Self::add) as a future.
    ///
    /// # Errors
    /// Those of [`add`](Self::add). The failure of what others had begun, and left, is this call's.
    ///
    /// # Cancel safety
    /// May be dropped at any await: what had begun to be made is kept, once, for who borrows or makes stock next;
    /// what was being tested or passivated is destroyed. What others had begun, and left, is polled on before
    /// anything is begun here, and dropped if this is dropped, too.
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub async fn add_async(&self, key: &K) -> Result<(), AddError<F::Error>> {
        self.inner().add_to(key).await
    }

    /// Makes `number` of them, one after the other.
    ///
    /// # Errors
    /// The first error of [`add_async`](Self::add_async): what was added before stays.
    ///
    /// # Cancel safety
    /// That of [`add_async`](Self::add_async): what was added before stays.
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub async fn prefill_async(&self, key: &K, number: usize) -> Result<(), AddError<F::Error>> {
        for _ in 0..number {
            self.add_async(key).await?;
        }
        Ok(())
    }

    /// Destroys what is idle of the key.
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub fn clear_key(&self, key: &K) {
        self.inner().with_known_key(key, |state, key, fx| state.clear_key(key, fx));
    }
    /// How many of the key are lent, or reserved for a borrower.
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub fn num_active_of(&self, key: &K) -> usize {
        let active = self.inner().with_known_key(key, |s, key, _| s.subs[key.index()].active);
        active.unwrap_or(0)
    }
    /// How many of the key are in stock.
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub fn num_idle_of(&self, key: &K) -> usize {
        let idle = self.inner().with_known_key(key, |s, key, _| s.subs[key.index()].in_stock());
        idle.unwrap_or(0)
    }
    /// How many borrowers of the key wait for their turn.
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub fn num_waiting_of(&self, key: &K) -> usize {
        let waiting = self.inner().with_known_key(key, |s, key, _| s.subs[key.index()].queue.len());
        waiting.unwrap_or(0)
    }
    /// How many keys there is anything of: resources, or somebody who waits for one.
    pub fn num_keys(&self) -> usize {
        self.inner().lock().subs.len()
    }
}

impl<K, F: ResourceFactory<Metadata = K>> KeyedResourcePool<K, F>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
{
    /// Borrows a resource of the key: an idle one, else one that is made, if need be in the place of
    /// another key's idle one; else waits for its turn.
    ///
    /// # Errors
    /// Those of [`ResourcePool::borrow`].
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub fn borrow(&self, key: &K) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(key, Asker::Thread, self.inner().options.max_wait)
    }

    /// [`borrow`](Self::borrow), waiting for `timeout` at most, instead of `max_wait`. What the factory is busy
    /// with is not cut short.
    ///
    /// # Errors
    /// Those of [`borrow`](Self::borrow).
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub fn borrow_timeout(
        &self,
        key: &K,
        timeout: Duration,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(key, Asker::Thread, Some(timeout))
    }

    /// [`borrow`](Self::borrow), without waiting for others. It may make a resource.
    ///
    /// # Errors
    /// Those of [`borrow`](Self::borrow), and [`BorrowError::WouldBlock`].
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub fn try_borrow(&self, key: &K) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        self.borrow_by(key, Asker::Impatient, None)
    }

    fn borrow_by(
        &self,
        key: &K,
        asker: Asker,
        timeout: Option<Duration>,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        let inner = self.inner();
        let patience = Patience::of_a_thread(&inner.clock, timeout);
        let (key, step) = inner.with_key(key, |state, key, fx| state.begin(key, asker, fx));
        inner.lend_now(key, step, patience)
    }

    /// Makes a resource of the key for stock, as [`ResourcePool::add`] does.
    ///
    /// # Errors
    /// Those of [`ResourcePool::add`].
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub fn add(&self, key: &K) -> Result<(), AddError<F::Error>> {
        now(self.inner().add_to(key))
    }

    /// Makes `number` of them.
    ///
    /// # Errors
    /// The first error of [`add`](Self::add): what was added before stays.
    ///
    /// # Panics
    /// If the key's hash, comparison or clone does: see the [type](Self).
    pub fn prefill(&self, key: &K, number: usize) -> Result<(), AddError<F::Error>> {
        (0..number).try_for_each(|_| self.add(key))
    }
}
