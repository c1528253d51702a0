//! The parts that all application processes of a program share.

use crate::Error;
use crate::children::Children;
use crate::connections::Connections;
use crate::helper::Helper;
use crate::instance_dir::{Instance, InstanceDir};
use crate::options::Options;
use crate::orphans;
use crate::reaper::Reaper;
use crate::spawner::AppSpawner;
use crate::user::User;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

/// The pause between two looks at a directory that is being removed.
const PAUSE: Duration = Duration::from_millis(2);
/// The longest wait for a removal.
const LONGEST: Duration = Duration::from_secs(60);
/// The longest wait for a removal in a drop.
const AT_DROP: Duration = Duration::from_secs(5);

/// The directory, the reaper and the connections of all application processes of a program.
///
/// Dropping it removes the directory, for which it waits some seconds at the longest.
/// [Close](cabrank::ApplicationPool::close) the pools before.
#[derive(Debug)]
pub struct Supervisor {
    dir: InstanceDir,
    children: Arc<Children>,
    connections: Connections,
    runtime: Handle,
    /// The directory is being removed.
    is_removed: AtomicBool,
}

impl Supervisor {
    /// Creates the directory `<name>.<pid>.<random>`, and starts the reaper.
    ///
    /// The processes run as `user`. `cores` is the number of threads that have connections of their own.
    /// Timers and the output of processes use `runtime`.
    ///
    /// # Errors
    /// The directory cannot be created, or a process or thread cannot be started.
    pub fn start(
        _: Helper,
        name: &'static str,
        user: Option<&User>,
        cores: usize,
        runtime: Handle,
    ) -> Result<Supervisor, Error> {
        let dir = InstanceDir::create(name, user)?;
        let failed = |what: &str, e: io::Error| Error::other(format!("cannot start {what}: {e}."));
        keep_ended_children(&runtime).map_err(|e| failed("the watch on processes", e))?;
        let reaper = Reaper::start(dir.shared()).map_err(|e| failed("the reaper", e))?;
        let children = Arc::new(Children::new(reaper));
        orphans::reap(Arc::clone(&children)).map_err(|e| failed("threads", e))?;
        let connections = Connections::new(runtime.clone(), cores)
            .map_err(|e| Error::other(crate::chain::Chain(&e).to_string()))?;
        Ok(Supervisor { dir, children, connections, runtime, is_removed: AtomicBool::new(false) })
    }

    /// Returns a spawner for the applications, which have one group of the pool each: the one with the application's
    /// [`group_name`](Options::group_name).
    ///
    /// # Errors
    /// The thread that forks cannot be started, or this process cannot become a child subreaper.
    pub fn spawner(
        &self,
        applications: impl IntoIterator<Item = Options>,
    ) -> io::Result<AppSpawner> {
        let applications: Vec<_> = applications.into_iter().collect();
        if applications.iter().any(Options::preloads) && !orphans::gets_orphans() {
            // This process becomes the parent of the processes that a preloader forks.
            rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
            orphans::reap(Arc::clone(&self.children))?;
        }
        AppSpawner::new(
            applications,
            self.dir.shared(),
            Arc::clone(&self.children),
            self.connections.clone(),
            self.runtime.clone(),
        )
    }

    /// Returns the directory.
    pub fn instance(&self) -> Instance {
        self.dir.shared()
    }

    /// Returns the connections to the processes.
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Waits until every process has ended.
    pub async fn all_gone(&self) {
        self.children.all_gone().await;
    }

    /// Kills all processes and their helpers.
    pub fn kill_all(&self) {
        self.children.kill_all();
    }

    /// Lets the reaper remove the directory, and waits until it is gone.
    ///
    /// The directory may have many files, and its file system may hang. The reaper goes on if the caller drops the future or
    /// if the program ends.
    pub async fn remove_dir(&self) {
        self.is_removed.store(true, Ordering::SeqCst);
        let (dir, children) = (self.dir.shared(), Arc::clone(&self.children));
        let removal = move || remove(&dir, &children, Instant::now() + LONGEST);
        let _ = self.runtime.spawn_blocking(removal).await;
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if !self.is_removed.load(Ordering::SeqCst) {
            remove(&self.dir.shared(), &self.children, Instant::now() + AT_DROP);
        }
    }
}

/// Lets the reaper remove the directory, and waits until then at the longest.
fn remove(dir: &Instance, children: &Children, until: Instant) {
    dir.end();
    // The upkeep may make another directory, or the last file in this one.
    let wait = |is_done: &dyn Fn() -> bool| {
        while !is_done() && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
    };
    wait(&|| dir.is_at_rest());
    let path = dir.path();
    children.remove_dir(path.clone());
    wait(&|| path.symlink_metadata().is_err());
}

/// Lets each child that has ended keep its pid until this process reaps it.
///
/// The system reaps at once if the parent of this process has ignored SIGCHLD. A signal could then reach another program.
fn keep_ended_children(runtime: &Handle) -> io::Result<()> {
    let _in_runtime = runtime.enter();
    signal(SignalKind::child()).map(drop) // the handler stays
}
