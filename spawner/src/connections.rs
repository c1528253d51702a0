//! Connections to processes that stay open between requests.
//!
//! These connections are kept in the library's own resource pool, keyed by process and core: a connection is
//! always used by the core that has opened it. So the pool has no runtime, in which it would create: each borrower opens
//! its connection on its core. Elsewhere a task maintains the pool.
//!
//! A connection returns to the pool only after a complete exchange. The server has read the answer to its
//! end, and the process has not announced that it will close. Every other end of an exchange closes the
//! connection: an error, a client that leaves, a panic. So the rest of one answer cannot be taken for the
//! next. [`Lent`] therefore reverses the pool's guard: dropping it closes the connection, and
//! [`keep`](Lent::keep) returns it.
//!
//! A connection that the process has closed meanwhile shows by its readiness, without a system call, or by a
//! write that fails. The exchange then takes another one.
//!
//! A process whose HTTP is not ours may send more than its answer declares. So a connection to it first rests (`resting`),
//! and any byte that comes meanwhile, or while it is idle, ends it.
//!
//! The pool does not limit the number of borrowed connections. Each belongs to a session, and the
//! application pool limits the sessions of a process.

mod resting;

use self::resting::Resting;
use crate::chain::Chain;
use crate::handshake::Address;
use crate::leaving::Leaving;
use crate::stream::{self, AppStream};
use cabrank::application_pool::{ConnectError, Identifier};
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, BorrowError, Borrowed, BuildError, Builder, Failure,
    KeyedResourcePool, ResourceSnapshot, ResourceState, WeakKeyedResourcePool,
};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::futures::Notified;

/// The largest number of idle connections of one core to one process; more are not worth their descriptors.
const MAX_IDLE: usize = 128;
/// The time after which an idle connection is closed.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);
/// The time after which an idle connection is not used again if the process closes idle ones itself.
///
/// It is shorter than the limits of common servers: gunicorn's is two seconds, and Node's is five. A request
/// could otherwise reach a connection that is about to close, and only safe requests are repeated.
const MAX_FOREIGN_IDLE_TIME: Duration = Duration::from_secs(1);

/// The key of one core's connections to a process.
#[derive(Clone, Debug)]
pub struct ProcessKey {
    identifier: Identifier,
    core: usize,
    address: Arc<Address>,
}

impl PartialEq for ProcessKey {
    fn eq(&self, other: &Self) -> bool {
        // The identifier determines the address.
        (self.identifier, self.core) == (other.identifier, other.core)
    }
}

impl Eq for ProcessKey {}

impl Hash for ProcessKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.identifier, self.core).hash(state);
    }
}

/// The side that closes idle connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleEnd {
    /// The server.
    Server,
    /// The process, too, after a time that the server does not know.
    Process,
}

/// A process as a target of connections.
#[derive(Debug)]
pub struct Endpoint {
    /// The process's place in the pool.
    pub identifier: Identifier,
    /// The address to connect to.
    pub address: Arc<Address>,
    /// One key for each core.
    keys: Vec<ProcessKey>,
    /// Likewise: the connections that rest.
    resting: Vec<Arc<Resting<Lent>>>,
    idle_end: IdleEnd,
    has_exited: AtomicBool,
    is_gone: AtomicBool,
}

impl Endpoint {
    fn new(identifier: Identifier, address: Address, idle_end: IdleEnd, cores: usize) -> Arc<Self> {
        let address = Arc::new(address);
        let key = |core| ProcessKey { identifier, core, address: Arc::clone(&address) };
        let keys = (0..cores).map(key).collect();
        let (has_exited, is_gone) = Default::default();
        let resting = (0..cores).map(|_| Arc::new(Resting::new())).collect();
        Arc::new(Endpoint { identifier, address, keys, resting, idle_end, has_exited, is_gone })
    }

    /// Marks the process as ended. Call [`Connections::set_gone`] once the rest of its group has ended, too.
    pub fn set_exited(&self) {
        self.has_exited.store(true, Ordering::Release);
    }

    /// Returns whether the process's HTTP is not ours, so that its answers may not end where they say, and it may leave the
    /// body of a request unread.
    pub fn is_foreign(&self) -> bool {
        self.idle_end == IdleEnd::Process
    }

    /// Returns whether the process has ended.
    pub fn has_exited(&self) -> bool {
        self.has_exited.load(Ordering::Acquire)
    }

    /// Returns whether the process has ended with its whole group, so that it sends no more bytes.
    ///
    /// Its connections may be open still: a daemon that it has forked may hold them.
    /// [`Connections::changed`] tells of the change.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }
}

/// One connection that stays open between requests.
#[derive(Debug)]
pub struct Kept {
    /// The open stream.
    pub stream: AppStream,
    /// Whether it has carried a request.
    pub has_served: bool,
    /// The beginning of its idle time, if the process closes idle connections.
    idle_since: Option<Instant>,
}

impl Kept {
    /// Returns whether the process may have closed it, or may be about to.
    fn may_be_closed(&self) -> bool {
        let is_usable = match self.idle_since {
            None => self.stream.is_quiet(),
            // The runtime may not know of the last bytes yet.
            Some(since) => since.elapsed() <= MAX_FOREIGN_IDLE_TIME && self.stream.is_silent(),
        };
        self.has_served && !is_usable
    }
}

/// Opens connections.
#[derive(Debug)]
pub struct Connector;

impl AsyncResourceFactory for Connector {
    type Resource = Kept;
    type Metadata = ProcessKey;
    type Error = ConnectError;

    async fn create(&self, key: &ProcessKey) -> Result<Kept, ConnectError> {
        let opened = stream::open(&key.address)?;
        let stream = AppStream::finish(opened, &key.address).await?;
        Ok(Kept { stream, has_served: false, idle_since: None })
    }
}

type Pool = KeyedResourcePool<ProcessKey, Async<Connector>>;

fn options() -> Builder<Async<Connector>, Pool> {
    let options = Pool::builder(Async(Connector)).maintenance(false);
    options.max_active(None).max_idle(MAX_IDLE).max_idle_time(MAX_IDLE_TIME)
}

/// Closes connections that are idle for longer than `limit`, the option of the pool, until the pool is gone.
async fn maintain(pool: WeakKeyedResourcePool<ProcessKey, Async<Connector>>, limit: Duration) {
    while let Some(pool) = pool.upgrade() {
        let next = pool.maintain_async().await;
        drop(pool);
        // No connection that becomes idle later is due earlier.
        tokio::time::sleep(next.map_or(limit, |next| next.min(limit))).await;
    }
}

/// The connections to all processes. Clones share one pool.
#[derive(Clone, Debug)]
pub struct Connections {
    pool: Pool,
    cores: usize,
    pub(crate) leaving: Arc<Leaving>,
}

impl Connections {
    /// Creates an empty pool for so many cores. A task of `runtime` closes connections that are idle for too
    /// long.
    pub fn new(runtime: Handle, cores: usize) -> Result<Self, BuildError> {
        let pool = options().build_async()?;
        runtime.spawn(maintain(pool.downgrade(), MAX_IDLE_TIME));
        Ok(Connections { pool, cores, leaving: Arc::new(Leaving::new()) })
    }

    /// Returns the target of connections to a process.
    pub fn endpoint(
        &self,
        identifier: Identifier,
        address: Address,
        idle_end: IdleEnd,
    ) -> Arc<Endpoint> {
        Endpoint::new(identifier, address, idle_end, self.cores)
    }

    /// Borrows a connection for one request of a core: an idle one, or a new one.
    ///
    /// Idle connections that the process has closed meanwhile are closed and left out, as far as the runtime
    /// knows of it.
    pub async fn borrow(
        &self,
        endpoint: &Arc<Endpoint>,
        core: usize,
    ) -> Result<Lent, ConnectError> {
        loop {
            let borrowed = self.pool.borrow_async(&endpoint.keys[core]).await;
            let connection = Borrowed::into_owned(borrowed.map_err(connect_error)?);
            if connection.may_be_closed() {
                Borrowed::invalidate(connection);
                continue;
            }
            let (pool, endpoint) = (self.clone(), Arc::clone(endpoint));
            return Ok(Lent { pool, endpoint, core, connection: Some(connection) });
        }
    }

    /// Closes the idle connections to one process.
    pub fn close_idle(&self, endpoint: &Endpoint) {
        endpoint.keys.iter().for_each(|key| self.pool.clear_key(key));
    }

    /// Marks a process as gone, and closes the idle connections to it.
    pub fn set_gone(&self, endpoint: &Endpoint) {
        endpoint.set_exited();
        endpoint.is_gone.store(true, Ordering::Release);
        self.close_idle(endpoint);
        self.leaving.forget(endpoint.identifier);
    }

    /// Waits until a process is gone, or drains. Each change after this call counts, also before the first poll.
    pub fn changed(&self) -> Notified<'_> {
        self.leaving.changed.notified()
    }

    /// Sets the time that a process has to leave after it was detached, with its requests and its background work. It
    /// is 60 s otherwise.
    pub fn set_drain_time(&self, time: Duration) {
        self.leaving.set_drain_time(time);
    }

    /// Notes that the pool has detached a process.
    pub fn drains(&self, process: Identifier) {
        self.leaving.drains(process);
    }

    /// Returns whether the pool has detached a process that is not gone yet.
    pub fn is_draining(&self, process: Identifier) -> bool {
        self.leaving.drains_since(process).is_some()
    }

    /// Bounds the end of all processes, because the program stops.
    pub fn stop_by(&self, deadline: Instant) {
        self.leaving.stop_by(deadline);
    }

    /// Counts the idle connections of each process.
    pub fn idle_counts(&self) -> HashMap<Identifier, usize> {
        let is_idle = |one: &&ResourceSnapshot| {
            matches!(one.state, ResourceState::Idle | ResourceState::Tested)
        };
        let mut counts = HashMap::new();
        for of in &self.pool.snapshot().keys {
            if let Some(key) = of.key() {
                let idle = of.resources.iter().filter(is_idle).count();
                *counts.entry(key.identifier).or_default() += idle;
            }
        }
        counts
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
pub struct Lent {
    pool: Connections,
    endpoint: Arc<Endpoint>,
    core: usize,
    /// `None` once the connection has been returned.
    connection: Option<Borrowed<'static, Async<Connector>>>,
}

impl Lent {
    /// Returns the connection.
    pub fn stream(&mut self) -> &mut AppStream {
        &mut self.connection.as_mut().expect(PRESENT).stream
    }

    /// Returns whether the connection has carried a request before.
    #[cfg(test)]
    fn has_served(&self) -> bool {
        self.connection.as_ref().expect(PRESENT).has_served
    }

    /// Returns whether the process's HTTP is not ours: see [`Endpoint::is_foreign`].
    pub fn is_foreign(&self) -> bool {
        self.endpoint.is_foreign()
    }

    /// Returns the connection to the pool after a complete exchange, perhaps after a rest.
    pub fn keep(mut self) {
        if self.is_foreign() {
            // Bytes behind the answer come within the rest, or not at all.
            self.stream().acknowledge();
            let resting = Arc::clone(&self.endpoint.resting[self.core]);
            return resting.add(self, |mut rested| {
                // Otherwise the drop closes it.
                if rested.stream().is_silent() {
                    rested.give_back();
                }
            });
        }
        self.give_back();
    }

    /// Returns the connection to the pool, unless its process has ended.
    ///
    /// The lifeline marks the process as ended before it closes the idle connections. So either the lifeline
    /// finds this connection in the pool, or this function sees the mark.
    fn give_back(mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        connection.has_served = true;
        connection.idle_since = match self.is_foreign() {
            true => Some(Instant::now()),
            false => None,
        };
        drop(connection);
        if self.endpoint.has_exited() {
            self.pool.close_idle(&self.endpoint);
        }
    }

    /// Removes the connection from the pool without closing it: it no longer speaks HTTP.
    pub fn detach(mut self) -> Option<AppStream> {
        self.connection.take().map(|connection| Borrowed::detach(connection).stream)
    }
}

const PRESENT: &str = "the connection is present until `keep` or `detach` consumes the guard";

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
