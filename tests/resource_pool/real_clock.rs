//! The maintenance on its own thread and the real clock. A manual clock cannot show this, for moving
//! it wakes the maintenance.

use crate::common::{Outcome, Pool, Script};
use crate::shared::{Gate, before_long, end_the_run_when_the_library_panics};
use cabrank::resource_pool::{Borrowed, Builder, KeyedResourcePool, ResourcePool};
use std::thread::sleep;
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(50);

/// Returns a pool whose maintenance sleeps without a deadline.
fn asleep(
    configure: impl FnOnce(Builder<Script, Pool>) -> Builder<Script, Pool>,
) -> (Pool, Script) {
    end_the_run_when_the_library_panics();
    let script = Script::default();
    let builder = configure(ResourcePool::builder(script.clone(), "m"));
    let pool = builder.build().expect("a valid pool");
    sleep(LIMIT);
    (pool, script)
}

#[test]
fn an_idle_one_is_evicted() {
    let (pool, script) = asleep(|b| b.max_idle_time(LIMIT));
    drop(pool.borrow());
    before_long(|| script.alive() == 0);
}

#[test]
fn an_idle_one_is_evicted_in_a_run() {
    let (pool, script) = asleep(|b| b.max_idle_time(LIMIT).eviction_interval(LIMIT));
    drop(pool.borrow());
    before_long(|| script.alive() == 0);
}

#[test]
fn idle_ones_are_tested_in_a_run() {
    let (pool, script) = asleep(|b| b.test_while_idle(true).eviction_interval(LIMIT));
    let mut lent = pool.borrow().expect("one");
    lent.valid = false;
    drop(lent);
    before_long(|| script.alive() == 0);
}

#[test]
fn a_lifetime_ends() {
    let (pool, script) = asleep(|b| b.max_lifetime(LIMIT));
    drop(pool.borrow());
    before_long(|| script.alive() == 0);
}

#[test]
fn the_minimum_is_filled_up_from_the_beginning_and_after_loans() {
    let (pool, script) = asleep(|b| b.min_idle(2));
    before_long(|| pool.num_idle() == 2);
    let lent = pool.borrow();
    before_long(|| pool.num_idle() == 2);
    pool.clear();
    before_long(|| pool.num_idle() == 2);
    assert_eq!(script.made(), 5);
    drop(lent);
}

#[test]
fn an_abandoned_one_makes_room() {
    let (pool, _) = asleep(|b| b.max_active(1).abandoned_after(LIMIT).remove_abandoned(true));
    let lent = pool.borrow();
    drop(pool.borrow().expect("its place is given up"));
    drop(lent);
}

/// The first key below its minimum is full; another is refilled as soon as there is room.
#[test]
fn a_full_key_does_not_keep_another_from_its_minimum() {
    end_the_run_when_the_library_panics();
    let builder = KeyedResourcePool::builder(Script::default());
    let builder = builder.min_idle(1).max_total_per_key(2).max_total(4);
    let pool = builder.build().expect("a valid pool");
    let lend = |key| pool.borrow(&key).expect("there is room");
    let idle = |key, number| before_long(|| pool.num_idle_of(&key) == number);
    let full = (lend("a"), lend("a"));
    let b = lend("b");
    idle("b", 1);
    // It takes the place of the idle resource of b.
    let c = lend("c");
    assert_eq!(pool.num_idle_of(&"b"), 0);
    Borrowed::invalidate(c);
    idle("b", 1);
    drop((full, b));
}

/// A resource leaves the idle list below its minimum, and its destruction hangs. The refill must not
/// wait for it, as it did in an earlier version.
fn is_filled_up_while_a_destruction_hangs(
    configure: impl FnOnce(Builder<Script, Pool>) -> Builder<Script, Pool>,
    empty: impl FnOnce(&Pool) + Send + 'static,
) {
    end_the_run_when_the_library_panics();
    let (script, gate) = (Script::default(), Gate::default());
    let hangs = gate.clone();
    script.on("destroy", move |_| {
        hangs.pass();
        Outcome::Well
    });
    let builder = configure(ResourcePool::builder(script.clone(), "m").min_idle(1));
    let pool = builder.build().expect("a valid pool");
    before_long(|| pool.num_idle() == 1);
    let theirs = pool.clone();
    let emptying = std::thread::spawn(move || empty(&theirs));
    gate.await_arrivals(1);
    before_long(|| script.made() == 2 && pool.num_idle() == 1);
    assert_eq!((script.alive(), pool.num_total()), (2, 2), "the first is still being destroyed");
    gate.open();
    emptying.join().expect("no panic");
}

#[test]
fn a_clear_that_hangs_holds_up_no_refill() {
    is_filled_up_while_a_destruction_hangs(|b| b, |pool| pool.clear());
}

#[test]
fn a_retain_that_hangs_holds_up_no_refill() {
    is_filled_up_while_a_destruction_hangs(|b| b, |pool| pool.retain(|_, _| false));
}

#[test]
fn an_eviction_that_hangs_holds_up_no_refill() {
    is_filled_up_while_a_destruction_hangs(|b| b.max_idle_time(LIMIT), |_| {});
}
