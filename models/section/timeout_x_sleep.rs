//! A thread's deadline passes while the thread goes to sleep. No permit is given back: only the clock ends the wait.
//!
//! Guards that a thread keeps the lock from its look at the clock until it sleeps, and that an advance takes the
//! lock before it notifies (`Lock::clock_advanced`). Otherwise the thread misses the advance and sleeps for ever. The
//! tools do not see advances, so the model advances once the thread has looked for its outcome, with the lock that the
//! thread keeps. Asserted: the thread times out.

use super::rig::{Permits, SECOND};
use crate::models::rig::*;

#[test]
fn section_timeout_x_sleep() {
    explore_small(Model("section_timeout_x_sleep", 8), &["timed out"], |outcomes| {
        let permits = Permits::new(0);
        let (theirs, deadline) = (permits.clone(), permits.clock().deadline(SECOND));
        let looks = Counter::new();
        let looking = looks.clone();
        let taker = spawn(move || theirs.take_counting(deadline, looking));
        looks.wait(1);
        permits.clock.advance(SECOND);
        assert_eq!(taker.join().expect("no panic"), None);
        outcomes.note("timed out");
    });
}
