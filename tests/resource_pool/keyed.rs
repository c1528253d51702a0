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
