//! The cleaner's thread goes to sleep while a session is closed and time passes (erratum E30).
//!
//! Asserted in the first two: the process is shut down. The cleaner then drops the pool's last handle, within the
//! pass that shuts it down, so that the pool's end, of which other models tell, is not explored here;
//! a cleaner that sleeps on is found by the tool at the end. Under loom foreign calls re-enter the pool in the
//! second only: in the first, with that, it is not through in a minute.

use crate::in_memory::InMemorySpawner;
use crate::models::rig::*;
use crate::periodic_executor::{Flow, Verdict};
use crate::sync::explore::Outcomes;
use std::sync::Mutex;

/// Guards that a pass says, under the pool's lock, until when the cleaner sleeps (`Inner::cleaner`), so that
/// who makes something due earlier wakes it; and that moved hands do. Without, what becomes due waits
/// for the next thing that happens.
#[test]
fn cleaner_x_becoming_idle() {
    explore("cleaner_x_becoming_idle", &["cleaned", "due"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        let session = rig.session(&app("a"));
        start_cleaner(&rig, rig.pool.clone());
        let Rig { pool, spawner, clock, .. } = rig;
        // That of the cleaner's hook is the last.
        drop(pool);
        session.close();
        clock.advance(IDLE);
        note_what_was_done(&spawner, outcomes);
    });
}

/// The time for which a process may be idle is shortened, so that one has been for too long already.
///
/// Guards the wake-up in `State::is_due`: the cleaner sleeps until the next thing is due, so what
/// becomes due earlier must wake it.
#[test]
fn cleaner_x_earlier_date() {
    explore("cleaner_x_earlier_date", &["cleaned", "due"], |outcomes| {
        let rig = Rig::new(|b| b.max(1).max_idle_time(2 * IDLE)).reentrant();
        rig.idle(&app("a"));
        rig.clock.advance(IDLE);
        start_cleaner(&rig, rig.pool.clone());
        rig.pool.set_max_idle_time(IDLE);
        note_what_was_done(&rig.spawner, outcomes);
    });
}

/// A pass that is not the first finds nothing idle, while a session is closed whose process is due later than
/// what the pass before it had found.
///
/// Guards that the look for what is due and the note of until when the cleaner sleeps are one section
/// (`Inner::cleaner`). Between the two, who closes would compare with what the former pass said, wake nobody,
/// and be overwritten: the process would never be cleaned. The pass is called by a thread of the model's, not by
/// the executor's: how that sleeps and is woken is `periodic_wake_x_park`'s. Asserted: the pass says when the
/// process is due, or the close makes it known, which is when it wakes the cleaner (`State::is_due`).
#[test]
fn cleaner_x_due_later() {
    explore_small("cleaner_x_due_later", &["by the close", "by the pass"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
        let inner = rig.pool.inner().clone();
        inner.critical(|state, _| state.cleaner_runs = true);
        rig.idle(&app("a"));
        assert!(matches!(inner.cleaner(), Verdict::Until(_)), "it is idle");
        let session = rig.session(&app("a"));
        // The pass is due; the process no longer is.
        rig.clock.advance(IDLE);
        let cleaner = spawn(move || inner.cleaner());
        session.close();
        outcomes.note(match cleaner.join().expect("no panic") {
            Verdict::Until(_) => "by the pass",
            Verdict::Flow(Flow::Idle) => "by the close",
            other => panic!("{other:?}"),
        });
        let (due, known) =
            rig.pool.inner().critical(|state, _| (state.next_due(), state.cleaner_sleeps_until));
        assert!(due.is_some(), "it is idle again");
        assert_eq!(known, due, "the cleaner sleeps past it");
    });
}

/// Starts the cleaner, which drops `theirs`, a handle to the pool, when it has shut a process down.
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

/// Without a step, so that it belongs to the last one.
fn note_what_was_done(spawner: &InMemorySpawner, outcomes: &Outcomes) {
    outcomes.note(if spawner.shut_down().is_empty() { "due" } else { "cleaned" });
}
