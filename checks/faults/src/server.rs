//! The server of a row: cabrank or a peer with a sample application, and what it has open.

use crate::app::App;
use crate::disk::{Disk, Mounted};
use crate::kind::Kind;
use crate::setup::{PROCESSES, Setup, USER_PROCESSES};
use crate::{interpreter, own_clock, peers, samples};
use cabrank_checks_harness::binary::{set_environment, through};
use cabrank_checks_harness::http::Client;
use cabrank_checks_harness::server::{free_address, runtime};
use cabrank_checks_harness::{Binary, processes, server, until};
use std::fs;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A running server. Dropping it ends it, with whatever it has left over: the next row begins on a clean machine.
pub(crate) struct Server {
    server: server::Server,
    binary: Binary,
    pub(crate) kind: Kind,
    /// The application.
    pub(crate) app_dir: TempDir,
    mounted: Option<Mounted>,
}

/// The processes, descriptors and files of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    pub(crate) processes: Vec<u32>,
    pub(crate) descriptors: usize,
    pub(crate) files: Vec<PathBuf>,
}

impl Deref for Server {
    type Target = server::Server;

    fn deref(&self) -> &server::Server {
        &self.server
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut server::Server {
        &mut self.server
    }
}

impl Server {
    /// Starts a server and waits until all its processes are ready.
    pub(crate) fn start(
        kind: Kind,
        binary: &Binary,
        app: App,
        setup: &Setup,
    ) -> Result<Server, String> {
        let failed = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
        let app_dir = tempfile::tempdir().map_err(failed("temporary directory"))?;
        let runtime = runtime()?;
        samples::write(app_dir.path(), app, kind).map_err(failed("application"))?;
        if setup.own_interpreter {
            interpreter::write(app_dir.path()).map_err(failed("interpreter"))?;
        }
        if setup.limits_processes {
            for dir in [&app_dir, &runtime] {
                fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))
                    .map_err(failed("temporary directory"))?;
            }
        }
        let mounted = setup.disk.mount(runtime.path());
        if setup.disk == Disk::Freezable && mounted.is_none() {
            return Err("no file system that can be frozen".to_owned());
        }
        let own_clock = match setup.own_clock {
            true => own_clock::give(app_dir.path()).map_err(failed("clock"))?,
            false => String::new(),
        };
        let limited = |command: &Command| {
            let mut shell = Command::new("sh");
            let limits = limits(setup, mounted.is_some());
            shell.args(["-c", &format!("{limits}{own_clock}exec \"$@\""), "sh"]);
            // A signal to this program's group, such as Ctrl-C, is not part of the fault.
            shell.process_group(0);
            let mut shell = through(shell, command);
            shell.current_dir(app_dir.path());
            shell
        };
        let started = if kind == Kind::Cabrank {
            let options = options(binary, app, app_dir.path(), setup);
            let command = binary.start_command(runtime.path(), app_dir.path(), options);
            server::Server::start_with(binary, limited(&command), runtime)
        } else {
            let address = free_address().map_err(failed("port"))?;
            let mut command = peers::command(kind, app_dir.path(), runtime.path(), address.port())?;
            set_environment(&mut command, runtime.path());
            server::Server::start_peer(limited(&command), runtime, address)
        };
        let binary = binary.clone();
        let mut server = Server { server: started?, binary, kind, app_dir, mounted };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        // The other servers have no report of their processes.
        if self.kind != Kind::Cabrank {
            std::thread::sleep(Duration::from_secs(2));
            return Ok(());
        }
        let mut ended = false;
        let ready = until(Duration::from_secs(60), || {
            ended = self.has_ended().is_some();
            ended || self.get("/").is_ok() && self.pool_size() == PROCESSES
        });
        match ready && !ended {
            true => Ok(()),
            false => Err(format!("the server is not ready:\n{}", self.log())),
        }
    }

    /// Returns the number of processes that `status` reports: 0 if it gives no answer.
    pub(crate) fn pool_size(&self) -> usize {
        self.status().ok().and_then(|report| report["processes"].as_u64()).unwrap_or(0) as usize
    }

    /// Returns the number of idle connections to processes.
    fn kept_connections(&self) -> usize {
        let report = self.status().unwrap_or_default();
        let groups = report["groups"].as_array().into_iter().flatten();
        let processes =
            groups.flat_map(|group| group["processes"].as_array().into_iter().flatten());
        processes.map(|process| process["kept_connections"].as_u64().unwrap_or(0) as usize).sum()
    }

    /// Asks the application for the pid of one of its processes.
    pub(crate) fn some_pid(&self) -> Result<u32, String> {
        self.pid_from("/pid")
    }

    /// Sends a request for a path whose answer is the pid of the process.
    pub(crate) fn pid_from(&self, path: &str) -> Result<u32, String> {
        let reply = Client::with_patience(self.address, Duration::from_secs(30))
            .and_then(|mut client| client.get(path));
        let reply = reply.map_err(|e| format!("{path}: {e}"))?;
        reply.text().parse().map_err(|_| format!("{path}: {}", reply.describe()))
    }

    /// Returns what is open now.
    pub(crate) fn open(&self) -> Open {
        let processes = self.processes();
        // The application may open what it likes.
        let counted: &[u32] = if self.kind == Kind::Cabrank { &[self.pid()] } else { &processes };
        let mut descriptors = counted.iter().map(|pid| processes::descriptors(*pid)).sum::<usize>();
        if self.kind == Kind::Cabrank {
            // They serve the next requests, and are closed in time.
            descriptors = descriptors.saturating_sub(self.kept_connections());
        }
        Open { processes, descriptors, files: self.files() }
    }

    /// Removes the instance directory, as a cleaner of temporary files might.
    pub(crate) fn remove_instance_dir(&self) -> Result<(), String> {
        let entries = fs::read_dir(self.runtime.path()).map_err(|e| e.to_string())?;
        for entry in entries.flatten() {
            fs::remove_dir_all(entry.path()).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Starts the same server once more and stops it: a start cleans up after one that was killed.
    pub(crate) fn start_another(&self, app: App) -> Result<(), String> {
        let dir = self.app_dir.path();
        let options = options(&self.binary, app, dir, &Setup::default());
        let command = self.binary.start_command(self.runtime.path(), dir, options);
        let mut timed = Command::new("timeout");
        timed.args(["-s", "TERM", "3"]);
        timed.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        through(timed, &command).status().map(|_| ()).map_err(|e| format!("{app}: {e}"))
    }

    /// Returns whether the binary knows the option.
    pub(crate) fn knows(&self, option: &str) -> bool {
        self.binary.knows(option)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.mounted.is_some() {
            // The server removes its files first.
            self.server.end();
            self.mounted = None;
        }
    }
}

/// Returns the lines of shell that set the limits of a server.
fn limits(setup: &Setup, is_mounted: bool) -> String {
    let mut lines = String::new();
    if let Some(limit) = setup.descriptors {
        let limit = limit();
        lines += &format!("ulimit -Sn {}; ulimit -Hn {limit}; ", limit.min(1024));
    }
    if setup.disk == Disk::Tiny && !is_mounted {
        // Without the right to mount, a limit of 512 KB a file.
        lines += "trap '' XFSZ; ulimit -f 1024; ";
    }
    if setup.limits_processes {
        // dash calls the limit p, and bash u.
        lines += &format!("ulimit -p {USER_PROCESSES} 2>/dev/null || ulimit -u {USER_PROCESSES}; ");
    }
    lines
}

/// Returns the options of `cabrank start`.
fn options(binary: &Binary, app: App, app_dir: &Path, setup: &Setup) -> Vec<String> {
    let mut words = vec!["--shutdown-timeout=5".to_owned(), "--environment=production".to_owned()];
    words.push(format!("--max-pool-size={PROCESSES}"));
    words.push(format!("--min-instances={PROCESSES}"));
    words.extend(app.options().iter().map(|o| o.to_string()));
    words.extend(setup.options.iter().filter(|o| binary.knows(o)).map(|o| o.to_string()));
    if setup.limits_processes {
        words.push("--user=nobody".into());
    }
    if setup.own_interpreter {
        words.push(format!("--python={}", interpreter::path(app_dir).display()));
    }
    words
}
