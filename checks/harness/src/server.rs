//! A server that runs: its address, its log, its status and its processes.

use crate::binary::Binary;
use crate::http::Client;
use crate::log::Log;
use crate::processes::{self, Signal};
use crate::wait::{poll, until};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The longest time from the start of a server until it serves: some frameworks take their time.
const START: Duration = Duration::from_secs(90);
/// A server that has not ended by then is killed.
const END: Duration = Duration::from_secs(10);

/// A server that runs. Dropping it ends it, with all its processes.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The binary of its tools, if the server is cabrank.
    binary: Option<Binary>,
    /// The place of its instance directory and its temporary files.
    pub runtime: TempDir,
    /// The address that it listens on.
    pub address: SocketAddr,
    /// The directory that it was started in, if the command names one.
    dir: Option<PathBuf>,
    log: Log,
}

impl Server {
    /// Starts `cabrank start` for an application, and waits until it serves.
    pub fn start<I>(binary: &Binary, dir: &Path, options: I) -> Result<Server, String>
    where
        I: IntoIterator<Item: AsRef<OsStr>>,
    {
        let runtime = runtime()?;
        let command = binary.start_command(runtime.path(), dir, options);
        Server::start_with(binary, command, runtime)
    }

    /// Starts cabrank by this command, and waits until it serves.
    pub fn start_with(
        binary: &Binary,
        mut command: Command,
        runtime: TempDir,
    ) -> Result<Server, String> {
        let log = collect(&mut command)?;
        let server = Server::spawn(Some(binary), command, runtime, log)?;
        server.when_ready(|server| address_in(&server.log()))
    }

    /// Starts cabrank by a command whose output goes elsewhere, and waits until it serves. The log stays empty.
    pub fn start_unread(
        binary: &Binary,
        command: Command,
        runtime: TempDir,
    ) -> Result<Server, String> {
        let server = Server::spawn(Some(binary), command, runtime, Log::default())?;
        server.when_ready(|server| server.status().ok()?["address"].as_str()?.parse().ok())
    }

    /// Starts another server, which listens on this address, and waits until it answers.
    pub fn start_peer(
        mut command: Command,
        runtime: TempDir,
        address: SocketAddr,
    ) -> Result<Server, String> {
        let log = collect(&mut command)?;
        let server = Server::spawn(None, command, runtime, log)?;
        server.when_ready(|_| {
            let reply = Client::connect(address).ok()?.get("/").ok()?;
            (reply.status == 200).then_some(address)
        })
    }

    fn spawn(
        binary: Option<&Binary>,
        mut command: Command,
        runtime: TempDir,
        log: Log,
    ) -> Result<Server, String> {
        let child = command.stdin(Stdio::null()).spawn();
        let child =
            child.map_err(|e| format!("{}: {e}", command.get_program().to_string_lossy()))?;
        let dir = command.get_current_dir().map(Path::to_owned);
        let address = ([0, 0, 0, 0], 0).into();
        Ok(Server { child, binary: binary.cloned(), runtime, address, dir, log })
    }

    /// Waits until `find` knows the address.
    fn when_ready(
        mut self,
        find: impl Fn(&Server) -> Option<SocketAddr>,
    ) -> Result<Server, String> {
        let found = poll(START, || match self.has_ended() {
            Some(status) => Some(Err(format!("the server has ended: {status}"))),
            None => find(&self).map(Ok),
        });
        let found = found.unwrap_or_else(|| Err(format!("the server does not serve in {START:?}")));
        self.address = found.map_err(|why| format!("{why}:\n{}", self.log()))?;
        Ok(self)
    }

    /// Returns the pid of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns what the server has printed so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Sends a signal to the server.
    pub fn signal(&self, signal: Signal) {
        processes::signal(self.pid(), signal);
    }

    /// Returns the exit status of a server that has ended.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Runs a tool of the server, such as `restart`.
    pub fn tool<I>(&self, words: I) -> Result<Output, String>
    where
        I: IntoIterator<Item: AsRef<OsStr>>,
    {
        let binary = self.binary.as_ref().ok_or("this server has no tools")?;
        binary.run(self.runtime.path(), words)
    }

    /// Returns the report of `status`.
    pub fn status(&self) -> Result<Value, String> {
        let out = self.tool(["status", "--json"])?;
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).into_owned());
        }
        serde_json::from_slice(&out.stdout).map_err(|e| e.to_string())
    }

    /// Returns the pids of the processes in the pool.
    pub fn pids(&self) -> Result<Vec<u32>, String> {
        let status = self.status()?;
        let processes = |group: &Value| group["processes"].as_array().cloned().unwrap_or_default();
        let groups = status["groups"].as_array().into_iter().flatten();
        let pids = groups.flat_map(processes).map(|process| process["pid"].as_u64());
        pids.map(|pid| pid.map(|pid| pid as u32).ok_or_else(|| status.to_string())).collect()
    }

    /// Returns a client with a new connection.
    pub fn client(&self) -> io::Result<Client> {
        Client::connect(self.address)
    }

    /// Returns the text of a page. A status other than 200 is an error.
    pub fn get(&self, path: &str) -> Result<String, String> {
        let reply = self.client().and_then(|mut client| client.get(path));
        let reply = reply.map_err(|e| format!("{path}: {e}"))?;
        match reply.status {
            200 => Ok(reply.text()),
            _ => Err(format!("{path}: {}", reply.describe())),
        }
    }

    /// Returns the server's own process and all that it has started.
    ///
    /// They have the server's runtime directory in their environment, or work in the directory where it was started.
    pub fn processes(&self) -> Vec<u32> {
        processes::with("XDG_RUNTIME_DIR", self.runtime.path(), self.dir.as_deref())
    }

    /// Returns the server's files: its instance directory, and all below it.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        list(self.runtime.path(), &mut files);
        files
    }

    /// Ends the server by SIGTERM, or else by SIGKILL, and then all processes that it has left.
    pub fn end(&mut self) {
        if self.has_ended().is_none() {
            self.signal(Signal::TERM);
            if !until(END, || self.has_ended().is_some()) {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
        for pid in self.processes() {
            processes::signal(pid, Signal::KILL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            eprintln!("--- the server's log ---\n{}", self.log());
        }
    }
}

/// Returns a new directory for the files of one server.
pub fn runtime() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|e| format!("a temporary directory: {e}"))
}

/// Returns an address where no server listens.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

/// Lets the output of a command become a log.
fn collect(command: &mut Command) -> Result<Log, String> {
    let pipe = io::pipe().and_then(|(reader, writer)| Ok((reader, writer.try_clone()?, writer)));
    let (reader, stdout, stderr) = pipe.map_err(|e| format!("a pipe: {e}"))?;
    command.stdout(stdout).stderr(stderr);
    Ok(Log::collect(reader))
}

/// Returns the first address in the log of cabrank. The port is 0 if the server listens on Unix sockets alone.
fn address_in(log: &str) -> Option<SocketAddr> {
    // An application may log the address that it has asked for.
    let places = [" at http://", " at unix:", " at scgi:"];
    let is_found =
        |line: &&str| line.contains("serving ") && places.iter().any(|place| line.contains(place));
    let line = log.lines().find(is_found)?;
    let Some((_, rest)) = line.split_once(" at http://") else {
        return Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    };
    rest.split(|c: char| c.is_whitespace() || c == '"' || c == ',').next()?.parse().ok()
}

fn list(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        files.push(entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&entry.path(), files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a command of a shell, which has a child, and becomes a server of files.
    fn files(address: SocketAddr, before: &str) -> Command {
        let mut shell = Command::new("sh");
        let server = format!("exec python3 -m http.server --bind 127.0.0.1 {}", address.port());
        shell.args(["-c", &format!("{before}\n{server}")]);
        shell
    }

    #[test]
    fn the_end_of_a_server_is_that_of_its_processes() {
        let (address, runtime, dir) =
            (free_address().unwrap(), runtime().unwrap(), tempfile::tempdir().unwrap());
        fs::write(dir.path().join("page"), "text").unwrap();
        let mut command = files(address, "sleep 600 & env -u XDG_RUNTIME_DIR sleep 600 &");
        command.current_dir(dir.path());
        crate::binary::set_environment(&mut command, runtime.path());
        let server = Server::start_peer(command, runtime, address).unwrap();
        assert_eq!(server.get("/page"), Ok("text".to_owned()));
        assert!(server.get("/none").unwrap_err().contains("404"));
        let processes = server.processes();
        assert!(processes.contains(&server.pid()) && processes.len() == 3, "{processes:?}");
        assert_eq!(server.tool(["status"]).unwrap_err(), "this server has no tools");
        assert!(until(START, || server.log().contains("GET /page")), "{}", server.log());
        drop(server);
        let ended = || processes.iter().all(|pid| !processes::is_alive(*pid));
        assert!(until(START, ended), "{processes:?}");
    }

    #[test]
    fn a_server_that_ends_at_once_is_an_error() {
        let (address, runtime) = (free_address().unwrap(), runtime().unwrap());
        let command = files(address, "exit 3");
        let why = Server::start_peer(command, runtime, address).unwrap_err();
        assert!(why.contains("exit status: 3"), "{why}");
    }

    #[test]
    fn the_address_stands_behind_a_word_of_the_log() {
        let log = "x\nINFO serving /app at http://127.0.0.1:80 (WSGI)\n";
        assert_eq!(address_in(log), Some(([127, 0, 0, 1], 80).into()));
        assert_eq!(address_in("{\"message\":\"serving at http://[::1]:8\"}").unwrap().port(), 8);
        assert_eq!(address_in(&log[..30]), None);
        let several = "INFO serving /app (WSGI) at http://[::1]:8, http://127.0.0.1:9, unix:/a\n";
        assert_eq!(address_in(several).unwrap().port(), 8);
        assert_eq!(address_in("INFO serving /app (WSGI) at unix:/a\n").unwrap().port(), 0);
        let both = format!("INFO App 7 stdout: Server listening at http://127.0.0.1:3000\n{log}");
        assert_eq!(address_in(&both).unwrap().port(), 80);
    }
}
