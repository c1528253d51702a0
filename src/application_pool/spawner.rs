//! The user's side of the pool: spawn a process, connect to it, shut it down.
//!
//! The pool calls it without its lock. A panic becomes an error of that call. Each method may call the
//! pool back.

use super::error::{ConnectError, SpawnError};
use super::options::PoolOptions;
use crate::sync::{Arc, Condvar, Mutex};
use crate::user_code::{UserValue, contain};
use std::fmt;
use std::num::NonZeroUsize;

/// Names one process for as long as the pool lives. A number is never used twice.
// The pseudocode's `identifier`, which is a random string. A number does the same, and doubles as the generation of a slab key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Identifier(pub(crate) u64);

impl Identifier {
    /// Returns the identifier with this number, as [`Snapshot`](crate::application_pool::Snapshot) shows it.
    pub fn from_u64(number: u64) -> Self {
        Identifier(number)
    }
    /// Returns the number, as [`Snapshot`](crate::application_pool::Snapshot) shows it.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Makes application processes.
///
/// ```
/// use cabrank::ApplicationPool;
/// use cabrank::application_pool::{
///     ConnectError, Process, ShutDown, SpawnError, SpawnRequest, Spawner,
/// };
/// use std::net::{SocketAddr, TcpStream};
///
/// struct Servers;
/// struct Server(SocketAddr);
///
/// impl Spawner for Servers {
///     type Process = Server;
///     fn spawn(&self, request: &SpawnRequest) -> Result<Server, SpawnError> {
///         // Start the application in `request.options().app_root()` here.
///         let address = "127.0.0.1:4000".parse().map_err(SpawnError::new)?;
///         Ok(Server(address))
///     }
/// }
/// impl Process for Server {
///     type Connection = TcpStream;
///     fn connect(&self) -> Result<TcpStream, ConnectError> {
///         TcpStream::connect(self.0).map_err(ConnectError::process)
///     }
///     fn shut_down(&self, how: ShutDown) {
///         println!("the server at {} has to end: {how:?}", self.0);
///     }
/// }
///
/// let pool = ApplicationPool::builder(Servers).build()?;
/// # drop(pool);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Spawner: Send + Sync + 'static {
    /// A handle to one application process.
    type Process: Process;

    /// Starts one process and returns when it is ready for sessions.
    ///
    /// Runs on a thread of its own, at most one at a time for each group and generation. It may take
    /// any time, but must return soon after [`SpawnRequest::cancel`] has been cancelled: `close`
    /// waits for it.
    ///
    /// # Errors
    /// The reason why the process did not become ready. The gets that need it fail with this error.
    fn spawn(&self, request: &SpawnRequest) -> Result<Self::Process, SpawnError>;

    /// Forgets what was preloaded for the group, because its code has changed. Called on the spawner thread before each
    /// spawn of a restart, until a process is ready.
    fn reload(&self, options: &PoolOptions) {
        let _ = options;
    }
}

/// One application process, as its [`Spawner`] sees it.
///
/// The pool keeps the value until the process has left the pool, then drops it, without its lock.
pub trait Process: Send + Sync + 'static {
    /// The connection that a session is held over.
    type Connection: Send + 'static;

    /// Opens a connection for one session. Must not block for long: `get_async` calls it too.
    ///
    /// # Errors
    /// - [`ConnectError::process`] if the process is at fault: it is detached, and the `get` tries another.
    /// - [`ConnectError::local`] if the caller's side is: the error goes to the caller, and the process stays.
    fn connect(&self) -> Result<Self::Connection, ConnectError>;

    /// Returns how many sessions the process takes at once; `None`: any number. Default: one. Called once, when the
    /// process is attached.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    ///
    /// let threads = 16;
    /// assert_eq!(NonZeroUsize::new(threads).map(usize::from), Some(16)); // 16 sessions at once
    /// assert_eq!(NonZeroUsize::new(0), None); // any number
    /// ```
    fn concurrency(&self) -> Option<NonZeroUsize> {
        Some(NonZeroUsize::MIN)
    }

    /// Returns the operating system's process id, for snapshots.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// Shuts the process down: it has left the pool and gets no more sessions. Called exactly once. Must not block;
    /// leave what takes time to a thread or task.
    fn shut_down(&self, how: ShutDown);
}

/// Why [`Process::shut_down`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShutDown {
    /// No session is open.
    Drained,
    /// Sessions are still open, but the drain's deadline has passed.
    DeadlinePassed,
}

/// The process that one call of [`Spawner::spawn`] makes.
#[derive(Clone, Debug)]
pub struct SpawnRequest {
    pub(crate) identifier: Identifier,
    pub(crate) options: PoolOptions,
    pub(crate) cancel: CancelToken,
}

impl SpawnRequest {
    /// Returns the identifier that the process will have in the pool.
    pub fn identifier(&self) -> Identifier {
        self.identifier
    }
    /// Returns the options of the `get` that asked for the process, among them its application root.
    pub fn options(&self) -> &PoolOptions {
        &self.options
    }
    /// Returns the token that is cancelled when the process is no longer wanted.
    pub fn cancel(&self) -> &CancelToken {
        &self.cancel
    }
}

/// Cancels a spawn whose process is no longer wanted. Cheap to clone.
#[derive(Clone)]
pub struct CancelToken(Arc<Token>);

struct Token {
    state: Mutex<TokenState>,
    cancelled: Condvar,
}

#[derive(Default)]
struct TokenState {
    cancelled: bool,
    hooks: Vec<UserValue<Box<dyn FnOnce() + Send>>>,
}

impl CancelToken {
    pub(crate) fn new() -> Self {
        CancelToken(Arc::new(Token {
            state: Mutex::new(TokenState::default()),
            cancelled: Condvar::new(),
        }))
    }

    pub(crate) fn cancel(&self) {
        let hooks = {
            let mut state = self.0.state.lock();
            state.cancelled = true;
            std::mem::take(&mut state.hooks)
        };
        self.0.cancelled.notify_all();
        for hook in hooks {
            let _ = contain(hook.into_inner());
        }
    }

    /// Returns whether the spawn is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.state.lock().cancelled
    }

    /// Waits until the spawn is cancelled.
    pub fn wait(&self) {
        let mut state = self.0.state.lock();
        while !state.cancelled {
            self.0.cancelled.wait(&mut state);
        }
    }

    /// Calls `hook` when the spawn is cancelled: at once, if it is cancelled already.
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        {
            let mut state = self.0.state.lock();
            if !state.cancelled {
                state.hooks.push(UserValue::new(Box::new(hook)));
                return;
            }
        }
        hook();
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").finish_non_exhaustive()
    }
}
