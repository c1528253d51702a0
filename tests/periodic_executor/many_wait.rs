//! Each end of a run, with two threads and two tasks that wait for it. An end that wakes one of them leaves the other
//! for ever.

use crate::by_hand::Keeps;
use crate::common::task::{Task, block_on};
use crate::common::{Gate, before_long, soon};
use cabrank::periodic_executor::{CloseOnDrop, Flow, JoinError, Joined, Phase, Registry};
use cabrank::{AsyncPeriodicExecutor, PeriodicExecutor};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

type Outcome = Result<Joined, JoinError>;

fn panicked() -> Outcome {
    Err(JoinError::Panicked("on purpose".into()))
}

/// Returns what a target does when it is let go, and what each join then returns.
fn ends_by_itself() -> [(fn() -> Flow, Outcome); 2] {
    let panics = || std::panic::resume_unwind(Box::new("on purpose"));
    [(|| Flow::Stop, Ok(Joined::Finished)), (panics, panicked())]
}

/// Ways to close an executor from outside.
const CLOSES: [fn(&Registry, &mut Option<CloseOnDrop>); 3] = [
    |_, guard| drop(guard.take()),
    |registry, _| registry.close(),
    |registry, _| registry.shutdown(Duration::MAX).expect("no limit"),
];

/// Starts two joins and two joins with an endless time limit, each on a thread of its own, which counts in `begun`.
fn join_on_threads(
    executor: &PeriodicExecutor,
    begun: &Arc<AtomicUsize>,
) -> [JoinHandle<Outcome>; 4] {
    [None, None, Some(Duration::MAX), Some(Duration::MAX)].map(|limit| {
        let (executor, begun) = (executor.clone(), begun.clone());
        std::thread::spawn(move || {
            begun.fetch_add(1, SeqCst);
            limit.map_or_else(|| executor.join(), |limit| executor.join_timeout(limit))
        })
    })
}

#[track_caller]
fn all_end(joins: [JoinHandle<Outcome>; 4], expected: &Outcome) {
    for join in joins {
        before_long(|| join.is_finished());
        assert_eq!(&join.join().expect("no panic"), expected);
    }
}

/// How often a scene of threads is played: no test can see that a thread waits, so it need not wait each time.
const TURNS: usize = 30;

#[test]
fn the_end_of_a_threads_run_ends_each_join_of_four_threads() {
    for (end, expected) in ends_by_itself() {
        for _ in 0..TURNS {
            let (gate, begun) = (Gate::default(), Arc::default());
            let theirs = gate.clone();
            let executor = PeriodicExecutor::builder(None).unregistered().build(move || {
                theirs.pass();
                end()
            });
            executor.open().expect("a thread");
            let joins = join_on_threads(&executor, &begun);
            before_long(|| begun.load(SeqCst) == 4);
            std::thread::yield_now();
            gate.open();
            all_end(joins, &expected);
        }
    }
}

#[test]
fn a_close_from_outside_ends_each_join_of_four_threads() {
    for close in CLOSES {
        for _ in 0..TURNS {
            let (registry, begun) = (Registry::new(), Arc::default());
            let executor = PeriodicExecutor::builder(None).registry(&registry).build(|| ());
            executor.open().expect("a thread");
            let joins = join_on_threads(&executor, &begun);
            before_long(|| begun.load(SeqCst) == 4 && executor.phase() == Phase::Asleep);
            close(&registry, &mut Some(executor.close_on_drop()));
            all_end(joins, &Ok(Joined::Closed));
        }
    }
}

/// Two shutdowns and a join wait for two executors whose calls are under way.
#[test]
fn the_ends_of_two_runs_end_both_of_two_shutdowns() {
    for _ in 0..TURNS {
        let (registry, gate) = (Registry::new(), Gate::default());
        let executors = [(); 2].map(|()| {
            let theirs = gate.clone();
            let builder = PeriodicExecutor::builder(None).registry(&registry);
            builder.build(move || theirs.pass())
        });
        executors.iter().for_each(|executor| executor.open().expect("a thread"));
        gate.await_arrivals(2);
        let shutdowns = [(); 2].map(|()| {
            let registry = registry.clone();
            std::thread::spawn(move || registry.shutdown(Duration::MAX))
        });
        before_long(|| executors.iter().all(|executor| !executor.is_open()));
        gate.open();
        for shutdown in shutdowns {
            before_long(|| shutdown.is_finished());
            assert_eq!(shutdown.join().expect("no panic"), Ok(()));
        }
        assert!(registry.is_empty());
    }
}

type TaskExecutor = AsyncPeriodicExecutor<Keeps>;

/// Polls two joins and two joins with an endless time limit, each in a task of its own.
#[track_caller]
fn join_in_tasks(executor: &TaskExecutor) -> Vec<Task<Outcome>> {
    let join = |limit: Option<Duration>| {
        let executor = executor.clone();
        let mut join = Task::new(async move {
            match limit {
                Some(limit) => executor.join_timeout(limit).await,
                None => executor.join().await,
            }
        });
        assert!(join.poll().is_none() && join.poll().is_none(), "the run has not ended");
        join
    };
    [None, None, Some(Duration::MAX), Some(Duration::MAX)].map(join).into()
}

#[track_caller]
fn each_was_woken(joins: Vec<Task<Outcome>>, expected: &Outcome) {
    for mut join in joins {
        assert_eq!((join.wakes(), join.poll().as_ref()), (1, Some(expected)));
    }
}

#[test]
fn the_end_of_a_tasks_run_wakes_each_join_of_four_tasks_once() {
    for (end, expected) in ends_by_itself() {
        let runtime = Keeps::default();
        let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
        let executor = builder.build(move || std::future::ready(end()));
        executor.open().expect("a task");
        let joins = join_in_tasks(&executor);
        block_on(runtime.take());
        each_was_woken(joins, &expected);
    }
}

#[test]
fn a_close_or_the_drop_of_the_task_wakes_each_join_of_four_tasks_once() {
    for is_dropped in [false, true] {
        let runtime = Keeps::default();
        let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
        let executor = builder.build(|| async {});
        executor.open().expect("a task");
        let mut task = Task::new(runtime.take());
        while executor.phase() != Phase::Asleep {
            assert!(task.poll().is_none());
        }
        let joins = join_in_tasks(&executor);
        executor.close();
        if is_dropped {
            drop(task);
        } else {
            task.poll().expect("it is closed");
        }
        let expected = if is_dropped { Joined::Abandoned } else { Joined::Closed };
        each_was_woken(joins, &Ok(expected));
    }
}

/// A panic ends each join that waits, though the target has opened its executor again and the run goes on.
#[test]
fn a_panic_after_which_the_run_goes_on_wakes_each_join() {
    let (runtime, own) = (Keeps::default(), Arc::new(Mutex::new(None::<TaskExecutor>)));
    let theirs = own.clone();
    let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
    let executor = builder.build(move || {
        let own = theirs.lock().expect("no panic under this lock").take();
        if let Some(own) = own {
            own.open().expect("it runs");
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        std::future::ready(false)
    });
    *own.lock().expect("no panic under this lock") = Some(executor.clone());
    executor.open().expect("a task");
    let mut task = Task::new(runtime.take());
    let joins = join_in_tasks(&executor);
    assert!(task.poll().is_none(), "the run goes on");
    each_was_woken(joins, &panicked());
    let later = join_in_tasks(&executor);
    task.poll().expect("it is finished");
    each_was_woken(later, &Ok(Joined::Finished));
}

/// A join that is given up takes no wake-up from the others.
#[test]
fn a_join_that_is_given_up_leaves_the_others_waiting() {
    let runtime = Keeps::default();
    let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
    let executor = builder.build(|| std::future::ready(false));
    executor.open().expect("a task");
    let mut joins = join_in_tasks(&executor);
    drop((joins.remove(3), joins.remove(0)));
    block_on(runtime.take());
    each_was_woken(joins, &Ok(Joined::Finished));
    assert_eq!(soon(move || block_on(executor.join())), Ok(Joined::Finished));
}
