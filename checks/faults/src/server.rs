//! A running server, with its processes, descriptors and files.

use crate::app;
use crate::fault::{App, Setup};
use crate::peers;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The environment variable by which a server's processes are known.
const MARK: &str = "FAULTS_E2E";
/// The number of processes of each sample application.
pub(crate) const PROCESSES: usize = 3;

/// The number of processes that the user `nobody` may have, if the row limits them.
pub(crate) const USER_PROCESSES: usize = 100;

/// The server that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cabrank,
    Gunicorn,
    Uwsgi,
    Puma,
    Passenger,
}

pub(crate) struct Server {
    child: Child,
    binary: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) kind: Kind,
    /// The application.
    pub(crate) app_dir: TempDir,
    /// The place of instance directories and temporary files.
    runtime: TempDir,
    is_mounted: bool,
    mark: String,
    log: Arc<Mutex<String>>,
}

/// The processes, descriptors and files of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    pub(crate) processes: Vec<u32>,
    pub(crate) descriptors: usize,
    pub(crate) files: Vec<String>,
}

/// Raises this program's limit of descriptors to the highest that is allowed.
pub(crate) fn raise_own_limit() -> Result<(), String> {
    let hard = own_hard_limit() as u64;
    let all = Rlimit { current: Some(hard), maximum: Some(hard) };
    setrlimit(Resource::Nofile, all).map_err(|e| e.to_string())
}

pub(crate) fn own_hard_limit() -> usize {
    getrlimit(Resource::Nofile).maximum.map_or(1 << 20, |limit| limit as usize)
}

/// Polls until `done`, at most for this time. Returns whether it is.
pub(crate) fn until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if done() {
            return true;
        }
        if begun.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Server {
    /// Starts a server and waits until all its processes are ready.
    pub(crate) fn start(
        kind: Kind,
        binary: &Path,
        app: App,
        setup: &Setup,
    ) -> Result<Server, String> {
        let failed = |what: &'static str| move |e: std::io::Error| format!("{what}: {e}");
        let app_dir = tempfile::tempdir().map_err(failed("temporary directory"))?;
        let runtime = tempfile::tempdir().map_err(failed("temporary directory"))?;
        app::write(app_dir.path(), app, kind).map_err(failed("application"))?;
        if setup.own_interpreter {
            app::write_interpreter(app_dir.path()).map_err(failed("interpreter"))?;
        }
        let mut before = String::new();
        if let Some(limit) = setup.descriptors {
            let limit = limit();
            before += &format!("ulimit -Sn {}; ulimit -Hn {limit}; ", limit.min(1024));
        }
        let is_mounted = setup.tiny_disk && mount(runtime.path());
        if setup.tiny_disk && !is_mounted {
            // Without the right to mount, a limit of 512 KB a file.
            before += "trap '' XFSZ; ulimit -f 1024; ";
        }
        if setup.limits_processes {
            for dir in [&app_dir, &runtime] {
                fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))
                    .map_err(failed("temporary directory"))?;
            }
            // dash calls the limit p, and bash u.
            before +=
                &format!("ulimit -p {USER_PROCESSES} 2>/dev/null || ulimit -u {USER_PROCESSES}; ");
        }
        let mark = format!("{}-{}", std::process::id(), runtime.path().display());
        let (words, port) = match kind {
            Kind::Cabrank => (cabrank(binary, app_dir.path(), setup), None),
            peer => {
                let port = peers::free_port().map_err(failed("port"))?;
                (peers::command(peer, app_dir.path(), runtime.path(), port)?, Some(port))
            }
        };
        let mut command = Command::new("sh");
        if kind != Kind::Cabrank {
            before += "exec >&2; ";
        }
        command.args(["-c", &format!("{before}exec \"$@\""), "sh"]).args(words);
        command.current_dir(app_dir.path()).env(MARK, &mark).stdin(Stdio::null());
        command.env("XDG_RUNTIME_DIR", runtime.path()).env("TMPDIR", runtime.path());
        // A signal to this program's group, such as Ctrl-C, is not part of the fault.
        command.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed("sh"))?;
        let log = Arc::new(Mutex::new(String::new()));
        if let Some(stderr) = child.stderr.take() {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                    let mut log = log.lock().expect("no reader panics");
                    log.push_str(&String::from_utf8_lossy(&line));
                    log.push('\n');
                }
            });
        }
        let address = ([127, 0, 0, 1], port.unwrap_or(0)).into();
        let binary = binary.to_owned();
        let mut server =
            Server { child, binary, address, kind, app_dir, runtime, is_mounted, mark, log };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let mut ended = false;
        let ready = until(Duration::from_secs(60), || {
            ended = self.has_ended();
            if self.kind == Kind::Cabrank {
                self.address = address_in(&self.log()).unwrap_or(self.address);
            }
            let answers = self.address.port() != 0
                && crate::client::status_of(self.address, "/", Duration::from_secs(5)) == "200";
            ended || answers && (self.kind != Kind::Cabrank || self.pool_size() == PROCESSES)
        });
        if ended || !ready {
            return Err(format!("the server is not ready:\n{}", self.log()));
        }
        // The other servers have no report of their processes.
        if self.kind != Kind::Cabrank {
            std::thread::sleep(Duration::from_secs(2));
        }
        Ok(())
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("no reader panics").clone()
    }
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.child.id(), signal);
    }
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Runs another command of the binary, such as `status`.
    pub(crate) fn tool(&self, words: &[&str]) -> Result<Output, String> {
        let mut command = Command::new(&self.binary);
        command.args(words).env("XDG_RUNTIME_DIR", self.runtime.path());
        command.env("TMPDIR", self.runtime.path()).stdin(Stdio::null());
        command.output().map_err(|e| e.to_string())
    }

    /// Returns the report of `status`, or null.
    fn report(&self) -> serde_json::Value {
        let out = self.tool(&["status", "--json"]);
        out.ok().and_then(|out| serde_json::from_slice(&out.stdout).ok()).unwrap_or_default()
    }

    /// Returns the number of processes that `status` reports: 0 if it gives no answer.
    pub(crate) fn pool_size(&self) -> usize {
        self.report()["processes"].as_u64().unwrap_or(0) as usize
    }

    /// Returns the number of idle connections to processes.
    fn kept_connections(&self) -> usize {
        let report = self.report();
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
        let mut client = crate::client::Client::connect(self.address, Duration::from_secs(30))
            .map_err(|e| e.to_string())?;
        let reply = client.get(path).map_err(|e| format!("{path}: {e}"))?;
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        text.parse().map_err(|_| format!("{path}: {} {text}", reply.status))
    }

    /// Returns what is open now.
    pub(crate) fn open(&self) -> Open {
        let processes = self.processes();
        // The application may open what it likes.
        let counted: &[u32] = if self.kind == Kind::Cabrank { &[self.pid()] } else { &processes };
        let mut descriptors = counted.iter().map(|pid| descriptors_of(*pid)).sum::<usize>();
        if self.kind == Kind::Cabrank {
            // They serve the next requests, and are closed in time.
            descriptors = descriptors.saturating_sub(self.kept_connections());
        }
        let mut files = Vec::new();
        list(self.runtime.path(), &mut files);
        Open { processes, descriptors, files }
    }

    /// Returns the processes that the server has started, itself included, without those that have ended.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let needle = format!("{MARK}={}", self.mark);
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            let has_mark = fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|all| all.split(|b| *b == 0).any(|one| one == needle.as_bytes()));
            let is_there = fs::read_link(format!("/proc/{pid}/cwd"))
                .is_ok_and(|dir| dir.starts_with(self.app_dir.path()));
            has_mark || is_there
        })
        .collect()
    }

    /// Returns the resident memory of the server's own process, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.pid())).unwrap_or_default();
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
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
        let mut command = Command::new("timeout");
        command.args(["-s", "TERM", "3"]).args(cabrank(
            &self.binary,
            self.app_dir.path(),
            &Setup::default(),
        ));
        command.env("XDG_RUNTIME_DIR", self.runtime.path()).env("TMPDIR", self.runtime.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().map(|_| ()).map_err(|e| format!("{app}: {e}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The next row begins on a clean machine, whatever this one left over.
        for pid in self.processes() {
            kill(pid, Signal::KILL);
        }
        if self.is_mounted {
            let _ = Command::new("umount").arg("-l").arg(self.runtime.path()).status();
        }
    }
}

pub(crate) fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // An error means that the process is gone.
        let _ = kill_process(pid, signal);
    }
}

fn cabrank(binary: &Path, app_dir: &Path, setup: &Setup) -> Vec<String> {
    let mut words =
        vec![binary.display().to_string(), "start".into(), app_dir.display().to_string()];
    let number = PROCESSES.to_string();
    let always = ["--port=0", "--shutdown-timeout=5", "--environment=production"];
    words.extend(always.map(String::from));
    words.extend([format!("--max-pool-size={number}"), format!("--min-instances={number}")]);
    words.extend(setup.options.iter().filter(|option| has(binary, option)).map(|o| o.to_string()));
    if setup.limits_processes {
        words.push("--user=nobody".into());
    }
    if setup.own_interpreter {
        words.push(format!("--python={}", app_dir.join("python.sh").display()));
    }
    words
}

/// Returns whether the binary knows the option, which is written with or without a value.
pub(crate) fn has(binary: &Path, option: &str) -> bool {
    let name = option.split('=').next().unwrap_or(option);
    let help = Command::new(binary).args(["start", "--help"]).output();
    help.is_ok_and(|out| {
        String::from_utf8_lossy(&out.stdout).split([' ', '=', '[', '\n']).any(|w| w == name)
    })
}

impl Server {
    /// Returns whether the binary knows the option.
    pub(crate) fn knows(&self, option: &str) -> bool {
        has(&self.binary, option)
    }
}

fn address_in(log: &str) -> Option<SocketAddr> {
    let (_, rest) = log.split_once(" at http://")?;
    rest.split(|c: char| c.is_whitespace() || c == '"').next()?.parse().ok()
}

fn descriptors_of(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count())
}

fn list(dir: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        files.push(entry.path().display().to_string());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&entry.path(), files);
        }
    }
}

/// Mounts a disk of 1 MB, if this user may.
fn mount(dir: &Path) -> bool {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", "size=1m,mode=700", "checks-faults"]).arg(dir);
    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
