//! The wakers and timers of tasks: which waker is woken, how long each is kept, and how many timers there are.

use crate::both::SECOND;
use crate::by_hand::Keeps;
use crate::common::soon;
use crate::common::task::{Task, block_on};
use crate::common::woken::Woken;
use cabrank::periodic_executor::{BoxFuture, Flow, JoinError, Joined, Phase, Tokio};
use cabrank::{AsyncPeriodicExecutor, ManualClock, PeriodicExecutor};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Counts its wake-ups.
#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Counts {
    fn poll(self: &Arc<Self>, task: &mut BoxFuture<()>) -> Poll<()> {
        let waker = Waker::from(self.clone());
        task.as_mut().poll(&mut Context::from_waker(&waker))
    }
    fn woken(&self) -> usize {
        self.0.load(SeqCst)
    }
}

type Act = fn(&AsyncPeriodicExecutor<Keeps>);

/// A runtime may poll its task by another waker each time.
#[test]
fn a_task_in_its_pause_is_woken_by_the_waker_that_polled_it_last() {
    let acts: [Act; 3] = [
        |executor| executor.wake(),
        |executor| executor.close(),
        |executor| drop(executor.close_on_drop()),
    ];
    for act in acts {
        let runtime = Keeps::default();
        let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
        let executor = builder.build(|| async {});
        executor.open().expect("a task");
        let (mut task, wakers) = (runtime.take(), [(); 3].map(|()| Arc::<Counts>::default()));
        for waker in &wakers {
            assert!(waker.poll(&mut task).is_pending());
        }
        // And back to one that it had before.
        assert!(wakers[1].poll(&mut task).is_pending());
        act(&executor);
        assert_eq!(wakers.each_ref().map(|waker| waker.woken()), [0, 1, 0]);
        executor.close();
        assert!(wakers[2].poll(&mut task).is_ready());
    }
}

/// A waker is user code: it may build an executor on the clock that wakes it, and advance that clock.
#[test]
fn a_waker_may_use_the_manual_clock_that_wakes_it() {
    struct UsesClock(ManualClock, Arc<AtomicUsize>);
    impl Wake for UsesClock {
        fn wake(self: Arc<Self>) {
            let builder = PeriodicExecutor::builder(None).clock(self.0.clock()).unregistered();
            drop(builder.build(|| ()));
            self.0.advance(SECOND);
            self.1.fetch_add(1, SeqCst);
        }
    }
    let (time, runtime, woken) = (ManualClock::new(), Keeps::default(), Arc::default());
    let builder = AsyncPeriodicExecutor::builder(SECOND, runtime.clone()).unregistered();
    let executor = builder.clock(time.clock()).build(|| async {});
    executor.open().expect("a task");
    let mut task = runtime.take();
    let waker = Waker::from(Arc::new(UsesClock(time.clone(), Arc::clone(&woken))));
    assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    soon(move || time.advance(SECOND));
    assert_eq!(woken.load(SeqCst), 1);
}

/// A kept waker keeps its task, and all that the task owns.
#[test]
fn a_run_that_ends_keeps_no_waker() {
    let stops: Act = |executor| executor.wake();
    for act in [stops, |executor| executor.close()] {
        let (runtime, waker) = (Keeps::default(), Arc::<Counts>::default());
        let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
        let mut calls = 0;
        let executor = builder.build(move || {
            calls += 1;
            std::future::ready(calls < 2)
        });
        executor.open().expect("a task");
        let mut task = runtime.take();
        assert!(waker.poll(&mut task).is_pending());
        assert_eq!(Arc::strong_count(&waker), 2, "the sleeping run shows it");
        // The task looks once more before it sleeps, and is then polled without a wake-up.
        assert!(waker.poll(&mut task).is_pending());
        act(&executor);
        assert!(waker.poll(&mut task).is_ready());
        assert_eq!(Arc::strong_count(&waker), 1);
        drop(task);
        assert_eq!(executor.phase(), Phase::Stopped);
    }
}

/// A task that its runtime drops in its pause leaves no waker behind.
#[test]
fn a_dropped_task_and_a_join_that_ends_keep_no_waker() {
    let (runtime, waker) = (Keeps::default(), Arc::<Counts>::default());
    let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
    let executor = builder.build(|| async {});
    executor.open().expect("a task");
    let mut task = runtime.take();
    assert!(waker.poll(&mut task).is_pending());
    let joins = Arc::<Counts>::default();
    let mut join: BoxFuture<()> = Box::pin({
        let executor = executor.clone();
        async move { assert_eq!(executor.join().await, Ok(Joined::Abandoned)) }
    });
    let mut given_up: BoxFuture<()> = Box::pin({
        let executor = executor.clone();
        async move { _ = executor.join().await }
    });
    assert!(joins.poll(&mut join).is_pending() && joins.poll(&mut given_up).is_pending());
    assert_eq!(Arc::strong_count(&joins), 3);
    drop(given_up);
    assert_eq!(Arc::strong_count(&joins), 2);
    drop(task);
    assert_eq!(Arc::strong_count(&waker), 1);
    assert_eq!(joins.woken(), 1);
    assert!(joins.poll(&mut join).is_ready());
    assert_eq!(Arc::strong_count(&joins), 1);
}

/// A waker that joins the executor when it is woken and when it is dropped. A join takes the executor's lock.
struct Joins(AsyncPeriodicExecutor<Keeps>, Arc<AtomicUsize>);

impl Joins {
    fn join(&self) {
        let mut join = std::pin::pin!(self.0.join());
        let _ = join.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.1.fetch_add(1, SeqCst);
    }
}
impl Wake for Joins {
    fn wake(self: Arc<Self>) {
        self.join();
    }
}
impl Drop for Joins {
    fn drop(&mut self) {
        self.join();
    }
}

/// The last reference to the waker goes when the join is given up, when another waker replaces it, or with the wake-up.
#[test]
fn the_waker_of_a_join_is_woken_and_dropped_under_no_lock() {
    type Join = std::pin::Pin<Box<dyn Future<Output = Result<Joined, JoinError>> + Send>>;
    type Way = fn(Join, BoxFuture<()>);
    // How the waker goes, and how often it joins by then.
    let ways: [(Way, usize); 3] = [
        (|join, _| drop(join), 1),
        (
            |mut join, _| {
                let polled = join.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending());
            },
            1,
        ),
        (|_join, task| drop(task), 2),
    ];
    for (way, expected) in ways {
        let joined = soon(move || {
            let (runtime, joined) = (Keeps::default(), Arc::new(AtomicUsize::new(0)));
            let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
            let executor = builder.build(|| async {});
            executor.open().expect("a task");
            let theirs = executor.clone();
            let mut join: Join = Box::pin(async move { theirs.join().await });
            let waker = Waker::from(Arc::new(Joins(executor, joined.clone())));
            assert!(join.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            assert_eq!(joined.load(SeqCst), 0, "the join keeps the waker");
            way(join, runtime.take());
            joined.load(SeqCst)
        });
        assert_eq!(joined, expected);
    }
}

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// An executor on a runtime that polls only what was woken, and the number of its calls.
fn on_woken(
    interval: Duration,
    min: Duration,
) -> (Woken, AsyncPeriodicExecutor<Woken>, Arc<AtomicUsize>) {
    let (runtime, calls) = (Woken::default(), Arc::new(AtomicUsize::new(0)));
    let counted = calls.clone();
    let builder = AsyncPeriodicExecutor::builder(interval, runtime.clone()).min_interval(min);
    let executor = builder.unregistered().build(move || {
        counted.fetch_add(1, SeqCst);
        async { crate::by_hand::pending_once().await }
    });
    executor.open().expect("a task");
    (runtime, executor, calls)
}

/// Each signal, and each timer, wakes the task by the waker of its last poll.
#[test]
fn each_pause_ends_by_its_own_timer_or_signal_on_a_runtime_that_polls_what_was_woken() {
    let (runtime, executor, calls) = on_woken(HOUR, MINUTE);
    let calls = || (calls.load(SeqCst), runtime.timers());
    assert_eq!((runtime.run(), calls()), (1, (1, 1)));
    assert_eq!((runtime.pass(HOUR - MINUTE), calls()), (1, (1, 1)));
    assert_eq!((runtime.pass(MINUTE), calls()), (1, (2, 1)), "the interval has passed");
    executor.wake();
    assert_eq!((runtime.run(), calls()), (1, (2, 1)), "the minimum interval has not passed");
    executor.wake();
    assert_eq!(runtime.woken(), 0, "one wake is pending");
    assert_eq!((runtime.pass(MINUTE), calls()), (1, (3, 1)), "and now it has");
    executor.close();
    executor.open().expect("it is open");
    assert_eq!((runtime.run(), calls()), (1, (4, 1)), "it was reopened");
    executor.close();
    assert_eq!((runtime.woken(), runtime.run(), calls()), (1, 0, (4, 0)));
    assert_eq!(runtime.block_on(executor.join()), Ok(Joined::Closed));
    executor.open().expect("a task");
    assert_eq!((runtime.run(), calls()), (1, (5, 1)));
    runtime.forget_all();
    assert_eq!((runtime.block_on(executor.join()), calls()), (Ok(Joined::Abandoned), (5, 0)));
}

/// A timer that is left in its runtime wakes the task later, in the middle of another call.
#[test]
fn a_task_has_one_timer_in_a_pause_and_no_timer_in_a_call() {
    let (runtime, calls) = (Woken::default(), Arc::new(AtomicUsize::new(0)));
    let counted = calls.clone();
    let builder = AsyncPeriodicExecutor::builder(HOUR, runtime.clone()).unregistered();
    let executor = builder.build(move || {
        let is_first = counted.fetch_add(1, SeqCst) == 0;
        async move {
            if !is_first {
                std::future::pending::<()>().await;
            }
        }
    });
    executor.open().expect("a task");
    assert_eq!((runtime.run(), runtime.timers()), (1, 1), "in its pause");
    executor.wake();
    assert_eq!((runtime.run(), calls.load(SeqCst), runtime.timers()), (1, 2, 0), "in its call");
    runtime.forget_all();
    assert_eq!(block_on(executor.join()), Ok(Joined::Abandoned));
}

#[test]
fn a_join_with_a_limit_has_one_timer_until_it_ends_or_is_dropped() {
    let (runtime, executor, _) = on_woken(HOUR, Duration::ZERO);
    runtime.run();
    let join = |limit| {
        let executor = executor.clone();
        let mut join = Task::new(async move { executor.join_timeout(limit).await });
        assert!(join.poll().is_none() && join.poll().is_none());
        join
    };
    let (mut short, dropped, mut long) = (join(MINUTE), join(HOUR), join(HOUR));
    assert_eq!(runtime.timers(), 4, "one for each, and that of the pause");
    drop(dropped);
    runtime.pass(MINUTE);
    assert_eq!((short.wakes(), short.poll()), (1, Some(Err(JoinError::TimedOut))));
    drop(short);
    assert_eq!(runtime.timers(), 2);
    executor.close();
    runtime.run();
    assert_eq!((long.wakes(), long.poll()), (1, Some(Ok(Joined::Closed))));
    drop(long);
    assert_eq!(runtime.timers(), 0);
}

/// On the system's clock, a held-back wake is served when the minimum interval has passed, long before the interval
/// has. The timer of the interval must make room for that of the minimum interval.
#[test]
fn a_wake_on_a_real_runtime_is_served_after_the_minimum_interval() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let (calls, early) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, is_early) = (calls.clone(), early.clone());
    let served = soon(move || {
        runtime.expect("a runtime").block_on(async {
            let min = Duration::from_millis(20);
            let builder = AsyncPeriodicExecutor::builder(HOUR, Tokio::current());
            let mut ended: Option<Instant> = None;
            let executor = builder.min_interval(min).unregistered().build(move || {
                let too_soon = ended.replace(Instant::now()).is_some_and(|at| at.elapsed() < min);
                is_early.fetch_add(usize::from(too_soon), SeqCst);
                std::future::ready(counted.fetch_add(1, SeqCst) < 2)
            });
            executor.open().expect("a task");
            for called in 1..3 {
                while calls.load(SeqCst) < called || executor.phase() != Phase::Asleep {
                    tokio::task::yield_now().await;
                }
                executor.wake();
            }
            executor.join().await
        })
    });
    assert_eq!((served, early.load(SeqCst)), (Ok(Joined::Finished), 0));
}

/// The flow of one call may be shorter or longer than that of the call before it.
#[test]
fn each_pause_of_a_task_on_a_real_runtime_has_a_timer_of_its_own() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let ended = soon(move || {
        runtime.expect("a runtime").block_on(async {
            let mut pauses = [1, 3, 1, 2].map(Duration::from_millis).into_iter();
            let builder = AsyncPeriodicExecutor::builder(HOUR, Tokio::current()).unregistered();
            let executor = builder
                .build(move || std::future::ready(pauses.next().map_or(Flow::Stop, Flow::After)));
            executor.open().expect("a task");
            assert_eq!(executor.join_timeout(Duration::ZERO).await, Err(JoinError::TimedOut));
            executor.join_timeout(HOUR).await
        })
    });
    assert_eq!(ended, Ok(Joined::Finished));
}

/// A thread outside the runtime ends the pause of a task, which waits for its timer only.
#[test]
fn a_wake_from_another_thread_ends_the_pause_of_a_task_on_a_real_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let tokio = Tokio::from(runtime.handle().clone());
    let mut calls = 0;
    let executor = AsyncPeriodicExecutor::builder(HOUR, tokio).unregistered().build(move || {
        calls += 1;
        std::future::ready(calls < 3)
    });
    executor.open().expect("a task");
    let theirs = executor.clone();
    let wakes = std::thread::spawn(move || {
        while theirs.phase() != Phase::Stopped {
            theirs.wake();
            std::thread::yield_now();
        }
    });
    assert_eq!(
        soon(move || runtime.block_on(executor.join_timeout(60 * SECOND))),
        Ok(Joined::Finished)
    );
    wakes.join().expect("no panic");
}
