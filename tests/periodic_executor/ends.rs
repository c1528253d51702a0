//! Ends that no caller asked for, and when values are dropped.

use crate::both::{SECOND, Threads};
use crate::common::soon;
use cabrank::periodic_executor::{Flow, Joined, OpenError, Registry};
use cabrank::{AsyncPeriodicExecutor, PeriodicExecutor};
use std::error::Error;
use std::sync::mpsc::{Sender, channel};

#[test]
fn a_thread_that_cannot_be_started_is_reported_and_leaves_it_stopped() {
    let registry = Registry::new();
    let executor = PeriodicExecutor::builder(SECOND)
        .registry(&registry)
        .stack_size(usize::MAX / 2)
        .build(|| Flow::Stop);
    for _ in 0..2 {
        assert!(matches!(executor.open(), Err(OpenError::NotStarted(_))));
        assert_eq!(executor.join(), Ok(Joined::Abandoned));
        assert!(registry.is_empty() && !executor.is_open());
    }
}

/// The system's threads have no such names. An earlier version panicked.
#[test]
fn a_name_that_no_thread_can_have_is_an_error() {
    let builder = PeriodicExecutor::builder(SECOND).unregistered().name("a\0b");
    let executor = builder.build(|| Flow::Stop);
    let error = executor.open().expect_err("no such name");
    assert!(matches!(error, OpenError::NotStarted(_)));
    assert_eq!(error.to_string(), "the executor could not be started");
    assert!(error.source().is_some_and(|cause| !cause.to_string().is_empty()));
    assert_eq!(executor.join(), Ok(Joined::Abandoned));
}

/// A target owns its state; both are dropped with the executor, and a panic there is contained.
#[test]
fn a_target_is_dropped_with_its_executor() {
    struct Bomb(Sender<()>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.send(()).expect("the test waits");
            std::panic::resume_unwind(Box::new("dropped"));
        }
    }
    let (dropped, receiver) = channel();
    let bomb = Bomb(dropped);
    let executor = PeriodicExecutor::builder(None).unregistered().build(move || {
        let _ = &bomb;
    });
    executor.open().expect("a thread");
    drop(executor);
    soon(move || receiver.recv()).expect("it is dropped");
}

/// The names that an operator reads in a log.
#[test]
fn a_printed_executor_shows_its_name_and_its_phase() {
    let registry = Registry::new();
    let builder = PeriodicExecutor::builder(SECOND).name("beat").registry(&registry);
    let executor = builder.build(|| Flow::Stop);
    assert_eq!(format!("{executor:?}"), r#"PeriodicExecutor { name: "beat", phase: Stopped, .. }"#);
    assert_eq!(format!("{:?}", executor.close_on_drop()), r#"CloseOnDrop("beat")"#);
    assert_eq!(format!("{registry:?}"), "Registry { open: 0 }");
    let task = AsyncPeriodicExecutor::builder(SECOND, Threads).name("beat").build(|| async {});
    assert_eq!(
        format!("{task:?}"),
        r#"AsyncPeriodicExecutor { name: "beat", phase: Stopped, .. }"#
    );
}

/// Each way to say that a target goes on or stops.
#[test]
fn a_targets_answer_may_have_any_of_its_types() {
    use std::ops::ControlFlow::{self, Break, Continue};
    let answers = [
        (Flow::from(()), Flow::Continue),
        (Flow::from(true), Flow::Continue),
        (Flow::from(false), Flow::Stop),
        (Flow::from(Continue::<()>(())), Flow::Continue),
        (Flow::from(Break(1)), Flow::Stop),
    ];
    for (answer, expected) in answers {
        assert_eq!(answer, expected);
    }
    let mut calls = 0;
    let builder = PeriodicExecutor::builder(std::time::Duration::ZERO).unregistered();
    let executor = builder.build(move || -> ControlFlow<()> {
        calls += 1;
        if calls < 3 { Continue(()) } else { Break(()) }
    });
    executor.open().expect("a thread");
    assert_eq!(soon(move || executor.join()), Ok(Joined::Finished));
}

/// The compiler checks this.
#[test]
fn handles_may_be_shared_and_tasks_sent() {
    fn is_shared<T: Send + Sync + 'static>() {}
    fn is_send<T: Send>(_: &T) {}
    is_shared::<PeriodicExecutor>();
    is_shared::<AsyncPeriodicExecutor<Threads>>();
    is_shared::<Registry>();
    is_shared::<cabrank::periodic_executor::CloseOnDrop>();
    let executor = AsyncPeriodicExecutor::builder(SECOND, Threads).build(|| async {});
    is_send(&executor.join());
    is_send(&executor.join_timeout(SECOND));
}
