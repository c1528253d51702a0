//! A server with one application.

use crate::catalog::{Application, Language};
use crate::install::SECRET;
use cabrank_checks_harness::{Binary, Server, server, wait};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// The longest wait for a change.
const PATIENCE: Duration = Duration::from_secs(90);

/// An application that is served.
pub(crate) struct Site<'a> {
    pub(crate) server: Server,
    pub(crate) application: &'a Application,
    /// The directory of the application.
    pub(crate) directory: &'a Path,
    binary: &'a Binary,
}

impl<'a> Site<'a> {
    /// Serves an application by so many processes as it takes.
    pub(crate) fn start(
        binary: &'a Binary,
        application: &'a Application,
        directory: &'a Path,
        environment: &str,
    ) -> Result<Site<'a>, String> {
        let processes = application.processes;
        let options = ["--environment", environment];
        let server = serve(binary, application, directory, processes, &options)?;
        Ok(Site { server, application, directory, binary })
    }

    /// Serves the application once more, by one process, with these options.
    pub(crate) fn another(&self, options: &[&str]) -> Result<Server, String> {
        serve(self.binary, self.application, self.directory, 1, options)
    }

    /// Returns the first answer of `look`.
    pub(crate) fn until<T>(
        &self,
        what: &str,
        look: impl FnMut() -> Option<T>,
    ) -> Result<T, String> {
        wait::poll(PATIENCE, look).ok_or_else(|| format!("no {what} within {PATIENCE:?}"))
    }

    /// Returns the pids of the processes in the pool.
    pub(crate) fn pids(&self) -> Result<BTreeSet<u32>, String> {
        Ok(self.server.pids()?.into_iter().collect())
    }

    /// Waits until the pool is full, and `is_wanted` holds for the pids of its processes. Returns them.
    pub(crate) fn whole(
        &self,
        what: &str,
        is_wanted: impl Fn(&BTreeSet<u32>) -> bool,
    ) -> Result<BTreeSet<u32>, String> {
        self.until(what, || {
            let pids = self.pids().ok()?;
            (pids.len() == self.application.processes && is_wanted(&pids)).then_some(pids)
        })
    }

    /// Replaces all processes.
    pub(crate) fn restart(&self) -> Result<(), String> {
        let out = self.server.tool(["restart"])?;
        match out.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
        }
    }
}

/// Starts a server with so many processes.
fn serve(
    binary: &Binary,
    application: &Application,
    directory: &Path,
    processes: usize,
    options: &[&str],
) -> Result<Server, String> {
    let runtime = server::runtime()?;
    let processes = processes.to_string();
    let own = ["--max-pool-size", &processes, "--min-instances", &processes];
    let mut command = binary.start_command(runtime.path(), directory, own);
    if let Language::Python = application.language {
        command.arg("--python").arg(directory.join("../venv/bin/python"));
    }
    command.args(application.options).args(options).env(SECRET.0, SECRET.1);
    Server::start_with(binary, command, runtime)
}
