//! The defects of Rails' interlock are absent here. `spec/` shows each of them on a model of Rails' rules.

use crate::common::SECOND;
use crate::interlock::actor::{Actor, newcomer_waits, start_unload, timed_out, unload_waits};
use crate::polling::poll;
use cabrank::execution::interlock::OwnerState::{Permitting, Running};
use cabrank::{Interlock, ManualClock};
use std::sync::mpsc::channel;

/// Defect `rails-permit-erased`: in Rails a load inside a permit block erases the block's entry. An unload then
/// enters although only loads were permitted.
#[test]
fn a_load_inside_a_permit_block_does_not_end_it() {
    let interlock = Interlock::new();
    let actor = Actor::enter(&interlock);
    let (go, steps) = channel::<()>();
    let inner = interlock.clone();
    let permits = actor.order_until(Permitting, move |r| {
        r.permit_loads(|| {
            steps.recv().unwrap();
            inner.run(|r| r.load(|_| ())).expect("no deadlock").expect("no deadlock");
            steps.recv().unwrap();
            inner.run(|r| r.permit_loads(|| ())).expect("no deadlock").expect("no deadlock");
            steps.recv().unwrap();
        })
    });
    for _ in 0..3 {
        assert!(unload_waits(&interlock));
        go.send(()).unwrap();
    }
    permits.done().expect("no deadlock");
    actor.until(Running);
}

/// Defect `rails-starved-request`: in Rails a request without a share publishes no entry, and starves under a
/// stream of sharers.
#[test]
fn an_unload_from_outside_keeps_newcomers_out() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let unloads = start_unload(&interlock, |_| ());
    assert!(newcomer_waits(&interlock));
    sharer.leave();
    unloads.done().expect("no deadlock");
}

/// Defect `rails-upgrade-deadlock`: in Rails two owners that upgrade without a purpose block each other for ever.
#[test]
fn two_upgrades_both_pass() {
    let interlock = Interlock::new();
    let actors = [Actor::enter(&interlock), Actor::enter(&interlock)];
    let loads = actors.each_ref().map(|actor| actor.order(|r| r.load(|_| ())));
    for load in loads {
        load.done().expect("no deadlock");
    }
}

/// Defect `rails-child-behind-unload`: in Rails the guide's own remedy hangs when an unload is queued before
/// the child enters.
#[test]
fn a_child_enters_although_an_unload_waits_for_its_parent() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let unloads = start_unload(&interlock, |_| ());
    let inner = interlock.clone();
    let joined = parent.order(|r| {
        let child = std::thread::spawn(move || inner.run(|r| r.load(|_| 4)));
        r.permit_loads(|| child.join()).expect("no deadlock")
    });
    let loaded = joined.done().expect("no panic").expect("it enters");
    assert_eq!(loaded.expect("no deadlock"), 4);
    assert!(unloads.is_stuck());
    parent.leave();
    unloads.done().expect("no deadlock");
}

/// Defect `rails-leaked-share`: in Rails a thread that died with a share blocks unloads without a word.
#[test]
fn a_leaked_share_is_named_at_the_time_limit() {
    let clock = ManualClock::new();
    let interlock = Interlock::builder().clock(clock.clock()).acquire_timeout(SECOND).build();
    let theirs = interlock.clone();
    let leaks = std::thread::spawn(move || {
        let mut execution =
            Box::pin(theirs.run_async(async |_| std::future::pending::<()>().await));
        assert!(poll(&mut execution).is_pending());
        std::mem::forget(execution);
    });
    leaks.join().expect("no panic");
    let unloads = start_unload(&interlock, |_| ());
    clock.advance(SECOND);
    let blocked = timed_out(unloads.done());
    let owner = blocked.dump.owner(blocked.victim).expect("it waited");
    let by = owner.wait.as_ref().expect("it waited").blocked_by;
    let leaked: Vec<_> = blocked.dump.blockers(by).collect();
    assert_eq!(leaked.len(), 1);
    assert!(leaked[0].entered_at.file().ends_with("defects.rs"));
}
