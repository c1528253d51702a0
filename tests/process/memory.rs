//! Memory that does not grow with use: 10,000 rounds of each life cycle of a resource pool leave no byte more than
//! 1,000 do.

use crate::common::task::Task;
use crate::common::woken::{WakeUps, Woken};
use crate::keeps_no_memory;
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, Borrowed, KeyedResourcePool, ResourceFactory, ResourcePool,
};
use cabrank::{Clock, ManualClock};
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Context;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Polls a future once, with a waker of its own.
fn poll_once(future: Pin<&mut impl Future>) -> bool {
    let waker = Arc::<WakeUps>::default().next_waker();
    future.poll(&mut Context::from_waker(&waker)).is_ready()
}

struct Made;

impl ResourceFactory for Made {
    type Resource = Box<u64>;
    type Metadata = u64;
    type Error = String;
    fn create(&self, number: &u64) -> Result<Box<u64>, String> {
        Ok(Box::new(*number))
    }
}

/// Its creations hang, fail or succeed, by turns.
#[derive(Clone, Default)]
struct Turns(Arc<AtomicUsize>);

impl AsyncResourceFactory for Turns {
    type Resource = Box<u64>;
    type Metadata = u64;
    type Error = String;
    async fn create(&self, number: &u64) -> Result<Box<u64>, String> {
        match self.0.fetch_add(1, SeqCst) % 3 {
            0 => pending().await,
            1 => Err("on purpose".to_owned()),
            _ => Ok(Box::new(*number)),
        }
    }
}

#[test]
fn loans() {
    let pool = ResourcePool::builder(Made, 1).max_active(2).build().expect("valid");
    keeps_no_memory(|_| {
        let lent = pool.borrow().expect("one");
        let other = Borrowed::into_owned(pool.borrow().expect("another"));
        Borrowed::set_label(&other, "a label");
        drop(pool.try_borrow());
        Borrowed::invalidate(lent);
        drop(other);
        drop(Borrowed::detach(pool.borrow().expect("one")));
    });
}

/// Each round has a key of its own, which is forgotten.
#[test]
fn keys() {
    let pool = KeyedResourcePool::builder(Made).max_total(2).build().expect("valid");
    keeps_no_memory(|round| {
        drop(pool.borrow(&round).expect("one"));
        drop(pool.snapshot());
        assert!(pool.num_keys() <= 2);
    });
    keeps_no_memory(|round| {
        let lent = [round, round + 10_000].map(|key| pool.borrow(&key).expect("one"));
        // It is refused, so its key is forgotten at once.
        drop(pool.try_borrow(&(round + 20_000)));
        assert_eq!((pool.num_idle_of(&round), pool.num_keys()), (0, 2));
        drop(lent);
        pool.clear_key(&round);
    });
}

/// Borrowers that wait, are polled again by another waker, and are dropped.
#[test]
fn waits_that_are_cancelled() {
    for fair in [true, false] {
        let pool = ResourcePool::builder(Made, 1).max_active(1).fair(fair);
        let pool = pool.build().expect("valid");
        keeps_no_memory(|_| {
            let lent = pool.borrow().expect("one");
            let mut waits = Box::pin(pool.borrow_async());
            let mut granted = Box::pin(pool.borrow_async());
            for _ in 0..3 {
                assert!(!poll_once(granted.as_mut()) && !poll_once(waits.as_mut()));
            }
            drop(waits);
            drop(lent);
            drop(granted);
        });
    }
}

#[test]
fn waits_that_end_at_their_time() {
    let pool = ResourcePool::builder(Made, 1).max_active(1).build().expect("valid");
    let lent = pool.borrow().expect("one");
    keeps_no_memory(|_| {
        pool.borrow_timeout(Duration::ZERO).expect_err("it is lent");
        assert!(!pool.wait_closed(Duration::ZERO));
        let mut closed = pin!(pool.wait_closed_async());
        assert!(!poll_once(closed.as_mut()) && !poll_once(closed.as_mut()));
    });
    drop(lent);
}

/// The maintenance evicts, tests and refills.
#[test]
fn maintenance() {
    let time = ManualClock::new();
    let builder = ResourcePool::builder(Made, 1).clock(time.clock()).maintenance(false);
    let builder = builder.min_idle(2).max_idle_time(9 * SECOND).max_lifetime(20 * SECOND);
    let builder = builder.test_while_idle(true).eviction_interval(SECOND);
    let pool = builder.abandoned_after(SECOND).remove_abandoned(true).build().expect("valid");
    keeps_no_memory(|_| {
        let lost = pool.borrow().expect("one");
        time.advance(SECOND);
        pool.maintain();
        drop(lost);
        pool.retain(|_, _| true);
    });
}

/// Refills, limits that change, and clears.
#[test]
fn refills() {
    let pool = ResourcePool::builder(Made, 1).min_idle(2).maintenance(false);
    let pool = pool.build().expect("valid");
    keeps_no_memory(|round| {
        pool.clear_all();
        pool.maintain();
        pool.set_max_total(4 + (round % 3) as usize).expect("valid");
        pool.set_min_idle((round % 2) as usize).expect("valid");
        Borrowed::invalidate(pool.borrow().expect("one"));
    });
}

/// Creations that fail, that hang until their time is over, and that go on without their borrower.
#[test]
fn creations_on_a_runtime() {
    for runtime in [Woken::default(), Woken::restless()] {
        let builder = ResourcePool::builder(Async(Turns::default()), 1).clock(Clock::monotonic());
        let builder = builder.max_total(3).max_idle(3).create_timeout(SECOND);
        let pool = builder.build_on(runtime.clone()).expect("valid");
        keeps_no_memory(|round| {
            let mut borrows = Box::pin(pool.borrow_async());
            for _ in 0..1 + round % 3 {
                if poll_once(borrows.as_mut()) {
                    break;
                }
                runtime.run();
            }
            drop(borrows);
            runtime.run();
            runtime.pass(SECOND);
            assert_eq!((runtime.tasks(), runtime.timers(), pool.num_active()), (0, 0, 0));
            pool.clear();
        });
    }
}

/// A creation that ends before its time leaves neither task nor timer.
#[test]
fn time_limits_that_are_not_needed() {
    for runtime in [Woken::default(), Woken::restless()] {
        let builder = ResourcePool::builder(Async(Slow), 1).clock(Clock::monotonic());
        let builder = builder.max_total(1).min_idle(1);
        let pool = builder.build_on(runtime.clone()).expect("valid");
        runtime.run();
        let at_rest = runtime.tasks();
        keeps_no_memory(|_| {
            pool.clear();
            let theirs = pool.clone();
            let mut borrows = Task::new(async move { theirs.borrow_async().await.map(drop) });
            while borrows.poll().is_none() {
                runtime.run();
            }
            runtime.run();
            assert_eq!((runtime.tasks(), runtime.timers()), (at_rest, 0));
        });
    }
}

/// Its creations are pending for a while.
struct Slow;

impl AsyncResourceFactory for Slow {
    type Resource = Box<u64>;
    type Metadata = u64;
    type Error = String;
    async fn create(&self, number: &u64) -> Result<Box<u64>, String> {
        let mut left = 3;
        std::future::poll_fn(|cx| {
            left -= 1;
            cx.waker().wake_by_ref();
            match left {
                0 => std::task::Poll::Ready(()),
                _ => std::task::Poll::Pending,
            }
        })
        .await;
        Ok(Box::new(*number))
    }
}

/// Pools that come and go, with threads, tasks and waiters.
#[test]
fn pools() {
    let runtime = Woken::default();
    (0..3).for_each(|_| one_pool(&runtime));
    let few = 100;
    (0..few).for_each(|_| one_pool(&runtime));
    let kept = allocation_counter::measure(|| (0..10 * few).for_each(|_| one_pool(&runtime)))
        .bytes_current;
    assert!(kept < 1_000, "{kept} bytes are kept");
    assert_eq!((runtime.tasks(), runtime.timers()), (0, 0));
}

fn one_pool(runtime: &Woken) {
    let builder = ResourcePool::builder(Async(Slow), 1).min_idle(1).max_idle_time(SECOND);
    let pool = builder.build_on(runtime.clone()).expect("valid");
    let weak = pool.downgrade();
    drop(Box::pin(pool.borrow_async()));
    let mut waits = Box::pin(pool.borrow_async());
    poll_once(waits.as_mut());
    drop(waits);
    runtime.run();
    drop(pool);
    runtime.run();
    assert!(weak.upgrade().is_none());
}
