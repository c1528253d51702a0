//! Keys: limits of each and of all, who makes room for whom, and when a key is forgotten.

use crate::common::keyed;
use crate::shared::SECOND;
use cabrank::resource_pool::BorrowError;

/// A key of which there never was anything has no stock to be kept.
#[test]
fn a_refused_key_is_forgotten_though_there_is_a_minimum() {
    let rig = keyed(|b| b.min_idle(1).max_total(1));
    let a = rig.lend("a");
    assert_eq!(rig.pool.try_borrow(&"b").unwrap_err(), BorrowError::WouldBlock);
    assert_eq!(rig.pool.num_keys(), 1);
    drop(a);
}

/// Stock that has gone stale while its key was full: the key leaves the line, and keeps nobody back.
#[test]
fn stale_stock_keeps_no_other_key_waiting() {
    let rig =
        keyed(|b| b.max_active(1).max_total_per_key(2).max_total(3).max_idle_time(10 * SECOND));
    let (a, b) = (rig.lend("a"), rig.lend("b"));
    rig.pool.add(&"a").expect("room");
    rig.clock.advance(10 * SECOND);
    let (waits_a, waits_b) = (rig.queue("a"), rig.queue("b"));
    a.invalidate();
    drop(waits_a.end().expect("a new one"));
    drop(b);
    drop(waits_b.end().expect("it came back"));
    assert_eq!(rig.pool.num_active(), 0);
}

/// Where newcomers may barge, a key leaves the line when one takes what its oldest waiter was in line for.
#[test]
fn a_newcomer_that_barges_takes_its_key_out_of_the_line() {
    let rig = keyed(|b| b.fair(false).max_active(1).max_total(1));
    let a = rig.lend("a");
    let (waits_b, waits_a) = (rig.task("b"), rig.task("a"));
    drop(a);
    // b was woken to try again, and does not yet.
    let newcomer = rig.lend("a");
    for mut task in [waits_b, waits_a] {
        assert!(task.poll().is_none());
    }
    drop(newcomer);
    assert_eq!((rig.pool.num_active(), rig.pool.num_waiting()), (0, 0));
}

/// The same, when the maintenance takes it.
#[test]
fn stock_that_is_evicted_takes_its_key_out_of_the_line() {
    let rig = keyed(|b| b.fair(false).max_total(2).max_total_per_key(1).max_idle_time(5 * SECOND));
    let (a, other) = (rig.lend("a"), rig.lend("c"));
    let (waits_b, waits_a) = (rig.task("b"), rig.task("a"));
    drop(a);
    rig.clock.advance(5 * SECOND);
    rig.pool.maintain();
    for task in [waits_b, waits_a] {
        drop(task);
    }
    drop(other);
    assert_eq!((rig.pool.num_active(), rig.pool.num_waiting()), (0, 0));
}

/// The same, when stock is added.
#[test]
fn stock_that_is_added_takes_its_key_out_of_the_line() {
    let rig = keyed(|b| b.fair(false).max_total(2).max_total_per_key(1));
    let (c, d) = (rig.lend("c"), rig.lend("d"));
    let (mut waits_b, waits_a) = (rig.task("b"), rig.task("a"));
    c.invalidate();
    rig.pool.add(&"a").expect("its place is free");
    // b was told to try again, and does: it takes the place of what is idle.
    let b = waits_b.poll().expect("woken").expect("room");
    assert_eq!(rig.pool.num_idle(), 0);
    drop((waits_a, b, d));
    assert_eq!((rig.pool.num_active(), rig.pool.num_waiting()), (0, 0));
}
