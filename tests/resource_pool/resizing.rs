//! Limits that change at run time: surplus resources leave, and waiters that fit are served.

use crate::common::{Keyed, Outcome, Pool, Script, keyed, locked, pool};
use cabrank::resource_pool::{BorrowError, Borrowed, BuildError};
use std::sync::Mutex;

#[test]
fn a_resize_of_an_unused_pool_counts() {
    let rig = pool(|b| b.max_active(1));
    rig.pool.set_max_active(3).expect("valid");
    let three = rig.lend_all::<3>();
    assert_eq!(rig.pool.try_borrow().unwrap_err(), BorrowError::WouldBlock);
    drop(three);
    assert_eq!(rig.counts(), (0, 3));

    let rig = keyed(|b| b.max_active(1).max_total(1));
    rig.pool.set_max_total(2).expect("valid");
    rig.pool.set_max_active(2).expect("valid");
    let two = [rig.lend("a"), rig.lend("a")];
    assert_eq!(rig.pool.try_borrow(&"a").unwrap_err(), BorrowError::WouldBlock);
    drop(two);
}

/// Places that a lower limit took away must not return with the loans.
#[test]
fn a_limit_is_not_exceeded_after_shrink_and_grow() {
    let rig = pool(|b| b.max_active(4).max_total(4));
    let mut lent = Vec::from(rig.lend_all::<4>());
    rig.pool.set_max_total(1).expect("valid");
    rig.pool.set_max_active(1).expect("valid");
    drop(lent.pop());
    assert_eq!((rig.counts(), rig.pool.num_total()), ((3, 0), 3));
    rig.pool.set_max_total(3).expect("valid");
    rig.pool.set_max_active(3).expect("valid");
    assert_eq!(rig.pool.try_borrow().unwrap_err(), BorrowError::WouldBlock);
    drop(lent);
    let again = rig.lend_all::<3>();
    assert_eq!(rig.pool.try_borrow().unwrap_err(), BorrowError::WouldBlock);
    assert_eq!(rig.script.most_alive(), 4);
    drop(again);
    assert_eq!(rig.script.alive(), 3);
}

/// Idle resources beyond a lower limit leave at once, in every pool and for every limit
/// (PROP-RP-LOWERED).
#[test]
fn a_lower_limit_takes_idle_resources() {
    for lower in [
        |pool: &Pool| pool.set_max_idle(1),
        |pool: &Pool| pool.set_max_total(1),
        |pool: &Pool| pool.set_max_active(1),
    ] {
        let rig = pool(|b| b.max_active(3));
        drop(rig.lend_all::<3>());
        rig.script.calls();
        lower(&rig.pool).expect("valid");
        assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 1));
        // The longest idle leave first.
        assert_eq!(rig.script.calls(), "destroy 1 destroy 2");
    }
}

#[test]
fn a_higher_limit_serves_the_waiters_of_all_keys() {
    let rig = keyed(|b| b.max_active(1));
    let (a, b) = (rig.lend("a"), rig.lend("b"));
    let waiting = [rig.queue("b"), rig.queue("a"), rig.queue("b")];
    rig.pool.set_max_active(2).expect("valid");
    let [second_b, second_a, third_b] = waiting;
    let got = [second_b.end().expect("room"), second_a.end().expect("room")];
    assert!(third_b.is_pending());
    rig.pool.set_max_active(None).expect("valid");
    drop(third_b.end().expect("room"));
    drop((a, b, got));
}

/// A resource under test leaves when its test has ended.
#[test]
fn a_lower_limit_takes_a_resource_after_its_test() {
    let rig = pool(|b| b.max_active(2).max_total(2));
    let [lent, idle] = rig.lend_all();
    drop(idle);
    rig.pool.retain(|_, _| {
        rig.pool.set_max_total(1).expect("valid");
        true
    });
    assert_eq!((rig.counts(), rig.pool.num_total(), rig.script.alive()), ((1, 0), 1, 1));
    drop(lent);
}

/// The same for the limit of idle ones, and for the limit that it follows where it is unset.
#[test]
fn a_lower_limit_of_idle_ones_takes_a_resource_after_its_test() {
    type Lower = fn(&Pool) -> Result<(), BuildError>;
    let lowered: [(Lower, usize); 3] = [
        (|pool| pool.set_max_idle(0), 0),
        (|pool| pool.set_max_idle(1), 1),
        (|pool| pool.set_max_active(1), 1),
    ];
    for (lower, left) in lowered {
        let rig = pool(|b| b.max_active(2));
        drop(rig.lend_all::<2>());
        rig.pool.retain(|_, _| {
            lower(&rig.pool).expect("valid");
            true
        });
        assert_eq!((rig.counts(), rig.script.alive()), ((0, left), left));
    }
}

/// A resource under destruction has its place but is no longer idle: one that comes back meanwhile
/// stays.
#[test]
fn a_resource_returned_during_a_destruction_stays() {
    type Builder = cabrank::resource_pool::Builder<Script, Keyed>;
    for limited in [|b: Builder| b.max_total(2), |b: Builder| b.max_total_per_key(2)] {
        let rig = keyed(limited);
        let (goes, stays) = (rig.lend("a"), Mutex::new(Some(rig.lend("a"))));
        rig.script.on("destroy", move |_| {
            let comes_back = locked(&stays).take();
            drop(comes_back);
            Outcome::Well
        });
        rig.script.calls();
        Borrowed::invalidate(goes);
        assert_eq!(rig.script.calls(), "destroy 1 passivate 2");
        assert_eq!((rig.counts(), rig.pool.num_total()), ((0, 1), 1));
    }
}
