//! The dump, as its reader sees it.

use crate::common::SECOND;
use crate::interlock::actor::{Actor, deadlock, start_unload, timed_out};
use crate::polling::poll;
use cabrank::execution::interlock::OwnerState::{Entering, WaitingToLoad};
use cabrank::execution::interlock::{BlockedBy, OwnerDump, Running};
use cabrank::{Interlock, ManualClock};
use std::error::Error;

fn thread(owner: &OwnerDump) -> String {
    let thread = owner.thread.as_ref().expect("it has a thread");
    format!("{} ({:?})", thread.name().unwrap_or("unnamed"), thread.id())
}

#[test]
fn the_dump_says_where_each_waits_since_when_and_for_which_others() {
    let clock = ManualClock::new();
    let interlock = Interlock::builder().clock(clock.clock()).build();
    let parent = Actor::enter(&interlock);
    parent.order(|r| r.set_name("GET /users")).done();
    clock.advance(SECOND);
    let unloads = start_unload(&interlock, |_| ());
    clock.advance(SECOND);
    let mut enters = Box::pin(interlock.run_async(async |_| ()));
    assert!(poll(&mut enters).is_pending());
    clock.advance(SECOND);
    let dump = interlock.dump();
    let wait = |at: usize| dump.owners[at].wait.as_ref().expect("it waits");
    let text = dump.to_string();
    let [first, second, third] = [0, 1, 2].map(|at| &dump.owners[at]);
    let expected = format!(
        "load interlock: 3 executions, generation 0\n  \
        0.1 “GET /users” runs: thread {}, entered 3.0s ago at {}\n  \
        1.2 waits to unload: thread {}, entered 2.0s ago at {}\n      \
        has waited 2.0s at {}, blocked by all that run\n  \
        2.3 waits to enter: a task, entered 1.0s ago at {}\n      \
        has waited 1.0s at {}, blocked by all that wait to unload\n  \
        all that run: 0.1 “GET /users”\n  \
        all that wait to unload: 1.2\n",
        thread(first),
        first.entered_at,
        thread(second),
        second.entered_at,
        wait(1).at,
        third.entered_at,
        wait(2).at,
    );
    assert_eq!(text, expected);
    assert!(third.entered_at.file().ends_with("dump.rs"));
    parent.leave();
    unloads.done().expect("no deadlock");
}

#[test]
fn an_error_names_the_wait_and_its_source_is_the_dump() {
    let clock = ManualClock::new();
    let interlock = Interlock::builder().clock(clock.clock()).acquire_timeout(SECOND).build();
    let (sharer, waits) = (Actor::enter(&interlock), Actor::enter(&interlock));
    sharer.order(|r| r.set_name("GET /users")).done();
    let (line, load) = (line!(), |r: &mut Running<'_>| r.load(|_| ()));
    let loads = waits.order_until(WaitingToLoad, load);
    clock.advance(SECOND);
    let late = loads.done().expect_err("the sharer stays");
    let file = file!();
    let text = late.to_string();
    assert!(text.starts_with(&format!("timed out at {file}:{line}:")), "{text}");
    let blocked_by = ": 1.2 waits to load, blocked by all that run: 0.1 “GET /users”";
    assert!(text.ends_with(blocked_by), "{text}");
    let source = late.source().expect("the dump").to_string();
    assert!(source.starts_with("load interlock: 2 executions"), "{source}");
    assert_eq!(timed_out::<()>(Err(late)).victim, waits.id);

    let refused = sharer.order({
        let interlock = interlock.clone();
        move |_| interlock.unload(|_| ())
    });
    let blocked = deadlock(refused.done());
    assert_eq!((blocked.victim, blocked.at.file()), (sharer.id, file));
}

/// A name belongs to the execution, not to the owner's slot.
#[test]
fn a_name_ends_with_its_execution() {
    let interlock = Interlock::new();
    interlock.run(|r| r.set_name("first")).expect("no other owner holds");
    let second = interlock.run(|_| interlock.dump().owners[0].name.clone());
    assert_eq!(second.expect("no other owner holds"), None);
}

/// Both the dump and its text grow with the number of owners, not with its square.
#[test]
fn a_dump_of_a_crowd_is_short() {
    let interlock = Interlock::new();
    let run = async |r: &mut Running<'_>| r.load_async(async |_| ()).await;
    let mut holds = Box::pin(
        interlock
            .run_async(async |r| r.load_async(async |_| std::future::pending::<()>().await).await),
    );
    assert!(poll(&mut holds).is_pending());
    let mut crowd: Vec<_> = (0..10_000).map(|_| Box::pin(interlock.run_async(run))).collect();
    // Each check of the invariants looks at all owners, so only some of them wait.
    let crowd = if cfg!(debug_assertions) { &mut crowd[..300] } else { &mut crowd[..] };
    for one in crowd.iter_mut() {
        assert!(poll(one).is_pending());
    }
    let dump = interlock.dump();
    let waits = dump.owners.iter().filter_map(|owner| owner.wait.as_ref());
    assert!(waits.clone().all(|wait| wait.blocked_by == BlockedBy::Holder));
    assert_eq!(waits.count(), crowd.len());
    let text = dump.to_string();
    assert!(text.len() < 250 * dump.owners.len(), "{text}");
    assert!(text.ends_with("the one that holds: 0.1\n"), "{text}");
    drop(holds);
    let text = interlock.dump().to_string();
    assert_eq!(interlock.dump().owners.iter().filter(|owner| owner.state == Entering).count(), 0);
    assert!(text.lines().all(|line| line.len() < 250), "{text}");
}
