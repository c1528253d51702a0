//! All executors are shut down while one is opened.
//!
//! Asserted in both: when the shutdown has returned, no executor runs, and none begins to.

use crate::models::periodic_executor::rig::*;
use crate::periodic_executor::OpenError;
use std::time::Duration;

fn executor(registry: &Registry, calls: &Count, over: &Count) -> PeriodicExecutor {
    let (calls, over) = (calls.clone(), over.clone());
    builder().registry(registry).target(move || {
        assert_eq!(over.get(), 0, "called after the shutdown");
        calls.up();
    })
}

/// Guards that an open and the registry's entry are one critical section, and that a shutdown forbids
/// opens before it closes (`Registry::admit`, `Registry::shut`): without, an executor is opened that
/// the shutdown has not seen.
#[test]
fn periodic_shutdown_x_open() {
    let ways = ["refused", "shut down before its first call", "shut down after it"];
    explore("periodic_shutdown_x_open", &ways, move |outcomes| {
        let (registry, calls, over) = (Registry::new(), Count::default(), Count::default());
        let executor = executor(&registry, &calls, &over);
        let theirs = executor.clone();
        let opener = spawn(move || theirs.open());
        registry.shutdown(Duration::MAX).expect("no deadline");
        over.up();
        let opened = opener.join().expect("no panic");
        assert!(registry.is_empty());
        assert_eq!(executor.phase(), Phase::Stopped);
        outcomes.note(match (opened, calls.get()) {
            (Err(OpenError::ShutDown), 0) => ways[0],
            (Ok(()), 0) => ways[1],
            (Ok(()), 1) => ways[2],
            (opened, calls) => panic!("{opened:?}, {calls} calls"),
        });
    });
}

/// One that is open is opened once more: by that, the close of the shutdown must not be undone.
///
/// Guards that also an open of what runs already goes through the registry's lock (`Core::open`), and
/// that the registry closes after it has forbidden opens (`Registry::close`). Without, the executor sleeps
/// on, and the tool finds it at the end.
#[test]
fn periodic_shutdown_x_reopen() {
    explore("periodic_shutdown_x_reopen", &["opened", "refused"], |outcomes| {
        let registry = Registry::new();
        let executor = builder().registry(&registry).target(|| ());
        executor.open().expect("a thread");
        let shutting = spawn(move || registry.close());
        outcomes.note(if executor.open().is_ok() { "opened" } else { "refused" });
        shutting.join().expect("no panic");
        // No handle's drop closes it.
        std::mem::forget(executor);
    });
}
