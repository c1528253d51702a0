//! A loan looks abandoned, and the pool grants its place to a waiter, while the borrower returns the resource.

use crate::models::resource_pool::rig::*;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Guards `State::end_loan`, which detects a reclaimed loan, and `State::give_back_late`.
/// Otherwise the place is given back twice, and the late resource is lent beside its replacement. Guards too that
/// `State::reclaim` settles: otherwise the waiter sleeps for ever.
///
/// Asserted: the waiter gets the resource if it came back in time, else a new one. A late resource is destroyed.
/// One resource is left.
#[test]
fn resource_abandoned_x_return() {
    let expected = ["came back in time", "came back late"];
    explore(Model("resource_abandoned_x_return", 55_433), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).abandoned_after(SECOND).remove_abandoned(true));
        let rig = rig.reentrant();
        let lent = rig.lend();
        let mut waiter = pin!(rig.pool.borrow_async());
        assert!(rig.reentry().poll_once(waiter.as_mut()).is_pending());
        rig.clock.advance(SECOND);
        let pool = rig.pool.clone();
        let maintenance = spawn(move || pool.maintain());
        drop(lent);
        let number = rig.reentry().block_on(waiter).expect("a resource").number;
        maintenance.join().expect("no panic");
        outcomes.note(if number == 1 { "came back in time" } else { "came back late" });
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.factory.gone().len() as u32, number - 1);
        assert_eq!(rig.end(), (1..=number).collect::<Vec<_>>());
    });
}

/// The borrower returns in time, but the factory passivates slowly. Guards `State::end_borrowers_time`, which
/// `Inner::put_back` calls first: the factory's time is not the borrower's. Otherwise the maintenance reclaims the
/// place during the passivation, and a resource that came back in time is destroyed.
///
/// Asserted: the resource becomes idle, whenever the maintenance runs.
#[test]
fn resource_abandoned_x_passivation() {
    let expected = ["looked after", "looked before", "looked during it"];
    explore_small(Model("resource_abandoned_x_passivation", 77), &expected, |outcomes| {
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

/// A waiter is granted the resource, and picks it up later. Guards `State::begin_loan`: the loan begins when the
/// waiter picks up its grant. Otherwise the loan is as old as the resource, and the maintenance reclaims it at
/// once.
///
/// Asserted: the waiter keeps the resource, however old its grant was.
#[test]
fn resource_abandoned_x_grant() {
    let expected = ["granted after", "granted before"];
    explore(Model("resource_abandoned_x_grant", 3_343), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).abandoned_after(SECOND).remove_abandoned(true));
        let rig = rig.reentrant();
        let lent = rig.lend();
        let mut waiter = pin!(rig.pool.borrow_async());
        assert!(rig.reentry().poll_once(waiter.as_mut()).is_pending());
        let returning = spawn(move || drop(lent));
        let before = rig.pool.num_waiting() == 0;
        rig.clock.advance(SECOND);
        let lent = rig.reentry().block_on(waiter).expect("a resource");
        returning.join().expect("no panic");
        rig.pool.maintain();
        outcomes.note(if before { "granted before" } else { "granted after" });
        assert_eq!((lent.number, rig.counts()), (1, (1, 0, 1)));
        drop(lent);
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.end(), [1]);
    });
}
