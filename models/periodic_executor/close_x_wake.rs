//! An executor is closed while others wake it, or lose their handle.
//!
//! Asserted in all: no call begins after the close, the run ends, and none of it takes a lock.

use crate::models::periodic_executor::rig::*;

/// Guards that close rouses whoever sleeps (`Signal::close`), that a call begins only where no close
/// came before (`Signal::begin_call`), and that closing wins over waking (`Signal::prepare_to_sleep`).
#[test]
fn periodic_close_x_wake() {
    explore("periodic_close_x_wake", &["0", "1", "2"], |outcomes| {
        let (calls, closed) = (Count::default(), Count::default());
        let executor = {
            let (calls, closed) = (calls.clone(), closed.clone());
            builder().target(move || {
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

/// Two closes, of which one rouses whoever sleeps. Guards, as the model above, that a call begins only where no close
/// came before (`Signal::begin_call`), and the look at `CLOSED` in `Signal::prepare_to_sleep`: without that, an executor
/// that both closes found awake sleeps for ever. Asserted: the join ends, and at most the first call was made.
#[test]
fn periodic_close_x_close() {
    explore("periodic_close_x_close", &["0", "1"], |outcomes| {
        let calls = Count::default();
        let executor = {
            let calls = calls.clone();
            builder().target(move || {
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

/// The only handle is dropped: the thread ends, and the target is dropped with it, or by the handle.
///
/// Guards the close in the drop of the last handle (`Handle`): without it, the thread sleeps for ever,
/// which the tool finds at the end.
#[test]
fn periodic_handle_drop_x_park() {
    explore("periodic_handle_drop_x_park", &["0", "1"], |outcomes| {
        struct Notes(crate::sync::explore::Outcomes, Count);
        impl Drop for Notes {
            fn drop(&mut self) {
                if !crate::sync::has_failed() {
                    self.0.note(self.1.get().to_string());
                }
            }
        }
        let notes = Notes(outcomes.clone(), Count::default());
        let executor = builder().target(move || {
            notes.1.up();
        });
        executor.open().expect("a thread");
        lock_free(|| drop(executor));
    });
}
