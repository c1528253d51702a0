//! The users of agent and application: `--user`, and the warning of an agent that runs as root.

use crate::agent::{Agent, children_of, eventually, run, start_command, wsgi};
use crate::wrong_input::in_time;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can run applications as another user");
    }
    is_root
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

fn runtime() -> TempDir {
    let runtime = tempfile::tempdir().unwrap();
    open_to_all(runtime.path());
    runtime
}

/// The interpreter of the tests may be in root's home, which the other user may not enter.
const OPTIONS: [&str; 4] = ["--user", "nobody", "--python", "/usr/bin/python3"];

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
    let mut agent = Agent::start_with(command, runtime);
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let nobody: Vec<_> =
        passwd.lines().find(|l| l.starts_with("nobody:")).unwrap().split(':').collect();
    let (uid, gid, home, shell) = (nobody[2], nobody[3], nobody[5], nobody[6]);
    let expected =
        format!("[{uid}, {uid}, {gid}, [{gid}], 'nobody', 'nobody', '{home}', '{shell}']");
    assert_eq!(agent.get("/"), expected);
    assert!(!agent.log().contains("WARN"), "{}", agent.log());
    assert_eq!(agent.status()["processes"], 1);
    // Other users may pass through the instance directory, and list nothing.
    let instance = fs::read_dir(agent.runtime.path()).unwrap().next().unwrap().unwrap().path();
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    assert_eq!(mode(&instance), 0o711);
    assert_eq!(mode(&instance.join("admin")), 0o600);
    let backends = instance.join("generation-0/backends");
    assert_eq!(backends.metadata().unwrap().uid().to_string(), uid);
    // The parent-death signal survives the change of the user.
    let pids = children_of(agent.pid());
    agent.signal("KILL");
    agent.ended();
    eventually("the end of the process", || (!crate::agent::is_alive(pids[0])).then_some(()));
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
    let mut agent = Agent::start_with(command, runtime);
    let first = agent.get("/");
    assert!(run(agent.runtime.path(), &["restart"]).status.success());
    eventually("a new process", || (agent.get("/") != first).then_some(()));
    agent.signal("TERM");
    assert!(agent.ended().success());
    assert_eq!(fs::read_dir(agent.runtime.path()).unwrap().count(), 0);
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
fn an_agent_that_runs_as_root_warns() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer('ok')");
    let agent = Agent::start(dir.path(), &["--log-level", "info"]);
    agent.logs("WARN running as root");
    agent.logs("--user");
}
