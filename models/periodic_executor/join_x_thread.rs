//! A join, or a shutdown, meets a thread between the end of its run and its own end.
//!
//! Each model asserts that the thread has taken its last step when the join or the shutdown returns. The native
//! thread also has deadlines and thread-locals; `tests/process/threads.rs` looks at those.

use crate::kernel::sync::{Flag, thread::watch_end};
use crate::models::periodic_executor::rig::*;
use std::sync::Arc;
use std::time::Duration;

/// Returns a flag that the next thread of an executor raises as its last step.
fn end_of_next_thread() -> Arc<Flag> {
    let ended = Arc::new(Flag::new(false));
    watch_end(ended.clone());
    ended
}

/// A join comes before the end of the run, between that and the end of the thread, or later.
///
/// Guards the second wait of `Core::join`, for the threads of runs that have ended.
#[test]
fn periodic_join_x_thread() {
    let ways = ["the run had ended", "the run had not ended"];
    explore(Model("periodic_join_x_thread", 38), &ways, move |outcomes| {
        let executor = builder().build(|| Flow::Stop);
        let ended = end_of_next_thread();
        executor.open().expect("a thread");
        let had_ended = executor.phase() == Phase::Stopped;
        assert_eq!(executor.join(), Ok(Joined::Finished));
        assert!(ended.is_raised(), "the join returned before the thread's end");
        outcomes.note(ways[usize::from(!had_ended)]);
    });
}

/// The executor is opened again while its first thread ends, and then joined.
///
/// Guards that `Exits` keeps the older thread: otherwise the join waits for the newer one only.
#[test]
fn periodic_join_x_two_threads() {
    let ways = ["one thread", "two threads"];
    explore(Model("periodic_join_x_two_threads", 586), &ways, move |outcomes| {
        let executor = builder().build(|| Flow::Stop);
        let first = end_of_next_thread();
        executor.open().expect("a thread");
        let second = end_of_next_thread();
        executor.open().expect("a thread");
        assert_eq!(executor.join(), Ok(Joined::Finished));
        assert!(first.is_raised(), "the join returned before the first thread's end");
        // Only a second thread has the second flag now.
        watch_end(first);
        let is_second = Arc::strong_count(&second) > 1 || second.is_raised();
        outcomes.note(ways[usize::from(is_second)]);
    });
}

/// The registry is shut down when the run has ended, and the executor may have been dropped.
///
/// Guards that `Registry::leave` keeps the thread, and that `Registry::shutdown` waits for it: the registry has no
/// entry of that executor any more.
#[test]
fn periodic_shutdown_x_thread() {
    let ways = ["no run was left", "a run was left"];
    explore(Model("periodic_shutdown_x_thread", 292), &ways, move |outcomes| {
        let registry = Registry::new();
        let executor = builder().registry(&registry).build(|| Flow::Stop);
        let ended = end_of_next_thread();
        executor.open().expect("a thread");
        drop(executor);
        let none = registry.is_empty();
        registry.shutdown(Duration::MAX).expect("no deadline");
        assert!(ended.is_raised(), "the shutdown returned before the thread's end");
        outcomes.note(ways[usize::from(!none)]);
    });
}
