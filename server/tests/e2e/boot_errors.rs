//! Boot errors on the terminal, in the log and on the page: the output, the place, the advice and the circumstances.

use crate::server::{Server, app, command, eventually, run, start_command};
use crate::wrong_input::{fails, in_time};
use std::fs;
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
