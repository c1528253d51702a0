//! What must be callable anywhere allocates nothing: close, wake and skip_sleep of a periodic executor, and
//! the drops of its handles and ties. (That they take no lock is shown by the models, `periodic_*`.)

use allocation_counter::{AllocationInfo, measure};
use cabrank::{PeriodicExecutor, Phase};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

fn asleep() -> PeriodicExecutor {
    let executor = PeriodicExecutor::builder(Duration::MAX).unregistered().target(|| ());
    executor.open().expect("a thread");
    until_asleep(&executor);
    executor
}

fn until_asleep(executor: &PeriodicExecutor) {
    let begun = Instant::now();
    while executor.phase() != Phase::Asleep {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not go to sleep");
        std::thread::yield_now();
    }
}

/// Of this thread.
fn nothing_is_allocated(by: impl FnOnce()) {
    let AllocationInfo { count_total, bytes_total, .. } = measure(by);
    assert_eq!((count_total, bytes_total), (0, 0));
}

#[test]
fn allocations_are_counted() {
    let counted = measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1);
}

#[test]
fn waking_and_closing_a_sleeper_allocate_nothing() {
    let executor = asleep();
    nothing_is_allocated(|| executor.wake());
    until_asleep(&executor);
    nothing_is_allocated(|| executor.skip_sleep());
    nothing_is_allocated(|| executor.close());
    nothing_is_allocated(|| executor.wake());
    executor.join().expect("no panic");
}

#[test]
fn dropping_the_last_handle_allocates_nothing() {
    let executor = asleep();
    let other = executor.clone();
    nothing_is_allocated(|| drop(other));
    nothing_is_allocated(|| drop(executor));
}

#[test]
fn dropping_the_targets_owner_allocates_nothing() {
    struct Owner {
        executor: PeriodicExecutor,
        tie: OnceLock<cabrank::Tie>,
    }
    let owner = Arc::new_cyclic(|me: &Weak<Owner>| Owner {
        executor: PeriodicExecutor::builder(Duration::MAX).unregistered().weak(me.clone(), |_| ()),
        tie: OnceLock::new(),
    });
    assert!(owner.tie.set(owner.executor.tie()).is_ok());
    owner.executor.open().expect("a thread");
    until_asleep(&owner.executor);
    let executor = owner.executor.clone();
    nothing_is_allocated(|| drop(owner));
    executor.join().expect("no panic");
}
