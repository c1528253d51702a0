//! Each program here would hang in Rails, or looks as if it might. It is re-entrant, fails at once, or hangs for a
//! reason that the interlock cannot know: then the time limit ends it.
//!
//! | | same thread | other thread that it joins | in a permit block | future of the same task |
//! |---|---|---|---|---|
//! | run, wrap, guard | re-entrant | enters, unless another waits or holds: limit | enters | re-entrant |
//! | load | re-entrant | limit | loads | error at once |
//! | permit | re-entrant | permits | permits | error at once |
//! | unload, reload | error at once | limit | error at once | error at once |
//!
//! Each program runs on a thread of its own and ends by itself. The time limit is by a manual clock, which the test
//! advances once the program waits, so that no result depends on the machine's load.

use crate::common::task::block_on;
use crate::common::{SECOND, SOON, before_long};
use crate::interlock::actor::{deadlock, start, timed_out};
use crate::polling::{poll, yield_once};
use cabrank::execution::interlock::{AcquireError, Running};
use cabrank::execution::{BoxError, ExecutionError, Refused};
use cabrank::{Executor, Interlock, ManualClock, Reloader};
use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;
use std::time::Instant;

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It goes on at once.
    Reentrant,
    /// A call fails at once with a deadlock.
    Error,
    /// A call fails at its time limit: the interlock cannot know for what the program waits.
    Limit,
}
use End::{Error as Refusal, Limit, Reentrant};

/// An interlock with an executor and a reloader.
#[derive(Clone)]
struct Rig {
    interlock: Interlock,
    executor: Executor,
    reloader: Reloader,
    changed: Arc<AtomicBool>,
}

impl Rig {
    fn new(clock: &ManualClock) -> Rig {
        let interlock = Interlock::builder().clock(clock.clock()).acquire_timeout(SECOND).build();
        let executor = Executor::builder().interlock(interlock.clone()).build();
        let changed = Arc::new(AtomicBool::new(false));
        let check = changed.clone();
        let reloader = Reloader::builder(executor.clone())
            .check(move || check.swap(false, SeqCst))
            .build()
            .expect("its only reloader");
        Rig { interlock, executor, reloader, changed }
    }
    fn load(&self) -> Result<(), AcquireError> {
        self.interlock.run(|r| r.load(|_| ()))?
    }
    fn permit(&self) -> Result<(), AcquireError> {
        self.interlock.run(|r| r.permit_loads(|| ()))?
    }
    fn unload(&self) -> Result<(), AcquireError> {
        self.interlock.unload(|_| ())
    }
    fn run(&self) -> Result<(), AcquireError> {
        self.interlock.run(|_| ())
    }
    fn wrap(&self) -> Result<(), BoxError> {
        Ok(self.executor.wrap(|_| Ok(()))?)
    }
    fn reload(&self) -> Result<(), BoxError> {
        self.changed.store(true, SeqCst);
        Ok(self.reloader.wrap(|_| Ok(()))?)
    }
    async fn load_async(&self) -> Result<(), AcquireError> {
        self.interlock.run_async(async |r| r.load_async(async |_| ()).await).await?
    }
}

type Program = fn(&Rig) -> Result<(), BoxError>;

/// Joins a thread that does this, and keeps its share meanwhile.
fn joins<E: Into<BoxError> + Send + 'static>(
    rig: &Rig,
    child: impl FnOnce(&Rig) -> Result<(), E> + Send + 'static,
) -> Result<(), BoxError> {
    let theirs = rig.clone();
    thread::spawn(move || child(&theirs)).join().expect("no panic").map_err(Into::into)
}
fn in_guard(rig: &Rig, body: impl FnOnce(&Rig) -> Result<(), BoxError>) -> Result<(), BoxError> {
    let _guard = rig.executor.run()?;
    body(rig)
}
fn in_run<E: Into<BoxError>>(
    rig: &Rig,
    body: impl FnOnce(&Rig, &mut Running<'_>) -> Result<(), E>,
) -> Result<(), BoxError> {
    rig.interlock.run(|r| body(rig, r))?.map_err(Into::into)
}
/// Calls `inside` in a permit block.
fn in_permit<E: Into<BoxError>>(
    rig: &Rig,
    inside: impl FnOnce(&Rig) -> Result<(), E>,
) -> Result<(), BoxError> {
    rig.interlock.run(|r| r.permit_loads(|| inside(rig)))??.map_err(Into::into)
}
fn in_task(
    rig: &Rig,
    body: impl AsyncFnOnce(&Rig, &mut Running<'_>) -> Result<(), AcquireError>,
) -> Result<(), BoxError> {
    Ok(block_on(rig.interlock.run_async(async |r| body(rig, r).await))??)
}

/// Returns a task that has entered, and is not polled again.
fn runs_for_ever(rig: &Rig) -> impl Future<Output = Result<(), AcquireError>> {
    let mut runs = Box::pin(rig.interlock.run_async(async |_| pending::<()>().await));
    assert!(poll(&mut runs).is_pending());
    runs
}

/// Returns a task that has entered. From its next poll on it loads.
fn loads_next(rig: &Rig) -> impl Future + Unpin {
    let mut loads = Box::pin(rig.interlock.run_async(async |r| {
        yield_once().await;
        r.load_async(async |_| pending::<()>().await).await
    }));
    assert!(poll(&mut loads).is_pending());
    loads
}

/// Calls `body` in a task whose load was dropped while another task of this thread loads.
fn in_task_without_share(
    rig: &Rig,
    body: impl AsyncFnOnce(&Rig, &mut Running<'_>) -> Result<(), AcquireError>,
) -> Result<(), BoxError> {
    let mut holder = loads_next(rig);
    in_task(rig, async |rig, r| {
        {
            let mut load = Box::pin(r.load_async(async |_| ()));
            assert!(poll(&mut load).is_pending() && poll(&mut holder).is_pending());
        }
        assert!(!r.has_share());
        body(rig, r).await
    })
}

const PROGRAMS: &[(&str, End, Program)] = &[
    // A guard in scope, then a closure or another guard on the same thread.
    ("a wrap in a guard", Reentrant, |rig| in_guard(rig, Rig::wrap)),
    ("a run in a guard", Reentrant, |rig| in_guard(rig, |rig| Ok(rig.run()?))),
    ("a load in a guard", Reentrant, |rig| in_guard(rig, |rig| Ok(rig.load()?))),
    ("a permit block in a guard", Reentrant, |rig| in_guard(rig, |rig| Ok(rig.permit()?))),
    ("a guard in a guard", Reentrant, |rig| {
        in_guard(rig, |rig| in_guard(rig, |rig| Ok(rig.load()?)))
    }),
    ("an unload in a guard", Refusal, |rig| in_guard(rig, |rig| Ok(rig.unload()?))),
    ("a reload in a guard", Refusal, |rig| in_guard(rig, Rig::reload)),
    // A closure in a closure.
    ("a wrap in a run", Reentrant, |rig| in_run(rig, |rig, _| rig.wrap())),
    ("a load in a run in a run", Reentrant, |rig| in_run(rig, |rig, _| rig.load())),
    ("a load in a load", Reentrant, |rig| in_run(rig, |rig, r| r.load(|_| rig.load())?)),
    ("a run in an unload", Reentrant, |rig| Ok(rig.interlock.unload(|_| rig.load())??)),
    ("a permit block in a load", Refusal, |rig| in_run(rig, |rig, r| r.load(|_| rig.permit())?)),
    ("an unload in a run", Refusal, |rig| in_run(rig, |rig, _| rig.unload())),
    ("an unload in a load", Refusal, |rig| in_run(rig, |rig, r| r.load(|_| rig.unload())?)),
    ("a reload in a wrap", Refusal, |rig| Ok(rig.executor.wrap(|_| rig.reload())?)),
    ("a reload in a run", Refusal, |rig| in_run(rig, |rig, _| rig.reload())),
    // Inside a permit block of the same thread.
    ("a load in a permit block", Reentrant, |rig| in_permit(rig, Rig::load)),
    ("a permit block in a permit block", Reentrant, |rig| in_permit(rig, Rig::permit)),
    ("a guard in a permit block", Reentrant, |rig| {
        in_permit(rig, |rig| in_guard(rig, |rig| Ok(rig.load()?)))
    }),
    ("an unload in a permit block", Refusal, |rig| in_permit(rig, Rig::unload)),
    ("a reload in a permit block", Refusal, |rig| in_permit(rig, Rig::reload)),
    // A load waits for the first execution, which this thread is in.
    ("a run in a permit block in another execution", Refusal, |rig| {
        let mut first = rig.executor.run()?;
        let permits = first.running().expect("an interlock");
        let mut second = permits.permit_loads(|| rig.executor.run())??;
        let theirs = rig.clone();
        let load = start(move || theirs.load());
        before_long(|| rig.interlock.dump().owners.iter().any(|owner| owner.wait.is_some()));
        let third = second.running().expect("an interlock").permit_loads(|| rig.run())?;
        drop((first, second));
        load.done()?;
        Ok(third?)
    }),
    // A thread that the execution waits for.
    ("a join of a run", Reentrant, |rig| in_run(rig, |rig, _| joins(rig, Rig::run))),
    ("a join of a permit block", Reentrant, |rig| in_run(rig, |rig, _| joins(rig, Rig::permit))),
    ("a join of a load", Limit, |rig| in_run(rig, |rig, _| joins(rig, Rig::load))),
    ("a join of a load in a guard", Limit, |rig| in_guard(rig, |rig| joins(rig, Rig::load))),
    ("a join of an unload", Limit, |rig| in_run(rig, |rig, _| joins(rig, Rig::unload))),
    ("a join of a reload", Limit, |rig| in_guard(rig, |rig| joins(rig, Rig::reload))),
    ("a join of a run in a load", Limit, |rig| {
        in_run(rig, |rig, r| r.load(|_| joins(rig, Rig::run)).map_err(BoxError::from)?)
    }),
    ("a join of a load in a permit block", Reentrant, |rig| {
        in_permit(rig, |rig| joins(rig, Rig::load))
    }),
    ("a join of an unload in a permit block", Limit, |rig| {
        in_permit(rig, |rig| joins(rig, Rig::unload))
    }),
    ("a load by a share of another thread", Refusal, |rig| {
        in_run(rig, |_, r| {
            thread::scope(|scope| scope.spawn(|| r.load(|_| ())).join().expect("no panic"))
        })
    }),
    // Futures.
    ("a run in a task", Reentrant, |rig| in_task(rig, async |rig, _| rig.run())),
    ("a load in a task in a run", Reentrant, |rig| {
        in_run(rig, |rig, _| block_on(rig.load_async()))
    }),
    ("a blocking load in a task", Reentrant, |rig| in_task(rig, async |rig, _| rig.load())),
    ("an unload in a task", Refusal, |rig| {
        in_task(rig, async |rig, _| rig.interlock.unload_async(async |_| ()).await)
    }),
    ("a load beside a permit block that waits for it", Reentrant, |rig| {
        in_task(rig, async |rig, r| r.permit_loads_async(rig.load_async()).await?)
    }),
    // The load of the branch waits for the sharer; both are polled by this thread only.
    ("a load beside a load of the same task", Refusal, |rig| {
        let _sharer = runs_for_ever(rig);
        in_task(rig, async |rig, r| {
            let mut first = Box::pin(r.load_async(async |_| ()));
            assert!(poll(&mut first).is_pending());
            rig.load()
        })
    }),
    ("a load by an execution that has left its section", Refusal, |rig| {
        in_task(rig, async |rig, r| {
            r.load_async(async |_| {
                let mut escaped = rig.executor.run_async().await.expect("it is nested");
                let load = move || escaped.running().expect("an interlock").load(|_| ());
                thread::spawn(load).join().expect("no panic")
            })
            .await?
        })
    }),
    // The holder is a task that only this thread polls.
    ("a blocking run in a task that misses its share", Refusal, |rig| {
        in_task_without_share(rig, async |rig, _| rig.run())
    }),
    ("a blocking load in a task that misses its share", Refusal, |rig| {
        in_task_without_share(rig, async |_, r| r.load(|_| ()))
    }),
    ("a hook of a dropped task that misses its share", Refusal, |rig| {
        let (theirs, (report, ended)) = (rig.clone(), channel());
        let hook = move || Ok(report.send(theirs.run())?);
        let executor =
            Executor::builder().interlock(rig.interlock.clone()).to_complete(hook).build();
        let mut holder = loads_next(rig);
        let mut wrap = Box::pin(executor.wrap_async(async |execution| {
            let running = execution.running().expect("an interlock");
            Ok(running.load_async(async |_| ()).await?)
        }));
        assert!(poll(&mut wrap).is_pending() && poll(&mut holder).is_pending());
        drop(wrap);
        Ok(ended.recv()??)
    }),
    ("a load of another task in a run in a load", Refusal, |rig| {
        let mut other = Box::pin(rig.interlock.run_async(async |r| {
            let mut permit = Box::pin(r.permit_loads_async(pending::<()>()));
            assert!(poll(&mut permit).is_pending());
            yield_once().await;
            drop(permit);
            r.load_async(async |_| ()).await
        }));
        assert!(poll(&mut other).is_pending());
        let mut inside = || match poll(&mut other) {
            Poll::Ready(ended) => ended?,
            Poll::Pending => panic!("it waits for the load around it"),
        };
        in_run(rig, |rig, r| r.load(|_| rig.interlock.run(|_| inside()))??)
    }),
    ("a blocking load beside a task of the same thread", Limit, |rig| {
        let _sharer = runs_for_ever(rig);
        Ok(rig.load()?)
    }),
    ("a load beside a leaked task", Limit, |rig| {
        std::mem::forget(runs_for_ever(rig));
        Ok(rig.load()?)
    }),
];

/// Finds the interlock's error below those of executions.
fn end_of(result: &Result<(), BoxError>) -> End {
    let Err(error) = result else { return Reentrant };
    let mut error: &(dyn Error + 'static) = &**error;
    while let Some(outer) = error.downcast_ref::<ExecutionError>() {
        error = outer.first().cause();
    }
    match (error.downcast_ref(), error.downcast_ref()) {
        (Some(AcquireError::TimedOut(_)), _) => Limit,
        (Some(_), _) | (_, Some(Refused::InsideExecution)) => Refusal,
        _ => panic!("another error: {error}"),
    }
}

#[test]
fn each_program_ends_as_the_table_says() {
    assert!(PROGRAMS.len() >= 23);
    for (name, expected, program) in PROGRAMS {
        let clock = ManualClock::new();
        let rig = Rig::new(&clock);
        let theirs = rig.clone();
        let mut doing = Some(start(move || program(&theirs)));
        let begun = Instant::now();
        let ended = loop {
            // Only a wait advances the clock, so a program that needs no limit sees none.
            let waits = rig.interlock.dump().owners.iter().any(|owner| owner.wait.is_some());
            if waits && *expected == Limit {
                clock.advance(SECOND);
            }
            match doing.take().expect("it is put back").ready() {
                Ok(result) => break end_of(&result),
                Err(still) => doing = Some(still),
            }
            assert!(begun.elapsed() < SOON, "{name} hangs:\n{}", rig.interlock.dump());
            thread::yield_now();
        };
        assert_eq!(ended, *expected, "{name}");
    }
}

/// The classic of Rails' guide. The error says where the child waits, and for which execution.
#[test]
fn the_error_of_the_guides_deadlock_names_both() -> Result<(), ExecutionError> {
    let clock = ManualClock::new();
    let rig = Rig::new(&clock);
    rig.executor.wrap(|_| {
        let theirs = rig.clone();
        let child = start(move || theirs.load());
        let waits = |owner: &cabrank::execution::interlock::OwnerDump| owner.wait.is_some();
        before_long(|| rig.interlock.dump().owners.iter().any(waits));
        clock.advance(SECOND);
        let blocked = timed_out(child.done());
        let victim = blocked.dump.owner(blocked.victim).expect("it waited");
        let wait = victim.wait.as_ref().expect("it waited");
        assert!(wait.at.file().ends_with("deadlocks.rs"));
        let parent: Vec<_> = blocked.dump.blockers(wait.blocked_by).collect();
        let here = thread::current().id();
        assert!(parent.len() == 1 && parent[0].thread.as_ref().is_some_and(|it| it.id() == here));
        deadlock(rig.unload());
        Ok(())
    })
}
