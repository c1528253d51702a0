//! Fills the idle list up to a number, beside others that create: `prefill`.

use crate::common::{keyed, pool};
use crate::creations::held_on_a_runtime;
use crate::shared::task::Task;
use crate::steps::{Step, rig};
use cabrank::ResourcePool;
use cabrank::resource_pool::{AddError, ResourceFactory};
use std::thread;
use std::time::Duration;

struct Slow;
impl ResourceFactory for Slow {
    type Resource = ();
    type Metadata = ();
    type Error = std::convert::Infallible;
    fn create(&self, _: &()) -> Result<(), Self::Error> {
        thread::sleep(Duration::from_millis(2));
        Ok(())
    }
}

/// The maintenance fills the same places: without an agreement one of the two would find them full.
#[test]
fn a_pool_of_a_fixed_size_is_warmed_up() {
    for _ in 0..10 {
        let pool = ResourcePool::builder(Slow, ()).max_total(4).min_idle(4).build();
        let pool = pool.expect("a valid pool");
        pool.prefill(4).expect("enough are being created");
        assert_eq!((pool.num_idle(), pool.num_total()), (4, 4));
    }
}

#[test]
fn idle_resources_count_and_lent_ones_do_not() {
    let rig = pool(|b| b.max_total(4));
    rig.pool.prefill(2).expect("room");
    rig.pool.prefill(2).expect("they are idle");
    assert_eq!(rig.script.made(), 2);
    let lent = rig.lend();
    rig.pool.prefill(3).expect("room");
    assert_eq!((rig.counts(), rig.script.made()), ((1, 3), 4));
    assert_eq!(rig.pool.prefill(4), Err(AddError::Full));
    drop(lent);
    let rig = keyed(|b| b.max_total(3));
    rig.pool.prefill(&"a", 2).expect("room");
    rig.pool.prefill(&"b", 1).expect("the other key has its own");
    assert_eq!((rig.pool.num_idle_of(&"a"), rig.pool.num_idle_of(&"b")), (2, 1));
}

/// It stays idle, and no creation ends that a fill could wait for.
#[test]
fn a_resource_under_test_counts() {
    let rig = pool(|b| b.max_total(4));
    rig.pool.prefill(1).expect("room");
    let mut filled = [None, None];
    rig.pool.retain(|_, _| {
        filled = [1, 2].map(|number| {
            let pool = rig.pool.clone();
            Task::new(async move { pool.prefill_async(number).await }).poll()
        });
        true
    });
    assert_eq!(filled, [Some(Ok(())), Some(Ok(()))]);
    assert_eq!((rig.counts(), rig.script.made()), ((0, 2), 2));
}

#[test]
fn two_fills_share_their_creations() {
    let rig = rig(|b| b.max_total(8));
    rig.steps.on("create", Step::Held);
    let fill = |number| {
        let pool = rig.pool.clone();
        Task::new(async move { pool.prefill_async(number).await })
    };
    let (mut one, mut other, mut more) = (fill(1), fill(1), fill(2));
    assert!(one.poll().is_none() && other.poll().is_none() && more.poll().is_none());
    assert_eq!((rig.steps.held(), rig.counts()), (2, (0, 0, 2)), "the second fill creates none");
    rig.steps.go_on("create");
    assert_eq!((one.finish(), other.finish(), more.finish()), (Ok(()), Ok(()), Ok(())));
    assert_eq!((rig.counts(), rig.steps.begun()), ((0, 2, 2), 2));
}

/// The creation that it waits for yields no resource, so it creates one itself.
#[test]
fn a_fill_looks_again_when_a_creation_ends_without_a_resource() {
    let rig = rig(|b| b.max_total(1));
    for fails in [true, false] {
        rig.steps.on("create", Step::Held);
        let begin = |number| {
            let pool = rig.pool.clone();
            Task::new(async move { pool.prefill_async(number).await })
        };
        let (mut first, mut waits, mut left) = (begin(1), begin(1), begin(1));
        assert!(first.poll().is_none() && waits.poll().is_none() && left.poll().is_none());
        drop(left);
        let begun = rig.steps.begun();
        if fails {
            rig.steps.on("create", Step::Fails);
            assert!(matches!(first.finish(), Err(AddError::Create(_))));
            rig.steps.go_on("create");
        } else {
            drop(first);
            rig.steps.go_on("create");
        }
        assert_eq!(waits.finish(), Ok(()));
        assert_eq!((rig.counts(), rig.steps.begun()), ((0, 1, 1), begun + 1));
        rig.pool.clear();
    }
}

#[test]
fn a_close_ends_a_fill_that_waits() {
    let rig = rig(|b| b.max_total(2));
    rig.steps.on("create", Step::Held);
    let theirs = rig.pool.clone();
    let mut adds = Task::new(async move { theirs.add_async().await });
    let theirs = rig.pool.clone();
    let mut fills = Task::new(async move { theirs.prefill_async(1).await });
    assert!(adds.poll().is_none() && fills.poll().is_none());
    rig.pool.close();
    assert_eq!(fills.finish(), Err(AddError::Closed), "before the creation has ended");
    rig.steps.go_on("create");
    assert_eq!(adds.finish(), Err(AddError::Closed));
}

/// It may hang.
#[test]
fn a_fill_does_not_wait_for_a_creation_that_is_overdue() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(2));
    drop(rig.waits());
    let theirs = rig.pool.clone();
    let mut fills = Task::new(async move { theirs.prefill_async(1).await });
    assert!(fills.poll().is_none());
    assert_eq!((hand.run(), rig.steps.begun()), (1, 1));
    rig.steps.hangs();
    hand.overdue();
    assert_eq!((fills.finish(), rig.steps.begun()), (Ok(()), 2));
}
