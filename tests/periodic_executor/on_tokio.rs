//! Executors on tokio, by the feature `tokio`: on its paused time, and from outside the runtime.

use crate::both::SECOND;
use crate::common::task::block_on;
use cabrank::AsyncPeriodicExecutor;
use cabrank::periodic_executor::{JoinError, Joined, Runtime, Tokio};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

const HOUR: Duration = Duration::from_secs(3600);

/// A busy executor would hold the only thread for an hour.
#[test]
fn the_interval_follows_paused_time() {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let begin = tokio::time::Instant::now();
        let mut left = 3;
        let executor = AsyncPeriodicExecutor::builder(HOUR, Tokio::current()).unregistered();
        let executor = executor.build(move || {
            left -= 1;
            async move { left > 0 }
        });
        executor.open().expect("a task");
        assert_eq!(executor.join().await, Ok(Joined::Finished));
        let passed = begin.elapsed();
        assert!((2 * HOUR..2 * HOUR + SECOND).contains(&passed), "{passed:?}");
    });
}

/// Under paused time, too, a wake is served and a limit of a join ends.
#[test]
fn a_wake_and_a_limit_under_paused_time() {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let mut left = 2;
        let executor = AsyncPeriodicExecutor::builder(None, Tokio::current()).unregistered();
        let executor = executor.build(move || {
            left -= 1;
            async move { left > 0 }
        });
        executor.open().expect("a task");
        assert_eq!(executor.join_timeout(HOUR).await, Err(JoinError::TimedOut));
        executor.wake();
        assert_eq!(executor.join_timeout(HOUR).await, Ok(Joined::Finished));
    });
}

/// tokio's time stays ahead of the system's for good.
#[test]
fn a_timer_after_a_pause_has_its_full_time() {
    const PAUSE: Duration = Duration::from_millis(20);
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        tokio::time::pause();
        tokio::time::advance(HOUR).await;
        tokio::time::resume();
        let begin = Instant::now();
        Tokio::current().sleep_until(begin + PAUSE).await;
        assert!(begin.elapsed() >= PAUSE);
    });
}

#[test]
fn a_thread_outside_the_runtime_uses_the_executor() {
    assert!(Tokio::try_current().is_err());
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build();
    let runtime = runtime.expect("a runtime");
    let tokio = Tokio::from(runtime.handle().clone());
    let executor = AsyncPeriodicExecutor::builder(HOUR, tokio).unregistered().build(|| async {});
    executor.open().expect("a task");
    let soon = Duration::from_millis(1);
    assert_eq!(block_on(executor.join_timeout(soon)), Err(JoinError::TimedOut));
    executor.close();
    assert_eq!(block_on(executor.join()), Ok(Joined::Closed));
}
