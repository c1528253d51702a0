//! The real pool on a manual clock, with spawns that end when the history says so.

use crate::common::limit;
use crate::refinement::history::{Connect, SpawnEnd};
use crate::refinement::limits::{World, quarters};
use cabrank::application_pool::{
    ConnectError, Event, GetError, Lease, Process, RestartMode, ShutDown, SpawnError, SpawnRequest,
    Spawner,
};
use cabrank::{ApplicationPool, ManualClock, PoolOptions, Session};
use cabrank_spec::application_pool::configuration;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

pub(crate) type Pool = ApplicationPool<Scripted>;
pub(crate) type Got = Result<Session<Scripted>, GetError>;
pub(crate) type Leased = Result<Lease<Scripted>, GetError>;

/// The script of the pool's environment, and its record of the pool's calls.
#[derive(Default)]
pub(crate) struct Book {
    /// Spawns that have begun and not ended.
    pub(crate) in_flight: BTreeSet<u64>,
    /// Spawns before which the spawner was asked to reload, since the beginning.
    pub(crate) reloaded: BTreeSet<u64>,
    /// How the spawns end that may end now.
    ends: BTreeMap<u64, SpawnEnd>,
    /// How the next connects end.
    pub(crate) connects: VecDeque<Connect>,
    /// The processes that were shut down, and why.
    pub(crate) gone: Vec<(u64, ShutDown)>,
    pub(crate) events: Vec<Event>,
    /// The restart files by directory.
    pub(crate) files: Vec<Option<u64>>,
}

/// Shared by the spawner, its processes and the test.
#[derive(Clone, Default)]
pub(crate) struct Scripted(Arc<(Mutex<Book>, Condvar)>);

impl Scripted {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn end(&self, ticket: u64, end: SpawnEnd) {
        self.book().ends.insert(ticket, end);
        self.0.1.notify_all();
    }
}

/// A process with the group's concurrency in its application's name.
pub(crate) struct Numbered {
    ticket: u64,
    concurrency: usize,
    spawner: Scripted,
}

thread_local! {
    // The pool calls `reload` and then `spawn` on one thread.
    static RELOADED: Cell<bool> = const { Cell::new(false) };
}

impl Spawner for Scripted {
    type Process = Numbered;
    fn reload(&self, _: &PoolOptions) {
        RELOADED.set(true);
    }
    fn spawn(&self, request: &SpawnRequest) -> Result<Numbered, SpawnError> {
        let ticket = request.identifier().as_u64();
        let mut book = self.book();
        book.in_flight.insert(ticket);
        if RELOADED.take() {
            book.reloaded.insert(ticket);
        }
        let end = loop {
            match book.ends.remove(&ticket) {
                Some(end) => break end,
                None => book = self.0.1.wait(book).unwrap_or_else(PoisonError::into_inner),
            }
        };
        book.in_flight.remove(&ticket);
        drop(book);
        let concurrency = request.options().environment().parse().expect("a number");
        match end {
            SpawnEnd::Well => Ok(Numbered { ticket, concurrency, spawner: self.clone() }),
            SpawnEnd::Error => Err(SpawnError::new("scripted")),
            // Panics without calling the panic hook.
            SpawnEnd::Panic => std::panic::resume_unwind(Box::new("scripted")),
        }
    }
}

impl Process for Numbered {
    type Connection = ();
    fn connect(&self) -> Result<(), ConnectError> {
        match self.spawner.book().connects.pop_front() {
            None | Some(Connect::Well) => Ok(()),
            Some(Connect::Process) => Err(ConnectError::process("scripted")),
            Some(Connect::Local) => Err(ConnectError::local("scripted")),
        }
    }
    fn concurrency(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(self.concurrency)
    }
    fn shut_down(&self, how: ShutDown) {
        self.spawner.book().gone.push((self.ticket, how));
    }
}

pub(crate) fn seconds(ticks: i64) -> Duration {
    Duration::from_secs(ticks.try_into().expect("not negative"))
}

/// Translates the specification's idle time, in which 0 is no limit.
pub(crate) fn time_limit(ticks: i64) -> Option<Duration> {
    (ticks > 0).then(|| seconds(ticks))
}

/// Returns a pool of this world.
pub(crate) fn pool(world: &World) -> (Pool, Scripted, ManualClock) {
    let config = &world.config;
    let (spawner, clock) = (Scripted::default(), ManualClock::new());
    spawner.book().files = vec![config.restart_file.then_some(0); config.dirs()];
    let (files, watched) = (spawner.clone(), spawner.clone());
    let others = config.environment.options.iter().map(|(_, options)| options);
    let always = config.groups.iter().chain(others).any(|options| options.always_restart);
    let mut builder = ApplicationPool::builder(spawner.clone())
        .max(config.max)
        .max_per_app(limit(config.max_per_app))
        .max_idle_time(time_limit(config.max_idle_time))
        .drain_timeout(seconds(config.drain_timeout))
        .back_off(seconds(config.back_off.0), seconds(config.back_off.1))
        .clock(clock.clock())
        .cleaner(false)
        .observer(move |event| watched.book().events.push(event.clone()))
        .stat_throttle(world.throttle())
        .restart_files(move |file| look_up(file, &files.book().files, always));
    if let Some(max_draining) = config.max_draining {
        builder = builder.max_draining(max_draining);
    }
    (builder.build().expect("a valid pool"), spawner, clock)
}

fn look_up(file: &Path, files: &[Option<u64>], always: bool) -> io::Result<SystemTime> {
    let dir: usize = file
        .parent()
        .and_then(Path::file_name)
        .and_then(|dir| dir.to_str()?.parse().ok())
        .expect("directories are numbers");
    let time = match file.ends_with("restart.txt") {
        true => files[dir],
        false => (always && dir == 0).then_some(0),
    };
    let time = time.ok_or(io::ErrorKind::NotFound)?;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(time))
}

/// Returns a set of options of a group, made anew. Its processes read their concurrency from the environment.
pub(crate) fn options(world: &World, group: usize, set: usize) -> PoolOptions {
    let queue_time = world.queue_time(group, set).map(quarters);
    let group: &configuration::Options = world.config.options(group, set);
    // The global queue, too, limits a process to one session at a time, whatever its concurrency.
    let global = group.concurrency == 1 && group.min_processes == 0;
    let says = if global { 3 } else { group.concurrency };
    PoolOptions::new(&group.name)
        .with_environment(says.to_string())
        .with_global_queue(global)
        .with_min_processes(group.min_processes)
        .with_eager_growth(group.eager_growth)
        .with_max_requests(limit(group.max_requests))
        .with_max_queue(limit(group.max_queue))
        .with_max_queue_time(queue_time)
        .with_restart_dir(format!("/restart/{}", group.restart_dir))
        .with_restart_mode(match group.restart_mode {
            configuration::RestartMode::Immediate => RestartMode::Immediate,
            configuration::RestartMode::Rolling => RestartMode::Rolling,
        })
}
