//! The users of server and application: `--user`, and the warning of a server that runs as root.

use crate::server::{Server, Signal, after, children_of, eventually, run, start_command, wsgi};
use crate::wrong_input::in_time;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root may act for several users");
    }
    is_root
}

pub(crate) fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn runtime() -> TempDir {
    let runtime = tempfile::tempdir().unwrap();
    open_to_all(runtime.path());
    runtime
}

/// The interpreter of the tests may be in root's home, which the other user may not enter.
pub(crate) const OPTIONS: [&str; 4] = ["--user", "nobody", "--python", "/usr/bin/python3"];

#[test]
fn applications_run_as_the_chosen_user() {
    if !is_root() {
        return;
    }
    let dir = wsgi(
        "",
        "return answer([os.getuid(), os.geteuid(), os.getgid(), os.getgroups()]\n    \
         + [os.environ[n] for n in ('USER', 'LOGNAME', 'HOME', 'SHELL')])",
    );
    open_to_all(dir.path());
    let runtime = runtime();
    let command = start_command(runtime.path(), dir.path(), &OPTIONS);
    let mut server = Server::start_with(command, runtime);
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let nobody: Vec<_> =
        passwd.lines().find(|l| l.starts_with("nobody:")).unwrap().split(':').collect();
    let (uid, gid, home, shell) = (nobody[2], nobody[3], nobody[5], nobody[6]);
    let expected =
        format!("[{uid}, {uid}, {gid}, [{gid}], 'nobody', 'nobody', '{home}', '{shell}']");
    assert_eq!(server.get("/"), expected);
    assert!(!server.log().contains("WARN"), "{}", server.log());
    assert_eq!(server.status()["processes"], 1);
    // Other users may pass through the instance directory, and list nothing.
    let instance = fs::read_dir(server.runtime.path()).unwrap().next().unwrap().unwrap().path();
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    assert_eq!(mode(&instance), 0o711);
    assert_eq!(mode(&instance.join("admin")), 0o600);
    let backends = instance.join("generation-0/backends");
    assert_eq!(backends.metadata().unwrap().uid().to_string(), uid);
    // The parent-death signal survives the change of the user.
    let pids = children_of(server.pid());
    server.signal(Signal::KILL);
    server.ended();
    eventually("the end of the process", || (!crate::server::is_alive(pids[0])).then_some(()));
}

#[test]
fn a_process_of_another_user_is_restarted_and_ended() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer(os.getpid())");
    open_to_all(dir.path());
    let runtime = runtime();
    let command = start_command(runtime.path(), dir.path(), &OPTIONS);
    let mut server = Server::start_with(command, runtime);
    let first = server.get("/");
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    eventually("a new process", || (server.get("/") != first).then_some(()));
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert_eq!(fs::read_dir(server.runtime.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_that_the_user_may_not_enter_is_an_error() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer('ok')");
    open_to_all(dir.path());
    let runtime = tempfile::tempdir().unwrap();
    fs::set_permissions(runtime.path(), Permissions::from_mode(0o700)).unwrap();
    let out = in_time(&mut start_command(runtime.path(), dir.path(), &OPTIONS));
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{message}");
    assert!(message.contains("may not enter") && message.contains("TMPDIR"), "{message}");
}

#[test]
fn the_error_for_an_unknown_user_names_it() {
    let dir = wsgi("", "return answer('ok')");
    let runtime = tempfile::tempdir().unwrap();
    let out = in_time(&mut start_command(runtime.path(), dir.path(), &["--user", "no-such-user"]));
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{message}");
    assert!(message.contains("no user no-such-user"), "{message}");
}

#[test]
fn an_server_that_runs_as_root_warns() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer('ok')");
    let server = Server::start(dir.path(), &["--log-level", "info"]);
    server.logs("WARN running as root");
    server.logs("--user");
}

#[test]
fn a_umask_that_takes_rights_from_the_owner_is_refused_and_leaves_nothing() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer('ok')");
    open_to_all(dir.path());
    let runtime = runtime();
    std::os::unix::fs::chown(runtime.path(), Some(65534), Some(65534)).unwrap();
    for umask in ["0o777", "0o477"] {
        let options = ["--python", "/usr/bin/python3"];
        // The user may be unable to reach the program, which lies below a directory of the tester's own.
        let change = format!(
            "program = os.open(sys.argv[1], os.O_PATH)\nos.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n\
             os.umask({umask})\nos.execve(program, sys.argv[1:], os.environ)"
        );
        let out =
            in_time(&mut after(&change, &start_command(runtime.path(), dir.path(), &options)));
        let message = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{message}");
        assert!(message.contains("umask") && message.contains("027"), "{message}");
        assert_eq!(fs::read_dir(runtime.path()).unwrap().count(), 0);
    }
}
