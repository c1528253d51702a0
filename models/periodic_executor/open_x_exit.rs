//! An open meets the end of a run: by the target's answer, by a close, or by a panic.
//!
//! Each model asserts that a call begins after the open, and that only one run is under way at a time.

use crate::kernel::sync::me;
use crate::models::periodic_executor::rig::*;
use std::sync::{Arc, Mutex};

/// The target stops at every call.
///
/// Guards `AGAIN`, which `Signal::open` sets and `Signal::end` looks at in the step that ends a run. Without one of
/// the two, an open between the target's answer and the end of the run is lost.
#[test]
fn periodic_open_x_exit() {
    let ways = ["in time for the first call", "the run went on", "a new run"];
    explore(Model("periodic_open_x_exit", 586), &ways, move |outcomes| {
        let (work, seen) = (Count::default(), Count::default());
        let threads: Arc<Mutex<Vec<usize>>> = Arc::default();
        let executor = {
            let (work, seen, threads) = (work.clone(), seen.clone(), threads.clone());
            builder().build(move || {
                threads.lock().expect("no panic").push(me());
                if work.get() > 0 {
                    seen.up();
                }
                Flow::Stop
            })
        };
        executor.open().expect("a thread");
        work.up();
        executor.open().expect("a thread");
        assert_eq!(executor.join(), Ok(Joined::Finished));
        assert!(seen.get() > 0, "no call after the open");
        outcomes.note(match threads.lock().expect("no panic")[..] {
            [_] => ways[0],
            [first, second] if first == second => ways[1],
            [_, _] => ways[2],
            ref more => panic!("{more:?}"),
        });
    });
}

/// A thread closes the executor, and opens it again before or after the run has obeyed.
///
/// Guards `FRESH`, which `Signal::open` sets after a close. By it `Signal::prepare_to_sleep` does not begin the
/// sleep again that the close has ended: otherwise the call after the open never comes.
#[test]
fn periodic_close_x_reopen() {
    let ways = ["it went on", "it ended first"];
    explore(Model("periodic_close_x_reopen", 13_902), &ways, move |outcomes| {
        let (calls, work) = (Count::default(), Count::default());
        let executor = builder().build(until_work(&calls, &work));
        executor.open().expect("a thread");
        lock_free(|| executor.close());
        let ended = executor.phase() == Phase::Stopped;
        work.up();
        executor.open().expect("a thread");
        assert_eq!(executor.join(), Ok(Joined::Finished));
        outcomes.note(if ended { ways[1] } else { ways[0] });
    });
}

/// Two threads open at once, and the target stops at every call.
///
/// Guards that only one of them sets `RUNNING` (`Signal::open`), and that a run puts the target back before it clears
/// `RUNNING` (`Run::end`): otherwise a second run finds no target.
#[test]
fn periodic_open_x_open() {
    explore(Model("periodic_open_x_open", 9_284), &["1", "2"], |outcomes| {
        let (calls, inside) = (Count::default(), Count::default());
        let executor = {
            let calls = calls.clone();
            builder().build(move || {
                assert_eq!(inside.up(), calls.up(), "two runs");
                Flow::Stop
            })
        };
        let theirs = executor.clone();
        let opener = spawn(move || theirs.open().expect("a thread"));
        executor.open().expect("a thread");
        opener.join().expect("no panic");
        assert_eq!(executor.join(), Ok(Joined::Finished));
        outcomes.note(calls.get().to_string());
    });
}

/// The target opens its executor in a call, and panics in that call, while a thread joins. The run goes on.
///
/// Guards that `Run::end` reports a panic to each join, also where the run goes on: otherwise the panic is lost.
#[test]
fn periodic_panic_x_join() {
    let ways = ["of the panic", "of the second run"];
    explore(Model("periodic_panic_x_join", 385), &ways, move |outcomes| {
        let (calls, own) = (Count::default(), Arc::new(Mutex::new(None::<PeriodicExecutor>)));
        let executor = {
            let (calls, own) = (calls.clone(), own.clone());
            builder().build(move || {
                if calls.up() > 1 {
                    return Flow::Stop;
                }
                let executor =
                    own.lock().expect("no panic").take().expect("the model has put it there");
                executor.open().expect("the run goes on");
                drop(executor);
                scripted_panic()
            })
        };
        *own.lock().expect("no panic") = Some(executor.clone());
        executor.open().expect("a thread");
        match executor.join() {
            Err(JoinError::Panicked(message)) => {
                assert_eq!(&*message, crate::kernel::user_code::SCRIPTED);
                outcomes.note(ways[0]);
            }
            other => {
                assert_eq!(other, Ok(Joined::Finished));
                outcomes.note(ways[1]);
            }
        }
    });
}
