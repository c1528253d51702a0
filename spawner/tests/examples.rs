//! The examples, as their users run them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns a command for an example. `cargo test` has built it.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    Command::new(profile.join("examples").join(name))
}

#[test]
fn workers_do_their_jobs() {
    let done = example("workers").args(["6", "28", "nonsense"]).output().unwrap();
    let out = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{out}{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(out.matches("the sum of its divisors is").count(), 2, "{out}");
    assert!(out.contains("): the sum of its divisors is 28\n"), "{out}");
    assert!(out.contains("nonsense (process "), "{out}");
}

#[test]
fn the_embedded_application_answers() {
    let app = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/wsgi");
    let mut server = example("embedded")
        .args([app.to_str().unwrap(), "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().rsplit('/').next().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET /nowhere HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(answer.starts_with("HTTP/1.0 404 "), "{answer}");
}
