//! Starts application processes: the pool's [`Spawner`].
//!
//! An [`AppSpawner`] has an [`Application`] for each group of the pool, in its present release, and what they share.

mod application;
mod boot;
mod command;
mod explain;
mod failed;
mod keys;
mod release;
mod shared;
mod smart;

use crate::children::Children;
use crate::connections::Connections;
use crate::forker::Forker;
use crate::instance_dir::Instance;
use crate::link::Link;
use crate::options::Options;
use crate::process::AppProcess;
use crate::release_dirs::ReleaseDirs;
use crate::reports::Reports;
use application::Application;
use cabrank::PoolOptions;
use cabrank::application_pool::{SpawnError, SpawnRequest, Spawner};
use release::Releases;
use rustix::process::{Resource, getrlimit};
use shared::Shared;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Spawns the processes of applications. [`Supervisor::spawner`](crate::Supervisor::spawner) creates it.
pub struct AppSpawner {
    applications: HashMap<String, Releases>,
    reports: Arc<Reports>,
    release_dirs: Arc<ReleaseDirs>,
}

impl AppSpawner {
    /// Returns the link to the pool that starts processes by this spawner.
    pub fn link(&self) -> Link {
        let preloading = self.applications.values().filter_map(Releases::preloading);
        Link {
            reports: Arc::clone(&self.reports),
            preloading: preloading.cloned().collect(),
            release_dirs: Arc::clone(&self.release_dirs),
        }
    }

    /// Creates the spawner. Its processes have the limit of open files that the program has now.
    pub(crate) fn new(
        applications: Vec<Options>,
        instance: Instance,
        children: Arc<Children>,
        connections: Connections,
        runtime: Handle,
    ) -> io::Result<Self> {
        let (reports, release_dirs) = (Arc::<Reports>::default(), Arc::<ReleaseDirs>::default());
        let shared = Arc::new(Shared {
            instance,
            forker: Forker::start(Arc::clone(&children))?,
            children,
            connections,
            reports: Arc::clone(&reports),
            release_dirs: Arc::clone(&release_dirs),
            runtime,
            open_files: getrlimit(Resource::Nofile).current,
        });
        let applications = applications.into_iter().map(|options| {
            let name = options.group_name.clone();
            (name, Releases::of(Application::new(options, Arc::clone(&shared))))
        });
        Ok(AppSpawner { applications: applications.collect(), reports, release_dirs })
    }
}

impl Spawner for AppSpawner {
    type Process = AppProcess;

    fn spawn(&self, request: &SpawnRequest) -> Result<AppProcess, SpawnError> {
        let group = request.options().app_group_name();
        let Some(releases) = self.applications.get(group) else {
            let error = format!("the spawner has no application for the group {group}.");
            return Err(SpawnError::new(crate::Error::other(error)));
        };
        if releases.look() {
            self.reports.restart(group, request.options().restart_mode());
            // The restart has given up this spawn, and asks for another one.
            if request.cancel().is_cancelled() {
                return Err(SpawnError::new(crate::Error::other("a restart begins.")));
            }
        }
        let application = releases.present();
        let process = application.boot(request).map_err(SpawnError::new)?;
        self.release_dirs.note_serving(group, &application.options.app.root);
        Ok(process)
    }

    /// Finds the group's application in the present release.
    fn reload(&self, options: &PoolOptions) {
        if let Some(releases) = self.applications.get(options.app_group_name()) {
            releases.reload();
        }
    }
}
