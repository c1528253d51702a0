//! Loans that look abandoned: when the pool reports them, and how each ends.

use crate::common::{Lent, Outcome, Script, locked, pool};
use crate::shared::SECOND;
use crate::shared::task::{Task, block_on};
use crate::steps::{self, Step};
use cabrank::ManualClock;
use cabrank::resource_pool::{Borrowed, Event, ResourcePool, ResourceState};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// After a close the pool reports loans that look abandoned and takes them back, so that the close
/// ends. PROP-RP-CLOSE-ENDS.
#[test]
fn an_abandoned_loan_is_taken_back_after_the_close() {
    let rig = pool(|b| b.abandoned_after(10 * SECOND).remove_abandoned(true));
    let lost = rig.lend();
    rig.pool.close();
    assert_eq!(rig.due(), Some(10 * SECOND));
    rig.clock.advance(10 * SECOND);
    rig.pool.maintain();
    assert!(rig.pool.wait_closed(Duration::ZERO), "the pool is empty");
    assert!(rig.events()[0].starts_with("m: Abandoned { id: 1, lent_for: 10s, removed: true,"));
    drop(lost);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// A loan begins when its borrower picks up the grant.
#[test]
fn a_grant_that_is_not_picked_up_is_no_loan() {
    let rig = pool(|b| b.max_active(1).abandoned_after(10 * SECOND).remove_abandoned(true));
    let lent = rig.lend();
    let mut task = rig.task();
    drop(lent);
    rig.clock.advance(100 * SECOND);
    assert_eq!((rig.due(), rig.counts(), rig.events().len()), (None, (1, 0), 0));
    let lent = task.poll().expect("it was granted").expect("a resource");
    assert_eq!((lent.number, rig.due()), (1, Some(10 * SECOND)));
    drop(lent);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 1));
}

/// The pool reports such a loan once.
#[test]
fn an_abandoned_loan_is_reported() {
    let rig = pool(|b| b.max_active(2).abandoned_after(10 * SECOND));
    let [mut lost, fine] = rig.lend_all::<2>().map(Some);
    assert_eq!(rig.due(), Some(10 * SECOND));
    drop(fine);
    rig.clock.advance(11 * SECOND);
    assert_eq!(rig.due(), None);
    rig.pool.maintain();
    assert!(rig.events()[0].starts_with("m: Abandoned { id: 1, lent_for: 11s, removed: false,"));
    assert_eq!(rig.counts(), (1, 1));
    drop(lost.take());
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 2), 2));
}

/// With removal, a waiter gets its place. The resource is destroyed if it comes back later.
#[test]
fn an_abandoned_loan_makes_room() {
    let rig =
        pool(|b| b.max_active(1).max_total(1).abandoned_after(10 * SECOND).remove_abandoned(true));
    let lost = rig.lend();
    let waits = rig.queue();
    rig.clock.advance(10 * SECOND);
    rig.pool.maintain();
    let served = waits.end().expect("its place");
    assert_eq!((served.number, rig.counts(), rig.pool.num_total()), (2, (1, 0), 1));
    let states: Vec<_> =
        rig.pool.snapshot().keys[0].resources.iter().map(|resource| resource.state).collect();
    assert_eq!(states, [ResourceState::Abandoned, ResourceState::Lent]);
    drop(lost);
    assert_eq!((rig.counts(), rig.script.alive()), ((1, 0), 1));
    drop(served);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 1));
    assert!(rig.events()[0].starts_with("m: Abandoned { id: 1, lent_for: 10s, removed: true,"));
}

/// Loans that the pool has given up and that then end: detached, invalidated, or in a closed pool.
#[test]
fn an_abandoned_loan_ends_in_every_way() {
    for end in [drop as fn(Lent), Borrowed::invalidate, |l| drop(Borrowed::detach(l))] {
        let rig = pool(|b| b.abandoned_after(SECOND).remove_abandoned(true));
        let lost = rig.lend();
        rig.clock.advance(SECOND);
        rig.pool.maintain();
        assert_eq!((rig.counts(), rig.pool.num_total()), ((0, 0), 0));
        rig.pool.close();
        assert!(rig.pool.wait_closed(Duration::ZERO), "it does not wait for what is lost");
        end(lost);
        assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
    }
}

/// The time of a creation, an activation or a test is no loan: the pool neither reports it nor
/// exceeds a limit because of it.
#[test]
fn the_time_of_the_factory_is_no_loan() {
    let rig = pool(|b| {
        let b = b.max_total(1).test_on_create(true).test_on_borrow(true);
        b.abandoned_after(SECOND).remove_abandoned(true)
    });
    for call in ["create", "validate", "activate"] {
        let (clock, theirs) = (rig.clock.clone(), rig.pool.clone());
        rig.script.on(call, move |_| {
            clock.advance(9 * SECOND);
            theirs.maintain();
            assert_eq!((theirs.num_active(), theirs.num_total()), (1, 1));
            Outcome::Well
        });
    }
    for how in ["created", "idle"] {
        let lent = rig.lend();
        assert_eq!((rig.due(), rig.events().len()), (Some(SECOND), 0), "{how}");
        drop(lent);
    }
    let lent = rig.lend();
    rig.clock.advance(SECOND);
    rig.pool.maintain();
    assert!(rig.events()[0].starts_with("m: Abandoned { id: 1, lent_for: 1s, removed: true,"));
    assert_eq!((rig.counts(), rig.script.made()), ((0, 0), 1));
    drop(lent);
    assert_eq!(rig.script.alive(), 0);
}

/// The time of a passivation is no loan: a resource returned in time is neither reported nor
/// destroyed.
#[test]
fn the_time_of_a_return_is_no_loan() {
    for call in ["validate", "passivate"] {
        let rig =
            pool(|b| b.test_on_return(true).abandoned_after(10 * SECOND).remove_abandoned(true));
        let lent = rig.lend();
        rig.clock.advance(SECOND);
        assert_eq!(rig.due(), Some(9 * SECOND));
        let (clock, theirs) = (rig.clock.clone(), rig.pool.clone());
        rig.script.on(call, move |_| {
            clock.advance(10 * SECOND);
            theirs.maintain();
            assert_eq!((theirs.num_active(), theirs.num_total()), (1, 1));
            Outcome::Well
        });
        drop(lent);
        assert_eq!((rig.events(), rig.counts()), (vec![], (0, 1)), "{call}");
        assert_eq!((rig.lend().number, rig.script.alive()), (1, 1));
    }
}

/// The same with an awaited return. A cancelled return releases its place.
#[test]
fn an_awaited_return_is_no_loan() {
    for (call, ends) in [("validate", true), ("passivate", true), ("passivate", false)] {
        let rig = steps::rig(|b| {
            b.test_on_return(true).abandoned_after(10 * SECOND).remove_abandoned(true)
        });
        let lent = rig.lend();
        rig.steps.on(call, Step::Held);
        let mut returns = Task::new(Borrowed::put_back(lent));
        assert!(returns.poll().is_none());
        rig.clock.advance(10 * SECOND);
        block_on(rig.pool.maintain_async());
        assert_eq!(rig.counts(), (1, 0, 1), "{call}");
        if ends {
            rig.steps.go_on(call);
            returns.finish();
        } else {
            drop(returns);
        }
        let stays = usize::from(ends);
        assert_eq!((rig.counts(), rig.steps.alive()), ((0, stays, stays), stays));
        assert!(locked(&rig.events).is_empty());
    }
}

/// The report names the resource, the borrower and the call that borrowed it.
#[test]
fn a_report_says_who_has_it() {
    let reports = Arc::new(Mutex::new(vec![]));
    let (theirs, clock) = (reports.clone(), ManualClock::new());
    let pool = ResourcePool::builder(Script::default(), "m").abandoned_after(10 * SECOND);
    let pool = pool.clock(clock.clock()).maintenance(false).listener(move |_, event| {
        if let Event::Abandoned { id, label, borrowed_at, .. } = event {
            locked(&theirs).push((*id, label.clone(), borrowed_at.file(), borrowed_at.line()));
        }
    });
    let pool = pool.build().expect("valid");
    drop(pool.borrow().expect("one"));
    let first = line!() + 1;
    let lent = pool.borrow().expect("one");
    let second = Task::new({
        let pool = pool.clone();
        async move { pool.borrow_async().await.map(Borrowed::into_owned) }
    });
    let second = second.finish().expect("one");
    assert_eq!((Borrowed::id(&lent), Borrowed::id(&second)), (1, 2));
    Borrowed::set_label(&second, "import");
    clock.advance(10 * SECOND);
    pool.maintain();
    let labels = [(1, None, file!(), first), (2, Some("import".into()), file!(), first + 3)];
    assert_eq!(*locked(&reports), labels);
    // A label is of one loan.
    drop((lent, second));
    let again = pool.borrow().expect("one");
    clock.advance(10 * SECOND);
    pool.maintain();
    let (id, label, ..) = locked(&reports)[2].clone();
    assert_eq!((id, label), (Borrowed::id(&again), None));
}
