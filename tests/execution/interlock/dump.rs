//! The dump, as its reader sees it.

use crate::common::SECOND;
use crate::interlock::actor::{Actor, deadlock, start_unload, timed_out};
use crate::polling::poll;
use cabrank::execution::interlock::OwnerState::{
    Draining, Entering, Loading, Permitting, Resuming, WaitingToLoad,
};
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

/// The dump is plain data.
#[cfg(feature = "serde")]
#[test]
fn the_dump_can_be_written() {
    let clock = ManualClock::new();
    let interlock = Interlock::builder().clock(clock.clock()).build();
    let parent = Actor::enter(&interlock);
    parent.order(|r| r.set_name("GET /users")).done();
    let unloads = start_unload(&interlock, |_| ());
    let mut enters = Box::pin(interlock.run_async(async |_| ()));
    assert!(poll(&mut enters).is_pending());
    clock.advance(SECOND);
    let dump = interlock.dump();
    let data = serde_json::to_value(&dump).expect("it is plain data");
    assert_eq!(data["generation"], 0);
    let [first, second, third] = [0, 1, 2].map(|at| &data["owners"][at]);
    assert_eq!(
        (&first["id"], &first["name"], &first["state"]),
        (&"0.1".into(), &"GET /users".into(), &"running".into())
    );
    assert_eq!(first["entered_at"], dump.owners[0].entered_at.to_string());
    assert!(first["thread"].is_string() && first["wait"].is_null());
    assert_eq!(second["state"], "waiting_to_unload");
    let wait = dump.owners[1].wait.as_ref().expect("it waits");
    let expected = serde_json::json!({
        "at": wait.at.to_string(),
        "waited": { "secs": 1, "nanos": 0 },
        "blocked_by": "running",
        "backtrace": null,
    });
    assert_eq!(second["wait"], expected);
    assert!(third["thread"].is_null());
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

/// The text names eight of those that block an execution, and counts the others.
#[test]
fn a_long_list_of_blockers_is_cut_and_counts_the_rest() {
    for (sharers, expected) in [(1, "0.1"), (8, "0.1, 1.2, 2.3, 3.4, 4.5, 5.6, 6.7, 7.8")] {
        let texts = texts_beside(sharers);
        let blocked_by = format!(", blocked by all that run: {expected}");
        assert!(texts[0].ends_with(&blocked_by), "{}", texts[0]);
        assert!(texts[1].ends_with(&format!("  all that run: {expected}\n")), "{}", texts[1]);
    }
    for more in [1, 3] {
        let texts = texts_beside(8 + more);
        let end = format!("6.7, 7.8 and {more} more");
        assert!(texts[0].ends_with(&end), "{}", texts[0]);
        assert!(texts[1].ends_with(&format!("{end}\n")), "{}", texts[1]);
    }
}

/// Returns the text of a load that times out beside so many others, and that of its dump.
fn texts_beside(sharers: usize) -> [String; 2] {
    let clock = ManualClock::new();
    let interlock = Interlock::builder().clock(clock.clock()).acquire_timeout(SECOND).build();
    let runs = || {
        let mut runs = Box::pin(interlock.run_async(async |_| std::future::pending::<()>().await));
        assert!(poll(&mut runs).is_pending());
        runs
    };
    let _sharers: Vec<_> = (0..sharers).map(|_| runs()).collect();
    let loads = Actor::enter(&interlock);
    let late = loads.order_until(WaitingToLoad, |r| r.load(|_| ()));
    clock.advance(SECOND);
    let late = late.done().expect_err("the others stay");
    [late.to_string(), late.source().expect("the dump").to_string()]
}

/// The states, and what keeps each from going on.
#[test]
fn each_state_has_its_words_and_its_blockers() {
    let interlock = Interlock::new();
    let says = |nth: usize| {
        let owner = interlock.dump().owners[nth].clone();
        (owner.state.to_string(), owner.wait.map(|wait| wait.blocked_by.to_string()))
    };
    let some = |text: &str| Some(text.to_owned());
    let [first, second, permits] = [(); 3].map(|()| Actor::enter(&interlock));
    let one = first.order_until(WaitingToLoad, |r| r.load(|_| ()));
    assert_eq!(says(0), ("waits to load".into(), some("all that run")));
    let (release, hold) = std::sync::mpsc::channel::<()>();
    let other = second.order_until(WaitingToLoad, move |r| r.load(|_| hold.recv().is_err()));
    // The first one loads now, and then lets the second one go first.
    let (end, block) = std::sync::mpsc::channel::<()>();
    let ends = permits.order_until(Permitting, move |r| r.permit_loads(|| block.recv().is_err()));
    assert_eq!(says(2), ("permits loads".into(), None));
    second.until(Loading);
    first.until(Draining);
    assert_eq!(says(0), ("lets others load first".into(), some("the one that holds")));
    assert_eq!(says(1), ("loads".into(), None));
    drop(end);
    permits.until(Resuming);
    assert_eq!(says(2), ("waits for its share".into(), some("the one that holds")));
    let mut enters = Box::pin(interlock.run_async(async |_| ()));
    assert!(poll(&mut enters).is_pending());
    assert_eq!(says(3), ("waits to enter".into(), some("the one that holds")));
    drop((enters, release));
    one.done().expect("no limit");
    assert!(other.done().expect("no limit") && ends.done().expect("no limit"));
    assert_eq!(says(0), ("runs".into(), None));
    let (end, block) = std::sync::mpsc::channel::<()>();
    let ends = permits.order_until(Permitting, move |r| r.permit_loads(|| block.recv().is_err()));
    first.leave();
    second.leave();
    let unloads = start_unload(&interlock, |_| ());
    let waiting = interlock.dump().owners.iter().position(|owner| owner.wait.is_some());
    assert_eq!(
        says(waiting.expect("it waits")),
        ("waits to unload".into(), some("all in permit blocks"))
    );
    drop(end);
    assert!(ends.done().expect("no limit"));
    permits.leave();
    unloads.done().expect("no limit");
}
