//! Calls that must not allocate: close, wake and skip_sleep of a periodic executor, and the drops of
//! its handles and close-on-drop guards. So must loans of the resource pool. (The models show that
//! these calls take no lock.)

use crate::common::before_long;
use allocation_counter::{AllocationInfo, measure};
use cabrank::periodic_executor::{BoxFuture, Phase, Runtime};
use cabrank::{AsyncPeriodicExecutor, PeriodicExecutor};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Instant;

fn asleep() -> PeriodicExecutor {
    let executor = PeriodicExecutor::builder(None).unregistered().build(|| ());
    executor.open().expect("a thread");
    until_asleep(&executor);
    executor
}

fn until_asleep(executor: &PeriodicExecutor) {
    before_long(|| executor.phase() == Phase::Asleep);
}

/// Counts the allocations of this thread.
fn does_not_allocate(by: impl FnOnce()) {
    let AllocationInfo { count_total, bytes_total, .. } = measure(by);
    assert_eq!((count_total, bytes_total), (0, 0));
}

#[test]
fn allocations_are_counted() {
    let counted = measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1);
}

#[test]
fn waking_and_closing_a_sleeper_does_not_allocate() {
    let executor = asleep();
    does_not_allocate(|| executor.wake());
    until_asleep(&executor);
    does_not_allocate(|| executor.skip_sleep());
    does_not_allocate(|| executor.close());
    does_not_allocate(|| executor.wake());
    executor.join().expect("no panic");
}

#[test]
fn dropping_the_last_handle_does_not_allocate() {
    let executor = asleep();
    let other = executor.clone();
    does_not_allocate(|| drop(other));
    does_not_allocate(|| drop(executor));
}

#[test]
fn dropping_the_targets_owner_does_not_allocate() {
    struct Owner {
        executor: PeriodicExecutor,
        close_on_drop: OnceLock<cabrank::periodic_executor::CloseOnDrop>,
    }
    let owner = Arc::new_cyclic(|me: &Weak<Owner>| Owner {
        executor: PeriodicExecutor::builder(None).unregistered().build_weak(me.clone(), |_| ()),
        close_on_drop: OnceLock::new(),
    });
    assert!(owner.close_on_drop.set(owner.executor.close_on_drop()).is_ok());
    owner.executor.open().expect("a thread");
    until_asleep(&owner.executor);
    let executor = owner.executor.clone();
    does_not_allocate(|| drop(owner));
    executor.join().expect("no panic");
}

/// Its runtime may poll it at any time.
#[test]
fn polling_a_task_in_its_pause_does_not_allocate() {
    /// Has one task, which the test polls.
    #[derive(Clone, Default)]
    struct One(Arc<Mutex<Option<BoxFuture<()>>>>);
    impl Runtime for One {
        type Sleep = std::future::Pending<()>;
        fn spawn(&self, task: BoxFuture<()>) {
            *self.0.lock().expect("no panic") = Some(task);
        }
        fn sleep_until(&self, _: Instant) -> Self::Sleep {
            std::future::pending()
        }
    }
    struct NoOp;
    impl Wake for NoOp {
        fn wake(self: Arc<Self>) {}
    }
    let runtime = One::default();
    let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
    let executor = builder.build(|| async {});
    executor.open().expect("a task");
    let mut task = runtime.0.lock().expect("no panic").take().expect("it was spawned");
    let waker = Waker::from(Arc::new(NoOp));
    let mut poll = || {
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(executor.phase(), Phase::Asleep);
    };
    poll();
    does_not_allocate(poll);
    does_not_allocate(|| executor.close());
}

/// Loans and returns of existing resources, after a first round.
mod resource_pool {
    use super::does_not_allocate;
    use cabrank::resource_pool::{
        Async, AsyncResourceFactory, BorrowError, Borrowed, KeyedResourcePool, ResourceFactory,
        ResourcePool,
    };
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::task::{Context, Poll, Waker};

    struct Made;
    impl ResourceFactory for Made {
        type Resource = u64;
        type Metadata = &'static str;
        type Error = std::convert::Infallible;
        fn create(&self, _: &&'static str) -> Result<u64, std::convert::Infallible> {
            Ok(1)
        }
    }
    impl AsyncResourceFactory for Made {
        type Resource = u64;
        type Metadata = &'static str;
        type Error = std::convert::Infallible;
        async fn create(&self, _: &&'static str) -> Result<u64, std::convert::Infallible> {
            Ok(1)
        }
    }

    /// Polls it once.
    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    /// The first rounds may allocate, the later ones must not.
    fn after_warm_up(mut round: impl FnMut()) {
        (0..3).for_each(|_| round());
        (0..20).for_each(|_| does_not_allocate(&mut round));
    }

    #[test]
    fn a_loan_and_its_return_do_not_allocate() {
        let pool = ResourcePool::builder(Made, "m").build().expect("valid");
        after_warm_up(|| drop(pool.borrow()));
        after_warm_up(|| drop((pool.borrow(), pool.try_borrow())));
        after_warm_up(|| drop(poll(pin!(pool.borrow_async()))));
        let all: Vec<_> = (0..8).map(|_| pool.borrow()).collect();
        after_warm_up(|| assert_eq!(pool.try_borrow().unwrap_err(), BorrowError::WouldBlock));
        drop(all);
    }

    #[test]
    fn an_asynchronous_loan_does_not_allocate() {
        let pool = ResourcePool::builder(Async(Made), "m").test_on_borrow(true);
        let pool = pool.maintenance(false).build_async().expect("valid");
        after_warm_up(|| drop(poll(pin!(pool.borrow_async())).expect("at once").expect("one")));
        after_warm_up(|| {
            let lent = poll(pin!(pool.borrow_async())).expect("at once").expect("one");
            poll(pin!(Borrowed::put_back(lent))).expect("at once");
        });
    }

    #[test]
    fn a_loan_by_key_does_not_allocate() {
        let pool = KeyedResourcePool::builder(Made).max_total(3).build().expect("valid");
        after_warm_up(|| drop((pool.borrow(&"a"), pool.borrow(&"b"))));
        after_warm_up(|| drop(poll(pin!(pool.borrow_async(&"a")))));
    }

    /// Resources with deadlines, too.
    #[test]
    fn a_timed_loan_does_not_allocate() {
        let hour = std::time::Duration::from_secs(3600);
        let pool = ResourcePool::builder(Made, "m")
            .max_idle_time(2 * hour)
            .soft_max_idle_time(hour)
            .max_lifetime(hour)
            .abandoned_after(hour)
            .maintenance(false)
            .build()
            .expect("valid");
        after_warm_up(|| drop(pool.borrow()));
    }

    #[test]
    fn a_hand_off_to_a_task_does_not_allocate() {
        let pool = ResourcePool::builder(Made, "m").max_active(1).build().expect("valid");
        after_warm_up(|| {
            let lent = pool.borrow().expect("one");
            let mut waits = pin!(pool.borrow_async());
            assert!(poll(waits.as_mut()).is_none());
            drop(lent);
            drop(poll(waits).expect("granted").expect("one"));
        });
    }

    #[test]
    fn a_hand_off_by_key_does_not_allocate() {
        let pool = KeyedResourcePool::builder(Made).max_active(1).build().expect("valid");
        after_warm_up(|| {
            let lent = pool.borrow(&"a").expect("one");
            let mut waits = pin!(pool.borrow_async(&"a"));
            assert!(poll(waits.as_mut()).is_none());
            drop(lent);
            drop(poll(waits).expect("granted").expect("one"));
        });
    }

    /// Neither the waiting thread nor the returning one allocates.
    #[test]
    fn a_hand_off_to_a_thread_does_not_allocate() {
        let pool = ResourcePool::builder(Made, "m").max_active(1).build().expect("valid");
        let hand_off = |counted: &(dyn Fn(&dyn Fn()) + Sync)| {
            let lent = pool.borrow().map(Borrowed::into_owned).expect("one");
            let has_slept = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // A thread allocates when it sleeps for the first time.
                    let refused = pool.borrow_timeout(std::time::Duration::from_millis(1));
                    assert!(matches!(refused, Err(BorrowError::TimedOut(_))));
                    has_slept.store(true, SeqCst);
                    counted(&|| drop(pool.borrow()));
                });
                while !has_slept.load(SeqCst) || pool.num_waiting() == 0 {
                    std::thread::yield_now();
                }
                let lent = std::cell::Cell::new(Some(lent));
                counted(&|| drop(lent.take()));
            });
        };
        hand_off(&|work| work());
        for _ in 0..10 {
            hand_off(&|work| does_not_allocate(work));
        }
    }
}
