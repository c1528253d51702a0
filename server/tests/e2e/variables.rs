//! Where an application's variables come from: a file, a login shell, and the owner of its startup file.

use crate::server::{Server, after, eventually, run, start_command, wsgi};
use crate::users::{OPTIONS, is_root, open_to_all, runtime};
use crate::wrong_input::fails;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::Command;

const SHOW: &str =
    "return answer(' '.join(os.environ.get(n, '-') for n in ('A', 'B', 'WSGI_ENV')))";

#[test]
fn a_file_gives_variables_that_the_server_has_not_and_a_restart_reads_it_again() {
    let dir = wsgi("", SHOW);
    let file = dir.path().join("ours.env");
    fs::write(&file, "export A='from the file'\nB=file\nWSGI_ENV=staging\n").unwrap();
    for method in ["direct", "smart"] {
        let runtime = tempfile::tempdir().unwrap();
        let options = ["--env-file", "ours.env", "--spawn-method", method];
        let mut command = start_command(runtime.path(), dir.path(), &options);
        command.env("B", "server");
        let server = Server::start_with(command, runtime);
        assert_eq!(server.get("/"), "from the file server staging");
        assert_eq!(server.status()["environment"], "staging");
        fs::write(&file, "A=p$w:${B}\nWSGI_ENV=production\n").unwrap();
        assert!(run(server.runtime.path(), &["restart"]).status.success());
        // The environment is the server's, and a restart does not change it.
        eventually("the new value", || {
            (server.get("/") == "p$w:${B} server staging").then_some(())
        });
        fs::write(&file, "export A='from the file'\nB=file\nWSGI_ENV=staging\n").unwrap();
    }
    let other = Server::start(dir.path(), &["--env-file", "ours.env", "-e", "test"]);
    assert!(other.get("/").ends_with(" test"));
}

#[test]
fn settings_that_are_not_read_are_named() {
    let (dir, runtime) = (wsgi("", SHOW), runtime());
    fs::write(dir.path().join("Passengerfile.json"), "{}").unwrap();
    let mut command = start_command(runtime.path(), dir.path(), &[]);
    command.env("CABRANK_MAX_POOL_SICE", "3").env("CABRANK_MAX_POOL_SIZE", "3");
    command.env("PASSENGER_MAX_POOL_SIZE", "3").env("PASSENGER_THREAD_COUNT", "3");
    for name in ["PASSENGER_APP_ENV", "PASSENGER_BASE_URI", "PASSENGER_OF_THE_APPLICATION"] {
        command.env(name, "test");
    }
    let server = Server::start_with(command, runtime);
    server.logs("Passengerfile.json is not read: write its options into cabrank.toml");
    server.logs("the variable CABRANK_MAX_POOL_SICE names no option");
    server.logs("the variable PASSENGER_MAX_POOL_SIZE is not read: use CABRANK_MAX_POOL_SIZE.");
    server.logs("the variable PASSENGER_THREAD_COUNT is not read: use --app-threads N");
    assert_eq!(server.log().matches("the variable ").count(), 3);
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_its_line_and_without_its_values() {
    let dir = wsgi("", SHOW);
    let option = ["--env-file", "ours.env"];
    fails(dir.path(), &option, 2, &["ours.env", "No such file", "--env-file"]);
    fs::write(dir.path().join("ours.env"), "A=1\nB='secret\n").unwrap();
    let message = fails(dir.path(), &option, 2, &["ours.env: line 2 (B): the quote"]);
    assert!(!message.contains("secret"), "{message}");
    // After a restart the error is that of a process.
    fs::write(dir.path().join("ours.env"), "A=1\n").unwrap();
    let server = Server::start(dir.path(), &option);
    fs::remove_file(dir.path().join("ours.env")).unwrap();
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    server.logs("cannot read the variables in ours.env");
    let page = eventually("an error page", || {
        let reply = server.client().get("/").unwrap();
        (reply.status == 500).then(|| reply.text())
    });
    assert!(page.contains("ours.env"), "{page}");
}

#[test]
fn a_file_that_only_root_may_read_gives_another_user_nothing() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", SHOW);
    open_to_all(dir.path());
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "A=secret\n").unwrap();
    symlink(secret.path(), dir.path().join("ours.env")).unwrap();
    let options = [&["--env-file", "ours.env"][..], &OPTIONS].concat();
    fails(dir.path(), &options, 2, &["Permission denied", "let the user nobody read it"]);
    fs::set_permissions(secret.path(), Permissions::from_mode(0o644)).unwrap();
    let runtime = runtime();
    let command = start_command(runtime.path(), dir.path(), &options);
    assert!(Server::start_with(command, runtime).get("/").starts_with("secret "));
}

/// Makes a home whose login shell sets the variable `A`, and returns a command that starts a server with it.
fn with_home(home: &Path, server: &Command) -> Command {
    fs::write(home.join(".profile"), "echo words of a shell\nexport A=shell\n").unwrap();
    fs::write(home.join(".bash_profile"), ". \"$HOME/.profile\"\n").unwrap();
    after(&format!("os.environ['HOME'] = {:?}", home.display().to_string()), server)
}

#[test]
fn a_login_shell_sets_variables_for_processes_with_and_without_a_loader() {
    let home = tempfile::tempdir().unwrap();
    let show = wsgi("", SHOW);
    let serve = "import os, http.server\nclass H(http.server.BaseHTTPRequestHandler):\n    def do_GET(self):\n        \
                 self.send_response(200); self.end_headers(); self.wfile.write(os.environ.get('A', '-').encode())\n\
                 http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), H).serve_forever()\n";
    fs::write(show.path().join("serve.py"), serve).unwrap();
    for (options, expected) in [
        (&["--load-shell-environment"][..], "shell"),
        (&["--load-shell-environment", "--spawn-method", "smart"], "shell"),
        (&["--load-shell-environment", "--start-command", "python3 serve.py"], "shell"),
        (&[], "-"),
    ] {
        let runtime = tempfile::tempdir().unwrap();
        let command = start_command(runtime.path(), show.path(), options);
        let server = Server::start_with(with_home(home.path(), &command), runtime);
        assert!(server.get("/").starts_with(expected), "{options:?}");
        if expected == "shell" {
            server.logs("words of a shell");
        }
    }
}

#[test]
fn the_owner_of_the_startup_file_runs_the_application() {
    if !is_root() {
        return;
    }
    let dir = wsgi("", "return answer(os.environ['USER'] + ' ' + str(os.getuid()))");
    open_to_all(dir.path());
    let options = ["--user-by-owner", "--python", "/usr/bin/python3"];
    fails(dir.path(), &options, 2, &["passenger_wsgi.py belongs to root", "--user"]);
    let nobody = cabrank_spawner::User::find("nobody").unwrap().unwrap();
    chown(dir.path().join("passenger_wsgi.py"), Some(nobody.uid), None).unwrap();
    let runtime = runtime();
    let command = start_command(runtime.path(), dir.path(), &options);
    let server = Server::start_with(command, runtime);
    assert_eq!(server.get("/"), format!("nobody {}", nobody.uid));
    // Another user could have put a link to a file of this user there.
    chown(dir.path(), Some(1), None).unwrap();
    fails(dir.path(), &options, 2, &["another user may put another application there"]);
    chown(dir.path(), Some(0), None).unwrap();
    fs::rename(dir.path().join("passenger_wsgi.py"), dir.path().join("other.py")).unwrap();
    symlink("other.py", dir.path().join("passenger_wsgi.py")).unwrap();
    fails(dir.path(), &options, 2, &["passenger_wsgi.py is a link"]);
    fs::rename(dir.path().join("other.py"), dir.path().join("passenger_wsgi.py")).unwrap();
    // So it could in a directory below.
    let below = dir.path().join("below");
    fs::create_dir(&below).unwrap();
    fs::copy(dir.path().join("passenger_wsgi.py"), below.join("wsgi.py")).unwrap();
    chown(below.join("wsgi.py"), Some(nobody.uid), None).unwrap();
    chown(&below, Some(1), None).unwrap();
    let options_below = [&options[..], &["--startup-file", "below/wsgi.py"]].concat();
    fails(dir.path(), &options_below, 2, &["below belongs to neither root alone nor the owner"]);
    // Or it could change the way to the directory after the start.
    let way = tempfile::tempdir().unwrap();
    open_to_all(way.path());
    let link = way.path().join("current");
    symlink(dir.path(), &link).unwrap();
    let runtime = self::runtime();
    let command = start_command(runtime.path(), &link, &options);
    let server = Server::start_with(command, runtime);
    assert!(server.get("/").starts_with("nobody"));
    // A release of another user is served as before, and the log says so.
    let other = wsgi("", "return answer('other ' + str(os.getuid()))");
    open_to_all(other.path());
    chown(other.path().join("passenger_wsgi.py"), Some(2), None).unwrap();
    fs::remove_file(&link).unwrap();
    symlink(other.path(), &link).unwrap();
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    let served = format!("other {}", nobody.uid);
    eventually("the other release serves", || (server.get("/") == served).then_some(()));
    server.logs("belongs to bin. A restart does not change the user: until the server starts again, it runs as nobody.");
    drop(server);
    fs::remove_file(&link).unwrap();
    symlink(dir.path(), &link).unwrap();
    lchown(&link, Some(1), None).unwrap();
    fails(&link, &options, 2, &["current belongs to neither root alone nor the owner"]);
    lchown(&link, Some(nobody.uid), None).unwrap();
    chown(way.path(), Some(1), None).unwrap();
    let of_way = format!("{} belongs to neither", way.path().display());
    fails(&link, &options, 2, &[&of_way]);
    fails(&link, &[&options[..], &["--start-command", "true"]].concat(), 2, &[&of_way]);
    chown(dir.path().join("passenger_wsgi.py"), Some(54_321), None).unwrap();
    fails(dir.path(), &options, 2, &["54321", "no such user"]);
}
