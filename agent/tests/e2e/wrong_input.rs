//! Wrong input: one clear error that names the thing and the remedy, the documented exit code, and
//! nothing left running.

use crate::agent::{app, command, wsgi};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs `cabrank start` and checks how it fails.
#[track_caller]
fn fails(dir: &Path, options: &[&str], code: i32, parts: &[&str]) -> String {
    let runtime = tempfile::tempdir().unwrap();
    let mut arguments = vec!["start", dir.to_str().unwrap(), "--port", "0"];
    arguments.extend(options);
    let out = command(runtime.path(), &arguments).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is missing in: {said}");
    }
    assert_eq!(fs::read_dir(runtime.path()).unwrap().count(), 0, "a directory was left");
    said
}

#[test]
fn no_directory_no_application_or_two() {
    let empty = tempfile::tempdir().unwrap();
    fails(&empty.path().join("gone"), &[], 3, &["gone", "Name the directory"]);
    fails(empty.path(), &[], 3, &["no application in", "passenger_wsgi.py", "app.js"]);
    fs::write(empty.path().join("app.js"), "").unwrap();
    fails(&empty.path().join("app.js"), &[], 3, &["not a directory"]);
    fs::write(empty.path().join("passenger_wsgi.py"), "").unwrap();
    fails(empty.path(), &[], 3, &["app.js (node)", "passenger_wsgi.py (wsgi)", "--app-type"]);
    fails(empty.path(), &["--app-type", "cobol"], 2, &["cobol", "wsgi"]);
    let ruby = app("config.ru", "");
    fails(ruby.path(), &[], 3, &["rack", "cannot serve yet", "wsgi, node"]);
}

#[test]
fn unknown_options_and_bad_values() {
    let dir = wsgi("", "");
    fails(dir.path(), &["--max-pool-sice", "3"], 2, &["--max-pool-sice", "--max-pool-size"]);
    fails(dir.path(), &["--max-pool-size", "0"], 2, &["--max-pool-size"]);
    fails(dir.path(), &["--start-timeout", "soon"], 2, &["--start-timeout", "seconds"]);
    fs::write(dir.path().join("cabrank.toml"), "port = 3000\nmax_pool_size = \"six\"\n").unwrap();
    fails(dir.path(), &[], 2, &["cabrank.toml:2:", "max_pool_size", "--help"]);
    fs::write(dir.path().join("cabrank.toml"), "max_pool_sice = 6\n").unwrap();
    fails(dir.path(), &[], 2, &["cabrank.toml:1:", "max_pool_sice", "Did you mean max_pool_size?"]);
}

#[test]
fn a_port_in_use() {
    let dir = wsgi("", "");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let runtime = tempfile::tempdir().unwrap();
    let arguments = ["start", dir.path().to_str().unwrap(), "--port", &port];
    let out = command(runtime.path(), &arguments).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(4), "{said}");
    assert!(said.contains(&format!("port {port}")) && said.contains("--port"), "{said}");
    assert_eq!(said.lines().count(), 1, "one error: {said}");
}

#[test]
fn an_application_that_does_not_boot() {
    let dir = wsgi("raise RuntimeError('no database')", "");
    fails(dir.path(), &[], 5, &["failed to boot", "RuntimeError: no database"]);
    let dir = wsgi("print('half way')\nos._exit(7)", "");
    fails(dir.path(), &[], 5, &["before it was ready", "exit status: 7", "half way"]);
    let dir = app("app.js", "console.log('nothing to do')");
    fails(dir.path(), &[], 5, &["listen"]);
    let dir = wsgi("", "");
    fails(dir.path(), &["--python", "/no/python"], 5, &["/no/python", "--python"]);
}

#[test]
fn an_application_that_never_becomes_ready() {
    let dir = wsgi(
        "import subprocess\nprint('pid', os.getpid())\nsubprocess.Popen(['sleep', '300'])\ntime.sleep(300)",
        "",
    );
    let begun = Instant::now();
    let said = fails(dir.path(), &["--start-timeout", "1"], 5, &["within 1 s", "--start-timeout"]);
    assert!(begun.elapsed() < Duration::from_secs(10));
    let pid = said.split("pid ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(!Path::new("/proc").join(pid).exists(), "it still runs");
    // Nor does anything else of its process group.
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, fields)) = stat.rsplit_once(") ") else { continue };
        let mut fields = fields.split(' ');
        let (state, group) = (fields.next(), fields.nth(1));
        assert!(group != Some(pid) || state == Some("Z"), "left running: {stat}");
    }
}

#[test]
fn no_agent_to_ask() {
    let runtime = tempfile::tempdir().unwrap();
    for words in [&["status"][..], &["stop"], &["restart"], &["detach", "1"]] {
        // Agents of others may be found in the temporary directory: this one is empty.
        let out = command(runtime.path(), words).env("TMPDIR", runtime.path()).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(3), "{said}");
        assert!(said.contains("cabrank start"), "{said}");
    }
}

#[test]
fn help_documents_the_exit_codes() {
    let runtime = tempfile::tempdir().unwrap();
    let out = command(runtime.path(), &["--help"]).output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && said.contains("Exit codes:"), "{said}");
}
