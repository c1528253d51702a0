//! The dump, as its reader sees it.

use crate::common::SECOND;
use crate::interlock::actor::{Actor, start, until};
use cabrank::execution::interlock::AcquireError;
use cabrank::execution::interlock::OwnerState::{Entering, WaitingForChildren, WaitingToUnload};
use cabrank::{Interlock, ManualClock};

#[test]
fn the_dump_says_who_waits_for_whom_and_since_when() {
    let clock = ManualClock::new();
    let interlock = Interlock::with_clock(clock.clock());
    let parent = Actor::enter(&interlock);
    parent.tell(|r| r.set_name("GET /users")).done();
    clock.advance(SECOND);
    let other = interlock.clone();
    let unloads = start(move || other.unload(|_| ()));
    until(&interlock, WaitingToUnload, 1);
    clock.advance(SECOND);
    let other = interlock.clone();
    let enters = start(move || other.run(|_| ()));
    until(&interlock, Entering, 1);
    clock.advance(SECOND);
    let text = interlock.dump().to_string();
    let expected = "load interlock: 3 executions, generation 0\n  \
        0.1 “GET /users” runs\n      \
        began 3.0 s ago; blocking 1.1\n  \
        1.1 waits to unload until no other execution runs or loads\n      \
        began 2.0 s ago; has waited 2.0 s; lets loads, unloads go first; \
        blocked by 0.1 “GET /users”; blocking 2.1\n  \
        2.1 waits to enter\n      \
        began 1.0 s ago; has waited 1.0 s; blocked by 1.1\n";
    assert_eq!(text, expected);
    let data = serde_json::to_value(interlock.dump()).expect("it is plain data");
    assert_eq!(data["owners"][1]["state"], "WaitingToUnload");
    assert_eq!(data["owners"][1]["blocked_by"][0], "0.1");
    parent.leave();
    unloads.done().expect("no deadlock");
    enters.done();
}

/// The second line names the cause, as in the example.
#[test]
fn the_dump_of_a_deadlock_begins_with_its_circle() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let (child, outer) = (parent.tell(|r| r.child()).done(), "outer");
    let (load, ready) = std::sync::mpsc::channel();
    let told = parent.tell(move |r| {
        r.set_name(outer);
        let thread = std::thread::spawn(move || {
            child.run(|r| {
                r.set_name("inner");
                ready.recv().expect("the test sends");
                r.load(|_| ()).expect_err("a deadlock")
            })
        });
        r.waiting(|| thread.join().expect("no panic")).expect("the child closes it")
    });
    parent.until(WaitingForChildren);
    load.send(()).expect("the receiver waits");
    let AcquireError::Deadlock(deadlock) = told.done() else { panic!("a deadlock") };
    let text = deadlock.dump().to_string();
    let line = "deadlock: 0.1 “outer” waits for 1.1 “inner” waits for 0.1 “outer”";
    assert_eq!(text.lines().nth(1), Some(line));
    let error = "deadlock: 1.1 “inner” waits to load until no other execution has a share; \
        0.1 “outer” keeps its share and waits for its children";
    assert_eq!(deadlock.to_string(), error);
    assert_eq!(interlock.dump().cycle(), None);
}

/// A name belongs to the execution, not to the owner's slot.
#[test]
fn a_name_ends_with_its_execution() {
    let interlock = Interlock::new();
    interlock.run(|r| r.set_name("first"));
    interlock.run(|_| assert_eq!(interlock.dump().owners[0].name, None));
}

/// Regression: finding and printing cycles took time cubic in the number of owners.
#[test]
fn a_dump_of_a_crowd_is_short() {
    let interlock = Interlock::new();
    let mut crowd: Vec<_> = (0..300).map(|_| interlock.enter()).collect();
    let (waiting, running) = crowd.split_at_mut(150);
    let mut loads: Vec<_> = waiting.iter_mut().map(|r| Box::pin(r.load_async())).collect();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    for load in &mut loads {
        assert!(std::future::Future::poll(load.as_mut(), &mut cx).is_pending());
    }
    let dump = interlock.dump();
    assert_eq!(dump.owners[0].blocked_by.len(), running.len());
    assert_eq!(dump.cycle(), None);
    let text = dump.to_string();
    assert!(text.lines().all(|line| line.len() < 200), "{text}");
    let line = "; blocked by 150.1, 151.1, 152.1, 153.1, 154.1, 155.1, 156.1, 157.1 and 142 more";
    assert!(text.lines().nth(2).is_some_and(|first| first.ends_with(line)), "{text}");
}
