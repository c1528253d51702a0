//! Real servers from Debian's packages, each in a directory of its own and on a Unix socket.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Waits until the condition holds.
#[track_caller]
pub(crate) fn before_long(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(30), "it did not happen");
        sleep(Duration::from_millis(10));
    }
}

fn output(program: impl AsRef<OsStr>, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// A running server, which ends when this is dropped.
pub(crate) struct Server {
    pub(crate) dir: PathBuf,
    kind: Kind,
    child: Child,
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Postgres { max_connections: usize },
    Redis,
}

impl Kind {
    /// Returns where the server's programs are.
    fn programs(self) -> Option<PathBuf> {
        match self {
            Kind::Postgres { .. } => {
                let mut all: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
                    .ok()?
                    .flatten()
                    .map(|version| version.path().join("bin"))
                    .collect();
                all.retain(|bin| bin.join("postgres").exists());
                all.sort();
                all.pop()
            }
            Kind::Redis => {
                let bin = PathBuf::from("/usr/bin");
                bin.join("redis-server").exists().then_some(bin)
            }
        }
    }
    fn package(self) -> &'static str {
        match self {
            Kind::Postgres { .. } => "postgresql",
            Kind::Redis => "redis-server",
        }
    }
    fn command(self, program: &str) -> Command {
        let mut command = Command::new(self.programs().expect("it is installed").join(program));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // PostgreSQL refuses to run as root.
        if let (Kind::Postgres { .. }, Some((user, group))) = (self, unprivileged()) {
            command.uid(user).gid(group);
        }
        command
    }
    fn start(self, dir: &Path) -> Child {
        let mut command = match self {
            Kind::Postgres { max_connections } => {
                let mut command = self.command("postgres");
                command.arg("-D").arg(dir.join("data")).arg("-k").arg(dir);
                command.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
                command.args(["-c".to_owned(), format!("max_connections={max_connections}")]);
                command
            }
            Kind::Redis => {
                let mut command = self.command("redis-server");
                command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(dir.join("redis"));
                command
            }
        };
        command.current_dir(dir).spawn().expect("the server starts")
    }
    fn is_ready(self, dir: &Path) -> bool {
        match self {
            Kind::Postgres { .. } => {
                let status = self.command("pg_isready").arg("-h").arg(dir).status();
                status.is_ok_and(|status| status.success())
            }
            Kind::Redis => std::os::unix::net::UnixStream::connect(dir.join("redis")).is_ok(),
        }
    }
}

/// Returns the user and group of Debian's PostgreSQL, if this process is root.
fn unprivileged() -> Option<(u32, u32)> {
    let number = |args: &[&str]| output("id", args)?.parse().ok();
    let is_root = number(&["-u"]) == Some(0);
    if is_root { Some((number(&["-u", "postgres"])?, number(&["-g", "postgres"])?)) } else { None }
}

impl Server {
    /// Starts a server. Panics with the remedy if it is not installed.
    pub(crate) fn start(kind: Kind) -> Server {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        assert!(
            kind.programs().is_some(),
            "{} is not installed: `cargo xtask test --install` installs it, and `cargo xtask test` does without",
            kind.package()
        );
        let name = format!("cabrank-{}-{}", id(), NUMBER.fetch_add(1, SeqCst));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a directory");
        if let Kind::Postgres { .. } = kind {
            if let Some((user, group)) = unprivileged() {
                chown(&dir, Some(user), Some(group)).expect("root may");
            }
            let mut initdb = kind.command("initdb");
            initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "-D"]);
            let status = initdb.arg(dir.join("data")).current_dir(&dir).status();
            assert!(status.expect("initdb runs").success(), "initdb");
        }
        let child = kind.start(&dir);
        let server = Server { dir, kind, child };
        server.wait();
        server
    }

    fn wait(&self) {
        before_long(|| self.kind.is_ready(&self.dir));
    }

    /// Ends the server at once, with all its connections.
    pub(crate) fn kill(&mut self) {
        let process = self.child.id().to_string();
        // PostgreSQL ends its backends, and does not save anything. SIGKILL would leave them behind.
        let signal = match self.kind {
            Kind::Postgres { .. } => "-QUIT",
            Kind::Redis => "-KILL",
        };
        let _ = Command::new("kill").args([signal, &process]).status();
        let _ = self.child.wait();
    }

    /// Starts the server again, and waits until it is ready.
    pub(crate) fn restart(&mut self) {
        self.child = self.kind.start(&self.dir);
        self.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
