//! Somebody waits for the end of the pool while that comes, and while his time runs out (erratum E32).

use crate::models::rig::*;
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

/// His time runs out: the pool is closed, and a session lasts until he is back.
///
/// Guards that moved hands wake who waits for the end (`closed_signal` in `Inner`'s `tick`), and that they take the
/// lock before they do: he may have looked at the clock and not yet lain down. Without either, he sleeps on, for
/// nothing else wakes him here. The hands, whose moves the tools do not see, are moved once he has looked at the pool,
/// with the lock that he holds until he lies down. Asserted: he is told that his time is up.
#[test]
fn wait_closed_x_time_out() {
    explore_small("wait_closed_x_time_out", &["told"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let session = rig.session(&app("a"));
        rig.pool.close();
        let (looks, theirs) = (Bell::new(), rig.pool.clone());
        let (looking, deadline) = (looks.clone(), rig.clock.clock().deadline(SECOND));
        let waiter = spawn(move || {
            theirs.inner().wait_until(deadline, |state| {
                looking.ring();
                state.is_over()
            })
        });
        looks.wait(1);
        rig.clock.advance(SECOND);
        assert!(!waiter.join().expect("no panic"), "a session is open");
        drop(session);
        outcomes.note("told");
    });
}

fn somebody_waits(rig: &Rig) -> bool {
    rig.pool.inner().critical(|state, _| state.waiting_for_end == 1)
}
