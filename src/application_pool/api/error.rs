//! Errors, and whose fault each of them is.

use crate::periodic_executor::OpenError;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

type Source = Arc<dyn Error + Send + Sync + 'static>;

/// Why a process could not be spawned. Cheap to clone: every get that waited for it receives a clone.
///
/// ```
/// use cabrank::application_pool::SpawnError;
///
/// let error = SpawnError::new(std::io::Error::other("no database"));
/// assert_eq!(error.to_string(), "no database");
/// assert!(error.cause().downcast_ref::<std::io::Error>().is_some());
/// ```
#[derive(Clone, Debug)]
pub struct SpawnError(Source);

impl SpawnError {
    /// Returns an error with this cause: a string or an error.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        SpawnError(Arc::from(cause.into()))
    }
    /// Returns the cause, which `downcast_ref` can inspect.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for SpawnError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Why a connection to a process could not be opened, and whose fault it is.
///
/// ```
/// use cabrank::application_pool::ConnectError;
///
/// assert!(!ConnectError::process("connection refused").is_local());
/// assert!(ConnectError::local("too many open files").is_local());
/// ```
#[derive(Debug)]
pub struct ConnectError {
    local: bool,
    cause: Box<dyn Error + Send + Sync>,
}

impl ConnectError {
    /// Returns an error that is the process's fault: the pool detaches the process, and the `get` tries another one.
    pub fn process(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        ConnectError { local: false, cause: cause.into() }
    }
    /// Returns an error of the caller's side, such as a lack of descriptors or memory: the process stays.
    pub fn local(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        ConnectError { local: true, cause: cause.into() }
    }
    /// Returns whether the caller's side is at fault.
    pub fn is_local(&self) -> bool {
        self.local
    }
    /// Returns the cause, which `downcast_ref` can inspect.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.cause
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

/// Why a `get` or a `checkout` gave no session.
///
/// ```
/// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
/// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
/// # let shop = PoolOptions::new("/srv/shop");
/// use cabrank::application_pool::GetError;
///
/// let answer = match pool.get(&shop) {
///     Ok(session) => session.request("hello"),
///     Err(GetError::QueueFull { .. } | GetError::Closed) => "try again later".to_owned(),
///     Err(error) => return Err(error.into()),
/// };
/// # drop(answer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum GetError {
    /// The pool is closed.
    Closed,
    /// As many gets wait for the group as its options allow.
    QueueFull {
        /// The bound that was reached.
        max_queue: usize,
    },
    /// The get has waited in the queue for as long as the group's options allow.
    QueuedTooLong,
    /// The deadline passed before a process was free.
    TimedOut,
    /// `try_get` would have had to wait.
    WouldBlock,
    /// User code that the pool has called would have had to wait for this pool: a spawn, a `shut_down`, a hook of a
    /// cancelled spawn, a waker or the observer. The process may depend on that very thread. A later get, outside such
    /// a call, finds the process that this one asked for.
    InCallback,
    /// A spawn failed, and the group has no process.
    Spawn(SpawnError),
    /// No connection could be opened.
    Connect(ConnectError),
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GetError::Closed => f.write_str("the pool is closed"),
            GetError::QueueFull { max_queue } => {
                write!(f, "the queue is full: {max_queue} gets wait for this group already")
            }
            GetError::QueuedTooLong => {
                f.write_str("no process was free within the time that a get of this group may wait")
            }
            GetError::TimedOut => f.write_str("no process was free before the deadline"),
            GetError::WouldBlock => f.write_str("no process is free now"),
            GetError::InCallback => f.write_str(
                "no process is free now, and user code that the pool calls must not wait for this pool",
            ),
            GetError::Spawn(_) => f.write_str("no process could be spawned"),
            GetError::Connect(_) => f.write_str("no connection could be opened"),
        }
    }
}

impl Error for GetError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            GetError::Spawn(e) => Some(e),
            GetError::Connect(e) => Some(e),
            _ => None,
        }
    }
}

/// Why a pool could not be built, or an option could not be changed.
///
/// ```
/// use cabrank::ApplicationPool;
/// use cabrank::application_pool::BuildError;
/// use cabrank::in_memory::InMemorySpawner;
///
/// let pool = ApplicationPool::builder(InMemorySpawner::new()).max(0).build();
/// assert!(matches!(pool, Err(BuildError::Zero("max"))));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BuildError {
    /// The option with this name was zero. An option without a limit is `None`.
    Zero(&'static str),
    /// The cleaner's thread could not be started.
    Cleaner(OpenError),
}

/// Refuses a limit of zero, which would leave the pool without a use.
pub(crate) fn not_zero<T: Default + PartialEq>(
    option: &'static str,
    limit: Option<T>,
) -> Result<(), BuildError> {
    match limit {
        Some(limit) if limit == T::default() => Err(BuildError::Zero(option)),
        _ => Ok(()),
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Zero(option) => write!(f, "{option} must not be zero"),
            BuildError::Cleaner(_) => f.write_str("the pool has no cleaner"),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BuildError::Cleaner(e) => Some(e),
            BuildError::Zero(_) => None,
        }
    }
}
