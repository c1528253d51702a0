//! What is idle is being tested when somebody comes for it.

use crate::models::resource_pool::rig::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// There may be one thing only. Guards `State::stock_of`, which passes over what is being tested, and
/// `State::end_test`, which settles. Without the one, a thing is lent that its tester has; without the
/// other, who came during the test sleeps for ever. Asserted: the borrower is lent the thing, before the test
/// or after it, whether it had to wait or not; if the thing fails, the borrower is lent a new one.
fn test_meets_borrow(name: &str, expected: &[&str], passes: bool) {
    explore_small(name, expected, move |outcomes| {
        let rig =
            unkeyed(|b| b.max_total(1).test_while_idle(true).eviction_interval(SECOND)).reentrant();
        drop(rig.lend());
        if !passes {
            rig.factory.spoil(1);
        }
        rig.clock.advance(SECOND);
        let waited = Bell::new();
        let (theirs, weak) = (waited.clone(), rig.pool.downgrade());
        rig.factory.on_call(move |call| {
            if call == Call::Validate(1) && weak.upgrade().is_some_and(|p| p.num_waiting() == 1) {
                theirs.ring();
            }
        });
        let pool = rig.pool.clone();
        let tester = spawn(move || pool.maintain());
        let number = use_one(&rig.pool);
        tester.join().expect("no panic");
        let how = if waited.rung() > 0 { "after a wait" } else { "at once" };
        outcomes.note(format!("{number}, {how}"));
        assert_eq!(rig.factory.most(), 1, "more than max_total");
        let gone = rig.factory.gone().len();
        assert!(if passes { gone == 0 } else { number == 1 || gone == 1 }, "{gone} are gone");
        rig.end();
    });
}

#[test]
fn resource_test_while_idle_x_borrow() {
    let expected = ["1, after a wait", "1, at once"];
    test_meets_borrow("resource_test_while_idle_x_borrow", &expected, true);
}

#[test]
fn resource_failed_test_x_borrow() {
    let expected = ["1, at once", "2, after a wait", "2, at once"];
    test_meets_borrow("resource_failed_test_x_borrow", &expected, false);
}

/// The total is lowered while what is then too much is tested, and cannot leave. Guards the look at the
/// limits in `State::end_test`. Without it, there is one thing more than there may be, for as long as it
/// stays idle. Asserted: it is destroyed, whether the change came before the test, during it or after it.
#[test]
fn resource_test_while_idle_x_lower() {
    let expected = ["before or after", "during the test"];
    explore_small("resource_test_while_idle_x_lower", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(2).test_while_idle(true).eviction_interval(SECOND))
            .reentrant();
        let (one, two) = (rig.lend(), rig.lend());
        drop(one);
        rig.clock.advance(SECOND);
        let tests = Arc::new(AtomicBool::new(false));
        let (theirs, weak) = (tests.clone(), rig.pool.downgrade());
        rig.factory.on_call(move |call| {
            if call == Call::Validate(1) {
                theirs.store(true, SeqCst);
                if let Some(pool) = weak.upgrade() {
                    pool.num_idle();
                }
                theirs.store(false, SeqCst);
            }
        });
        let pool = rig.pool.clone();
        let tester = spawn(move || pool.maintain());
        rig.pool.set_max_total(1).expect("a valid limit");
        outcomes.note(if tests.load(SeqCst) { "during the test" } else { "before or after" });
        tester.join().expect("no panic");
        assert_eq!(rig.counts(), (1, 0, 1));
        drop(two);
        assert_eq!(rig.end(), [1, 2]);
    });
}
