//! The server serves and shuts down however slow the reader of its log is, and without a reader.

use crate::server::{Server, Signal, command, eventually, run, start_command, wsgi};
use crate::wrong_input::fails;
use cabrank_checks_harness::Client;
use cabrank_checks_harness::server::free_address;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LINES: usize = 40_000;

/// Writes an application whose `/print` prints several megabytes: more than any pipe holds.
fn noisy() -> TempDir {
    wsgi(
        "",
        &format!(
            "if path == '/print':\n    for i in range({LINES}): print('x' * 100, i)\n\
             if path == '/end': print('the end')\nreturn answer('ok')"
        ),
    )
}

/// Ends the server by SIGTERM, and asserts that it shuts down gracefully and soon.
#[track_caller]
fn shuts_down(server: &mut Server) {
    let begun = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(
        std::fs::read_dir(server.runtime.path()).unwrap().count(),
        0,
        "the instance directory is still there"
    );
}

#[test]
fn an_unread_log_does_not_block_the_server() {
    let dir = noisy();
    let (unread, stderr) = std::io::pipe().unwrap();
    let mut server = Server::start_logging_to(stderr, dir.path(), &[]);
    for _ in 0..3 {
        assert_eq!(server.get("/print"), "ok");
    }
    assert_eq!(server.status()["requests_in_queue"], 0);
    shuts_down(&mut server);
    drop(unread);
}

#[test]
fn a_log_whose_reader_has_closed_does_not_block_the_server() {
    let dir = noisy();
    let (reader, stderr) = std::io::pipe().unwrap();
    drop(reader);
    let mut server = Server::start_logging_to(stderr, dir.path(), &[]);
    for _ in 0..3 {
        assert_eq!(server.get("/print"), "ok");
    }
    shuts_down(&mut server);
}

#[test]
fn lost_lines_are_counted_and_reported() {
    for format in ["text", "json"] {
        let dir = noisy();
        let (reader, stderr) = std::io::pipe().unwrap();
        let options = ["--log-format", format, "--log-level", "info"];
        let mut server = Server::start_logging_to(stderr, dir.path(), &options);
        assert_eq!(server.get("/print"), "ok");
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        let read = std::thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                kept.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let logs = |part: &str| {
            eventually(part, || log.lock().unwrap().contains(part).then_some(()));
        };
        logs("log lines lost: ");
        // Output arrives in order, so this line follows all others.
        server.get("/end");
        logs("the end");
        shuts_down(&mut server);
        read.join().unwrap();
        let text = log.lock().unwrap();
        let seen = text.lines().filter(|l| l.contains(": xxxx")).count();
        let notices: Vec<_> = text.split("log lines lost: ").skip(1).collect();
        let lost: usize = notices
            .iter()
            .map(|rest| rest.split('.').next().unwrap().parse::<usize>().unwrap())
            .sum();
        assert_eq!(seen + lost, LINES);
        if format == "json" {
            text.lines().for_each(|l| drop(serde_json::from_str::<serde_json::Value>(l).unwrap()));
        }
    }
}

#[test]
fn the_final_message_does_not_wait_for_a_reader() {
    let dir = wsgi(
        &format!("for i in range({LINES}): print('x' * 100, i)\nraise RuntimeError('no')"),
        "",
    );
    let runtime = tempfile::tempdir().unwrap();
    let (unread, stderr) = std::io::pipe().unwrap();
    let mut child = start_command(runtime.path(), dir.path(), &[]).stderr(stderr).spawn().unwrap();
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eventually("the server exits", || child.try_wait().unwrap())
    }));
    let _ = child.kill();
    assert_eq!(ended.unwrap().code(), Some(5));
    drop(unread);
}

#[test]
fn a_quiet_log_level_keeps_the_output_of_the_application() {
    let dir = wsgi(
        "print('while booting')",
        "if path == '/bad': raise RuntimeError('no database')\nreturn answer('ok')",
    );
    for (level, format) in [("warn", "text"), ("error", "json")] {
        let (reader, stderr) = std::io::pipe().unwrap();
        let options = ["--log-level", level, "--log-format", format];
        let mut server = Server::start_logging_to(stderr, dir.path(), &options);
        assert_eq!(server.client().get("/bad").unwrap().status, 500);
        shuts_down(&mut server);
        let log = std::io::read_to_string(reader).unwrap();
        for part in ["while booting", "Traceback", "RuntimeError: no database"] {
            assert!(log.contains(part), "{part:?} is missing in:\n{log}");
        }
        // Messages of the server itself follow the level.
        assert!(!log.contains("shutting down"), "{log}");
    }
}

#[test]
fn an_option_drops_the_output_of_the_application() {
    let dir = wsgi("print('while booting')", "return answer('ok')");
    let server = Server::start(dir.path(), &["--app-output=false"]);
    assert!(!server.log().contains("while booting"), "{}", server.log());
}

#[test]
fn repeated_boot_failures_are_one_line_each() {
    let dir = wsgi("", "return answer('ok')");
    let server = Server::start(dir.path(), &["-e", "production"]);
    let count = |part: &str| server.log().matches(part).count();
    let deploy = |text: &str| {
        std::fs::write(dir.path().join("passenger_wsgi.py"), text).unwrap();
        assert!(run(server.runtime.path(), &["restart"]).status.success());
    };
    deploy("print('one')\nraise RuntimeError('no database')\n");
    let wait = |attempts: usize, error: &str| {
        eventually("another attempt", || {
            server.get("/");
            let failed = server.log().lines().filter(|l| l.contains("next attempt in")).count();
            (failed >= attempts && count(error) >= attempts.min(2)).then_some(())
        });
    };
    wait(3, "no database");
    assert_eq!((count("Traceback"), count("stdout: one")), (1, 1), "{}", server.log());
    // Another error is logged completely.
    deploy("print('two')\nraise RuntimeError('no cache')\n");
    eventually("the other error", || (count("RuntimeError: no cache") >= 2).then_some(()));
    assert_eq!((count("Traceback"), count("boot: two")), (2, 1), "{}", server.log());
    // The output of a process that boots at last is not lost.
    deploy(&crate::server::wsgi_text("print('three')", "return answer('new')"));
    eventually("the new version", || (server.get("/") == "new").then_some(()));
    server.logs("boot: three");
}

#[test]
fn each_request_has_a_line_at_the_debug_level_alone() {
    let dir = wsgi("", "return answer('hello')");
    for (level, lines) in [("debug", 1), ("info", 0)] {
        let mut server = Server::start(dir.path(), &["--log-level", level]);
        assert_eq!(server.get("/hello"), "hello");
        server.signal(Signal::TERM);
        server.ended();
        // The last line comes after the line of the request.
        server.logs("shut down");
        assert_eq!(
            server.log().matches("127.0.0.1 GET /hello: Answered, status 200, ").count(),
            lines
        );
    }
}

#[test]
fn a_file_takes_the_log_and_errors_of_the_start_are_shown_as_well() {
    let dir = wsgi("", "print('words of the application')\nreturn answer('ok')");
    let runtime = tempfile::tempdir().unwrap();
    let file = dir.path().join("ours.log");
    let option = ["--log-file", file.to_str().unwrap()];
    let has = |part: &str| {
        eventually(part, || std::fs::read_to_string(&file).ok()?.contains(part).then_some(()));
    };
    let address = free_address().unwrap();
    let port = address.port().to_string();
    let mut command = command(runtime.path(), &["start", "--port", &port]);
    let mut server = command.args(option).arg(dir.path()).stderr(Stdio::piped()).spawn().unwrap();
    has(&format!("at http://{address}"));
    let get = || Client::connect(address).unwrap().get("/").unwrap().text();
    assert_eq!(get(), "ok");
    has("words of the application");
    std::fs::rename(&file, dir.path().join("ours.log.1")).unwrap();
    assert_eq!(get(), "ok");
    has("words of the application");
    assert!(run(runtime.path(), &["stop"]).status.success());
    assert!(server.wait().unwrap().success());
    has("shut down");
    let out = server.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(out.stderr).unwrap(), "");
    std::fs::write(dir.path().join("passenger_wsgi.py"), "raise RuntimeError('broken')").unwrap();
    fails(dir.path(), &option, 5, &["RuntimeError: broken"]);
    has("RuntimeError: broken");
    let none = ["--log-file", "/none/at/all"];
    fails(dir.path(), &none, 2, &["cannot log to /none/at/all", "--log-file"]);
}

#[test]
fn a_line_names_a_pid_once_and_an_error_of_the_application_is_one() {
    let dir = wsgi(
        "",
        "if path == '/fail': raise KeyError('no such shop')\nprint('said')\nreturn answer('ok')",
    );
    for format in ["text", "json"] {
        let server = Server::start(dir.path(), &["--log-format", format]);
        let pid = server.pids()[0].to_string();
        assert_eq!(server.get("/"), "ok");
        assert_eq!(server.client().get("/fail").unwrap().status, 500);
        for (part, level) in [
            ("is ready", "INFO"),
            ("stdout: said", "INFO"),
            ("stderr: Traceback (most recent call last):", "ERROR"),
            ("stderr: KeyError: 'no such shop'", "ERROR"),
        ] {
            server.logs(part);
            let log = server.log();
            let line = log.lines().find(|line| line.contains(part)).unwrap();
            assert!(line.contains(level), "{line}");
            let times = if format == "text" { 1 } else { 2 };
            assert_eq!(line.matches(&pid).count(), times, "{line}");
        }
    }
}
