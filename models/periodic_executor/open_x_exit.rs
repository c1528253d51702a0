//! An executor is opened while it ends: because its target says so, because it was closed, or because it
//! panicked.
//!
//! Asserted in all: a call begins after the open; there is one run at a time.

use crate::models::periodic_executor::rig::*;
use crate::sync::me;
use std::sync::{Arc, Mutex};

/// The target stops at every call.
///
/// Guards the look at `AGAIN` in the step by which a run ends (`Signal::end`), and that an open leaves it
/// (`Signal::open`): without one of them, an open that comes between the target's answer and the end
/// of the run opens nothing.
#[test]
fn periodic_open_x_exit() {
    let ways = ["in time for the first call", "the run went on", "a new run"];
    explore("periodic_open_x_exit", &ways, move |outcomes| {
        let (news, seen) = (Count::default(), Count::default());
        let threads: Arc<Mutex<Vec<usize>>> = Arc::default();
        let executor = {
            let (news, seen, threads) = (news.clone(), seen.clone(), threads.clone());
            builder().target(move || {
                threads.lock().expect("no panic").push(me());
                if news.get() > 0 {
                    seen.up();
                }
                Flow::Stop
            })
        };
        executor.open().expect("a thread");
        news.up();
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

/// It is closed, and opened again before or after that is obeyed.
///
/// Guards that an open after a close leaves `FRESH` (`Signal::open`), by which a sleep that the close has
/// ended is not begun again (`Signal::prepare_to_sleep`).
#[test]
fn periodic_close_x_reopen() {
    let ways = ["it went on", "it ended first"];
    explore("periodic_close_x_reopen", &ways, move |outcomes| {
        let (calls, news) = (Count::default(), Count::default());
        let executor = builder().target(until_news(&calls, &news));
        executor.open().expect("a thread");
        lock_free(|| executor.close());
        let ended = executor.phase() == Phase::Stopped;
        news.up();
        executor.open().expect("a thread");
        assert_eq!(executor.join(), Ok(Joined::Finished));
        outcomes.note(if ended { ways[1] } else { ways[0] });
    });
}

/// Two open at once, and the target stops at every call.
///
/// Guards that `RUNNING` is set by one of them (`Signal::open`), and that the target is back before it is
/// cleared (`Run::end`): without, a second run finds no target.
#[test]
fn periodic_open_x_open() {
    explore("periodic_open_x_open", &["1", "2"], |outcomes| {
        let (calls, inside) = (Count::default(), Count::default());
        let executor = {
            let calls = calls.clone();
            builder().target(move || {
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

/// The target panics while it is joined, in a call during which it was opened again: the run goes on.
///
/// Guards that a panic is told to those who wait also where the run goes on (`Run::end`), and that it is an
/// end like any other: without, nobody hears of it.
#[test]
fn periodic_panic_x_join() {
    let ways = ["of the panic", "of the second run"];
    explore("periodic_panic_x_join", &ways, move |outcomes| {
        let (calls, own) = (Count::default(), Arc::new(Mutex::new(None::<PeriodicExecutor>)));
        let executor = {
            let (calls, own) = (calls.clone(), own.clone());
            builder().target(move || {
                if calls.up() > 1 {
                    return Flow::Stop;
                }
                let executor = own.lock().expect("no panic").take().expect("it was given");
                executor.open().expect("it has a thread");
                drop(executor);
                scripted_panic()
            })
        };
        *own.lock().expect("no panic") = Some(executor.clone());
        executor.open().expect("a thread");
        match executor.join() {
            Err(JoinError::Panicked(message)) => {
                assert_eq!(&*message, crate::user_code::SCRIPTED);
                outcomes.note(ways[0]);
            }
            other => {
                assert_eq!(other, Ok(Joined::Finished));
                outcomes.note(ways[1]);
            }
        }
    });
}
