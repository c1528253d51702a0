//! Helpers of the tests of the load interlock and of the resource pool.

use cabrank_spec::check::{Promises, Report, check, counterexample};
use std::io::Write;

/// A name with its pinned numbers of states and steps, and its depth.
pub(crate) type Pinned = (&'static str, usize, usize, usize);

/// Prints a line past the test harness, which hides the output of tests that pass.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Compares a story with the stored one. With `CABRANK_STORE_STORIES` set, it stores the story first.
pub(crate) fn compare_story(name: &str, story: &str) {
    let file = format!("{}/stories/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("CABRANK_STORE_STORIES").is_some() {
        std::fs::write(&file, story).expect("the story is stored");
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(story, stored, "the story of {name} has changed");
}

/// Checks that a defect breaks a property that holds as mended.
pub(crate) fn assert_mended<M: Promises>(name: &str, breaks: &str, original: &M, mended: &M) {
    assert!(counterexample(original, breaks).is_some(), "{name} does not break {breaks}");
    assert!(counterexample(mended, breaks).is_none(), "{name} is not mended");
}

/// Checks every promise of a machine and prints its counts.
pub(crate) fn checked<M: Promises>(
    name: &'static str,
    about: &str,
    machine: &M,
) -> (Pinned, Report) {
    let found =
        check(machine).unwrap_or_else(|broken| panic!("{name}\n{}", machine.describe(&broken)));
    let Report { states, steps, depth, .. } = found;
    note(&format!("{name}: {states} states, {steps} steps, depth {depth} ({about})"));
    ((name, states, steps, depth), found)
}
