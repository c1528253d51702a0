//! A loan looks abandoned, and its place is given to who waits, while the borrower returns it after all.

use crate::models::resource_pool::rig::*;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Guards `State::end_loan`, which says whether the loan was taken back before, and `State::give_back_late`.
/// Without them, its place is given twice; what comes back late would be lent beside what replaced it.
/// Guards `State::reclaim`, too, which settles. Asserted: the waiter is lent the thing if it came back in time,
/// else a new one, and then the late one is destroyed; in the end there is one.
#[test]
fn resource_abandoned_x_return() {
    let expected = ["came back in time", "came back late"];
    explore("resource_abandoned_x_return", &expected, |outcomes| {
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

/// The thing comes back in time, and takes the factory long. Guards `Inner::has_come_back`: the loan is over when its
/// borrower gives it back. Without that, its place is given to others while it is passivated, and it is destroyed
/// though nobody has abandoned it. Asserted: it is in stock, whenever the maintenance looks.
#[test]
fn resource_abandoned_x_passivation() {
    let expected = ["looked after", "looked before", "looked during it"];
    explore_small("resource_abandoned_x_passivation", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).abandoned_after(SECOND).remove_abandoned(true));
        let lent = rig.lend();
        let phase = Arc::new(AtomicU32::new(0));
        let (clock, theirs) = (rig.clock.clone(), phase.clone());
        rig.factory.on_call(move |call| {
            if call == Call::Passivate(1) {
                clock.advance(SECOND);
                theirs.store(1, SeqCst);
            }
        });
        let (pool, theirs) = (rig.pool.clone(), phase.clone());
        let maintenance = spawn(move || {
            pool.maintain();
            theirs.load(SeqCst)
        });
        drop(lent);
        phase.store(2, SeqCst);
        let looked = maintenance.join().expect("no panic") as usize;
        outcomes.note(["looked before", "looked during it", "looked after"][looked]);
        assert_eq!((rig.counts(), rig.factory.gone().len()), ((0, 1, 1), 0));
        assert_eq!(rig.end(), [1]);
    });
}

/// A waiter is handed the thing, and comes for it later. Guards `State::begin_loan`: its loan begins when it
/// comes for it. Without that, it is as old as the thing has been there, and given to others though it has
/// just begun. Asserted: the waiter has it, however long ago it was handed over.
#[test]
fn resource_abandoned_x_hand_over() {
    let expected = ["handed over after", "handed over before"];
    explore("resource_abandoned_x_hand_over", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).abandoned_after(SECOND).remove_abandoned(true));
        let rig = rig.reentrant();
        let lent = rig.lend();
        let mut waiter = pin!(rig.pool.borrow_async());
        assert!(rig.door().poll_once(waiter.as_mut()).is_pending());
        let returning = spawn(move || drop(lent));
        let before = rig.pool.num_waiting() == 0;
        rig.clock.advance(SECOND);
        let lent = rig.door().block_on(waiter).expect("a thing");
        returning.join().expect("no panic");
        rig.pool.maintain();
        outcomes.note(if before { "handed over before" } else { "handed over after" });
        assert_eq!((lent.number, rig.counts()), (1, (1, 0, 1)));
        drop(lent);
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.end(), [1]);
    });
}
