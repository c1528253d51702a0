//! The place of a call in the source: each public call that takes one names the line of its caller, in dumps and in
//! errors. A call that does not pass the place on names a line of the library.

use crate::common::task::block_on;
use crate::polling::poll;
use cabrank::execution::interlock::{AcquireError, Loaded, Running};
use cabrank::execution::{BoxError, ExecutionError, Executor, Interlock, Reloader};
use std::error::Error;
use std::panic::Location;

type At = &'static Location<'static>;

/// A place is compared with its own line, so each call stands on the line of its `here!`.
macro_rules! here {
    ($call:expr) => {
        ($call, line!())
    };
}

#[track_caller]
fn is_here((at, line): (At, u32), what: &str) {
    assert_eq!((at.file(), at.line()), (file!(), line), "{what}");
}

/// Returns where the only execution has entered.
fn entered(interlock: &Interlock) -> At {
    interlock.dump().owners[0].entered_at
}

/// Returns the place that the interlock's error names, below those of executions.
#[track_caller]
fn refused<T>(result: Result<T, impl Into<BoxError>>) -> At {
    let error = result.err().expect("it is refused").into();
    let mut error: &(dyn Error + 'static) = &*error;
    while let Some(outer) = error.downcast_ref::<ExecutionError>() {
        error = outer.first().cause();
    }
    error.downcast_ref::<AcquireError>().expect("an error of the interlock").blocked().at
}

#[test]
fn a_dump_names_the_line_at_which_each_execution_has_entered() {
    let interlock = Interlock::new();
    let at = || entered(&interlock);
    let (at_run, line) = here!(interlock.run(|_| at()));
    is_here((at_run.expect("no limit"), line), "Interlock::run");
    let (run, line) = here!(interlock.run_async(async |_| at()));
    is_here((block_on(run).expect("no limit"), line), "Interlock::run_async");
    let (unload, line) = here!(interlock.unload(|_| at()));
    is_here((unload.expect("no limit"), line), "Interlock::unload");
    let (unload, line) = here!(interlock.unload_async(async |_| at()));
    is_here((block_on(unload).expect("no limit"), line), "Interlock::unload_async");

    let executor = Executor::builder().interlock(interlock.clone()).build();
    let (wrap, line) = here!(executor.wrap(|_| Ok(at())));
    is_here((wrap.expect("no limit"), line), "Executor::wrap");
    let (wrap, line) = here!(executor.wrap_async(async |_| Ok(at())));
    is_here((block_on(wrap).expect("no limit"), line), "Executor::wrap_async");
    let (guard, line) = here!(executor.run().expect("no limit"));
    is_here((at(), line), "Executor::run");
    drop(guard);
    let (run, line) = here!(executor.run_async());
    let execution = block_on(run).expect("no limit");
    is_here((at(), line), "Executor::run_async");
    drop(execution);

    let reloader = Reloader::builder(executor.clone()).build().expect("valid");
    let (wrap, line) = here!(reloader.wrap(|_| Ok(at())));
    is_here((wrap.expect("no limit"), line), "Reloader::wrap");
    let (wrap, line) = here!(reloader.wrap_async(async |_| Ok(at())));
    is_here((block_on(wrap).expect("no limit"), line), "Reloader::wrap_async");
    let (guard, line) = here!(reloader.run().expect("no limit"));
    is_here((at(), line), "Reloader::run");
    drop(guard);
    let (run, line) = here!(reloader.run_async());
    let execution = block_on(run).expect("no limit");
    is_here((at(), line), "Reloader::run_async");
    drop((execution, reloader));

    let (seen, theirs) = (std::sync::Arc::new(std::sync::OnceLock::new()), interlock.clone());
    let noted = seen.clone();
    let builder = Reloader::builder(executor);
    let reloader = builder.to_prepare(move |_| Ok(_ = noted.set(entered(&theirs))));
    let reloader = reloader.build().expect("valid");
    let (prepared, line) = here!(reloader.prepare());
    prepared.expect("no limit");
    is_here((seen.get().expect("it was called"), line), "Reloader::prepare");
}

/// A section that can never begin: the calls below are made in a task whose other branch waits.
async fn in_branch<T>(
    interlock: &Interlock,
    body: impl AsyncFnOnce(&mut Running<'_>) -> T,
) -> Result<T, AcquireError> {
    let mut sharer = Box::pin(interlock.run_async(async |_| std::future::pending::<()>().await));
    assert!(poll(&mut sharer).is_pending());
    let waits = async |r: &mut Running<'_>| {
        let mut load = Box::pin(r.load_async(async |_| ()));
        assert!(poll(&mut load).is_pending());
        interlock.run_async(body).await
    };
    interlock.run_async(waits).await?
}

#[test]
fn an_error_names_the_line_of_the_call_that_was_refused() {
    let (interlock, value) = (Interlock::new(), Loaded::<i32>::new());
    let refusals = async |r: &mut Running<'_>| {
        let (loaded, line) = here!(r.load(|_| ()));
        is_here((refused(loaded), line), "Running::load");
        let (load, line) = here!(r.load_async(async |_| ()));
        is_here((refused(load.await), line), "Running::load_async");
        let (permitted, line) = here!(r.permit_loads(|| ()));
        is_here((refused(permitted), line), "Running::permit_loads");
        let (permit, line) = here!(r.permit_loads_async(async {}));
        is_here((refused(permit.await), line), "Running::permit_loads_async");
        let (got, line) = here!(value.get_or_load(r, || Ok::<_, AcquireError>(1)));
        is_here((refused(got), line), "Loaded::get_or_load");
        let (unloaded, line) = here!(interlock.unload(|_| ()));
        is_here((refused(unloaded), line), "Interlock::unload");
        let (unload, line) = here!(interlock.unload_async(async |_| ()));
        is_here((refused(unload.await), line), "Interlock::unload_async");
    };
    block_on(in_branch(&interlock, refusals)).expect("no limit");
}

/// The reload after a body waits for another execution, here until a limit of no time.
#[test]
fn an_error_of_a_reload_names_the_line_that_began_or_completed_its_execution() {
    let interlock = Interlock::new();
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let builder = Reloader::builder(executor.clone()).always();
    let reloader = builder.acquire_timeout(std::time::Duration::ZERO).build().expect("valid");
    let beside = || block_on(executor.run_async()).expect("no limit");

    let (wrap, line) = here!(reloader.wrap(|_| Ok(beside())));
    is_here((refused(wrap), line), "Reloader::wrap");
    let (wrap, line) = here!(reloader.wrap_async(async |_| Ok(beside())));
    is_here((refused(block_on(wrap)), line), "Reloader::wrap_async");
    let (guard, other) = (reloader.run().expect("it is alone"), beside());
    let (completed, line) = here!(guard.complete());
    is_here((refused(completed), line), "ExecutionGuard::complete");
    drop(other);
    let (execution, other) = (block_on(reloader.run_async()).expect("it is alone"), beside());
    let (completed, line) = here!(execution.complete());
    is_here((refused(completed), line), "Execution::complete");
    drop(other);
    let (execution, other) = (block_on(reloader.run_async()).expect("it is alone"), beside());
    let (complete, line) = here!(execution.complete_async());
    is_here((refused(block_on(complete)), line), "Execution::complete_async");
    drop(other);
}

/// A wait that goes on is shown by its line, too.
#[test]
fn a_dump_names_the_line_of_each_wait() {
    let interlock = Interlock::new();
    let sharer = block_on(Executor::builder().interlock(interlock.clone()).build().run_async());
    let (unload, line) = here!(interlock.unload_async(async |_| ()));
    let mut unload = Box::pin(unload);
    assert!(poll(&mut unload).is_pending());
    let waits = || interlock.dump().owners.into_iter().find_map(|owner| owner.wait);
    is_here((waits().expect("it waits").at, line), "Interlock::unload_async");
    drop(unload);
    let mut load = Box::pin(interlock.run_async(async |r| {
        let (load, line) = here!(r.load_async(async |_| ()));
        let mut load = Box::pin(load);
        assert!(poll(&mut load).is_pending());
        is_here((waits().expect("it waits").at, line), "Running::load_async");
        drop(load);
    }));
    assert!(poll(&mut load).is_ready());
    drop(sharer.expect("no limit"));
    assert!(interlock.dump().owners.is_empty());
}
