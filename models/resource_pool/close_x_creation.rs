//! The pool is closed while a resource is created.

use crate::models::resource_pool::rig::*;

/// A borrower creates it. Guards the check of `closed` in `State::must_leave`: otherwise the resource stays idle.
/// Guards too `State::notify_if_finished` at the end of a section: otherwise the caller of `wait_closed` sleeps for ever.
///
/// Asserted: a borrower that began before the close gets its resource. `wait_closed` returns once that is
/// destroyed.
#[test]
fn resource_close_x_creation() {
    let expected = ["closed", "made, and destroyed"];
    explore_small(Model("resource_close_x_creation", 53), &expected, |outcomes| {
        let rig = unkeyed(|b| b).reentrant();
        let pool = rig.pool.clone();
        let borrower = spawn(move || pool.borrow().map(|lent| lent.number));
        rig.pool.close();
        assert!(rig.pool.wait_closed(SECOND));
        let made = rig.factory.made();
        assert_eq!(
            rig.factory.gone().len(),
            made as usize,
            "the close has ended, and a resource is left"
        );
        match borrower.join().expect("no panic") {
            Ok(_) => outcomes.note("made, and destroyed"),
            Err(error) => {
                assert_eq!(error, BorrowError::Closed);
                outcomes.note("closed");
            }
        }
        rig.end();
    });
}

/// The maintenance creates a resource for the idle list while the pool closes. Guards the check of `closed` in
/// `State::is_below_minimum`, and the one in `State::must_leave`. Otherwise a closed pool creates resources, and keeps
/// one.
///
/// Asserted: each created resource is destroyed, and a later maintenance creates no other.
#[test]
fn resource_close_x_filling() {
    let expected = ["made, and destroyed", "not made"];
    explore(Model("resource_close_x_filling", 23), &expected, |outcomes| {
        let rig = unkeyed(|b| b.min_idle(1)).reentrant();
        let pool = rig.pool.clone();
        let maintenance = spawn(move || pool.maintain());
        rig.pool.close();
        maintenance.join().expect("no panic");
        let made = rig.factory.made();
        outcomes.note(if made == 1 { "made, and destroyed" } else { "not made" });
        assert_eq!(rig.factory.gone().len(), made as usize);
        rig.pool.maintain();
        assert_eq!(rig.factory.made(), made, "made by a closed pool");
        rig.end();
    });
}

/// The last handle is dropped while a borrower returns. Guards the drop of the handle, which closes the pool, and
/// the guard's own reference to it. Otherwise the resource is never destroyed.
///
/// Asserted: it is destroyed once, whether it came back before the drop or after it.
#[test]
fn resource_drop_x_return() {
    let expected = ["came back before", "came back later"];
    explore_small(Model("resource_drop_x_return", 10), &expected, |outcomes| {
        let rig = unkeyed(|b| b).reentrant();
        // The second one keeps the pool's memory, which would else end with the first.
        let (lent, other) = (rig.lend(), rig.lend());
        let factory = rig.factory.clone();
        let returning = spawn(move || drop(lent));
        let before = rig.pool.num_idle() == 1;
        drop(rig);
        returning.join().expect("no panic");
        assert_eq!(factory.gone(), [1]);
        drop(other);
        assert_eq!(factory.gone(), [1, 2]);
        outcomes.note(if before { "came back before" } else { "came back later" });
    });
}

/// The last handle is dropped while a leaked future holds a place in the queue: it neither picks up a grant nor
/// passes it on. Guards the drop of `Inner`. Otherwise the granted resource is never destroyed.
///
/// Asserted: the resource is destroyed once, whether it was granted before the drop or came back after it.
#[test]
fn resource_drop_x_forgotten() {
    let expected = ["granted", "lent still"];
    explore_small(Model("resource_drop_x_forgotten", 12), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend();
        let mut forgotten = Box::pin(rig.pool.borrow_async());
        assert!(rig.reentry().poll_once(forgotten.as_mut()).is_pending());
        std::mem::forget(forgotten);
        let factory = rig.factory.clone();
        let returning = spawn(move || drop(lent));
        let granted = rig.pool.num_waiting() == 0;
        drop(rig);
        returning.join().expect("no panic");
        assert_eq!(factory.gone(), [1]);
        outcomes.note(if granted { "granted" } else { "lent still" });
    });
}
