//! Helpers of the tests of the load interlock and of the resource pool.

use cabrank_spec::checking::check::{Promises, Report, check, counterexample};
use std::collections::BTreeMap;
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

/// Checks every promise of each machine, that each promise applies somewhere, and the pinned counts.
#[allow(dead_code, reason = "the interlock's scenarios have outcomes of their own")]
pub(crate) fn all_hold<M: Promises>(
    machines: impl IntoIterator<Item = (&'static str, &'static str, M)>,
    pinned: &[Pinned],
) {
    let (mut counts, mut applied) = (vec![], BTreeMap::<&str, usize>::new());
    for (name, about, machine) in machines {
        let (count, found) = checked(name, about, &machine);
        counts.push(count);
        for (name, times) in found.applied {
            *applied.entry(name).or_default() += times;
        }
    }
    let never: Vec<_> = applied.iter().filter(|(_, times)| **times == 0).collect();
    assert!(never.is_empty(), "these properties never apply: {never:?}");
    assert_eq!(counts, pinned, "the counts have changed");
}
