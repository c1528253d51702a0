//! Time limits: several that share one time, and numbers at the edge. The manual clock is advanced at most once, so a
//! wait that begins its time anew never ends.

use crate::both::{Executor, Rig, SECOND, both, gate};
use crate::by_hand::Keeps;
use crate::common::task::{Task, block_on};
use crate::common::{Gate, before_long, soon};
use cabrank::periodic_executor::{Flow, JoinError, Joined, Phase, Registry, ShutdownError, Tokio};
use cabrank::{AsyncPeriodicExecutor, ManualClock, PeriodicExecutor};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

const NANO: Duration = Duration::from_nanos(1);
/// One second more than a clock can count.
const TOO_LONG: Duration = Duration::from_secs(1 << 32);

/// Opens two executors on this clock whose calls pass the gate.
fn two_that_hang(registry: &Registry, clock: &ManualClock, gate: &Gate) -> [PeriodicExecutor; 2] {
    let executors = ["one", "two"].map(|name| {
        let theirs = gate.clone();
        let builder = PeriodicExecutor::builder(None).clock(clock.clock()).name(name);
        builder.registry(registry).build(move || theirs.pass())
    });
    executors.iter().for_each(|executor| executor.open().expect("a thread"));
    gate.await_arrivals(2);
    executors
}

#[track_caller]
fn names(ended: Result<(), ShutdownError>) -> Vec<String> {
    ended.expect_err("some are late").late().iter().map(|name| name.to_string()).collect()
}

#[test]
fn two_hanging_executors_share_the_time_of_a_shutdown() {
    let (clock, gate) = (ManualClock::new(), Gate::default());
    let registry = Registry::with_clock(clock.clock());
    let executors = two_that_hang(&registry, &clock, &gate);
    let theirs = registry.clone();
    let shutting = std::thread::spawn(move || theirs.shutdown(5 * SECOND));
    before_long(|| executors.iter().all(|executor| !executor.is_open()));
    clock.advance(5 * SECOND);
    before_long(|| shutting.is_finished());
    assert_eq!(names(shutting.join().expect("no panic")), ["one", "two"]);
    gate.open();
    for executor in executors {
        assert_eq!(soon(move || executor.join()), Ok(Joined::Closed));
    }
}

/// A runtime's waker is user code. It takes all the time that the shutdown has.
#[test]
fn the_time_of_a_shutdown_begins_before_its_closes() {
    struct Slow(ManualClock);
    impl Wake for Slow {
        fn wake(self: Arc<Self>) {
            self.0.advance(5 * SECOND);
        }
    }
    let (clock, gate, runtime) = (ManualClock::new(), Gate::default(), Keeps::default());
    let registry = Registry::with_clock(clock.clock());
    let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).clock(clock.clock());
    let sleeps = builder.registry(&registry).name("asleep").build(|| async {});
    sleeps.open().expect("a task");
    let mut task = runtime.take();
    let waker = Waker::from(Arc::new(Slow(clock.clone())));
    assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(sleeps.phase(), Phase::Asleep);
    let _hang = two_that_hang(&registry, &clock, &gate);
    let theirs = registry.clone();
    assert_eq!(names(soon(move || theirs.shutdown(5 * SECOND))), ["asleep", "one", "two"]);
    gate.open();
}

#[test]
fn a_shutdown_without_time_closes_each_executor() {
    for limit in [Duration::ZERO, NANO] {
        let (clock, gate) = (ManualClock::new(), Gate::default());
        let registry = Registry::with_clock(clock.clock());
        let executors = two_that_hang(&registry, &clock, &gate);
        let theirs = registry.clone();
        let shutting = std::thread::spawn(move || theirs.shutdown(limit));
        before_long(|| executors.iter().all(|executor| !executor.is_open()));
        clock.advance(NANO);
        before_long(|| shutting.is_finished());
        assert_eq!(names(shutting.join().expect("no panic")).len(), 2);
        gate.open();
        for executor in executors {
            assert_eq!(soon(move || executor.join()), Ok(Joined::Closed));
        }
    }
}

#[test]
fn a_shutdown_with_endless_time_waits_for_each_executor() {
    for limit in [TOO_LONG, Duration::MAX] {
        for is_manual in [true, false] {
            let (clock, gate) = (ManualClock::new(), Gate::default());
            let registry =
                if is_manual { Registry::with_clock(clock.clock()) } else { Registry::new() };
            let executors = two_that_hang(&registry, &clock, &gate);
            let theirs = registry.clone();
            let shutting = std::thread::spawn(move || theirs.shutdown(limit));
            before_long(|| executors.iter().all(|executor| !executor.is_open()));
            clock.advance(SECOND * (1 << 30));
            assert!(!shutting.is_finished());
            gate.open();
            before_long(|| shutting.is_finished());
            assert_eq!(shutting.join().expect("no panic"), Ok(()));
        }
    }
}

#[test]
fn a_join_of_a_thread_takes_each_time_limit() {
    for is_manual in [true, false] {
        let clock = ManualClock::new();
        let builder = PeriodicExecutor::builder(None).unregistered();
        let builder = if is_manual { builder.clock(clock.clock()) } else { builder };
        let executor = builder.build(|| ());
        executor.open().expect("a thread");
        assert_eq!(executor.join_timeout(Duration::ZERO), Err(JoinError::TimedOut));
        let theirs = executor.clone();
        let short = std::thread::spawn(move || theirs.join_timeout(NANO));
        before_long(|| {
            clock.advance(NANO);
            short.is_finished()
        });
        assert_eq!(short.join().expect("no panic"), Err(JoinError::TimedOut));
        let long = [TOO_LONG, Duration::MAX].map(|limit| {
            let theirs = executor.clone();
            std::thread::spawn(move || theirs.join_timeout(limit))
        });
        clock.advance(SECOND * (1 << 30));
        assert!(!long.iter().any(|join| join.is_finished()));
        executor.close();
        for join in long {
            before_long(|| join.is_finished());
            assert_eq!(join.join().expect("no panic"), Ok(Joined::Closed));
        }
    }
}

/// The runtime's timer keeps the limit. A limit beyond the system's time needs no timer.
#[test]
fn a_join_of_a_task_takes_each_time_limit() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let ended = soon(move || {
        runtime.expect("a runtime").block_on(async {
            let builder = AsyncPeriodicExecutor::builder(None, Tokio::current());
            let executor = builder.unregistered().build(|| async {});
            executor.open().expect("a task");
            for limit in [Duration::ZERO, NANO] {
                assert_eq!(executor.join_timeout(limit).await, Err(JoinError::TimedOut));
            }
            let long = [TOO_LONG, Duration::MAX].map(|limit| {
                let executor = executor.clone();
                tokio::spawn(async move { executor.join_timeout(limit).await })
            });
            tokio::task::yield_now().await;
            assert!(!long.iter().any(|join| join.is_finished()));
            executor.close();
            let [one, other] = long;
            (one.await.expect("no panic"), other.await.expect("no panic"))
        })
    });
    assert_eq!(ended, (Ok(Joined::Closed), Ok(Joined::Closed)));
}

/// A limit beyond the system's time needs no timer.
#[test]
fn a_join_of_a_task_with_an_endless_limit_sets_no_timer() {
    let runtime = Keeps::default();
    let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
    let executor = builder.build(|| std::future::ready(false));
    executor.open().expect("a task");
    let theirs = executor.clone();
    // The timers of this runtime are ready at once.
    let mut join = Task::new(async move { theirs.join_timeout(Duration::MAX).await });
    assert_eq!(join.poll(), None);
    block_on(runtime.take());
    assert_eq!(join.finish(), Ok(Joined::Finished));
}

both! {
    an_interval_may_have_any_length,
    a_target_may_choose_any_pause,
    a_minimum_interval_may_have_any_length,
    an_interval_may_be_lifted_and_set_again,
    skip_sleep_leaves_a_pause_under_way_that_was_woken,
}

/// With each long pause the executor calls once, whatever time passes, and once more when it is woken.
fn calls_when_it_is_woken<E: Executor>(rig: &Rig<E>) {
    rig.executor.open();
    rig.has_called(&[0]);
    rig.advance(1 << 30);
    rig.has_called(&[0]);
    rig.wake();
    rig.has_called(&[0, 1 << 30]);
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
}

fn an_interval_may_have_any_length<E: Executor>() {
    for interval in [Duration::ZERO, NANO] {
        let rig = Rig::<E>::new(interval, Duration::ZERO, |call| Flow::from(call < 3));
        rig.executor.open();
        before_long(|| {
            rig.clock.advance(NANO);
            rig.executor.phase() == Phase::Stopped
        });
        assert_eq!(rig.executor.join(), Ok(Joined::Finished));
        rig.has_called(&[0, 0, 0]);
    }
    // An hour more than 64 bits of nanoseconds.
    let beyond = Duration::from_nanos(u64::MAX) + 3600 * SECOND;
    for interval in [TOO_LONG, beyond, Duration::MAX] {
        calls_when_it_is_woken(&Rig::<E>::new(interval, Duration::ZERO, |_| Flow::Continue));
    }
}

fn a_target_may_choose_any_pause<E: Executor>() {
    for pause in [TOO_LONG, Duration::MAX] {
        calls_when_it_is_woken(&Rig::<E>::new(SECOND, Duration::ZERO, move |_| Flow::After(pause)));
    }
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |call| match call {
        1 => Flow::After(NANO),
        _ => Flow::Stop,
    });
    rig.executor.open();
    rig.settle();
    rig.clock.advance(NANO);
    assert_eq!(rig.executor.join(), Ok(Joined::Finished));
}

/// It holds back an interval of zero, and each wake.
fn a_minimum_interval_may_have_any_length<E: Executor>() {
    for min in [TOO_LONG, Duration::MAX] {
        let rig = Rig::<E>::new(Duration::ZERO, min, |_| Flow::Continue);
        rig.executor.open();
        rig.has_called(&[0]);
        rig.wake();
        rig.advance(1 << 30);
        rig.has_called(&[0]);
        rig.executor.close();
        assert_eq!(rig.executor.join(), Ok(Joined::Closed));
    }
}

fn an_interval_may_be_lifted_and_set_again<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |_| Flow::Continue);
    rig.executor.open();
    rig.settle();
    rig.executor.update_interval(None);
    rig.advance(1);
    rig.has_called(&[0, 1]);
    rig.advance(1 << 30);
    rig.has_called(&[0, 1]);
    rig.executor.update_interval(Some(SECOND));
    let woken = 1 + (1 << 30);
    rig.wake();
    rig.has_called(&[0, 1, woken]);
    rig.advance(1);
    rig.has_called(&[0, 1, woken, woken + 1]);
    rig.executor.close();
}

/// The wake is held back by the minimum interval. The skip leaves out the pause after it, and not this one.
fn skip_sleep_leaves_a_pause_under_way_that_was_woken<E: Executor>() {
    let rig = Rig::<E>::new(60 * SECOND, 5 * SECOND, |call| Flow::from(call < 4));
    rig.executor.open();
    rig.has_called(&[0]);
    rig.executor.skip_sleep();
    rig.wake();
    rig.advance(4);
    rig.has_called(&[0]);
    rig.advance(1);
    rig.has_called(&[0, 5, 5]);
    rig.advance(60);
    assert_eq!(rig.executor.join(), Ok(Joined::Finished));
    rig.has_called(&[0, 5, 5, 65]);
}

/// The reopening ends this pause, and the skip leaves out the one after it.
///
/// A thread might see the close before the executor is open again, and end. So the test polls a task.
#[test]
fn skip_sleep_leaves_a_pause_under_way_that_a_reopening_ended() {
    let (runtime, calls) = (Keeps::default(), Arc::new(AtomicUsize::new(0)));
    let counted = calls.clone();
    let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
    let executor = builder.build(move || {
        counted.fetch_add(1, SeqCst);
        std::future::ready(())
    });
    executor.open().expect("a task");
    let mut task = Task::new(runtime.take());
    assert!(task.poll().is_none());
    assert_eq!(calls.load(SeqCst), 1);
    executor.skip_sleep();
    executor.close();
    executor.open().expect("it goes on");
    // A skipped pause yields to the runtime.
    (0..3).for_each(|_| assert!(task.poll_if_woken().is_none()));
    assert_eq!(calls.load(SeqCst), 3);
    executor.close();
    assert_eq!(task.poll_if_woken(), Some(()));
}

/// The call itself advances the clock. The pause begins after it, and a join's time has passed meanwhile.
#[test]
fn a_slow_call_takes_the_time_of_a_join_and_leaves_its_pause_whole() {
    let ((entered, inside), (go, gone)) = (gate(), gate());
    let rig = Rig::<PeriodicExecutor>::new(10 * SECOND, Duration::ZERO, move |call| {
        if call == 1 {
            entered.send(()).expect("the test waits");
            let _ = gone.recv();
        }
        Flow::Continue
    });
    Executor::open(&rig.executor);
    inside.recv().expect("it is called");
    let theirs = rig.executor.clone();
    let join = std::thread::spawn(move || theirs.join_timeout(10 * SECOND));
    before_long(|| {
        rig.clock.advance(10 * SECOND);
        join.is_finished()
    });
    assert_eq!(join.join().expect("no panic"), Err(JoinError::TimedOut));
    drop(go);
    rig.settle();
    rig.clock.advance(9 * SECOND);
    rig.settle();
    assert_eq!(rig.calls().len(), 1);
    rig.clock.advance(SECOND);
    rig.has_called(&[0, 0]);
    Executor::close(&rig.executor);
}
