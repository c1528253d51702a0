//! Wrong input: one clear error that names the thing and the remedy, the documented exit code, and
//! nothing left running.

use crate::agent::{Agent, LONG, app, command, eventually, wsgi};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs a command that has to end by itself; one that hangs is killed, and has no exit code.
fn in_time(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + LONG;
    while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    child.wait_with_output().unwrap()
}

/// Runs `cabrank start` and checks how it fails.
#[track_caller]
fn fails(dir: &Path, options: &[&str], code: i32, parts: &[&str]) -> String {
    let runtime = tempfile::tempdir().unwrap();
    let mut arguments = vec!["start", dir.to_str().unwrap(), "--port", "0"];
    arguments.extend(options);
    let out = in_time(&mut command(runtime.path(), &arguments));
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

/// The same value on the command line, by environment variable and in the file.
#[track_caller]
fn fails_everywhere(dir: &Path, option: &str, value: &str, toml: &str, parts: &[&str]) {
    let variable = format!("CABRANK_{}", option.replace('-', "_").to_uppercase());
    let long = format!("--{option}");
    let runtime = tempfile::tempdir().unwrap();
    let start = ["start", dir.to_str().unwrap()];
    let line = command(runtime.path(), &start).args([&long, value]).output().unwrap();
    let environment = command(runtime.path(), &start).env(&variable, value).output().unwrap();
    fs::write(dir.join("cabrank.toml"), format!("\n{} = {toml}\n", option.replace('-', "_")))
        .unwrap();
    let file = command(runtime.path(), &start).output().unwrap();
    fs::remove_file(dir.join("cabrank.toml")).unwrap();
    for (out, name) in [(line, &*long), (environment, &*variable), (file, "cabrank.toml:2:")] {
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{said}");
        for part in parts.iter().chain([&name]) {
            assert!(said.contains(part), "{part:?} is missing in: {said}");
        }
        // The words of the implementation, and clap's advice on values that look like options.
        for word in
            ["usize", "u16", "u64", "zero", "digit", "target type", "variant", "i128", "-- -1"]
                .into_iter()
                .chain(["boolean", "integer `", "IP address syntax", "path string", "expected"])
        {
            assert!(!said.contains(word), "{word:?} is in: {said}");
        }
    }
}

#[test]
fn a_bad_value_is_answered_with_what_is_valid() {
    let dir = wsgi("", "");
    let whole = |option, from, to, others: &[(&str, &str)]| {
        let rule = format!("must be a whole number from {from} to {to}");
        let wrong = [("abc", "\"abc\""), ("-1", "-1"), ("2.5", "2.5"), ("", "\"\"")];
        for (line, toml) in wrong.iter().chain(others) {
            fails_everywhere(dir.path(), option, line, toml, &[&rule]);
        }
    };
    let too_many = ("99999999999999999999", "99999999999999999999");
    whole("port", "0", "65535", &[("70000", "70000"), too_many]);
    whole("max-pool-size", "1", "1000000000", &[("0", "0"), too_many]);
    whole("min-instances", "0", "1000000000", &[too_many]);
    whole("max-header-size", "8192", "1048576", &[("1", "1")]);
    whole("max-body", "0", "1125899906842624", &[("1M", "\"1M\"")]);
    for (line, toml) in [("abc", "\"abc\""), ("-1", "-1"), ("1e12", "1e12"), ("", "true")] {
        let rule = "must be a number of seconds from 0 to 1000000000";
        fails_everywhere(dir.path(), "pool-idle-time", line, toml, &[rule]);
    }
    for (line, toml) in [("localhost", "\"localhost\""), ("127.0.0.1:80", "\"127.0.0.1:80\"")] {
        let rule = "must be an IP address, such as 127.0.0.1";
        fails_everywhere(dir.path(), "address", line, toml, &[rule]);
    }
    fails_everywhere(dir.path(), "log-level", "loud", "\"loud\"", &["error", "debug", "trace"]);
    fails_everywhere(dir.path(), "log-format", "xml", "3", &["text"]);
    fails(dir.path(), &["--rolling-restarts=perhaps"], 2, &["true, false"]);
}

#[test]
fn a_minimum_above_the_maximum_is_refused_and_both_are_named_with_their_places() {
    let dir = wsgi("", "");
    let remedy = "Lower --min-instances, or raise --max-pool-size.";
    let start = |variables: &[(&str, &str)], options: &[&str], file: &str| {
        fs::write(dir.path().join("cabrank.toml"), file).unwrap();
        let runtime = tempfile::tempdir().unwrap();
        let mut start = command(runtime.path(), &["start", dir.path().to_str().unwrap()]);
        let out = in_time(start.args(options).envs(variables.iter().copied()));
        assert_eq!(fs::read_dir(runtime.path()).unwrap().count(), 0, "a directory was left");
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{said}");
        said
    };
    let said = start(&[], &["--min-instances", "7"], "");
    let what = "--min-instances 7 is more processes than --max-pool-size 6 (the default) allows";
    assert!(said.contains(what) && said.contains(remedy), "{said}");
    let said = start(&[("CABRANK_MIN_INSTANCES", "3")], &[], "max_pool_size = 2");
    let what = "CABRANK_MIN_INSTANCES=3 is more processes than max_pool_size = 2 in ";
    assert!(said.contains(what) && said.contains("cabrank.toml allows"), "{said}");
    let said = start(&[("CABRANK_MAX_POOL_SIZE", "2")], &[], "min_instances = 3");
    assert!(said.contains("min_instances = 3 in ") && said.contains("cabrank.toml is"), "{said}");
    assert!(said.contains("CABRANK_MAX_POOL_SIZE=2 allows"), "{said}");
    // The command line wins over the environment: what lost is not named.
    let variables = [("CABRANK_MIN_INSTANCES", "1"), ("CABRANK_MAX_POOL_SIZE", "9")];
    let said = start(&variables, &["--min-instances", "5", "--max-pool-size", "4"], "");
    assert!(said.contains("--min-instances 5 is more processes than --max-pool-size 4"), "{said}");
    assert!(!said.contains("CABRANK"), "{said}");
    // Of two limits that it is above, the lower.
    let said = start(&[], &["--min-instances", "7", "--max-instances-per-app", "2"], "");
    assert!(said.contains("--max-instances-per-app 2 allows"), "{said}");
    assert!(said.contains("or raise --max-instances-per-app."), "{said}");
}

#[test]
fn a_minimum_may_be_the_maximum() {
    let dir = wsgi("", "return answer('served')");
    // No limit for the application is none that a minimum could be above.
    let options = ["--min-instances", "2", "--max-pool-size", "2", "--max-instances-per-app", "0"];
    let agent = Agent::start(dir.path(), &options);
    eventually("two processes", || (agent.pids().len() == 2).then_some(()));
}

#[test]
fn what_is_wrong_in_the_file_is_said_in_its_words() {
    let dir = wsgi("", "");
    for (text, parts) in [
        ("rolling_restarts = 1", &["rolling_restarts: must be true or false"][..]),
        ("environment = 3", &["environment: must be text in quotes"]),
        ("python = 3", &["python: must be text in quotes"]),
        ("address = 3", &["address: must be text in quotes"]),
        ("log_level = 3", &["log_level: must be text in quotes"]),
        ("environment = production", &["environment: string values must be quoted. "]),
        ("environment = \"\"", &["environment needs a name"]),
        ("port =", &["port: there is no value"]),
        ("port = 1\nport = 2", &["cabrank.toml:2: port is there twice", "Remove one"]),
        ("[pool]\nmax_pool_size = 3", &["cabrank.toml:1:", "no sections", "[pool]"]),
        ("environment = \"a", &["environment: the closing quote is missing"]),
        ("= 3", &["Each line is `key = value`"]),
        ("port 3", &["Each line is `key = value`"]),
    ] {
        fs::write(dir.path().join("cabrank.toml"), text).unwrap();
        let said = fails(dir.path(), &[], 2, parts);
        assert!(!said.contains("expected"), "{said}");
    }
}

fn mkfifo(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
}

/// To open a FIFO is to wait for somebody at its other end, and /dev/zero is never read to its end.
#[test]
fn what_is_no_regular_file_is_refused_and_not_opened() {
    let dir = wsgi("", "");
    let file = dir.path().join("cabrank.toml");
    let advice = "Make it readable text";
    mkfifo(&file);
    fails(dir.path(), &[], 2, &["cabrank.toml cannot be read: it is a FIFO", advice]);
    fs::remove_file(&file).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(&file).unwrap();
    fails(dir.path(), &[], 2, &["cabrank.toml cannot be read: it is a socket", advice]);
    drop(socket);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    fails(dir.path(), &[], 2, &["cabrank.toml cannot be read: it is a directory", advice]);
    fs::remove_dir(&file).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    fails(dir.path(), &[], 2, &["cabrank.toml cannot be read: it is a device", advice]);

    let dir = tempfile::tempdir().unwrap();
    mkfifo(&dir.path().join("app.js"));
    fails(dir.path(), &[], 3, &["no startup file", "app.js"]);
}

#[test]
fn a_restart_file_that_is_no_regular_file_does_not_hold_the_agent_up() {
    let dir = wsgi("", "return answer('served')");
    let agent = Agent::start(dir.path(), &[]);
    mkfifo(&dir.path().join("tmp/restart.txt"));
    let out = in_time(&mut command(agent.runtime.path(), &["restart"]));
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("restart.txt cannot be written: it is a FIFO"), "{said}");
    assert_eq!(agent.get("/"), "served");
}

#[test]
fn a_bad_pid_is_answered_with_what_is_valid() {
    let runtime = tempfile::tempdir().unwrap();
    for words in [&["detach"][..], &["status", "--instance"], &["stop", "--instance"]] {
        for value in ["abc", "-1", "0", "99999999999"] {
            let out = command(runtime.path(), words).arg(value).output().unwrap();
            let said = String::from_utf8(out.stderr).unwrap();
            assert_eq!(out.status.code(), Some(2), "{said}");
            assert!(said.contains("must be a whole number from 1 to 4194304"), "{said}");
        }
    }
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
    let said = fails(dir.path(), &[], 5, &["failed to boot", "RuntimeError: no database"]);
    assert_eq!(said.matches("failed to boot").count(), 1, "told more than once: {said}");
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
    let said = fails(dir.path(), &["--start-timeout", "3"], 5, &["within 3 s", "--start-timeout"]);
    assert!(begun.elapsed() < Duration::from_secs(20));
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
