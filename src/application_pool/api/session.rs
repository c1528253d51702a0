//! Sessions, and their end: the pseudocode's `session_has_been_closed`. `state/session_end.rs` has the part under the lock.
//!
//! A [`Session`] shares the `Entry` of its process. So it keeps the user's value and the pool's memory, but not the
//! process's place in the pool. A weak reference would keep neither. It would cost a get and its close four more atomic
//! operations, which take as long as two lock pairs.

use super::spawner::{Identifier, Process, Spawner};
use crate::application_pool::state::ending::{Ending, Found};
use crate::application_pool::state::entry::Entry;
use crate::kernel::sync::{Arc, has_failed};
use crate::kernel::user_code::UserValue;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// The pseudocode's `session_has_been_closed`, for a process that is still referred to.
pub(crate) fn session_has_been_closed<S: Spawner>(entry: &Arc<Entry<S>>, end: Ending) -> Found {
    if entry.gone.is_raised() {
        return Found::GoneBeforeLock;
    }
    entry.home.end_session(entry, end)
}

/// A process checked out of the pool, without a connection: for callers that connect on their own, for example
/// asynchronously. Dropping it closes the session.
///
/// ```
/// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
/// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
/// # let shop = PoolOptions::new("/srv/shop");
/// let lease = pool.checkout(&shop)?;
/// println!("connect to process {}", lease.process().pid().unwrap_or(0));
/// lease.cancel(); // not used
/// # use cabrank::application_pool::Process;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a lease closes its session"]
pub struct Lease<S: Spawner> {
    /// Absent once the lease has ended or has become a session.
    entry: Option<Arc<Entry<S>>>,
}

impl<S: Spawner> Lease<S> {
    pub(crate) fn new(entry: Arc<Entry<S>>) -> Self {
        Lease { entry: Some(entry) }
    }
    pub(crate) fn entry(&self) -> &Arc<Entry<S>> {
        self.entry.as_ref().expect("taken only by calls that consume the lease")
    }

    /// Returns the process, to connect to. The reference keeps its value alive, not its place in the pool.
    pub fn process(&self) -> &S::Process {
        &self.entry().process
    }
    /// Returns the identifier of the process.
    pub fn identifier(&self) -> Identifier {
        self.entry().identifier
    }
    /// Turns the lease into a session over `connection`.
    #[inline]
    pub fn connected(self, connection: <S::Process as Process>::Connection) -> Session<S> {
        Session { connection: UserValue::new(connection), lease: self }
    }
    /// Closes the session, which counts as a processed request. The same as dropping the lease.
    pub fn close(self) {}
    /// Gives the session back unused: it does not count as a processed request.
    pub fn cancel(self) {
        self.end(Ending::Unused);
    }
    /// Ends the session and detaches the process, which could not be used.
    pub fn fail(self) {
        self.end(Ending::Failed);
    }
    /// Returns the process, whose session the caller ends.
    pub(crate) fn into_entry(mut self) -> Arc<Entry<S>> {
        self.entry.take().expect("taken only by calls that consume the lease")
    }
    pub(crate) fn end(self, end: Ending) -> Found {
        session_has_been_closed(&self.into_entry(), end)
    }
}

impl<S: Spawner> Drop for Lease<S> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take().filter(|_| !has_failed()) {
            session_has_been_closed(&entry, Ending::Closed);
        }
    }
}

impl<S: Spawner> fmt::Debug for Lease<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("process", &self.entry().identifier).finish()
    }
}

/// An open session with a process. Dereferences to the connection. Dropping it closes the connection, then
/// the session. It keeps the process's value alive, not its place in the pool.
///
/// ```
/// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
/// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
/// # let shop = PoolOptions::new("/srv/shop");
/// use cabrank::Session;
///
/// let session = pool.get(&shop)?;
/// assert_eq!(session.request("hello"), "hello from /srv/shop"); // a method of the connection
/// let process = Session::identifier(&session); // a function of the session
/// assert!(pool.detach(process));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a session closes it"]
pub struct Session<S: Spawner> {
    /// Dropped first: the next session finds the process free. Its drop may panic; the session is counted down all
    /// the same.
    connection: UserValue<<S::Process as Process>::Connection>,
    lease: Lease<S>,
}

impl<S: Spawner> Session<S> {
    /// Returns the identifier of the session's process.
    pub fn identifier(session: &Self) -> Identifier {
        session.lease.identifier()
    }
    /// Closes the session, which counts as a processed request. The same as dropping it.
    pub fn close(session: Self) {
        drop(session);
    }
    /// Gives the session back unused: it does not count as a processed request.
    pub fn cancel(session: Self) {
        session.end(Ending::Unused);
    }
    /// Ends the session and detaches its process, which broke it: the process gets no more sessions.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// use cabrank::Session;
    ///
    /// let session = pool.get(&shop)?;
    /// Session::fail(session); // the process has answered with nonsense
    /// assert_eq!(pool.counts().count, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fail(session: Self) {
        session.end(Ending::Failed);
    }

    pub(crate) fn end(self, end: Ending) -> Found {
        drop(self.connection);
        self.lease.end(end)
    }
}

impl<S: Spawner> Deref for Session<S> {
    type Target = <S::Process as Process>::Connection;
    fn deref(&self) -> &Self::Target {
        &self.connection
    }
}
impl<S: Spawner> DerefMut for Session<S> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.connection
    }
}

impl<S: Spawner> fmt::Debug for Session<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("process", &self.lease.identifier()).finish_non_exhaustive()
    }
}
