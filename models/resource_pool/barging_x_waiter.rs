//! In an unfair pool, a resource comes back while one borrower waits and another arrives.
//!
//! Guards `State::retry`: a waiter that lost the race returns to its place in the queue. Otherwise the waiter is
//! lost. Guards too `State::end_retry` there: a finished retry no longer counts. Otherwise the next return wakes no
//! waiter (INV-RP-BARGING, PROP-RP-EVERY-BARGING-BORROW-ENDS).
//!
//! Asserted: both borrowers get the one resource, in either order.

use crate::models::resource_pool::rig::*;
use std::future::{Future, poll_fn};
use std::pin::pin;

#[test]
fn resource_barging_x_waiter() {
    let expected = ["it was overtaken", "it was served first"];
    explore(Model("resource_barging_x_waiter", 3_828), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).fair(false).max_lost_races(1)).reentrant();
        let lent = rig.lend();
        let mut waiter = Box::pin(rig.pool.borrow_async());
        assert!(rig.reentry().poll_once(waiter.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let order = Counter::new();
        let theirs = order.clone();
        let newcomer = spawn(move || {
            let lent = pool.borrow().expect("a resource");
            theirs.up();
            lent.number
        });
        drop(lent);
        let served = rig.reentry().block_on(waiter).expect("a resource");
        let overtaken = order.count() == 1;
        assert_eq!(served.number, 1);
        drop(served);
        assert_eq!(newcomer.join().expect("no panic"), 1);
        outcomes.note(if overtaken { "it was overtaken" } else { "it was served first" });
        assert_eq!(rig.end(), [1]);
    });
}

/// In an unfair pool, a newcomer borrows and returns twice while a borrower waits.
///
/// Guards `State::is_served_directly`: a waiter that has lost its races is granted what comes back. (In the models it
/// may lose one.) Otherwise newcomers overtake it again and again (PROP-RP-BOUNDED-OVERTAKING).
///
/// Asserted: the waiter is polled at most three times: to wait, to lose, and with its grant.
#[test]
fn resource_barging_x_races() {
    let expected = ["it lost no race", "it lost one race"];
    explore(Model("resource_barging_x_races", 128), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).fair(false).max_lost_races(1));
        let lent = rig.lend();
        let mut waiter = Box::pin(rig.pool.borrow_async());
        let mut polls = 1;
        assert!(rig.reentry().poll_once(waiter.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let newcomer = spawn(move || {
            use_one(&pool);
            use_one(&pool);
        });
        drop(lent);
        let counted = poll_fn(|cx| {
            polls += 1;
            waiter.as_mut().poll(cx)
        });
        let served = rig.reentry().block_on(pin!(counted)).expect("a thing");
        drop(served);
        newcomer.join().expect("no panic");
        assert!(polls <= 3, "it was polled {polls} times");
        outcomes.note(if polls == 2 { "it lost no race" } else { "it lost one race" });
        assert_eq!(rig.end(), [1]);
    });
}

/// In an unfair pool with keys and a total, a newcomer takes a resource ahead of two waiters of its key. Guards
/// `State::update_line`: a key whose waiter can be served is in line, and no other key is (INV-RP-LINE).
///
/// Asserted: all three borrowers get the resource. The factory does not re-enter the pool: loom would need more
/// than a minute.
#[test]
fn resource_barging_x_keyed_waiters() {
    let expected = ["the newcomer came first", "the newcomer came later"];
    explore(Model("resource_barging_x_keyed_waiters", 580), &expected, |outcomes| {
        let rig = keyed(|b| b.max_active(None).max_total(1).fair(false).max_lost_races(1));
        let lent = rig.lend(Name("a"));
        let mut first = Box::pin(rig.pool.borrow_async(&Name("a")));
        let mut second = Box::pin(rig.pool.borrow_async(&Name("a")));
        assert!(rig.reentry().poll_once(first.as_mut()).is_pending());
        assert!(rig.reentry().poll_once(second.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let order = Counter::new();
        let theirs = order.clone();
        let newcomer = spawn(move || {
            let lent = pool.borrow(&Name("a")).expect("a resource");
            theirs.up();
            lent.number
        });
        drop(lent);
        assert_eq!(rig.reentry().block_on(first).expect("a resource").number, 1);
        let came = order.count() == 1;
        assert_eq!(rig.reentry().block_on(second).expect("a resource").number, 1);
        assert_eq!(newcomer.join().expect("no panic"), 1);
        outcomes.note(if came { "the newcomer came first" } else { "the newcomer came later" });
        assert_eq!(rig.end(), [1]);
    });
}

/// In an unfair pool, a thread retries too late, and what is free then belongs to a waiter of another key.
///
/// Guards `block`: the thread wakes the other waiter before it sleeps again. Otherwise a waiter sleeps beside a free
/// resource until the thread is woken once more (PROP-RP-EVERY-BARGING-BORROW-ENDS).
///
/// Asserted: the waiter of the other key is served while the newcomer keeps its loan. The factory does not re-enter the
/// pool: loom would need more than a minute.
#[test]
fn resource_barging_x_late_retry() {
    let expected = ["the thread came first", "the newcomer overtook it"];
    explore(Model("resource_barging_x_late_retry", 4_285), &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(2).max_total_per_key(1).fair(false).max_lost_races(1));
        let (lent, of_third) = (rig.lend(Name("a")), rig.lend(Name("c")));
        let pool = rig.pool.clone();
        let thread = spawn(move || use_one_of(&pool, Name("a")));
        let mut other = Box::pin(rig.pool.borrow_async(&Name("b")));
        assert!(rig.reentry().poll_once(other.as_mut()).is_pending());
        drop(lent);
        let newcomer = rig.pool.try_borrow(&Name("a"));
        drop(of_third);
        drop(rig.reentry().block_on(other).expect("a resource"));
        let overtook = newcomer.is_ok();
        outcomes.note(if overtook { "the newcomer overtook it" } else { "the thread came first" });
        drop(newcomer);
        thread.join().expect("no panic");
        rig.end();
    });
}

/// A waiter of one key retries, while another thread clears the idle resource that the retry could evict. Guards
/// `State::update_line` in `State::evict`. Otherwise the cleared key stands in line although it cannot be served
/// (INV-RP-LINE).
///
/// Asserted: both waiters are served, and at most one resource exists at a time. The factory does not re-enter the
/// pool: loom would need half a minute.
#[test]
fn resource_barging_x_clear() {
    let expected = ["cleared", "there still"];
    explore(Model("resource_barging_x_clear", 228), &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(1).max_total_per_key(1).fair(false).max_lost_races(1));
        let lent = rig.lend(Name("b"));
        let mut first = Box::pin(rig.pool.borrow_async(&Name("a")));
        let mut second = Box::pin(rig.pool.borrow_async(&Name("b")));
        assert!(rig.reentry().poll_once(first.as_mut()).is_pending());
        assert!(rig.reentry().poll_once(second.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let me = crate::kernel::sync::me();
        let theirs = outcomes.clone();
        rig.factory.on_call(move |call| {
            if call == Call::Destroy(1) {
                let mine = crate::kernel::sync::me() == me;
                theirs.note(if mine { "there still" } else { "cleared" });
            }
        });
        let clearing = spawn(move || pool.clear_key(&Name("b")));
        drop(lent);
        assert_eq!(rig.reentry().block_on(first).expect("a resource").number, 2);
        assert_eq!(rig.reentry().block_on(second).expect("a resource").number, 3);
        clearing.join().expect("no panic");
        assert_eq!(rig.factory.most(), 1, "more than max_total");
        rig.end();
    });
}

/// In an unfair pool, one waiter is woken to retry, and the one in line gives up while the maintenance looks for a
/// free place. Guards the touch of the key by a waiter that leaves the line: no count changes then. Otherwise a maintenance
/// that found no free place sleeps on, although the idle list is below its minimum (PROP-RP-REFILLED).
///
/// Asserted here, and after each critical section: the maintenance refills the idle list, or is scheduled to look
/// again.
#[test]
fn resource_barging_x_filling() {
    let expected = ["it finds room", "it is to look again"];
    explore_small(Model("resource_barging_x_filling", 43), &expected, |outcomes| {
        let rig =
            unkeyed(|b| b.max_total(1).max_active(None).fair(false).max_lost_races(1)).reentrant();
        let lent = rig.lend();
        let mut called = Box::pin(rig.pool.borrow_async());
        let mut in_line = Box::pin(rig.pool.borrow_async());
        assert!(rig.reentry().poll_once(called.as_mut()).is_pending());
        assert!(rig.reentry().poll_once(in_line.as_mut()).is_pending());
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
