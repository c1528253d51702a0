//! The command, as it is used in a shell.

use std::process::{Command, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cabrank-spec"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `list | head`: nobody reads on.
#[test]
fn a_reader_who_has_read_enough_is_no_failure() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = command(&["list"]).stdout(writer).output().expect("it runs");
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stderr.is_empty(), "{ended:?}");
}

/// `… 2>&1 | true`: a refusal that nobody reads is one by its code.
#[test]
fn a_refusal_that_nobody_reads_is_no_panic() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = command(&["help", "x"]).stderr(writer).output().expect("it runs");
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
}

#[test]
fn who_asks_for_help_gets_it() {
    for argument in ["help", "--help", "-h"] {
        let ended = command(&[argument]).output().expect("it runs");
        assert!(ended.status.success() && ended.stderr.is_empty(), "{argument}: {ended:?}");
        assert!(String::from_utf8_lossy(&ended.stdout).contains("erratum E2"), "{argument}");
    }
    let ended = command(&[]).output().expect("it runs");
    assert_eq!(ended.status.code(), Some(2), "nobody asked");
    assert!(ended.stdout.is_empty());
}

/// `list` lists them, so it is said what they are.
#[test]
fn a_machine_that_is_not_explored_in_the_browser_is_named_as_what_it_is() {
    for (name, what) in [("two-loaders", "is a scenario"), ("rp-one", "is a resource pool")] {
        let ended = command(&["explore", name]).output().expect("it runs");
        assert_eq!(ended.status.code(), Some(2));
        let says = String::from_utf8_lossy(&ended.stderr);
        assert!(says.contains(what) && says.contains(&format!("check {name}")), "{says}");
    }
}

/// Without a panic of the library that would listen there.
#[cfg(feature = "explore")]
#[test]
fn an_address_at_which_nobody_can_listen_is_refused() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its address").to_string();
    for address in ["nowhere", "127.0.0.1", "127.0.0.1:99999", taken.as_str()] {
        let ended = command(&["explore", "two-threads", address]).output().expect("it runs");
        assert_eq!(ended.status.code(), Some(2), "{address}: {ended:?}");
        let says = String::from_utf8_lossy(&ended.stderr);
        assert!(says.starts_with("cannot listen at ") && !says.contains("panicked"), "{says}");
    }
}

#[test]
fn what_there_is_not_is_refused() {
    for arguments in [&["erratum", "EE2"], &["check", "three"], &["erratum", "E35"]] {
        let ended = command(arguments).output().expect("it runs");
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        assert!(ended.stdout.is_empty() && !ended.stderr.is_empty(), "{arguments:?}");
    }
}
