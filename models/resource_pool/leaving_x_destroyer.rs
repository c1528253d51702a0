//! A resource leaves a pool with a runtime, while the destroyer's task ends.
//!
//! Guards `Dying` (`dying.rs`) and the drop of `Destroyer` (`destroying.rs`): without it a resource that leaves at that moment is never destroyed, and keeps its place.
//!
//! Asserted: each resource is destroyed, exactly once, and a close then ends.

use crate::models::resource_pool::rig::*;
use crate::models::resource_pool::slow::*;

/// Returns the factory, its pool, a destroyer that has one resource, and a second one that is lent.
fn one_leaves(hand: &ByHand) -> (Slow, SlowPool, crate::periodic_executor::BoxFuture<()>, Lent) {
    let (slow, pool) = Slow::pool_on(hand, Gate::Open, |b| b.max_active(2));
    let (first, second) = (slow.begin(borrow(pool.clone())), slow.begin(borrow(pool.clone())));
    hand.run(&slow);
    let first = slow.reentry.block_on(first).expect("a number");
    let second = slow.reentry.block_on(second).expect("a number");
    Borrowed::invalidate(first);
    let task = hand.take().pop().expect("a destroyer");
    (slow, pool, task, second)
}

type Lent = Borrowed<'static, Async<Slow>>;

/// The destroyer looks for the next one.
#[test]
fn resource_leaving_x_destroyer() {
    let expected = ["the same task", "another task"];
    explore_small(Model("resource_leaving_x_destroyer", 19), &expected, |outcomes| {
        let hand = ByHand::default();
        let (slow, pool, task, second) = one_leaves(&hand);
        let reentry = slow.reentry.clone();
        let destroying = spawn(move || reentry.block_on(task));
        Borrowed::invalidate(second);
        destroying.join().expect("no panic");
        let other = hand.take();
        outcomes.note(if other.is_empty() { "the same task" } else { "another task" });
        other.into_iter().for_each(|task| slow.reentry.block_on(task));
        assert_eq!(pool.num_total(), 0);
        slow.end(&pool);
    });
}

/// The runtime drops the destroyer.
#[test]
fn resource_leaving_x_runtime_end() {
    let expected = ["at its end", "by another task"];
    explore_small(Model("resource_leaving_x_runtime_end", 18), &expected, |outcomes| {
        let hand = ByHand::default();
        let (slow, pool, task, second) = one_leaves(&hand);
        let ending = spawn(move || drop(task));
        Borrowed::invalidate(second);
        ending.join().expect("no panic");
        let other = hand.take();
        outcomes.note(if other.is_empty() { "at its end" } else { "by another task" });
        other.into_iter().for_each(|task| slow.reentry.block_on(task));
        assert_eq!(pool.num_total(), 0);
        slow.end(&pool);
    });
}
