//! A close meets a wake, another close, and the drop of the last handle.
//!
//! Each model asserts that no call begins after the close, that the run ends, and that no operation takes a lock.

use crate::models::periodic_executor::rig::*;

/// A thread closes an executor that another thread wakes.
///
/// Guards three lines. `Signal::close` wakes the sleeping run: otherwise the join never ends. `Signal::begin_call`
/// refuses a call after a close: otherwise the target is called after it. `Signal::prepare_to_sleep` looks at
/// `CLOSED`: otherwise the run sleeps though it was closed.
#[test]
fn periodic_close_x_wake() {
    explore(Model("periodic_close_x_wake", 17_306), &["0", "1", "2"], |outcomes| {
        let (calls, closed) = (Count::default(), Count::default());
        let executor = {
            let (calls, closed) = (calls.clone(), closed.clone());
            builder().build(move || {
                assert_eq!(closed.get(), 0, "called after the close");
                calls.up();
            })
        };
        executor.open().expect("a thread");
        let theirs = executor.clone();
        let waker = spawn(move || lock_free(|| theirs.wake()));
        lock_free(|| executor.close());
        closed.up();
        waker.join().expect("no panic");
        assert_eq!(executor.join(), Ok(Joined::Closed));
        outcomes.note(calls.get().to_string());
    });
}

/// Two threads close an executor; one of the closes wakes a sleeping run.
///
/// Guards the same lines of `Signal::begin_call` and `Signal::prepare_to_sleep`: without the look at `CLOSED`, a run
/// that both closes found awake sleeps for ever. Asserts that the join ends, after at most one call.
#[test]
fn periodic_close_x_close() {
    explore(Model("periodic_close_x_close", 7_349), &["0", "1"], |outcomes| {
        let calls = Count::default();
        let executor = {
            let calls = calls.clone();
            builder().build(move || {
                calls.up();
            })
        };
        executor.open().expect("a thread");
        let theirs = executor.clone();
        let closer = spawn(move || {
            lock_free(|| theirs.close());
        });
        lock_free(|| executor.close());
        closer.join().expect("no panic");
        assert_eq!(executor.join(), Ok(Joined::Closed));
        outcomes.note(calls.get().to_string());
    });
}

/// The only handle is dropped while the run goes to sleep. The thread ends, and the target is dropped.
///
/// Guards the close in the drop of `Handle`: without it the thread sleeps for ever, and the tool reports a deadlock.
#[test]
fn periodic_handle_drop_x_park() {
    explore(Model("periodic_handle_drop_x_park", 7), &["0", "1"], |outcomes| {
        struct Notes(crate::models::tool::explore::Outcomes, Count);
        impl Drop for Notes {
            fn drop(&mut self) {
                if !crate::kernel::sync::has_failed() {
                    self.0.note(self.1.get().to_string());
                }
            }
        }
        let notes = Notes(outcomes.clone(), Count::default());
        let executor = builder().build(move || {
            notes.1.up();
        });
        executor.open().expect("a thread");
        lock_free(|| drop(executor));
    });
}
