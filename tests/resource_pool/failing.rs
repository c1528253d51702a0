//! A hundred failures in a row: of refills, creations, tests, destructions and listeners. Then all is well again.

use crate::common::Outcome;
use crate::common::{Pool, Rig, pool, use_one};
use crate::shared::SECOND;
use cabrank::resource_pool::{AddError, BorrowError, Borrowed, Failure};
use std::time::Duration;

const TIMES: usize = 100;
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// Lets the maintenance run when it is due, `times` times; each time it fails. Returns the pauses after that.
fn pauses(rig: &Rig<Pool>, times: usize) -> Vec<Duration> {
    let pause = |_| {
        rig.script.calls();
        let due = rig.due().expect("a refill");
        assert_eq!(rig.script.calls(), "create", "one attempt");
        rig.clock.advance(due);
        due
    };
    (0..times).map(pause).collect()
}

/// The pauses double up to a minute. After a success they begin anew.
#[test]
fn a_refill_may_fail_a_hundred_times() {
    for fails in [true, false] {
        let rig = pool(|b| b.min_idle(1));
        rig.script.goes_wrong("create", fails);
        for _ in 0..2 {
            let pauses = pauses(&rig, TIMES);
            let doubled = (0..).map(|nth| FIRST.saturating_mul(1 << nth.min(20)).min(LONGEST));
            assert_eq!(pauses, doubled.take(TIMES).collect::<Vec<_>>());
            assert_eq!(rig.events().len(), TIMES);
            rig.script.is_well("create");
            assert_eq!((rig.due(), rig.counts()), (None, (0, 1)));
            rig.script.goes_wrong("create", fails);
            Borrowed::invalidate(rig.lend());
        }
    }
}

#[test]
fn a_creation_may_fail_a_hundred_times() {
    let rig = pool(|b| b.max_active(1));
    rig.script.fails("create");
    for _ in 0..TIMES {
        let failed = Failure::Error("on purpose".to_owned());
        assert_eq!(rig.pool.borrow().expect_err("it fails"), BorrowError::Create(failed.clone()));
        assert_eq!(rig.pool.add(), Err(AddError::Create(failed)));
    }
    rig.script.panics("create");
    for _ in 0..TIMES {
        assert!(matches!(rig.pool.borrow(), Err(BorrowError::Create(Failure::Panicked(_)))));
    }
    rig.script.is_well("create");
    assert_eq!((use_one(&rig), rig.counts()), (1, (0, 1)));
}

/// A waiter is served after a hundred others have failed in its place.
#[test]
fn a_waiter_is_served_after_a_hundred_failures_of_others() {
    let rig = pool(|b| b.max_active(1));
    let lent = rig.lend();
    let tasks: Vec<_> = (0..=TIMES).map(|_| rig.task()).collect();
    rig.script.fails("create");
    Borrowed::invalidate(lent);
    for (nth, mut task) in tasks.into_iter().enumerate() {
        assert_eq!(task.wakes(), 1, "{nth}");
        if nth == TIMES {
            rig.script.is_well("create");
        }
        assert_eq!(task.poll().expect("its place").is_ok(), nth == TIMES, "{nth}");
    }
    assert_eq!(rig.counts(), (0, 1));
}

/// A borrower goes through all idle resources, and then creates one.
#[test]
fn a_hundred_idle_resources_may_fail_their_test() {
    for call in ["validate", "activate"] {
        for fails in [true, false] {
            let rig = pool(|b| b.max_active(TIMES).test_on_borrow(true));
            rig.pool.prefill(TIMES).expect("there is room");
            rig.script.on(call, move |number| match (number <= TIMES, fails) {
                (false, _) => crate::common::Outcome::Well,
                (true, true) => crate::common::Outcome::Fails,
                (true, false) => std::panic::resume_unwind(Box::new("on purpose")),
            });
            let lent = rig.lend();
            assert_eq!((lent.number, rig.counts()), (TIMES + 1, (1, 0)), "{call}");
            assert_eq!((rig.events().len(), rig.script.alive()), (TIMES, 1), "{call}");
        }
    }
}

#[test]
fn a_hundred_tests_of_idle_resources_may_fail() {
    for fails in [true, false] {
        let rig = pool(|b| {
            b.max_active(TIMES).test_while_idle(true).eviction_interval(SECOND).evictions_per_run(1)
        });
        rig.pool.prefill(TIMES).expect("there is room");
        rig.script.goes_wrong("validate", fails);
        for left in (0..TIMES).rev() {
            rig.clock.advance(SECOND);
            rig.pool.maintain();
            assert_eq!(rig.pool.num_idle(), left);
        }
        assert_eq!((rig.script.alive(), rig.events().len()), (0, TIMES));
        rig.script.is_well("validate");
        assert_eq!((use_one(&rig), rig.counts()), (TIMES + 1, (0, 1)));
    }
}

#[test]
fn a_hundred_returns_may_fail() {
    for call in ["validate", "passivate"] {
        for fails in [true, false] {
            let rig = pool(|b| b.max_active(1).test_on_return(true));
            rig.script.goes_wrong(call, fails);
            for number in 1..=TIMES {
                assert_eq!(rig.lend().number, number, "{call}");
                assert_eq!(rig.counts(), (0, 0), "{call}");
            }
            assert_eq!((rig.script.alive(), rig.events().len()), (0, TIMES), "{call}");
            rig.script.is_well(call);
            drop(rig.lend());
            assert_eq!((use_one(&rig), rig.counts()), (TIMES + 1, (0, 1)), "{call}");
        }
    }
}

/// Each place becomes free, and a close ends.
#[test]
fn a_hundred_destructions_may_panic() {
    let rig = pool(|b| b.max_active(1));
    rig.script.panics("destroy");
    for _ in 0..TIMES {
        Borrowed::invalidate(rig.lend());
    }
    assert_eq!((rig.counts(), rig.script.alive(), rig.events().len()), ((0, 0), 0, TIMES));
    drop(rig.lend());
    rig.pool.close();
    assert!(rig.pool.wait_closed(Duration::ZERO));
}

/// Waits that end without a resource leave the queue as it was.
#[test]
fn a_hundred_waits_may_end_in_vain() {
    for fair in [true, false] {
        let rig = pool(|b| b.max_active(1).fair(fair));
        let lent = rig.lend();
        for _ in 0..TIMES {
            drop(rig.task());
            let late = rig.pool.borrow_timeout(Duration::ZERO).expect_err("it is lent");
            assert!(matches!(late, BorrowError::TimedOut(_)));
            assert_eq!(rig.pool.try_borrow().expect_err("it is lent"), BorrowError::WouldBlock);
        }
        let mut waits = rig.task();
        assert_eq!(rig.pool.num_waiting(), 1);
        drop(lent);
        drop(waits.poll().expect("its turn").expect("the one"));
        assert_eq!((rig.counts(), rig.script.made()), ((0, 1), 1));
    }
}

/// The test of the idle resource closes the pool, and fails.
#[test]
fn a_borrower_whose_resource_fails_in_a_closed_pool_gets_no_other() {
    let rig = pool(|b| b.test_on_borrow(true));
    drop(rig.lend());
    let pool = rig.pool.clone();
    rig.script.on("validate", move |_| {
        pool.close();
        Outcome::Fails
    });
    assert_eq!(rig.pool.borrow().map(|lent| lent.number), Err(BorrowError::Closed));
    assert_eq!((rig.script.made(), rig.script.alive(), rig.pool.num_total()), (1, 0, 0));
}
