//! The user's factory, in two forms: [`ResourceFactory`] blocks, [`AsyncResourceFactory`] is awaited.
//!
//! The pool's own code is written once, for [`Form`].

use super::error::{BorrowError, Failure};
use crate::kernel::runtime::BoxFuture;
use crate::kernel::user_code::{UserValue, contain, drop_contained};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Creates, validates and destroys the resources of a pool.
///
/// The pool calls no method under its lock, so each method may call the pool. A panic in a method is an
/// error of that call. Each call has its resource to itself.
///
/// ```
/// use cabrank::resource_pool::{ResourceFactory, ResourcePool};
/// use std::io::{self, ErrorKind};
/// use std::net::TcpStream;
///
/// struct Connections;
/// impl ResourceFactory for Connections {
///     type Resource = TcpStream;
///     type Metadata = String; // the address
///     type Error = io::Error;
///     fn create(&self, address: &String) -> io::Result<TcpStream> {
///         TcpStream::connect(address.as_str())
///     }
///     fn validate(&self, _: &String, connection: &mut TcpStream) -> bool {
///         // A healthy idle connection has no bytes to read, and no end.
///         let _ = connection.set_nonblocking(true);
///         let read = connection.peek(&mut [0]);
///         let _ = connection.set_nonblocking(false);
///         matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
///     }
/// }
///
/// let pool = ResourcePool::builder(Connections, "db.example:5432".to_owned()).test_on_borrow(true).build()?;
/// # drop(pool);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ResourceFactory: Send + Sync + 'static {
    /// The type of resource that is lent. The pool boxes each resource and never moves it again.
    type Resource: Send + 'static;
    /// Describes the resources, such as the address to connect to. In a keyed pool it is the key.
    type Metadata: Send + Sync + 'static;
    /// The error of a failed `create`, `activate` or `passivate`.
    type Error: fmt::Display + Send + 'static;

    /// Creates a resource.
    ///
    /// # Errors
    /// The borrower gets the error as [`BorrowError::Create`](crate::resource_pool::BorrowError::Create).
    fn create(&self, metadata: &Self::Metadata) -> Result<Self::Resource, Self::Error>;

    /// Destroys a resource that has left the pool.
    ///
    /// The resource counts for `max_total` and `max_total_per_key` until this returns. A call that waits here for
    /// a place in the same pool may therefore wait for itself.
    fn destroy(&self, metadata: &Self::Metadata, resource: Self::Resource) {
        let _ = metadata;
        drop(resource);
    }

    /// Returns whether the resource is still usable. Called where the options ask for tests.
    fn validate(&self, metadata: &Self::Metadata, resource: &mut Self::Resource) -> bool {
        let _ = (metadata, resource);
        true
    }

    /// Prepares the resource for its borrower. Called before each loan, the first one included.
    ///
    /// # Errors
    /// The pool destroys the resource. The borrower gets another one. If the resource was created for that
    /// borrower, it gets the error instead, as [`BorrowError::Activate`](crate::resource_pool::BorrowError::Activate).
    fn activate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> Result<(), Self::Error> {
        let _ = (metadata, resource);
        Ok(())
    }

    /// Cleans up a resource that becomes idle: after each loan, and when it was created for the idle list.
    ///
    /// # Errors
    /// The pool destroys the resource.
    fn passivate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> Result<(), Self::Error> {
        let _ = (metadata, resource);
        Ok(())
    }

    /// Returns a name of the metadata (or key) for errors, such as the host. Default: none.
    ///
    /// The pool calls it when a borrower has [waited in vain](crate::resource_pool::Shortage).
    fn describe(&self, metadata: &Self::Metadata) -> Option<String> {
        let _ = metadata;
        None
    }
}

/// The asynchronous form of [`ResourceFactory`], for any runtime. A pool takes it as [`Async`]`(factory)`.
///
/// The drop of a guard cannot await. The next borrower of the resource therefore awaits the `validate` of
/// `test_on_return` and `passivate`, before its own `activate`. [`Borrowed::put_back`](crate::resource_pool::Borrowed::put_back)
/// awaits them at once.
///
/// Until then the idle resource is as its borrower left it. `validate` (for `test_while_idle`), `destroy` and the
/// predicate of [`retain`](crate::resource_pool::Pool::retain) may see it active.
///
/// A pool with a runtime awaits [`destroy_async`](Self::destroy_async) in place of `destroy`.
pub trait AsyncResourceFactory: Send + Sync + 'static {
    /// The type of resource that is lent.
    type Resource: Send + 'static;
    /// Describes the resources. In a keyed pool it is the key.
    type Metadata: Send + Sync + 'static;
    /// The error of a failed `create`, `activate` or `passivate`.
    type Error: fmt::Display + Send + 'static;

    /// Creates a resource.
    ///
    /// In a pool with a runtime, a task of that runtime awaits the future, and not the borrower: see
    /// [creations](super::super#creations). Without one, and for `add`, the caller awaits it. The pool drops the future when that
    /// caller is cancelled.
    ///
    /// # Errors
    /// A borrower gets the error as [`BorrowError::Create`](crate::resource_pool::BorrowError::Create).
    fn create(
        &self,
        metadata: &Self::Metadata,
    ) -> impl Future<Output = Result<Self::Resource, Self::Error>> + Send;

    /// Destroys a resource that has left the pool, where nothing can be awaited: in a pool without a runtime, or one
    /// whose runtime has ended; and a resource that a cancelled call was about to test or to passivate for the first
    /// time.
    fn destroy(&self, metadata: &Self::Metadata, resource: Self::Resource) {
        let _ = metadata;
        drop(resource);
    }

    /// Destroys a resource that has left the pool, such as by a goodbye to the other side. Default: calls `destroy`.
    ///
    /// A pool with a runtime ([`build_on`](crate::resource_pool::Builder::build_on)) awaits it in a task, or in the borrow
    /// whose resource failed its test. No destruction waits for another. The resource keeps its place meanwhile, at most
    /// for [`destroy_timeout`](crate::resource_pool::Builder::destroy_timeout).
    ///
    /// # Cancel safety
    /// The pool drops the future at its time limit, or when the runtime ends. The resource has to end with it.
    fn destroy_async(
        &self,
        metadata: &Self::Metadata,
        resource: Self::Resource,
    ) -> impl Future<Output = ()> + Send {
        async move { self.destroy(metadata, resource) }
    }

    /// Returns whether the resource is still usable.
    ///
    /// # Cancel safety
    /// The pool destroys the resource if this future is dropped. So it does for `activate` and `passivate`.
    fn validate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> impl Future<Output = bool> + Send {
        let _ = (metadata, resource);
        async { true }
    }

    /// Prepares the resource for its borrower.
    fn activate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = (metadata, resource);
        async { Ok(()) }
    }

    /// Cleans up a resource that becomes idle.
    fn passivate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = (metadata, resource);
        async { Ok(()) }
    }

    /// Returns a name of the metadata (or key) for errors, such as the host. Default: none.
    ///
    /// The pool calls it when a borrower has [waited in vain](crate::resource_pool::Shortage).
    fn describe(&self, metadata: &Self::Metadata) -> Option<String> {
        let _ = metadata;
        None
    }
}

/// Wraps an [`AsyncResourceFactory`] for a pool.
///
/// ```
/// use cabrank::resource_pool::{Async, AsyncResourceFactory, AsyncResourcePool, Borrowed};
/// use tokio::task::yield_now; // stands for a round trip to the other side
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
/// Borrowed::put_back(connection).await; // a drop would leave its passivation to the next borrower
/// pool.retain(|_, idle| !idle.in_transaction); // it has been rolled back, and stays
/// assert_eq!((pool.num_active(), pool.num_idle()), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Async<F>(pub F);

/// A creation in flight.
pub(crate) type Creation<F> = BoxFuture<Result<<F as Form>::Resource, Failure<<F as Form>::Error>>>;

mod sealed {
    pub trait Sealed {}
    impl<F: super::ResourceFactory> Sealed for F {}
    impl<F: super::AsyncResourceFactory> Sealed for super::Async<F> {}
}

/// Either form of a factory: every [`ResourceFactory`], and [`Async`] of every [`AsyncResourceFactory`].
///
/// A panic of the factory becomes an error of the call. Errors are boxed: a success copies no room for them.
#[doc(hidden)]
pub trait Form: sealed::Sealed + Send + Sync + Sized + 'static {
    type Resource: Send + 'static;
    type Metadata: Send + Sync + 'static;
    type Error: fmt::Display + Send + 'static;
    /// The error of a borrower whose creation failed. The state passes it on, and does not know it.
    #[doc(hidden)]
    type Failed: From<BorrowError<Self::Error>> + Into<BorrowError<Self::Error>> + Send + 'static;

    /// Whether each future below is ready at its first poll. If not, the drop of a guard awaits nothing.
    const BLOCKS: bool;

    #[doc(hidden)]
    #[allow(private_interfaces)] // Sealed: other crates cannot name the types.
    fn create(
        factory: Arc<UserValue<Self>>,
        metadata: Arc<UserValue<Self::Metadata>>,
    ) -> Creation<Self>;
    #[doc(hidden)]
    fn destroy(&self, metadata: &Self::Metadata, resource: Self::Resource);
    #[doc(hidden)]
    fn destroy_async(
        &self,
        metadata: &Self::Metadata,
        resource: Self::Resource,
    ) -> impl Future<Output = Result<(), Box<Failure<Self::Error>>>> + Send;
    #[doc(hidden)]
    fn validate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> impl Future<Output = Result<bool, Box<Failure<Self::Error>>>> + Send;
    #[doc(hidden)]
    fn activate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> impl Future<Output = Result<(), Box<Failure<Self::Error>>>> + Send;
    #[doc(hidden)]
    fn passivate(
        &self,
        metadata: &Self::Metadata,
        resource: &mut Self::Resource,
    ) -> impl Future<Output = Result<(), Box<Failure<Self::Error>>>> + Send;
    #[doc(hidden)]
    fn describe(&self, metadata: &Self::Metadata) -> Option<String>;
}

impl<F: ResourceFactory> Form for F {
    type Resource = F::Resource;
    type Metadata = F::Metadata;
    type Error = F::Error;
    type Failed = BorrowError<F::Error>;
    const BLOCKS: bool = true;

    #[allow(private_interfaces)] // As in the trait.
    fn create(factory: Arc<UserValue<F>>, metadata: Arc<UserValue<F::Metadata>>) -> Creation<F> {
        Box::pin(
            async move { Failure::of(contain(|| ResourceFactory::create(&**factory, &metadata))) },
        )
    }
    fn destroy(&self, metadata: &F::Metadata, resource: F::Resource) {
        ResourceFactory::destroy(self, metadata, resource);
    }
    async fn destroy_async(
        &self,
        metadata: &F::Metadata,
        resource: F::Resource,
    ) -> Result<(), Box<Failure<F::Error>>> {
        let ended = contain(|| ResourceFactory::destroy(self, metadata, resource));
        Failure::boxed(ended.map(Ok))
    }
    #[inline]
    async fn validate(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> Result<bool, Box<Failure<F::Error>>> {
        Failure::boxed(contain(|| Ok(ResourceFactory::validate(self, metadata, resource))))
    }
    #[inline]
    async fn activate(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> Result<(), Box<Failure<F::Error>>> {
        Failure::boxed(contain(|| ResourceFactory::activate(self, metadata, resource)))
    }
    #[inline]
    async fn passivate(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> Result<(), Box<Failure<F::Error>>> {
        Failure::boxed(contain(|| ResourceFactory::passivate(self, metadata, resource)))
    }
    fn describe(&self, metadata: &F::Metadata) -> Option<String> {
        ResourceFactory::describe(self, metadata)
    }
}

/// Calls a method of the factory and awaits its future. A panic of the call, of a poll or of the drop becomes a
/// message.
// A macro, not a function: a function would copy the arguments of the call, or the future.
macro_rules! contain_future {
    ($call:expr) => {{
        let mut future = pin!(None);
        match contain(|| future.set(Some($call))) {
            Ok(()) => Contained(future).await,
            Err(message) => Err(message),
        }
    }};
}

#[allow(clippy::manual_async_fn)] // An `async fn` copies its arguments when it is first polled.
impl<F: AsyncResourceFactory> Form for Async<F> {
    type Resource = F::Resource;
    type Metadata = F::Metadata;
    type Error = F::Error;
    type Failed = BorrowError<F::Error>;
    const BLOCKS: bool = false;

    #[allow(private_interfaces)] // As in the trait.
    fn create(
        factory: Arc<UserValue<Self>>,
        metadata: Arc<UserValue<F::Metadata>>,
    ) -> Creation<Self> {
        Box::pin(async move { Failure::of(contain_future!(factory.0.create(&metadata))) })
    }
    fn destroy(&self, metadata: &F::Metadata, resource: F::Resource) {
        self.0.destroy(metadata, resource);
    }
    async fn destroy_async(
        &self,
        metadata: &F::Metadata,
        resource: F::Resource,
    ) -> Result<(), Box<Failure<F::Error>>> {
        let ended = contain_future!(self.0.destroy_async(metadata, resource));
        Failure::boxed(ended.map(Ok))
    }
    #[inline]
    fn validate(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> impl Future<Output = Result<bool, Box<Failure<Self::Error>>>> + Send {
        async move { Failure::boxed(contain_future!(self.0.validate(metadata, resource)).map(Ok)) }
    }
    #[inline]
    fn activate(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> impl Future<Output = Result<(), Box<Failure<F::Error>>>> + Send {
        async move { Failure::boxed(contain_future!(self.0.activate(metadata, resource))) }
    }
    #[inline]
    fn passivate(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> impl Future<Output = Result<(), Box<Failure<F::Error>>>> + Send {
        async move { Failure::boxed(contain_future!(self.0.passivate(metadata, resource))) }
    }
    fn describe(&self, metadata: &F::Metadata) -> Option<String> {
        self.0.describe(metadata)
    }
}

/// A future of the factory. If it is dropped before its end, a panic of its drop is discarded.
struct Contained<'a, Fut>(Pin<&'a mut Option<Fut>>);

impl<Fut> Contained<'_, Fut> {
    #[inline]
    fn end(&mut self) -> Result<(), String> {
        match std::mem::needs_drop::<Fut>() {
            true => contain(|| self.0.set(None)),
            false => Ok(()),
        }
    }
}

impl<Fut: Future> Future for Contained<'_, Fut> {
    type Output = Result<Fut::Output, String>;

    #[inline]
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
    #[inline]
    fn drop(&mut self) {
        let _ = self.end();
    }
}
