//! The cleaner's thread goes to sleep while a session is closed and time passes (erratum E30).
//!
//! Asserted in both: the process is shut down. The cleaner then drops the pool's last handle, within the
//! pass that shuts it down, so that the pool's end, of which other models tell, is not explored here;
//! a cleaner that sleeps on is found by the tool at the end. Under loom foreign calls re-enter the pool in the
//! second only: in the first, with that, it is not through in a minute.

use super::rig::*;
use crate::in_memory::InMemorySpawner;
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
