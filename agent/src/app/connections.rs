//! Connections to processes that speak HTTP themselves.
//!
//! These connections stay open between requests, in the library's own resource pool, keyed by process.
//!
//! A connection returns to the pool only after a complete exchange. The agent has read the answer to its
//! end, and the process has not announced that it will close. Every other end of an exchange closes the
//! connection: an error, a client that leaves, a panic. So the rest of one answer cannot be taken for the
//! next. [`Lent`] therefore reverses the pool's guard: dropping it closes the connection, and
//! [`keep`](Lent::keep) returns it.
//!
//! Before the pool lends an idle connection, it asks the kernel whether the process has closed it.
//! The pool does not limit the number of borrowed connections. Each belongs to a session, and the
//! application pool limits the sessions of a process.

use super::handshake::Address;
use super::stream::{self, AppStream, Watch, Watched};
use crate::chain::Chain;
use crate::http::upload::Upload;
use crate::http::{MAX_REPLY_FIELDS, MAX_REPLY_HEAD};
use cabrank::application_pool::{ConnectError, Identifier};
use cabrank::periodic_executor::Tokio;
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, BorrowError, Borrowed, BuildError, Builder, Failure,
    KeyedResourcePool, ResourceSnapshot, ResourceState,
};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;

/// The largest number of idle connections to one process; more are not worth their descriptors.
const MAX_IDLE: usize = 128;
/// The time after which an idle connection is closed.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);

/// The key of a process's connections in the pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessKey {
    pub(crate) identifier: Identifier,
    pub(crate) address: Address,
}

/// A process as a target of connections.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) key: ProcessKey,
    has_exited: AtomicBool,
}

impl Endpoint {
    pub(crate) fn new(key: ProcessKey) -> Arc<Self> {
        Arc::new(Endpoint { key, has_exited: false.into() })
    }

    /// Marks the process as ended. Call [`Connections::close_idle`] afterwards.
    pub(crate) fn set_exited(&self) {
        self.has_exited.store(true, Ordering::Release);
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_exited(&self) -> bool {
        self.has_exited.load(Ordering::Acquire)
    }
}

/// One connection: HTTP over a stream. A task of its own reads and writes the stream.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    pub(crate) sender: SendRequest<Upload>,
    stream: Watch,
    has_served: bool,
}

/// Opens connections, and tests idle ones before they are lent.
#[derive(Debug)]
pub(crate) struct Connector;

impl AsyncResourceFactory for Connector {
    type Resource = HttpConnection;
    type Metadata = ProcessKey;
    type Error = ConnectError;

    async fn create(&self, process: &ProcessKey) -> Result<HttpConnection, ConnectError> {
        let opened = stream::open(&process.address)?;
        let stream = AppStream::finish(opened, &process.address).await?;
        let (stream, watch) = Watched::new(stream);
        // The session protocol has the same limits.
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_REPLY_HEAD)
            .max_headers(MAX_REPLY_FIELDS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(ConnectError::process)?;
        // The task ends when both sides have closed the connection.
        tokio::spawn(async move {
            if let Err(e) = connection.with_upgrades().await {
                tracing::debug!("a connection to an application process ended: {}", Chain(&e));
            }
        });
        Ok(HttpConnection { sender, stream: watch, has_served: false })
    }

    /// Returns false if the process has closed the connection or has sent bytes without a request.
    async fn validate(&self, _: &ProcessKey, connection: &mut HttpConnection) -> bool {
        !connection.sender.is_closed() && connection.stream.is_quiet()
    }

    /// Waits until the last bytes of the exchange are written.
    async fn passivate(
        &self,
        _: &ProcessKey,
        connection: &mut HttpConnection,
    ) -> Result<(), ConnectError> {
        connection.sender.ready().await.map_err(ConnectError::process)
    }
}

type Pool = KeyedResourcePool<ProcessKey, Async<Connector>>;

fn options() -> Builder<Async<Connector>, Pool> {
    Pool::builder(Async(Connector))
        .max_active(None)
        .max_idle(MAX_IDLE)
        .max_idle_time(MAX_IDLE_TIME)
        .test_on_borrow(true)
}

/// The connections to all processes. Clones share one pool.
#[derive(Clone, Debug)]
pub(crate) struct Connections(Pool);

impl Connections {
    /// Creates an empty pool. A task of `runtime` closes connections that are idle for too long.
    pub(crate) fn new(runtime: Handle) -> Result<Self, BuildError> {
        options().build_on(Tokio::from(runtime)).map(Connections)
    }

    /// Borrows a connection for one request: an idle one, or a new one.
    ///
    /// With `only_new`, idle connections that the pool lends are closed until it opens a new one.
    pub(crate) async fn borrow(
        &self,
        endpoint: &Arc<Endpoint>,
        only_new: bool,
    ) -> Result<Lent, ConnectError> {
        loop {
            let connection = self.0.borrow_async(&endpoint.key).await.map_err(connect_error)?;
            let connection = Lent {
                pool: self.clone(),
                endpoint: Arc::clone(endpoint),
                connection: Some(Borrowed::into_owned(connection)),
                is_last: false,
            };
            if !(only_new && connection.has_served()) {
                return Ok(connection);
            }
        }
    }

    /// Closes the idle connections to one process.
    pub(crate) fn close_idle(&self, endpoint: &Endpoint) {
        self.0.clear_key(&endpoint.key);
    }

    /// Counts the idle connections of each process.
    ///
    /// A connection that is still being opened for a client that has left does not count.
    pub(crate) fn idle_counts(&self) -> HashMap<Identifier, usize> {
        let is_idle = |one: &&ResourceSnapshot| {
            matches!(one.state, ResourceState::Idle | ResourceState::Tested)
        };
        let keys = self.0.snapshot().keys;
        let counts = keys.iter().filter_map(|of| {
            Some((of.key()?.identifier, of.resources.iter().filter(is_idle).count()))
        });
        counts.collect()
    }
}

fn connect_error(error: BorrowError<ConnectError>) -> ConnectError {
    match error {
        BorrowError::Create(Failure::Error(error)) => error,
        other => ConnectError::local(Chain(&other).to_string()),
    }
}

/// One request's hold on a connection.
///
/// Dropping it closes the connection, because the exchange may have stopped at any point.
#[derive(Debug)]
#[must_use = "dropping it closes the connection"]
pub(crate) struct Lent {
    pool: Connections,
    endpoint: Arc<Endpoint>,
    /// `None` once the connection has been returned.
    connection: Option<Borrowed<'static, Async<Connector>>>,
    /// Whether the process has announced that it closes the connection after this answer.
    is_last: bool,
}

impl Lent {
    /// Returns the handle that sends the request.
    pub(crate) fn sender(&mut self) -> &mut SendRequest<Upload> {
        &mut self
            .connection
            .as_mut()
            .expect("the connection is present until `keep` or `detach` consumes the guard")
            .sender
    }

    fn has_served(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.has_served)
    }

    /// Closes the connection after this exchange, even if the caller keeps it.
    pub(crate) fn close_after(&mut self) {
        self.is_last = true;
    }

    /// Returns the connection to the pool after a complete exchange.
    ///
    /// If the rest of the request is still being sent, a task returns the connection afterwards. The next
    /// request does not wait for that.
    pub(crate) fn keep(mut self) {
        if self.is_last {
            return;
        }
        let Some(mut connection) = self.connection.take() else { return };
        connection.has_served = true;
        let (pool, endpoint) = (self.pool.clone(), Arc::clone(&self.endpoint));
        if connection.sender.is_ready() {
            put(connection, &pool, &endpoint);
        } else {
            tokio::spawn(async move {
                match connection.sender.ready().await {
                    Ok(()) => put(connection, &pool, &endpoint),
                    Err(_) => Borrowed::invalidate(connection),
                }
            });
        }
    }

    /// Removes the connection from the pool without closing it: it no longer speaks HTTP.
    pub(crate) fn detach(mut self) {
        if let Some(connection) = self.connection.take() {
            drop(Borrowed::detach(connection));
        }
    }
}

/// Returns the connection to the pool, and closes it if its process has ended.
///
/// The lifeline marks the process as ended before it closes the idle connections. So either the lifeline
/// finds this connection in the pool, or this function sees the mark.
fn put(connection: Borrowed<'static, Async<Connector>>, pool: &Connections, endpoint: &Endpoint) {
    drop(connection);
    if endpoint.has_exited() {
        pool.close_idle(endpoint);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            Borrowed::invalidate(connection);
        }
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
