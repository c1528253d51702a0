//! The parts that all application processes of a program share.

use crate::children::Children;
use crate::connections::Connections;
use crate::helper::Helper;
use crate::instance_dir::{Instance, InstanceDir};
use crate::options::Options;
use crate::orphans;
use crate::preloader::Preloading;
use crate::reaper::Reaper;
use crate::spawner::AppSpawner;
use crate::user::User;
use crate::{Error, Pool};
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The directory, the reaper and the connections of all application processes of a program.
///
/// Dropping it removes the directory. [Close](cabrank::ApplicationPool::close) the pools before.
#[derive(Debug)]
pub struct Supervisor {
    dir: InstanceDir,
    children: Arc<Children>,
    connections: Connections,
    runtime: Handle,
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
        let reaper = Reaper::start(dir.shared()).map_err(|e| failed("the reaper", e))?;
        let children = Arc::new(Children::new(reaper));
        orphans::reap(Arc::clone(&children)).map_err(|e| failed("threads", e))?;
        let connections = Connections::new(runtime.clone(), cores)
            .map_err(|e| Error::other(crate::chain::Chain(&e).to_string()))?;
        Ok(Supervisor { dir, children, connections, runtime })
    }

    /// Returns a spawner for one application.
    ///
    /// # Errors
    /// The thread that forks cannot be started, or this process cannot become a child subreaper.
    pub fn spawner(&self, options: Options) -> io::Result<AppSpawner> {
        if options.preloads() && !orphans::gets_orphans() {
            // This process becomes the parent of the processes that a preloader forks.
            rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
            orphans::reap(Arc::clone(&self.children))?;
        }
        AppSpawner::new(
            options,
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

    /// Removes the directory now.
    pub fn remove_dir(&self) {
        self.dir.remove();
    }
}

/// Reports processes that end by themselves to the pool, and ends the preloader with the pool.
#[derive(Clone, Debug)]
pub struct Link {
    pub(crate) pool: Arc<std::sync::OnceLock<crate::WeakPool>>,
    pub(crate) preloading: Option<Arc<Preloading>>,
}

impl Link {
    /// Reports to `pool` from now on. Only the first call has an effect.
    pub fn set(&self, pool: &Pool) {
        let _ = self.pool.set(pool.downgrade());
    }

    /// Ends the preloader, and lets no other one begin. Call it before the pool closes.
    pub fn close(&self) {
        if let Some(preloading) = &self.preloading {
            preloading.close();
        }
    }
}
