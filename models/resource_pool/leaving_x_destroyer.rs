//! A resource leaves a pool with a runtime, while the destroyer's task ends.
//!
//! Guards `Dying` (`dying.rs`) and the drop of `Destroyer` (`destroying.rs`): without it a resource that leaves at that moment is never destroyed, and keeps its place.
//!
//! Asserted: each resource is destroyed, exactly once, and a close then ends.

use crate::models::resource_pool::rig::*;
use crate::models::resource_pool::slow::*;
use crate::models::rig::Reentry;
use crate::periodic_executor::BoxFuture;

/// Returns the factory, its pool, a destroyer that has one resource, and a second one that is lent.
fn one_leaves(hand: &ByHand) -> (Slow, SlowPool, BoxFuture<()>, Lent) {
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

/// The destroyer's task meets its end while the second resource leaves.
fn meets(model: Model, expected: [&'static str; 2], ends: fn(Reentry, BoxFuture<()>)) {
    explore_small(model, &expected, move |outcomes| {
        let hand = ByHand::default();
        let (slow, pool, task, second) = one_leaves(&hand);
        let reentry = slow.reentry.clone();
        let ending = spawn(move || ends(reentry, task));
        Borrowed::invalidate(second);
        ending.join().expect("no panic");
        let other = hand.take();
        outcomes.note(expected[usize::from(!other.is_empty())]);
        other.into_iter().for_each(|task| slow.reentry.block_on(task));
        assert_eq!(pool.num_total(), 0);
        slow.end(&pool);
    });
}

/// The destroyer looks for the next one.
#[test]
fn resource_leaving_x_destroyer() {
    let model = Model("resource_leaving_x_destroyer", 19);
    meets(model, ["the same task", "another task"], |reentry, task| reentry.block_on(task));
}

/// The runtime drops the destroyer.
#[test]
fn resource_leaving_x_runtime_end() {
    let model = Model("resource_leaving_x_runtime_end", 18);
    meets(model, ["at its end", "by another task"], |_, task| drop(task));
}
