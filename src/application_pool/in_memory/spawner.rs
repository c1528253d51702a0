//! The spawner: its scripts, and its record of what happened.

use super::process::{Handle, InMemoryProcess};
use super::record::{Facts, Shared, open};
use super::script::{Call, End, Spawn};
use crate::application_pool::api::error::SpawnError;
use crate::application_pool::api::options::PoolOptions;
use crate::application_pool::api::spawner::{ShutDown, SpawnRequest, Spawner};
use crate::kernel::clock::{Clock, ClockListener, Deadline};
use crate::kernel::sync::{Condvar, Mutex};
use crate::kernel::user_code::SCRIPTED;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex as StdMutex, Weak};
use std::time::Duration;

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
    /// Sets a hook for each [`Call`] that the pool makes, run on the same thread. It may call the pool back. (The
    /// pool's questions for a new process's id and concurrency are not among the calls.)
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
