//! The end of an agent, graceful and forced. Neither leaves a process or a file behind.

use crate::agent::{Agent, eventually, is_alive, run, start_command, wsgi};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Asserts that the instance directory and the processes are gone.
fn assert_clean(agent: &Agent, pids: &[u32]) {
    let left: Vec<_> = fs::read_dir(agent.runtime.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    for &pid in pids {
        assert!(!is_alive(pid), "process {pid} is still alive");
    }
}

#[test]
fn every_signal_to_stop_lets_a_slow_request_finish() {
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        let dir = wsgi("", "time.sleep(0.7)\nreturn answer('finished')");
        let (command, runtime) = with_sighup("SIG_DFL", dir.path());
        let mut agent = Agent::start_with(command, runtime);
        let pids = agent.pids();
        let mut idle = agent.client();
        let mut client = agent.client();
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        eventually("a busy process", || (agent.status()["active"] == 1).then_some(()));
        agent.signal(signal);
        assert_eq!(client.reply("GET").unwrap().text(), "finished");
        assert!(agent.ended().success());
        assert!(idle.get("/").is_err(), "an idle connection stayed open");
        assert_clean(&agent, &pids);
    }
}

#[test]
fn a_head_that_never_ends_does_not_delay_the_shutdown() {
    let dir = wsgi("", "return answer('here')");
    let mut agent = Agent::start(dir.path(), &[]);
    let mut halves = [agent.client(), agent.client()];
    halves[0].get("/").unwrap();
    for client in &mut halves {
        client.send(b"GET / HTTP/1.1\r\nHo").unwrap();
    }
    // The agent accepted this request after those two, so it is reading them by now.
    agent.get("/");
    let asked = std::time::Instant::now();
    agent.signal("TERM");
    assert!(agent.ended().success());
    // --shutdown-timeout and --header-timeout are 60 s.
    assert!(asked.elapsed().as_secs() < 20, "{:?}", asked.elapsed());
}

/// Returns the command of an agent that starts with this disposition of SIGHUP, whatever the tests inherited.
fn with_sighup(action: &str, dir: &Path) -> (Command, TempDir) {
    let runtime = tempfile::tempdir().unwrap();
    let agent = start_command(runtime.path(), dir, &[]);
    let script = format!(
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.{action}); \
         os.execv(sys.argv[1], sys.argv[1:])"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]).arg(agent.get_program()).args(agent.get_args());
    for (name, value) in agent.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    (command, runtime)
}

#[test]
fn an_agent_started_with_sighup_ignored_ignores_it() {
    let dir = wsgi("", "return answer(os.getpid())");
    let (command, runtime) = with_sighup("SIG_IGN", dir.path());
    let mut agent = Agent::start_with(command, runtime);
    let pids = agent.pids();
    let status = fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    let ignored = status.lines().find_map(|l| l.strip_prefix("SigIgn:")).unwrap().trim();
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & 1, 1, "SigIgn: {ignored}");
    agent.signal("HUP");
    assert_eq!(agent.get("/"), pids[0].to_string());
    agent.signal("TERM");
    assert!(agent.ended().success());
    assert_clean(&agent, &pids);
}

#[test]
fn a_request_that_exceeds_the_shutdown_timeout_is_cut_off() {
    let dir = wsgi("", "time.sleep(30)\nreturn answer('never')");
    let mut agent = Agent::start(dir.path(), &["--shutdown-timeout", "0.3"]);
    let pids = agent.pids();
    let mut client = agent.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("a busy process", || (agent.status()["active"] == 1).then_some(()));
    agent.signal("TERM");
    assert!(agent.ended().success());
    agent.logs("--shutdown-timeout");
    assert_clean(&agent, &pids);
}

#[test]
fn two_signals_in_quick_succession_count_as_one() {
    let dir = wsgi("", "time.sleep(0.7)\nreturn answer('finished')");
    let mut agent = Agent::start(dir.path(), &[]);
    let pids = agent.pids();
    let mut client = agent.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("a busy process", || (agent.status()["active"] == 1).then_some(()));
    // `timeout` signals the process and then its group. The signals differ here, because the kernel may
    // merge two equal ones.
    let both = format!("kill -s TERM {0}; kill -s INT {0}", agent.pid());
    assert!(Command::new("sh").args(["-c", &both]).status().unwrap().success());
    assert_eq!(client.reply("GET").unwrap().text(), "finished");
    assert!(agent.ended().success());
    assert_clean(&agent, &pids);
}

#[test]
fn a_later_second_signal_ends_the_agent_at_once() {
    let dir = wsgi("", "time.sleep(30)\nreturn answer('never')");
    let mut agent = Agent::start(dir.path(), &[]);
    let pids = agent.pids();
    let mut client = agent.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("a busy process", || (agent.status()["active"] == 1).then_some(()));
    agent.signal("TERM");
    agent.logs("shutting down");
    // Repeat the signal until it comes late enough.
    let end = eventually("the agent exits", || {
        agent.signal("TERM");
        agent.has_ended()
    });
    assert_eq!(end.code(), Some(1));
    agent.logs("ended at once by a second signal");
    eventually("the end of the processes", || pids.iter().all(|p| !is_alive(*p)).then_some(()));
    assert_clean(&agent, &pids);
}

#[test]
fn the_stop_command_shuts_the_agent_down() {
    let dir = wsgi("", "return answer('ok')");
    let mut agent = Agent::start(dir.path(), &[]);
    let pids = agent.pids();
    assert!(run(agent.runtime.path(), &["stop"]).status.success());
    assert!(agent.ended().success());
    assert_clean(&agent, &pids);
}

#[test]
fn a_process_that_ignores_sigterm_is_killed() {
    let dir = wsgi(
        "import signal, threading",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
         threading.Thread(target=time.sleep, args=(60,)).start()\nreturn answer('ok')",
    );
    let mut agent = Agent::start(dir.path(), &[]);
    agent.get("/");
    let pids = agent.pids();
    agent.signal("TERM");
    assert!(agent.ended().success());
    assert_clean(&agent, &pids);
}
