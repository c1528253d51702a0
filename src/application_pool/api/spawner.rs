//! The user's side of the pool: spawn a process, connect to it, shut it down.
//!
//! The pool calls it without its lock. A panic becomes an error of that call. Each method may call the
//! pool back.

use super::error::{ConnectError, SpawnError};
use super::options::PoolOptions;
use crate::kernel::sync::{Arc, Condvar, Mutex};
use crate::kernel::user_code::{UserValue, contain};
use std::fmt;
use std::num::NonZeroUsize;

/// Names one process for as long as the pool lives. A number is never used twice.
///
/// ```
/// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
/// use cabrank::application_pool::Session;
///
/// let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
/// let session = pool.get(&PoolOptions::new("/srv/shop"))?;
/// let identifier = Session::identifier(&session);
/// assert_eq!(pool.snapshot().groups[0].processes[0].identifier, identifier);
/// assert!(pool.detach(identifier));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
// The pseudocode's `identifier`, which is a random string. A number does the same, and doubles as the generation of a
// slab key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    ///
    /// In a pool that [forgets groups](crate::application_pool::Builder::forget_groups_after) it is also called before the first spawn of
    /// every group, because an earlier group of that name may have been forgotten.
    fn reload(&self, options: &PoolOptions) {
        let _ = options;
    }
}

/// One application process, as its [`Spawner`] sees it.
///
/// The pool keeps the value until the process has left the pool. Then a thread of its own drops the value, which may
/// take long: it may wait for the child, for example. [`wait_closed`](crate::application_pool::ApplicationPool::wait_closed) does not
/// wait for it.
///
/// ```
/// use cabrank::application_pool::{ConnectError, Process, ShutDown};
/// use std::num::NonZeroUsize;
/// use std::os::unix::net::UnixStream;
/// use std::process::{Child, Command};
/// use std::sync::Mutex;
///
/// /// An application that listens on a socket and takes four requests at once.
/// struct Worker { socket: String, child: Mutex<Child> }
///
/// impl Process for Worker {
///     type Connection = UnixStream;
///     fn connect(&self) -> Result<UnixStream, ConnectError> {
///         UnixStream::connect(&self.socket).map_err(ConnectError::process)
///     }
///     fn concurrency(&self) -> Option<NonZeroUsize> {
///         NonZeroUsize::new(4)
///     }
///     fn shut_down(&self, how: ShutDown) {
///         let mut child = self.child.lock().expect("not poisoned");
///         if how == ShutDown::DeadlinePassed {
///             let _ = child.kill(); // sessions are still open
///         }
///         // It ends by itself when its standard input is closed.
///         drop(child.stdin.take());
///     }
/// }
/// # let _ = Command::new("true");
/// ```
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
    ///
    /// The value itself is dropped when its last session or lease has ended, too.
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
///
/// ```
/// # use cabrank::application_pool::{SpawnError, SpawnRequest};
/// use std::process::{Child, Command};
///
/// fn start(request: &SpawnRequest) -> Result<Child, SpawnError> {
///     let options = request.options();
///     Command::new("./serve")
///         .current_dir(options.app_root())
///         .env("APP_ENV", options.environment())
///         .spawn()
///         .map_err(SpawnError::new)
/// }
/// # let _ = start;
/// ```
#[derive(Clone, Debug)]
pub struct SpawnRequest {
    pub(crate) identifier: Identifier,
    pub(crate) options: PoolOptions,
    pub(crate) cancel: CancelToken,
}

impl SpawnRequest {
    /// Returns a request that no pool has made: for tests of a spawner.
    ///
    /// ```
    /// use cabrank::application_pool::{Identifier, SpawnRequest};
    /// use cabrank::PoolOptions;
    ///
    /// let request = SpawnRequest::new(Identifier::from_u64(1), PoolOptions::new("/srv/shop"));
    /// request.cancel().cancel(); // a spawner that waits for its process then gives up
    /// ```
    pub fn new(identifier: Identifier, options: PoolOptions) -> Self {
        SpawnRequest { identifier, options, cancel: CancelToken::new() }
    }
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
///
/// ```
/// # use cabrank::application_pool::{CancelToken, SpawnError};
/// # use std::time::Duration;
/// /// Waits until the application answers, for as long as the process is wanted.
/// fn wait_until_ready(answers: impl Fn() -> bool, cancel: &CancelToken) -> Result<(), SpawnError> {
///     while !answers() {
///         if cancel.is_cancelled() {
///             return Err(SpawnError::new("the process is no longer wanted"));
///         }
///         std::thread::sleep(Duration::from_millis(10));
///     }
///     Ok(())
/// }
/// # let _ = |cancel: &CancelToken| wait_until_ready(|| true, cancel);
/// ```
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

    /// Cancels the spawn. Its pool calls this; so does a test of a spawner.
    pub fn cancel(&self) {
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
    ///
    /// ```
    /// # use cabrank::application_pool::SpawnRequest;
    /// # use std::process::Child;
    /// # use std::sync::{Arc, Mutex};
    /// fn end_if_unwanted(request: &SpawnRequest, child: Arc<Mutex<Child>>) {
    ///     request.cancel().on_cancel(move || {
    ///         let _ = child.lock().expect("not poisoned").kill();
    ///     });
    /// }
    /// # let _ = end_if_unwanted;
    /// ```
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

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_wakes_every_thread_that_waits_for_it() {
        let token = CancelToken::new();
        let (done, all_done) = std::sync::mpsc::channel();
        for _ in 0..3 {
            let (token, done) = (token.clone(), done.clone());
            std::thread::spawn(move || {
                token.wait();
                done.send(())
            });
        }
        // They sleep by then, or find the token cancelled.
        std::thread::sleep(std::time::Duration::from_millis(20));
        token.cancel();
        for _ in 0..3 {
            assert_eq!(all_done.recv_timeout(std::time::Duration::from_secs(30)), Ok(()));
        }
    }
}
