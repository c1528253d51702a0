//! Executions inside executions: closures, guards and futures, of one executor and of several.

use crate::common::log::{Log, failed};
use crate::common::task::{Task, block_on};
use crate::common::{before_long, soon};
use crate::polling::yield_once;
use cabrank::execution::interlock::{Loaded, OwnerState};
use cabrank::execution::{BoxError, Execution, Executor, Interlock};
use std::thread;

fn with_hook(interlock: &Interlock, log: &Log, name: &'static str) -> Executor {
    Executor::builder().interlock(interlock.clone()).hook(log.hook(name)).build()
}
fn waits(interlock: &Interlock, state: OwnerState) -> bool {
    interlock.dump().owners.iter().any(|owner| owner.state == state)
}
/// Begins an unload on a thread of its own, which waits for the executions that run.
fn unload_beside(interlock: &Interlock) -> thread::JoinHandle<()> {
    let theirs = interlock.clone();
    let thread = thread::spawn(move || theirs.unload(|_| ()).expect("no deadlock"));
    before_long(|| waits(interlock, OwnerState::WaitingToUnload));
    thread
}

type Nest = fn(&Executor, &mut dyn FnMut());

/// An execution as a closure, as a guard, and as a future.
const FORMS: [(&str, Nest); 4] = [
    ("wrap", |executor, inside| {
        let body = |_: &mut Execution<'_>| {
            inside();
            Ok(())
        };
        executor.wrap(body).expect("it runs");
    }),
    ("run", |executor, inside| {
        let execution = executor.run().expect("it runs");
        inside();
        execution.complete().expect("it completes");
    }),
    ("wrap_async", |executor, inside| {
        block_on(executor.wrap_async(async |_| {
            yield_once().await;
            inside();
            Ok(())
        }))
        .expect("it runs");
    }),
    ("run_async", |executor, inside| {
        let mut execution = block_on(executor.run_async()).expect("it runs");
        block_on(execution.within_async(async |_| {
            yield_once().await;
            inside();
        }));
        block_on(execution.complete_async()).expect("it completes");
    }),
];

/// A thread that waited for itself would hang: an unload waits beside it all the time.
#[test]
fn each_form_nests_in_each_form_while_an_unload_waits() {
    for (outer_name, outer) in FORMS {
        for (inner_name, inner) in FORMS {
            let (interlock, log) = (Interlock::new(), Log::default());
            let (one, two) =
                (with_hook(&interlock, &log, "one"), with_hook(&interlock, &log, "two"));
            soon(move || {
                let mut unloads = None;
                outer(&one, &mut || {
                    unloads = Some(unload_beside(&interlock));
                    inner(&one, &mut || assert!(one.is_active()));
                    inner(&two, &mut || {
                        assert!(one.is_active() && two.is_active());
                        assert_eq!(interlock.generation(), 0);
                    });
                });
                assert!(!one.is_active() && !two.is_active());
                unloads.expect("it was begun").join().expect("no panic");
                assert_eq!(interlock.generation(), 1);
                assert!(interlock.dump().owners.is_empty());
            });
            let order = ["run one", "run two", "complete two", "complete one"];
            assert_eq!(log.take(), order, "{inner_name} in {outer_name}");
        }
    }
}

/// The inner execution is a view of the same owner: it loads, and the outer one sees the value.
#[test]
fn each_form_of_an_inner_execution_loads() {
    for (_, outer) in FORMS {
        let (interlock, word) = (Interlock::new(), Loaded::new());
        let one = Executor::builder().interlock(interlock.clone()).build();
        let two = one.clone();
        outer(&one, &mut || {
            let loaded = two.wrap(|execution| {
                assert!(execution.is_nested());
                let running = execution.running().expect("there is an interlock");
                let length = word.get_or_load(running, || Ok::<_, BoxError>("loaded"))?.len();
                assert_eq!(execution.get(&word).as_deref(), Some(&"loaded"));
                Ok(length)
            });
            assert_eq!(loaded.expect("it loads"), 6);
            let mut guard = two.run().expect("it runs");
            let running = guard.running().expect("there is an interlock");
            assert_eq!(word.get(running).as_deref(), Some(&"loaded"));
        });
    }
}

/// In a permit block an inner execution is an owner of its own, without hooks.
#[test]
fn in_a_permit_block_an_inner_execution_waits_for_the_holder_and_runs_no_hooks() {
    let (interlock, log) = (Interlock::new(), Log::default());
    let executor = with_hook(&interlock, &log, "a");
    let ended = executor.wrap(|execution| {
        let running = execution.running().ok_or("no interlock")?;
        Ok(running.permit_loads(|| {
            let nested = executor.wrap(|inner| {
                let inner = inner.running().ok_or("no interlock")?;
                assert_eq!(interlock.dump().owners.len(), 2);
                log.note("body");
                Ok(inner.has_share())
            });
            assert!(nested.expect("it runs"));
        })?)
    });
    ended.expect("it runs");
    assert_eq!(log.take(), ["run a", "body", "complete a"]);
}

#[test]
fn guards_are_dropped_in_any_order() {
    let (interlock, log) = (Interlock::new(), Log::default());
    let (one, two) = (with_hook(&interlock, &log, "one"), with_hook(&interlock, &log, "two"));
    let (outer, inner) = (one.run().expect("it runs"), two.run().expect("it runs"));
    let nested = one.run().expect("it runs");
    drop(outer);
    assert!(!one.is_active() && two.is_active());
    assert_eq!(interlock.dump().owners.len(), 1, "the share is kept by the inner execution");
    drop(nested);
    drop(inner);
    assert!(interlock.dump().owners.is_empty());
    assert_eq!(log.take(), ["run one", "run two", "complete one", "complete two"]);
}

#[test]
fn a_task_begins_an_execution_and_another_thread_ends_it() {
    let (interlock, log) = (Interlock::new(), Log::default());
    let executor = with_hook(&interlock, &log, "a");
    let mut execution = block_on(executor.run_async()).expect("it runs");
    assert!(!executor.is_active(), "this thread is free");
    let unloads = unload_beside(&interlock);
    let theirs = executor.clone();
    let ends = thread::spawn(move || {
        let nested = execution.within(|_| theirs.wrap(|_| Ok("nested")));
        assert_eq!(nested.expect("it runs"), "nested");
        assert!(!theirs.is_active());
        block_on(execution.complete_async()).expect("it completes");
    });
    ends.join().expect("no panic");
    unloads.join().expect("no panic");
    assert_eq!(log.take(), ["run a", "complete a"]);
}

/// It waits for an unload that waits for the execution around it.
#[test]
fn a_guard_outlives_the_closure_around_it() {
    let (interlock, log) = (Interlock::new(), Log::default());
    let (one, two) = (with_hook(&interlock, &log, "one"), with_hook(&interlock, &log, "two"));
    let inner = one.wrap(|_| Ok(two.run()?)).expect("it runs");
    assert!(two.is_active() && !one.is_active());
    let unloads = unload_beside(&interlock);
    inner.complete().expect("it completes");
    unloads.join().expect("no panic");
    assert_eq!(log.take(), ["run one", "run two", "complete one", "complete two"]);
}

/// The future began inside an execution, and goes on after it.
#[test]
fn a_future_that_is_taken_out_of_the_execution_around_it_keeps_the_share() {
    let interlock = Interlock::new();
    let [outer, inner] = [(); 2].map(|()| Executor::builder().interlock(interlock.clone()).build());
    let theirs = interlock.clone();
    let mut task = Task::new(async move {
        let body = async |_: &mut Execution<'_>| {
            let before = theirs.generation();
            yield_once().await;
            yield_once().await;
            Ok((before, theirs.generation()))
        };
        inner.wrap_async(body).await
    });
    assert!(outer.wrap(|_| Ok(task.poll().is_none())).expect("it runs"));
    let unloads = unload_beside(&interlock);
    assert!(task.poll().is_none());
    let (before, after) = task.poll().expect("it is at its end").expect("it succeeds");
    assert_eq!(before, after, "it runs on one generation");
    unloads.join().expect("no panic");
    assert_eq!(interlock.generation(), 1);
}

/// A nested failure is its caller's, and is not reported.
#[test]
fn an_inner_executor_reports_and_a_nested_execution_does_not() {
    let log = Log::default();
    let (one, two) = (crate::common::log::reporting(&log).build(), Executor::builder().build());
    let error = failed(one.wrap(|_| {
        let nested = failed(one.wrap(|_| Err::<(), _>("nested".into())));
        assert!(log.take().is_empty());
        Ok(two.wrap(|_| Err::<(), _>(nested.into()))?)
    }));
    assert_eq!(log.take().len(), 1);
    assert!(error.to_string().contains("nested"), "{error}");
}

/// The thread's other locals may be gone by then.
#[test]
fn an_execution_nests_in_a_destructor_of_a_thread_local() {
    struct Wraps(Executor, Option<Execution<'static>>);
    impl Drop for Wraps {
        fn drop(&mut self) {
            let mut execution = self.1.take().expect("it is there");
            let nested = execution.within(|_| self.0.wrap(|nested| Ok(nested.is_nested())));
            assert!(nested.expect("it does not wait"));
        }
    }
    thread_local! {
        static LAST: std::cell::RefCell<Option<Wraps>> = const { std::cell::RefCell::new(None) };
    }
    let interlock = Interlock::new();
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let execution = block_on(executor.run_async()).expect("it runs");
    let unloads = unload_beside(&interlock);
    let ends = thread::spawn(move || {
        LAST.with(|last| *last.borrow_mut() = Some(Wraps(executor.clone(), Some(execution))));
        let other = Executor::builder().build();
        other.wrap(|_| Ok(())).expect("it runs");
    });
    ends.join().expect("no panic");
    unloads.join().expect("no panic");
}
