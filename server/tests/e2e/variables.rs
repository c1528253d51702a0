//! Where an application's variables come from: a file, a login shell, and the owner of its startup file.

use crate::server::{Server, after, eventually, run, start_command, wsgi, wsgi_text};
use crate::users::{OPTIONS, is_root, open_to_all, runtime};
use crate::wrong_input::fails;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

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
    fails(
        dir.path(),
        &options_below,
        2,
        &["below belongs to daemon, and to neither root nor nobody"],
    );
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
    fails(&link, &options, 2, &["current belongs to daemon, and to neither root nor nobody"]);
    lchown(&link, Some(nobody.uid), None).unwrap();
    chown(way.path(), Some(1), None).unwrap();
    let of_way = format!("{} belongs to daemon", way.path().display());
    fails(&link, &options, 2, &[&of_way]);
    fails(&link, &[&options[..], &["--start-command", "true"]].concat(), 2, &[&of_way]);
    chown(dir.path().join("passenger_wsgi.py"), Some(54_321), None).unwrap();
    fails(dir.path(), &options, 2, &["54321", "no such user"]);
}

/// An application below a directory: both belong to the user `daemon`, and to its group.
fn of_daemon() -> (TempDir, PathBuf) {
    let team = tempfile::tempdir().unwrap();
    let app = team.path().join("app");
    fs::create_dir(&app).unwrap();
    fs::write(app.join("passenger_wsgi.py"), wsgi_text("", WHO)).unwrap();
    for path in [team.path(), &app, &app.join("passenger_wsgi.py")] {
        chown(path, Some(DAEMON), Some(DAEMON)).unwrap();
        open_to_all(path);
    }
    (team, app)
}

const WHO: &str = "return answer('the application as ' + str(os.getuid()))";
const DAEMON: u32 = 1;
/// The group `users`, which is the first one of none of these users.
const USERS: u32 = 100;
const BY_OWNER: [&str; 3] = ["--user-by-owner", "--python", "/usr/bin/python3"];

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_owner_counts_only_if_no_other_user_may_write_there() {
    if !is_root() {
        return;
    }
    let (team, app) = of_daemon();
    let file = app.join("passenger_wsgi.py");
    for (path, group, mode, change) in [
        (team.path(), USERS, 0o2775, "g-w"),
        (team.path(), DAEMON, 0o757, "o-w"),
        (team.path(), USERS, 0o777, "go-w"),
        (&app, USERS, 0o775, "g-w"),
        // Anyone could add a module there.
        (&app, DAEMON, 0o1777, "go-w"),
        (&file, USERS, 0o664, "g-w"),
        // The system cannot say whether another user has this group as his first one.
        (&app, DAEMON, 0o775, "g-w"),
    ] {
        chown(path, None, Some(group)).unwrap();
        set_mode(path, mode);
        let (problem, remedy) = (
            format!("{} has the mode {mode:o}", path.display()),
            format!("`chmod {change} {}`", path.display()),
        );
        fails(&app, &BY_OWNER, 2, &[&problem, &remedy, "--user"]);
        let command = [&BY_OWNER[..], &["--start-command", "true"]].concat();
        if path != file {
            fails(&app, &command, 2, &[&problem]);
        }
        chown(path, None, Some(DAEMON)).unwrap();
        set_mode(path, 0o755);
    }
    // No other user may rename in a directory with the sticky bit.
    let served = |expected: &str| {
        let runtime = runtime();
        let command = start_command(runtime.path(), &app, &BY_OWNER);
        assert_eq!(Server::start_with(command, runtime).get("/"), expected);
    };
    served("the application as 1");
    set_mode(team.path(), 0o1777);
    served("the application as 1");
    // The owner's own file does not choose another user.
    fs::write(app.join("cabrank.toml"), "user = \"root\"\n").unwrap();
    served("the application as 1");
}

#[test]
fn no_code_of_another_user_starts_as_the_owner_after_a_directory_was_opened() {
    if !is_root() {
        return;
    }
    let (team, app) = of_daemon();
    let runtime = runtime();
    let options = [&BY_OWNER[..], &["-e", "production"]].concat();
    let server = Server::start_with(start_command(runtime.path(), &app, &options), runtime);
    assert_eq!(server.get("/"), "the application as 1");
    chown(team.path(), None, Some(USERS)).unwrap();
    set_mode(team.path(), 0o2775);
    let evil = wsgi_text("", "return answer('code of nobody as ' + str(os.getuid()))");
    let swap = "import os, sys\nos.setgroups([100])\nos.setgid(65534)\nos.setuid(65534)\nos.chdir(sys.argv[1])\n\
                os.rename('app', 'old')\nos.makedirs('app/tmp')\n\
                open('app/passenger_wsgi.py', 'w').write(sys.argv[2])\nopen('app/tmp/restart.txt', 'w')";
    let mut python = Command::new("/usr/bin/python3");
    assert!(python.args(["-c", swap]).arg(team.path()).arg(evil).status().unwrap().success());
    let problem = format!("{} has the mode 2775", team.path().display());
    let mut served = Vec::new();
    eventually("the restart fails", || {
        served.push(server.get("/"));
        server.log().contains(&problem).then_some(())
    });
    // The former mode does not make the directory of another user that of the owner.
    set_mode(team.path(), 0o755);
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    let foreign = format!("{} belongs to nobody", app.display());
    eventually("the restart fails again", || {
        served.push(server.get("/"));
        server.log().contains(&foreign).then_some(())
    });
    fs::rename(&app, team.path().join("evil")).unwrap();
    fs::rename(team.path().join("old"), &app).unwrap();
    fs::write(app.join("passenger_wsgi.py"), wsgi_text("", "return answer('again')")).unwrap();
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    eventually("the owner's code", || {
        served.push(server.get("/"));
        (served.last().unwrap() == "again").then_some(())
    });
    served.pop();
    assert!(served.iter().all(|answer| answer == "the application as 1"), "{served:?}");
}
