//! A wake meets an executor that goes to sleep, and every other moment of a run.
//!
//! Each model asserts that a call begins after the wake, and sees what was written before it. Where a wake is in
//! `lock_free`, the model also asserts that it takes no lock.

use crate::AsyncPeriodicExecutor;
use crate::kernel::user_code::contain;
use crate::models::periodic_executor::rig::*;
use crate::periodic_executor::{BoxFuture, Runtime};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// A thread wakes an executor.
///
/// Guards three lines: `Signal::prepare_to_sleep` looks at `WOKEN` in the step that sets `ASLEEP`, and shows the waker
/// before that step; and `Signal::wake` unparks. Without one of them the executor sleeps though it was woken, and the
/// join never ends.
#[test]
fn periodic_wake_x_park() {
    let ways = ["before the first call", "after it"];
    explore(Model("periodic_wake_x_park", 348), &ways, move |outcomes| {
        let (calls, work) = (Count::default(), Count::default());
        let executor = builder().build(until_work(&calls, &work));
        executor.open().expect("a thread");
        assert!(executor.is_open());
        work.up();
        lock_free(|| executor.wake());
        assert_eq!(executor.join(), Ok(Joined::Finished));
        outcomes.note(ways[calls.get() - 1]);
    });
}

/// A thread wakes an executor with a task.
///
/// Guards the same lines: without one of them the task's waker is not woken, and the task is not polled again.
#[test]
fn periodic_task_wake_x_park() {
    let ways = ["before the first call", "after it"];
    explore(Model("periodic_task_wake_x_park", 418), &ways, move |outcomes| {
        outcomes.note(ways[calls_until_work(OnThreads) - 1]);
    });
}

/// Wakes a task of this runtime once there is work. Returns how often its target was called until it found it.
fn calls_until_work(runtime: impl Runtime) -> usize {
    let (calls, work) = (Count::default(), Count::default());
    let mut target = until_work(&calls, &work);
    let executor = AsyncPeriodicExecutor::builder(None, runtime)
        .clock(ManualClock::new().clock())
        .unregistered()
        .build(move || std::future::ready(target()));
    executor.open().expect("a thread");
    assert!(executor.is_open());
    work.up();
    executor.wake();
    assert_eq!(block_on(executor.join()), Ok(Joined::Finished));
    calls.get()
}

/// Polls a task by a waker that only panics: when it is woken, and when the last of it is dropped.
fn poll_by_bomb(task: &mut BoxFuture<()>) -> Poll<()> {
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            scripted_panic()
        }
        fn wake_by_ref(self: &Arc<Self>) {
            scripted_panic()
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !crate::kernel::sync::has_failed() {
                scripted_panic()
            }
        }
    }
    let waker = Waker::from(Arc::new(Bomb));
    let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
    // Panics here if the task has not kept a clone.
    let _ = contain(|| drop(waker));
    polled
}

/// A task is polled by wakers that panic, one after the other, before it is polled by one that wakes it.
///
/// Guards that the task shows a waker of the library's own (`ShownWaker::wrap`), which contains panics
/// (`TaskWaker`). Otherwise a panic comes out of the poll that replaces the waker, or out of the wake. Natively it
/// would leave the slot occupied for ever.
#[test]
fn periodic_wake_x_panicking_waker() {
    struct Bombs;
    impl Runtime for Bombs {
        type Sleep = std::future::Pending<()>;
        fn spawn(&self, mut task: BoxFuture<()>) {
            let carry_out = move || {
                if (0..2).all(|_| poll_by_bomb(&mut task).is_pending()) {
                    block_on(task);
                }
            };
            crate::kernel::sync::thread::start("task", None, carry_out).expect("a thread");
        }
        fn sleep_until(&self, _: Instant) -> Self::Sleep {
            std::future::pending()
        }
    }
    let ways = ["before the first call", "after it"];
    explore(Model("periodic_wake_x_panicking_waker", 2_132), &ways, move |outcomes| {
        outcomes.note(ways[calls_until_work(Bombs) - 1]);
    });
}

/// A task that joins is polled by one waker, and then by another.
///
/// Guards that each poll stores its own waker (`Core::poll_join`): otherwise the end wakes the first one, which
/// does nothing, and the join never ends.
#[test]
fn periodic_join_x_second_waker() {
    let ways = ["closed while it slept", "closed while it was awake"];
    explore(Model("periodic_join_x_second_waker", 450), &ways, move |outcomes| {
        let executor = AsyncPeriodicExecutor::builder(None, OnThreads)
            .clock(ManualClock::new().clock())
            .unregistered()
            .build(|| std::future::ready(()));
        executor.open().expect("a thread");
        let mut join = Box::pin(executor.join());
        assert!(poll_once(join.as_mut()).is_pending());
        let is_awake = executor.phase() != Phase::Asleep;
        executor.close();
        assert_eq!(block_on(join), Ok(Joined::Closed));
        outcomes.note(ways[usize::from(is_awake)]);
    });
}

/// A runtime with a thread for each task. Its sleeps never end, because no model waits for a time.
struct OnThreads;

impl Runtime for OnThreads {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        crate::kernel::sync::thread::start("task", None, move || block_on(task)).expect("a thread");
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::pending()
    }
}

/// A wake is delayed between its step on the word and the slot, while the executor calls and sleeps again because it
/// was due. The wake then ends that later sleep spuriously, and leaves the slot empty.
///
/// Guards that the run shows its waker again after each sleep (`Signal::prepare_to_sleep`): otherwise the next
/// wake finds an empty slot. No time passes in a model, so a pause of zero stands for one that ends by the clock.
#[test]
fn periodic_late_wake_x_wake() {
    explore(Model("periodic_late_wake_x_wake", 5_809), &["1", "2", "3", "4"], |outcomes| {
        let (calls, work) = (Count::default(), Count::default());
        let outcomes = outcomes.clone();
        let executor = {
            let work = work.clone();
            builder().build(move || match (calls.up(), work.get()) {
                (call, 1) => {
                    outcomes.note(call.to_string());
                    Flow::Stop
                }
                (1, _) => Flow::After(Duration::ZERO),
                _ => Flow::Continue,
            })
        };
        executor.open().expect("a thread");
        let late = executor.clone();
        spawn(move || lock_free(|| late.wake()));
        assert!(executor.is_open());
        work.up();
        lock_free(|| executor.wake());
        // So that no drop of a handle closes it: if no wake comes, the tool reports a deadlock.
        std::mem::forget(executor);
    });
}

const HOUR: Duration = Duration::from_secs(3600);

/// A sleeping executor is woken, and sleeps on until its minimum interval has passed. Only the clock ends that sleep.
///
/// Guards that an advanced manual clock wakes the run (`Signal::clock_advanced`), and that the wake is kept meanwhile:
/// only `Signal::begin_call` clears `WOKEN`. Asserts that the second call comes, and not before its time.
#[test]
fn periodic_held_back_x_clock() {
    explore(Model("periodic_held_back_x_clock", 1_636), &["asleep", "awake"], |outcomes| {
        let (calls, advanced) = (Count::default(), Count::default());
        let clock = ManualClock::new();
        let target = {
            let (calls, advanced) = (calls.clone(), advanced.clone());
            move || match calls.up() {
                1 => Flow::Continue,
                _ => {
                    assert_eq!(advanced.get(), 1, "before the time");
                    Flow::Stop
                }
            }
        };
        let executor = PeriodicExecutor::builder(None)
            .min_interval(HOUR)
            .clock(clock.clock())
            .unregistered()
            .build(target);
        executor.open().expect("a thread");
        if executor.phase() == Phase::Asleep {
            executor.wake();
            assert!(executor.is_open());
            advanced.up();
            clock.advance(HOUR);
            assert_eq!(executor.join(), Ok(Joined::Finished));
            outcomes.note("asleep");
        } else {
            executor.close();
            assert_eq!(executor.join(), Ok(Joined::Closed));
            outcomes.note("awake");
        }
    });
}

/// A manual clock is advanced while a thread joins with a timeout.
///
/// Guards that a join announces itself before it looks at the clock (`Signal::announce_join`), and that an advance
/// wakes it under its lock (`Core::advanced`): otherwise it sleeps past its deadline.
#[test]
fn periodic_join_x_clock() {
    let ways = ["before the first call", "after it"];
    explore(Model("periodic_join_x_clock", 3_555), &ways, move |outcomes| {
        let (calls, clock) = (Count::default(), ManualClock::new());
        let executor = {
            let calls = calls.clone();
            PeriodicExecutor::builder(None).clock(clock.clock()).unregistered().build(move || {
                calls.up();
            })
        };
        executor.open().expect("a thread");
        // The next step of this thread is the join's, which has its deadline by then.
        spawn(move || clock.advance(HOUR));
        assert_eq!(executor.join_timeout(HOUR), Err(JoinError::TimedOut));
        outcomes.note(ways[calls.get()]);
    });
}
