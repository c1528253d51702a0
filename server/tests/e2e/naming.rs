//! The names of a server: the tools find it by its pid, name, directory, port and socket, and list all.

use crate::server::{Server, Signal, command, eventually, run, start_command, wsgi};
use crate::users::is_root;
use crate::wrong_input::in_time;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Runs a tool. Returns its exit code and all that it has printed.
fn tool(runtime: &Path, words: &[&str]) -> (i32, String) {
    let out = run(runtime, words);
    let text = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (out.status.code().unwrap(), text)
}

fn listed(runtime: &Path) -> Vec<Value> {
    let (code, text) = tool(runtime, &["list", "--json"]);
    assert_eq!(code, 0, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Starts a server that the tools of another one find, too.
fn beside(server: &Server, dir: &Path, options: &[&str]) -> Server {
    let command = start_command(server.runtime.path(), dir, options);
    Server::start_with(command, tempfile::tempdir().unwrap())
}

#[test]
fn a_server_is_addressed_by_each_of_its_names() {
    let (dir, other_dir) = (wsgi("", "return answer(1)"), wsgi("", "return answer(2)"));
    let server = Server::start(dir.path(), &[]);
    let other = beside(&server, other_dir.path(), &["--name", "blog", "--socket", "blog.sock"]);
    let runtime = server.runtime.path().to_owned();
    let instance = |word: &str| {
        let (code, text) = tool(&runtime, &["status", "--json", "--instance", word]);
        assert_eq!(code, 0, "{word}: {text}");
        let status: Value = serde_json::from_str(&text).unwrap();
        (status["instance"].as_u64().unwrap() as u32, status["name"].as_str().unwrap().to_owned())
    };
    let base = dir.path().file_name().unwrap().to_str().unwrap();
    let path = dir.path().to_str().unwrap();
    for word in [
        base,
        path,
        &format!("{path}/."),
        &server.address.port().to_string(),
        &server.pid().to_string(),
    ] {
        assert_eq!(instance(word), (server.pid(), base.to_owned()), "{word}");
    }
    let socket = other_dir.path().join("blog.sock");
    for word in ["blog", socket.to_str().unwrap(), &format!("http://{}", other.address)] {
        assert_eq!(instance(word), (other.pid(), "blog".to_owned()), "{word}");
    }
    let (code, text) = tool(&runtime, &["stop"]);
    assert_eq!(code, 2, "{text}");
    let candidates =
        [format!("{} ({base} in {path})", server.pid()), format!("{} (blog in ", other.pid())];
    assert!(candidates.iter().all(|candidate| text.contains(candidate)), "{text}");
    let (code, text) = tool(&runtime, &["stop", "--instance", "shop"]);
    assert!(code == 3 && text.contains("no server shop is running"), "{text}");
    assert!(candidates.iter().all(|candidate| text.contains(candidate)), "{text}");
}

#[test]
fn a_name_of_several_servers_stops_none() {
    let dir = wsgi("", "return answer(1)");
    let mut server = Server::start(dir.path(), &["--name", "shop"]);
    let mut other = beside(&server, dir.path(), &["--name", "shop"]);
    let runtime = server.runtime.path().to_owned();
    for word in ["shop", dir.path().to_str().unwrap()] {
        let (code, text) = tool(&runtime, &["stop", "--instance", word]);
        assert!(code == 2 && text.contains("several servers are called"), "{text}");
        assert!([&server, &other].iter().all(|s| text.contains(&s.pid().to_string())), "{text}");
    }
    assert_eq!(listed(&runtime).len(), 2);
    let port = other.address.port().to_string();
    assert_eq!(tool(&runtime, &["stop", "--instance", &port]).0, 0);
    assert!(other.ended().success());
    assert_eq!(tool(&runtime, &["stop", "--instance", "shop"]).0, 0);
    assert!(server.ended().success());
    assert_eq!(tool(&runtime, &["list"]), (0, "PID  Owner  Name  Listens at  Directory\n".into()));
}

#[test]
fn the_list_shows_each_server_and_where_it_listens() {
    let dir = wsgi("", "return answer(1)");
    let server = Server::start(dir.path(), &["--name", "shop", "--socket", "shop.sock"]);
    let runtime = server.runtime.path().to_owned();
    let all = listed(&runtime);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!((&all[0]["pid"], &all[0]["name"]), (&server.pid().into(), &"shop".into()));
    assert_eq!(all[0]["directory"], dir.path().to_str().unwrap());
    assert_eq!(all[0]["addresses"], server.status()["addresses"]);
    let (_, text) = tool(&runtime, &["list"]);
    let line = text.lines().nth(1).unwrap();
    for part in [&server.pid().to_string(), "shop", &format!("http://{}", server.address), "unix:/"]
    {
        assert!(line.contains(part), "{text}");
    }
    // A server that is stopped says nothing: it is listed by its pid.
    server.signal(Signal::STOP);
    let all = listed(&runtime);
    server.signal(Signal::CONT);
    assert_eq!((&all[0]["pid"], &all[0]["name"]), (&server.pid().into(), &Value::Null));
}

/// The directory of another user is listed with its owner, and is asked nothing: it never answers.
#[test]
fn the_list_of_root_shows_servers_of_others_and_waits_for_none() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer(1)");
    let server = Server::start(dir.path(), &["--name", "shop"]);
    let runtime = server.runtime.path().to_owned();
    fs::set_permissions(&runtime, PermissionsExt::from_mode(0o1777)).unwrap();
    let foreign = runtime.join(format!("cabrank.{}.abcdefgh", std::process::id()));
    fs::create_dir(&foreign).unwrap();
    let held = File::open(&foreign).unwrap();
    held.lock().unwrap();
    let silent = UnixListener::bind(foreign.join("admin")).unwrap();
    silent.set_nonblocking(true).unwrap();
    chown(&foreign, Some(1), Some(1)).unwrap();
    let all = listed(&runtime);
    let of = |pid: u32| all.iter().find(|line| line["pid"] == pid).unwrap();
    assert_eq!(of(server.pid())["name"], "shop");
    let theirs = of(std::process::id());
    assert_eq!((&theirs["owner"], &theirs["name"]), (&"daemon".into(), &Value::Null));
    // Nor does it make a word of root ambiguous.
    assert_eq!(tool(&runtime, &["status", "--instance", "shop"]).0, 0);
    assert!(silent.accept().is_err(), "the directory of another user was asked");
}

#[test]
fn a_pid_file_lives_as_long_as_its_server_and_belongs_to_one() {
    let (dir, place) = (wsgi("", "return answer(1)"), tempfile::tempdir().unwrap());
    let path = place.path().join("shop.pid");
    let options = ["--pid-file", path.to_str().unwrap()];
    let start = || Server::start(dir.path(), &options);
    let mut killed = start();
    let pid = |server: &Server| format!("{}\n", server.pid());
    assert_eq!(fs::read_to_string(&path).unwrap(), pid(&killed));
    killed.signal(Signal::KILL);
    killed.ended();
    let mut server = start();
    assert_eq!(fs::read_to_string(&path).unwrap(), pid(&server));
    let runtime = tempfile::tempdir().unwrap();
    let out = in_time(&mut start_command(runtime.path(), dir.path(), &options));
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.code() == Some(1) && error.contains("which is running, has this file"),
        "{out:?}"
    );
    assert!(error.contains("Wait until it has ended, as `cabrank stop --wait` does"), "{error}");
    assert_eq!(fs::read_dir(runtime.path()).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), pid(&server));
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn root_writes_no_pid_file_where_a_link_of_another_user_leads() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer(1)");
    let (theirs, secret) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let link = theirs.path().join("run");
    symlink(secret.path(), &link).unwrap();
    for path in [theirs.path(), &link] {
        lchown(path, Some(1), Some(1)).unwrap();
    }
    let (runtime, path) = (tempfile::tempdir().unwrap(), link.join("pid"));
    let options = ["--pid-file", path.to_str().unwrap()];
    let out = in_time(&mut start_command(runtime.path(), dir.path(), &options));
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.code() == Some(1) && error.contains("another user may change the link"),
        "{out:?}"
    );
    assert_eq!(fs::read_dir(secret.path()).unwrap().count(), 0);
}

/// A service with a temporary directory of its own, and tools with another one.
#[test]
fn tools_with_another_temporary_directory_find_a_server_that_has_registered() {
    let dir = wsgi("", "return answer(os.getpid())");
    let [registry, theirs, runtime] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let with = |command: &mut std::process::Command| {
        command.env("CABRANK_REGISTRY_DIR", registry.path()).env_remove("XDG_RUNTIME_DIR");
    };
    let mut start = start_command(runtime.path(), dir.path(), &["--name", "shop"]);
    with(&mut start);
    let mut killed = Server::start_with(start, runtime);
    let tool = |words: &[&str]| {
        let mut tool = command(theirs.path(), words);
        with(&mut tool);
        let out = tool.output().unwrap();
        let text = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (out.status.code(), text)
    };
    let listed = || {
        let list: Vec<Value> = serde_json::from_str(&tool(&["list", "--json"]).1).unwrap();
        list.iter().map(|line| (line["pid"].clone(), line["name"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(listed(), [(killed.pid().into(), "shop".into())]);
    let (code, text) = tool(&["status", "--instance", "shop"]);
    assert!(code == Some(0) && text.contains("Max pool size"), "{text}");
    let old = killed.get("/");
    assert_eq!(tool(&["restart", "--wait"]).0, Some(0));
    assert_ne!(killed.get("/"), old);
    // With the temporary directory of the server it is one server, too.
    let mut list = command(killed.runtime.path(), &["list"]);
    with(&mut list);
    let text = String::from_utf8(list.output().unwrap().stdout).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");

    killed.signal(Signal::KILL);
    killed.ended();
    eventually("no server", || listed().is_empty().then_some(()));
    assert_eq!(fs::read_dir(registry.path()).unwrap().count(), 1);
    let runtime = tempfile::tempdir().unwrap();
    let mut start = start_command(runtime.path(), dir.path(), &[]);
    with(&mut start);
    let mut server = Server::start_with(start, runtime);
    eventually("the directory of the dead server is gone", || {
        (fs::read_dir(registry.path()).unwrap().count() == 1).then_some(())
    });
    assert_eq!(tool(&["stop"]).0, Some(0));
    assert!(server.ended().success());
    assert_eq!(fs::read_dir(registry.path()).unwrap().count(), 0);
}

#[test]
fn root_registers_nowhere_where_another_user_may_rename() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer(1)");
    let [theirs, runtime] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    chown(theirs.path(), Some(1), Some(1)).unwrap();
    let mut start = start_command(runtime.path(), dir.path(), &[]);
    start.env("CABRANK_REGISTRY_DIR", theirs.path());
    let server = Server::start_with(start, runtime);
    server.logs("not registered: ");
    assert_eq!(server.get("/"), "1");
    assert_eq!(fs::read_dir(theirs.path()).unwrap().count(), 0);
}
