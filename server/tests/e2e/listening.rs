//! Where the server listens: on several addresses, on Unix sockets, and on both.

use crate::server::{LONG, Server, Signal, app, command, eventually, run, wsgi};
use crate::users::{is_root, open_to_all, runtime};
use crate::wrong_input::in_time;
use cabrank_checks_harness::http::Reply;
use std::fs::{self, Permissions};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The users `daemon` and `nobody`.
const DAEMON: u32 = 1;
const NOBODY: u32 = 65534;

/// An application that answers with the length of the body, the client's address and scheme, and the server's port.
fn echo() -> TempDir {
    wsgi(
        "",
        "size = len(environ['wsgi.input'].read())\n\
         names = 'REMOTE_ADDR', 'REMOTE_PORT', 'wsgi.url_scheme', 'SERVER_PORT'\n\
         return answer(' '.join([str(size)] + [environ.get(name, '-') for name in names]))",
    )
}

/// A client over a Unix socket.
pub(crate) struct Client(BufReader<UnixStream>);

impl Client {
    pub(crate) fn connect(path: &Path) -> Client {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Client(BufReader::new(stream))
    }

    pub(crate) fn ask(&mut self, head: &str, body: &[u8]) -> Reply {
        let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        self.0.get_mut().write_all(&[head.as_bytes(), body].concat()).unwrap();
        Reply::read(&mut self.0, "POST").unwrap()
    }
}

const HEAD: &str = "POST / HTTP/1.1\r\nHost: a\r\n";
const FROM_PROXY: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\n";

fn text(path: &Path, head: &str) -> String {
    Client::connect(path).ask(head, b"").text()
}

/// Returns the command of a server that listens on a Unix socket alone.
fn on_socket(runtime: &Path, dir: &Path, socket: &Path, options: &[&str]) -> Command {
    let mut command = command(runtime, &["start", dir.to_str().unwrap()]);
    command.arg("--socket").arg(socket).args(options);
    command
}

fn start(dir: &Path, socket: &Path, options: &[&str]) -> Server {
    let runtime = runtime();
    let command = on_socket(runtime.path(), dir, socket, options);
    Server::start_with(command, runtime)
}

/// Asserts that a server does not start on the socket, for this reason.
#[track_caller]
fn refuses(dir: &Path, socket: &Path, why: &str) {
    let runtime = runtime();
    let out = in_time(&mut on_socket(runtime.path(), dir, socket, &[]));
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(4) && error.contains(why), "{out:?}");
    assert!(error.contains(socket.to_str().unwrap()), "{error}");
    assert_eq!(fs::read_dir(runtime.path()).unwrap().count(), 0, "nothing is left");
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

#[test]
fn a_server_on_a_socket_serves_there_and_nowhere_else() {
    let (dir, place) = (echo(), tempfile::tempdir().unwrap());
    let socket = place.path().join("app.sock");
    let mut server = start(dir.path(), &socket, &["--threads", "2"]);
    let facts = socket.symlink_metadata().unwrap();
    assert!(facts.file_type().is_socket() && facts.mode() & 0o777 == 0o660, "{facts:?}");
    let mut clients: Vec<_> = (0..8).map(|_| Client::connect(&socket)).collect();
    let body = vec![b'x'; 3 << 20];
    for client in &mut clients {
        assert_eq!(client.ask(HEAD, b"").text(), "0 127.0.0.1 - http 80");
        assert_eq!(client.ask(HEAD, &body).text(), "3145728 127.0.0.1 - http 80");
    }
    let at = format!("unix:{}", socket.display());
    server.logs(&format!(" at {at}\n"));
    let status = server.status();
    assert_eq!(
        (&status["address"], &status["addresses"][0]),
        (&at.clone().into(), &at.clone().into())
    );
    assert_eq!(status["addresses"].as_array().unwrap().len(), 1);
    let out = run(server.runtime.path(), &["status"]);
    assert!(String::from_utf8_lossy(&out.stdout).contains(&format!("({at}, ")), "{out:?}");
    let inodes = fs::read_to_string(format!("/proc/{}/net/tcp", server.pid())).unwrap();
    for fd in fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().flatten() {
        let link = fs::read_link(fd.path()).unwrap_or_default();
        let link = link.to_str().unwrap_or_default();
        let inode = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        let is_tcp = |line: &str| line.split_whitespace().nth(9) == inode && inode.is_some();
        assert!(!inodes.lines().any(is_tcp), "the server has a TCP socket");
    }
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(names(place.path()).is_empty());
}

#[test]
fn a_server_listens_on_several_addresses_and_sockets_at_once() {
    let (dir, place) = (echo(), tempfile::tempdir().unwrap());
    let paths = ["a.sock", "b.sock"].map(|name| place.path().join(name));
    let [a, b] = paths.each_ref().map(|path| path.to_str().unwrap());
    let options = ["--address", "127.0.0.1,[::1]", "-a", "127.0.0.2", "--socket", a, "--socket", b];
    let server = Server::start(dir.path(), &options);
    let status = server.status();
    let all: Vec<_> =
        status["addresses"].as_array().unwrap().iter().map(|at| at.as_str().unwrap()).collect();
    assert_eq!(all.len(), 5, "{all:?}");
    assert_eq!(all[3..], [format!("unix:{a}"), format!("unix:{b}")]);
    assert!(server.log().contains(&format!(" at {}\n", all.join(", "))), "{}", server.log());
    assert_eq!(status["address"].as_str().unwrap(), &all[0]["http://".len()..]);
    for at in &all[..3] {
        let address: SocketAddr = at.strip_prefix("http://").unwrap().parse().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let reply = Reply::read(&mut BufReader::new(stream), "GET").unwrap().text();
        assert!(
            reply.starts_with(&format!("0 {}", address.ip()))
                || address.ip().to_string() == "127.0.0.2"
        );
        assert!(reply.ends_with(&format!(" {}", address.port())), "{reply}");
    }
    for path in &paths {
        assert_eq!(text(path, HEAD), "0 127.0.0.1 - http 80");
    }
}

/// `::` takes IPv4, too, as it always has, unless an IPv4 address is listed as well.
#[test]
fn ipv6_addresses_leave_ipv4_to_those_that_are_listed() {
    let dir = echo();
    let port_of = |at: &str| at.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    for (address, places, takes_ipv4) in [("::", 1, true), ("::,127.0.0.2", 2, false)] {
        let server = Server::start(dir.path(), &["--address", address]);
        let status = server.status();
        let all = status["addresses"].as_array().unwrap();
        assert_eq!(all.len(), places);
        let port = port_of(all[0].as_str().unwrap());
        assert!(TcpStream::connect(("::1", port)).is_ok());
        assert_eq!(TcpStream::connect(("127.0.0.1", port)).is_ok(), takes_ipv4, "{address}");
    }
}

#[test]
fn a_socket_of_a_killed_server_is_replaced_and_that_of_a_living_one_is_not() {
    let (dir, place) = (echo(), tempfile::tempdir().unwrap());
    let socket = place.path().join("app.sock");
    let mut killed = start(dir.path(), &socket, &[]);
    killed.signal(Signal::KILL);
    killed.ended();
    assert!(socket.exists());
    let mut server = start(dir.path(), &socket, &[]);
    assert_eq!(text(&socket, HEAD), "0 127.0.0.1 - http 80");
    refuses(dir.path(), &socket, "Another program listens there");
    assert_eq!(text(&socket, HEAD), "0 127.0.0.1 - http 80", "the living one is as before");
    // Another server has the place meanwhile.
    fs::remove_file(&socket).unwrap();
    let _other = UnixListener::bind(&socket).unwrap();
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert_eq!(names(place.path()), ["app.sock"]);
}

#[test]
fn a_file_in_the_place_of_a_socket_stays_and_the_server_does_not_start() {
    let (dir, place) = (echo(), tempfile::tempdir().unwrap());
    let socket = place.path().join("app.sock");
    fs::write(&socket, "precious").unwrap();
    refuses(dir.path(), &socket, "a file that is no socket stands there");
    assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
    let absent = place.path().join("gone/app.sock");
    refuses(dir.path(), &absent, "Create the directory");
    assert_eq!(names(place.path()), ["app.sock"]);
}

#[test]
fn a_server_that_does_not_boot_leaves_no_socket() {
    let (dir, place) = (wsgi("raise SystemExit(3)", ""), tempfile::tempdir().unwrap());
    let (socket, runtime) = (place.path().join("app.sock"), runtime());
    let out = in_time(&mut on_socket(runtime.path(), dir.path(), &socket, &[]));
    assert_eq!(out.status.code(), Some(5), "{out:?}");
    assert!(names(place.path()).is_empty());
}

/// The clients of a server that boots wait, and those of a server that stops are served.
#[test]
fn no_client_of_a_socket_is_lost_at_the_start_or_at_the_stop() {
    let (dir, place) = (
        wsgi("import time; time.sleep(1)", "time.sleep(1); return answer('served')"),
        tempfile::tempdir().unwrap(),
    );
    let (socket, runtime) = (place.path().join("app.sock"), runtime());
    let command = on_socket(runtime.path(), dir.path(), &socket, &[]);
    let early = std::thread::spawn({
        let socket = socket.clone();
        move || {
            eventually("the socket", || socket.exists().then_some(()));
            text(&socket, HEAD)
        }
    });
    let mut server = Server::start_with(command, runtime);
    assert_eq!(early.join().unwrap(), "served");
    let mut late = Client::connect(&socket);
    late.0.get_mut().write_all(format!("{HEAD}Content-Length: 0\r\n\r\n").as_bytes()).unwrap();
    server.signal(Signal::TERM);
    assert_eq!(Reply::read(&mut late.0, "POST").unwrap().text(), "served");
    assert!(server.ended().success());
    assert!(names(place.path()).is_empty());
}

#[test]
fn a_proxy_over_a_socket_is_trusted_as_one_of_the_loopback_is() {
    let (dir, place) = (echo(), tempfile::tempdir().unwrap());
    let socket = place.path().join("app.sock");
    let (trusted, plain) = ("0 203.0.113.7 - https 80", "0 127.0.0.1 - http 80");
    for (options, expected) in [
        (&[][..], trusted),
        (&["--address", "127.0.0.1,::1", "--port", "0"], trusted),
        (&["--address", "127.0.0.1,0.0.0.0", "--port", "0"], plain),
        (&["--address", "0.0.0.0", "--port", "0", "--trusted-proxies", "127.0.0.1"], trusted),
        (&["--trusted-proxies", "none"], plain),
        (&["--trusted-proxies", "10.0.0.1"], trusted),
    ] {
        let mut server = start(dir.path(), &socket, options);
        assert_eq!(text(&socket, FROM_PROXY), expected, "{options:?}");
        assert_eq!(text(&socket, HEAD), plain, "{options:?}");
        // Lines of the log come later than answers, and all before the end.
        server.signal(Signal::TERM);
        server.ended();
        let warnings = server.log().matches("--trusted-proxies 127.0.0.1").count();
        assert_eq!(warnings, usize::from(expected == plain), "{}", server.log());
    }
}

#[test]
fn the_proxy_protocol_is_read_on_a_socket() {
    let (dir, place) = (echo(), tempfile::tempdir().unwrap());
    let socket = place.path().join("app.sock");
    let head = format!("PROXY TCP4 203.0.113.9 192.0.2.1 1234 8080\r\n{HEAD}");
    let server = start(dir.path(), &socket, &[]);
    let mut client = Client::connect(&socket);
    assert_eq!(client.ask(&head, b"").text(), "0 203.0.113.9 1234 http 8080");
    assert_eq!(client.ask(HEAD, b"").text(), "0 203.0.113.9 1234 http 8080", "the address stays");
    drop(server);
    let _server = start(dir.path(), &socket, &["--trusted-proxies", "none"]);
    assert_eq!(Client::connect(&socket).ask(&head, b"").status, 400);
}

/// Connects as another user. Returns whether it could.
fn connects_as(uid: u32, gid: u32, socket: &Path) -> bool {
    let code = format!(
        "import os, socket, sys\nos.setgroups([])\nos.setgid({gid})\nos.setuid({uid})\n\
         socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    );
    let out: Output =
        Command::new("/usr/bin/python3").args(["-c", &code]).arg(socket).output().unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() || error.contains("PermissionError"), "{error}");
    out.status.success()
}

#[test]
fn owner_group_and_mode_say_who_may_connect() {
    if !is_root() {
        return;
    }
    let (dir, place) = (echo(), tempfile::tempdir().unwrap());
    open_to_all(place.path());
    let socket = place.path().join("app.sock");
    let facts = || {
        let facts = socket.symlink_metadata().unwrap();
        (facts.uid(), facts.gid(), facts.mode() & 0o7777)
    };
    {
        let _server = start(dir.path(), &socket, &[]);
        assert_eq!(facts(), (0, 0, 0o660));
        assert!(!connects_as(NOBODY, NOBODY, &socket));
    }
    {
        let options =
            ["--socket-group", "daemon", "--socket-owner", "nobody", "--socket-mode", "0620"];
        let _server = start(dir.path(), &socket, &options);
        assert_eq!(facts(), (NOBODY, DAEMON, 0o620));
        assert!(connects_as(NOBODY, NOBODY, &socket) && connects_as(2, DAEMON, &socket));
        assert!(!connects_as(2, 2, &socket));
    }
    let _server = start(dir.path(), &socket, &["--socket-mode", "666"]);
    assert_eq!(facts(), (0, 0, 0o666));
    assert!(connects_as(2, 2, &socket));
}

#[test]
fn root_puts_no_socket_where_a_link_of_another_user_leads() {
    if !is_root() {
        return;
    }
    let (dir, theirs, secret) =
        (echo(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    open_to_all(theirs.path());
    let link = theirs.path().join("sockets");
    symlink(secret.path(), &link).unwrap();
    for path in [theirs.path(), &link] {
        std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    drop(UnixListener::bind(secret.path().join("app.sock")).unwrap());
    let before = secret.path().join("app.sock").symlink_metadata().unwrap().ino();
    refuses(dir.path(), &link.join("app.sock"), "another user may change the link sockets");
    assert_eq!(secret.path().join("app.sock").symlink_metadata().unwrap().ino(), before);
    // A link in the place of the socket itself is no socket.
    let file = theirs.path().join("app.sock");
    symlink(secret.path().join("app.sock"), &file).unwrap();
    refuses(dir.path(), &file, "a file that is no socket stands there");
    assert_eq!(secret.path().join("app.sock").symlink_metadata().unwrap().ino(), before);
}

/// The user exchanges its directory while the server runs: the server still removes its own socket only.
#[test]
fn root_removes_no_file_of_another_directory_at_the_stop() {
    if !is_root() {
        return;
    }
    let (dir, theirs, secret) =
        (echo(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::set_permissions(theirs.path(), Permissions::from_mode(0o755)).unwrap();
    let sockets = theirs.path().join("sockets");
    fs::create_dir(&sockets).unwrap();
    for path in [theirs.path(), &sockets] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut server = start(dir.path(), &sockets.join("app.sock"), &[]);
    assert_eq!(text(&sockets.join("app.sock"), HEAD), "0 127.0.0.1 - http 80");
    let moved: PathBuf = theirs.path().join("moved");
    fs::rename(&sockets, &moved).unwrap();
    symlink(secret.path(), &sockets).unwrap();
    let _precious = UnixListener::bind(secret.path().join("app.sock")).unwrap();
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(secret.path().join("app.sock").exists());
    assert!(names(&moved).is_empty());
}

#[test]
fn a_relative_path_is_below_the_directory_of_the_application() {
    let dir = app("wsgi.py", "def application(e, s):\n    s('200 OK', [])\n    return [b'here']\n");
    let server = Server::start(dir.path(), &["--socket", "app.sock"]);
    assert_eq!(text(&dir.path().join("app.sock"), HEAD), "here");
    assert_eq!(server.get("/"), "here");
}
