//! Snapshots of a pool with keys: which resources of which keys they show, in which order, and their times.

use crate::common::keyed;
use crate::shared::SECOND;
use cabrank::resource_pool::Borrowed;

/// The age counts from the creation, and the other time from the return.
#[test]
fn a_snapshot_tells_the_age_from_the_time_in_place() {
    let rig = keyed(|b| b.max_idle_time(100 * SECOND));
    let lent = rig.lend("a");
    rig.clock.advance(5 * SECOND);
    drop(lent);
    rig.clock.advance(2 * SECOND);
    let seen = &rig.pool.snapshot().keys[0].resources[0];
    assert_eq!((seen.age, seen.since), (Some(7 * SECOND), Some(2 * SECOND)));
}

/// The entry of a forgotten key is free, so those that are left are not at the places of their arrival.
#[test]
fn a_snapshot_has_the_resources_of_each_key_that_is_left() {
    let rig = keyed(|b| b);
    drop(rig.lend("a"));
    let _lent = [rig.lend("b"), rig.lend("c")];
    rig.pool.clear_key(&"a");
    assert_eq!(rig.pool.num_keys(), 2);
    let seen = || {
        let keys = rig.pool.snapshot().keys.into_iter();
        let ids = keys.map(|key| {
            let ids: Vec<_> = key.resources.iter().map(|resource| resource.id).collect();
            (*key.key().expect("the pool has keys"), ids)
        });
        ids.collect::<Vec<_>>()
    };
    assert_eq!(seen(), [("b", vec![2]), ("c", vec![3])]);
    // A new key takes the free entry.
    let _other = rig.lend("d");
    assert_eq!(seen(), [("b", vec![2]), ("c", vec![3]), ("d", vec![4])]);
}

/// A new resource takes the free place of an older one, and comes last.
#[test]
fn a_snapshot_has_the_lent_resources_of_a_key_in_order() {
    let rig = keyed(|b| b.max_active(3));
    let gone = rig.lend("a");
    let _lent = [rig.lend("a"), rig.lend("a")];
    Borrowed::invalidate(gone);
    let _new = rig.lend("a");
    let picture = rig.pool.snapshot();
    let ids: Vec<_> = picture.keys[0].resources.iter().map(|resource| resource.id).collect();
    assert_eq!(ids, [2, 3, 4]);
}
