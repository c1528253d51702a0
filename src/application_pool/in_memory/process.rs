//! A process without an operating system: its pool's view, a test's view, and a connection to it.

use super::record::{Facts, open};
use super::script::Call;
use crate::application_pool::api::error::ConnectError;
use crate::application_pool::api::spawner::{Identifier, Process, ShutDown};
use crate::kernel::user_code::SCRIPTED;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A process in memory, as a test sees it.
///
/// [`InMemorySpawner::processes`](super::InMemorySpawner::processes) returns those that exist.
#[derive(Clone)]
pub struct InMemoryProcess {
    pub(super) facts: Arc<Facts>,
}

impl InMemoryProcess {
    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.facts.pid
    }
    /// Returns its identifier in the pool.
    pub fn identifier(&self) -> Identifier {
        self.facts.identifier
    }
    /// Returns the application's directory.
    pub fn app_root(&self) -> &Path {
        &self.facts.app_root
    }
    /// Lets the process crash: each connect fails from now on, by the process's fault.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// let spawner = InMemorySpawner::new();
    /// let pool = ApplicationPool::builder(spawner.clone()).build()?;
    /// let first = pool.get(&shop)?.pid();
    /// spawner.processes()[0].kill();
    /// assert_ne!(pool.get(&shop)?.pid(), first); // served by a new process
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kill(&self) {
        self.facts.killed.store(true, Ordering::SeqCst);
    }
    /// Lets the next `times` connects fail, by the fault of the caller's side.
    pub fn run_out_of_descriptors(&self, times: u32) {
        self.facts.out_of_descriptors.store(times, Ordering::SeqCst);
    }
    /// Lets the next connect panic.
    pub fn panic_on_connect(&self) {
        self.facts.panics.store(true, Ordering::SeqCst);
    }
}

impl fmt::Debug for InMemoryProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryProcess")
            .field("pid", &self.facts.pid)
            .field("app_root", &self.facts.app_root)
            .finish_non_exhaustive()
    }
}

/// The pool's handle to an [`InMemoryProcess`].
#[derive(Debug)]
pub struct Handle(pub(super) InMemoryProcess);

impl Process for Handle {
    type Connection = InMemoryConnection;

    fn connect(&self) -> Result<InMemoryConnection, ConnectError> {
        let facts = &self.0.facts;
        facts.spawner.call(Call::Connect);
        if facts.panics.swap(false, Ordering::SeqCst) {
            panic!("{SCRIPTED} in connect");
        }
        let left = &facts.out_of_descriptors;
        if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
            return Err(ConnectError::local("too many open files"));
        }
        if facts.killed.load(Ordering::SeqCst) {
            return Err(ConnectError::process("connection refused"));
        }
        Ok(InMemoryConnection { process: self.0.clone() })
    }
    fn concurrency(&self) -> Option<NonZeroUsize> {
        self.0.facts.concurrency
    }
    fn pid(&self) -> Option<u32> {
        Some(self.0.facts.pid)
    }
    fn shut_down(&self, how: ShutDown) {
        let facts = &self.0.facts;
        open(&facts.spawner.book).shut_down.push((facts.pid, how));
        facts.spawner.call(Call::ShutDown);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.facts.spawner.call(Call::DropProcess);
    }
}

/// A connection to an [`InMemoryProcess`]: a session dereferences to it.
///
/// ```
/// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
/// let spawner = InMemorySpawner::new();
/// spawner.set_code("/srv/shop", "version 1");
/// let pool = ApplicationPool::builder(spawner).build()?;
/// let session = pool.get(&PoolOptions::new("/srv/shop"))?;
/// assert_eq!(session.request("hello"), "hello from /srv/shop");
/// assert_eq!(session.code(), "version 1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct InMemoryConnection {
    process: InMemoryProcess,
}

impl InMemoryConnection {
    /// Returns the answer to a request: its text, and the application that answered.
    pub fn request(&self, text: &str) -> String {
        format!("{text} from {}", self.process.app_root().display())
    }
    /// Returns the id of the process that answers.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
    /// Returns the code that the process runs; see [`InMemorySpawner::set_code`](super::InMemorySpawner::set_code).
    pub fn code(&self) -> &str {
        &self.process.facts.code
    }
}

impl Drop for InMemoryConnection {
    fn drop(&mut self) {
        self.process.facts.spawner.call(Call::DropConnection);
    }
}
