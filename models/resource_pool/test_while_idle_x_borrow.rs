//! The maintenance tests an idle resource, beside a borrower.

use crate::models::resource_pool::rig::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// At most one resource may exist.
///
/// Guards that `State::next_idle` skips a resource under test. Without that, the pool lends a resource that its
/// tester holds. Guards the settling in `State::end_test`. Without that, a borrower that came during the test sleeps
/// for ever. Asserted: the borrower is lent the resource before or after the test, with or without a wait. If the
/// resource fails the test, the borrower may be lent a new one.
fn test_meets_borrow(model: Model, expected: &[&str], passes: bool) {
    explore_small(model, expected, move |outcomes| {
        let rig =
            unkeyed(|b| b.max_total(1).test_while_idle(true).eviction_interval(SECOND)).reentrant();
        drop(rig.lend());
        if !passes {
            rig.factory.spoil(1);
        }
        rig.clock.advance(SECOND);
        let waited = Counter::new();
        let (theirs, weak) = (waited.clone(), rig.pool.downgrade());
        rig.factory.on_call(move |call| {
            if call == Call::Validate(1) && weak.upgrade().is_some_and(|p| p.num_waiting() == 1) {
                theirs.up();
            }
        });
        let pool = rig.pool.clone();
        let tester = spawn(move || pool.maintain());
        let number = use_one(&rig.pool);
        tester.join().expect("no panic");
        let how = if waited.count() > 0 { "after a wait" } else { "at once" };
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
    test_meets_borrow(Model("resource_test_while_idle_x_borrow", 615), &expected, true);
}

#[test]
fn resource_failed_test_x_borrow() {
    let expected = ["1, at once", "2, after a wait", "2, at once"];
    test_meets_borrow(Model("resource_failed_test_x_borrow", 1_580), &expected, false);
}

/// `max_total` is lowered while the surplus resource is tested and so cannot leave.
///
/// Guards the look at `State::has_too_many` in `State::end_test`. Without it, the pool exceeds the limit by one for as
/// long as the resource stays idle. Asserted: it is destroyed, whether the change comes before, during or after the
/// test.
#[test]
fn resource_test_while_idle_x_lower() {
    let expected = ["before or after", "during the test"];
    explore_small(Model("resource_test_while_idle_x_lower", 129), &expected, |outcomes| {
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
