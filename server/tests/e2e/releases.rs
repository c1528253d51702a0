//! Deployment by a link: the application's directory is what its path names when a process starts.

use crate::server::{Server, Signal, eventually, run, signal, start_command};
use crate::users::{OPTIONS, is_root, open_to_all, runtime};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use tempfile::TempDir;

/// Files of a release, which answers with its number, that of a file it reads late, and its working directory. `@` stands for the number.
type Files = &'static [(&'static str, &'static str)];

const WSGI: Files = &[
    (
        "passenger_wsgi.py",
        "import os\n\
         def application(environ, start_response):\n\
         \x20   from late import number\n\
         \x20   start_response('200 OK', [])\n\
         \x20   return [f'@ {number} {os.getcwd()}'.encode()]\n",
    ),
    ("late.py", "number = @\n"),
];

const RACK: Files = &[
    (
        "config.ru",
        "run lambda { |_|\n\
         \x20 require_relative 'late'\n\
         \x20 [200, {}, [\"@ #{NUMBER} #{Dir.pwd}\"]]\n\
         }\n",
    ),
    ("late.rb", "NUMBER = @\n"),
];

/// Each release has another startup file.
const NODE: Files = &[
    ("package.json", "{ \"main\": \"r@.js\" }\n"),
    (
        "r@.js",
        "require('http').createServer((request, response) => {\n\
         \x20 response.end(`@ ${require('./late').number} ${process.cwd()}`);\n\
         }).listen(0);\n",
    ),
    ("late.js", "exports.number = @;\n"),
];

/// Each release has another script.
const NODE_SCRIPT: Files = &[
    ("package.json", "{ \"scripts\": { \"start\": \"N=@ node --title=release-@ serve.js @\" } }\n"),
    (
        "serve.js",
        "const from = [process.env.N, process.title.slice(-1), process.argv[2]];\n\
         require('http').createServer((request, response) => {\n\
         \x20 const number = new Set(from).size === 1 ? from[0] : from.join();\n\
         \x20 response.end(`${number} ${require('./late').number} ${process.cwd()}`);\n\
         }).listen(0);\n",
    ),
    ("late.js", "exports.number = @;\n"),
];

/// Each release has another command.
const GENERIC: Files = &[
    ("Procfile", "web: exec python3 serve@.py\n"),
    (
        "serve@.py",
        "import http.server, os\n\
         class Handler(http.server.BaseHTTPRequestHandler):\n\
         \x20   def do_GET(self):\n\
         \x20       body = f'@ {open(\"late\").read()} {os.getcwd()}'.encode()\n\
         \x20       self.send_response(200)\n\
         \x20       self.send_header('Content-Length', str(len(body)))\n\
         \x20       self.end_headers()\n\
         \x20       self.wfile.write(body)\n\
         http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()\n",
    ),
    ("late", "@"),
];

/// Releases side by side, and the link `current` to one of them.
struct Deployment {
    dir: TempDir,
    files: Files,
}

impl Deployment {
    /// Deploys the first release.
    fn new(files: Files) -> Deployment {
        let deployment = Deployment { dir: tempfile::tempdir().unwrap(), files };
        open_to_all(deployment.dir.path());
        fs::create_dir(deployment.path("shared")).unwrap();
        deployment.make(1);
        deployment.switch(1);
        deployment
    }

    /// Returns a path without links on the way to it: the tests compare it with working directories.
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn current(&self) -> PathBuf {
        self.path("current")
    }

    fn release(&self, number: u32) -> PathBuf {
        self.path(&format!("releases/{number}"))
    }

    fn make(&self, number: u32) {
        let dir = self.release(number);
        fs::create_dir_all(&dir).unwrap();
        for (file, text) in self.files {
            let [file, text] = [file, text].map(|text| text.replace('@', &number.to_string()));
            fs::write(dir.join(file), text).unwrap();
        }
        symlink("../../shared", dir.join("tmp")).unwrap();
    }

    /// Lets `current` lead to another release, as Capistrano does.
    fn switch(&self, number: u32) {
        let next = self.path("next");
        symlink(format!("releases/{number}"), &next).unwrap();
        fs::rename(next, self.current()).unwrap();
    }

    fn touch(&self) {
        // Time stamps of files change with the kernel's tick.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(self.current().join("tmp/restart.txt"), "").unwrap();
    }

    fn answer(&self, number: u32) -> String {
        format!("{number} {number} {}", self.release(number).display())
    }

    fn serves(&self, server: &Server, number: u32) {
        let wanted = self.answer(number);
        // Until then a process may serve whose release was removed.
        let is_served = || server.client().get("/").is_ok_and(|reply| reply.text() == wanted);
        eventually(&format!("{wanted:?}"), || is_served().then_some(()));
        assert_eq!(server.get("/"), wanted);
    }
}

/// Deploys by a touch, by the command, and after the former release was removed.
fn releases_are_served(files: Files, options: &[&str]) {
    for environment in ["development", "production"] {
        let deployment = Deployment::new(files);
        let options = [&["-e", environment, "--stat-throttle-rate", "0"], options].concat();
        let server = Server::start(&deployment.current(), &options);
        deployment.serves(&server, 1);
        deployment.make(2);
        deployment.switch(2);
        deployment.touch();
        deployment.serves(&server, 2);
        deployment.make(3);
        deployment.switch(3);
        fs::remove_dir_all(deployment.release(2)).unwrap();
        assert!(run(server.runtime.path(), &["restart"]).status.success());
        deployment.serves(&server, 3);
        // Back to an earlier one.
        deployment.switch(1);
        assert!(run(server.runtime.path(), &["restart"]).status.success());
        deployment.serves(&server, 1);
        let group = &server.status()["groups"][0];
        assert_eq!(group["app_root"], deployment.current().to_str().unwrap());
        assert_eq!(group["release"], deployment.release(1).to_str().unwrap());
        assert_eq!(
            group["name"],
            format!("{} ({environment})", deployment.current().to_str().unwrap())
        );
    }
}

#[test]
fn releases_of_wsgi_are_served() {
    releases_are_served(WSGI, &[]);
}

#[test]
fn releases_of_wsgi_are_preloaded() {
    releases_are_served(WSGI, &["--spawn-method", "smart"]);
}

#[test]
fn releases_of_rack_are_served() {
    releases_are_served(RACK, &[]);
}

#[test]
fn releases_of_rack_are_preloaded() {
    releases_are_served(RACK, &["--spawn-method", "smart"]);
}

#[test]
fn releases_of_node_may_have_another_startup_file() {
    releases_are_served(NODE, &[]);
}

#[test]
fn releases_of_node_may_have_another_script() {
    releases_are_served(NODE_SCRIPT, &[]);
}

#[test]
fn releases_of_a_command_may_have_another_command() {
    releases_are_served(GENERIC, &[]);
}

/// Each process that starts finds the present release, and the others follow it.
#[test]
fn a_process_that_finds_another_release_begins_a_restart() {
    for method in ["direct", "smart"] {
        let deployment = Deployment::new(WSGI);
        let options = ["-e", "production", "--min-instances", "2", "--spawn-method", method];
        let server = Server::start(&deployment.current(), &options);
        let first = eventually("two processes", || {
            let pids = server.pids();
            (pids.len() == 2).then_some(pids)
        });
        deployment.make(2);
        deployment.switch(2);
        assert_eq!(server.get("/"), deployment.answer(1), "no process starts: nothing follows");
        signal(first[0], Signal::KILL);
        eventually("two other processes", || {
            let pids = server.pids();
            (pids.len() == 2 && !pids.iter().any(|pid| first.contains(pid))).then_some(())
        });
        for _ in 0..4 {
            assert_eq!(server.get("/"), deployment.answer(2));
        }
        server.logs("another release");
    }
}

#[test]
fn a_release_of_another_type_is_named_and_not_served() {
    let deployment = Deployment::new(WSGI);
    let server = Server::start(&deployment.current(), &["-e", "production"]);
    let other = Deployment { files: RACK, ..deployment };
    other.make(2);
    other.switch(2);
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    server.logs("is an application of the type rack");
    assert_eq!(server.get("/"), other.answer(1));
}

#[test]
fn a_link_that_leads_nowhere_is_named_and_the_former_release_is_served() {
    let deployment = Deployment::new(WSGI);
    let server = Server::start(&deployment.current(), &["-e", "production"]);
    let first = server.pids();
    deployment.switch(2); // which was not made
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    server.logs("cannot find");
    eventually("another process", || (server.pids() != first).then_some(()));
    assert_eq!(server.get("/"), deployment.answer(1));
    deployment.make(2);
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    deployment.serves(&server, 2);
}

#[test]
fn the_directory_keeps_the_links_of_its_path_however_it_is_spelled() {
    let deployment = Deployment::new(WSGI);
    let current = deployment.current();
    let name = format!("{} (development)", current.display());
    let spellings = [
        format!("{}/", current.display()),
        format!("{}/./shared/../current/.", deployment.path("").display()),
        ".".into(),
        "current".into(),
    ];
    for spelling in spellings {
        let runtime = tempfile::tempdir().unwrap();
        let mut command = start_command(runtime.path(), spelling.as_ref(), &[]);
        // A shell in a directory that it has entered by a link names it so.
        let directory = if spelling == "." { current.clone() } else { deployment.path("") };
        command.current_dir(&directory).env("PWD", &directory);
        let server = Server::start_with(command, runtime);
        assert_eq!(server.status()["groups"][0]["name"], name, "{spelling}");
    }
    // A link may stand before `..`: the path means another directory then.
    let elsewhere = deployment.path("elsewhere/app");
    fs::create_dir_all(elsewhere.join("deep")).unwrap();
    fs::write(elsewhere.join("passenger_wsgi.py"), "def application(e, s): pass").unwrap();
    symlink(elsewhere.join("deep"), deployment.path("link")).unwrap();
    let server = Server::start(&deployment.path("link/.."), &[]);
    assert_eq!(server.status()["groups"][0]["app_root"], elsewhere.to_str().unwrap());
}

#[test]
fn the_release_that_serves_is_shown_while_another_one_does_not_boot() {
    let deployment = Deployment::new(WSGI);
    let server = Server::start(&deployment.current(), &["-e", "production"]);
    deployment.make(2);
    fs::write(deployment.release(2).join("passenger_wsgi.py"), "1 / 0").unwrap();
    deployment.switch(2);
    let out = run(server.runtime.path(), &["restart", "--wait"]);
    assert_eq!(out.status.code(), Some(5), "{out:?}");
    let (first, second) = (deployment.release(1), deployment.release(2));
    let group = &server.status()["groups"][0];
    assert_eq!(group["release"], first.to_str().unwrap());
    assert_eq!(group["next_release"], second.to_str().unwrap());
    let out = run(server.runtime.path(), &["status"]);
    let text = String::from_utf8(out.stdout).unwrap();
    let line = format!("Release:           {} (next: {})", first.display(), second.display());
    assert!(text.contains(&line), "{text}");
    deployment.make(3);
    deployment.switch(3);
    assert!(run(server.runtime.path(), &["restart", "--wait"]).status.success());
    let group = &server.status()["groups"][0];
    assert_eq!(group["release"], deployment.release(3).to_str().unwrap());
    assert_eq!(group["next_release"], serde_json::Value::Null);
}

/// The files of a release are read with the rights of the application's user.
#[test]
fn a_release_that_the_user_may_not_read_is_not_served() {
    if !is_root() {
        return;
    }
    let deployment = Deployment::new(GENERIC);
    open_to_all(&deployment.path("releases"));
    open_to_all(&deployment.release(1));
    let runtime = runtime();
    let options = [&OPTIONS[..], &["-e", "production"]].concat();
    let command = start_command(runtime.path(), &deployment.current(), &options);
    let server = Server::start_with(command, runtime);
    deployment.serves(&server, 1);
    let secret = tempfile::tempdir().unwrap();
    fs::set_permissions(secret.path(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(secret.path().join("Procfile"), "web: echo SECRET\n").unwrap();
    deployment.make(2);
    fs::remove_file(deployment.release(2).join("Procfile")).unwrap();
    symlink(secret.path().join("Procfile"), deployment.release(2).join("Procfile")).unwrap();
    deployment.switch(2);
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    server.logs("Procfile");
    assert!(!server.log().contains("SECRET"), "{}", server.log());
    assert_eq!(server.get("/"), deployment.answer(1));
}
