//! Values of executions.

use crate::common::log::{Log, failed};
use crate::common::soon;
use crate::common::task::block_on;
use crate::polling::yield_once;
use cabrank::execution::{BoxError, Execution, Executor, Interlock, PerExecution, Reloader, Stage};
use cabrank::resource_pool::{Borrowed, ResourceFactory, ResourcePool};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Notes its drop.
struct Noted(usize, Log);
impl Drop for Noted {
    fn drop(&mut self) {
        self.1.note(format!("drop {}", self.0));
    }
}

/// Values are numbered in the order in which they are made.
fn numbered(log: &Log) -> PerExecution<Noted> {
    let (made, log) = (AtomicUsize::new(0), log.clone());
    PerExecution::new(move || {
        let number = made.fetch_add(1, SeqCst);
        log.note(format!("make {number}"));
        Ok(Noted(number, log.clone()))
    })
}

#[test]
fn a_value_is_made_at_its_first_use_and_dropped_at_the_end() {
    let log = Log::default();
    let value = numbered(&log);
    let executor = Executor::builder().hook(log.hook("outer")).hook(value.clone()).build();
    executor.wrap(|_| log.noted("unused")).expect("it runs");
    assert_eq!(log.take(), ["run outer", "unused", "complete outer"]);
    for number in 0..2 {
        let uses = executor.wrap(|_| {
            log.note("body");
            Ok([value.with(|v| v.0)?, executor.wrap(|_| value.with(|v| v.0))?])
        });
        assert_eq!(uses.expect("it runs"), [number; 2]);
        let (make, drop) = (format!("make {number}"), format!("drop {number}"));
        assert_eq!(log.take(), ["run outer", "body", &make, &drop, "complete outer"]);
    }
}

/// Concurrent executions, on one thread and on several, have a value each.
#[test]
fn each_execution_has_its_own_value_wherever_it_is_polled_and_ended() {
    let log = Log::default();
    let value = numbered(&log);
    let executor = Executor::builder().hook(value.clone()).build();
    let mut first = block_on(executor.run_async()).expect("it runs");
    let mut second = block_on(executor.run_async()).expect("it runs");
    assert_eq!(second.within(|_| value.with(|v| v.0)).expect("it is made"), 0);
    assert_eq!(first.within(|_| value.with(|v| v.0)).expect("it is made"), 1);
    let theirs = value.clone();
    let ends = thread::spawn(move || {
        let again = block_on(second.within_async(async |_| {
            yield_once().await;
            theirs.with(|v| v.0)
        }));
        block_on(second.complete_async()).expect("it completes");
        again
    });
    assert_eq!(ends.join().expect("no panic").expect("it is there"), 0);
    assert!(log.has("drop 0", 1) && !log.has("drop 1", 1));
    drop(first);
    assert!(log.has("drop 1", 1));
}

#[test]
fn without_an_execution_there_is_no_value() {
    let log = Log::default();
    let value = numbered(&log);
    let executor = Executor::builder().hook(value.clone()).build();
    value.with(|_| ()).expect_err("no execution runs");
    Executor::builder().build().wrap(|_| value.with(|_| ())).expect_err("another executor's");
    let guard = executor.run().expect("it runs");
    value.with(|_| ()).expect("the executor is active");
    guard.complete().expect("it completes");
    value.with(|_| ()).expect_err("it has ended");
}

#[test]
fn a_failure_to_make_the_value_is_the_callers_and_the_next_call_tries_again() {
    let calls = AtomicUsize::new(0);
    let value = PerExecution::new(move || match calls.fetch_add(1, SeqCst) {
        0 => Err("no connection".into()),
        1 => panic!("on purpose"),
        n => Ok(n),
    });
    let executor = Executor::builder().hook(value.clone()).build();
    let ended = executor.wrap(|_| {
        assert_eq!(value.with(|v| *v).expect_err("it fails").to_string(), "no connection");
        let call = std::panic::AssertUnwindSafe(|| value.with(|v| *v));
        assert!(std::panic::catch_unwind(call).is_err());
        value.with(|v| *v)
    });
    assert_eq!(ended.expect("it runs"), 2);
}

/// A use inside a use would be a second reference. User code runs without the lock, so it is refused at once.
#[test]
fn a_use_inside_a_use_is_refused_and_the_value_stays() {
    let log = Log::default();
    let value = numbered(&log);
    let executor = Executor::builder().hook(value.clone()).build();
    let ended = executor.wrap(|_| {
        value.with(|_| value.with(|_| ()).expect_err("it is in use"))?;
        value.with(|v| v.0)
    });
    assert_eq!(ended.expect("it runs"), 0);
}

#[test]
fn an_execution_that_ends_inside_a_use_drops_its_value_after_it() {
    let log = Log::default();
    let value = numbered(&log);
    let guard = Executor::builder().hook(value.clone()).build().run().expect("it runs");
    let used = value.with(|_| {
        drop(guard);
        log.note("used");
    });
    used.expect("it is made");
    assert_eq!(log.take(), ["make 0", "used", "drop 0"]);
}

#[test]
fn a_panic_of_the_values_drop_is_a_failed_complete() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose")
        }
    }
    let value = PerExecution::new(|| Ok(Panics));
    let executor = Executor::builder().hook(value.clone()).build();
    let error = failed(executor.wrap(|_| value.with(|_| ())));
    assert_eq!(error.first().stage(), Stage::Complete);
}

struct Connections;
impl ResourceFactory for Connections {
    type Resource = usize;
    type Metadata = ();
    type Error = Infallible;
    fn create(&self, _: &()) -> Result<usize, Infallible> {
        Ok(7)
    }
}

/// Connections go back to their pool at the end of an execution, also of a failed or dropped one.
#[test]
fn a_borrowed_resource_goes_back_at_the_end_of_the_execution() {
    let pool = ResourcePool::builder(Connections, ()).build().expect("valid");
    let lender = pool.clone();
    let connection = PerExecution::new(move || Ok(Borrowed::into_owned(lender.borrow()?)));
    let executor = Executor::builder().hook(connection.clone()).build();
    let uses = || {
        connection.with(|_| ())?;
        assert_eq!(pool.num_active(), 1);
        Ok::<_, BoxError>(())
    };
    executor.wrap(|_| uses()).expect("it runs");
    assert_eq!((pool.num_active(), pool.num_idle()), (0, 1));
    failed(executor.wrap(|_| uses().and(Err::<(), _>("on purpose".into()))));
    assert_eq!((pool.num_active(), pool.num_idle()), (0, 1));
    let mut dropped = Box::pin(executor.wrap_async(async |_: &mut Execution<'_>| {
        uses()?;
        std::future::pending::<Result<(), BoxError>>().await
    }));
    assert!(crate::polling::poll(dropped.as_mut()).is_pending());
    assert_eq!(pool.num_active(), 1);
    drop(dropped);
    assert_eq!((pool.num_active(), pool.num_idle()), (0, 1));
}

/// The closure that makes a value is user code: it may use the value, and begin an execution.
#[test]
fn the_making_of_a_value_may_call_back() {
    let (own, log) = (Arc::new(OnceLock::<(PerExecution<u32>, Executor)>::new()), Log::default());
    let (theirs, noted, depth) = (own.clone(), log.clone(), AtomicUsize::new(0));
    let value = PerExecution::new(move || {
        let (value, executor) = theirs.get().expect("set");
        noted.note(value.with(|_| ()).expect_err("it is being made").to_string());
        if depth.fetch_add(1, SeqCst) == 0 {
            let other = block_on(executor.run_async()).expect("it is nested");
            assert!(other.is_nested());
            let inside = thread::scope(|scope| {
                let uses = || executor.wrap(|_| value.with(|v| *v));
                scope.spawn(uses).join().expect("no panic")
            });
            noted.note(format!("{inside:?}"));
        }
        Ok(7)
    });
    let executor = Executor::builder().hook(value.clone()).build();
    assert!(own.set((value.clone(), executor.clone())).is_ok());
    let uses = soon(move || executor.wrap(|_| value.with(|v| *v)));
    assert_eq!(uses.expect("it runs"), 7);
    let refused = "the execution already uses its value";
    assert_eq!(log.take(), [refused, refused, "Ok(7)"]);
}

/// The value goes back to its execution, whichever way the use ends.
#[test]
fn a_value_stays_after_a_use_that_panics() {
    let log = Log::default();
    let value = numbered(&log);
    let executor = Executor::builder().hook(value.clone()).build();
    let ended = executor.wrap(|_| {
        let panics = AssertUnwindSafe(|| value.with(|_| std::panic::resume_unwind(Box::new("x"))));
        assert!(catch_unwind(panics).is_err());
        value.with(|v| v.0)
    });
    assert_eq!(ended.expect("it runs"), 0);
    assert_eq!(log.take(), ["make 0", "drop 0"]);
}

/// Two executors with one hook: the inner execution's value is gone at its end, and the outer one has its own.
#[test]
fn executions_that_nest_have_a_value_each() {
    let log = Log::default();
    let value = numbered(&log);
    let [outer, inner] = [(); 2].map(|()| Executor::builder().hook(value.clone()).build());
    let ended = outer.wrap(|_| {
        let first = inner.wrap(|_| value.with(|v| v.0))?;
        Ok((first, value.with(|v| v.0)?, inner.wrap(|_| value.with(|v| v.0))?))
    });
    assert_eq!(ended.expect("it runs"), (0, 1, 2));
    assert_eq!(log.take(), ["make 0", "drop 0", "make 1", "make 2", "drop 2", "drop 1"]);
}

/// The executor itself has no hook: the reloader's hook still tells its executions apart.
#[test]
fn a_hook_of_a_reloader_gives_each_of_its_executions_a_value() {
    let log = Log::default();
    let value = numbered(&log);
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor).always().hook(value.clone()).build();
    let reloader = reloader.expect("valid");
    let [mut first, mut second] =
        [(); 2].map(|()| block_on(reloader.run_async()).expect("it runs"));
    let uses = |execution: &mut Execution<'_>| {
        execution.within(|_| value.with(|v| v.0)).expect("there is a value")
    };
    assert_eq!([uses(&mut first), uses(&mut second), uses(&mut first)], [0, 1, 0]);
    drop(first);
    assert_eq!(uses(&mut second), 1);
    drop(second);
    assert_eq!(log.take(), ["make 0", "make 1", "drop 0", "drop 1"]);
}

/// The innermost execution stays the innermost, whichever ends first.
#[test]
fn an_outer_execution_that_ends_first_leaves_the_innermost_its_value() {
    let log = Log::default();
    let value = numbered(&log);
    let [outer, middle, inner] = [(); 3].map(|()| {
        let executor = Executor::builder().hook(value.clone()).build();
        executor.run().expect("it runs")
    });
    assert_eq!(value.with(|v| v.0).expect("the inner one's"), 0);
    drop(outer);
    assert_eq!(value.with(|v| v.0).expect("the inner one's"), 0);
    drop(inner);
    assert_eq!(value.with(|v| v.0).expect("the middle one's"), 1);
    drop(middle);
    assert_eq!(log.take(), ["make 0", "drop 0", "make 1", "drop 1"]);
}
