//! Types that `cabrank.toml` defines, with a loader and a preloader of their own in Perl.

use crate::server::{Server, Signal, app, eventually, example, is_alive, run, start_command};
use crate::wrong_input::fails;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The beginning of a complete section, of four lines.
const SECTION: &str = "[app_type.psgi]\nstartup_file = \"app.psgi\"\nloader = \"psgi-loader.pl\"\ninterpreter = \"perl\"\n";

/// Copies the example, with this configuration.
fn copy(configuration: &str) -> TempDir {
    let dir = app("cabrank.toml", configuration);
    for file in ["app.psgi", "psgi-loader.pl", "psgi-preloader.pl"] {
        fs::copy(example("custom").join(file), dir.path().join(file)).unwrap();
    }
    dir
}

#[test]
fn a_loader_of_somebody_else_serves() {
    let mut server = Server::start(&example("custom"), &["--log-level", "debug"]);
    let status = server.status();
    assert_eq!(status["app_type"], "psgi");
    assert_eq!(status["groups"][0]["processes"][0]["concurrency"], 1);
    let first = server.pids()[0];
    assert!(server.get("/a%20b").contains(&format!("Process {first} of Perl")));
    let body = vec![7; 1 << 20];
    let reply = server.client().request("POST", "/", &[], &body).unwrap();
    assert_eq!((reply.status, reply.text()), (200, "1048576 bytes\n".into()));

    assert_eq!(server.client().request("POST", "/crash", &[], b"").unwrap().status, 502);
    let second = eventually("another process", || {
        let pid = *server.pids().first()?;
        (pid != first && server.get("/").contains(&pid.to_string())).then_some(pid)
    });
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    eventually("a new process", || (!server.get("/").contains(&second.to_string())).then_some(()));
    // At its own end the server may leave before this line is in the log.
    server.logs(&format!("App {second} has exited: exit status: 0"));
    let third = server.pids()[0];
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(!is_alive(third));
}

#[test]
fn a_preloader_of_somebody_else_forks_the_processes() {
    let options = ["--spawn-method", "smart", "--min-instances", "2", "--max-pool-size", "2"];
    let mut server = Server::start(&example("custom"), &options);
    server.logs("has loaded the application");
    eventually("two processes", || (server.pids().len() == 2).then_some(()));
    assert_eq!(server.children().len(), 3, "a preloader and two processes");
    assert!(server.get("/").contains("of Perl"));
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(!server.log().contains("unexpectedly"), "{}", server.log());
}

#[test]
fn a_type_of_the_user_comes_before_the_known_ones_unless_an_option_decides() {
    let dir = copy(&format!("port = 0\n{SECTION}concurrency = 3\n"));
    fs::write(dir.path().join("config.ru"), "").unwrap();
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.status()["app_type"], "psgi");
    assert_eq!(server.status()["groups"][0]["processes"][0]["concurrency"], 3);
    drop(server);
    for options in [&["--app-type", "psgi"][..], &["--startup-file", "other.psgi"]] {
        fs::copy(dir.path().join("app.psgi"), dir.path().join("other.psgi")).unwrap();
        assert_eq!(Server::start(dir.path(), options).status()["app_type"], "psgi");
    }
    let runtime = tempfile::tempdir().unwrap();
    let options = ["--start-command", "python3 -m http.server --bind 127.0.0.1 $PORT"];
    let command = start_command(runtime.path(), dir.path(), &options);
    assert_eq!(Server::start_with(command, runtime).status()["app_type"], "generic");
}

#[test]
fn the_error_of_the_application_is_shown() {
    let dir = copy(SECTION);
    fs::write(dir.path().join("app.psgi"), "die 'no database';\n").unwrap();
    fails(dir.path(), &[], 5, &["no database at"]);
}

#[test]
fn a_definition_that_contradicts_the_loader_is_reported() {
    let dir = copy(&format!("{SECTION}protocol = \"http_session\"\n"));
    fails(dir.path(), &[], 5, &["`main` has the protocol session", "says http_session"]);
    let dir = copy(&SECTION.replace("\"perl\"", "\"no-such-perl\""));
    fails(dir.path(), &[], 5, &["no-such-perl", "definition of the type psgi"]);
}

#[track_caller]
fn is_refused(dir: &Path, configuration: &str, parts: &[&str]) {
    fs::write(dir.join("cabrank.toml"), configuration).unwrap();
    fails(dir, &[], 2, parts);
}

#[test]
fn the_error_for_a_bad_definition_names_line_key_and_remedy() {
    let dir = copy("");
    let dir = dir.path();
    for (added, parts) in [
        (
            "loadr = 1",
            &["toml:5: unknown key loadr in [app_type.psgi]", "startup_file, loader"][..],
        ),
        ("port = 1", &["toml:5: the key port is below [app_type.psgi]", "above the first section"]),
        (
            "protocol = \"http\"",
            &["toml:5: bad value for protocol", "must be one of session, http_session"],
        ),
        ("concurrency = -1", &["toml:5: bad value for concurrency", "a whole number from 0"]),
        ("title =", &["toml:5: bad value for title", "the value is missing"]),
        ("title = \"\"", &["toml:5: bad value for title", "text without a line break"]),
        ("loader = \"x\"", &["toml:5: loader is set twice in [app_type.psgi]"]),
        ("preloader = \"gone\"", &["toml:5: bad value for preloader", "gone does not exist"]),
        (SECTION, &["toml:5: the section [app_type.psgi] is there twice"]),
        ("[pool]\nx = 1", &["toml:5: unknown section [pool]", "[app_type.NAME]"]),
    ] {
        is_refused(dir, &format!("{SECTION}{added}\n"), parts);
    }
    let without = |line: &str| {
        SECTION
            .lines()
            .filter(|l| !l.starts_with(line))
            .fold(String::new(), |text, line| text + line + "\n")
    };
    for (configuration, parts) in [
        (without("startup_file"), &["toml:1: the section [app_type.psgi] has no startup_file"][..]),
        (without("loader"), &["toml:1: the section [app_type.psgi] has no loader"]),
        (without("interpreter"), &["toml:3:", "not executable", "chmod +x", "interpreter"]),
        (SECTION.replace("psgi]", "node]"), &["toml:1:", "built-in type"]),
        (
            format!("app_type = \"node\"\n{SECTION}"),
            &["toml:2:", "both the key app_type and the section"],
        ),
        ("[app_type]\nx = 1\n".into(), &["toml:2:", "a section of its own"]),
        (
            format!("[{}", SECTION.replace("psgi]", "psgi]]")),
            &["toml:1:", "no definition of a type"],
        ),
    ] {
        is_refused(dir, &configuration, parts);
    }
}

#[test]
fn two_definitions_with_startup_files_are_ambiguous() {
    let other = SECTION.replace("psgi]", "other]").replace("app.psgi", "psgi-loader.pl");
    let dir = copy(&format!("{SECTION}{other}"));
    fails(dir.path(), &[], 3, &["app.psgi (psgi)", "psgi-loader.pl (other)", "--app-type"]);
    let server = Server::start(dir.path(), &["--app-type", "psgi"]);
    assert!(server.get("/").contains("of Perl"));
    fails(dir.path(), &["--app-type", "perl"], 2, &["psgi, other, rack, wsgi", "generic"]);
}
