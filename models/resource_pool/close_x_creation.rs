//! The pool is closed while a thing is being made.

use crate::models::resource_pool::rig::*;

/// For a borrower. Guards the look at `closed` in `State::stock`, and `State::tell_if_over`: the end of the
/// close is the end of the last thing. Without the one, the thing stays; without the other, who waits for
/// the end sleeps for ever. Asserted: who had begun is lent its thing, for a close breaks off nothing, and
/// who waits for the end wakes when that has been destroyed.
#[test]
fn resource_close_x_creation() {
    let expected = ["closed", "made, and destroyed"];
    explore_small("resource_close_x_creation", &expected, |outcomes| {
        let rig = unkeyed(|b| b).reentrant();
        let pool = rig.pool.clone();
        let borrower = spawn(move || pool.borrow().map(|lent| lent.number));
        rig.pool.close();
        assert!(rig.pool.wait_closed(SECOND));
        let made = rig.factory.made();
        assert_eq!(rig.factory.gone().len(), made as usize, "it is over, and there is one left");
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

/// For stock, by the maintenance. Guards the look at `closed` in `State::next_to_fill`, and the one in
/// `State::stock`. Without them, a closed pool makes things, and keeps one. Asserted: whatever was made is
/// destroyed; nothing is left, and nothing more is made.
#[test]
fn resource_close_x_filling() {
    let expected = ["made, and destroyed", "not made"];
    explore("resource_close_x_filling", &expected, |outcomes| {
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

/// The last handle is dropped while a borrower that may outlive it returns. Guards the drop of the handle,
/// which closes, and that of the guard, which keeps what the pool is made of. Without the one, the
/// thing is never destroyed.
#[test]
fn resource_drop_x_return() {
    explore_small("resource_drop_x_return", &["destroyed"], |outcomes| {
        let rig = unkeyed(|b| b).reentrant();
        let lent = rig.lend();
        let factory = rig.factory.clone();
        let returning = spawn(move || drop(lent));
        drop(rig);
        returning.join().expect("no panic");
        assert_eq!(factory.gone(), [1]);
        outcomes.note("destroyed");
    });
}

/// The same with a waiter whose future is forgotten: it neither comes for what it is handed nor passes it on.
/// Guards the drop of what the handles share. Without it, the thing is never destroyed. Asserted: it is,
/// once, whether it was handed over before the end or came back after it.
#[test]
fn resource_drop_x_forgotten() {
    let expected = ["handed over", "lent still"];
    explore_small("resource_drop_x_forgotten", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend();
        let mut forgotten = Box::pin(rig.pool.borrow_async());
        assert!(rig.door().poll_once(forgotten.as_mut()).is_pending());
        std::mem::forget(forgotten);
        let factory = rig.factory.clone();
        let returning = spawn(move || drop(lent));
        let handed = rig.pool.num_waiting() == 0;
        drop(rig);
        returning.join().expect("no panic");
        assert_eq!(factory.gone(), [1]);
        outcomes.note(if handed { "handed over" } else { "lent still" });
    });
}
