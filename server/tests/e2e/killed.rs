//! A killed server leaves nothing behind: no process, however busy, and no file.
//!
//! Also: what processes inherit from the server, and orphans that the server inherits.

use crate::server::{
    Server, Signal, after, app, children_of, command_line, eventually, is_alive, node, run, signal,
    start_command, wsgi,
};
use cabrank_checks_harness::processes;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Waits until the processes and the files of a killed server are gone.
#[track_caller]
fn nothing_is_left(server: &Server, pids: &[u32]) {
    for &pid in pids {
        eventually(&format!("the end of {pid}: {}", command_line(pid)), || {
            (!is_alive(pid)).then_some(())
        });
    }
    eventually("an empty directory", || {
        let left = fs::read_dir(server.runtime.path()).unwrap().count();
        (left == 0).then_some(())
    });
}

pub(crate) fn reaper_of(server: &Server) -> u32 {
    find_reaper(server).expect("a reaper")
}

fn find_reaper(server: &Server) -> Option<u32> {
    let dir = server.runtime.path().to_str().unwrap();
    let is_it = |pid: &u32| {
        let line = command_line(*pid);
        line.contains("__reaper") && line.contains(dir)
    };
    processes::all().into_keys().find(is_it)
}

#[test]
fn no_busy_process_survives_a_killed_server() {
    let apps = [
        wsgi("", "if path == '/busy':\n    while True: pass\nreturn answer(os.getpid())"),
        wsgi("", "if path == '/busy': time.sleep(600)\nreturn answer(os.getpid())"),
        node(
            "http.createServer((q, s) => { if (q.url == '/busy') for (;;); s.end('ok') }).listen(0);",
        ),
    ];
    for dir in apps {
        let mut server = Server::start(dir.path(), &["--min-instances", "2"]);
        let pids = eventually("two processes", || {
            let pids = server.children();
            (server.pids().len() == 2 && pids.len() == 2).then_some(pids)
        });
        let mut client = server.client();
        client.send(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        eventually("a busy process", || (server.status()["active"] == 1).then_some(()));
        server.signal(Signal::KILL);
        server.ended();
        nothing_is_left(&server, &pids);
    }
}

#[test]
fn no_process_of_a_process_survives_a_killed_server() {
    let dir = wsgi(
        "import subprocess\nhelper = subprocess.Popen(['sleep', '600'])",
        "return answer(helper.pid)",
    );
    // The leader of the group is a shell, and the interpreter is its child.
    let python = dir.path().join("python");
    fs::write(&python, "#!/bin/sh\npython3 \"$@\"\nexit $?\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&python, mode).unwrap();
    let mut server = Server::start(dir.path(), &["--python", python.to_str().unwrap()]);
    let helper: u32 = server.get("/").parse().unwrap();
    let shell = server.children()[0];
    let pids = [vec![helper, shell, reaper_of(&server)], children_of(shell)].concat();
    assert_eq!(pids.len(), 4);
    server.signal(Signal::KILL);
    server.ended();
    nothing_is_left(&server, &pids);
}

/// The main thread of the helper has ended (`pthread_exit`), so `/proc` shows the state of a zombie.
#[test]
fn no_helper_survives_a_killed_server_by_the_end_of_its_main_thread() {
    let dir = wsgi(
        "import subprocess\n\
         code = 'import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); \
         ctypes.CDLL(None).pthread_exit(None)'\n\
         helper = subprocess.Popen(['python3', '-c', code])",
        "return answer(helper.pid)",
    );
    let mut server = Server::start(dir.path(), &[]);
    let helper: u32 = server.get("/").parse().unwrap();
    let state = || processes::all().get(&helper).map(|stat| (stat.state, stat.num_threads));
    eventually("the end of its main thread", || (state() == Some(('Z', 2))).then_some(()));
    server.signal(Signal::KILL);
    server.ended();
    nothing_is_left(&server, &[helper]);
}

/// When the leader ends, the helper leaves its work to a child. The kernel signals that end (PR_SET_PDEATHSIG).
const DODGES: &str = "import ctypes, os, signal, time\n\
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n\
    ctypes.CDLL(None).prctl(1, signal.SIGUSR1, 0, 0, 0)\n\
    print(flush=True)\n\
    signal.sigwait([signal.SIGUSR1])\n\
    if os.fork(): os._exit(0)\n\
    time.sleep(600)\n";

const STARTS_IT: &str = "import subprocess\n\
    helper = subprocess.Popen(['python3', 'helper.py'], stdout=subprocess.PIPE)\n\
    helper.stdout.readline()\n";

/// Kills the server after `start` has returned the leaders of its groups. No process of the groups may survive, although none is
/// older than the server's end.
fn no_heir_survives(text: &str, mut start: impl FnMut(&Path) -> (Server, Vec<u32>)) {
    if !Path::new("/proc/self/autogroup").exists() {
        println!("skipped: this kernel does not number sessions");
        return;
    }
    let mut survivors = Vec::new();
    for _ in 0..10 {
        let dir = wsgi(&[STARTS_IT, text].concat(), "return answer('ok')");
        fs::write(dir.path().join("helper.py"), DODGES).unwrap();
        let (mut server, leaders) = start(dir.path());
        server.signal(Signal::KILL);
        server.ended();
        // The reaper removes the directory after it has killed the groups.
        nothing_is_left(&server, &leaders);
        let all = processes::all().into_iter();
        let members = all.filter(|(_, stat)| leaders.contains(&stat.pgrp.cast_unsigned()));
        survivors.extend(members.map(|(pid, _)| pid).filter(|&pid| is_alive(pid)));
    }
    survivors.iter().for_each(|&pid| signal(pid, Signal::KILL));
    assert!(survivors.is_empty(), "{survivors:?}");
}

#[test]
fn no_helper_survives_a_killed_server_by_a_fork_at_the_end_of_its_leader() {
    no_heir_survives("", |dir| {
        let server = Server::start(dir, &["--min-instances", "4"]);
        let four = || Some(server.pids()).filter(|pids| pids.len() == 4);
        let leaders = eventually("four processes", four);
        (server, leaders)
    });
}

#[test]
fn no_helper_of_a_process_that_boots_survives_a_killed_server_by_a_fork() {
    // The first process becomes ready, and the others do not.
    let hangs = "try: os.mkdir('first')\nexcept FileExistsError: os.mkdir(f'boots.{os.getpid()}'); time.sleep(600)";
    no_heir_survives(hangs, |dir| {
        let server = Server::start(dir, &["--min-instances", "2"]);
        let boots = |pid: &u32| dir.join(format!("boots.{pid}")).exists();
        let leader = eventually("a booting process", || server.children().into_iter().find(boots));
        (server, vec![leader])
    });
}

#[test]
fn a_process_that_boots_does_not_survive_a_killed_server() {
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
fn processes_end_with_the_server_even_without_the_reaper() {
    let dir = node(
        "http.createServer((q, s) => { if (q.url == '/busy') for (;;); s.end('ok') }).listen(0);",
    );
    let mut server = Server::start(dir.path(), &[]);
    // The server would replace a reaper that has ended.
    let reaper = reaper_of(&server);
    signal(reaper, Signal::STOP);
    assert_eq!(server.get("/"), "ok");
    let pids = server.children();
    let mut client = server.client();
    client.send(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("a busy process", || (server.status()["active"] == 1).then_some(()));
    server.signal(Signal::KILL);
    server.ended();
    eventually("the end of the process", || (!is_alive(pids[0])).then_some(()));
    signal(reaper, Signal::KILL);
}

/// An application that works on `/loop` without an end, sleeps on `/sleep`, and answers others.
const HANGS_IN_PYTHON: &str = "import time\n\
     def hang(path):\n    \
         while path == '/loop': pass\n    \
         if path == '/sleep': time.sleep(600)\n\
     def application(environ, start_response):\n    \
         hang(environ['PATH_INFO'])\n    \
         start_response('200 OK', [])\n    \
         return [b'ok']\n";

const HANGS_IN_ASGI: &str = "import time\n\
    async def app(scope, receive, send):\n    \
        assert scope['type'] == 'http'\n    \
        while scope['path'] == '/loop': pass\n    \
        if scope['path'] == '/sleep': time.sleep(600)\n    \
        await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n    \
        await send({'type': 'http.response.body', 'body': b'ok'})\n";

const HANGS_IN_RUBY: &str = "run(lambda do |env|\n\
    loop {} if env['PATH_INFO'] == '/loop'\n\
    sleep(600) if env['PATH_INFO'] == '/sleep'\n\
    [200, {}, ['ok']]\n\
    end)\n";

const HANGS_IN_NODE: &str = "require('http').createServer((q, s) => {\n\
    while (q.url === '/loop');\n\
    if (q.url === '/sleep') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);\n\
    s.end('ok');\n\
    }).listen(0);\n";

const HANGS_IN_A_COMMAND: &str = "import http.server, sys, time\n\
    class Handler(http.server.BaseHTTPRequestHandler):\n    \
        def do_GET(self):\n        \
            while self.path == '/loop': pass\n        \
            if self.path == '/sleep': time.sleep(600)\n        \
            self.send_response(200)\n        \
            self.send_header('Content-Length', '2')\n        \
            self.end_headers()\n        \
            self.wfile.write(b'ok')\n\
    http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()\n";

/// Kills the server and its reaper together, while a process hangs and another one is idle. No process may survive.
fn no_leader_survives(file: &str, text: &str, options: &[&str]) {
    for path in ["/loop", "/sleep"] {
        let dir = app(file, text);
        let options = [options, &["--min-instances", "2", "--max-pool-size", "2"]].concat();
        let mut server = Server::start(dir.path(), &options);
        eventually("two processes", || (server.pids().len() == 2).then_some(()));
        let mut client = server.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        eventually("a busy process", || (server.status()["active"] == 1).then_some(()));
        let children = server.children();
        let reaper = reaper_of(&server);
        // A server that is stopped replaces no reaper.
        server.signal(Signal::STOP);
        signal(reaper, Signal::KILL);
        server.signal(Signal::KILL);
        server.ended();
        for pid in children {
            eventually(&format!("the end of {pid}: {}", command_line(pid)), || {
                (!is_alive(pid)).then_some(())
            });
        }
    }
}

const SMART: [&str; 2] = ["--spawn-method", "smart"];

#[test]
fn no_process_of_wsgi_survives_the_server_and_the_reaper() {
    no_leader_survives("passenger_wsgi.py", HANGS_IN_PYTHON, &[]);
    no_leader_survives("passenger_wsgi.py", HANGS_IN_PYTHON, &SMART);
}

#[test]
fn no_process_of_asgi_survives_the_server_and_the_reaper() {
    no_leader_survives("asgi.py", HANGS_IN_ASGI, &[]);
    no_leader_survives("asgi.py", HANGS_IN_ASGI, &SMART);
}

#[test]
fn no_process_of_rack_survives_the_server_and_the_reaper() {
    no_leader_survives("config.ru", HANGS_IN_RUBY, &[]);
    no_leader_survives("config.ru", HANGS_IN_RUBY, &SMART);
}

#[test]
fn no_process_of_node_survives_the_server_and_the_reaper() {
    no_leader_survives("app.js", HANGS_IN_NODE, &[]);
}

#[test]
fn no_process_of_a_command_survives_the_server_and_the_reaper() {
    let command = ["--start-command", "python3 app.py $PORT"];
    no_leader_survives("app.py", HANGS_IN_A_COMMAND, &command);
}

#[test]
fn another_reaper_takes_the_place_of_one_that_was_killed() {
    let dir = wsgi(
        "import subprocess\nhelper = subprocess.Popen(['sleep', '600'])",
        "return answer(helper.pid)",
    );
    let mut server = Server::start(dir.path(), &[]);
    let helper: u32 = server.get("/").parse().unwrap();
    let first = fs::read_dir(server.runtime.path()).unwrap().next().unwrap().unwrap().path();
    fs::remove_dir_all(&first).unwrap();
    let current = eventually("another directory", || {
        fs::read_dir(server.runtime.path())
            .unwrap()
            .flatten()
            .map(|e| e.path())
            .find(|p| *p != first)
    });
    signal(reaper_of(&server), Signal::KILL);
    let knows = |pid: u32| command_line(pid).contains(current.to_str().unwrap());
    let reaper = eventually("another reaper", || {
        find_reaper(&server).filter(|&pid| is_alive(pid) && knows(pid))
    });
    server.logs("another one takes its place");
    server.signal(Signal::KILL);
    server.ended();
    nothing_is_left(&server, &[helper, reaper]);
}

/// It would take a process group that has ended for one that lives, and kill another program with its pid.
#[test]
fn a_reaper_that_has_missed_a_note_is_replaced() {
    let dir = wsgi(
        "import subprocess\nhelper = subprocess.Popen(['sleep', '600'])",
        "return answer([os.getpid(), helper.pid])",
    );
    let mut server = Server::start(dir.path(), &["--max-pool-size", "1"]);
    let pids = || -> Vec<u32> { serde_json::from_str(&server.get("/")).unwrap() };
    let (first, old) = (pids()[0], reaper_of(&server));
    signal(old, Signal::STOP);
    let fill = "import os, sys\npipe = os.open(f'/proc/{sys.argv[1]}/fd/0', os.O_WRONLY | os.O_NONBLOCK)\n\
                try:\n    while True: os.write(pipe, b'\\n')\nexcept BlockingIOError: pass";
    let filled = Command::new("python3").args(["-c", fill, &old.to_string()]).status();
    assert!(filled.unwrap().success());
    signal(first, Signal::KILL);
    server.logs("another one takes its place");
    let now = pids();
    assert!(now[0] != first && !is_alive(old) && reaper_of(&server) != old);
    server.signal(Signal::KILL);
    server.ended();
    nothing_is_left(&server, &now);
}

#[test]
fn the_reaper_ends_with_the_server_and_survives_other_signals() {
    let dir = wsgi("", "return answer('ok')");
    let mut server = Server::start(dir.path(), &[]);
    let reaper = reaper_of(&server);
    for name in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        signal(reaper, name);
    }
    assert_eq!(server.get("/"), "ok");
    assert!(is_alive(reaper));
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    eventually("the end of the reaper", || (!is_alive(reaper)).then_some(()));
}

#[test]
fn applications_inherit_no_descriptor_of_the_servers_parent() {
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
    let server = Server::start_with(command, runtime);
    let has_secret = |pid: u32| {
        let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        links.into_iter().any(|l| fs::read_link(l.path()).is_ok_and(|to| to == secret))
    };
    assert!(has_secret(server.pid()), "the test passes no descriptor on");
    assert!(!server.get("/").contains("secret"));
    assert!(!has_secret(reaper_of(&server)));
    fs::remove_file(secret).unwrap();
}

#[test]
fn applications_have_the_limit_of_open_files_that_the_server_was_started_with() {
    let runtime = tempfile::tempdir().unwrap();
    let dir = wsgi(
        "import resource",
        "return answer((os.getpid(), resource.getrlimit(resource.RLIMIT_NOFILE)))",
    );
    let limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2048))";
    let command = after(limit, &start_command(runtime.path(), dir.path(), &[]));
    let server = Server::start_with(command, runtime);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let raised: Vec<_> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(raised, ["2048", "2048"], "the server's own limits");
    // The first process begins before the server raises its limit, and the second one afterwards.
    for _ in 0..2 {
        let pid = eventually("a process", || server.pids().first().copied());
        assert_eq!(server.get("/"), format!("({pid}, (256, 2048))"));
        signal(pid, Signal::KILL);
        server.logs(&format!("process {pid} ended unexpectedly: signal: 9"));
    }
}

#[test]
fn orphans_are_reaped_by_a_server_that_gets_them() {
    // Python's `start_new_session` is `setsid`: the grandchild survives its parent.
    let dir = wsgi(
        "import subprocess",
        "if path == '/orphan':\n    p = subprocess.run(['sh', '-c', \
         'setsid sleep 0.2 >/dev/null 2>&1 & echo $!'], stdout=subprocess.PIPE)\n    \
         return answer(int(p.stdout))\nreturn answer('ok')",
    );
    let runtime = tempfile::tempdir().unwrap();
    // PR_SET_CHILD_SUBREAPER: the server gets orphans as process 1 of a container does.
    let adopt = "import ctypes; assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0";
    let command = after(adopt, &start_command(runtime.path(), dir.path(), &[]));
    let mut server = Server::start_with(command, runtime);
    for _ in 0..5 {
        let orphan: u32 = server.get("/orphan").parse().unwrap();
        eventually("no zombie", || (!Path::new(&format!("/proc/{orphan}")).exists()).then_some(()));
    }
    // The server's own children still have their exit status.
    let pids = server.pids();
    signal(pids[0], Signal::KILL);
    server.logs("ended unexpectedly: signal: 9");
    assert_eq!(server.get("/"), "ok");
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

/// The kernel names the leader again and again, which the server reaps after the last member of its group.
#[test]
fn orphans_are_reaped_while_the_rest_of_a_group_outlives_its_leader() {
    let dir = app(
        "server.py",
        "import os, subprocess\n\
         from http.server import BaseHTTPRequestHandler, HTTPServer\n\
         class Handler(BaseHTTPRequestHandler):\n    \
             def do_GET(self):\n        \
                 p = subprocess.run(['sh', '-c', 'setsid sleep 0.2 >/dev/null 2>&1 & echo $!'], stdout=subprocess.PIPE)\n        \
                 self.send_response(200)\n        \
                 self.end_headers()\n        \
                 self.wfile.write(p.stdout.strip())\n\
         subprocess.Popen(['sh', '-c', 'trap \"\" TERM; sleep 1000'])\n\
         HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()\n",
    );
    let runtime = tempfile::tempdir().unwrap();
    let adopt = "import ctypes; assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0";
    let options = ["--start-command", "exec python3 server.py", "--drain-timeout", "1000"];
    let command = after(adopt, &start_command(runtime.path(), dir.path(), &options));
    let server = Server::start_with(command, runtime);
    assert!(server.get("/").parse::<u32>().is_ok());
    let leader = server.pids()[0];
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    let is_zombie = |pid| processes::all().get(&pid).is_some_and(|stat| stat.state == 'Z');
    eventually("the old leader ends", || is_zombie(leader).then_some(()));
    for _ in 0..3 {
        let orphan: u32 = server.get("/").parse().unwrap();
        eventually("no zombie", || (!Path::new(&format!("/proc/{orphan}")).exists()).then_some(()));
    }
    assert!(is_zombie(leader), "the rest of its group has ended too early");
}
