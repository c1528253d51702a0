//! Tests of the command as a shell runs it.

use std::process::{Command, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cabrank-spec"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `list | head`: the reader closes the pipe.
#[test]
fn a_closed_pipe_is_no_failure() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = command(&["list"]).stdout(writer).output().expect("it runs");
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stderr.is_empty(), "{ended:?}");
}

/// `… 2>&1 | true`: the exit code reports the error, without a panic.
#[test]
fn an_error_on_a_closed_pipe_is_no_panic() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = command(&["help", "x"]).stderr(writer).output().expect("it runs");
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
}

#[test]
fn help_goes_to_stdout_and_is_a_success() {
    for argument in ["help", "--help", "-h"] {
        let ended = command(&[argument]).output().expect("it runs");
        assert!(ended.status.success() && ended.stderr.is_empty(), "{argument}: {ended:?}");
        assert!(String::from_utf8_lossy(&ended.stdout).contains("erratum E2"), "{argument}");
    }
    let ended = command(&[]).output().expect("it runs");
    assert_eq!(ended.status.code(), Some(2), "no arguments are an error");
    assert!(ended.stdout.is_empty());
}

/// stateright would panic.
#[cfg(feature = "explore")]
#[test]
fn an_unusable_address_is_refused() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its address").to_string();
    let addresses = ["nowhere", "127.0.0.1", "127.0.0.1:99999", taken.as_str()];
    // One of each system.
    let names = ["two-threads", "two-loaders", "rp-one", "ks-plain"];
    for (name, address) in names.into_iter().zip(addresses) {
        let ended = command(&["explore", name, address]).output().expect("it runs");
        assert_eq!(ended.status.code(), Some(2), "{address}: {ended:?}");
        let says = String::from_utf8_lossy(&ended.stderr);
        assert!(says.starts_with("cannot listen at ") && !says.contains("panicked"), "{says}");
    }
}

#[test]
fn unknown_names_are_refused() {
    for arguments in
        [&["erratum", "EE2"], &["check", "three"], &["erratum", "E42"], &["explore", "three"]]
    {
        let ended = command(arguments).output().expect("it runs");
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        assert!(ended.stdout.is_empty() && !ended.stderr.is_empty(), "{arguments:?}");
    }
}
