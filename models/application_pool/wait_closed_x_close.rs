//! A caller waits for the end of the pool while the pool ends, and while its deadline passes (erratum E32).

use crate::application_pool::{End, Inner, WaitForEnd};
use crate::in_memory::InMemorySpawner;
use crate::kernel::collections::wait_queue::Wake;
use crate::kernel::section::{Patience, Wait, now};
use crate::models::rig::*;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// An empty pool is closed.
///
/// Guards that `State::close` reports the pool's end itself: an empty pool shuts no process down that could report it
/// later. Without it, the caller sleeps until its deadline, though the pool has ended. Asserted: the caller is woken.
#[test]
fn wait_closed_x_close() {
    explore_small(Model("wait_closed_x_close", 22), &["came late", "waited"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let theirs = rig.pool.clone();
        let waiter = spawn(move || theirs.wait_closed(DRAIN));
        let waited = is_waited_for(&rig);
        rig.pool.close();
        assert!(
            waiter.join().expect("no panic"),
            "the pool has ended, but the caller was not woken"
        );
        outcomes.note(if waited { "waited" } else { "came late" });
    });
}

/// The deadline passes: the pool is closed, and a session outlives the wait.
///
/// Guards that a manual clock wakes the caller (`Inner::advanced`), and takes the lock first: the caller may have
/// looked at the clock without sleeping yet. Without either, the caller sleeps on. Asserted: the caller times out.
///
/// The tools do not see the clock move. The model therefore moves it once the caller has looked at the pool; from
/// there the caller keeps the lock until it sleeps.
#[test]
fn wait_closed_x_timeout() {
    explore_small(Model("wait_closed_x_timeout", 8), &["timed out"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let session = rig.session(&app("a"));
        rig.pool.close();
        let (looks, theirs) = (Counter::new(), rig.pool.clone());
        let (looking, deadline) = (looks.clone(), rig.clock.clock().deadline(SECOND));
        let waiter = spawn(move || {
            let pool = theirs.inner();
            let wait = CountsLooks(WaitForEnd::new(End::OfEverything), looking);
            now(pool.turn(wait, Patience::Thread(deadline))).is_ok()
        });
        looks.wait(1);
        rig.clock.advance(SECOND);
        assert!(!waiter.join().expect("no panic"), "a session is open");
        drop(session);
        outcomes.note("timed out");
    });
}

type TheInner = Arc<Inner<InMemorySpawner>>;
type TheState = <TheInner as Guarded>::State;
type TheEffects = <TheInner as Guarded>::Effects;

/// Counts the looks of the waiter for its outcome.
struct CountsLooks(WaitForEnd, Counter);

impl Wait<TheInner> for CountsLooks {
    type Outcome = ();
    type GivenUp = ();
    fn take(&mut self, state: &mut TheState, fx: &mut TheEffects) -> Option<()> {
        self.1.up();
        self.0.take(state, fx)
    }
    fn wake<'s>(&self, state: &'s mut TheState) -> &'s mut Wake {
        <WaitForEnd as Wait<TheInner>>::wake(&self.0, state)
    }
    fn give_up(&mut self, state: &mut TheState, fx: &mut TheEffects) {
        self.0.give_up(state, fx);
    }
}

fn is_waited_for(rig: &Rig) -> bool {
    rig.pool.inner().critical(|state, _| !state.ends[End::OfEverything as usize].is_empty())
}
