//! The tools' side of the socket: `cabrank status`, `restart`, `detach`, `disable`, `enable`.

use crate::admin::choice::{choose, name};
use crate::admin::report::Report;
use crate::admin::{Identity, NAME, REGISTERED, Reply, Request, Restart, render};
use crate::configuration::cli::{InstanceArgs, ProcessArgs, RestartArgs, StatusArgs};
use crate::failure::{Failure, Kind};
use crate::observe::logging;
use cabrank_spawner::descriptors::unix_socket;
use cabrank_spawner::{Running, Standing, running};
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, SocketAddrUnix, SocketFlags};
use serde_json::Value;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The longest wait for the server's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for a server that says what it is called.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(5);
/// The time between two questions how a restart goes.
const RESTART_INTERVAL: Duration = Duration::from_millis(100);
/// The longest answer: the report of some ten thousand processes.
const MAX_ANSWER: usize = 4 << 20;

pub(crate) fn status(args: &StatusArgs) -> Result<(), Failure> {
    match ask(&find(&args.which)?, &Request::Status)? {
        Reply::Status(report) => print(&if args.json {
            json(&report)?
        } else {
            render::text(&report, std::io::stdout().is_terminal())
        }),
        other => Err(unexpected(other)),
    }
}

pub(crate) fn restart(args: &RestartArgs) -> Result<(), Failure> {
    let server = find(&args.which)?;
    expect_done(ask(&server, &Request::Restart)?)?;
    if args.wait { wait_for_restart(&server) } else { Ok(()) }
}

/// Waits until the new processes of a restart are up. `--start-timeout` of the server bounds the boot of each.
fn wait_for_restart(server: &Running) -> Result<(), Failure> {
    loop {
        match ask_again(server, &Request::Restarted)? {
            Reply::Restart(Restart::Goes) => std::thread::sleep(RESTART_INTERVAL),
            Reply::Restart(Restart::Done { processes: 0 }) => {
                return print("No process runs. The next request starts one.\n");
            }
            Reply::Restart(Restart::Done { processes }) => {
                return print(&format!("The new processes are up: {processes}.\n"));
            }
            Reply::Restart(Restart::Failed { error, outdated }) => {
                let left = match outdated {
                    0 => "No process serves the application".to_owned(),
                    n => format!("Processes with the old code go on serving: {n}"),
                };
                let error = format!("the new code did not boot: {error} {left}.");
                return Err(Failure::new(Kind::Boot, error));
            }
            other => return Err(unexpected(other)),
        }
    }
}

pub(crate) fn detach(args: &ProcessArgs) -> Result<(), Failure> {
    done(&args.which, &Request::Detach { pid: args.pid.0 })
}

pub(crate) fn disable(args: &ProcessArgs) -> Result<(), Failure> {
    done(&args.which, &Request::Disable { pid: args.pid.0 })
}

pub(crate) fn enable(args: &ProcessArgs) -> Result<(), Failure> {
    done(&args.which, &Request::Enable { pid: args.pid.0 })
}

fn json(report: &Report) -> Result<String, Failure> {
    let mut text =
        serde_json::to_string_pretty(report).map_err(|e| Failure::other(e.to_string()))?;
    text.push('\n');
    Ok(text)
}

/// Prints the text. Ignores a reader that has closed its end (`cabrank status | head -1`).
pub(super) fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::other(e.to_string())),
        _ => Ok(()),
    }
}

fn done(which: &InstanceArgs, request: &Request) -> Result<(), Failure> {
    expect_done(ask(&find(which)?, request)?)
}

/// Prints what the server says that it does.
pub(super) fn expect_done(reply: Reply) -> Result<(), Failure> {
    match reply {
        Reply::Done(message) => print(&format!("{message}\n")),
        other => Err(unexpected(other)),
    }
}

fn unexpected(reply: Reply) -> Failure {
    match reply {
        Reply::Refused(why) => Failure::other(why),
        _ => Failure::other(
            "the server gave an unexpected answer. Use the `cabrank` of the version that the server runs.",
        ),
    }
}

/// Finds the server that the caller addresses.
pub(super) fn find(which: &InstanceArgs) -> Result<Running, Failure> {
    choose(running(NAME, REGISTERED), which.instance.as_deref(), identities)
}

/// Gets the first answer of a server.
pub(super) fn ask(server: &Running, request: &Request) -> Result<Reply, Failure> {
    let reply = ask_again(server, request)?;
    if server.standing != Standing::Own {
        // The text of the answer is the word of another user. It must not pass for that of a server of the caller.
        logging::final_message(&format!("cabrank: the server {} answers:", name(server)));
    }
    Ok(reply)
}

fn ask_again(server: &Running, request: &Request) -> Result<Reply, Failure> {
    talk(server, request, ANSWER_TIMEOUT).map_err(|e| {
        Failure::other(format!(
            "the server {} does not answer: {e}. Try again, or look at its log.",
            name(server)
        ))
    })
}

/// Asks the caller's own servers what the operator calls them, all at once. An answer is missing if a server does not
/// give it in time, such as one of an earlier version.
pub(crate) fn identities(servers: &[Running]) -> Vec<Option<Identity>> {
    let ask = |server: &Running| match talk(server, &Request::Identify, IDENTITY_TIMEOUT) {
        Ok(Reply::Identity(identity)) => Some(identity),
        _ => None,
    };
    std::thread::scope(|scope| {
        let asked: Vec<_> = servers.iter().map(|server| scope.spawn(|| ask(server))).collect();
        asked.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

fn talk(server: &Running, request: &Request, limit: Duration) -> io::Result<Reply> {
    let deadline = Instant::now() + limit;
    let stream = connect(server, limit)?;
    let mut text = serde_json::to_string(request)?;
    text.push('\n');
    (&stream).write_all(text.as_bytes())?;
    let line = read_line(&stream, deadline)?;
    let mut answer: Value = serde_json::from_slice(&line)?;
    replace_control_characters(&mut answer);
    Ok(serde_json::from_value(answer)?)
}

/// Connects to a server, and checks that it runs as the owner of its directory.
fn connect(server: &Running, limit: Duration) -> io::Result<UnixStream> {
    // Another user may rename its directory meanwhile. So the socket is that of the open directory.
    let dir = server.open()?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = crate::admin::socket(Path::new(""));
    let file = rustix::fs::openat(&dir, name, flags, Mode::empty())?;
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let socket = unix_socket(SocketFlags::CLOEXEC)?;
    // The time limit holds for connecting as well: the queue of the server may be full.
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
    net::connect(&socket, &address)?;
    let dir = server.path.display();
    let peer = sockopt::socket_peercred(&socket)?;
    if peer.uid.as_raw() != server.uid() {
        return Err(io::Error::other(format!(
            "another user than the owner of {dir} listens there"
        )));
    }
    // Another user may have named a directory after a server that the caller knows.
    if server.standing != Standing::Own && peer.pid.as_raw_pid().unsigned_abs() != server.pid {
        return Err(io::Error::other(format!("another process listens in {dir}")));
    }
    Ok(UnixStream::from(socket))
}

/// Reads a line of limited length in limited time.
fn read_line(mut stream: &UnixStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut buffer = [0; 8192];
    while !line.ends_with(b"\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => break,
            n => line.extend_from_slice(&buffer[..n]),
        }
        if line.len() > MAX_ANSWER {
            return Err(io::Error::other(format!("its answer is longer than {MAX_ANSWER} bytes")));
        }
    }
    Ok(line)
}

/// Replaces the control characters of all texts, which could change the state of a terminal.
fn replace_control_characters(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace(char::is_control, "\u{fffd}"),
        Value::Array(values) => values.iter_mut().for_each(replace_control_characters),
        Value::Object(fields) => fields.values_mut().for_each(replace_control_characters),
        _ => {}
    }
}
