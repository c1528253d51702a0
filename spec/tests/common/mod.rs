//! Helpers of the tests of all machines.
#![allow(dead_code, reason = "each test uses some of them")]

use cabrank_spec::checking::check::{Report, check, check_only};
use cabrank_spec::checking::defects::{Defects, Shown};
use cabrank_spec::checking::promises::Promises;
use cabrank_spec::checking::story::story;
use cabrank_spec::checking::switches::Switch;
use cabrank_spec::checking::system::Named;
use std::collections::BTreeMap;
use std::io::Write;

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

/// Checks that a defect breaks a property that holds as mended, and that its story equals the stored one.
pub(crate) fn assert_shown<D: Defects>() {
    for &defect in D::ALL {
        let (Shown { breaks, original, mended }, name) = (defect.shown(), defect.name());
        compare_story(&name, &defect.story());
        assert!(check_only(&original, breaks).is_err(), "{name} does not break {breaks}");
        assert!(check_only(&mended, breaks).is_ok(), "{name} is not mended");
    }
}

/// Checks that each planted fault is detected. `detected` returns where, and by which property.
pub(crate) fn assert_detected<P: Switch>(
    detected: impl Fn(P) -> Option<(&'static str, &'static str)>,
) {
    for &fault in P::ALL {
        let (name, what) = detected(fault).unwrap_or_else(|| panic!("undetected: {}", fault.is()));
        note(&format!("{fault:?}: detected in {name}: {what} ({})", fault.is()));
    }
}

/// Checks every promise of a machine, its outcomes and the pinned counts, and prints them.
pub(crate) fn checked<M: Promises>(named: &Named<M>) -> Report {
    let (found, changed) = explored(named);
    assert!(changed.is_none(), "the counts have changed: {changed:?}");
    found
}

/// Checks every promise of a machine and its outcomes, and prints them. Returns its counts if they are not the pinned ones.
fn explored<M: Promises>(named: &Named<M>) -> (Report, Option<String>) {
    let Named { name, about, machine, pinned, ends } = named;
    let found = check(machine).unwrap_or_else(|b| panic!("{name}\n{}", story(machine, &b)));
    let (Report { states, steps, depth, .. }, time) = (&found, found.time.as_secs_f64());
    note(&format!("{name}: {states} states, {steps} steps, depth {depth}, {time:.1} s ({about})"));
    assert_eq!(found.ends, ends.iter().map(|end| end.to_string()).collect(), "{name}");
    let changed = (found.counts() != *pinned)
        .then(|| format!("{name}: {pinned:?} are pinned, and {:?} were counted", found.counts()));
    (found, changed)
}

/// Checks that each property applied somewhere, given how often it did in each exploration.
pub(crate) fn assert_applied<M: Promises>(found: impl IntoIterator<Item = (&'static str, usize)>) {
    let steps = M::STEP_PROPERTIES.iter().map(|p| p.name);
    let ends = M::LIVENESS.iter().filter(|p| p.promised).map(|p| p.name);
    let mut applied: BTreeMap<_, _> = steps.chain(ends).map(|name| (name, 0)).collect();
    for (name, times) in found {
        *applied.entry(name).or_default() += times;
    }
    for (name, times) in &applied {
        note(&format!("{name} applied {times} times"));
    }
    let never: Vec<_> = applied.iter().filter(|(_, times)| **times == 0).collect();
    assert!(never.is_empty(), "these properties hold only because they never apply: {never:?}");
}

/// Checks every promise of each machine, that each promise applies somewhere, and the pinned counts.
pub(crate) fn all_hold<M: Promises>(machines: Vec<Named<M>>) {
    let all: Vec<_> = machines.iter().map(explored).collect();
    let changed: Vec<_> = all.iter().filter_map(|(_, changed)| changed.as_deref()).collect();
    assert!(changed.is_empty(), "the counts have changed:\n{}", changed.join("\n"));
    assert_applied::<M>(all.into_iter().flat_map(|(found, _)| found.applied));
}
