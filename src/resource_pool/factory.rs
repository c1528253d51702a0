//! What makes the resources: in two forms, a synchronous and an asynchronous one.
//!
//! The pool's own code is one for both; [`Form`] is what it needs to know of either.

use super::event::PoolEvent;
use super::guard::Loan;
use super::pool::Inner;
use crate::periodic_executor::BoxFuture;
use crate::user_code::{UserValue, contain, drop_contained};
use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Makes, checks and disposes of the resources of a pool: the source's `resource_factory`.
///
/// No method is called under the pool's lock, so each may call the pool. A panic is an error of that
/// call. The resource is one's own in each call: nobody else uses it meanwhile.
pub trait ResourceFactory: Send + Sync + 'static {
    /// What is lent. The pool boxes it when it has been made, and does not move it from then on.
    type Resource: Send + 'static;
    /// Describes the resources: the source's `resource_metadata`. In a keyed pool it is the key.
    type Metadata: Send + Sync + 'static;
    /// Why a resource could not be made, activated or passivated.
    type Error: Send + 'static;

    /// Makes a resource, ready to be lent.
    ///
    /// # Errors
    /// Whoever borrows is told ([`BorrowError::Create`](super::BorrowError::Create)).
    fn create(&self, metadata: &Self::Metadata) -> Result<Self::Resource, Self::Error>;

    /// The resource has left the pool. Until this returns it counts as one that exists (`max_total`,
    /// `max_total_per_key`): who waits here for a place in the same pool may wait for this one.
    fn destroy(&self, metadata: &Self::Metadata, resource: Self::Resource) {
        let _ = metadata;
        drop(resource);
    }

    /// Whether the resource can still be used; called where the options ask for tests.
    fn validate(&self, metadata: &Self::Metadata, resource: &mut Self::Resource) -> bool {
        let _ = (metadata, resource);
        true
    }

    /// The resource goes from the idle ones to a borrower; one that has just been made does, too.
    ///
    /// # Errors
    /// The resource is destroyed. The borrower gets another; but if this one was made for it, the error
    /// ([`BorrowError::Activate`](super::BorrowError::Activate)).
    fn activate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> Result<(), Self::Error> {
        let _ = (metadata, resource);
        Ok(())
    }

    /// The resource comes back from its borrower; one made for stock is passivated, too.
    ///
    /// # Errors
    /// The resource is destroyed.
    fn passivate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> Result<(), Self::Error> {
        let _ = (metadata, resource);
        Ok(())
    }
}

/// The asynchronous form of [`ResourceFactory`], for any runtime. It is given to a pool as
/// [`Async`]`(factory)`.
///
/// What is to be done when a guard is dropped cannot be awaited there. So `validate` (for
/// `test_on_return`) and `passivate` are then awaited by the next borrower of the resource, before its
/// own `activate`; [`Borrowed::put_back`](super::Borrowed::put_back) awaits them at once. Whoever comes upon it
/// before that finds it as its borrower left it, active and not tested: the `validate` of `test_while_idle`, what
/// [`retain`](super::ResourcePool::retain) asks, and `destroy`. And `destroy` is no future: what takes its time is
/// for a task that it spawns.
///
/// A future that keeps nothing (its size is zero, and there is nothing to do when it is dropped), as those of
/// the `activate` and `passivate` that are left as they are, may be polled with a waker that wakes nobody,
/// where that spares the pool an await: that of `passivate` when a guard is dropped, that of `activate` before
/// a loan. If it is not ready, it is dropped, which does the resource no harm, and the method is called again,
/// for one that is awaited.
pub trait AsyncResourceFactory: Send + Sync + 'static {
    /// What is lent.
    type Resource: Send + 'static;
    /// Describes the resources. In a keyed pool it is the key.
    type Metadata: Send + Sync + 'static;
    /// Why a resource could not be made, activated or passivated.
    type Error: Send + 'static;

    /// Makes a resource, ready to be lent. If whoever borrows or adds it gives up, the future is kept, and polled
    /// on by the next borrower for which there is nothing finished; if that one gives up, too, it is dropped.
    fn create(
        &self,
        metadata: &Self::Metadata,
    ) -> impl Future<Output = Result<Self::Resource, Self::Error>> + Send;

    /// The resource has left the pool.
    fn destroy(&self, metadata: &Self::Metadata, resource: Self::Resource) {
        let _ = metadata;
        drop(resource);
    }

    /// Whether the resource can still be used. If it is cancelled while it is awaited, the resource is destroyed; the
    /// same holds for the two below.
    fn validate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> impl Future<Output = bool> + Send {
        let _ = (metadata, resource);
        async { true }
    }

    /// The resource goes to a borrower.
    fn activate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = (metadata, resource);
        poll_fn(|_| Poll::Ready(Ok(())))
    }

    /// The resource has come back from its borrower.
    fn passivate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = (metadata, resource);
        poll_fn(|_| Poll::Ready(Ok(())))
    }
}

/// An asynchronous factory, as a pool is given it.
///
/// ```
/// use cabrank::resource_pool::{Async, AsyncResourceFactory, AsyncResourcePool};
/// use tokio::task::yield_now; // as if for the answer of the other side
///
/// struct Connection { in_transaction: bool }
/// struct Connections;
/// impl AsyncResourceFactory for Connections {
///     type Resource = Connection;
///     type Metadata = String; // where to connect to
///     type Error = std::io::Error;
///     async fn create(&self, _address: &String) -> std::io::Result<Connection> {
///         yield_now().await;
///         Ok(Connection { in_transaction: false })
///     }
///     async fn passivate(&self, _: &String, connection: &mut Connection) -> std::io::Result<()> {
///         yield_now().await;
///         connection.in_transaction = false; // rolled back
///         Ok(())
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let pool = AsyncResourcePool::builder(Async(Connections), "db.example".to_owned()).build_async()?;
/// let mut connection = pool.borrow_async().await?;
/// connection.in_transaction = true;
/// connection.put_back().await; // a drop would leave its passivation to the next borrower
/// pool.retain(|_, idle| !idle.in_transaction); // it has been rolled back, and stays
/// assert_eq!((pool.num_active(), pool.num_idle()), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Async<F>(pub F);

/// Why a call of the factory failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// It said so.
    Error(E),
    /// It panicked, with this message.
    Panicked(String),
}

impl<E> Failure<E> {
    pub(super) fn of<T>(result: Result<Result<T, E>, String>) -> Result<T, Failure<E>> {
        match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Failure::Error(error)),
            Err(message) => Err(Failure::Panicked(message)),
        }
    }
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(error) => error.fmt(f),
            Failure::Panicked(message) => write!(f, "panicked: {message}"),
        }
    }
}

/// A creation under way. Its borrower may leave it to the pool.
pub(crate) type Creation<F> = BoxFuture<Result<<F as Form>::Resource, Failure<<F as Form>::Error>>>;

/// What the factory made of a resource where nothing can be awaited.
pub(crate) enum Handled<E> {
    Yes,
    /// That is to be awaited, all of it.
    NotYet,
    No(PoolEvent<E>),
}

impl<E> Handled<E> {
    #[inline(always)] // As where it is used.
    fn of(result: Result<(), PoolEvent<E>>) -> Self {
        match result {
            Ok(()) => Handled::Yes,
            Err(event) => Handled::No(event),
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl<F: super::ResourceFactory> Sealed for F {}
    impl<F: super::AsyncResourceFactory> Sealed for super::Async<F> {}
}

/// Either form of a factory: every [`ResourceFactory`], and [`Async`] of every
/// [`AsyncResourceFactory`]. Nothing else can be one.
#[doc(hidden)]
pub trait Form: sealed::Sealed + Send + Sync + 'static {
    type Resource: Send + 'static;
    type Metadata: Send + Sync + 'static;
    type Error: Send + 'static;

    #[doc(hidden)]
    #[allow(private_interfaces)] // Sealed: nobody else names what it gives.
    fn creation(
        factory: Arc<UserValue<Self>>,
        metadata: Arc<UserValue<Self::Metadata>>,
    ) -> Creation<Self>
    where
        Self: Sized;
    #[doc(hidden)]
    fn dispose(&self, metadata: &Self::Metadata, resource: Self::Resource);
    #[doc(hidden)]
    fn test(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> impl Future<Output = Result<bool, String>> + Send;
    #[doc(hidden)]
    fn wake_up(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> impl Future<Output = Result<(), Failure<Self::Error>>> + Send;
    #[doc(hidden)]
    fn lay_down(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> impl Future<Output = Result<(), Failure<Self::Error>>> + Send;
    #[doc(hidden)]
    #[allow(private_interfaces)] // Sealed: nobody else names what it gives.
    fn clean(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
        test: bool,
    ) -> Handled<Self::Error>;
    /// What is done before a resource is lent: what was left undone when it came back (its test, its
    /// passivation), its activation, its test.
    #[doc(hidden)]
    #[allow(private_interfaces)] // Sealed: nobody else names what it gives.
    fn prepare(
        pool: &Inner<Self>,
        loan: &mut Loan<Self>,
    ) -> impl Future<Output = Result<(), PoolEvent<Self::Error>>> + Send
    where
        Self: Sized;
    /// The same, if none of it is to be awaited.
    #[doc(hidden)]
    #[allow(private_interfaces)] // Sealed: nobody else names what it gives.
    fn prepare_at_once(pool: &Inner<Self>, loan: &mut Loan<Self>) -> Handled<Self::Error>
    where
        Self: Sized;
}

impl<F: ResourceFactory> Form for F {
    type Resource = F::Resource;
    type Metadata = F::Metadata;
    type Error = F::Error;

    #[allow(private_interfaces)] // As in the trait.
    fn creation(factory: Arc<UserValue<F>>, metadata: Arc<UserValue<F::Metadata>>) -> Creation<F> {
        Box::pin(async move { Failure::of(contain(|| factory.create(&metadata))) })
    }
    fn dispose(&self, metadata: &F::Metadata, resource: F::Resource) {
        self.destroy(metadata, resource);
    }
    async fn test(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> Result<bool, String> {
        contain(|| self.validate(metadata, resource))
    }
    async fn wake_up(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> Result<(), Failure<F::Error>> {
        Failure::of(contain(|| self.activate(metadata, resource)))
    }
    async fn lay_down(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> Result<(), Failure<F::Error>> {
        Failure::of(contain(|| self.passivate(metadata, resource)))
    }
    #[inline]
    #[allow(private_interfaces)] // As in the trait.
    fn clean(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
        test: bool,
    ) -> Handled<F::Error> {
        if test && let Err(event) = passed(contain(|| self.validate(metadata, resource))) {
            return Handled::No(event);
        }
        let passivated = contain(|| self.passivate(metadata, resource));
        Handled::of(Failure::of(passivated).map_err(PoolEvent::PassivateFailed))
    }
    #[inline(always)] // Else its result, which may be an error, is handed on in memory.
    #[allow(private_interfaces)] // As in the trait.
    fn prepare(
        pool: &Inner<F>,
        loan: &mut Loan<F>,
    ) -> impl Future<Output = Result<(), PoolEvent<F::Error>>> + Send {
        ready(prepare_now(pool, loan))
    }
    #[inline(always)] // As above.
    #[allow(private_interfaces)] // As in the trait.
    fn prepare_at_once(pool: &Inner<F>, loan: &mut Loan<F>) -> Handled<F::Error> {
        Handled::of(prepare_now(pool, loan))
    }
}

impl<F: AsyncResourceFactory> Form for Async<F> {
    type Resource = F::Resource;
    type Metadata = F::Metadata;
    type Error = F::Error;

    #[allow(private_interfaces)] // As in the trait.
    fn creation(
        factory: Arc<UserValue<Self>>,
        metadata: Arc<UserValue<F::Metadata>>,
    ) -> Creation<Self> {
        Box::pin(async move { Failure::of(contained_future(|| factory.0.create(&metadata)).await) })
    }
    fn dispose(&self, metadata: &F::Metadata, resource: F::Resource) {
        self.0.destroy(metadata, resource);
    }
    async fn test(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> Result<bool, String> {
        contained_future(|| self.0.validate(metadata, resource)).await
    }
    async fn wake_up(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> Result<(), Failure<F::Error>> {
        Failure::of(contained_future(|| self.0.activate(metadata, resource)).await)
    }
    async fn lay_down(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> Result<(), Failure<F::Error>> {
        Failure::of(contained_future(|| self.0.passivate(metadata, resource)).await)
    }
    #[inline]
    #[allow(private_interfaces)] // As in the trait.
    fn clean(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
        test: bool,
    ) -> Handled<F::Error> {
        if test {
            return Handled::NotYet;
        }
        match at_once(|| self.0.passivate(metadata, resource)) {
            Some(passivated) => {
                Handled::of(Failure::of(passivated).map_err(PoolEvent::PassivateFailed))
            }
            None => Handled::NotYet,
        }
    }
    #[inline]
    #[allow(private_interfaces)] // As in the trait.
    async fn prepare(pool: &Inner<Self>, loan: &mut Loan<Self>) -> Result<(), PoolEvent<F::Error>> {
        let unclean = loan.unclean;
        let mut all = Preparation {
            factory: &pool.factory.0,
            metadata: &loan.meta,
            resource: &mut loan.resource,
        };
        if unclean {
            if pool.options.test_on_return {
                passed(contained_future(|| all.validate()).await)?;
            }
            let passivated = contained_future(|| all.passivate()).await;
            Failure::of(passivated).map_err(PoolEvent::PassivateFailed)?;
        }
        let activated = contained_future(|| all.activate()).await;
        Failure::of(activated).map_err(PoolEvent::ActivateFailed)?;
        if pool.options.test_on_borrow {
            passed(contained_future(|| all.validate()).await)?;
        }
        Ok(())
    }
    #[inline(always)] // As above.
    #[allow(private_interfaces)] // As in the trait.
    fn prepare_at_once(pool: &Inner<Self>, loan: &mut Loan<Self>) -> Handled<F::Error> {
        if loan.unclean || pool.options.test_on_borrow {
            return Handled::NotYet;
        }
        let factory = &pool.factory.0;
        match at_once(|| factory.activate(&loan.meta, &mut loan.resource)) {
            Some(activated) => {
                Handled::of(Failure::of(activated).map_err(PoolEvent::ActivateFailed))
            }
            None => Handled::NotYet,
        }
    }
}

/// The calls of a preparation, and on what they are made: handed on by one reference, for what a future
/// captures is copied.
struct Preparation<'a, F: AsyncResourceFactory> {
    factory: &'a F,
    metadata: &'a F::Metadata,
    resource: &'a mut F::Resource,
}

impl<F: AsyncResourceFactory> Preparation<'_, F> {
    fn validate(&mut self) -> impl Future<Output = bool> + Send {
        self.factory.validate(self.metadata, self.resource)
    }
    fn passivate(&mut self) -> impl Future<Output = Result<(), F::Error>> + Send {
        self.factory.passivate(self.metadata, self.resource)
    }
    fn activate(&mut self) -> impl Future<Output = Result<(), F::Error>> + Send {
        self.factory.activate(self.metadata, self.resource)
    }
}

/// The preparation by a factory that need not be awaited: nothing has been left undone.
#[inline(always)] // As above.
fn prepare_now<F: ResourceFactory>(
    pool: &Inner<F>,
    loan: &mut Loan<F>,
) -> Result<(), PoolEvent<F::Error>> {
    debug_assert!(!loan.unclean, "it is passivated when it comes back");
    let factory = &**pool.factory;
    let Loan { meta, resource, .. } = loan;
    let metadata = &**meta;
    let activated = contain(|| factory.activate(metadata, resource));
    Failure::of(activated).map_err(PoolEvent::ActivateFailed)?;
    if !pool.options.test_on_borrow {
        return Ok(());
    }
    passed(contain(|| factory.validate(metadata, resource)))
}

fn passed<E>(tested: Result<bool, String>) -> Result<(), PoolEvent<E>> {
    match tested {
        Ok(true) => Ok(()),
        Ok(false) => Err(PoolEvent::Invalid),
        Err(message) => Err(PoolEvent::ValidatePanicked(message)),
    }
}

/// What the future that `make` gives comes to, if it keeps nothing and is ready: a task that awaits it has to keep
/// in memory what it will go on with, which costs more than all that a pool does with it.
#[inline(always)] // As above.
fn at_once<Fut: Future>(make: impl FnOnce() -> Fut) -> Option<Result<Fut::Output, String>> {
    if size_of::<Fut>() > 0 || std::mem::needs_drop::<Fut>() {
        return None;
    }
    match contain(|| pin!(make()).poll(&mut Context::from_waker(Waker::noop()))) {
        Ok(Poll::Ready(output)) => Some(Ok(output)),
        Ok(Poll::Pending) => None,
        Err(message) => Some(Err(message)),
    }
}

/// Polls what `make` gives to its end; a panic of it, of a poll or of its drop becomes its message. If it is
/// dropped before, a panic has nobody to be told to.
async fn contained_future<Fut: Future>(make: impl FnOnce() -> Fut) -> Result<Fut::Output, String> {
    let future = contain(make)?;
    Contained(pin!(Some(future))).await
}

/// A future of the factory's whose panic becomes its message. If it is dropped before its end, a panic of what it
/// had in hand goes no further.
struct Contained<'a, Fut>(Pin<&'a mut Option<Fut>>);

impl<Fut> Contained<'_, Fut> {
    #[inline(always)]
    fn end(&mut self) -> Result<(), String> {
        match std::mem::needs_drop::<Fut>() {
            true => contain(|| self.0.set(None)),
            false => Ok(()),
        }
    }
}

impl<Fut: Future> Future for Contained<'_, Fut> {
    type Output = Result<Fut::Output, String>;

    #[inline(always)] // Of what a factory leaves undone, nothing is left to be done.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.0.as_mut().as_pin_mut().expect("taken only at its end");
        let output = match contain(|| future.poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => output,
            Err(message) => return Poll::Ready(Err(message)),
        };
        if let Err(message) = self.end() {
            drop_contained(output);
            return Poll::Ready(Err(message));
        }
        Poll::Ready(Ok(output))
    }
}

impl<Fut> Drop for Contained<'_, Fut> {
    #[inline(always)]
    fn drop(&mut self) {
        let _ = self.end();
    }
}
