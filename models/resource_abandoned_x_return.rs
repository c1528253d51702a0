//! A loan looks abandoned, and its place is given to who waits, while the borrower returns it after all.

use super::pool_rig::*;
use std::pin::pin;

/// Guards `State::end_loan`, which says whether the loan was taken back before, and `State::give_back_late`.
/// Without them, its place is given twice; what comes back late would be lent beside what replaced it.
/// Guards `State::reclaim`, too, which settles. Asserted: the waiter is lent the thing if it came back in time,
/// else a new one, and then the late one is destroyed; in the end there is one.
#[test]
fn resource_abandoned_x_return() {
    let expected = ["came back in time", "came back late"];
    explore_small("resource_abandoned_x_return", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).abandoned_after(SECOND).remove_abandoned(true));
        let rig = rig.reentrant();
        let lent = rig.lend();
        let mut waiter = pin!(rig.pool.borrow_async());
        assert!(rig.door().poll_once(waiter.as_mut()).is_pending());
        rig.clock.advance(SECOND);
        let pool = rig.pool.clone();
        let maintenance = spawn(move || pool.maintain());
        drop(lent);
        let number = rig.door().block_on(waiter).expect("a thing").number;
        maintenance.join().expect("no panic");
        outcomes.note(if number == 1 { "came back in time" } else { "came back late" });
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.factory.gone().len() as u32, number - 1);
        assert_eq!(rig.end(), (1..=number).collect::<Vec<_>>());
    });
}

/// A waiter is handed the thing, and does not come for it until its place has been given to others, as if it
/// had been lent. Guards `State::give_back_late`. Without it, the place is given back twice
/// (INV-RP-COUNTS). Asserted: the waiter is lent the thing whenever it comes, and a late one is then
/// destroyed.
#[test]
fn resource_abandoned_x_hand_over() {
    let expected = ["handed over after", "handed over before"];
    explore_small("resource_abandoned_x_hand_over", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).abandoned_after(SECOND * 2).remove_abandoned(true));
        let rig = rig.reentrant();
        let lent = rig.lend();
        let mut waiter = pin!(rig.pool.borrow_async());
        assert!(rig.door().poll_once(waiter.as_mut()).is_pending());
        rig.clock.advance(SECOND);
        let returning = spawn(move || drop(lent));
        let before = rig.pool.num_waiting() == 0;
        if before {
            rig.clock.advance(SECOND * 2);
        }
        rig.pool.maintain();
        assert_eq!(rig.pool.num_active(), usize::from(!before));
        assert_eq!(rig.door().block_on(waiter).expect("a thing").number, 1);
        returning.join().expect("no panic");
        outcomes.note(if before { "handed over before" } else { "handed over after" });
        assert_eq!(rig.counts(), if before { (0, 0, 0) } else { (0, 1, 1) });
        assert_eq!(rig.end(), [1]);
    });
}

/// The same with keys: what is handed over is the place of another key's thing, and the waiter gives it up
/// when it has lost it. Guards the end of `State::return_grant`: the key of who gave up may be forgotten by
/// then. Without that, it is counted where it is no more. Asserted: whatever became of the victim, those behind
/// are served.
#[test]
fn resource_abandoned_x_victim() {
    let expected = ["it lost it", "it was not served yet"];
    explore_small("resource_abandoned_x_victim", &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(1).abandoned_after(SECOND).remove_abandoned(true));
        let lent = rig.lend(Name("a"));
        let mut other = Box::pin(rig.pool.borrow_async(&Name("b")));
        let mut behind = pin!(rig.pool.borrow_async(&Name("c")));
        let mut last = pin!(rig.pool.borrow_async(&Name("d")));
        assert!(rig.door().poll_once(other.as_mut()).is_pending());
        assert!(rig.door().poll_once(behind.as_mut()).is_pending());
        assert!(rig.door().poll_once(last.as_mut()).is_pending());
        let returning = spawn(move || drop(lent));
        let served = rig.pool.num_waiting() == 2;
        rig.clock.advance(SECOND);
        rig.pool.maintain();
        drop(other);
        drop(rig.door().block_on(behind).expect("a thing"));
        drop(rig.door().block_on(last).expect("a thing"));
        returning.join().expect("no panic");
        outcomes.note(if served { "it lost it" } else { "it was not served yet" });
        assert_eq!(rig.counts(), (0, 1, 1));
        rig.end();
    });
}
