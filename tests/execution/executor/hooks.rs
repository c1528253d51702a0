//! Hooks, bodies and reports, and every path on which an execution ends.

use crate::common::log::{Log, OnPurpose, failed, reporting};
use crate::common::task::block_on;
use cabrank::execution::{
    BoxError, Execution, ExecutionGuard, Executor, Interlock, Panicked, Stage,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

#[test]
fn an_error_is_reported_once_and_returned() {
    let log = Log::default();
    let executor = reporting(&log).build();
    let error = failed(executor.wrap(|_| Err::<(), _>(OnPurpose.into())));
    assert_eq!(error.first().stage(), Stage::Body);
    assert_eq!(error.first().cause().downcast_ref(), Some(&OnPurpose));
    assert_eq!(log.take(), ["report: on purpose"]);
    executor.wrap(|_| Ok(())).expect("it succeeds");
    assert!(log.take().is_empty());
}

#[test]
fn run_body_complete() {
    let log = Log::default();
    let executor =
        Executor::builder().to_run(log.noting("run")).to_complete(log.noting("complete")).build();
    let value = executor.wrap(|_| {
        log.note("body");
        Ok(7)
    });
    assert_eq!(value.expect("it succeeds"), 7);
    assert_eq!(log.take(), ["run", "body", "complete"]);
}

/// Rails' callbacks share the execution object. Here both halves of a hook share its state by value.
#[test]
fn the_halves_of_a_hook_share_a_state() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (made, kept) = (seen.clone(), seen.clone());
    let run = move || {
        let state = Arc::new(0);
        made.lock().map_err(|_| "poisoned")?.push(Arc::as_ptr(&state) as usize);
        Ok(state)
    };
    let complete = move |state: Arc<i32>| {
        kept.lock().map_err(|_| "poisoned")?.push(Arc::as_ptr(&state) as usize);
        Ok(())
    };
    let executor = Executor::builder().hook((run, complete)).build();
    executor.wrap(|_| Ok(())).expect("it succeeds");
    let seen = seen.lock().expect("no panic under this lock");
    assert_eq!((seen.len(), seen[0]), (2, seen[1]));
}

#[test]
fn the_pair_of_run_and_complete() {
    let log = Log::default();
    let executor = Executor::builder().hook(log.hook("a")).build();
    let execution = executor.run().expect("it runs");
    log.note("body");
    execution.complete().expect("it completes");
    assert_eq!(log.take(), ["run a", "body", "complete a"]);
}

#[test]
fn a_failing_run_skips_later_runs_and_the_body_and_completes() {
    let log = Log::default();
    let executor = reporting(&log)
        .to_run(log.failing("no database"))
        .to_run(log.noting("later"))
        .to_complete(log.noting("complete"))
        .build();
    let error = failed(executor.wrap(|_| {
        log.note("body");
        Ok(())
    }));
    assert_eq!(
        (error.first().stage(), error.first().cause().to_string()),
        (Stage::Run, "no database".into())
    );
    assert_eq!(log.take(), ["no database", "complete", "report: no database"]);
    assert!(!executor.is_active());
}

#[test]
fn a_nested_wrap_only_calls_its_body() {
    let log = Log::default();
    let executor = reporting(&log).hook(log.hook("a")).build();
    let nested = executor.clone();
    executor
        .wrap(|_| {
            let error = failed(nested.wrap(|_| Err::<(), _>(OnPurpose.into())));
            assert_eq!(error.first().cause().downcast_ref(), Some(&OnPurpose));
            log.note("body");
            nested.run()?.complete()?;
            Ok(())
        })
        .expect("it succeeds");
    assert_eq!(log.take(), ["run a", "body", "complete a"]);
    assert!(!executor.is_active());
}

#[test]
fn no_state_is_a_state() {
    let log = Log::default();
    let noted = log.clone();
    let complete = move |state: Option<i32>| noted.noted(format!("{state:?}"));
    let executor = Executor::builder().hook((|| Ok(None), complete)).build();
    executor.wrap(|_| Ok(())).expect("it succeeds");
    assert_eq!(log.take(), ["None"]);
}

#[test]
fn a_hook_after_a_failing_run_is_not_completed() {
    let log = Log::default();
    let executor = Executor::builder().to_run(log.failing("fails")).hook(log.hook("a")).build();
    failed(executor.wrap(|_| Ok(())));
    assert_eq!(log.take(), ["fails"]);
}

#[test]
fn a_hook_before_a_failing_run_is_completed() {
    let log = Log::default();
    let executor = Executor::builder().hook(log.hook("a")).to_run(log.failing("fails")).build();
    failed(executor.run());
    assert_eq!(log.take(), ["run a", "fails", "complete a"]);
}

/// The failure of a run comes before those of the hooks that are then completed.
#[test]
fn the_failure_of_a_run_comes_before_that_of_a_complete() {
    let log = Log::default();
    let executor = reporting(&log)
        .to_complete(log.failing("complete fails"))
        .to_run(log.failing("run fails"))
        .build();
    let error = failed(executor.wrap(|_| log.noted("body")));
    let stages: Vec<_> = error.failures().iter().map(|failure| failure.stage()).collect();
    assert_eq!(stages, [Stage::Run, Stage::Complete]);
    assert_eq!(log.take(), ["run fails", "complete fails", "report: run fails"]);
}

/// Rails has two other orders.
#[test]
fn completes_run_in_strict_reverse_order() {
    let log = Log::default();
    let hooks = [log.hook("a"), log.hook("b"), log.hook("c")];
    let executor = hooks.into_iter().fold(Executor::builder(), |builder, hook| builder.hook(hook));
    executor.build().wrap(|_| log.noted("body")).expect("it succeeds");
    let order = ["run a", "run b", "run c", "body", "complete c", "complete b", "complete a"];
    assert_eq!(log.take(), order);
}

#[test]
fn different_executors_nest() {
    let log = Log::default();
    let one = Executor::builder().hook(log.hook("one")).build();
    let two = Executor::builder().hook(log.hook("two")).build();
    one.wrap(|_| Ok(two.wrap(|_| Ok(one.wrap(|_| log.noted("body"))?))?)).expect("it succeeds");
    assert_eq!(log.take(), ["run one", "run two", "body", "complete two", "complete one"]);
}

#[test]
fn every_hook_completes_despite_failures_and_the_bodys_error_comes_first() {
    let log = Log::default();
    let panics = log.clone();
    let executor = reporting(&log)
        .hook(log.hook("a"))
        .to_complete(log.failing("b fails"))
        .to_complete(move || {
            panics.note("c panics");
            panic!("c panics")
        })
        .hook(log.hook("d"))
        .build();
    let error = failed(executor.wrap(|_| Err::<(), _>(OnPurpose.into())));
    assert_eq!(error.first().cause().downcast_ref(), Some(&OnPurpose));
    let panicked = error.failures()[1].cause().downcast_ref::<Panicked>();
    assert_eq!(panicked.map(|p| &*p.0), Some("c panics"));
    assert_eq!(error.failures()[2].cause().to_string(), "b fails");
    let all = "the body failed: on purpose; \
        then a hook's complete failed: it panicked: c panics; then a hook's complete failed: b fails";
    assert_eq!(error.to_string(), all);
    let order = ["run a", "run d", "complete d", "c panics", "b fails", "complete a"];
    assert_eq!(log.take(), [&order[..], &["report: on purpose"]].concat());

    // The body succeeded, so the result is the first failure.
    let error = failed(executor.wrap(|_| Ok(())));
    assert_eq!((error.first().stage(), error.failures().len()), (Stage::Complete, 2));
    assert_eq!(log.take().last().expect("a report"), "report: it panicked: c panics");
}

#[test]
fn a_panicking_run_is_an_error() {
    let log = Log::default();
    let run = || -> Result<(), BoxError> { panic!("no database") };
    let executor = reporting(&log).hook(log.hook("a")).to_run(run).build();
    let error = failed(executor.wrap(|_| Ok(())));
    assert_eq!((error.first().stage(), error.first().cause().is::<Panicked>()), (Stage::Run, true));
    let reported = "report: it panicked: no database";
    assert_eq!(log.take(), ["run a", "complete a", reported]);
}

#[test]
fn a_panicking_body_is_completed_reported_once_and_goes_on() {
    let log = Log::default();
    let executor =
        reporting(&log).hook(log.hook("a")).to_complete(log.failing("complete fails")).build();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        executor.wrap(|_| -> Result<(), BoxError> { panic!("on purpose") })
    }));
    assert_eq!(panic.expect_err("it goes on").downcast_ref(), Some(&"on purpose"));
    let reported = "report: it panicked: on purpose";
    assert_eq!(log.take(), ["run a", "complete fails", "complete a", reported]);
    assert!(!executor.is_active());
}

#[test]
fn a_dropped_execution_completes_and_only_the_reporter_learns_its_error() {
    let log = Log::default();
    let executor = reporting(&log).hook(log.hook("a")).to_complete(log.failing("fails")).build();
    drop(executor.run().expect("it runs"));
    assert_eq!(log.take(), ["run a", "fails", "complete a", "report of a dropped one: fails"]);
}

/// A connection that is upgraded has ended its execution.
#[test]
fn an_execution_may_end_before_its_thread_does_anything_else() {
    let log = Log::default();
    let executor = Executor::builder().hook(log.hook("a")).build();
    let execution = executor.run().expect("it runs");
    execution.complete().expect("it completes");
    log.note("goes on");
    assert_eq!(log.take(), ["run a", "complete a", "goes on"]);
}

/// The end of the response and an error race on two threads. The first of them completes the execution.
#[test]
fn the_first_of_two_ends_completes_once() {
    for _ in 0..50 {
        let log = Log::default();
        let executor = Executor::builder().hook(log.hook("a")).build();
        let shared = Mutex::new(Some(block_on(executor.run_async()).expect("it runs")));
        let take = || shared.lock().expect("no panic").take();
        std::thread::scope(|scope| {
            scope.spawn(|| take().map(Execution::complete));
            scope.spawn(|| drop(take()));
        });
        assert_eq!(log.take(), ["run a", "complete a"]);
    }
}

/// The hooks run during unwinding. A panic in one of them must not abort the process.
#[test]
fn a_panic_in_a_hook_is_contained_while_another_panic_unwinds() {
    let log = Log::default();
    let executor =
        reporting(&log).hook(log.hook("a")).to_complete(|| panic!("a second one")).build();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _execution = executor.run().expect("it runs");
        panic!("a first one")
    }));
    assert_eq!(panic.expect_err("it goes on").downcast_ref(), Some(&"a first one"));
    let reported = "report of a dropped one: it panicked: a second one";
    assert_eq!(log.take(), ["run a", "complete a", reported]);
}

#[test]
fn a_panicking_reporter_is_contained() {
    let executor = Executor::builder().reporter(|_| panic!("the receiver is gone")).build();
    let error = failed(executor.wrap(|_| Err::<(), _>(OnPurpose.into())));
    assert_eq!(error.first().cause().downcast_ref(), Some(&OnPurpose));
}

/// Runs while the thread's locals are dropped, including the executor's.
#[test]
fn an_execution_may_be_dropped_when_its_thread_ends() {
    std::thread_local! {
        static KEPT: std::cell::RefCell<Option<ExecutionGuard>> = const { std::cell::RefCell::new(None) };
    }
    let log = Log::default();
    let executor = Executor::builder().hook(log.hook("a")).build();
    std::thread::spawn(move || {
        // Create the local before or after the executor's, so that it is dropped after or before it.
        KEPT.with(|kept| *kept.borrow_mut() = Some(executor.run().expect("it runs")));
    })
    .join()
    .expect("no panic");
    assert_eq!(log.take(), ["run a", "complete a"]);
}

#[test]
fn a_hook_may_call_its_executor() {
    let own = Arc::new(std::sync::OnceLock::<Executor>::new());
    let (for_run, for_complete, log) = (own.clone(), own.clone(), Log::default());
    let (run_log, complete_log) = (log.clone(), log.clone());
    let executor = Executor::builder()
        .to_run(move || Ok(for_run.get().expect("set").wrap(|_| run_log.noted("in run"))?))
        .to_complete(move || {
            Ok(for_complete.get().expect("set").wrap(|_| complete_log.noted("in complete"))?)
        })
        .build();
    own.set(executor.clone()).expect("set once");
    executor.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), ["in run", "body", "in complete"]);
}

/// The reporter is outside the execution: what it wraps is an execution of its own.
#[test]
fn a_reporter_is_called_outside_the_execution_that_has_failed() {
    let own = Arc::new(std::sync::OnceLock::<Executor>::new());
    let (log, theirs) = (Log::default(), own.clone());
    let noted = log.clone();
    let executor = Executor::builder()
        .interlock(Interlock::new())
        .to_complete(|| Err(OnPurpose.into()))
        .reporter(move |_| {
            let executor = theirs.get().expect("set");
            let owners = executor.interlock().expect("it has one").dump().owners.len();
            noted.note(format!("active: {}, owners: {owners}", executor.is_active()));
        })
        .build();
    own.set(executor.clone()).expect("set once");
    failed(executor.wrap(|_| Ok(())));
    failed(block_on(executor.wrap_async(async |_| Ok(()))));
    failed(executor.run().expect("it runs").complete());
    drop(executor.run().expect("it runs"));
    failed(block_on(executor.run_async()).expect("it runs").complete());
    failed(block_on(block_on(executor.run_async()).expect("it runs").complete_async()));
    drop(block_on(executor.run_async()).expect("it runs"));
    assert_eq!(log.take(), ["active: false, owners: 0"; 7]);
}
