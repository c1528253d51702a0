//! The cleaner's thread goes to sleep while a session is closed and time passes (erratum E30).
//!
//! The first two models assert that the process is shut down. The cleaner then drops the pool's last handle within
//! that pass: other models cover the pool's end. A cleaner that sleeps on shows up as a deadlock. Under loom user
//! code re-enters the pool only in the second: the first would need more than a minute.

use crate::in_memory::InMemorySpawner;
use crate::kernel::alarm::Alarm;
use crate::models::rig::*;
use crate::models::tool::explore::Outcomes;
use crate::periodic_executor::{Flow, Verdict};
use std::sync::Mutex;

/// Guards that a pass stores, under the pool's lock, until when the cleaner sleeps (`Inner::cleaner`). A section that
/// makes an item due earlier can therefore wake the cleaner. Guards too that moving the manual clock wakes it.
/// Without either, a due item waits for the next event.
#[test]
fn cleaner_x_becoming_idle() {
    explore(Model("cleaner_x_becoming_idle", 4_001), &["cleaned", "due"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        let session = rig.session(&app("a"));
        start_cleaner(&rig, rig.pool.clone());
        let Rig { pool, spawner, clock, .. } = rig;
        // The handle in the cleaner's hook is the last one.
        drop(pool);
        drop(session);
        clock.advance(IDLE);
        note_what_was_done(&spawner, outcomes);
    });
}

/// `max_idle_time` is shortened, so that a process has already been idle for too long.
///
/// Guards the wake-up in `State::is_due`. The cleaner sleeps until the next item is due, so an item that becomes due
/// earlier must wake it.
#[test]
fn cleaner_x_earlier_date() {
    explore(
        Model("cleaner_x_earlier_date", 30),
        &["before the first pass", "asleep"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1).max_idle_time(2 * IDLE)).reentrant();
            rig.idle(&app("a"));
            rig.clock.advance(IDLE);
            start_cleaner(&rig, rig.pool.clone());
            let asleep = sleeps(&rig);
            rig.pool.set_max_idle_time(IDLE).expect("not zero");
            outcomes.note(if asleep { "asleep" } else { "before the first pass" });
        },
    );
}

/// Returns whether the cleaner has made a pass.
pub(super) fn sleeps(rig: &Rig) -> bool {
    rig.pool.inner().critical(|state, _| state.cleaner != Alarm::at_once())
}

/// A later pass finds no idle process while a session closes, whose process is due later than the former pass had
/// found.
///
/// Guards that `Inner::cleaner` looks for the next due item and stores its time in one section. Between two sections,
/// the close would compare with the former pass's time and wake no cleaner, and the pass would overwrite its note.
/// The process would never be cleaned. Asserted: the pass returns the time, or the close stores it, which wakes the
/// cleaner (`State::is_due`).
///
/// A thread of the model makes the pass. The model `periodic_wake_x_park` covers how the executor sleeps and is
/// woken.
#[test]
fn cleaner_x_due_later() {
    explore_small(Model("cleaner_x_due_later", 9), &["by the close", "by the pass"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
        let inner = rig.pool.inner().clone();
        inner.critical(|state, _| state.cleaner_runs = true);
        rig.idle(&app("a"));
        assert!(matches!(inner.cleaner(), Verdict::Until(_)), "the process is idle");
        let session = rig.session(&app("a"));
        // The pass is due, but the process no longer is.
        rig.clock.advance(IDLE);
        let cleaner = spawn(move || inner.cleaner());
        drop(session);
        outcomes.note(match cleaner.join().expect("no panic") {
            Verdict::Until(_) => "by the pass",
            Verdict::Flow(Flow::Idle) => "by the close",
            other => panic!("{other:?}"),
        });
        let (due, known) = rig.pool.inner().critical(|state, _| (state.next_due(), state.cleaner));
        assert!(due.is_some(), "the process is idle again");
        let mut exact = Alarm::default();
        exact.set(due);
        assert_eq!(known, exact, "the cleaner sleeps until another time");
    });
}

/// Starts the cleaner, which drops the pool handle `theirs` once it has shut a process down.
fn start_cleaner(rig: &Rig, theirs: Pool) {
    let pool = theirs.inner().clone();
    let theirs = Mutex::new(Some(theirs));
    rig.on_call(move |call| {
        if call == Call::ShutDown {
            drop(theirs.lock().expect("no panic").take());
        }
    });
    pool.start_cleaner().expect("a thread");
}

/// Adds no step for the tool, so the look belongs to the step before it.
fn note_what_was_done(spawner: &InMemorySpawner, outcomes: &Outcomes) {
    outcomes.note(if spawner.shut_down().is_empty() { "due" } else { "cleaned" });
}
