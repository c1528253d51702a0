//! The configuration from all its sources.

use super::*;
use crate::configuration::cli::{Cli, Command};
use cabrank::application_pool::RestartMode;
use cabrank_spawner::app_type::Interpreter;
use clap::Parser;

fn load(dir: &Path, line: &[&str]) -> Result<Configuration, Failure> {
    let mut words = vec!["cabrank", "start", dir.to_str().unwrap()];
    words.extend(line);
    let Command::Start(args) = Cli::try_parse_from(words).unwrap().command else { unreachable!() };
    Configuration::load(&args)
}

fn app(toml: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("app.js"), "").unwrap();
    std::fs::write(dir.path().join(file::NAME), toml).unwrap();
    dir
}

/// Returns the places where the server listens.
fn addresses(all: &Configuration) -> Vec<String> {
    let text = |listener: &Listener| match listener {
        Listener::Tcp { address, is_v6_only: true } => format!("{address} (IPv6 only)"),
        Listener::Tcp { address, .. } => address.to_string(),
        Listener::Unix(place) => format!("{} {:o}", place.path.display(), place.mode),
    };
    all.listeners.iter().map(text).collect()
}

#[test]
fn the_link_to_the_latest_release_does_not_name_the_server() {
    let dir = app("");
    let around = dir.path().join("shop");
    std::fs::create_dir(&around).unwrap();
    let name = |path: &Path, line: &[&str]| load(path, line).unwrap().server.name;
    for (link, expected) in [("current", "shop"), ("latest", "latest")] {
        let link = around.join(link);
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert_eq!(name(&link, &[]), expected);
        assert_eq!(name(&link.join("."), &[]), expected);
        assert_eq!(name(&link, &["--name", "blog"]), "blog");
    }
    // A directory is no link.
    let current = dir.path().join("current");
    std::fs::create_dir(&current).unwrap();
    std::fs::write(current.join("app.js"), "").unwrap();
    assert_eq!(name(&current, &[]), "current");
}

#[test]
fn a_server_listens_on_addresses_on_sockets_or_on_both() {
    let dir = app("");
    let root = dir.path().display();
    let listens = |line: &[&str]| addresses(&load(dir.path(), line).unwrap());
    let socket = format!("{root}/x.sock 660");
    assert_eq!(listens(&["--socket", "x.sock"]), std::slice::from_ref(&socket));
    assert_eq!(listens(&["--socket", "x.sock", "-p", "81"]), ["127.0.0.1:81", &socket]);
    assert_eq!(listens(&["--socket", "x.sock", "-a", "::1"]), ["[::1]:3000", &socket]);
    let more =
        ["--socket", "/run/y", "--socket", "x.sock", "--socket", "/run/y", "--socket-mode", "600"];
    assert_eq!(listens(&more), ["/run/y 600".into(), format!("{root}/x.sock 600")]);
    let all = ["-a", "127.0.0.1,localhost", "-a", "::", "-p", "81"];
    assert_eq!(listens(&all), ["127.0.0.1:81", "[::]:81 (IPv6 only)"]);
    assert_eq!(listens(&["-a", "::,::1"]), ["[::]:3000", "[::1]:3000"]);
    let dir = app("socket = ['x.sock', '/run/y']\nsocket_mode = 0o666\nport = 81\n");
    let root = dir.path().display();
    let expected = ["127.0.0.1:81".into(), format!("{root}/x.sock 666"), "/run/y 666".into()];
    assert_eq!(addresses(&load(dir.path(), &[]).unwrap()), expected);
    for option in ["--socket-owner", "--socket-group"] {
        let failure = load(dir.path(), &[option, "no-such-name"]).unwrap_err();
        assert!(failure.message.contains("this system has no"), "{failure}");
    }
}

#[test]
fn the_defaults_are_passengers() {
    let all = load(app("").path(), &[]).unwrap();
    let pool = all.server.pool;
    assert_eq!((pool.max_processes, pool.max_per_application), (6, None));
    assert_eq!(pool.max_idle_time, Some(Duration::from_secs(300)));
    assert_eq!(addresses(&all), ["127.0.0.1:3000"]);
    let application = &all.applications[0];
    let Options { min_instances, max_request_queue_size, max_requests, .. } = &application.options;
    let limits = (min_instances.0, max_request_queue_size.limit(), max_requests.limit());
    assert_eq!(limits, (1, Some(100), None));
    assert_eq!(application.environment, "development");
    assert_eq!(application.restart_mode(), RestartMode::Immediate);
    assert!(application.shows_details());
}

#[test]
fn ruby_and_python_processes_share_the_cores_with_the_threads() {
    assert_eq!([1, 2, 3, 8].map(|cores| Interpreter::Python.threads(cores)), [1, 1, 2, 4]);
    assert_eq!([1, 2, 8].map(|cores| Interpreter::Ruby.threads(cores)), [1, 1, 4]);
    assert_eq!([1, 2, 8].map(|cores| Interpreter::Node.threads(cores)), [1, 2, 8]);
    let given = load(app("").path(), &["--threads", "7"]).unwrap();
    assert_eq!(given.server.threads, 7);
}

#[test]
fn the_command_line_overrides_the_file() {
    let dir = app("max_pool_size = 2\nenvironment = \"production\"\nport = 81\n");
    let all = load(dir.path(), &["--max-pool-size", "4"]).unwrap();
    assert_eq!(
        (all.server.pool.max_processes, &addresses(&all)[..]),
        (4, &["127.0.0.1:81".to_owned()][..])
    );
    let application = |line: &[&str]| Arc::clone(&load(dir.path(), line).unwrap().applications[0]);
    let mode = |line: &[&str]| application(line).restart_mode();
    assert_eq!(mode(&[]), RestartMode::Rolling);
    assert!(!application(&[]).shows_details());
    assert_eq!(mode(&["--no-rolling-restarts"]), RestartMode::Immediate);
    assert_eq!(mode(&["-e", "test", "--rolling-restarts"]), RestartMode::Rolling);
    assert_eq!(mode(&["-e", "test"]), RestartMode::Immediate);
}

#[test]
fn a_start_command_and_a_type_on_the_command_line_override_each_other_in_the_file() {
    let start = |toml: &str, line: &[&str]| {
        load(app(toml).path(), line).unwrap().applications[0].app.start().to_owned()
    };
    assert_eq!(start("start_command = \"./serve\"\n", &[]), "./serve");
    assert_eq!(start("start_command = \"./serve\"\n", &["--app-type", "node"]), "app.js");
    assert_eq!(start("start_command = \"./serve\"\n", &["--startup-file", "app.js"]), "app.js");
    assert_eq!(start("start_command = \"./serve\"\n", &["--app-type", "generic"]), "./serve");
    assert_eq!(start("app_type = \"node\"\n", &["--start-command", "./serve"]), "./serve");
    assert_eq!(start("startup_file = \"x.js\"\n", &["--start-command", "./serve"]), "./serve");
}

#[test]
fn a_module_on_the_command_line_overrides_other_ways_to_start_in_the_file() {
    let start = |toml: &str, line: &[&str]| {
        load(app(toml).path(), line).unwrap().applications[0].app.start().to_owned()
    };
    let module = "app = \"site.wsgi:app\"\n";
    assert_eq!(start(module, &[]), "site.wsgi:app");
    assert_eq!(start("start_command = \"./serve\"\n", &["--app", "main:app"]), "main:app");
    assert_eq!(start("startup_file = \"x.js\"\n", &["--app", "main"]), "main:");
    assert_eq!(start(module, &["--start-command", "./serve"]), "./serve");
    assert_eq!(start(module, &["--startup-file", "app.js"]), "app.js");
    assert_eq!(start(module, &["--app-type", "asgi"]), "site.wsgi:app");
    let both = load(app(module).path(), &["--app", "a:b", "--startup-file", "app.js"]);
    assert!(both.unwrap_err().message.contains("contradicts the startup file app.js"));
}

#[test]
fn localhost_is_an_address() {
    let all = load(app("address = \"localhost\"\n").path(), &[]).unwrap();
    assert_eq!(addresses(&all), ["127.0.0.1:3000"]);
}

#[test]
fn files_of_the_server_are_below_the_directory() {
    let dir = app("log_file = \"log/shop.log\"\npid_file = \"tmp/shop.pid\"\n");
    let of = |options: &[&str]| {
        let all = load(dir.path(), options).unwrap();
        [all.log.file.unwrap(), all.server.pid_file.unwrap()]
    };
    let below = |names: [&str; 2]| names.map(|name| dir.path().join(name));
    assert_eq!(of(&[]), below(["log/shop.log", "tmp/shop.pid"]));
    assert_eq!(of(&["--log-file", "a", "--pid-file", "/b"]), below(["a", "/b"]));
}

#[test]
fn an_option_of_another_server_in_the_file_is_answered() {
    let failure = load(app("port = 1\nworkers = 4\n").path(), &[]).unwrap_err();
    let parts = ["cabrank.toml:2: unknown key workers", "use max_pool_size = N"];
    assert!(parts.iter().all(|part| failure.message.contains(part)), "{failure}");
}

#[test]
fn an_error_in_the_file_names_the_file() {
    let dir = app("port = 99999\n");
    let failure = load(dir.path(), &[]).unwrap_err();
    assert!(failure.message.contains("cabrank.toml:1: bad value for port"), "{failure}");
    assert_eq!(failure.kind as u8, 2);
}

#[test]
fn the_server_looks_at_a_short_time_out_more_often() {
    let pause = |line: &[&str], works: &[u64]| {
        let timeouts = load(app("").path(), line).unwrap().server.limits.timeouts;
        timeouts.sweep_pause(works.iter().map(|&millis| Duration::from_millis(millis)))
    };
    for option in ["--keep-alive-timeout", "--header-timeout", "--client-timeout"] {
        assert_eq!(pause(&[option, "0.1"], &[]), Duration::from_millis(25), "{option}");
    }
    assert_eq!(pause(&["--client-timeout", "0"], &[]), Duration::from_secs(1));
    // The shortest limit of all applications counts.
    for works in [&[100][..], &[100, 5000], &[5000, 100]] {
        assert_eq!(pause(&[], works), Duration::from_millis(25), "{works:?}");
    }
}

/// `display` would show both as the same text, and the group's name is made of it.
#[test]
fn directories_that_are_not_unicode_are_refused_and_a_trailing_slash_is_no_other_group() {
    use std::os::unix::ffi::OsStrExt;
    let dir = app("");
    let slash = PathBuf::from(format!("{}/", dir.path().display()));
    let [one, other] =
        [dir.path(), &slash].map(|dir| load(dir, &[]).unwrap().applications[0].group_name());
    assert_eq!(one, other);
    for name in [b"caf\xe9", b"caf\xe8"] {
        let root = dir.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir(&root).unwrap();
        assert!(application::root(&root).unwrap_err().message.contains("not UTF-8"));
    }
}

#[test]
fn the_error_for_a_missing_directory_names_it() {
    let failure = load(Path::new("/no/such/place"), &[]).unwrap_err();
    assert!(failure.message.contains("/no/such/place"), "{failure}");
    assert_eq!(failure.kind as u8, 3);
}
