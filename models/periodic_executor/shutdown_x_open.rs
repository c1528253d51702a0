//! A shutdown of all executors meets an open.
//!
//! Each model asserts that no executor runs when the shutdown has returned, and that no run begins afterwards.

use crate::models::periodic_executor::rig::*;
use crate::periodic_executor::OpenError;
use std::time::Duration;

fn executor(registry: &Registry, calls: &Count, ended: &Count) -> PeriodicExecutor {
    let (calls, ended) = (calls.clone(), ended.clone());
    builder().registry(registry).build(move || {
        assert_eq!(ended.get(), 0, "called after the shutdown");
        calls.up();
    })
}

/// A thread opens an executor while another one shuts all down.
///
/// Guards that an open and its entry are one critical section (`Registry::admit`), and that a shutdown forbids
/// opens before it closes (`Registry::shut`): otherwise the shutdown misses an executor that is being opened.
#[test]
fn periodic_shutdown_x_open() {
    let ways = ["refused", "shut down before its first call", "shut down after it"];
    explore(Model("periodic_shutdown_x_open", 2_380), &ways, move |outcomes| {
        let (registry, calls, ended) = (Registry::new(), Count::default(), Count::default());
        let executor = executor(&registry, &calls, &ended);
        let theirs = executor.clone();
        let opener = spawn(move || theirs.open());
        registry.shutdown(Duration::MAX).expect("no deadline");
        ended.up();
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

/// A thread opens a running executor once more, which must not undo the close of the shutdown.
///
/// Guards that the open of a running executor also holds the registry's lock (`Core::open`), and that the registry
/// forbids opens before it closes (`Registry::close`). Otherwise the executor sleeps on, and the tool reports a
/// deadlock.
#[test]
fn periodic_shutdown_x_reopen() {
    explore(Model("periodic_shutdown_x_reopen", 3_602), &["opened", "refused"], |outcomes| {
        let registry = Registry::new();
        let executor = builder().registry(&registry).build(|| ());
        executor.open().expect("a thread");
        let shutting = spawn(move || registry.close());
        outcomes.note(if executor.open().is_ok() { "opened" } else { "refused" });
        shutting.join().expect("no panic");
        // So that no drop of a handle closes it.
        std::mem::forget(executor);
    });
}
