//! Explores every configuration as ruled, to the last state. It checks every invariant in every state,
//! every step property in every step, the absence of deadlocks, and every liveness property. It compares
//! the figures with those pinned in `src/application_pool/configurations.rs`.
//!
//! The large ones: `cargo test -p cabrank-spec --test exploration -- --include-ignored --nocapture`.

use cabrank_spec::application_pool::configurations::{Named, all};
use cabrank_spec::application_pool::exploration::check;
use cabrank_spec::application_pool::liveness::LIVENESS;
use cabrank_spec::application_pool::properties::STEP_PROPERTIES;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Mutex;

/// How often each property applied.
type Applied = BTreeMap<&'static str, usize>;

fn explore_one(named: Named) -> Vec<(&'static str, usize)> {
    let name = named.name;
    let report = check(&named.config).unwrap_or_else(|story| panic!("{name}\n{story}"));
    let (states, steps, depth) = (report.states, report.steps, report.depth);
    // Write to stderr directly: the test harness captures `eprintln!`.
    let _ = writeln!(
        std::io::stderr(),
        "{name}: {states} states, {steps} steps, depth {depth}, {:.1} s; {} liveness properties, {:.1} s",
        report.time.as_secs_f64(),
        report.liveness.len(),
        report.liveness_time.as_secs_f64(),
    );
    assert_eq!(named.pinned, (states, steps, depth), "{name}: the figures have changed");
    report.applied
}

fn explore(which: impl Fn(&Named) -> bool, at_once: usize) -> Applied {
    let left = Mutex::new(all().into_iter().filter(which).collect::<Vec<_>>());
    let next = || left.lock().expect("no thread panics while it holds the lock").pop();
    let explore_all = || std::iter::from_fn(next).flat_map(explore_one).collect::<Vec<_>>();
    let mut applied = Applied::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(explore_all)).collect();
        for (name, times) in
            threads.into_iter().flat_map(|thread| thread.join().expect("figures as pinned"))
        {
            *applied.entry(name).or_default() += times;
        }
    });
    applied
}

#[test]
fn every_property_holds_in_every_configuration_and_applies_in_some() {
    let applied = explore(|named| !named.deep(), 2);
    for (name, times) in &applied {
        let _ = writeln!(std::io::stderr(), "{name} applied {times} times");
    }
    let empty: Vec<_> = applied.iter().filter(|(_, times)| **times == 0).collect();
    assert!(empty.is_empty(), "these properties hold only because they never apply: {empty:?}");
    assert_eq!(applied.len(), STEP_PROPERTIES.len() + LIVENESS.len());
}

#[test]
#[ignore = "takes minutes: run by `.ci/run deep`"]
fn deep() {
    explore(Named::deep, 1);
}

/// Every run of the tests explores every event of the environment somewhere.
#[test]
fn every_event_may_happen_in_some_configuration() {
    let usual = all().into_iter().filter(|named| !named.deep());
    let may = usual.flat_map(|named| named.config.environment.events());
    let happens: BTreeSet<_> = may.filter(|(may, _)| *may).map(|(_, event)| event).collect();
    assert_eq!(happens.len(), 22, "only these events happen: {happens:?}");
}
