//! Pools on tokio, by the feature `tokio`: the maintenance, the end of the runtime, and paused time.

use crate::common::locked;
use crate::runtimes::{HOUR, MOMENT, Numbers};
use crate::shared::task::block_on;
use crate::shared::{SECOND, before_long, end_the_run_when_the_library_panics};
use crate::steps::{Step, Steps, rig_on};
use cabrank::periodic_executor::{self, Tokio};
use cabrank::resource_pool::{Async, BorrowError, Borrowed, Failure, ResourcePool};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

fn one_worker() -> Runtime {
    end_the_run_when_the_library_panics();
    Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime")
}

fn paused() -> Runtime {
    end_the_run_when_the_library_panics();
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

fn on(runtime: &Runtime) -> Tokio {
    Tokio::from(runtime.handle().clone())
}

/// Threads outside the runtime borrow and return.
#[test]
fn a_pool_is_maintained_by_a_runtime() {
    let runtime = one_worker();
    let pool = ResourcePool::builder(Async(Numbers), ()).min_idle(2).build_on(on(&runtime));
    let pool = pool.expect("a valid pool");
    before_long(|| pool.num_idle() == 2);
    drop(block_on(pool.borrow_async()).expect("one of the two"));
    let pool = ResourcePool::builder(Async(Numbers), ()).max_idle_time(MOMENT);
    let pool = pool.build_on(on(&runtime)).expect("a valid pool");
    drop(block_on(pool.borrow_async()).expect("a new one"));
    before_long(|| pool.num_idle() == 0);
}

/// The runtime is gone, and other threads go on with the pool.
#[test]
fn a_pool_outlives_its_runtime() {
    let runtime = one_worker();
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let theirs = events.clone();
    let builder = ResourcePool::builder(Async(Numbers), ()).min_idle(1).max_idle_time(HOUR);
    let builder = builder.listener(move |(), event| locked(&theirs).push(format!("{event:?}")));
    let pool = builder.build_on(on(&runtime)).expect("a valid pool");
    before_long(|| pool.num_idle() == 1);
    drop(runtime);
    for _ in 0..3 {
        // The first of them finds the idle list below its minimum.
        let lent = block_on(pool.borrow_async()).expect("a resource");
        drop(lent);
    }
    let said = locked(&events).clone();
    assert!(said.iter().all(|event| event.starts_with("MaintenanceNotStarted")), "{said:?}");
    assert!((1..=2).contains(&said.len()), "once for each task: {said:?}");
    assert_eq!((pool.num_active(), pool.num_total()), (0, 1));
}

/// The runtime ends while it refills the idle list, and creates for a borrower that has left.
#[test]
fn creations_in_flight_end_with_the_runtime() {
    let runtime = one_worker();
    let steps = Steps::default();
    steps.on("create", Step::Held);
    // However busy the machine is, none is overdue.
    let pool = ResourcePool::builder(Async(steps.clone()), "m").min_idle(1);
    let pool = pool.create_timeout(HOUR).overdue_after(HOUR / 2);
    let pool = pool.build_on(on(&runtime)).expect("a valid pool");
    before_long(|| steps.held() == 1);
    let mut borrower = crate::shared::task::Task::new({
        let pool = pool.clone();
        async move { pool.borrow_async().await.map(drop) }
    });
    assert!(borrower.poll().is_none());
    before_long(|| steps.held() == 2);
    drop(borrower);
    assert_eq!((steps.held(), pool.num_total()), (2, 2));
    drop(runtime);
    assert_eq!((steps.held(), pool.num_total()), (0, 0));
}

/// A borrower on another thread, or runtime, goes on. tokio's timer would panic: contained, but seen by the hook.
#[test]
fn time_limits_end_with_the_runtime() {
    let runtime = one_worker();
    let (seen, here) = (Arc::new(AtomicUsize::new(0)), std::thread::current().id());
    let (theirs, before) = (seen.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == here {
            theirs.fetch_add(1, SeqCst);
        }
        before(panic);
    }));
    let clock = cabrank::Clock::monotonic();
    let rig = rig_on(|b| b.clock(clock).validate_timeout(HOUR).test_on_borrow(true), on(&runtime));
    rig.steps.on("create", Step::Held);
    let mut both = [rig.waits(), rig.waits()];
    drop(runtime);
    for creates in &mut both {
        assert!(creates.wakes() > 0 && creates.poll().is_none(), "its limit has gone");
    }
    rig.steps.go_on("create");
    let lent = both.map(|mut creates| creates.poll().expect("it ends").expect("a resource"));
    let [one, other] = lent;
    drop(one);
    Borrowed::invalidate(other);
    rig.steps.on("validate", Step::Held);
    let mut tests = rig.waits();
    assert!(tests.poll().is_none());
    rig.steps.go_on("validate");
    drop(tests.poll().expect("it ends").expect("the same"));
    assert_eq!(*locked(&rig.events), ["RuntimeEnded"]);
    assert_eq!((seen.load(SeqCst), rig.counts()), (0, (0, 1, 1)));
}

/// Time limits follow the runtime's time.
#[test]
fn a_creation_that_hangs_ends_in_paused_time() {
    paused().block_on(async {
        let rig = rig_on(|b| b.max_total(1).clock(cabrank::Clock::monotonic()), Tokio::current());
        rig.steps.on("create", Step::Held);
        let begin = tokio::time::Instant::now();
        let why = rig.pool.borrow_async().await.expect_err("it hangs");
        assert_eq!(why, BorrowError::Create(Failure::TimedOut));
        assert!((30 * SECOND..60 * SECOND).contains(&begin.elapsed()), "the default limit");
        assert_eq!((rig.steps.held(), rig.counts()), (0, (0, 0, 0)));
    });
}

/// tokio, with a count of the timers that were set.
struct Counted(Tokio, Arc<AtomicUsize>);

impl periodic_executor::Runtime for Counted {
    type Sleep = <Tokio as periodic_executor::Runtime>::Sleep;
    fn spawn(&self, task: periodic_executor::BoxFuture<()>) {
        periodic_executor::Runtime::spawn(&self.0, task);
    }
    fn sleep_until(&self, at: Instant) -> Self::Sleep {
        self.1.fetch_add(1, SeqCst);
        periodic_executor::Runtime::sleep_until(&self.0, at)
    }
}

/// The pool's own time has not come. A busy maintenance would set one timer after the other.
#[test]
fn maintenance_under_paused_time_does_not_spin() {
    paused().block_on(async {
        let timers = Arc::new(AtomicUsize::new(0));
        let pool = ResourcePool::builder(Async(Numbers), ()).max_idle_time(HOUR);
        let pool = pool.build_on(Counted(Tokio::current(), timers.clone())).expect("a valid pool");
        drop(pool.borrow_async().await.expect("a new one"));
        let begin = Instant::now();
        tokio::time::sleep(10 * HOUR).await;
        assert!(begin.elapsed() < 10 * SECOND);
        assert_eq!(pool.num_idle(), 1);
        assert!(timers.load(SeqCst) < 5, "{timers:?} timers");
    });
}
