//! The rights of applications and of other users: an application of `--user` uses none of root's, and no other user
//! reaches its sockets.

use crate::server::{
    Server, Signal, after, app, eventually, is_alive, run, signal, start_command, through, wsgi,
};
use crate::users::{OPTIONS, is_root, open_to_all, runtime};
use crate::wrong_input::in_time;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The user `nobody` of `OPTIONS`, and another one.
const NOBODY: u32 = 65534;
const DAEMON: u32 = 1;

/// Starts a server whose application runs as `nobody`.
fn start(dir: &Path, options: &[&str]) -> Server {
    start_after("", dir, options)
}

/// Starts such a server after some Python code.
fn start_after(code: &str, dir: &Path, options: &[&str]) -> Server {
    open_to_all(dir);
    let runtime = runtime();
    let options = [&OPTIONS[..], options].concat();
    let command = after(code, &start_command(runtime.path(), dir, &options));
    Server::start_with(command, runtime)
}

fn instance_dir(server: &Server) -> PathBuf {
    fs::read_dir(server.runtime.path()).unwrap().next().unwrap().unwrap().path()
}

/// Returns a directory that only root may enter, with a file in it.
fn secret(file: &str, text: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
    fs::write(dir.path().join(file), text).unwrap();
    dir
}

fn of_nobody(dir: &Path) {
    chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
    open_to_all(dir);
}

/// Runs Python code as another user.
fn python_as(uid: u32, code: &str, arguments: &[&str]) -> Output {
    let change = format!("import os\nos.setgroups([])\nos.setgid({uid})\nos.setuid({uid})\n{code}");
    Command::new("/usr/bin/python3").args(["-c", &change]).args(arguments).output().unwrap()
}

/// The application names a socket, and then puts a link in the place of the socket's directory.
const SWAPS: &str = r#"
import os, socket, sys, time
def say(text): os.write(1, text.encode())
say("\n!> I have control 1.0\n")
keys = dict(line.rstrip("\n").split(": ", 1) for line in iter(sys.stdin.readline, "\n") if ": " in line)
place, victim = open(os.path.join(keys["app_root"], "plan")).read().split()
place = place.replace("BACKENDS", os.path.join(keys["generation_dir"], "backends"))
d, name = os.path.join(place, "d"), os.path.basename(victim)
if os.path.lexists(d):
    time.sleep(600)
os.mkdir(d)
s = socket.socket(socket.AF_UNIX)
s.bind(os.path.join(d, name))
s.listen()
say(f"!> Ready\n!> socket: main;unix:{d}/{name};session;1\n!> \n")
connection = s.accept()[0]
os.rename(d, d + ".old")
os.symlink(os.path.dirname(victim), d)
print("swapped as", os.getuid(), flush=True)
os.kill(os.getpid(), 9)
"#;

#[test]
fn an_application_cannot_make_the_server_remove_a_file() {
    if !is_root() {
        return;
    }
    for place in ["elsewhere", "BACKENDS"] {
        let (victim, elsewhere) = (secret("precious", "text"), tempfile::tempdir().unwrap());
        of_nobody(elsewhere.path());
        let place = place.replace("elsewhere", elsewhere.path().to_str().unwrap());
        let dir = app("app.py", "");
        fs::write(dir.path().join("loader.py"), SWAPS).unwrap();
        let plan = format!("{place} {}", victim.path().join("precious").display());
        fs::write(dir.path().join("plan"), plan).unwrap();
        let toml = "[app_type.evil]\nstartup_file = \"app.py\"\nloader = \"loader.py\"\n\
                    interpreter = \"/usr/bin/python3\"\n";
        fs::write(dir.path().join("cabrank.toml"), toml).unwrap();
        let server = start(dir.path(), &[]);
        let mut client = server.client();
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        server.logs(&format!("swapped as {NOBODY}"));
        server.logs("ended unexpectedly");
        assert!(victim.path().join("precious").exists(), "{}", server.log());
    }
}

#[test]
fn the_server_connects_to_no_socket_that_a_link_of_the_application_names() {
    if !is_root() {
        return;
    }
    let secret = secret("x", "");
    let path = secret.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let dir = tempfile::tempdir().unwrap();
    open_to_all(dir.path());
    let runtime = runtime();
    let link = format!("ln -s {} $SOCKET && sleep 600", path.display());
    let options = [&OPTIONS[..], &["--start-command", &link]].concat();
    let out = in_time(&mut start_command(runtime.path(), dir.path(), &options));
    assert!(String::from_utf8(out.stderr).unwrap().contains("not a socket of the application"));
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// The file of a socket may belong to the application's user, while root listens, and does for root what it does for no other.
#[test]
fn root_sends_nothing_to_a_socket_of_the_application_on_which_root_listens() {
    if !is_root() {
        return;
    }
    let elsewhere = tempfile::tempdir().unwrap();
    of_nobody(elsewhere.path());
    let path = elsewhere.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    let received = std::thread::spawn(move || {
        let read = |connection: std::io::Result<std::os::unix::net::UnixStream>| {
            let mut bytes = Vec::new();
            connection.unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        };
        listener.incoming().map(read).find(|bytes| !bytes.is_empty()).unwrap()
    });

    let dir = tempfile::tempdir().unwrap();
    open_to_all(dir.path());
    let runtime = runtime();
    let link = format!("ln {} $SOCKET && sleep 600", path.display());
    let options = [&OPTIONS[..], &["--start-command", &link]].concat();
    let out = in_time(&mut start_command(runtime.path(), dir.path(), &options));
    let error = String::from_utf8(out.stderr).unwrap();
    assert!(error.contains("user 0 listens on its socket"), "{error}");

    let named = format!(
        "import os\nos.write(1, b'!> Ready\\n!> socket: main;unix:{};http_session;0\\n!> \\n')\n\
         while os.read(0, 4096): pass\n",
        path.display()
    );
    let dir = app("passenger_wsgi.py", &named);
    let server = start(dir.path(), &[]);
    let refusal = server.client().get("/").unwrap();
    assert!(refusal.status >= 500, "{refusal:?}");
    server.logs("user 0 listens on its socket");
    assert!(!received.is_finished());
    std::os::unix::net::UnixStream::connect(&path).unwrap().write_all(b"x").unwrap();
    assert_eq!(received.join().unwrap(), b"x");
}

/// Listens as uvicorn and gunicorn do, with a socket for all.
const SOCKET_FOR_ALL: &str = "import os, socketserver, sys\n\
    from http.server import BaseHTTPRequestHandler\n\
    class Handler(BaseHTTPRequestHandler):\n    \
        def do_GET(self): self.wfile.write(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')\n    \
        def log_message(self, *arguments): pass\n    \
        def address_string(self): return 'someone'\n\
    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): pass\n\
    server = Server(sys.argv[1], Handler)\n\
    os.chmod(sys.argv[1], 0o777)\n\
    server.serve_forever()\n";

#[test]
fn no_other_user_reaches_a_socket_of_an_application() {
    if !is_root() {
        return;
    }
    let loaded = wsgi("", "return answer('ok')");
    let command = app("server.py", SOCKET_FOR_ALL);
    let run = ["--start-command", "/usr/bin/python3 server.py $SOCKET"];
    for (dir, options) in [(loaded, &[][..]), (command, &run)] {
        for umask in ["0o22", "0"] {
            let server = start_after(&format!("os.umask({umask})"), dir.path(), options);
            assert_eq!(server.get("/"), "ok");
            let backends = instance_dir(&server).join("generation-0/backends");
            assert_eq!(backends.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
            let sockets: Vec<_> = fs::read_dir(&backends).unwrap().flatten().collect();
            assert!(!sockets.is_empty());
            for socket in sockets {
                let connect =
                    "import socket, sys\nsocket.socket(socket.AF_UNIX).connect(sys.argv[1])";
                let path = socket.path();
                let out = python_as(DAEMON, connect, &[path.to_str().unwrap()]);
                let error = String::from_utf8(out.stderr).unwrap();
                assert!(error.contains("PermissionError"), "{path:?}: {error}");
                // The application's own user may.
                assert!(python_as(NOBODY, connect, &[path.to_str().unwrap()]).status.success());
            }
        }
    }
}

fn works_under_a_strict_umask(file: &str, text: &str, options: &[&str]) {
    if !is_root() {
        return;
    }
    for umask in ["0o27", "0o77"] {
        let dir = app(file, text);
        fs::set_permissions(dir.path().join(file), Permissions::from_mode(0o644)).unwrap();
        let mut server = start_after(&format!("os.umask({umask})"), dir.path(), options);
        assert_eq!(server.get("/"), "ok");
        let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o7777;
        let instance = instance_dir(&server);
        assert_eq!(mode(instance.clone()), 0o711);
        assert_eq!(mode(instance.join("generation-0")), 0o711);
        assert_eq!(mode(instance.join("generation-0/backends")), 0o700);
        assert_eq!(mode(instance.join("buffered")), 0o700);
        assert_eq!(mode(instance.join("admin")), 0o600);
        assert_eq!(server.status()["processes"], 1);
        server.signal(Signal::TERM);
        assert!(server.ended().success());
    }
}

#[test]
fn a_wsgi_application_works_under_a_strict_umask() {
    let text = crate::server::wsgi_text("", "return answer('ok')");
    works_under_a_strict_umask("passenger_wsgi.py", &text, &[]);
    works_under_a_strict_umask("passenger_wsgi.py", &text, &["--spawn-method", "smart"]);
}

#[test]
fn a_rack_application_works_under_a_strict_umask() {
    let text = "run ->(_) { [200, {}, ['ok']] }\n";
    works_under_a_strict_umask("config.ru", text, &[]);
    works_under_a_strict_umask("config.ru", text, &["--spawn-method", "smart"]);
}

#[test]
fn a_node_application_works_under_a_strict_umask() {
    let text = "require('http').createServer((q, s) => s.end('ok')).listen(0);\n";
    works_under_a_strict_umask("app.js", text, &[]);
}

#[test]
fn a_command_works_under_a_strict_umask() {
    let run = ["--start-command", "/usr/bin/python3 server.py $SOCKET"];
    works_under_a_strict_umask("server.py", SOCKET_FOR_ALL, &run);
}

#[test]
fn a_directory_that_its_user_may_not_enter_is_not_entered_for_it() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    of_nobody(base.path());
    let dir = base.path().join("app");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("server.py"), SOCKET_FOR_ALL).unwrap();
    let reads = "/usr/bin/python3 server.py $SOCKET; cat precious";
    let server = start(&dir, &["--start-command", reads]);
    assert_eq!(server.get("/"), "ok");
    // As the user of the application could do.
    let secret = secret("precious", "the secret text");
    fs::rename(&dir, base.path().join("old")).unwrap();
    symlink(secret.path(), &dir).unwrap();
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    server.logs("cannot enter the application's directory");
    server.logs("let the user nobody enter it");
    assert!(!server.log().contains("the secret text"), "{}", server.log());
}

#[test]
fn a_temporary_directory_where_the_user_may_rename_directories_is_refused() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer('ok')");
    open_to_all(dir.path());
    let refused = |runtime: &Path| {
        let out = in_time(&mut start_command(runtime, dir.path(), &OPTIONS));
        let message = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{message}");
        assert!(message.contains("may rename directories in") && message.contains("TMPDIR"));
    };
    let runtime = runtime();
    fs::set_permissions(runtime.path(), Permissions::from_mode(0o777)).unwrap();
    refused(runtime.path());
    of_nobody(runtime.path());
    refused(runtime.path());
    // A sticky directory, as /tmp is, protects what is in it.
    chown(runtime.path(), Some(0), Some(0)).unwrap();
    fs::set_permissions(runtime.path(), Permissions::from_mode(0o1777)).unwrap();
    let command = start_command(runtime.path(), dir.path(), &OPTIONS);
    assert_eq!(Server::start_with(command, runtime).get("/"), "ok");
}

#[test]
fn root_uses_no_runtime_directory_of_another_user() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer('ok')");
    let (theirs, runtime) = (tempfile::tempdir().unwrap(), runtime());
    chown(theirs.path(), Some(DAEMON), Some(DAEMON)).unwrap();
    let mut command = start_command(runtime.path(), dir.path(), &["--log-level", "info"]);
    command.env("XDG_RUNTIME_DIR", theirs.path());
    let server = Server::start_with(command, runtime);
    assert_eq!(server.get("/"), "ok");
    server.logs("XDG_RUNTIME_DIR is ignored");
    assert_eq!(fs::read_dir(theirs.path()).unwrap().count(), 0);
    assert!(instance_dir(&server).join("admin").exists());
    // Without --user the temporary directory counts, too.
    let out = in_time(&mut start_command(theirs.path(), dir.path(), &[]));
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{message}");
    assert!(message.contains("may rename directories in"), "{message}");
}

/// The owner of a link to the temporary directory lets it lead to other directories of root, after the start.
#[test]
fn the_server_removes_nothing_where_a_link_leads_later() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer('ok')");
    open_to_all(dir.path());
    let (theirs, base, precious) = (runtime(), runtime(), runtime());
    let [link, next] = ["link", "next"].map(|name| theirs.path().join(name));
    symlink(base.path(), &link).unwrap();
    chown(theirs.path(), Some(DAEMON), Some(DAEMON)).unwrap();
    // Directories of dead servers: above the largest possible pid.
    let parts = "cabrank.4194304.abcdefgh/generation-0/backends";
    // The first attempt cannot remove this one, so another attempt follows.
    let stays = base.path().join(parts);
    fs::create_dir_all(stays.join("foreign/inner")).unwrap();
    chown(&stays, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::create_dir_all(precious.path().join(parts)).unwrap();
    let runtime = runtime();
    let mut command = start_command(runtime.path(), dir.path(), &OPTIONS);
    command.env("TMPDIR", &link);
    let server = Server::start_with(command, runtime);
    assert_eq!(server.get("/"), "ok");
    symlink(precious.path(), &next).unwrap();
    fs::rename(&next, &link).unwrap();
    let later = base.path().join("cabrank.4194305.abcdefgh");
    fs::create_dir_all(later.join("generation-0")).unwrap();
    eventually("another attempt to remove", || (!later.exists()).then_some(()));
    assert!(precious.path().join(parts).exists());
    assert!(stays.join("foreign/inner").exists());
}

/// A process of a preloader keeps the session of the preloader, and moves to another group. A helper stays in its own group.
const MOVES_TO_ANOTHER_GROUP: &str = "if path != '/move': return answer('ok')
helper = os.fork()
if helper == 0:
    os.closerange(0, 100)
    time.sleep(600)
    os._exit(0)
for ignored in (signal.SIGTERM, signal.SIGQUIT): signal.signal(ignored, signal.SIG_IGN)
os.setpgid(0, os.getsid(0))
open('unfinished', 'w').write(f'{os.getpid()} {helper}')
os.rename('unfinished', 'moved')
while True: time.sleep(600)";

#[test]
fn a_process_that_has_left_its_group_has_no_more_time_than_others() {
    for (option, is_stop) in [("--max-request-time=1", false), ("--shutdown-timeout=2", true)] {
        let dir =
            wsgi("import signal\nos.setsid = lambda: os.setpgid(0, 0)", MOVES_TO_ANOTHER_GROUP);
        let mut server = Server::start(dir.path(), &["--spawn-method", "smart", option]);
        assert_eq!(server.get("/"), "ok");
        let mut client = server.client();
        client.send(b"GET /move HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let moved = || fs::read_to_string(dir.path().join("moved")).ok();
        let pids = eventually("a process in another group", moved);
        if is_stop {
            server.signal(Signal::TERM);
            server.ended();
        }
        for pid in pids.split(' ').map(|pid| pid.parse().unwrap()) {
            eventually("the end of the process and its helper", || (!is_alive(pid)).then_some(()));
        }
    }
}

/// Runs in a namespace of pids, where it can give the pid of a dead process to another one.
const REUSES_THE_PID: &str = "if path != '/die': return answer('ok')
worker = os.getpid()
begun, begins = os.pipe()
if os.fork():
    os.read(begun, 1)
    os.kill(worker, 9)
# This process has the request's connection. The server kills the rest of the worker's group.
os.setsid()
os.write(begins, b'.')
# Until then, the next process and the threads of the server would take the pid.
while os.path.exists(f'/proc/{worker}') or not os.path.exists('go'): time.sleep(0.01)
while True:
    open('/proc/sys/kernel/ns_last_pid', 'w').write(str(worker - 1))
    victim = os.fork()
    if victim == 0:
        if os.getpid() != worker: os._exit(0)
        # As a program that this one has nothing to do with.
        import faulthandler, signal
        faulthandler.unregister(signal.SIGQUIT)
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        os.setpgid(0, 0)
        time.sleep(600)
        os._exit(0)
    if victim == worker: break
    os.waitpid(victim, 0)
print('reused', flush=True)
print('victim ended:', os.waitpid(victim, 0)[1], flush=True)
os._exit(0)";

#[test]
fn a_request_that_outlives_its_process_ends_no_other_process() {
    let namespace = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
        unshare
    };
    if !namespace().arg("true").status().is_ok_and(|status| status.success()) {
        println!("skipped: only root can create a namespace of pids");
        return;
    }
    let dir = wsgi("", REUSES_THE_PID);
    let runtime = tempfile::tempdir().unwrap();
    let options = ["--max-pool-size", "1", "--max-request-time", "2"];
    let command = through(namespace(), &start_command(runtime.path(), dir.path(), &options));
    let server = Server::start_with(command, runtime);
    let mut client = server.client();
    client.send(b"GET /die HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let is_replaced = || (server.log().matches("is ready").count() == 2).then_some(());
    eventually("another process is ready", is_replaced);
    fs::write(dir.path().join("go"), "").unwrap();
    server.logs("reused");
    // The request has ended with its process. Its time for the work, and that for a backtrace, pass.
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert!(!server.log().contains("victim ended"), "{}", server.log());
}

/// A preloader that names another process than the one it has forked.
const LIES: &str = r#"
import os, socket, sys
def say(text): os.write(1, text.encode())
say("\n!> I have control 1.0\n")
keys = dict(line.rstrip("\n").split(": ", 1) for line in iter(sys.stdin.readline, "\n") if ": " in line)
if "connect_password" in keys:
    raise SystemExit("started directly")
path = os.path.join(keys["generation_dir"], "backends", "preloader")
s = socket.socket(socket.AF_UNIX)
s.bind(path)
s.listen()
say(f"!> Ready\n!> socket: unix:{path}\n!> \n")
while True:
    connection = s.accept()[0]
    connection.recv(100)
    all = [pid for pid in os.listdir("/proc") if pid.isdigit()]
    def is_reaper(pid):
        try: return b"__reaper" in open(f"/proc/{pid}/cmdline", "rb").read() and open(f"/proc/{pid}/stat").read().split()[3] == str(os.getppid())
        except OSError: return False
    reaper = next(filter(is_reaper, all))
    print("names", reaper, flush=True)
    connection.sendall(f"OK\n{reaper}\n".encode())
"#;

#[test]
fn a_preloader_cannot_pass_another_process_off_as_its_own() {
    if !is_root() {
        return;
    }
    let dir = app("app.py", "");
    fs::write(dir.path().join("preloader.py"), LIES).unwrap();
    let toml = "[app_type.evil]\nstartup_file = \"app.py\"\nloader = \"preloader.py\"\n\
                preloader = \"preloader.py\"\ninterpreter = \"/usr/bin/python3\"\n";
    fs::write(dir.path().join("cabrank.toml"), toml).unwrap();
    open_to_all(dir.path());
    let runtime = runtime();
    let options = [&OPTIONS[..], &["--spawn-method", "smart"]].concat();
    let out = in_time(&mut start_command(runtime.path(), dir.path(), &options));
    let message = String::from_utf8(out.stderr).unwrap();
    assert!(message.contains("names "), "{message}");
    assert!(message.contains("it is no new process of the application"), "{message}");
    assert!(!message.contains("the reaper has ended"), "{message}");
}

#[test]
fn a_process_with_a_link_in_the_place_of_its_socket_ends_as_usual() {
    if !is_root() {
        return;
    }
    let victim = secret("precious", "text");
    let dir = wsgi("", "return answer(os.getpid())");
    let server = start(dir.path(), &[]);
    let pid: u32 = server.get("/").parse().unwrap();
    let backends = instance_dir(&server).join("generation-0/backends");
    for socket in fs::read_dir(&backends).unwrap().flatten() {
        fs::remove_file(socket.path()).unwrap();
        symlink(victim.path().join("precious"), socket.path()).unwrap();
    }
    signal(pid, Signal::KILL);
    server.logs("ended unexpectedly");
    eventually("another process", || (server.get("/") != pid.to_string()).then_some(()));
    assert!(!is_alive(pid) && victim.path().join("precious").exists());
}
