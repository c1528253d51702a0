//! The ends of creations of the pool that make no resource: they are dropped, or fail, and whose error that is.

use crate::common::locked;
use crate::creations::{Hand, held_on_a_runtime, number};
use crate::orders::keyed;
use crate::shared::task::Task;
use crate::steps::{Rig, Step, begin_borrow, rig_on};
use cabrank::resource_pool::{BorrowError, Failure};
/// `clear_all` drops what is in flight. Its place counts until its task has dropped it, and is then ordered anew.
#[test]
fn a_clear_drops_creations_in_flight() {
    for waits in [true, false] {
        let (rig, hand) = held_on_a_runtime(|b| b.max_total(1));
        let mut borrower = Some(rig.waits()).filter(|_| waits);
        rig.steps.hangs();
        rig.pool.clear_all();
        assert_eq!((rig.steps.held(), rig.counts()), (1, (0, 0, 1)), "its task has yet to run");
        assert_eq!((hand.run(), rig.steps.held()), (0, 0));
        assert_eq!((rig.steps.begun(), rig.counts().2), if waits { (2, 1) } else { (1, 0) });
        if let Some(borrower) = &mut borrower {
            assert_eq!(number(borrower), Some(2));
        }
        assert!(locked(&rig.events).is_empty(), "the runtime has not ended");
    }
}

/// `close` drops them, of each key, and refuses their borrowers.
#[test]
fn a_close_drops_creations_in_flight() {
    for overdue in [true, false] {
        let (pool, steps, hand) = keyed(|b| b.max_active(3).max_idle(3));
        steps.on("create", Step::Held);
        let mut borrowers = ["a", "a", "b", "a", "b"].map(|key| begin_borrow(&pool, key));
        if overdue {
            hand.overdue();
        }
        let mut end = Task::new({
            let pool = pool.clone();
            async move { pool.wait_closed_async().await }
        });
        assert!(end.poll().is_none());
        let in_flight = steps.held();
        pool.close();
        assert_eq!((in_flight >= 5, pool.num_total(), end.wakes()), (true, in_flight, 0));
        assert!(borrowers.iter_mut().all(|one| one.poll() == Some(Err(BorrowError::Closed))));
        hand.run();
        assert_eq!((steps.held(), pool.num_total(), end.poll()), (0, 0, Some(())));
        assert_eq!((hand.0.run(), hand.0.timers()), (0, 0));
    }
}

/// The task runs only after the close, or has not begun.
#[test]
fn a_close_drops_creations_whose_task_has_not_begun() {
    let hand = Hand::lazy();
    let rig = rig_on(|b| b, hand.clone());
    let mut waits = rig.waits();
    rig.pool.close();
    assert_eq!(rig.counts(), (0, 0, 1));
    assert_eq!((hand.run(), rig.steps.alive(), rig.counts()), (0, 0, (0, 0, 0)));
    assert!(matches!(waits.poll(), Some(Err(BorrowError::Closed))));
    assert!(locked(&rig.events).is_empty());
}

/// It ends in the very poll in which it would be dropped.
#[test]
fn a_creation_that_ends_too_late_is_destroyed() {
    let ends: [fn(&Rig); 2] = [|rig| rig.pool.close(), |rig| rig.pool.clear_all()];
    for end in ends {
        for call in ["create", "validate"] {
            let hand = Hand::default();
            let rig = rig_on(|b| b.test_on_create(true), hand.clone());
            rig.steps.on(call, Step::Held);
            drop(rig.waits());
            rig.steps.go_on(call);
            end(&rig);
            assert_eq!(hand.run(), 0);
            assert_eq!((rig.steps.alive(), rig.counts()), (0, (0, 0, 0)));
        }
    }
}

/// Each creation that fails is the error of one borrower, the oldest first (PROP-RP-FAILURE).
#[test]
fn a_failure_is_the_oldest_borrowers() {
    let failed = || Err(BorrowError::Create(Failure::Error("on purpose".to_owned())));
    let (rig, hand) = held_on_a_runtime(|b| b.max_active(2));
    let mut all = [rig.waits(), rig.waits(), rig.waits()];
    for (nth, begun) in [(0, 3), (1, 3), (2, 3)] {
        rig.steps.fail_first();
        hand.run();
        assert_eq!(
            (rig.steps.begun(), rig.steps.held()),
            (begun, 2 - nth),
            "the third has one, too"
        );
        let (got, others) = all[nth..].split_first_mut().expect("each has its turn");
        assert_eq!(got.poll().map(|got| got.map(drop)), Some(failed()));
        assert!(others.iter_mut().all(|other| other.poll().is_none()));
    }
    assert_eq!(rig.counts(), (0, 0, 0));
    assert!(locked(&rig.events).is_empty(), "each is told to one borrower");
}

/// No borrower gets an error that is older than its call: the listener does. The borrower waits on, and another is ordered.
#[test]
fn a_failure_older_than_the_borrower_is_reported() {
    let (rig, hand) = held_on_a_runtime(|b| b);
    drop(rig.waits());
    let mut second = rig.waits();
    assert_eq!(rig.steps.begun(), 1);
    rig.steps.fail_first();
    hand.run();
    assert_eq!(*locked(&rig.events), ["CreateFailed(Error(\"on purpose\"))"]);
    assert_eq!((rig.steps.begun(), second.poll().is_some()), (2, false));
    rig.steps.go_on("create");
    hand.run();
    assert_eq!(number(&mut second), Some(2));
    // With no borrower left it is reported, too.
    let (rig, hand) = held_on_a_runtime(|b| b);
    drop(rig.waits());
    rig.steps.on("create", Step::Fails);
    rig.steps.go_on("nothing");
    assert_eq!((hand.run(), locked(&rig.events).len(), rig.counts()), (0, 1, (0, 0, 0)));
}

/// The borrower was granted the error, and leaves before it has picked it up.
#[test]
fn a_failure_that_is_not_picked_up_is_reported() {
    for panics in [false, true] {
        let (rig, hand) = held_on_a_runtime(|b| b);
        let (first, mut second) = (rig.waits(), rig.waits());
        rig.steps.on("create", if panics { Step::Panics } else { Step::Fails });
        rig.steps.go_on("nothing");
        assert_eq!((hand.run(), first.wakes(), second.wakes()), (0, 1, 1));
        assert!(locked(&rig.events).is_empty());
        drop(first);
        let said = locked(&rig.events).clone();
        assert!(said.len() == 1 && said[0].starts_with("CreateFailed"), "{said:?}");
        assert!(second.poll().expect("its own error").is_err());
        assert_eq!((locked(&rig.events).len(), rig.counts()), (1, (0, 0, 0)));
    }
}
