//! Ruby applications: the sample, and what differs from other languages.

use crate::agent::{Agent, app, eventually, example, run};
use crate::wrong_input::fails;
use std::fs;
use tempfile::TempDir;

/// Copies the sample, so that a restart of one test does not reach the others.
fn sample() -> TempDir {
    app("config.ru", &fs::read_to_string(example("rack").join("config.ru")).unwrap())
}

fn rack(body: &str) -> TempDir {
    app("config.ru", &format!("run(lambda do |env|\n{body}\nend)\n"))
}

fn pid_of(agent: &Agent) -> u32 {
    let text = agent.get("/slow?ms=0");
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn the_sample_answers_streams_and_takes_uploads() {
    let dir = sample();
    let agent = Agent::start(dir.path(), &[]);
    assert!(agent.get("/").contains("Ruby"));
    assert_eq!(agent.get("/stream").lines().count(), 10);
    let env = agent.get("/env?a=b%20c");
    for part in [
        "\"QUERY_STRING\": \"a=b%20c\"",
        "\"PATH_INFO\": \"/env\"",
        "\"rack.url_scheme\": \"http\"",
    ] {
        assert!(env.contains(part), "{env}");
    }
    let body: Vec<u8> = (0..20_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut client = agent.client();
    for _ in 0..2 {
        let reply = client.request("POST", "/upload", &[], &body).unwrap();
        assert_eq!(reply.status, 200);
        assert!(reply.body == body, "the upload differs");
    }
    assert_eq!(client.get("/nowhere").unwrap().status, 404);
}

#[test]
fn the_sample_restarts_and_survives_a_crash() {
    let dir = sample();
    let agent = Agent::start(dir.path(), &[]);
    let first = pid_of(&agent);
    assert_eq!(agent.client().request("POST", "/crash", &[], b"").unwrap().status, 502);
    let second = pid_of(&agent);
    assert_ne!(first, second);
    assert!(run(agent.runtime.path(), &["restart"]).status.success());
    eventually("another process", || (pid_of(&agent) != second).then_some(()));
}

#[test]
fn a_path_reaches_the_application_as_the_client_wrote_it() {
    let dir =
        rack("[200, {}, [env.values_at('SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING').join(' ')]]");
    let agent = Agent::start(dir.path(), &[]);
    assert_eq!(agent.get("/a%2Fb%20c/?d=%20"), " /a%2Fb%20c/ d=%20");
}

#[test]
fn an_application_that_cannot_boot_shows_rubys_message() {
    let dir = app("config.ru", "require 'no_such_library'\n");
    let parts = ["config.ru:1:in", "no_such_library (LoadError)"];
    fails(dir.path(), &[], 5, &parts);
}

#[test]
fn a_missing_interpreter_names_its_option() {
    fails(sample().path(), &["--ruby", "/no/such/ruby"], 5, &["/no/such/ruby", "--ruby"]);
}

#[test]
fn a_request_that_takes_too_long_leaves_a_backtrace() {
    let dir = rack("env['PATH_INFO'] == '/stuck' ? sleep : [200, {}, [Process.pid.to_s]]");
    let agent = Agent::start(dir.path(), &["--max-request-time", "1"]);
    assert_eq!(agent.client().get("/stuck").unwrap().status, 504);
    agent.logs("config.ru:2:in `sleep'");
    agent.get("/");
}
