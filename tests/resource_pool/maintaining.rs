//! What is due at a time: what leaves, what is tested and what is filled up, and until when it sleeps.

use crate::common::{Pool, keyed, pool};
use crate::shared::SECOND;
use crate::shared::task::Task;
use cabrank::resource_pool::{BorrowError, Borrowed, Limit, ResourceState};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// A minimum that is no more is not filled up.
#[test]
fn a_minimum_that_was_taken_back_fills_nothing() {
    let rig = pool(|b| b);
    rig.pool.set_min_idle(2).expect("valid");
    rig.pool.set_min_idle(0).expect("valid");
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 0), 0));
    rig.pool.set_min_idle(3).expect("valid");
    rig.pool.set_min_idle(1).expect("valid");
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 1), 1));
}

#[test]
fn the_reaper_minds_the_minimum() {
    let rig = pool(|b| b.min_idle(2).soft_max_idle_time(10 * SECOND));
    drop(rig.lend_all::<4>());
    rig.clock.advance(HOUR);
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 2), 4));
    rig.clock.advance(HOUR);
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 2), 4));
}

/// What was lent and came back makes the stock whole: nothing is to be made.
#[test]
fn a_minimum_that_is_met_again_fills_nothing() {
    let rig = pool(|b| b.min_idle(2));
    rig.pool.prefill(2).expect("room");
    drop(rig.lend_all::<2>());
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 2), 2));
}

/// The key that had to make room is below its minimum afterwards.
#[test]
fn a_minimum_is_filled_up_again_for_the_key_that_made_room() {
    let rig = keyed(|b| b.min_idle(1).max_total(2));
    drop(rig.lend("b"));
    let two = [rig.lend("a"), rig.lend("a")];
    assert_eq!(rig.pool.num_idle_of(&"b"), 0);
    two.into_iter().for_each(Borrowed::invalidate);
    rig.pool.maintain();
    assert_eq!((rig.pool.num_idle_of(&"a"), rig.pool.num_idle_of(&"b")), (1, 1));
}

/// A loan that was granted, and not picked up for so long that it looks abandoned.
#[test]
fn a_grant_that_nobody_picks_up_is_taken_back() {
    let rig = pool(|b| b.max_active(1).abandoned_after(10 * SECOND).remove_abandoned(true));
    let lent = rig.lend();
    let pool = rig.pool.clone();
    let mut task = Task::new(async move { pool.borrow_async().await.map(Borrowed::into_owned) });
    assert!(task.poll().is_none());
    drop(lent);
    rig.clock.advance(10 * SECOND);
    rig.pool.maintain();
    assert_eq!(rig.counts(), (0, 0));
    let other = rig.lend();
    let late = task.poll().expect("it was granted").expect("a resource");
    drop((late, other));
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 1));
}

/// Of two keys, the one that is due first is what the maintenance sleeps until, though the other's has
/// been idle for longer.
#[test]
fn the_maintenance_wakes_for_the_first_that_is_due_of_all_keys() {
    let rig = keyed(|b| b.min_idle(1).soft_max_idle_time(5 * SECOND).max_idle_time(100 * SECOND));
    drop(rig.lend("a"));
    rig.clock.advance(SECOND);
    drop((rig.lend("b"), rig.lend("b")));
    let due = Task::new({
        let pool = rig.pool.clone();
        async move { pool.maintain_async().await }
    });
    assert_eq!(due.finish(), Some(5 * SECOND));
}

/// It would never sleep, else.
#[test]
fn what_is_being_tested_is_not_due() {
    let rig = pool(|b| b.max_idle_time(5 * SECOND));
    drop(rig.lend());
    rig.pool.retain(|_, _| {
        rig.clock.advance(5 * SECOND);
        let pool = rig.pool.clone();
        assert_eq!(Task::new(async move { pool.maintain_async().await }).finish(), None);
        true
    });
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// A key at its own limit cannot be filled up, and is not due though its back-off is over.
#[test]
fn a_key_that_is_full_is_not_due_for_stock() {
    let rig = keyed(|b| b.min_idle(1).max_total_per_key(1));
    drop(rig.lend("a"));
    rig.script.fails("create");
    rig.pool.clear();
    rig.pool.maintain();
    rig.script.is_well("create");
    let lent = rig.lend("a");
    rig.clock.advance(HOUR);
    let pool = rig.pool.clone();
    assert_eq!(Task::new(async move { pool.maintain_async().await }).finish(), None);
    lent.invalidate();
    rig.pool.maintain();
    assert_eq!(rig.counts(), (0, 1));
}

/// A victim that gets its place again ends when its time is over, not when a younger one's is.
#[test]
fn a_victim_that_was_spared_ends_in_time() {
    let rig = keyed(|b| b.max_active(Limit::None).max_total(17).max_lifetime(20 * SECOND));
    let a = rig.lend("a");
    rig.clock.advance(10 * SECOND);
    // Of the same class of lifetimes as the first, but younger.
    let others: Vec<_> = (0..16).map(|_| rig.lend("c")).collect();
    let pool = rig.pool.clone();
    let mut task =
        Task::new(async move { pool.borrow_async(&"b").await.map(Borrowed::into_owned) });
    assert!(task.poll().is_none());
    drop(a);
    assert_eq!(rig.pool.snapshot().keys[0].resources[0].state, ResourceState::Condemned);
    drop(task);
    assert_eq!(rig.pool.num_idle_of(&"a"), 1);
    rig.clock.advance(10 * SECOND);
    rig.pool.maintain();
    assert_eq!(rig.pool.num_idle_of(&"a"), 0);
    drop(others);
}
