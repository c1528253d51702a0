//! The programs that a test needs, and the list of `cargo xtask test`.

/// Returns the remedy if the server did not find the interpreter of the application.
pub(crate) fn remedy(log: &str) -> &'static str {
    let is_missing = log.contains("cannot start") && log.contains("(os error 2)");
    if is_missing {
        "\n`cargo xtask test --install` installs it; `cargo xtask test` leaves out the tests that need it."
    } else {
        ""
    }
}

/// Asserts that `tests/needs.txt` names the test of this thread if Node, Ruby or Perl serves. Nearly all tests need Python.
#[track_caller]
pub(crate) fn assert_listed(log: &str) {
    let programs = [("(Node.js", "node"), ("(Ruby", "ruby"), ("(psgi", "perl")];
    let Some((_, program)) = programs.iter().find(|(kind, _)| log.contains(kind)) else { return };
    let thread = std::thread::current();
    let Some(test) = thread.name().filter(|name| name.contains("::")) else { return };
    let test = format!("e2e::{test}");
    let lines = include_str!("../../../tests/needs.txt").lines();
    let mut names =
        lines.skip_while(|line| line != program).skip(1).take_while(|line| !line.is_empty());
    let is_listed = names.any(|name| {
        let name = name.trim();
        name == test || (name.ends_with("::") && test.starts_with(name))
    });
    assert!(is_listed, "tests/needs.txt must name {test} below {program}");
}
