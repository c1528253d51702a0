//! A spawner whose processes live in memory, for tests of programs that use the pool.
//!
//! Each spawn follows a [`Spawn`] script: it is ready at once or after a time, waits to be released,
//! fails, hangs until it is cancelled, or panics. A process can be [killed](InMemoryProcess::kill), so
//! that connecting to it fails. Delays pass on the spawner's [`Clock`], so a test with a manual
//! clock never sleeps.
//!
//! ```
//! use cabrank::in_memory::{InMemorySpawner, Spawn};
//! use cabrank::application_pool::GetError;
//! use cabrank::{ApplicationPool, PoolOptions};
//!
//! let spawner = InMemorySpawner::new();
//! let pool = ApplicationPool::builder(spawner.clone()).build()?;
//! let shop = PoolOptions::new("/srv/shop");
//!
//! spawner.next(Spawn::fail("no database"));
//! assert!(matches!(pool.get(&shop), Err(GetError::Spawn(e)) if e.to_string() == "no database"));
//! # Ok::<(), cabrank::application_pool::BuildError>(())
//! ```

use super::error::{ConnectError, SpawnError};
use super::options::PoolOptions;
use super::spawner::{Identifier, Process, ShutDown, SpawnRequest, Spawner};
use crate::clock::{Clock, ClockListener, Deadline};
use crate::sync::{Condvar, Mutex};
use crate::user_code::SCRIPTED;
use foldhash::HashMap;
use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The script of one spawn. Its constructors make it, and its methods refine it.
#[derive(Clone, Debug)]
pub struct Spawn {
    end: End,
    after: Duration,
    held: bool,
    concurrency: Option<NonZeroUsize>,
}

#[derive(Clone, Debug)]
enum End {
    Ready,
    Fail(String),
    Hang,
    Panic,
}

impl Spawn {
    fn new(end: End) -> Self {
        Spawn { end, after: Duration::ZERO, held: false, concurrency: Some(NonZeroUsize::MIN) }
    }
    /// Gives a process, which takes one session at a time.
    pub fn ready() -> Self {
        Spawn::new(End::Ready)
    }
    /// Fails with this message.
    pub fn fail(message: impl Into<String>) -> Self {
        Spawn::new(End::Fail(message.into()))
    }
    /// Never ends by itself; fails when it is cancelled.
    pub fn hang() -> Self {
        Spawn::new(End::Hang)
    }
    /// Panics.
    pub fn panic() -> Self {
        Spawn::new(End::Panic)
    }
    /// Ends after this time on the spawner's clock. Fails when it is cancelled meanwhile.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = delay;
        self
    }
    /// Ends after [`InMemorySpawner::release`]. Fails when it is cancelled meanwhile.
    #[must_use]
    pub fn held(mut self) -> Self {
        self.held = true;
        self
    }
    /// Sets how many sessions the process takes at once; `None`: any number. Default: one.
    ///
    /// # Panics
    /// Panics if `concurrency` is 0.
    #[must_use]
    pub fn concurrency(mut self, concurrency: impl Into<Option<usize>>) -> Self {
        let not_zero = |n| NonZeroUsize::new(n).expect("concurrency must not be zero");
        self.concurrency = concurrency.into().map(not_zero);
        self
    }
}

/// A call of user code by the pool; see [`InMemorySpawner::on_call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// [`Spawner::spawn`].
    Spawn,
    /// [`Spawner::reload`].
    Reload,
    /// [`Process::connect`].
    Connect,
    /// [`Process::shut_down`].
    ShutDown,
    /// The process was dropped.
    DropProcess,
    /// A connection was dropped.
    DropConnection,
    /// The error of a spawn that failed was dropped, with its last clone.
    DropError,
}

type Hook = dyn Fn(Call) + Send + Sync;

/// A scriptable spawner. Clones share everything.
///
/// ```
/// use cabrank::in_memory::{InMemorySpawner, Spawn};
/// use cabrank::{ApplicationPool, PoolOptions};
///
/// let spawner = InMemorySpawner::new();
/// spawner.next(Spawn::ready().concurrency(2));
/// let pool = ApplicationPool::builder(spawner.clone()).build()?;
/// let shop = PoolOptions::new("/srv/shop");
/// let (first, second) = (pool.get(&shop)?, pool.get(&shop)?);
/// assert_eq!(first.pid(), second.pid());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct InMemorySpawner(Arc<Shared>);

struct Shared {
    clock: Clock,
    book: StdMutex<Book>,
    hook: StdMutex<Option<Arc<Hook>>>,
    releases: Mutex<usize>,
    changed: Condvar,
}

/// Data for tests, behind a plain lock that the models do not explore.
#[derive(Default)]
struct Book {
    next: VecDeque<Spawn>,
    usual: HashMap<PathBuf, Spawn>,
    code: HashMap<PathBuf, String>,
    begun: usize,
    reloaded: Vec<String>,
    processes: Vec<Weak<Facts>>,
    shut_down: Vec<(u32, ShutDown)>,
    last_pid: u32,
}

fn open<T>(lock: &StdMutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InMemorySpawner {
    /// Returns a spawner whose processes are ready at once, and whose delays pass in real time.
    pub fn new() -> Self {
        InMemorySpawner::with_clock(Clock::monotonic())
    }
    /// Returns a spawner whose delays pass on this clock.
    pub fn with_clock(clock: Clock) -> Self {
        let shared = Arc::new(Shared {
            clock,
            book: StdMutex::default(),
            hook: StdMutex::default(),
            releases: Mutex::new(0),
            changed: Condvar::new(),
        });
        let weak: Weak<Shared> = Arc::downgrade(&shared);
        shared.clock.add_listener(weak as Weak<dyn ClockListener>);
        InMemorySpawner(shared)
    }

    /// Adds the script of one more spawn, of any application. Each spawn takes the oldest.
    pub fn next(&self, spawn: Spawn) {
        open(&self.0.book).next.push_back(spawn);
    }
    /// Sets the script of all other spawns of this application.
    pub fn always(&self, app_root: impl Into<PathBuf>, spawn: Spawn) {
        open(&self.0.book).usual.insert(app_root.into(), spawn);
    }
    /// Sets the application's code, which processes spawned later answer with.
    pub fn set_code(&self, app_root: impl Into<PathBuf>, code: impl Into<String>) {
        open(&self.0.book).code.insert(app_root.into(), code.into());
    }
    /// Lets one spawn that is [held](Spawn::held) end: one that waits already, or the next.
    pub fn release(&self) {
        *self.0.releases.lock() += 1;
        self.0.changed.notify_all();
    }
    /// Sets a hook for each [`Call`] that the pool makes, run on the same thread. It may call the pool back. (The pool's
    /// questions for a new process's id and concurrency are not among the calls.)
    pub fn on_call(&self, hook: impl Fn(Call) + Send + Sync + 'static) {
        *open(&self.0.hook) = Some(Arc::new(hook));
    }

    /// Returns how many spawns have begun.
    pub fn begun(&self) -> usize {
        open(&self.0.book).begun
    }
    /// Returns the names of the groups that were reloaded, in order.
    pub fn reloaded(&self) -> Vec<String> {
        open(&self.0.book).reloaded.clone()
    }
    /// Returns the processes that have not been dropped, oldest first.
    pub fn processes(&self) -> Vec<InMemoryProcess> {
        let book = open(&self.0.book);
        let alive = book.processes.iter().filter_map(Weak::upgrade);
        alive.map(|facts| InMemoryProcess { facts }).collect()
    }
    /// Returns the ids of the processes that were shut down, in order, and why.
    pub fn shut_down(&self) -> Vec<(u32, ShutDown)> {
        open(&self.0.book).shut_down.clone()
    }

    fn wait(&self, request: &SpawnRequest, script: &Spawn) -> Result<(), SpawnError> {
        let shared = self.0.clone();
        request.cancel().on_cancel(move || {
            drop(shared.releases.lock());
            shared.changed.notify_all();
        });
        let hangs = matches!(script.end, End::Hang);
        let deadline = match script.after {
            Duration::ZERO => Deadline::Never,
            delay => self.0.clock.deadline(delay),
        };
        let mut releases = self.0.releases.lock();
        loop {
            if request.cancel().is_cancelled() {
                return Err(SpawnError::new("cancelled"));
            }
            let late_enough = script.after.is_zero() || self.0.clock.has_passed(deadline);
            if late_enough && !hangs && (!script.held || *releases > 0) {
                *releases -= usize::from(script.held);
                return Ok(());
            }
            let deadline = if late_enough { Deadline::Never } else { deadline };
            self.0.clock.wait(&self.0.changed, &mut releases, deadline);
        }
    }
}

impl Shared {
    fn call(&self, call: Call) {
        let hook = open(&self.hook).clone();
        if let Some(hook) = hook {
            hook(call);
        }
    }
}

impl ClockListener for Shared {
    fn advanced(&self) {
        drop(self.releases.lock());
        self.changed.notify_all();
    }
}

impl Default for InMemorySpawner {
    fn default() -> Self {
        InMemorySpawner::new()
    }
}

impl fmt::Debug for InMemorySpawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemorySpawner").field("begun", &self.begun()).finish_non_exhaustive()
    }
}

impl Spawner for InMemorySpawner {
    type Process = Handle;

    fn spawn(&self, request: &SpawnRequest) -> Result<Handle, SpawnError> {
        let app_root = request.options().app_root().to_owned();
        let (script, code) = {
            let mut book = open(&self.0.book);
            book.begun += 1;
            let script = book.next.pop_front().or_else(|| book.usual.get(&app_root).cloned());
            let code = book.code.get(&app_root).cloned();
            (script.unwrap_or_else(Spawn::ready), code.unwrap_or_default())
        };
        self.0.call(Call::Spawn);
        if script.held || !script.after.is_zero() || matches!(script.end, End::Hang) {
            self.wait(request, &script)?;
        }
        match script.end {
            End::Ready => {}
            End::Hang => unreachable!("a spawn that hangs ends by being cancelled"),
            End::Fail(message) => {
                return Err(SpawnError::new(Scripted { message, spawner: self.0.clone() }));
            }
            End::Panic => panic!("{SCRIPTED} in spawn"),
        }
        let mut book = open(&self.0.book);
        book.last_pid += 1;
        let facts = Arc::new(Facts {
            identifier: request.identifier(),
            pid: book.last_pid,
            app_root,
            code,
            concurrency: script.concurrency,
            killed: AtomicBool::new(false),
            out_of_descriptors: AtomicU32::new(0),
            panics: AtomicBool::new(false),
            spawner: self.0.clone(),
        });
        book.processes.retain(|process| process.strong_count() > 0);
        book.processes.push(Arc::downgrade(&facts));
        Ok(Handle(InMemoryProcess { facts }))
    }

    fn reload(&self, options: &PoolOptions) {
        open(&self.0.book).reloaded.push(options.app_group_name().to_owned());
        self.0.call(Call::Reload);
    }
}

/// The error of a spawn with a failing script.
struct Scripted {
    message: String,
    spawner: Arc<Shared>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

impl fmt::Display for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Scripted {}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.spawner.call(Call::DropError);
    }
}

struct Facts {
    identifier: Identifier,
    pid: u32,
    app_root: PathBuf,
    code: String,
    concurrency: Option<NonZeroUsize>,
    killed: AtomicBool,
    out_of_descriptors: AtomicU32,
    panics: AtomicBool,
    spawner: Arc<Shared>,
}

/// A process in memory, as a test sees it.
#[derive(Clone)]
pub struct InMemoryProcess {
    facts: Arc<Facts>,
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
pub struct Handle(InMemoryProcess);

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

/// A connection to an [`InMemoryProcess`].
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
    /// Returns the code that the process runs; see [`InMemorySpawner::set_code`].
    pub fn code(&self) -> &str {
        &self.process.facts.code
    }
}

impl Drop for InMemoryConnection {
    fn drop(&mut self) {
        self.process.facts.spawner.call(Call::DropConnection);
    }
}
