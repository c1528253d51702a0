//! Explores every configuration as ruled, to the last state. It checks every invariant in every state,
//! every step property in every step, the absence of deadlocks, and every liveness property. It compares
//! the figures with those pinned in `src/application_pool/configurations.rs`.
//!
//! The large ones: `cargo test -p cabrank-spec --test exploration -- --include-ignored --nocapture`.

mod common;

use cabrank_spec::application_pool::configuration::Config;
use cabrank_spec::application_pool::configurations::all;
use cabrank_spec::checking::system::Named;
use common::{assert_applied, checked};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Returns how often each property applied.
fn explore(which: impl Fn(&Named<Config>) -> bool, at_once: usize) -> Vec<(&'static str, usize)> {
    let left = Mutex::new(all().into_iter().filter(which).collect::<Vec<_>>());
    let next = || left.lock().expect("no thread panics while it holds the lock").pop();
    let explore_all =
        || std::iter::from_fn(next).flat_map(|named| checked(&named).applied).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(explore_all)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("counts as pinned")).collect()
    })
}

#[test]
fn every_property_holds_in_every_configuration_and_applies_in_some() {
    assert_applied::<Config>(explore(|named| !named.deep(), 2));
}

#[test]
#[ignore = "takes minutes: run by `.ci/run deep`"]
fn deep() {
    let _ = explore(Named::deep, 1);
}

/// Every run of the tests explores every event of the environment somewhere.
#[test]
fn every_event_may_happen_in_some_configuration() {
    let usual = all().into_iter().filter(|named| !named.deep());
    let may = usual.flat_map(|named| named.machine.environment.events());
    let happens: BTreeSet<_> = may.filter(|(may, _)| *may).map(|(_, event)| event).collect();
    assert_eq!(happens.len(), 22, "only these events happen: {happens:?}");
}
