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

#[test]
fn what_there_is_not_is_refused() {
    for arguments in [&["erratum", "EE2"], &["check", "three"], &["erratum", "E35"]] {
        let ended = command(arguments).output().expect("it runs");
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        assert!(ended.stdout.is_empty() && !ended.stderr.is_empty(), "{arguments:?}");
    }
}
