//! A killed agent leaves nothing behind: no process, however busy, and no file.
//!
//! Also: what processes inherit from the agent, and orphans that the agent inherits.

use crate::agent::{
    Agent, children_of, command_line, eventually, is_alive, node, signal, start_command, wsgi,
};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Waits until the processes and the files of a killed agent are gone.
#[track_caller]
fn nothing_is_left(agent: &Agent, pids: &[u32]) {
    for &pid in pids {
        eventually(&format!("the end of {pid}: {}", command_line(pid)), || {
            (!is_alive(pid)).then_some(())
        });
    }
    eventually("an empty directory", || {
        let left = fs::read_dir(agent.runtime.path()).unwrap().count();
        (left == 0).then_some(())
    });
}

fn watchdog_of(agent: &Agent) -> u32 {
    find_watchdog(agent).expect("a watchdog")
}

fn find_watchdog(agent: &Agent) -> Option<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
    let dir = agent.runtime.path().to_str().unwrap();
    let is_it = |pid: &u32| {
        let line = command_line(*pid);
        line.contains("__watchdog") && line.contains(dir)
    };
    pids.into_iter().find(is_it)
}

#[test]
fn no_busy_process_survives_a_killed_agent() {
    let apps = [
        wsgi("", "if path == '/busy':\n    while True: pass\nreturn answer(os.getpid())"),
        wsgi("", "if path == '/busy': time.sleep(600)\nreturn answer(os.getpid())"),
        node(
            "http.createServer((q, s) => { if (q.url == '/busy') for (;;); s.end('ok') }).listen(0);",
        ),
    ];
    for dir in apps {
        let mut agent = Agent::start(dir.path(), &["--min-instances", "2"]);
        let pids = eventually("two processes", || {
            let pids = agent.children();
            (agent.pids().len() == 2 && pids.len() == 2).then_some(pids)
        });
        let mut client = agent.client();
        client.send(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        eventually("a busy process", || (agent.status()["active"] == 1).then_some(()));
        agent.signal("KILL");
        agent.ended();
        nothing_is_left(&agent, &pids);
    }
}

#[test]
fn no_process_of_a_process_survives_a_killed_agent() {
    let dir = wsgi(
        "import subprocess\nhelper = subprocess.Popen(['sleep', '600'])",
        "return answer(helper.pid)",
    );
    // The leader of the group is a shell, and the interpreter is its child.
    let python = dir.path().join("python");
    fs::write(&python, "#!/bin/sh\npython3 \"$@\"\nexit $?\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&python, mode).unwrap();
    let mut agent = Agent::start(dir.path(), &["--python", python.to_str().unwrap()]);
    let helper: u32 = agent.get("/").parse().unwrap();
    let shell = agent.children()[0];
    let pids = [vec![helper, shell, watchdog_of(&agent)], children_of(shell)].concat();
    assert_eq!(pids.len(), 4);
    agent.signal("KILL");
    agent.ended();
    nothing_is_left(&agent, &pids);
}

#[test]
fn a_process_that_boots_does_not_survive_a_killed_agent() {
    let dir = wsgi("open('booting', 'w').close()\nwhile True: pass", "");
    let runtime = tempfile::tempdir().unwrap();
    let mut child = start_command(runtime.path(), dir.path(), &[]).spawn().unwrap();
    eventually("a booting process", || dir.path().join("booting").exists().then_some(()));
    let pids = children_of(child.id());
    assert_eq!(pids.len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the end of the process", || (!is_alive(pids[0])).then_some(()));
}

#[test]
fn processes_end_with_the_agent_even_without_the_watchdog() {
    let dir = node(
        "http.createServer((q, s) => { if (q.url == '/busy') for (;;); s.end('ok') }).listen(0);",
    );
    let mut agent = Agent::start(dir.path(), &[]);
    // The agent would replace a watchdog that has ended.
    let watchdog = watchdog_of(&agent);
    signal(watchdog, "STOP");
    assert_eq!(agent.get("/"), "ok");
    let pids = agent.children();
    let mut client = agent.client();
    client.send(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("a busy process", || (agent.status()["active"] == 1).then_some(()));
    agent.signal("KILL");
    agent.ended();
    eventually("the end of the process", || (!is_alive(pids[0])).then_some(()));
    signal(watchdog, "KILL");
}

#[test]
fn another_watchdog_takes_the_place_of_one_that_was_killed() {
    let dir = wsgi(
        "import subprocess\nhelper = subprocess.Popen(['sleep', '600'])",
        "return answer(helper.pid)",
    );
    let mut agent = Agent::start(dir.path(), &[]);
    let helper: u32 = agent.get("/").parse().unwrap();
    let first = fs::read_dir(agent.runtime.path()).unwrap().next().unwrap().unwrap().path();
    fs::remove_dir_all(&first).unwrap();
    let current = eventually("another directory", || {
        fs::read_dir(agent.runtime.path())
            .unwrap()
            .flatten()
            .map(|e| e.path())
            .find(|p| *p != first)
    });
    signal(watchdog_of(&agent), "KILL");
    let knows = |pid: u32| command_line(pid).contains(current.to_str().unwrap());
    let watchdog = eventually("another watchdog", || {
        find_watchdog(&agent).filter(|&pid| is_alive(pid) && knows(pid))
    });
    agent.logs("another one takes its place");
    agent.signal("KILL");
    agent.ended();
    nothing_is_left(&agent, &[helper, watchdog]);
}

#[test]
fn the_watchdog_ends_with_the_agent_and_survives_other_signals() {
    let dir = wsgi("", "return answer('ok')");
    let mut agent = Agent::start(dir.path(), &[]);
    let watchdog = watchdog_of(&agent);
    for name in ["TERM", "INT", "HUP", "QUIT"] {
        signal(watchdog, name);
    }
    assert_eq!(agent.get("/"), "ok");
    assert!(is_alive(watchdog));
    agent.signal("TERM");
    assert!(agent.ended().success());
    eventually("the end of the watchdog", || (!is_alive(watchdog)).then_some(()));
}

/// Returns a command that runs Python code and then executes `agent`.
fn after(code: &str, agent: &Command) -> Command {
    let mut command = Command::new("python3");
    let code = format!("import os, sys\n{code}\nos.execv(sys.argv[1], sys.argv[1:])");
    command.args(["-c", &code]).arg(agent.get_program()).args(agent.get_args());
    for (name, value) in agent.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn applications_inherit_no_descriptor_of_the_agents_parent() {
    let runtime = tempfile::tempdir().unwrap();
    let dir = wsgi(
        "",
        "links = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') \
         if os.path.exists(f'/proc/self/fd/{n}')]\nreturn answer(links)",
    );
    let secret = runtime.path().join("secret");
    fs::write(&secret, "").unwrap();
    let open = format!(
        "for fd in 5, 42: os.dup2(os.open({:?}, os.O_RDONLY), fd, inheritable=True)",
        secret.to_str().unwrap()
    );
    let command = after(&open, &start_command(runtime.path(), dir.path(), &[]));
    let agent = Agent::start_with(command, runtime);
    let has_secret = |pid: u32| {
        let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        links.into_iter().any(|l| fs::read_link(l.path()).is_ok_and(|to| to == secret))
    };
    assert!(has_secret(agent.pid()), "the test passes no descriptor on");
    assert!(!agent.get("/").contains("secret"));
    assert!(!has_secret(watchdog_of(&agent)));
    fs::remove_file(secret).unwrap();
}

#[test]
fn applications_have_the_limit_of_open_files_that_the_agent_was_started_with() {
    let runtime = tempfile::tempdir().unwrap();
    let dir = wsgi(
        "import resource",
        "return answer((os.getpid(), resource.getrlimit(resource.RLIMIT_NOFILE)))",
    );
    let limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2048))";
    let command = after(limit, &start_command(runtime.path(), dir.path(), &[]));
    let agent = Agent::start_with(command, runtime);
    let limits = fs::read_to_string(format!("/proc/{}/limits", agent.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let raised: Vec<_> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(raised, ["2048", "2048"], "the agent's own limits");
    // The first process begins before the agent raises its limit, and the second one afterwards.
    for _ in 0..2 {
        let pid = eventually("a process", || agent.pids().first().copied());
        assert_eq!(agent.get("/"), format!("({pid}, (256, 2048))"));
        signal(pid, "KILL");
        agent.logs(&format!("process {pid} ended unexpectedly: signal: 9"));
    }
}

#[test]
fn orphans_are_reaped_by_an_agent_that_gets_them() {
    // Python's `start_new_session` is `setsid`: the grandchild survives its parent.
    let dir = wsgi(
        "import subprocess",
        "if path == '/orphan':\n    p = subprocess.run(['sh', '-c', \
         'setsid sleep 0.2 >/dev/null 2>&1 & echo $!'], stdout=subprocess.PIPE)\n    \
         return answer(int(p.stdout))\nreturn answer('ok')",
    );
    let runtime = tempfile::tempdir().unwrap();
    // PR_SET_CHILD_SUBREAPER: the agent gets orphans as process 1 of a container does.
    let adopt = "import ctypes; assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0";
    let command = after(adopt, &start_command(runtime.path(), dir.path(), &[]));
    let mut agent = Agent::start_with(command, runtime);
    for _ in 0..5 {
        let orphan: u32 = agent.get("/orphan").parse().unwrap();
        eventually("no zombie", || (!Path::new(&format!("/proc/{orphan}")).exists()).then_some(()));
    }
    // The agent's own children still have their exit status.
    let pids = agent.pids();
    signal(pids[0], "KILL");
    agent.logs("ended unexpectedly: signal: 9");
    assert_eq!(agent.get("/"), "ok");
    agent.signal("TERM");
    assert!(agent.ended().success());
}
