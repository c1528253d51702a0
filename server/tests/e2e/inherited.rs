//! The state in which the process of an application begins.

use crate::server::{Server, Signal, after, app, eventually, start_command, through};
use crate::users::{OPTIONS, is_root, open_to_all, runtime};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A command that writes its state to files, and then serves.
fn recorder() -> TempDir {
    let dir = app(
        "server.py",
        "import http.server, sys\n\
         class Handler(http.server.BaseHTTPRequestHandler):\n    \
             def do_GET(self):\n        \
                 self.send_response(200)\n        \
                 self.send_header('Content-Length', '2')\n        \
                 self.end_headers()\n        \
                 self.wfile.write(b'ok')\n\
         http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()\n",
    );
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    dir
}

const RECORDS: &str = "for file in limits stat oom_score_adj; do cat /proc/$$/$file > $file; done; cat /proc/self/status > status; \
                       (ls /proc/self/fd) > fd; readlink /proc/$$/cwd > cwd; exec /usr/bin/python3 server.py $PORT";

/// Returns the lines `NAME: VALUE` of a file, with single spaces.
fn fields(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    lines.map(|(name, value)| (name.to_owned(), words(value))).collect()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

/// The parent of the server passes on what it can: descriptors, blocked and ignored signals, a umask, limits.
const PARENT: &str = "import resource, signal
for fd in 5, 42: os.dup2(os.open('/etc/passwd', os.O_RDONLY), fd, inheritable=True)
os.umask(0o27)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])
for number in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT: signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 4000))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
open('/proc/self/oom_score_adj', 'w').write('77')
os.nice(1)";

/// Asserts what each process begins with, whatever the server has. Returns the fields of its status.
fn assert_common(server: &Server, dir: &Path) -> BTreeMap<String, String> {
    assert_eq!(server.get("/"), "ok");
    let status = fields(&dir.join("status"));
    let pid = server.pids()[0].to_string();
    // Descriptors: standard input, output and error. The last one is the list's own.
    assert_eq!(text(&dir.join("fd")).split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    // It leads a session and a group, without a terminal.
    let stat = text(&dir.join("stat"));
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let [_, parent, group, session, terminal] = rest.split(' ').take(5).collect::<Vec<_>>()[..]
    else {
        panic!("{stat}")
    };
    assert_eq!((group, session, terminal), (pid.as_str(), pid.as_str(), "0"));
    assert_eq!(parent, server.pid().to_string());
    let nice = |stat: &str| stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).map(str::to_owned);
    let stat_of = |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert_eq!(nice(&stat), nice(&stat_of(&server.pid().to_string())));
    let own = nice(&stat_of("self"));
    assert!(
        nice(&stat) != own || own.as_deref() == Some("19"),
        "the parent has not changed its own"
    );
    // No signal is blocked. Python ignores SIGXFSZ, and the test SIGCHLD.
    let ignored = u64::from_str_radix(&status["SigIgn"], 16).unwrap();
    assert_eq!(status["SigBlk"], "0000000000000000");
    assert_eq!(ignored & 0x7fff_ffff & !(1 << 24), 0, "{ignored:x}");
    assert_eq!(text(&dir.join("cwd")), dir.canonicalize().unwrap().to_str().unwrap());
    // Umask, limits and OOM score are those with which the server was started.
    assert_eq!(status["Umask"], "0027");
    assert_eq!(text(&dir.join("oom_score_adj")), "77");
    let limits = text(&dir.join("limits"));
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        (limit("Max open files"), limit("Max core file size")),
        (vec!["300".to_owned(), "4000".to_owned()], vec!["0".to_owned(), "0".to_owned()],)
    );
    let of_server = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let others = |text: &str| -> Vec<String> {
        text.lines().filter(|l| !l.starts_with("Max open files")).map(str::to_owned).collect()
    };
    assert_eq!(others(&limits), others(of_server.trim()));
    assert_eq!(status["NoNewPrivs"], "0");
    status
}

#[test]
fn a_process_of_the_servers_user_inherits_its_rights_and_little_else() {
    let (dir, runtime) = (recorder(), tempfile::tempdir().unwrap());
    let command = start_command(runtime.path(), dir.path(), &["--start-command", RECORDS]);
    let server = Server::start_with(after(PARENT, &command), runtime);
    let status = assert_common(&server, dir.path());
    let own = fields(format!("/proc/{}/status", server.pid()).as_ref());
    for name in ["Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapBnd", "CapAmb"] {
        assert_eq!(status[name], own[name], "{name}");
    }
}

/// The handler of a signal ends with the exec, and the signal is no longer ignored. The server leaves an ignored SIGHUP alone.
#[test]
fn a_process_ignores_the_signals_that_the_server_does_not_handle() {
    let (dir, runtime) = (recorder(), tempfile::tempdir().unwrap());
    let command = start_command(runtime.path(), dir.path(), &["--start-command", RECORDS]);
    let parent = "import signal
for name in 'HUP INT QUIT TERM PIPE CHLD USR1'.split(): signal.signal(getattr(signal, 'SIG' + name), signal.SIG_IGN)";
    let server = Server::start_with(after(parent, &command), runtime);
    assert_eq!(server.get("/"), "ok");
    let ignored = u64::from_str_radix(&fields(&dir.path().join("status"))["SigIgn"], 16).unwrap();
    let bit = |signal: Signal| 1 << (signal.as_raw() - 1);
    // Python ignores SIGXFSZ.
    assert_eq!(
        ignored & 0x7fff_ffff & !(1 << 24),
        bit(Signal::HUP) | bit(Signal::USR1),
        "{ignored:x}"
    );
}

#[test]
fn a_process_of_another_user_inherits_no_right_of_root() {
    if !is_root() {
        return;
    }
    let (dir, runtime) = (recorder(), runtime());
    let options = [&OPTIONS[..2], &["--start-command", RECORDS]].concat();
    let command = start_command(runtime.path(), dir.path(), &options);
    // Inheritable capabilities survive a change of the user.
    let inheritable = "\nimport ctypes, struct
head, data = struct.pack('Ii', 0x20080522, 0), ctypes.create_string_buffer(24)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.capget(head, data) == 0
low = struct.unpack('6I', data.raw)
assert libc.capset(head, struct.pack('6I', low[0], low[1], low[1], low[3], low[4], low[4])) == 0
for capability in range(41): libc.prctl(47, 2, capability, 0, 0) # ambient";
    let command = after(&format!("{PARENT}{inheritable}"), &command);
    let server = Server::start_with(command, runtime);
    let own = fields(format!("/proc/{}/status", server.pid()).as_ref());
    assert_ne!(own["CapInh"], "0000000000000000", "the test passes no capability on");
    let status = assert_common(&server, dir.path());
    let nobody = ["65534"; 4].join(" ");
    assert_eq!(
        (&*status["Uid"], &*status["Gid"], &*status["Groups"]),
        (&*nobody, &*nobody, "65534")
    );
    for name in ["CapInh", "CapEff", "CapPrm", "CapAmb"] {
        assert_eq!(status[name], "0000000000000000", "{name}");
    }
}

/// An application of WSGI that answers with what `expression` is.
fn answers(expression: &str) -> TempDir {
    let dir = crate::server::wsgi("", &format!("return answer({expression})"));
    open_to_all(dir.path());
    dir
}

#[test]
fn no_new_privileges_are_gained_by_any_process() {
    let flag = "[l.split()[1] for l in open('/proc/self/status') if l.startswith('NoNewPrivs')]";
    for method in ["direct", "smart"] {
        for (option, value) in [(&[][..], "['0']"), (&["--no-new-privileges"], "['1']")] {
            let dir = answers(flag);
            let options = [&["--spawn-method", method][..], option].concat();
            let server = Server::start(dir.path(), &options);
            assert_eq!(server.get("/"), value, "{method}");
        }
    }
}

/// A shell unblocks signals itself, so it shows no mask. Python does not.
#[test]
fn no_signal_is_blocked_that_the_parent_of_the_server_blocks() {
    let mask = "[l.split()[1] for l in open('/proc/self/status') if l.startswith('SigBlk')]";
    for method in ["direct", "smart"] {
        let (dir, runtime) = (answers(mask), tempfile::tempdir().unwrap());
        let command = start_command(runtime.path(), dir.path(), &["--spawn-method", method]);
        let block =
            "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())";
        let server = Server::start_with(after(block, &command), runtime);
        let own = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        assert!(!own.contains("SigBlk:\t0000000000000000"), "the test passes no mask on");
        assert_eq!(server.get("/"), "['0000000000000000']", "{method}");
        server.signal(Signal::KILL); // it blocks the others
    }
}

/// The application finds no terminal, and the server has one.
#[test]
fn the_terminal_of_the_server_is_out_of_reach() {
    let dir = app(
        "passenger_wsgi.py",
        "import os\n\
         def application(environ, start_response):\n    \
             start_response('200 OK', [])\n    \
             try: os.open('/dev/tty', os.O_RDWR)\n    \
             except OSError as error: return [str(error.errno).encode()]\n    \
             return [b'a terminal']\n",
    );
    for method in ["direct", "smart"] {
        let runtime = tempfile::tempdir().unwrap();
        let command = start_command(runtime.path(), dir.path(), &["--spawn-method", method]);
        let mut pty = Command::new("python3");
        pty.args(["-c", "import pty, sys; pty.spawn(sys.argv[1:])"]);
        let server = Server::start_with(through(pty, &command), runtime);
        let pid = eventually("the server", || server.children().first().copied());
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        assert_ne!(rest.split(' ').nth(4), Some("0"), "the server has no terminal");
        assert_eq!(server.get("/"), "6", "ENXIO: {method}");
    }
}
