//! In a pool that lets newcomers barge, a thing comes back while one waits and one arrives.
//!
//! Guards `State::retry`, and the count of retries in `State::serve_line`: who was woken in vain takes its
//! place at the front again, and whoever gives back what it took wakes it anew. Without the one, it is lost;
//! with a retry counted as still to come that has been made, the next return wakes nobody (INV-RP-BARGING,
//! PROP-RP-EVERY-BARGING-BORROW-ENDS).
//! Asserted: both are lent the one thing, in either order.

use crate::models::resource_pool::rig::*;

#[test]
fn resource_barging_x_waiter() {
    let expected = ["it was overtaken", "it was served first"];
    explore("resource_barging_x_waiter", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).fair(false)).reentrant();
        let lent = rig.lend();
        let mut waiter = Box::pin(rig.pool.borrow_async());
        assert!(rig.door().poll_once(waiter.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let order = Bell::new();
        let theirs = order.clone();
        let newcomer = spawn(move || {
            let lent = pool.borrow().expect("a thing");
            theirs.ring();
            lent.number
        });
        drop(lent);
        let served = rig.door().block_on(waiter).expect("a thing");
        let overtaken = order.rung() == 1;
        assert_eq!(served.number, 1);
        drop(served);
        assert_eq!(newcomer.join().expect("no panic"), 1);
        outcomes.note(if overtaken { "it was overtaken" } else { "it was served first" });
        assert_eq!(rig.end(), [1]);
    });
}

/// The same with keys and a total: the newcomer takes what two waiters of its key were to have. Guards the
/// place in line of a key whose newcomer was served beside its waiters: without it, the line holds a key
/// that nobody can serve, before others that could be (INV-RP-LINE). The factory does not re-enter the pool: with that,
/// loom is not through in a minute.
#[test]
fn resource_barging_x_keyed_waiters() {
    let expected = ["the newcomer came first", "the newcomer came later"];
    explore("resource_barging_x_keyed_waiters", &expected, |outcomes| {
        let rig = keyed(|b| b.max_active(2).max_total(1).fair(false));
        let lent = rig.lend(Name("a"));
        let mut first = Box::pin(rig.pool.borrow_async(&Name("a")));
        let mut second = Box::pin(rig.pool.borrow_async(&Name("a")));
        assert!(rig.door().poll_once(first.as_mut()).is_pending());
        assert!(rig.door().poll_once(second.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let order = Bell::new();
        let theirs = order.clone();
        let newcomer = spawn(move || {
            let lent = pool.borrow(&Name("a")).expect("a thing");
            theirs.ring();
            lent.number
        });
        drop(lent);
        assert_eq!(rig.door().block_on(first).expect("a thing").number, 1);
        let came = order.rung() == 1;
        assert_eq!(rig.door().block_on(second).expect("a thing").number, 1);
        assert_eq!(newcomer.join().expect("no panic"), 1);
        outcomes.note(if came { "the newcomer came first" } else { "the newcomer came later" });
        assert_eq!(rig.end(), [1]);
    });
}

/// A waiter of another key was told to try again, and what it was told of is cleared away. Guards the place
/// in line of a key whose stock leaves (`State::evict`). Without it, the line holds a key that cannot be
/// served (INV-RP-LINE). Asserted: both waiters are served, whichever way the thing went. The factory does not re-enter
/// the pool: with that, loom takes half a minute.
#[test]
fn resource_barging_x_clear() {
    let expected = ["cleared", "there still"];
    explore("resource_barging_x_clear", &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(1).max_total_per_key(1).fair(false));
        let lent = rig.lend(Name("b"));
        let mut first = Box::pin(rig.pool.borrow_async(&Name("a")));
        let mut second = Box::pin(rig.pool.borrow_async(&Name("b")));
        assert!(rig.door().poll_once(first.as_mut()).is_pending());
        assert!(rig.door().poll_once(second.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let me = crate::sync::me();
        let theirs = outcomes.clone();
        rig.factory.on_call(move |call| {
            if call == Call::Destroy(1) {
                let mine = crate::sync::me() == me;
                theirs.note(if mine { "there still" } else { "cleared" });
            }
        });
        let clearing = spawn(move || pool.clear_key(&Name("b")));
        drop(lent);
        assert_eq!(rig.door().block_on(first).expect("a thing").number, 2);
        assert_eq!(rig.door().block_on(second).expect("a thing").number, 3);
        clearing.join().expect("no panic");
        assert_eq!(rig.factory.most(), 1, "more than max_total");
        rig.end();
    });
}

/// Room that two waiters were to have is left by the one in line, while the maintenance looks whether there is
/// any to fill stock up. Guards `State::watch_line`: no count changes when somebody leaves the line. Without it,
/// a maintenance that has found the room taken sleeps on, beside stock below its minimum (PROP-RP-REFILLED).
/// Asserted, here and at the end of each section: it fills stock up, or is told to look again.
#[test]
fn resource_barging_x_filling() {
    let expected = ["it finds room", "it is to look again"];
    explore_small("resource_barging_x_filling", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_total(1).max_active(2).fair(false)).reentrant();
        let lent = rig.lend();
        let mut called = Box::pin(rig.pool.borrow_async());
        let mut in_line = Box::pin(rig.pool.borrow_async());
        assert!(rig.door().poll_once(called.as_mut()).is_pending());
        assert!(rig.door().poll_once(in_line.as_mut()).is_pending());
        Borrowed::invalidate(lent);
        rig.pool.set_min_idle(1).expect("valid");
        let pool = rig.pool.clone();
        let maintenance = spawn(move || pool.maintain());
        drop(in_line);
        maintenance.join().expect("no panic");
        outcomes.note(match rig.factory.made() {
            1 => {
                rig.pool.maintain();
                "it is to look again"
            }
            _ => "it finds room",
        });
        drop(called);
        assert_eq!((rig.factory.made(), rig.counts()), (2, (0, 1, 1)));
        assert_eq!(rig.end(), [1, 2]);
    });
}
