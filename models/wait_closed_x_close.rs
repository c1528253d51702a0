//! Somebody waits for the end of the pool while that comes, and while his time runs out (erratum E32).

use super::rig::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A pool that has nothing is closed.
///
/// Guards the last line of `State::close`: nothing is shut down that could tell of the end later, so the close
/// itself does. Without it, who waits sleeps on until his time is up, though the pool is over. Asserted: he is
/// told.
#[test]
fn wait_closed_x_close() {
    explore_small("wait_closed_x_close", &["came late", "waited"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let theirs = rig.pool.clone();
        let waiter = spawn(move || theirs.wait_closed(DRAIN));
        let waited = somebody_waits(&rig);
        rig.pool.close();
        assert!(waiter.join().expect("no panic"), "over, and not told so");
        outcomes.note(if waited { "waited" } else { "came late" });
    });
}

/// His time runs out: the pool is closed, and a session lasts.
///
/// Guards that moved hands wake who waits for the end (`closed_signal` in `Inner`'s `tick`), and that they do so under
/// the lock: he may have looked at the clock and not yet lain down. Without either, he sleeps until the session is
/// closed, which here comes after it. Asserted: he is told that his time is up.
#[test]
fn wait_closed_x_time_out() {
    let ways = ["late, and over", "late, and timed out", "woken"];
    explore_small("wait_closed_x_time_out", &ways, |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let session = rig.session(&app("a"));
        rig.pool.close();
        let theirs = rig.pool.clone();
        let waiter = spawn(move || theirs.wait_closed(SECOND));
        let waited = somebody_waits(&rig);
        rig.clock.advance(SECOND);
        if waited {
            assert!(!waiter.join().expect("no panic"), "a session is open");
            drop(session);
            outcomes.note("woken");
        } else {
            // He may have begun after the hands were moved: this ends his wait.
            drop(session);
            let over = waiter.join().expect("no panic");
            outcomes.note(if over { "late, and over" } else { "late, and timed out" });
        }
    });
}

fn somebody_waits(rig: &Rig) -> bool {
    rig.pool.inner().critical(|state, _| state.waiting_for_end == 1)
}
