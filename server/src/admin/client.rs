//! The tools' side of the socket: `cabrank status`, `stop`, `restart`, `detach`, `disable`, `enable`.

use crate::admin::report::Report;
use crate::admin::{Reply, Request, render};
use crate::configuration::cli::{InstanceArgs, ProcessArgs, StatusArgs};
use crate::failure::Failure;
use crate::observe::logging;
use cabrank_spawner::{Running, Standing, running};
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::Value;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The longest wait for the server's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer: the report of some ten thousand processes.
const MAX_ANSWER: usize = 4 << 20;

pub(crate) fn status(args: &StatusArgs) -> Result<(), Failure> {
    match ask(&args.which, &Request::Status)? {
        Reply::Status(report) => print(&if args.json {
            json(&report)?
        } else {
            render::text(&report, std::io::stdout().is_terminal())
        }),
        other => Err(unexpected(other)),
    }
}

pub(crate) fn stop(which: &InstanceArgs) -> Result<(), Failure> {
    done(which, &Request::Stop)
}

pub(crate) fn restart(which: &InstanceArgs) -> Result<(), Failure> {
    done(which, &Request::Restart)
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
fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::other(e.to_string())),
        _ => Ok(()),
    }
}

fn done(which: &InstanceArgs, request: &Request) -> Result<(), Failure> {
    match ask(which, request)? {
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

fn ask(which: &InstanceArgs, request: &Request) -> Result<Reply, Failure> {
    let server = choose(running(crate::admin::NAME), which.instance.map(|pid| pid.0))?;
    let reply = talk(&server, request).map_err(|e| {
        Failure::other(format!(
            "the server {} does not answer: {e}. Try again, or look at its log.",
            name(&server)
        ))
    })?;
    if server.standing != Standing::Own {
        // The text of the answer is the word of another user. It must not pass for that of a server of the caller.
        logging::final_message(&format!("cabrank: the server {} answers:", name(&server)));
    }
    Ok(reply)
}

/// Returns the pid of a server, and its user if that is not the caller.
fn name(server: &Running) -> String {
    let pid = server.pid;
    match &server.standing {
        Standing::Own => pid.to_string(),
        Standing::Untrusted(why) => format!("{pid} in {} ({why})", server.path.display()),
        Standing::Other(user) => format!("{pid} of the user {user}"),
    }
}

/// Chooses the server that the command addresses. A server of another user, or in a directory that is not trusted, is
/// chosen only by its pid, and only if the caller has none with this pid.
fn choose(running: Vec<Running>, wanted: Option<u32>) -> Result<Running, Failure> {
    let list = |servers: &[Running]| servers.iter().map(name).collect::<Vec<_>>().join(", ");
    let all = list(&running);
    let is_wanted = |server: &Running| wanted.is_none_or(|pid| pid == server.pid);
    let (own, others): (Vec<_>, Vec<_>) =
        running.into_iter().partition(|s| s.standing == Standing::Own);
    let mut matching: Vec<_> = own.into_iter().filter(is_wanted).collect();
    if matching.is_empty() && wanted.is_some() {
        matching.extend(others.iter().filter(|server| is_wanted(server)).cloned());
    }
    match (matching.len(), wanted) {
        (1, _) => Ok(matching.remove(0)),
        (2.., None) => Err(Failure::usage(format!(
            "several servers are running: {}. Choose one with --instance PID.",
            list(&matching)
        ))),
        (2.., Some(pid)) => Err(Failure::usage(format!(
            "several instance directories have the pid {pid}: {}. Remove the false ones.",
            matching.iter().map(|s| s.path.display().to_string()).collect::<Vec<_>>().join(", ")
        ))),
        (_, Some(pid)) if !all.is_empty() => {
            Err(Failure::not_found(format!("no server {pid} is running. Running servers: {all}.")))
        }
        _ if !others.is_empty() => Err(Failure::not_found(format!(
            "found no running server of this user. Others: {}. Choose one with --instance PID.",
            list(&others)
        ))),
        _ => Err(Failure::not_found(
            "found no running server of this user. Start one with `cabrank start DIR`; server and tools \
             need the same XDG_RUNTIME_DIR or TMPDIR.",
        )),
    }
}

fn talk(server: &Running, request: &Request) -> io::Result<Reply> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let stream = connect(server)?;
    let mut text = serde_json::to_string(request)?;
    text.push('\n');
    (&stream).write_all(text.as_bytes())?;
    let line = read_line(&stream, deadline)?;
    let mut answer: Value = serde_json::from_slice(&line)?;
    replace_control_characters(&mut answer);
    Ok(serde_json::from_value(answer)?)
}

/// Connects to a server, and checks that it runs as the owner of its directory.
fn connect(server: &Running) -> io::Result<UnixStream> {
    // Another user may rename its directory meanwhile. So the socket is that of the open directory.
    let dir = server.open()?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = crate::admin::socket(Path::new(""));
    let file = rustix::fs::openat(&dir, name, flags, Mode::empty())?;
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    // The time limit holds for connecting as well: the queue of the server may be full.
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(ANSWER_TIMEOUT))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use cabrank_spawner::DirIdentity;

    fn server(pid: u32, owner: Option<&str>) -> Running {
        let path = format!("/{pid}/{owner:?}").into();
        let standing = owner.map_or(Standing::Own, |owner| Standing::Other(owner.into()));
        Running { pid, path, standing, identity: DirIdentity::default() }
    }

    #[test]
    fn a_single_server_is_chosen_and_several_are_listed() {
        let one = || vec![server(5, None)];
        let two = || vec![server(5, None), server(6, None)];
        assert_eq!(choose(one(), None).unwrap().pid, 5);
        assert_eq!(choose(two(), Some(6)).unwrap().pid, 6);
        let message = choose(two(), None).unwrap_err().message;
        assert!(message.contains("5, 6") && message.contains("--instance"), "{message}");
        assert_eq!(choose(Vec::new(), None).unwrap_err().kind as u8, 3);
        assert!(choose(one(), Some(9)).unwrap_err().message.contains("no server 9"));
    }

    #[test]
    fn a_server_of_another_user_is_chosen_only_by_its_pid() {
        let all = || vec![server(5, Some("mallory")), server(5, None), server(7, Some("bob"))];
        assert_eq!(choose(all(), None).unwrap(), server(5, None));
        assert_eq!(choose(all(), Some(5)).unwrap(), server(5, None));
        assert_eq!(choose(all(), Some(7)).unwrap(), server(7, Some("bob")));
        let message = choose(all(), Some(9)).unwrap_err().message;
        assert!(message.contains("5 of the user mallory, 5, 7 of the user bob"), "{message}");
        let alone = choose(vec![server(7, Some("bob"))], None).unwrap_err();
        assert_eq!(alone.kind as u8, 3);
        assert!(
            alone.message.contains("7 of the user bob") && alone.message.contains("--instance")
        );
        let two = vec![server(5, Some("mallory")), server(5, Some("bob"))];
        assert_eq!(choose(two, Some(5)).unwrap_err().kind as u8, 2);
    }

    #[test]
    fn a_directory_that_is_not_trusted_makes_no_choice_ambiguous() {
        let untrusted = |pid| {
            let standing = Standing::Untrusted("other users may open it");
            Running { path: format!("/{pid}/untrusted").into(), standing, ..server(pid, None) }
        };
        let all = || vec![untrusted(5), server(5, None), untrusted(6)];
        assert_eq!(choose(all(), None).unwrap(), server(5, None));
        assert_eq!(choose(all(), Some(5)).unwrap(), server(5, None));
        assert_eq!(choose(all(), Some(6)).unwrap(), untrusted(6));
        let alone = choose(vec![untrusted(5)], None).unwrap_err();
        assert_eq!(alone.kind as u8, 3);
        let text = alone.message;
        assert!(text.contains("Others: 5 in /5/untrusted (other users may open it)."), "{text}");
    }
}
