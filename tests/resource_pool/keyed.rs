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
    let rig = keyed(|b| {
        b.max_active(1).max_total_per_key(2).max_total(3).max_idle_time(10 * SECOND)
    });
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
