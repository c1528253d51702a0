//! The cleaner's thread goes to sleep while a session is closed and time passes (erratum E30).
//!
//! Asserted in both: the process is shut down, and the cleaner ends with the pool.

use super::rig::*;

/// Guards the last look before the cleaner sleeps (`cleaner`): without it, what became due while its
/// pass was carried out waits for the next thing that happens.
#[test]
fn cleaner_x_becoming_idle() {
    explore("cleaner_x_becoming_idle", &["cleaned", "due"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        let gone = rig.bell(Call::ShutDown);
        let session = rig.session(&app("a"));
        rig.pool.inner().start_cleaner().expect("a thread");
        session.close();
        rig.clock.advance(IDLE);
        let due = rig.pool.counts().count == 1;
        gone.wait(1);
        outcomes.note(if due { "due" } else { "cleaned" });
    });
}

/// The time for which a process may be idle is shortened, so that one has been for too long already.
///
/// Guards the wake-up in `State::is_due`: the cleaner sleeps until the next thing is due, so what
/// becomes due earlier must wake it.
#[test]
fn cleaner_x_earlier_date() {
    explore("cleaner_x_earlier_date", &["cleaned", "due"], |outcomes| {
        let rig = Rig::new(|b| b.max(1).max_idle_time(2 * IDLE));
        let gone = rig.bell(Call::ShutDown);
        rig.idle(&app("a"));
        rig.clock.advance(IDLE);
        rig.pool.inner().start_cleaner().expect("a thread");
        rig.pool.set_max_idle_time(IDLE);
        let due = rig.pool.counts().count == 1;
        gone.wait(1);
        outcomes.note(if due { "due" } else { "cleaned" });
    });
}
