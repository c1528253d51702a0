//! What the pool asks of the outside: spawn a process, connect to it, shut it down.
//!
//! Everything here is foreign code to the pool. It is called without the pool's lock, its panics
//! become errors of that call, and it may call the pool back.

use super::error::{ConnectError, SpawnError};
use super::options::PoolOptions;
use crate::sync::{Arc, Condvar, Mutex};
use crate::user_code::{UserValue, contain};
use std::fmt;

/// Names one process for as long as the pool lives: the pseudocode's `identifier`.
///
/// The text has a random string, so that nobody needs the address of a `ProcessInfo`; a number that
/// is never used twice does the same and doubles as the generation of a slab key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Identifier(pub(crate) u64);

impl Identifier {
    /// The identifier with this number, as [`Snapshot`](crate::Snapshot) shows it.
    pub fn from_u64(number: u64) -> Self {
        Identifier(number)
    }
    /// The number, as [`Snapshot`](crate::Snapshot) shows it.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Makes application processes: the pseudocode's `spawn(app_root, options)`.
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
    /// Whatever kept the process from becoming ready. The gets that need it are told.
    fn spawn(&self, request: &SpawnRequest) -> Result<Self::Process, SpawnError>;

    /// The group's code has changed: forget what was preloaded for it. Called on the spawner thread
    /// before a group's processes are spawned anew, until one of them is ready.
    fn reload(&self, options: &PoolOptions) {
        let _ = options;
    }
}

/// One application process, as its [`Spawner`] sees it.
///
/// The pool keeps the value until the process has left the pool, then drops it, without its lock.
pub trait Process: Send + Sync + 'static {
    /// What a session is held over.
    type Connection: Send + 'static;

    /// Opens a connection for one session. Must not block for long: `get_async` calls it too.
    ///
    /// # Errors
    /// [`ConnectError::process`] if the process is at fault (it is detached, and the `get` tries
    /// another); [`ConnectError::local`] if the caller's side is (it goes to the caller, and the
    /// process stays: erratum E31).
    fn connect(&self) -> Result<Self::Connection, ConnectError>;

    /// How many sessions the process takes at once; 0: any number. Asked once, when it is attached.
    fn concurrency(&self) -> usize {
        1
    }

    /// The operating system's number of the process, for those who look at a snapshot.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// The process has left the pool and gets no more sessions. Called exactly once; must not block:
    /// what takes time is for a thread or task of the callee.
    fn shut_down(&self, how: ShutDown);
}

/// Why [`Process::shut_down`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShutDown {
    /// No session is open.
    Drained,
    /// Sessions are still open, but the drain's deadline has passed (erratum E13).
    DeadlinePassed,
}

/// What one call of [`Spawner::spawn`] is to make.
#[derive(Clone, Debug)]
pub struct SpawnRequest {
    pub(crate) identifier: Identifier,
    pub(crate) options: PoolOptions,
    pub(crate) cancel: CancelToken,
}

impl SpawnRequest {
    /// The identifier that the process will have in the pool.
    pub fn identifier(&self) -> Identifier {
        self.identifier
    }
    /// The options of the `get` that asked for the process, its application root among them.
    pub fn options(&self) -> &PoolOptions {
        &self.options
    }
    /// Tells when the process is no longer wanted.
    pub fn cancel(&self) -> &CancelToken {
        &self.cancel
    }
}

/// Tells a spawn that its process is no longer wanted. Cheap to clone.
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

    /// Whether the spawn has been told to give up.
    pub fn is_cancelled(&self) -> bool {
        self.0.state.lock().cancelled
    }

    /// Waits until the spawn is told to give up.
    pub fn wait(&self) {
        let mut state = self.0.state.lock();
        while !state.cancelled {
            self.0.cancelled.wait(&mut state);
        }
    }

    /// Calls `hook` when the spawn is told to give up; at once if it has been told already.
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
