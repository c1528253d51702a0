//! The time limit of a wait passes while the wait is granted.
//!
//! Guards `State::give_up` and the timer of tasks (`timer.rs`). An owner that gives up runs only after the holder
//! has released, and the waiters behind it go on. Asserted: the wait ends in both ways, and no owner is left.

use crate::models::interlock::rig::*;
use std::task::Poll;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Returns an interlock whose waits end after a second of this clock.
fn limited(clock: &ManualClock) -> Interlock {
    Interlock::builder().clock(clock.clock()).acquire_timeout(SECOND).build()
}

fn noted(loaded: Result<(), AcquireError>) -> &'static str {
    match loaded {
        Ok(()) => "loaded",
        Err(AcquireError::TimedOut(_)) => "timed out",
        Err(error) => panic!("{error}"),
    }
}

/// A thread's load times out during another load. Without the Resuming rule, it runs beside that load.
#[test]
fn interlock_time_limit_x_holder() {
    let expected = ["loaded", "timed out"];
    explore(Model("interlock_time_limit_x_holder", 13_028), &expected, |outcomes| {
        let clock = ManualClock::new();
        let (interlock, code) = (limited(&clock), LoadedCode::new());
        let (mut a, mut b) = (thread_owner(&interlock), owner(&interlock));
        let theirs = code.clone();
        let thread = spawn(move || {
            b.load(|_| {
                clock.advance(SECOND);
                theirs.alone("b");
            })
            .expect("the clock stands from now on");
        });
        outcomes.note(noted(a.load(|_| code.alone("a"))));
        a.permit_loads(|| ()).expect("its share comes back");
        code.runs();
        drop(a);
        thread.join().expect("no panic");
        assert_free(&interlock, &code);
    });
}

/// A load that has kept a newcomer out times out. Without settling its section, the newcomer sleeps on.
#[test]
fn interlock_time_limit_x_newcomer() {
    let expected = ["entered at once", "kept out"];
    explore(Model("interlock_time_limit_x_newcomer", 155), &expected, |outcomes| {
        let clock = ManualClock::new(); // which stands
        let interlock = Interlock::builder().clock(clock.clock()).build();
        let (code, b) = (LoadedCode::new(), owner(&interlock));
        let mut a = limited_owner(&interlock, Some(Duration::ZERO));
        let loader = spawn(move || noted(a.load(|_| unreachable!("b runs"))));
        let there = code.clone();
        let mut enter = Box::pin(interlock.run_async(async |_| there.runs()));
        let waits = poll_once(enter.as_mut()).is_pending();
        if waits {
            block_on(enter).expect("no limit");
        }
        outcomes.note(if waits { "kept out" } else { "entered at once" });
        assert_eq!(loader.join().expect("no panic"), "timed out");
        drop(b);
        assert_free(&interlock, &code);
    });
}

/// A task's load times out by the timer's thread. No owner leaves, so only the timer wakes the task.
#[test]
fn interlock_time_limit_x_timer() {
    let ways = ["the timer had looked", "the timer had not looked"];
    explore(Model("interlock_time_limit_x_timer", 142_938), &ways, move |outcomes| {
        let clock = ManualClock::new();
        let interlock = limited(&clock);
        let (mut a, _b) = (owner(&interlock), owner(&interlock));
        {
            let mut load = Box::pin(a.load_async(async |_| unreachable!("b runs")));
            assert!(poll_once(load.as_mut()).is_pending());
            clock.advance(SECOND);
            let (had_looked, loaded) = match poll_once(load.as_mut()) {
                Poll::Ready(loaded) => (true, loaded),
                Poll::Pending => (false, block_on(load)),
            };
            assert_eq!(noted(loaded), "timed out");
            outcomes.note(ways[usize::from(!had_looked)]);
        }
        assert!(a.has_share());
    });
}
