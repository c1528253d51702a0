//! What came back last is kept at hand, and not put into stock before somebody looks for it there: nobody can
//! tell. Each test has the pool's first look at its stock where it matters.

use crate::common::{Lent, Pool, Rig, Script, pool};
use crate::shared::SECOND;
use cabrank::resource_pool::{BorrowError, ResourcePoolBuilder, ResourceState};

type Building = ResourcePoolBuilder<Script, Pool>;

/// Three that are lent, of which one is dropped.
fn one_of_three(configure: impl FnOnce(Building) -> Building) -> (Rig<Pool>, Vec<Lent>) {
    let rig = pool(configure);
    let mut lent = Vec::from(rig.lend_all::<3>());
    drop(lent.pop());
    rig.script.calls();
    (rig, lent)
}

#[test]
fn every_number_counts_it_as_idle() {
    for look in [
        |pool: &Pool| (pool.num_active(), 1),
        |pool: &Pool| (2, pool.num_idle()),
        |pool: &Pool| {
            let seen = pool.snapshot();
            let idle = |r: &_| matches!(r, ResourceState::Idle);
            let resources = seen.keys[0].resources.iter().filter(|r| idle(&r.state));
            (seen.active, resources.count())
        },
    ] {
        let (rig, _lent) = one_of_three(|b| b);
        assert_eq!(look(&rig.pool), (2, 1));
    }
}

#[test]
fn it_is_lent_before_what_came_back_earlier_and_after_it_in_a_pool_that_lends_the_oldest() {
    for (fifo, expected) in [(false, [1, 2, 3]), (true, [3, 2, 1])] {
        let (rig, mut lent) = one_of_three(|b| b.fifo(fifo));
        while let Some(one) = lent.pop() {
            drop(one);
        }
        assert_eq!(rig.lend_all().map(|one| one.number), expected, "fifo: {fifo}");
    }
}

#[test]
fn who_retains_sees_it() {
    let (rig, _lent) = one_of_three(|b| b);
    let mut seen = Vec::new();
    rig.pool.retain(|_, resource| {
        seen.push(resource.number);
        false
    });
    assert_eq!((seen, rig.script.calls()), (vec![3], "destroy 3".to_owned()));
}

#[test]
fn it_leaves_with_all_that_is_idle() {
    for leave in [
        |pool: &Pool| pool.clear(),
        |pool: &Pool| pool.clear_all(),
        |pool: &Pool| pool.close(),
        |pool: &Pool| pool.set_max_idle(0).expect("valid"),
        |pool: &Pool| pool.set_max_total(1).expect("valid"),
    ] {
        let (rig, _lent) = one_of_three(|b| b);
        leave(&rig.pool);
        assert_eq!(rig.script.calls(), "destroy 3");
    }
}

#[test]
fn it_is_destroyed_with_its_pool() {
    let (rig, lent) = one_of_three(|b| b);
    drop(lent);
    let script = rig.script.clone();
    drop(rig);
    assert_eq!(script.alive(), 0);
}

/// A limit that was lowered holds for it, too: it is not kept at hand while more are lent.
#[test]
fn it_is_not_lent_beyond_a_limit_that_was_lowered() {
    let rig = pool(|b| b.max_active(3));
    let mut lent = Vec::from(rig.lend_all::<3>());
    rig.pool.set_max_idle(3).expect("valid");
    rig.pool.set_max_active(1).expect("valid");
    for _ in 0..2 {
        drop(lent.pop());
        assert_eq!(rig.pool.try_borrow().unwrap_err(), BorrowError::WouldBlock);
    }
    drop(lent);
    assert_eq!(rig.lend().number, 1);
}

#[test]
fn it_is_one_of_those_that_may_be_idle() {
    for (most, expected) in [(0, vec!["3", "2", "1"]), (1, vec!["2", "1"])] {
        let rig = pool(|b| b.max_active(3).max_idle(most));
        let mut lent = Vec::from(rig.lend_all::<3>());
        rig.script.calls();
        while let Some(one) = lent.pop() {
            drop(one);
        }
        let calls = rig.script.calls();
        let words: Vec<_> = calls.split(' ').collect();
        let destroyed = words.chunks(2).filter(|call| call[0] == "destroy");
        assert_eq!(destroyed.map(|call| call[1]).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn what_is_too_much_by_then_is_not_kept() {
    let rig = pool(|b| b);
    let mut lent = Vec::from(rig.lend_all::<3>());
    rig.pool.set_max_total(1).expect("valid");
    rig.script.calls();
    drop(lent.pop());
    assert_eq!(rig.script.calls(), "passivate 3 destroy 3");
}

/// The pool keeps a time by which it leaves, and was told of it when the first came back.
#[test]
fn it_is_not_lent_after_its_time() {
    let configurations: [fn(Building) -> Building; 2] =
        [|b| b.max_idle_time(SECOND), |b| b.max_lifetime(SECOND).max_idle_time(2 * SECOND)];
    for configure in configurations {
        let rig = pool(configure);
        (0..2).for_each(|_| drop(rig.lend()));
        rig.clock.advance(SECOND);
        assert_eq!(rig.lend().number, 2);
    }
}

#[test]
fn what_has_outlived_its_time_is_not_kept() {
    let rig = pool(|b| b.max_lifetime(SECOND));
    drop(rig.lend());
    let lent = rig.lend();
    rig.clock.advance(SECOND);
    rig.script.calls();
    drop(lent);
    assert_eq!(rig.script.calls(), "passivate 1 destroy 1");
}
