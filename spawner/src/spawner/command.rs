//! Processes that the application's own command starts, without a loader.
//!
//! The shell runs the command. The variable `PORT` or `SOCKET` says where the application has to listen; it is ready when
//! it listens there. Its standard output is a pipe, because some programs open `/dev/stdout` again, which fails
//! for a socket.

use super::application::{Application, Starting, broken};
use super::boot::Serving;
use crate::app_type::{Place, StartCommand};
use crate::boot_error::BootError;
use crate::connections::IdleEnd;
use crate::handshake::{Address, Protocol, Refusal, Socket};
use crate::held_socket::HeldSocket;
use crate::listening::{self, Listening};
use crate::prepare::{self, SHELL};
use crate::process::AppProcess;
use crate::random;
use cabrank::application_pool::SpawnRequest;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The pauses between two looks at a process that starts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// The remedies for an application that does not listen as it should.
const SLOW: &str = "Raise --start-timeout if it needs longer to boot.";
const PASS_ON: &str = "Let the start command pass $PORT to it.";

/// The place where one process has to listen.
#[derive(Debug)]
enum Target {
    Port(u16),
    Socket(PathBuf),
}

impl Application {
    /// Boots a process that the command starts.
    pub(super) fn boot_command(
        &self,
        command: &StartCommand,
        request: &SpawnRequest,
    ) -> Result<AppProcess, BootError> {
        self.shared.instance.restore().map_err(broken)?;
        let target = match command.place() {
            Place::Port => Target::Port(free_port().map_err(broken)?),
            Place::Socket => {
                let name = format!("app.{}", random::characters(11));
                Target::Socket(self.shared.instance.backends().path().join(name))
            }
        };
        let mut shell = self.command(Path::new(SHELL));
        // A variable of the server could otherwise be taken for the place.
        shell.env_remove("PORT").env_remove("SOCKET");
        match &target {
            Target::Port(port) => shell.env("PORT", port.to_string()),
            Target::Socket(path) => shell.env("SOCKET", path),
        };
        shell.arg("-c").arg(command.script()).stdin(Stdio::null()).stdout(Stdio::piped());
        let starting = self.launch(shell)?;
        match self.await_listening(&starting, &target, request) {
            Ok((address, held)) => {
                let socket = Socket {
                    name: "main".into(),
                    address,
                    protocol: Protocol::HttpSession,
                    concurrency: 0,
                };
                self.ready(starting, Serving::at(socket, held, IdleEnd::Process), request)
            }
            Err(refusal) => {
                let cancelled = request.cancel().is_cancelled();
                let mut error = self.boot_failed(starting, refusal, cancelled);
                if let Some(why) = error.output.strip_prefix("!> Error\n!> \n")
                    && let Some(why) = why.strip_prefix(prepare::FAILED)
                {
                    error = self.cannot_start(why.trim_end());
                }
                // The shell's status is the command's.
                if error.summary.contains("exit status: 0") {
                    error.summary.push_str(" The start command must stay in the foreground.");
                }
                if let Target::Socket(path) = &target
                    && let Ok(held) = self.socket_at(path)
                {
                    held.iter().for_each(HeldSocket::remove);
                }
                Err(error)
            }
        }
    }

    /// Waits until the process listens. Returns the address to connect to.
    fn await_listening(
        &self,
        starting: &Starting,
        target: &Target,
        request: &SpawnRequest,
    ) -> Result<(Address, Option<HeldSocket>), Refusal> {
        let deadline = Instant::now() + self.options.start_timeout;
        let (mut pause, longest) = PAUSES;
        let mut is_taken = false;
        loop {
            let look = Instant::now();
            match target {
                Target::Port(port) => match self.address(starting, *port)? {
                    Listening::Group(address) => return Ok((Address::Tcp(address), None)),
                    other => is_taken = other == Listening::Another,
                },
                // The path could be a link to a socket of another program, so the server does not connect to the path.
                Target::Socket(path) => {
                    if path.parent() != Some(self.shared.instance.backends().path()) {
                        // Another user may have made it again, and could reach the socket that the application opens there.
                        let why = "the directory of its socket was removed while it booted.";
                        return Err(Refusal::Unready(why.into()));
                    }
                    if let Some(held) = self.socket_at(path).map_err(Refusal::Unready)? {
                        match held.connect(Duration::ZERO) {
                            Ok(_) => return Ok((held.address(), Some(held))),
                            Err(e) if e.kind() == io::ErrorKind::Other => {
                                let why = format!("{e} ({}).", path.display());
                                return Err(Refusal::Unready(why));
                            }
                            Err(_) => {}
                        }
                    }
                }
            }
            if starting.child.leader().has_ended() || request.cancel().is_cancelled() {
                return Err(Refusal::HungUp);
            }
            if Instant::now() >= deadline {
                return Err(Refusal::Unready(format!(
                    "the application was not ready within {} s: {}",
                    self.options.start_timeout.as_secs_f64(),
                    self.expected(starting, target, is_taken)
                )));
            }
            // On a machine with many sockets a look takes long.
            std::thread::sleep(pause.max(look.elapsed() * 2));
            pause = (pause * 2).min(longest);
        }
    }

    fn socket_at(&self, path: &Path) -> Result<Option<HeldSocket>, String> {
        HeldSocket::find(path, self.uid(), &self.shared.instance.backends_of(path))
    }

    fn address(&self, starting: &Starting, port: u16) -> Result<Listening, Refusal> {
        let group = starting.child.id();
        let looked = listening::on_port(group, self.uid(), port).map_err(|e| {
            Refusal::Unready(format!("cannot look for the application's port: {e}."))
        })?;
        let Listening::Group(local) = looked else { return Ok(looked) };
        let Some(address) = listening::reachable(local) else { return Ok(Listening::Free) };
        if !local.ip().to_canonical().is_loopback() {
            tracing::warn!(
                pid = group,
                "App {group} listens on {local}, so clients may reach it past this server. Let it listen on 127.0.0.1."
            );
        }
        Ok(Listening::Group(address))
    }

    /// Says where the application should have listened, and where it does instead.
    fn expected(&self, starting: &Starting, target: &Target, is_taken: bool) -> String {
        let elsewhere = listening::addresses(starting.child.id()).unwrap_or_default();
        let elsewhere: Vec<_> = elsewhere.iter().map(SocketAddr::to_string).collect();
        match target {
            Target::Port(port) if is_taken => {
                format!(
                    "another program listens on its port, {port}. The command must start the server in its own \
                     process group."
                )
            }
            Target::Port(port) => {
                let (found, remedy) = match &elsewhere[..] {
                    [] => ("it does not listen".to_owned(), SLOW),
                    found => (format!("it listens on {}, and not", found.join(" and ")), PASS_ON),
                };
                format!("{found} on the port in the variable PORT, here {port}. {remedy}")
            }
            Target::Socket(path) => format!(
                "it does not listen on the Unix socket in the variable SOCKET, here {}. {SLOW}",
                path.display()
            ),
        }
    }
}

/// Returns a port of the loopback interface that is free at the moment.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
