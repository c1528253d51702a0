//! Deploying new code: rolling and immediate restarts, and code that does not boot.

use crate::server::{Server, eventually, run, start_command, wsgi, wsgi_text};
use crate::users::{OPTIONS, is_root, open_to_all, runtime};
use cabrank_checks_harness::Load;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

fn deploy(dir: &Path, head: &str, body: &str) {
    fs::write(dir.join("passenger_wsgi.py"), wsgi_text(head, body)).unwrap();
    // Time stamps of files change with the kernel's tick, so a second touch within one tick is invisible.
    std::thread::sleep(Duration::from_millis(20));
    fs::write(dir.join("tmp/restart.txt"), "").unwrap();
}

#[test]
fn a_rolling_restart_under_load_neither_fails_nor_delays_requests() {
    let dir = wsgi("", "return answer('old')");
    let server = Server::start(dir.path(), &["-e", "production", "--max-pool-size", "3"]);
    let load = Load::start(server.address, "/", 16);
    eventually("a full pool", || (server.pids().len() == 3).then_some(()));
    load.stop();
    // For comparison, measure the load without a restart: undisturbed, and beside three unrelated
    // interpreters, which take as much processor time to start as three new processes.
    let load = Load::start(server.address, "/", 16);
    std::thread::sleep(Duration::from_secs(2));
    let quiet = load.stop().longest;
    let load = Load::start(server.address, "/", 16);
    for _ in 0..3 {
        let imports = "import hmac, selectors, traceback, wsgiref.util, importlib.util";
        let started = std::process::Command::new("python3").args(["-c", imports]).status();
        assert!(started.unwrap().success());
        std::thread::sleep(Duration::from_millis(300));
    }
    let busy = load.stop().longest;
    let load = Load::start(server.address, "/", 16);
    deploy(dir.path(), "time.sleep(2)", "return answer('new')");
    eventually("new code", || (server.get("/") == "new").then_some(()));
    eventually("only new code", || {
        (!server.status()["groups"][0]["restarting"].as_bool()?).then_some(())
    });
    let seen = load.stop();
    println!(
        "rolling restart: {} answered, {} failed, longest stall {:?} ({quiet:?} without, {busy:?} beside unrelated interpreters)",
        seen.answered,
        seen.failed.len(),
        seen.longest
    );
    assert!(seen.failed.is_empty(), "{:?}", seen.failed);
    assert!(seen.texts.contains("old") && seen.texts.contains("new"));
    // The application takes 2 s to boot, and requests must not wait for that. Other tests share the
    // processors, so the limit is generous; run this test alone to measure the longest stall.
    assert!(seen.longest < Duration::from_millis(1000), "{:?}", seen.longest);
}

#[test]
fn a_restart_is_noticed_under_load() {
    let dir = wsgi("", "return answer('old')");
    let server = Server::start(dir.path(), &["-e", "production"]);
    let load = Load::start(server.address, "/", 2);
    deploy(dir.path(), "", "return answer('new')");
    let touched = std::time::Instant::now();
    server.logs("restarting");
    println!("the restart was noticed after {:?}", touched.elapsed());
    load.stop();
}

#[test]
fn a_version_that_does_not_boot_is_not_deployed() {
    let dir = wsgi("", "return answer('old')");
    let server = Server::start(dir.path(), &["-e", "production"]);
    let load = Load::start(server.address, "/", 16);
    deploy(dir.path(), "raise RuntimeError('no database')", "return answer('new')");
    server.logs("no database");
    let error = eventually("the error in `status`", || {
        server.status()["groups"][0]["last_error"].as_str().map(str::to_owned)
    });
    assert!(error.contains("no database"), "{error}");
    let seen = load.stop();
    println!("broken deployment: {} answered, {} failed", seen.answered, seen.failed.len());
    assert!(seen.failed.is_empty(), "{:?}", seen.failed);
    assert_eq!(seen.texts.into_iter().collect::<Vec<_>>(), ["old"]);

    deploy(dir.path(), "", "return answer('fixed')");
    eventually("fixed code", || (server.get("/") == "fixed").then_some(()));
}

#[test]
fn in_development_a_restart_is_immediate_and_the_page_shows_the_error() {
    let dir = wsgi("", "return answer('old')");
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.get("/"), "old");
    deploy(dir.path(), "", "return answer('new')");
    eventually("new code", || (server.get("/") == "new").then_some(()));

    deploy(dir.path(), "raise RuntimeError('<no database>')", "");
    let page = eventually("an error page", || {
        let reply = server.client().request("GET", "/", &[("Accept", "text/html")], b"").unwrap();
        (reply.status == 500).then(|| reply.text())
    });
    assert!(page.contains("RuntimeError: &lt;no database&gt;") && page.contains("<html"), "{page}");
    let plain = server.client().get("/").unwrap();
    assert!(plain.text().contains("RuntimeError: <no database>"), "{}", plain.text());
    server.logs("RuntimeError: <no database>");
}

#[test]
fn in_production_the_error_page_shows_no_details() {
    let dir = wsgi("", "return answer('old')");
    let server = Server::start(dir.path(), &["-e", "production", "--no-rolling-restarts"]);
    deploy(dir.path(), "raise RuntimeError('SECRET')", "");
    let page = eventually("an error page", || {
        let reply = server.client().get("/").unwrap();
        (reply.status == 500).then(|| reply.text())
    });
    assert!(!page.contains("SECRET"), "{page}");
    server.logs("SECRET");
}

#[test]
fn the_restart_command_writes_nothing_into_the_applications_directory() {
    for environment in ["development", "production"] {
        let dir = wsgi("", "return answer(os.getpid())");
        fs::remove_dir(dir.path().join("tmp")).unwrap();
        let server = Server::start(dir.path(), &["-e", environment]);
        let files = || fs::read_dir(dir.path()).unwrap().flatten().map(|f| f.file_name());
        let (old, before) = (server.get("/"), files().collect::<Vec<_>>());
        let out = run(server.runtime.path(), &["restart"]);
        assert_eq!(String::from_utf8_lossy(&out.stdout), "The application is being restarted.\n");
        // No request is necessary: the pool keeps its minimum.
        eventually("another process", || {
            let pids = server.pids();
            (!pids.is_empty() && !pids.iter().any(|pid| pid.to_string() == old)).then_some(())
        });
        assert_ne!(server.get("/"), old);
        assert_eq!(files().filter(|f| f != "__pycache__").collect::<Vec<_>>(), before);
    }
}

/// An application may put a link in the place of the file, and of its directory.
#[test]
fn a_restart_file_counts_only_if_the_user_may_see_it() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer(os.getpid())");
    let (private, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::set_permissions(private.path(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(private.path().join("exists"), "").unwrap();
    open_to_all(dir.path());
    open_to_all(shared.path());
    let runtime = runtime();
    let options = [&OPTIONS[..], &["--stat-throttle-rate", "0"]].concat();
    let server = Server::start_with(start_command(runtime.path(), dir.path(), &options), runtime);
    let first = server.get("/");
    let (tmp, always) = (dir.path().join("tmp"), dir.path().join("tmp/always_restart.txt"));
    open_to_all(&tmp);
    symlink(private.path().join("exists"), &always).unwrap();
    for _ in 0..5 {
        assert_eq!(server.get("/"), first);
    }
    fs::remove_dir_all(&tmp).unwrap();
    symlink(shared.path(), &tmp).unwrap();
    assert_eq!(server.get("/"), first);
    fs::write(shared.path().join("restart.txt"), "").unwrap();
    eventually("a restart", || (server.get("/") != first).then_some(()));
}

#[test]
fn a_restart_that_is_awaited_tells_whether_the_new_processes_are_up() {
    for options in [["-e", "production"], ["-e", "development"]] {
        let dir = wsgi("", "return answer('old')");
        let server = Server::start(dir.path(), &options);
        assert_eq!(server.get("/"), "old");
        let set = |head: &str, body: &str| {
            fs::write(dir.path().join("passenger_wsgi.py"), wsgi_text(head, body)).unwrap();
            let out = run(server.runtime.path(), &["restart", "--wait"]);
            let text = [out.stdout, out.stderr].map(|t| String::from_utf8(t).unwrap()).concat();
            (out.status.code(), text)
        };
        let (code, text) = set("raise RuntimeError('no database')", "");
        let serves = match options[1] {
            "production" => "Processes with the old code go on serving: 1.",
            _ => "No process serves the application.",
        };
        assert!(code == Some(5) && text.contains("no database"), "{code:?} {text}");
        assert!(text.ends_with(&format!("{serves}\n")), "{text}");
        // The failure before is not taken for one of this restart.
        let (code, text) = set("time.sleep(0.5)", "return answer('new')");
        assert!(code == Some(0) && text.ends_with("The new processes are up: 1.\n"), "{text}");
        assert_eq!(server.get("/"), "new");
        assert!(
            server.pids().len() == 1
                && !server.status()["groups"][0]["restarting"].as_bool().unwrap()
        );
    }
}

#[test]
fn an_awaited_restart_without_a_minimum_starts_nothing() {
    let dir = wsgi("", "return answer('old')");
    let server = Server::start(dir.path(), &["--min-instances", "0"]);
    let out = run(server.runtime.path(), &["restart", "--wait"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && text.ends_with("The next request starts one.\n"), "{text}");
}

#[test]
fn a_restart_says_that_a_changed_configuration_does_not_apply() {
    let dir = wsgi("", "return answer('old')");
    let file = dir.path().join("cabrank.toml");
    let server = Server::start(dir.path(), &[]);
    let restart = || {
        let out = run(server.runtime.path(), &["restart"]);
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let plain = "The application is being restarted.\n";
    assert_eq!(restart(), plain);
    fs::write(&file, "max_pool_size = 3\n").unwrap();
    let text = restart();
    assert!(text.contains("cabrank.toml has changed since the start of the server."), "{text}");
    server.logs("cabrank.toml has changed");
    fs::remove_file(&file).unwrap();
    assert_eq!(restart(), plain);
}

#[test]
fn a_restart_file_in_a_new_directory_restarts_the_application() {
    let dir = wsgi("", "return answer(os.getpid())");
    fs::remove_dir(dir.path().join("tmp")).unwrap();
    let server = Server::start(dir.path(), &["--stat-throttle-rate", "0"]);
    let first = server.get("/");
    let shell = "mkdir -p tmp && touch tmp/restart.txt";
    let mut sh = std::process::Command::new("sh");
    assert!(sh.args(["-c", shell]).current_dir(dir.path()).status().unwrap().success());
    eventually("a restart", || (server.get("/") != first).then_some(()));
}
