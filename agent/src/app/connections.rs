//! Connections to processes that speak HTTP themselves: they stay open between requests, in the library's
//! own resource pool, keyed by process.
//!
//! A connection comes back only when it is known to be as it was before the request: the answer was read
//! to its end, and the process did not say that it would close. Whatever else ends an exchange closes the
//! connection: an error, a client that leaves, a panic. So nothing of one answer can come before another.
//! That is why [`Lent`] turns the pool's guard round: dropped, it closes; [`keep`](Lent::keep) returns.
//!
//! A kept connection is lent after a look at it that asks the kernel whether the process has closed it.
//! How many are lent at once is not this pool's to bound: each belongs to a session, and how many of
//! these a process has is the application pool's to say.

use super::handshake::Address;
use super::process::AppInfo;
use super::stream::{self, AppStream, Watch, Watched};
use crate::front::session_codec::{MAX_HEAD, MAX_HEADERS};
use crate::front::upload::Upload;
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, BorrowError, Borrowed, Failure, KeyedResourcePool, Limit,
    PoolBuildError, ResourcePoolBuilder, ResourceSnapshot, ResourceState,
};
use cabrank::{BoxFuture, ConnectError, Identifier, Runtime};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// More idle connections than this, to one process, are not worth their descriptors.
const MAX_KEPT: usize = 128;
/// What a burst of requests has left behind is closed after this time.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);

/// A process, as far as connections to it are concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessKey {
    pub(crate) identifier: Identifier,
    pub(crate) address: Address,
}

/// One connection: HTTP over a stream, both in the hands of a task of its own.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    pub(crate) sender: SendRequest<Upload>,
    stream: Watch,
    has_served: bool,
}

/// Opens connections, and looks at those that were kept.
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
        // The same bounds as in the other protocol.
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(ConnectError::process)?;
        // Ends when both sides are done with it.
        tokio::spawn(async move {
            if let Err(e) = connection.with_upgrades().await {
                tracing::debug!("a connection to an application process ended: {e}");
            }
        });
        Ok(HttpConnection { sender, stream: watch, has_served: false })
    }

    /// Closed by the process, or with bytes on it that nobody asked for: not to be used.
    async fn validate(&self, _: &ProcessKey, connection: &mut HttpConnection) -> bool {
        !connection.sender.is_closed() && connection.stream.is_quiet()
    }

    /// It may have to put the last bytes of an exchange behind it.
    async fn passivate(
        &self,
        _: &ProcessKey,
        connection: &mut HttpConnection,
    ) -> Result<(), ConnectError> {
        connection.sender.ready().await.map_err(ConnectError::process)
    }
}

type Pool = KeyedResourcePool<ProcessKey, Async<Connector>>;

fn options() -> ResourcePoolBuilder<Async<Connector>, Pool> {
    Pool::builder(Async(Connector))
        .max_active(Limit::None)
        .max_idle(MAX_KEPT)
        .max_idle_time(MAX_IDLE_TIME)
        .test_on_borrow(true)
}

/// Where the pool's maintenance runs.
struct Tokio(Handle);

impl Runtime for Tokio {
    type Sleep = tokio::time::Sleep;

    fn spawn(&self, task: BoxFuture<()>) {
        self.0.spawn(task);
    }
    fn sleep_until(&self, at: Instant) -> tokio::time::Sleep {
        let _in_runtime = self.0.enter();
        tokio::time::sleep_until(at.into())
    }
}

/// The connections to all processes; clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Connections(Pool);

impl Connections {
    /// None yet. Those that are idle for too long are closed by a task of the runtime.
    pub(crate) fn new(runtime: Handle) -> Result<Self, PoolBuildError> {
        options().build_on(Tokio(runtime)).map(Connections)
    }

    /// A connection for one request: a kept one, or a new one. `afresh`: only a new one will do.
    pub(crate) async fn borrow(
        &self,
        process: &Arc<AppInfo>,
        afresh: bool,
    ) -> Result<Lent, ConnectError> {
        loop {
            let connection = self.0.borrow_async(&process.key).await.map_err(connect_error)?;
            let connection = Lent {
                process: Arc::clone(process),
                connection: Some(connection.into_owned()),
                is_last: false,
            };
            if !(afresh && connection.has_served()) {
                return Ok(connection);
            }
        }
    }

    /// Closes those to one process that are idle.
    pub(crate) fn close_kept(&self, process: &ProcessKey) {
        self.0.clear_key(process);
    }

    /// How many are kept to each process that has any. Stock that is still being opened, for a client that has
    /// left, is no connection yet.
    pub(crate) fn kept(&self) -> HashMap<Identifier, usize> {
        let is_kept = |one: &&ResourceSnapshot| {
            matches!(one.state, ResourceState::Idle | ResourceState::Tested)
        };
        let keys = self.0.snapshot().keys;
        let kept = keys.iter().filter_map(|of| {
            Some((of.key()?.identifier, of.resources.iter().filter(is_kept).count()))
        });
        kept.collect()
    }
}

fn connect_error(error: BorrowError<ConnectError>) -> ConnectError {
    match error {
        BorrowError::Create(Failure::Error(error)) => error,
        other => ConnectError::local(other.to_string()),
    }
}

/// One request's hold on a connection. Dropping it closes the connection, for nobody knows how far the
/// exchange had come.
#[derive(Debug)]
#[must_use = "dropping it closes the connection"]
pub(crate) struct Lent {
    process: Arc<AppInfo>,
    /// Absent once it has been given back.
    connection: Option<Borrowed<'static, Async<Connector>>>,
    /// The process has said that this answer is the last.
    is_last: bool,
}

impl Lent {
    /// What the request is sent by.
    pub(crate) fn sender(&mut self) -> &mut SendRequest<Upload> {
        &mut self.connection.as_mut().expect("present until it is given back").sender
    }

    fn has_served(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.has_served)
    }

    /// No other request is to be sent over it.
    pub(crate) fn close_after(&mut self) {
        self.is_last = true;
    }

    /// The exchange is complete: the connection may serve again, at once or, if the request is still
    /// being sent, when that is over. The next request does not wait for it.
    pub(crate) fn keep(mut self) {
        if self.is_last {
            return;
        }
        let Some(mut connection) = self.connection.take() else { return };
        connection.has_served = true;
        let process = Arc::clone(&self.process);
        if connection.sender.is_ready() {
            put(connection, &process);
        } else {
            tokio::spawn(async move {
                match connection.sender.ready().await {
                    Ok(()) => put(connection, &process),
                    Err(_) => connection.invalidate(),
                }
            });
        }
    }

    /// The connection has become something else: it is the pool's no more.
    pub(crate) fn detach(mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
    }
}

/// Back into the pool; but out of it again if its process has ended: whoever closes that one's
/// connections has come either after this one or after the mark that is looked at here.
fn put(connection: Borrowed<'static, Async<Connector>>, process: &AppInfo) {
    drop(connection);
    if process.exited.load(Ordering::Acquire) {
        process.connections.close_kept(&process.key);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.invalidate();
        }
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
