//! Starts application processes: the pool's [`Spawner`].
//!
//! An [`AppSpawner`] has an [`Application`] for each group of the pool, and what they share.

mod application;
mod boot;
mod command;
mod explain;
mod failed;
mod keys;
mod shared;
mod smart;

use crate::children::Children;
use crate::connections::Connections;
use crate::forker::Forker;
use crate::instance_dir::Instance;
use crate::link::Link;
use crate::options::Options;
use crate::process::AppProcess;
use crate::reports::Reports;
use application::Application;
use cabrank::PoolOptions;
use cabrank::application_pool::{SpawnError, SpawnRequest, Spawner};
use rustix::process::{Resource, getrlimit};
use shared::Shared;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Spawns the processes of applications. [`Supervisor::spawner`](crate::Supervisor::spawner) creates it.
pub struct AppSpawner {
    /// By the names of their groups.
    applications: HashMap<String, Application>,
    reports: Arc<Reports>,
}

impl AppSpawner {
    /// Returns the link to the pool that starts processes by this spawner.
    pub fn link(&self) -> Link {
        let preloading = self.applications.values().filter_map(Application::preloading);
        Link { reports: Arc::clone(&self.reports), preloading: preloading.cloned().collect() }
    }

    /// Creates the spawner. Its processes have the limit of open files that the program has now.
    pub(crate) fn new(
        applications: Vec<Options>,
        instance: Instance,
        children: Arc<Children>,
        connections: Connections,
        runtime: Handle,
    ) -> io::Result<Self> {
        let reports = Arc::new(Reports::default());
        let shared = Arc::new(Shared {
            instance,
            forker: Forker::start(Arc::clone(&children))?,
            children,
            connections,
            reports: Arc::clone(&reports),
            runtime,
            open_files: getrlimit(Resource::Nofile).current,
        });
        let applications = applications.into_iter().map(|options| {
            (options.group_name.clone(), Application::new(options, Arc::clone(&shared)))
        });
        Ok(AppSpawner { applications: applications.collect(), reports })
    }
}

impl Spawner for AppSpawner {
    type Process = AppProcess;

    fn spawn(&self, request: &SpawnRequest) -> Result<AppProcess, SpawnError> {
        let group = request.options().app_group_name();
        let Some(application) = self.applications.get(group) else {
            let error = format!("the spawner has no application for the group {group}.");
            return Err(SpawnError::new(crate::Error::other(error)));
        };
        application.boot(request).map_err(SpawnError::new)
    }

    /// Ends the group's preloader, which has loaded the outdated code.
    fn reload(&self, options: &PoolOptions) {
        let application = self.applications.get(options.app_group_name());
        if let Some(preloading) = application.and_then(Application::preloading) {
            preloading.reload();
        }
    }
}
