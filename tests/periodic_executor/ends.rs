//! Ends that nobody asked for, and what is dropped when.

use crate::both::{SECOND, Threads};
use crate::common::soon;
use crate::common::task::block_on;
use cabrank::{
    AsyncPeriodicExecutor, BoxFuture, Flow, Joined, OpenError, PeriodicExecutor, Registry, Runtime,
};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn a_thread_that_cannot_be_started_is_reported_and_leaves_it_stopped() {
    let registry = Registry::new();
    let executor = PeriodicExecutor::builder(SECOND)
        .registry(&registry)
        .stack_size(usize::MAX / 2)
        .target(|| Flow::Stop);
    for _ in 0..2 {
        assert!(matches!(executor.open(), Err(OpenError::NotStarted(_))));
        assert_eq!(executor.join(), Ok(Joined::Abandoned));
        assert!(registry.is_empty() && !executor.is_open());
    }
}

#[test]
fn a_task_that_its_runtime_drops_has_ended() {
    #[derive(Clone, Default)]
    struct Keeps(Arc<Mutex<Vec<BoxFuture<()>>>>);
    impl Runtime for Keeps {
        type Sleep = std::future::Pending<()>;
        fn spawn(&self, task: BoxFuture<()>) {
            self.0.lock().expect("no panic").push(task);
        }
        fn sleep_until(&self, _: Instant) -> Self::Sleep {
            std::future::pending()
        }
    }
    let runtime = Keeps::default();
    let builder = AsyncPeriodicExecutor::builder(SECOND, runtime.clone()).unregistered();
    let executor = builder.target(|| async {});
    executor.open().expect("a task");
    assert!(executor.is_open());
    drop(runtime.0.lock().expect("no panic").pop());
    assert_eq!(block_on(executor.join()), Ok(Joined::Abandoned));
    executor.open().expect("a task");
    let task = runtime.0.lock().expect("no panic").pop().expect("it was spawned");
    executor.close();
    block_on(task);
    assert_eq!(block_on(executor.join()), Ok(Joined::Closed));
}

/// A target owns what it changes; it is dropped with the executor, and its panics then go no further.
#[test]
fn a_target_is_dropped_with_its_executor() {
    struct Bomb(Sender<()>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.send(()).expect("the test waits");
            std::panic::resume_unwind(Box::new("dropped"));
        }
    }
    let (dropped, told) = channel();
    let bomb = Bomb(dropped);
    let executor = PeriodicExecutor::builder(Duration::MAX).unregistered().target(move || {
        let _ = &bomb;
    });
    executor.open().expect("a thread");
    drop(executor);
    soon(move || told.recv()).expect("it is dropped");
}

/// Checked by the compiler.
#[test]
fn handles_may_be_shared_and_tasks_sent() {
    fn is_shared<T: Send + Sync + 'static>() {}
    fn is_send<T: Send>(_: &T) {}
    is_shared::<PeriodicExecutor>();
    is_shared::<AsyncPeriodicExecutor<Threads>>();
    is_shared::<Registry>();
    is_shared::<cabrank::Tie>();
    let executor = AsyncPeriodicExecutor::builder(SECOND, Threads).target(|| async {});
    is_send(&executor.join());
    is_send(&executor.join_timeout(SECOND));
}
