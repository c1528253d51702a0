//! Boot errors on the terminal, in the log and on the page: the output, the place, the advice and the circumstances.

use crate::server::{Server, app, command, eventually, run, start_command, wsgi, wsgi_text};
use crate::users::{OPTIONS, is_root, open_to_all, runtime};
use crate::wrong_input::{fails, in_time};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// An application that works, and a version of it that fails in a module of its own.
struct Broken {
    startup_file: &'static str,
    good: &'static str,
    bad: &'static str,
    module: (&'static str, &'static str),
    /// The place, the advice, and the program of the command.
    shown: [&'static str; 3],
}

const BROKEN: [Broken; 3] = [
    Broken {
        startup_file: "passenger_wsgi.py",
        good: "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'ok']\n",
        bad: "import shop\n",
        module: ("shop.py", "# The shop.\n\nimport no_such_library\n"),
        shown: ["shop.py:3", "Install no_such_library for", "python3 "],
    },
    Broken {
        startup_file: "config.ru",
        good: "run(lambda { |env| [200, {}, ['ok']] })\n",
        bad: "require_relative 'shop'\n",
        module: ("shop.rb", "# The shop.\n\nrequire 'no_such_library'\n"),
        shown: ["shop.rb:3", "Add the gem that has no_such_library to the Gemfile", "ruby "],
    },
    Broken {
        startup_file: "app.js",
        good: "require('http').createServer((_, answer) => answer.end('ok')).listen('passenger');\n",
        bad: "require('./shop');\n",
        module: ("shop.js", "// The shop.\n\nrequire('no_such_library');\n"),
        shown: ["shop.js:3", "npm install no_such_library", "node "],
    },
];

impl Broken {
    fn good(&self) -> TempDir {
        let dir = app(self.startup_file, self.good);
        fs::write(dir.path().join(self.module.0), self.module.1).unwrap();
        dir
    }

    fn break_it(&self, dir: &TempDir) {
        fs::write(dir.path().join(self.startup_file), self.bad).unwrap();
    }
}

#[test]
fn the_terminal_shows_where_a_boot_failed_what_to_try_and_how_it_was_started() {
    for broken in &BROKEN {
        let dir = broken.good();
        broken.break_it(&dir);
        let runtime = tempfile::tempdir().unwrap();
        let mut start = start_command(runtime.path(), dir.path(), &[]);
        let out = in_time(start.env("SHOP_SECRET", "hunter2"));
        let message = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(5), "{message}");
        let [place, advice, program] = broken.shown;
        for part in [place, advice, program, "no_such_library", "SHOP_SECRET", broken.startup_file]
        {
            assert!(message.contains(part), "{part:?} is missing in: {message}");
        }
        assert!(!message.contains("hunter2"), "{message}");
        let line = message.lines().find(|line| line.trim_start().starts_with("Failed in")).unwrap();
        assert!(line.ends_with(&format!(" {place}")), "{message}");
    }
}

#[test]
fn the_page_in_development_and_the_log_show_the_same() {
    for broken in &BROKEN {
        let dir = broken.good();
        let runtime = tempfile::tempdir().unwrap();
        let mut start = start_command(runtime.path(), dir.path(), &[]);
        start.env("SHOP_SECRET", "hunter2");
        let server = Server::start_with(start, runtime);
        let page = broken_page(broken, &dir, &server);
        let [place, advice, program] = broken.shown;
        for part in [place, advice, program, "SHOP_SECRET", "values are hidden"] {
            assert!(page.contains(part), "{part:?} is missing in: {page}");
        }
        server.logs(&format!("(in {place})"));
        server.logs(advice);
        server.logs("SHOP_SECRET");
        assert!(!page.contains("hunter2") && !server.log().contains("hunter2"), "{page}");
    }
}

#[test]
fn the_page_in_production_shows_none_of_it() {
    let broken = &BROKEN[0];
    let dir = broken.good();
    let server = Server::start(dir.path(), &["-e", "production", "--no-rolling-restarts"]);
    let page = broken_page(broken, &dir, &server);
    for part in ["shop", "no_such_library", "PATH", "python"] {
        assert!(!page.contains(part), "{part:?} is in: {page}");
    }
}

/// Deploys the broken version. Returns the page that a browser gets.
fn broken_page(broken: &Broken, dir: &TempDir, server: &Server) -> String {
    broken.break_it(dir);
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    eventually("an error page", || {
        let reply = server.client().request("GET", "/", &[("Accept", "text/html")], b"").unwrap();
        (reply.status == 500).then(|| reply.text())
    })
}

#[test]
fn a_start_command_that_the_shell_does_not_find_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--start-command", "no_such_server --port $PORT"];
    let parts = ["Install no_such_server", "no_such_server --port $PORT", "PORT"];
    fails(dir.path(), &options, 5, &parts);
}

#[test]
fn a_task_that_is_made_while_the_application_is_imported_has_a_better_place() {
    for line in ["asyncio.create_task(work())", "asyncio.get_event_loop().create_task(work())"] {
        let text = format!(
            "import asyncio\nasync def work(): pass\n{line}\nasync def app(scope, receive, send): pass\n"
        );
        let dir = app("asgi.py", &text);
        fails(dir.path(), &[], 5, &["in the startup of the lifespan"]);
    }
}

#[test]
fn the_error_of_a_boot_that_takes_too_long_says_what_the_process_does() {
    for (code, part) in [
        ("while True: pass", "still running Python code"),
        ("time.sleep(600)", "runs no Python code, and waits"),
        (
            "import socket; s = socket.create_server(('127.0.0.1', 0)); time.sleep(600)",
            "listens at 127.0.0.1:",
        ),
        ("print('(Pdb) '); time.sleep(600)", "waits for a debugger"),
    ] {
        let dir = wsgi(code, "");
        fails(dir.path(), &["--start-timeout", "3"], 5, &["within 3 s", part]);
    }
}

#[test]
fn the_log_says_that_a_process_is_still_starting() {
    let wait =
        "while not os.path.exists(os.path.join(os.path.dirname(__file__), 'go')): time.sleep(0.01)";
    let dir = wsgi("", "return answer('ok')");
    let server = Server::start(dir.path(), &["-e", "production"]);
    fs::write(dir.path().join("passenger_wsgi.py"), wsgi_text(wait, "return answer('new')"))
        .unwrap();
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    server.logs("a process has been starting for 2 s, and has 90 s (--start-timeout)");
    fs::write(dir.path().join("go"), "").unwrap();
    eventually("new code", || (server.get("/") == "new").then_some(()));
}

#[test]
fn a_virtual_environment_that_the_user_may_not_read_is_named() {
    if !is_root() {
        return;
    }
    let dir = wsgi("import no_such_library", "");
    fs::create_dir_all(dir.path().join(".venv/bin")).unwrap();
    open_to_all(dir.path());
    fs::set_permissions(dir.path().join(".venv"), fs::Permissions::from_mode(0o700)).unwrap();
    let runtime = runtime();
    let out = in_time(&mut start_command(runtime.path(), dir.path(), &OPTIONS));
    let message = String::from_utf8(out.stderr).unwrap();
    let named = format!("cannot read the virtual environment {}/.venv", dir.path().display());
    assert!(message.contains(&named), "{message}");
}

#[test]
fn a_file_that_the_user_may_not_read_names_the_user() {
    let dir =
        app("passenger_wsgi.py", "raise PermissionError(13, 'Permission denied', 'key.pem')\n");
    let runtime = tempfile::tempdir().unwrap();
    let start = ["start", dir.path().to_str().unwrap(), "--port", "0"];
    let out = in_time(&mut command(runtime.path(), &start));
    let message = String::from_utf8(out.stderr).unwrap();
    assert!(message.contains("access to the file in the message"), "{message}");
    assert!(message.contains("passenger_wsgi.py:1"), "{message}");
}

/// Fails in each way in which the application chooses a part of the error.
const FAILS: &str = r#"
import os
EVIL = "a\rERROR forged \x1b[6n\x1b]2;title\x07\x9b6n\x08"
FAILURES = {
    "output": lambda: os.write(1, EVIL.encode()),
    "message": lambda: exec("raise RuntimeError(EVIL)"),
    "protocol": lambda: os.write(1, f"\n!> {EVIL}\n".encode()),
    "socket": lambda: os.write(1, f"\n!> Ready\n!> socket: main;unix:/tmp/{EVIL};session;1\n!> \n".encode()),
}
FAILURES[open(os.path.join(os.path.dirname(__file__), "failure")).read()]()
os._exit(1)
"#;

#[track_caller]
fn has_no_control_characters(text: &str) {
    let is_bad = |c: char| c.is_control() && !"\n\t".contains(c);
    assert!(!text.contains(is_bad), "{text:?}");
    assert!(text.contains("\\u001b[6n") || text.contains("\\x1b[6n"), "{text:?}");
}

#[test]
fn no_control_character_of_an_application_reaches_the_terminal_or_the_log() {
    for failure in ["output", "message", "protocol", "socket"] {
        let broken = &BROKEN[0];
        let dir = broken.good();
        fs::write(dir.path().join("failure"), failure).unwrap();
        let server = Server::start(dir.path(), &[]);
        fs::write(dir.path().join(broken.startup_file), FAILS).unwrap();
        has_no_control_characters(&fails(dir.path(), &[], 5, &["forged"]));
        assert!(run(server.runtime.path(), &["restart"]).status.success());
        server.logs("next attempt in");
        has_no_control_characters(&server.log());
    }
}
