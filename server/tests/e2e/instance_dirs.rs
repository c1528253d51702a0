//! The instance directory: what happens when it vanishes, and what the tools believe.

use crate::killed::reaper_of;
use crate::server::{
    Server, Signal, command, eventually, node, run, signal, start_command, through, wsgi,
};
use crate::users::is_root;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn instance_dir(server: &Server) -> PathBuf {
    let dirs: Vec<_> = fs::read_dir(server.runtime.path()).unwrap().flatten().collect();
    assert_eq!(dirs.len(), 1, "{dirs:?}");
    dirs[0].path()
}

#[test]
fn processes_stay_reachable_and_new_ones_start_after_the_directory_is_removed() {
    let apps = [
        wsgi("", "return answer(os.getpid())"),
        node("http.createServer((q, s) => s.end(String(process.pid))).listen(0);"),
    ];
    for dir in apps {
        let mut server = Server::start(dir.path(), &[]);
        let first = server.get("/");
        let old = instance_dir(&server);
        fs::remove_dir_all(&old).unwrap();
        // The running process answers new connections, so nothing has restarted it.
        assert_eq!(server.get("/"), first);
        server.logs("has been removed");
        eventually("the tools find the server", || {
            run(server.runtime.path(), &["status"]).status.success().then_some(())
        });
        assert_ne!(instance_dir(&server), old);
        // At once after the next removal, before the server looks again, a process starts.
        fs::remove_dir_all(instance_dir(&server)).unwrap();
        signal(first.parse().unwrap(), Signal::KILL);
        assert_ne!(server.get("/"), first);
        server.signal(Signal::TERM);
        assert!(server.ended().success());
        assert_eq!(fs::read_dir(server.runtime.path()).unwrap().count(), 0);
    }
}

#[test]
fn the_server_serves_on_while_it_cannot_create_a_directory() {
    let dir = wsgi("", "return answer(os.getpid())");
    let mut server = Server::start(dir.path(), &[]);
    let first = server.get("/");
    let base = server.runtime.path().to_owned();
    fs::remove_dir_all(&base).unwrap();
    server.logs("no other can be created");
    assert_eq!(server.get("/"), first);
    fs::create_dir(&base).unwrap();
    eventually("the tools find the server", || {
        run(&base, &["status"]).status.success().then_some(())
    });
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn a_directory_with_the_name_of_a_server_blocks_no_start() {
    let dir = wsgi("", "return answer('ok')");
    let runtime = tempfile::tempdir().unwrap();
    // The pid of the server is that of the shell, which makes a directory of this name first.
    let server = start_command(runtime.path(), dir.path(), &[]);
    let mut shell = std::process::Command::new("sh");
    let script = "mkdir \"$XDG_RUNTIME_DIR/cabrank.$$\" && touch \"$XDG_RUNTIME_DIR/cabrank.$$/x\" && \
                  chmod 0 \"$XDG_RUNTIME_DIR/cabrank.$$\" && exec \"$@\"";
    shell.args(["-c", script, "sh"]);
    let server = Server::start_with(through(shell, &server), runtime);
    assert_eq!(server.get("/"), "ok");
    server.status();
}

/// Makes a directory that looks like that of a running server, and answers tools with `reply`.
fn impostor(runtime: &Path, reply: Vec<u8>) -> fs::File {
    let dir = runtime.join(format!("cabrank.{}.impostor", std::process::id()));
    fs::create_dir(&dir).unwrap();
    // The tools distrust a directory that other users may open.
    fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).unwrap();
    let held = fs::File::open(&dir).unwrap();
    held.lock().unwrap();
    let listener = UnixListener::bind(dir.join("admin")).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // The tool gets an error if the connection closes before its request is read.
            let _ = stream.and_then(|mut stream| {
                let _ = stream.read(&mut [0; 4096])?;
                stream.write_all(&reply)
            });
        }
    });
    held
}

#[test]
fn the_tools_read_no_answer_without_end() {
    let runtime = tempfile::tempdir().unwrap();
    let _held = impostor(runtime.path(), vec![b'x'; 20 << 20]);
    let out = run(runtime.path(), &["status"]);
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{message}");
    assert!(message.contains("longer than"), "{message}");
}

#[test]
fn the_tools_print_no_control_characters_of_an_answer() {
    let runtime = tempfile::tempdir().unwrap();
    let _held = impostor(runtime.path(), b"{\"done\":\"a\\u001b[2Jb\"}\n".to_vec());
    let out = run(runtime.path(), &["stop"]);
    assert!(out.status.success());
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "a\u{fffd}[2Jb\n");
}

#[test]
fn root_distrusts_an_answer_of_a_user_who_does_not_own_the_directory() {
    if !is_root() {
        return;
    }
    let runtime = tempfile::tempdir().unwrap();
    let _held = impostor(runtime.path(), b"{\"done\":\"stopped\"}\n".to_vec());
    let dir = fs::read_dir(runtime.path()).unwrap().next().unwrap().unwrap().path();
    chown(dir, Some(65534), None).unwrap();
    let pid = std::process::id().to_string();
    let out = run(runtime.path(), &["stop", "--instance", &pid]);
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{message}");
    assert!(message.contains("another user"), "{message}");
}

/// Another user makes a directory with the name of an instance, or takes one, and waits there for root's tools.
const FOREIGN: &str = "import fcntl, os, socket, sys
reply, base, pid = [*sys.argv[1:], str(os.getpid())][:3]
os.setgroups([])
os.setgid(1)
os.setuid(1)
path = f'{base}/cabrank.{pid}.impostor'
if not os.path.exists(path): os.mkdir(path)
fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path + '/admin')
listener.listen()
print(flush=True)
while True:
    connection = listener.accept()[0]
    connection.recv(4096)
    connection.sendall(reply.encode() + b'\\n')
    connection.close()
";

/// A process of another user that plays a server with this pid, or with its own. Dropping it ends it.
struct Foreign(std::process::Child);

impl Foreign {
    fn start(base: &Path, pid: Option<u32>) -> Foreign {
        Foreign::start_answering(base, pid, r#"{"done":"an answer of daemon"}"#)
    }

    fn start_answering(base: &Path, pid: Option<u32>, reply: &str) -> Foreign {
        let mut python = std::process::Command::new("/usr/bin/python3");
        python.args(["-c", FOREIGN, reply]).arg(base).args(pid.map(|pid| pid.to_string()));
        let mut child = Foreign(python.stdout(std::process::Stdio::piped()).spawn().unwrap());
        child.0.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        child
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_tools_of_root_take_no_foreign_directory_for_a_server_of_root() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer('ok')");
    let mut server = Server::start(dir.path(), &[]);
    let base = server.runtime.path().to_owned();
    fs::set_permissions(&base, PermissionsExt::from_mode(0o1777)).unwrap();
    let pid = server.pid().to_string();
    let same_pid = Foreign::start(&base, Some(server.pid()));
    let other = Foreign::start(&base, None);
    // Root's own server comes first, also by its pid.
    for words in [&["status", "--json"][..], &["status", "--json", "--instance", &pid]] {
        let out = run(&base, words);
        assert!(out.status.success(), "{out:?}");
        assert!(String::from_utf8(out.stdout).unwrap().contains("\"groups\""));
    }
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    let tool = |words: &[&str]| {
        let out = run(&base, words);
        let text = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (out.status.code(), text)
    };
    // Without a server of its own, root must name the other one.
    let (code, text) = tool(&["stop"]);
    assert_eq!(code, Some(3), "{text}");
    let other_pid = other.0.id();
    assert!(text.contains(&format!("{other_pid} of the user daemon")), "{text}");
    // The pid in the name is the pid of another process.
    let (code, text) = tool(&["stop", "--instance", &pid]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("of the user daemon does not answer: another process"), "{text}");
    // The answer is the word of another user, whom standard error names.
    let out = run(&base, &["stop", "--instance", &other_pid.to_string()]);
    let [answer, owner] = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(answer, "an answer of daemon\n");
    assert_eq!(owner, format!("cabrank: the server {other_pid} of the user daemon answers:\n"));
    drop((same_pid, other));
}

/// Each tool prints one owner, and no control character. A report stays valid JSON, and a refusal is an answer, too.
#[test]
fn each_tool_of_root_names_the_owner_of_a_server_of_another_user() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    fs::set_permissions(base.path(), PermissionsExt::from_mode(0o1777)).unwrap();
    let report = r#"{"status":{"version":"\u001b[2J","date":"","instance":1,"address":"127.0.0.1:1","app_type":"",
        "environment":"","uptime":0,"memory":null,"max_pool_size":1,"processes":0,"active":0,"spawning":0,"draining":0,
        "requests_in_queue":0,"groups":[{"name":"\u009b2J\r","app_root":"","environment":"","min_instances":0,
        "requests_in_queue":0,"spawning":false,"restarting":false,"back_off":null,"last_error":"\u001b\n","processes":[]}]}}"#;
    let replies = [
        &report.replace('\n', ""),
        r#"{"done":"\u001bdone"}"#,
        r#"{"refused":"\u001bno"}"#,
        r#"{"\u001b":0}"#,
    ];
    for reply in replies {
        let other = Foreign::start_answering(base.path(), None, reply);
        let pid = other.0.id().to_string();
        for words in [
            &["status"][..],
            &["status", "--json"],
            &["stop"],
            &["restart"],
            &["detach", "1"],
            &["disable", "1"],
            &["enable", "1"],
        ] {
            let out = run(base.path(), &[words, &["--instance", &pid]].concat());
            let [stdout, stderr] =
                [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap());
            let owner = format!("{pid} of the user daemon ");
            assert_eq!(stderr.matches(&owner).count(), 1, "{words:?}, {reply}: {stdout}{stderr}");
            let is_bad = |c: char| c.is_control() && c != '\n';
            assert!(
                !stdout.contains(is_bad) && !stderr.contains(is_bad),
                "{words:?}, {reply}: {stdout:?}{stderr:?}"
            );
            if words.len() == 2 && words[1] == "--json" && out.status.success() {
                assert_eq!(
                    serde_json::from_str::<serde_json::Value>(&stdout).unwrap()["instance"],
                    1
                );
            }
        }
    }
}

/// Another user may move a directory of root's to such a name if it may write to it, or if its parent is the user's.
#[test]
fn a_directory_of_root_that_another_user_has_locked_makes_no_choice_of_root_ambiguous() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer('ok')");
    let mut server = Server::start(dir.path(), &[]);
    let base = server.runtime.path().to_owned();
    fs::set_permissions(&base, PermissionsExt::from_mode(0o1777)).unwrap();
    let theirs = tempfile::tempdir().unwrap();
    let pid = server.pid();
    let locked = |base: &Path, pid, mode| {
        let path = base.join(format!("cabrank.{pid}.impostor"));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
        chown(theirs.path(), Some(1), Some(1)).unwrap();
        let held = Foreign::start(base, Some(pid));
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        held
    };
    let _held =
        [locked(&base, pid, 0o777), locked(&base, 1, 0o777), locked(theirs.path(), pid, 0o711)];
    let tool = |words: &[&str]| {
        let mut command = command(&base, words);
        command.env("XDG_RUNTIME_DIR", theirs.path()).env("TMPDIR", &base);
        let out = command.output().unwrap();
        let text = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (out.status.code(), text)
    };
    let pid = pid.to_string();
    for words in [&["status"][..], &["status", "--instance", &pid]] {
        let (code, text) = tool(words);
        assert_eq!(code, Some(0), "{text}");
    }
    // A server in a directory of root must be root's.
    let (code, text) = tool(&["stop", "--instance", "1"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("(other users may open it) does not answer: another user"), "{text}");
    assert_eq!(tool(&["stop"]), (Some(0), "The server is shutting down.\n".into()));
    assert!(server.ended().success());
    let (code, text) = tool(&["stop"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("users other than root may rename directories there"), "{text}");
}

#[test]
fn the_restart_command_leaves_links_and_their_targets_alone() {
    let dir = wsgi("", "return answer(os.getpid())");
    let server = Server::start(dir.path(), &[]);
    let file = dir.path().join("tmp/restart.txt");
    std::os::unix::fs::symlink(dir.path().join("new"), &file).unwrap();
    let first = server.get("/");
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    eventually("a new process", || (server.get("/") != first).then_some(()));
    assert!(file.is_symlink() && !dir.path().join("new").exists());
}

/// `strace` makes the removal by the reaper slow, so that the server's look at its directory comes meanwhile.
#[test]
fn a_look_at_the_directory_during_its_removal_is_no_error() {
    let dir = wsgi("", "return answer(os.getpid())");
    let mut server = Server::start(dir.path(), &[]);
    let mut tracer = Command::new("strace")
        .args([
            "-f",
            "-e",
            "trace=unlinkat,rmdir",
            "-e",
            "inject=unlinkat,rmdir:delay_enter=300000",
            "-p",
        ])
        .arg(reaper_of(&server).to_string())
        .stderr(Stdio::piped())
        .spawn()
        .expect("strace is installed, or `cargo xtask test` leaves this test out");
    let mut said = BufReader::new(tracer.stderr.take().unwrap()).lines();
    if !said.next().is_some_and(|line| line.is_ok_and(|line| line.contains("attached"))) {
        let _ = tracer.wait();
        return println!("skipped: strace cannot trace the reaper");
    }
    let reader = std::thread::spawn(move || said.count());
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    tracer.wait().unwrap();
    reader.join().unwrap();
    let log = server.log();
    assert!(log.contains("shut down") && !log.contains("ERROR"), "{log}");
    assert_eq!(fs::read_dir(server.runtime.path()).unwrap().count(), 0);
}

/// Files in the temporary directory above the loader are another user's: a `package.json`, and what a shim of rbenv looks
/// for beside the first argument that is a file.
#[test]
fn no_file_above_the_loader_decides_how_it_runs() {
    let dir = node("http.createServer((q, s) => s.end('served')).listen(0);");
    let runtime = tempfile::tempdir().unwrap();
    fs::write(runtime.path().join("package.json"), "{\"type\": \"module\"}").unwrap();
    let server = Server::start_with(start_command(runtime.path(), dir.path(), &[]), runtime);
    assert_eq!(server.get("/"), "served");

    let dir = wsgi("", "return answer('served')");
    let (shim, found) = (dir.path().join("shim"), dir.path().join("found"));
    let script = format!(
        "#!/bin/sh\nfor arg; do case \"$arg\" in --) break;; */*) echo \"$arg\" > {}; break;; esac; done\n\
         exec python3 \"$@\"\n",
        found.display()
    );
    fs::write(&shim, script).unwrap();
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(dir.path(), &["--python", shim.to_str().unwrap()]);
    assert_eq!(server.get("/"), "served");
    assert!(!found.exists(), "{:?}", fs::read_to_string(&found));
}

#[test]
fn a_command_whose_directory_of_sockets_was_removed_does_not_go_on_booting() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tempfile::tempdir().unwrap();
    let removal = format!("rm -r {}/*; : $SOCKET; sleep 600", runtime.path().display());
    let out = crate::wrong_input::in_time(&mut start_command(
        runtime.path(),
        dir.path(),
        &["--start-command", &removal],
    ));
    let error = String::from_utf8(out.stderr).unwrap();
    assert!(error.contains("the directory of its socket was removed"), "{error}");
}
