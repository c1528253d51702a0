//! The maintenance evicts a resource that has been idle for long, beside a borrower.

use crate::models::resource_pool::rig::*;

/// The soft idle time has passed, and at most one resource may exist.
///
/// Guards `State::evict`: it takes the resource out of the idle list in the section that decides. Without that, a
/// lent resource is destroyed. Guards the settling in `State::destroyed`. Without that, a borrower that waits for
/// the place sleeps for ever. Asserted: the borrower is lent the old resource, or a new one once the old one is
/// destroyed. At most one exists at any time.
#[test]
fn resource_evictor_x_borrow() {
    let expected = ["the new one", "the new one, after a wait", "the old one"];
    explore_small(Model("resource_evictor_x_borrow", 1_911), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_total(1).soft_max_idle_time(SECOND)).reentrant();
        drop(rig.lend());
        rig.clock.advance(SECOND);
        let waited = Counter::new();
        let (theirs, weak) = (waited.clone(), rig.pool.downgrade());
        rig.factory.on_call(move |call| {
            if call == Call::Destroy(1) && weak.upgrade().is_some_and(|p| p.num_waiting() == 1) {
                theirs.up();
            }
        });
        let pool = rig.pool.clone();
        let evictor = spawn(move || pool.maintain());
        let number = use_one(&rig.pool);
        evictor.join().expect("no panic");
        outcomes.note(match (number, waited.count() > 0) {
            (1, _) => "the old one",
            (2, true) => "the new one, after a wait",
            _ => "the new one",
        });
        assert_eq!(rig.factory.most(), 1, "more than max_total");
        assert_eq!(rig.end(), (1..=number).collect::<Vec<_>>());
    });
}

/// The hard idle time has passed: the resource must not be lent again.
///
/// Guards the look at `State::has_expired` in `State::next_fresh_idle`. Without it, a borrower that comes before the
/// maintenance is lent an expired resource. Asserted: the borrower is lent a new one, and the old one is destroyed
/// once.
#[test]
fn resource_evictor_x_late_borrow() {
    let expected = ["the borrower evicts", "the maintenance evicts"];
    explore(Model("resource_evictor_x_late_borrow", 5_016), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_idle_time(SECOND)).reentrant();
        drop(rig.lend());
        rig.clock.advance(SECOND);
        let pool = rig.pool.clone();
        let evictor = spawn(move || pool.maintain());
        let before = rig.pool.num_idle() == 0;
        assert_eq!(use_one(&rig.pool), 2);
        evictor.join().expect("no panic");
        outcomes.note(if before { "the maintenance evicts" } else { "the borrower evicts" });
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// The hard idle time has passed, at most one resource may exist, and the borrower does not wait.
///
/// Guards that `State::next_fresh_idle` keeps the last expired resource as a victim for the borrower. Without that,
/// the resource leaves and a borrower that could be served is refused. Asserted: the borrower is lent a new
/// resource, unless the maintenance is destroying the old one just then. At most one exists at any time.
#[test]
fn resource_evictor_x_impatient_borrow() {
    let expected = ["after it", "in its place", "while it is destroyed"];
    explore_small(Model("resource_evictor_x_impatient_borrow", 1_192), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_total(1).max_idle_time(SECOND)).reentrant();
        drop(rig.lend());
        rig.clock.advance(SECOND);
        let (mine, me) = (Counter::new(), crate::kernel::sync::me());
        let theirs = mine.clone();
        rig.factory.on_call(move |call| {
            if call == Call::Destroy(1) && crate::kernel::sync::me() == me {
                theirs.up();
            }
        });
        let pool = rig.pool.clone();
        let evictor = spawn(move || pool.maintain());
        let number = rig.pool.try_borrow().map(|lent| lent.number);
        evictor.join().expect("no panic");
        outcomes.note(match (number, mine.count() == 1) {
            (Ok(2), true) => "in its place",
            (Ok(2), false) => "after it",
            (Err(BorrowError::WouldBlock), false) => "while it is destroyed",
            other => panic!("{other:?}"),
        });
        assert_eq!(rig.factory.most(), 1, "more than max_total");
        rig.end();
    });
}
