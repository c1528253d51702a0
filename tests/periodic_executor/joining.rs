//! Joins and pauses by each flavour's own means: timeouts and the runtime's timer.

use crate::both::{SECOND, Threads, gate};
use crate::common::task::block_on;
use crate::common::{Gate, before_long};
use cabrank::periodic_executor::{BoxFuture, JoinError, Joined, Runtime};
use cabrank::periodic_executor::{Flow, Tokio};
use cabrank::{AsyncPeriodicExecutor, ManualClock, PeriodicExecutor};
use std::future::poll_fn;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Moves the clock until a join of five seconds has timed out.
fn times_out(executor: &PeriodicExecutor, clock: &ManualClock) {
    let theirs = executor.clone();
    let joining = std::thread::spawn(move || theirs.join_timeout(5 * SECOND));
    before_long(|| {
        clock.advance(SECOND);
        joining.is_finished()
    });
    assert_eq!(joining.join().expect("no panic"), Err(JoinError::TimedOut));
}

#[test]
fn join_ends_at_its_timeout_on_its_own_thread_and_when_it_has_finished() {
    let clock = ManualClock::new();
    let (asked, answer) = channel();
    let me: Arc<OnceLock<PeriodicExecutor>> = Arc::default();
    let executor = {
        let me = me.clone();
        let builder = PeriodicExecutor::builder(None).clock(clock.clock()).unregistered();
        builder.build(move || {
            let joined = me.get().map(|me| me.join());
            asked.send(joined).expect("the test waits");
        })
    };
    assert!(me.set(executor.clone()).is_ok());
    executor.open().expect("a thread");
    assert_eq!(answer.recv().expect("it is called"), Some(Ok(Joined::Itself)));
    assert_eq!(executor.join_timeout(Duration::ZERO), Err(JoinError::TimedOut));
    times_out(&executor, &clock);
    executor.close();
    assert_eq!(executor.join_timeout(Duration::MAX), Ok(Joined::Closed));
    assert_eq!(executor.join(), Ok(Joined::Closed));
}

/// The target is in the middle of a call. Moving the clock must still reach the join.
#[test]
fn a_join_during_a_call_ends_at_its_timeout() {
    let clock = ManualClock::new();
    let ((entered, inside), (go, gone)) = (gate(), gate());
    let executor =
        PeriodicExecutor::builder(None).clock(clock.clock()).unregistered().build(move || {
            entered.send(()).expect("the test waits");
            let _ = gone.recv();
        });
    executor.open().expect("a thread");
    inside.recv().expect("it is called");
    times_out(&executor, &clock);
    executor.close();
    drop(go);
    assert_eq!(executor.join(), Ok(Joined::Closed));
}

#[test]
fn a_tasks_join_ends_by_the_runtimes_timer_within_its_own_call_and_when_dropped() {
    struct Early;
    impl Runtime for Early {
        type Sleep = std::future::Ready<()>;
        fn spawn(&self, task: BoxFuture<()>) {
            Threads.spawn(task);
        }
        fn sleep_until(&self, _: Instant) -> Self::Sleep {
            std::future::ready(())
        }
    }
    let me: Arc<OnceLock<AsyncPeriodicExecutor<Early>>> = Arc::default();
    let (asked, answer) = channel();
    let executor = {
        let me = me.clone();
        let builder = AsyncPeriodicExecutor::builder(None, Early).unregistered();
        builder.build(move || {
            let (me, asked) = (me.clone(), asked.clone());
            async move {
                let joined = me.get().expect("it is set").join().await;
                asked.send(joined).expect("the test waits");
            }
        })
    };
    assert!(me.set(executor.clone()).is_ok());
    executor.open().expect("a task");
    assert_eq!(answer.recv().expect("it is called"), Ok(Joined::Itself));
    assert_eq!(block_on(executor.join_timeout(SECOND)), Err(JoinError::TimedOut));
    executor.close();
    assert_eq!(block_on(executor.join()), Ok(Joined::Closed));
}

/// The usual cause: a timer of tokio's outside its runtime.
#[test]
fn a_panicking_timer_fails_the_join_that_needs_it() {
    struct NoTimer;
    impl Runtime for NoTimer {
        type Sleep = BoxFuture<()>;
        fn spawn(&self, task: BoxFuture<()>) {
            Threads.spawn(task);
        }
        fn sleep_until(&self, _: Instant) -> Self::Sleep {
            panic!("there is no reactor running")
        }
    }
    let gate = Gate::default();
    let theirs = gate.clone();
    let executor = AsyncPeriodicExecutor::builder(None, NoTimer).unregistered();
    let executor = executor.build(move || {
        theirs.pass();
        std::future::ready(false)
    });
    executor.open().expect("a task");
    let expected = JoinError::NoTimer("there is no reactor running".to_owned());
    assert_eq!(block_on(executor.join_timeout(SECOND)), Err(expected));
    gate.open();
    assert_eq!(block_on(executor.join()), Ok(Joined::Finished));
    assert_eq!(block_on(executor.join_timeout(SECOND)), Ok(Joined::Finished));
}

/// On the system's clock. Each pause takes one timer of the runtime, which is set again if it fires
/// early.
#[test]
fn a_task_pauses_by_the_runtimes_timer() {
    const PAUSE: Duration = Duration::from_millis(5);
    /// Every other timer fires too early.
    #[derive(Clone, Default)]
    struct Timers(Arc<Mutex<Vec<Instant>>>);
    impl Runtime for Timers {
        type Sleep = BoxFuture<()>;
        fn spawn(&self, task: BoxFuture<()>) {
            Threads.spawn(task);
        }
        fn sleep_until(&self, at: Instant) -> Self::Sleep {
            let mut set = self.0.lock().expect("no panic");
            set.push(at);
            if set.len() % 2 == 1 {
                return Box::pin(std::future::ready(()));
            }
            Box::pin(std::future::poll_fn(move |cx| {
                match at.checked_duration_since(Instant::now()) {
                    None | Some(Duration::ZERO) => Poll::Ready(()),
                    Some(_) => {
                        // The task polls it until its time has come.
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                }
            }))
        }
    }
    let (timers, calls) = (Timers::default(), Arc::new(Mutex::new(Vec::new())));
    let executor = {
        let calls = calls.clone();
        AsyncPeriodicExecutor::builder(PAUSE, timers.clone()).unregistered().build(move || {
            let mut calls = calls.lock().expect("no panic");
            calls.push(Instant::now());
            std::future::ready(calls.len() < 4)
        })
    };
    executor.open().expect("a task");
    assert_eq!(block_on(executor.join()), Ok(Joined::Finished));
    let (calls, mut set) = (calls.lock().expect("no panic"), timers.0.lock().expect("no panic"));
    // Remove the second timers of those that fired early, unless they were due by then.
    set.dedup();
    assert_eq!((calls.len(), set.len()), (4, 3), "one for each of three pauses");
    for (due, pair) in set.iter().zip(calls.windows(2)) {
        assert!(pair[0] + PAUSE <= *due && *due <= pair[1]);
    }
}

/// The target opens its executor again and panics, so the run goes on. The join that waits learns of the panic.
#[test]
fn a_join_learns_of_a_panic_after_which_the_run_goes_on() {
    let me: Arc<OnceLock<AsyncPeriodicExecutor<Threads>>> = Arc::default();
    let ((go, gone), in_target) = (gate(), me.clone());
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let builder = AsyncPeriodicExecutor::builder(None, Threads).unregistered();
    let executor = builder.build(move || {
        let is_first = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        if is_first {
            let _ = gone.recv();
            in_target.get().expect("it is set").open().expect("it runs");
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        async { false }
    });
    assert!(me.set(executor.clone()).is_ok());
    executor.open().expect("a task");
    let mut join = crate::common::task::Task::new({
        let executor = executor.clone();
        async move { executor.join().await }
    });
    assert!(join.poll().is_none());
    drop(go);
    assert_eq!(join.finish(), Err(JoinError::Panicked("on purpose".into())));
    assert_eq!(block_on(executor.join()), Ok(Joined::Finished));
}

/// A target runs another executor on its own thread, whose target joins the outer one. It would wait for itself.
#[test]
fn a_join_in_a_call_within_a_call_returns_at_once() {
    let me: Arc<OnceLock<PeriodicExecutor>> = Arc::default();
    let ((asked, answer), theirs) = (channel(), me.clone());
    let outer = PeriodicExecutor::builder(None).unregistered().build(move || {
        let (me, asked) = (theirs.clone(), asked.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let ended = runtime.expect("a runtime").block_on(async move {
            let builder = AsyncPeriodicExecutor::builder(None, Tokio::current()).unregistered();
            let inner = builder.build(move || {
                let joined = me.get().expect("it is open").join_timeout(Duration::ZERO);
                asked.send(joined).expect("the test waits");
                async { Flow::Stop }
            });
            inner.open().expect("a task");
            inner.join().await
        });
        assert_eq!(ended, Ok(Joined::Finished));
        Flow::Stop
    });
    assert!(me.set(outer.clone()).is_ok());
    outer.open().expect("a thread");
    assert_eq!(answer.recv().expect("it is called"), Ok(Joined::Itself));
    assert_eq!(outer.join(), Ok(Joined::Finished));
}

/// A join begins outside, and the target polls it on. Each poll asks whether it would wait for itself.
#[test]
fn a_join_that_the_target_polls_on_is_ready() {
    type Join = std::pin::Pin<Box<dyn Future<Output = Result<Joined, JoinError>> + Send>>;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let (begun, seen) = (Arc::new(Mutex::new(None::<Join>)), Arc::new(Mutex::new(None)));
        let (theirs, sees) = (begun.clone(), seen.clone());
        let builder = AsyncPeriodicExecutor::builder(None, Tokio::current()).unregistered();
        let executor = builder.build(move || {
            let (join, sees) = (theirs.lock().expect("no panic").take(), sees.clone());
            async move {
                if let Some(mut join) = join {
                    let polled = poll_fn(|cx| Poll::Ready(join.as_mut().poll(cx))).await;
                    *sees.lock().expect("no panic") = Some(polled);
                }
                Flow::Idle
            }
        });
        executor.open().expect("a task");
        let joins = executor.clone();
        let mut join: Join = Box::pin(async move { joins.join().await });
        assert!(poll_fn(|cx| Poll::Ready(join.as_mut().poll(cx))).await.is_pending());
        *begun.lock().expect("no panic") = Some(join);
        executor.wake();
        while seen.lock().expect("no panic").is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(*seen.lock().expect("no panic"), Some(Poll::Ready(Ok(Joined::Itself))));
    });
}
