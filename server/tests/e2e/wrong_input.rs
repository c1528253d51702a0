//! Wrong input. Each error names its cause and the remedy, the exit code is the documented one, and no
//! process is left running.

use crate::server::{LONG, Server, app, command, eventually, example, wsgi};
use cabrank_checks_harness::processes;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs a command that must end by itself. A command that hangs is killed, and has no exit code.
pub(crate) fn in_time(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + LONG;
    while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    child.wait_with_output().unwrap()
}

/// Runs `cabrank start`, and asserts its exit code and the parts of its error. Returns the error.
#[track_caller]
pub(crate) fn fails(dir: &Path, options: &[&str], code: i32, parts: &[&str]) -> String {
    let runtime = tempfile::tempdir().unwrap();
    let mut arguments = vec!["start", dir.to_str().unwrap(), "--port", "0"];
    arguments.extend(options);
    let out = in_time(&mut command(runtime.path(), &arguments));
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{message}");
    for part in parts {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
    assert_eq!(
        fs::read_dir(runtime.path()).unwrap().count(),
        0,
        "the instance directory is still there"
    );
    message
}

#[test]
fn the_directory_must_hold_one_application() {
    let empty = tempfile::tempdir().unwrap();
    fails(&empty.path().join("gone"), &[], 3, &["gone", "Name the directory"]);
    fails(empty.path(), &[], 3, &["found no application in", "passenger_wsgi.py", "app.js"]);
    fs::write(empty.path().join("app.js"), "").unwrap();
    fails(&empty.path().join("app.js"), &[], 3, &["not a directory"]);
    fs::write(empty.path().join("passenger_wsgi.py"), "").unwrap();
    fails(empty.path(), &[], 3, &["app.js (node)", "passenger_wsgi.py (wsgi)", "--app-type"]);
    fails(empty.path(), &["--app-type", "cobol"], 2, &["cobol", "wsgi"]);
    let meteor = app(".meteor", "");
    fails(meteor.path(), &[], 3, &["meteor", "has no loader", "meteor run --port $PORT"]);
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
fn an_option_of_another_server_is_answered() {
    let dir = wsgi("", "");
    for (option, answer) in [
        ("--workers=4", "--max-pool-size N"),
        ("-w4", "--max-pool-size N"),
        ("--bind=0.0.0.0:80", "--address IP"),
        ("-b", "--address IP"),
        ("--host", "--address IP"),
        ("--ssl", "no TLS"),
        ("--max-memory", "--max-requests N"),
        ("--daemon", "foreground"),
    ] {
        let message = fails(dir.path(), &[option], 2, &["unexpected argument", answer]);
        assert!(!message.contains("similar argument"), "{message}");
    }
}

#[test]
fn a_module_that_does_not_fit_is_named_with_the_remedy() {
    let dir = wsgi("", "");
    fails(dir.path(), &["--app", "main.py"], 2, &["--app takes a Python module", "without `.py`"]);
    fails(
        dir.path(),
        &["--app", "main:app", "--startup-file", "x.py"],
        2,
        &["contradicts", "x.py"],
    );
    let module = ["cabrank start . --app", "site.wsgi:app"];
    fails(&dir.path().join("site.wsgi:app"), &[], 3, &module);
    fails(dir.path(), &["--app", "absent:app"], 5, &["no module `absent`", "Correct --app"]);
}

/// Asserts the error for a value on the command line, in the environment and in the file.
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
        let message = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{message}");
        for part in parts.iter().chain([&name]) {
            assert!(message.contains(part), "{part:?} is missing in: {message}");
        }
        // The error has no words of the implementation, nor clap's advice on values that look like options.
        for word in
            ["usize", "u16", "u64", "zero", "digit", "target type", "variant", "i128", "-- -1"]
                .into_iter()
                .chain(["boolean", "integer `", "IP address syntax", "path string", "expected"])
        {
            assert!(!message.contains(word), "{word:?} is in: {message}");
        }
    }
}

#[test]
fn the_error_for_a_bad_value_says_what_is_valid() {
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
    for (line, toml) in [("example.org", "\"example.org\""), ("127.0.0.1:80", "\"127.0.0.1:80\"")] {
        let rule = "must be an IP address without a port, such as 127.0.0.1";
        fails_everywhere(dir.path(), "address", line, toml, &[rule]);
    }
    for (line, toml) in [("localhost", "\"localhost\""), ("10.0.0.0/33", "\"10.0.0.0/33\"")] {
        let rule = "must be IP addresses or networks, separated by commas";
        fails_everywhere(dir.path(), "trusted-proxies", line, toml, &[rule]);
    }
    fails_everywhere(dir.path(), "log-level", "loud", "\"loud\"", &["error", "debug", "trace"]);
    fails_everywhere(dir.path(), "log-format", "xml", "3", &["text"]);
    fails(dir.path(), &["--rolling-restarts=perhaps"], 2, &["must be true or false"]);
}

#[test]
fn the_error_for_a_minimum_above_the_maximum_names_both_and_their_sources() {
    let dir = wsgi("", "");
    let remedy = "Lower --min-instances, or raise --max-pool-size.";
    let start = |variables: &[(&str, &str)], options: &[&str], file: &str| {
        fs::write(dir.path().join("cabrank.toml"), file).unwrap();
        let runtime = tempfile::tempdir().unwrap();
        let mut start = command(runtime.path(), &["start", dir.path().to_str().unwrap()]);
        let out = in_time(start.args(options).envs(variables.iter().copied()));
        assert_eq!(
            fs::read_dir(runtime.path()).unwrap().count(),
            0,
            "the instance directory is still there"
        );
        let message = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{message}");
        message
    };
    let message = start(&[], &["--min-instances", "7"], "");
    let expected =
        "--min-instances 7 asks for more processes than --max-pool-size 6 (the default) allows";
    assert!(message.contains(expected) && message.contains(remedy), "{message}");
    let message = start(&[("CABRANK_MIN_INSTANCES", "3")], &[], "max_pool_size = 2");
    let expected = "CABRANK_MIN_INSTANCES=3 asks for more processes than max_pool_size = 2 in ";
    assert!(message.contains(expected) && message.contains("cabrank.toml allows"), "{message}");
    let message = start(&[("CABRANK_MAX_POOL_SIZE", "2")], &[], "min_instances = 3");
    assert!(
        message.contains("min_instances = 3 in ") && message.contains("cabrank.toml asks"),
        "{message}"
    );
    assert!(message.contains("CABRANK_MAX_POOL_SIZE=2 allows"), "{message}");
    // The command line overrides the environment, so the error does not name the variables.
    let variables = [("CABRANK_MIN_INSTANCES", "1"), ("CABRANK_MAX_POOL_SIZE", "9")];
    let message = start(&variables, &["--min-instances", "5", "--max-pool-size", "4"], "");
    assert!(
        message.contains("--min-instances 5 asks for more processes than --max-pool-size 4"),
        "{message}"
    );
    assert!(!message.contains("CABRANK"), "{message}");
    // If the minimum exceeds two limits, the error names the lower one.
    let message = start(&[], &["--min-instances", "7", "--max-instances-per-app", "2"], "");
    assert!(message.contains("--max-instances-per-app 2 allows"), "{message}");
    assert!(message.contains("or raise --max-instances-per-app."), "{message}");
}

#[test]
fn the_minimum_may_equal_the_maximum() {
    let dir = wsgi("", "return answer('served')");
    // 0 means no limit, so the minimum does not exceed it.
    let options = ["--min-instances", "2", "--max-pool-size", "2", "--max-instances-per-app", "0"];
    let server = Server::start(dir.path(), &options);
    eventually("two processes", || (server.pids().len() == 2).then_some(()));
}

#[test]
fn errors_in_the_file_use_its_terms() {
    let dir = wsgi("", "");
    for (text, parts) in [
        ("rolling_restarts = 1", &["rolling_restarts: must be true or false"][..]),
        ("environment = 3", &["environment: must be text in quotes"]),
        ("python = 3", &["python: must be text in quotes"]),
        ("address = 3", &["address: must be text in quotes"]),
        ("log_level = 3", &["log_level: must be one of \"error\", \"warn\", \"info\", "]),
        (
            "environment = production",
            &["environment: production is neither a number, true, false, nor text in quotes."],
        ),
        ("environment = \"\"", &["the name of the environment is empty"]),
        ("port =", &["port: the value is missing"]),
        ("port = 1\nport = 2", &["cabrank.toml:2: port is set twice", "Remove one"]),
        ("[pool]\nmax_pool_size = 3", &["cabrank.toml:1:", "unknown section [pool]"]),
        ("environment = \"a", &["environment: the closing quote is missing"]),
        ("= 3", &["Write each line as `key = value`"]),
        ("port 3", &["Write each line as `key = value`"]),
    ] {
        fs::write(dir.path().join("cabrank.toml"), text).unwrap();
        let message = fails(dir.path(), &[], 2, parts);
        assert!(!message.contains("expected"), "{message}");
    }
}

fn mkfifo(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
}

/// Opening a FIFO waits for a peer, and reading /dev/zero never ends.
#[test]
fn a_file_that_is_not_regular_is_refused_without_opening_it() {
    let dir = wsgi("", "");
    let file = dir.path().join("cabrank.toml");
    let advice = "Make it a readable text file";
    mkfifo(&file);
    fails(dir.path(), &[], 2, &["cabrank.toml: it is a FIFO", advice]);
    fs::remove_file(&file).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(&file).unwrap();
    fails(dir.path(), &[], 2, &["cabrank.toml: it is a socket", advice]);
    drop(socket);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    fails(dir.path(), &[], 2, &["cabrank.toml: it is a directory", advice]);
    fs::remove_dir(&file).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    fails(dir.path(), &[], 2, &["cabrank.toml: it is a device", advice]);

    let dir = tempfile::tempdir().unwrap();
    mkfifo(&dir.path().join("app.js"));
    fails(dir.path(), &[], 3, &["startup file", "app.js", "does not exist"]);
}

/// The owner of the application's directory could let root's server take all memory.
#[test]
fn a_file_with_options_has_a_limit_of_size() {
    let dir = wsgi("", "");
    let long = |dir: &Path, name: &str| {
        fs::File::create(dir.join(name)).unwrap().set_len(1 << 40).unwrap();
    };
    long(dir.path(), "cabrank.toml");
    fails(dir.path(), &[], 2, &["cabrank.toml: it is longer than 1 MiB", "text file"]);
    let dir = tempfile::tempdir().unwrap();
    for name in ["Procfile", "package.json"] {
        long(dir.path(), name);
        fails(dir.path(), &[], 3, &[name, "cannot be read: it is longer than 1 MiB"]);
        fs::remove_file(dir.path().join(name)).unwrap();
    }
}

#[test]
fn a_restart_file_that_is_not_regular_does_not_block_the_server() {
    let dir = wsgi("", "return answer('served')");
    let server = Server::start(dir.path(), &[]);
    mkfifo(&dir.path().join("tmp/restart.txt"));
    assert_eq!(server.get("/"), "served");
    assert!(in_time(&mut command(server.runtime.path(), &["restart"])).status.success());
    assert_eq!(server.get("/"), "served");
}

#[test]
fn the_error_for_a_bad_pid_says_what_is_valid() {
    let runtime = tempfile::tempdir().unwrap();
    for words in [&["detach"][..], &["disable"], &["enable"]] {
        for value in ["abc", "-1", "0", "99999999999"] {
            let out = command(runtime.path(), words).arg(value).output().unwrap();
            let message = String::from_utf8(out.stderr).unwrap();
            assert_eq!(out.status.code(), Some(2), "{message}");
            assert!(message.contains("must be a whole number from 1 to 4194304"), "{message}");
        }
    }
}

#[test]
fn the_error_for_a_port_in_use_names_it() {
    let dir = wsgi("", "");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let runtime = tempfile::tempdir().unwrap();
    let arguments = ["start", dir.path().to_str().unwrap(), "--port", &port];
    let out = command(runtime.path(), &arguments).output().unwrap();
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(4), "{message}");
    assert!(message.contains(&format!("port {port}")) && message.contains("--port"), "{message}");
    assert_eq!(message.lines().count(), 1, "more than one line: {message}");
}

#[test]
fn the_error_for_an_application_that_does_not_boot_shows_its_output() {
    let dir = wsgi("raise RuntimeError('no database')", "");
    let message = fails(dir.path(), &[], 5, &["failed to boot", "RuntimeError: no database"]);
    assert_eq!(message.matches("failed to boot").count(), 1, "reported more than once: {message}");
    let dir = wsgi("print('half way')\nos._exit(7)", "");
    fails(dir.path(), &[], 5, &["before it was ready", "exit status: 7", "half way"]);
    let dir = app("app.js", "console.log('nothing to do')");
    fails(dir.path(), &[], 5, &["listen"]);
    let dir = wsgi("", "");
    fails(dir.path(), &["--python", "/no/python"], 5, &["/no/python", "--python"]);
}

#[test]
fn an_application_that_never_becomes_ready_is_killed_with_its_children() {
    let dir = wsgi(
        "import subprocess\nprint('pid', os.getpid())\nsubprocess.Popen(['sleep', '300'])\ntime.sleep(300)",
        "",
    );
    let begun = Instant::now();
    let message =
        fails(dir.path(), &["--start-timeout", "3"], 5, &["within 3 s", "--start-timeout"]);
    assert!(begun.elapsed() < Duration::from_secs(20));
    let pid = message.split("pid ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(!Path::new("/proc").join(pid).exists(), "process {pid} still runs");
    // The rest of its process group is gone, too.
    for (_, stat) in processes::all() {
        assert!(stat.pgrp.to_string() != pid || stat.state == 'Z', "left running: {stat:?}");
    }
}

#[test]
fn the_tools_fail_without_a_running_server() {
    let runtime = tempfile::tempdir().unwrap();
    for words in [&["status"][..], &["stop"], &["restart"], &["detach", "1"], &["disable", "1"]] {
        // The temporary directory may hold other servers, so the test uses an empty one.
        let out = command(runtime.path(), words).env("TMPDIR", runtime.path()).output().unwrap();
        let message = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(3), "{message}");
        assert!(message.contains("cabrank start"), "{message}");
    }
}

#[test]
fn help_documents_the_exit_codes() {
    let runtime = tempfile::tempdir().unwrap();
    let readme = fs::read_to_string(example("../README.md")).unwrap();
    for words in [&["--help"][..], &["start", "--help"]] {
        let out = command(runtime.path(), words).output().unwrap();
        let message = String::from_utf8(out.stdout).unwrap();
        assert!(out.status.success() && message.contains("Exit codes:"), "{message}");
        for code in 0..=5 {
            assert!(message.contains(&format!("\n  {code}  ")), "{message}");
            assert!(
                readme.contains(&format!("\n| {code} | ")),
                "the README has no exit code {code}"
            );
        }
    }
}

#[test]
fn the_help_wraps_at_the_width_of_the_terminal() {
    let runtime = tempfile::tempdir().unwrap();
    let out = command(runtime.path(), &["start", "--help"]).env("COLUMNS", "70").output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 70), "{text}");
    // Paragraphs are filled: the next word would not fit into a line.
    let lines: Vec<_> = text.lines().skip_while(|line| !line.starts_with("Every option")).collect();
    let end = lines.iter().position(|line| line.starts_with("Exit codes")).unwrap();
    for pair in lines[..end].windows(2).filter(|pair| !pair[0].is_empty() && !pair[1].is_empty()) {
        let next = pair[1].split(' ').next().unwrap();
        assert!(pair[0].trim_end().len() + 1 + next.len() > 70, "{pair:?}");
    }
}
