//! The environment of the application: which source names it, and what the application gets.

use crate::server::{Server, app, run, start_command, wsgi};
use std::fs;
use std::path::Path;

/// Starts a server with these variables and options.
#[track_caller]
fn start(dir: &Path, variables: &[(&str, &str)], options: &[&str]) -> Server {
    let runtime = tempfile::tempdir().unwrap();
    let mut command = start_command(runtime.path(), dir, options);
    command.envs(variables.iter().copied());
    Server::start_with(command, runtime)
}

const SHOW: &str = "return answer(os.environ['WSGI_ENV'] + ' ' + os.environ['NODE_ENV'])";

#[test]
fn the_usual_variables_name_the_environment() {
    for name in ["WSGI_ENV", "PASSENGER_APP_ENV", "RAILS_ENV", "RACK_ENV", "NODE_ENV"] {
        let dir = wsgi("", SHOW);
        let server = start(dir.path(), &[(name, "production")], &[]);
        assert_eq!(server.get("/"), "production production", "{name}");
        assert_eq!(server.status()["environment"], "production");
    }
}

#[test]
fn the_variable_port_names_the_port_behind_ours_and_before_the_file() {
    let dir = wsgi("", "return answer('ok')");
    let port = |variables: &[(&str, &str)], options: &[&str]| {
        let runtime = tempfile::tempdir().unwrap();
        let mut command = crate::server::command(runtime.path(), &["start"]);
        command.arg(dir.path()).args(options).envs(variables.iter().copied());
        Server::start_with(command, runtime).address.port()
    };
    let [one, two, three] =
        [(); 3].map(|()| cabrank_checks_harness::server::free_address().unwrap().port());
    let text = [one, two, three].map(|port| port.to_string());
    fs::write(dir.path().join("cabrank.toml"), format!("port = {three}\n")).unwrap();
    assert_eq!(port(&[("PORT", &text[0])], &[]), one);
    assert_eq!(port(&[("PORT", &text[0]), ("CABRANK_PORT", &text[1])], &[]), two);
    assert_eq!(port(&[("PORT", &text[0])], &["--port", &text[1], "--address", "localhost"]), two);
    assert_eq!(port(&[("PORT", "")], &[]), three);
    let runtime = tempfile::tempdir().unwrap();
    let mut command = crate::server::command(runtime.path(), &["start"]);
    let out = command.arg(dir.path()).env("PORT", "http").output().unwrap();
    let message = String::from_utf8(out.stderr).unwrap();
    assert!(message.contains("bad value http of the variable PORT: it must be"), "{message}");
}

#[test]
fn production_by_a_variable_hides_the_details_of_errors() {
    let dir = wsgi("", "return answer('ok')");
    let server = start(dir.path(), &[("WSGI_ENV", "production")], &["--no-rolling-restarts"]);
    fs::write(dir.path().join("passenger_wsgi.py"), "raise RuntimeError('SECRET')\n").unwrap();
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    let page = crate::server::eventually("an error page", || {
        let reply = server.client().get("/").unwrap();
        (reply.status == 500).then(|| reply.text())
    });
    assert!(!page.contains("SECRET"), "{page}");
}

#[test]
fn options_and_the_variable_of_the_type_override_other_variables() {
    let dir = wsgi("", SHOW);
    let variables = [("WSGI_ENV", "staging"), ("PASSENGER_APP_ENV", "test"), ("NODE_ENV", "test")];
    assert_eq!(start(dir.path(), &variables, &[]).get("/"), "staging staging");
    assert_eq!(start(dir.path(), &variables, &["-e", "other"]).get("/"), "other other");
    fs::write(dir.path().join("cabrank.toml"), "environment = \"file\"\n").unwrap();
    assert_eq!(start(dir.path(), &variables, &[]).get("/"), "file file");
    let variables = [("CABRANK_ENVIRONMENT", "variable"), ("WSGI_ENV", "staging")];
    assert_eq!(start(dir.path(), &variables, &[]).get("/"), "variable variable");
}

#[test]
fn the_error_for_a_bad_name_names_the_variable() {
    let dir = app("app.js", "");
    let runtime = tempfile::tempdir().unwrap();
    let out =
        start_command(runtime.path(), dir.path(), &[]).env("NODE_ENV", "a\nb").output().unwrap();
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{message}");
    assert!(message.contains("the environment in NODE_ENV"), "{message}");
}
