//! Tasks on a runtime of the test's own, which polls and drops them by hand.

use crate::both::SECOND;
use crate::common::soon;
use crate::common::task::{Task, block_on};
use cabrank::AsyncPeriodicExecutor;
use cabrank::periodic_executor::{BoxFuture, Joined, OpenError, Phase, Registry, Runtime};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Keeps its tasks, so that the test polls or drops them. Its timers are ready at once.
#[derive(Clone, Default)]
pub(crate) struct Keeps(Arc<Mutex<VecDeque<BoxFuture<()>>>>);

impl Runtime for Keeps {
    type Sleep = std::future::Ready<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        self.0.lock().expect("no panic").push_back(task);
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::ready(())
    }
}

/// Returns a future that is pending at its first poll, and wakes its task.
pub(crate) async fn pending_once() {
    let mut has_begun = false;
    std::future::poll_fn(move |cx| {
        cx.waker().wake_by_ref();
        if std::mem::replace(&mut has_begun, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Keeps {
    pub(crate) fn take(&self) -> BoxFuture<()> {
        self.0.lock().expect("no panic").pop_front().expect("it was spawned")
    }
}

#[test]
fn a_task_that_its_runtime_drops_has_ended() {
    let runtime = Keeps::default();
    let builder = AsyncPeriodicExecutor::builder(SECOND, runtime.clone()).unregistered();
    let executor = builder.build(|| async {});
    executor.open().expect("a task");
    assert!(executor.is_open());
    drop(runtime.take());
    assert_eq!(block_on(executor.join()), Ok(Joined::Abandoned));
    executor.open().expect("a task");
    executor.close();
    block_on(runtime.take());
    assert_eq!(block_on(executor.join()), Ok(Joined::Closed));
}

/// An earlier version dropped the call outside its executor: a shutdown in the drop waited for
/// itself.
#[test]
fn a_call_that_its_runtime_drops_is_dropped_inside_its_executor() {
    struct ShutsDown(Registry, Sender<bool>);
    impl Drop for ShutsDown {
        fn drop(&mut self) {
            self.1.send(self.0.shutdown(Duration::MAX).is_ok()).expect("the test waits");
        }
    }
    let (registry, runtime) = (Registry::new(), Keeps::default());
    let (sender, receiver) = channel();
    let executor = {
        let registry = registry.clone();
        let builder = AsyncPeriodicExecutor::builder(None, runtime.clone());
        builder.registry(&registry.clone()).build(move || {
            let call = ShutsDown(registry.clone(), sender.clone());
            async move {
                std::future::pending::<()>().await;
                drop(call);
            }
        })
    };
    executor.open().expect("a task");
    let mut task = runtime.take();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(task.as_mut().poll(&mut cx).is_pending());
    soon(move || drop(task));
    assert_eq!(receiver.recv(), Ok(true));
    assert_eq!(block_on(executor.join()), Ok(Joined::Abandoned));
}

/// An earlier version made all calls in one poll. On a runtime with one thread no other task ran,
/// not even the one that would have closed the executor.
#[test]
fn a_task_without_a_pause_lets_others_go_on_after_each_call() {
    type Executor = AsyncPeriodicExecutor<Keeps>;
    type Own = Arc<OnceLock<Executor>>;
    type Again = fn(&Executor);
    let ways: [(Duration, Again); 3] = [
        (Duration::ZERO, |_| ()),
        (SECOND, Executor::skip_sleep),
        (SECOND, |executor| {
            executor.close();
            executor.open().expect("it goes on");
        }),
    ];
    for (interval, again) in ways {
        let (runtime, calls, own) =
            (Keeps::default(), Arc::new(AtomicUsize::new(0)), Own::default());
        let executor = {
            let (calls, own) = (calls.clone(), own.clone());
            let builder = AsyncPeriodicExecutor::builder(interval, runtime.clone()).unregistered();
            builder.build(move || {
                calls.fetch_add(1, SeqCst);
                again(own.get().expect("it is set"));
                std::future::ready(())
            })
        };
        assert!(own.set(executor.clone()).is_ok());
        executor.open().expect("a task");
        let mut task = Task::new(runtime.take());
        for polls in 1..4 {
            task = soon(move || {
                assert!(task.poll().is_none());
                task
            });
            assert_eq!((calls.load(SeqCst), task.wakes()), (polls, polls));
        }
        executor.close();
        task.poll().expect("it is closed");
        assert_eq!(block_on(executor.join()), Ok(Joined::Closed));
    }
}

/// An earlier version let the panic out of the drop of the last handle.
#[test]
fn a_panic_in_the_drop_of_a_runtime_is_contained() {
    struct Bomb;
    impl Runtime for Bomb {
        type Sleep = std::future::Pending<()>;
        fn spawn(&self, _: BoxFuture<()>) {
            std::panic::resume_unwind(Box::new("no task"));
        }
        fn sleep_until(&self, _: Instant) -> Self::Sleep {
            std::future::pending()
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("dropped"));
        }
    }
    let builder = AsyncPeriodicExecutor::builder(SECOND, Bomb).unregistered();
    let executor = builder.build(|| async {});
    assert!(matches!(executor.open(), Err(OpenError::NotStarted(_))));
    drop(executor);
}

/// The caller may move its join to another task: the latest waker is woken.
#[test]
fn a_task_that_joins_is_woken_by_the_waker_that_polled_it_last() {
    let runtime = Keeps::default();
    let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
    let executor = builder.build(|| async {});
    executor.open().expect("a task");
    let mut join = Task::new(async move { executor.join().await });
    assert!(join.poll_with(Waker::noop()).is_none() && join.poll().is_none());
    drop(runtime.take());
    assert_eq!(join.wakes(), 1);
}

/// A runtime's waker that calls the executor and then panics, both in `wake` and in its last `drop`.
struct Meddling(AsyncPeriodicExecutor<Keeps>);

impl Meddling {
    fn meddle(&self) -> ! {
        self.0.wake();
        self.0.skip_sleep();
        std::panic::resume_unwind(Box::new("scripted panic"))
    }
}
impl Wake for Meddling {
    fn wake(self: Arc<Self>) {
        self.meddle()
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.meddle()
    }
}
impl Drop for Meddling {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.meddle()
        }
    }
}

/// The last waker may go when another replaces it, by a close, by a wake, or with the run. In an
/// earlier version the first case left the waker's slot occupied: neither this run's task nor a
/// later one was woken again.
#[test]
fn a_runtimes_waker_may_panic_and_call_the_executor() {
    type Executor = AsyncPeriodicExecutor<Keeps>;
    let ways: [fn(&Executor, &mut BoxFuture<()>); 4] = [
        |_, task| {
            assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        },
        |executor, _| executor.close(),
        |executor, _| executor.wake(),
        |_, _| (),
    ];
    for way in ways {
        let runtime = Keeps::default();
        let builder = AsyncPeriodicExecutor::builder(None, runtime.clone());
        let executor = builder.unregistered().build(|| async {});
        executor.open().expect("a task");
        let mut task = runtime.take();
        {
            let waker = Waker::from(Arc::new(Meddling(executor.clone())));
            assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert_eq!(executor.phase(), Phase::Asleep);
        }
        way(&executor, &mut task);
        drop(task);
        assert_eq!(block_on(executor.join()), Ok(Joined::Abandoned));

        executor.open().expect("a task");
        let mut task = Task::new(runtime.take());
        while executor.phase() != Phase::Asleep {
            assert!(task.poll().is_none());
        }
        let wakes = task.wakes();
        executor.close();
        assert_eq!(task.wakes(), wakes + 1, "a close wakes it");
        task.poll().expect("it is closed");
        assert_eq!(block_on(executor.join()), Ok(Joined::Closed));
    }
}

/// The waker may be the last reference to a task whose runtime is gone. Waking takes the waker, and
/// thereby drops the task.
#[test]
fn a_task_that_only_its_waker_keeps_ends_with_it() {
    struct Keeper(Mutex<Option<BoxFuture<()>>>);
    impl Wake for Keeper {
        fn wake(self: Arc<Self>) {}
    }
    let runtime = Keeps::default();
    let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
    let executor = builder.build(|| async {});
    executor.open().expect("a task");
    let keeper = Arc::new(Keeper(Mutex::new(Some(runtime.take()))));
    {
        let waker = Waker::from(keeper.clone());
        let mut task = keeper.0.lock().expect("no panic");
        let task = task.as_mut().expect("it is kept").as_mut();
        assert!(task.poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(keeper);
    assert_eq!(executor.phase(), Phase::Asleep);
    executor.close();
    let ended = soon(move || block_on(executor.join()));
    assert_eq!(ended, Ok(Joined::Abandoned));
}

type Act = Box<dyn FnOnce() + Send>;

/// Refuses the first tasks, and calls back at each refusal.
#[derive(Clone, Default)]
struct Full {
    keeps: Keeps,
    meanwhile: Arc<Mutex<VecDeque<Act>>>,
    tries: Arc<AtomicUsize>,
}

impl Runtime for Full {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        self.tries.fetch_add(1, SeqCst);
        let meanwhile = self.meanwhile.lock().expect("no panic").pop_front();
        match meanwhile {
            None => self.keeps.spawn(task),
            Some(meanwhile) => {
                std::thread::spawn(meanwhile).join().expect("no panic");
                std::panic::resume_unwind(Box::new("no more tasks"));
            }
        }
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::pending()
    }
}

/// Refuses every task, but first opens the executor again or polls the task. Then it panics.
#[derive(Clone, Default)]
struct Perverse {
    executor: Arc<OnceLock<AsyncPeriodicExecutor<Perverse>>>,
    polls: bool,
    tries: Arc<AtomicUsize>,
}

impl Runtime for Perverse {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, mut task: BoxFuture<()>) {
        self.tries.fetch_add(1, SeqCst);
        if self.polls {
            assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        } else {
            self.executor.get().expect("it is there").open().expect("it is being opened");
        }
        std::panic::resume_unwind(Box::new("no more tasks"));
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::pending()
    }
}

/// The executor tries once more for all opens that come meanwhile. A task that has begun and was
/// dropped is not open.
#[test]
fn an_open_ends_whatever_its_runtime_does() {
    for (polls, tries) in [(false, 2), (true, 1)] {
        let runtime = Perverse { polls, ..Perverse::default() };
        let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
        let executor = builder.build(|| async {});
        assert!(runtime.executor.set(executor.clone()).is_ok());
        assert!(matches!(executor.open(), Err(OpenError::NotStarted(_))), "{polls}");
        assert_eq!((runtime.tries.load(SeqCst), executor.is_open()), (tries, false), "{polls}");
        assert_eq!(block_on(executor.join()), Ok(Joined::Abandoned), "{polls}");
    }
}

/// In an earlier version the other open succeeded although the executor was not open.
#[test]
fn an_open_beside_one_that_cannot_start_it_is_not_lost() {
    type Executor = AsyncPeriodicExecutor<Full>;
    type Meanwhile = fn(&Executor);
    let nothing: Meanwhile = |_| ();
    let open: Meanwhile = |executor| executor.open().expect("it is being opened");
    let close_and_open: Meanwhile = |executor| {
        executor.close();
        executor.open().expect("it is being opened");
    };
    let open_and_close: Meanwhile = |executor| {
        executor.open().expect("it is being opened");
        executor.close();
    };
    // The other thread's calls during each failing try; whether the executor opens; the number of
    // tries.
    let scenes = [
        (vec![], true, 1),
        (vec![nothing], false, 1),
        (vec![open], true, 2),
        (vec![close_and_open], true, 2),
        (vec![open_and_close], false, 1),
        (vec![open, nothing], false, 2),
        (vec![open, open], false, 2),
    ];
    for (nth, (meanwhile, opens, tries)) in scenes.into_iter().enumerate() {
        let (runtime, registry) = (Full::default(), Registry::new());
        let builder = AsyncPeriodicExecutor::builder(None, runtime.clone());
        let executor = builder.registry(&registry).build(|| std::future::ready(false));
        for act in meanwhile {
            let executor = executor.clone();
            let act = Box::new(move || act(&executor));
            runtime.meanwhile.lock().expect("no panic").push_back(act);
        }
        let opened = executor.open();
        assert_eq!(runtime.tries.load(SeqCst), tries, "{nth}");
        assert_eq!((executor.is_open(), registry.len()), (opens, usize::from(opens)), "{nth}");
        if opens {
            opened.expect("it is open");
            block_on(runtime.keeps.take());
            assert_eq!(block_on(executor.join()), Ok(Joined::Finished), "{nth}");
        } else {
            assert!(matches!(opened, Err(OpenError::NotStarted(_))), "{nth}");
            // The second open, which succeeded, is abandoned too.
            assert_eq!(block_on(executor.join()), Ok(Joined::Abandoned), "{nth}");
        }
    }
}

/// The runtime keeps the task but reports a refusal: the open fails, and the task makes no call.
#[test]
fn a_task_that_a_runtime_keeps_and_refuses_makes_no_call() {
    struct Unsure(Keeps);
    impl Runtime for Unsure {
        type Sleep = std::future::Pending<()>;
        fn spawn(&self, task: BoxFuture<()>) {
            self.0.spawn(task);
            std::panic::resume_unwind(Box::new("no more tasks"));
        }
        fn sleep_until(&self, _: Instant) -> Self::Sleep {
            std::future::pending()
        }
    }
    let keeps = Keeps::default();
    let builder = AsyncPeriodicExecutor::builder(SECOND, Unsure(keeps.clone())).unregistered();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let executor = builder.build(move || {
        counted.fetch_add(1, SeqCst);
        std::future::ready(())
    });
    assert!(matches!(executor.open(), Err(OpenError::NotStarted(_))));
    let mut late = Task::new(keeps.take());
    assert_eq!((late.poll(), calls.load(SeqCst)), (Some(()), 0));
    assert_eq!(block_on(executor.join()), Ok(Joined::Abandoned));
}

/// Joins its executor once when it is dropped, and sends the result.
struct JoinsAtItsDrop(Arc<OnceLock<AsyncPeriodicExecutor<Keeps>>>, Sender<Option<Joined>>);

impl Drop for JoinsAtItsDrop {
    fn drop(&mut self) {
        let executor = self.0.get().expect("it is set").clone();
        let joined = Task::new(async move { executor.join().await }).poll();
        let joined = joined.map(|joined| joined.expect("no panic"));
        self.1.send(joined).expect("the test waits");
    }
}

thread_local! {
    static KEPT: std::cell::RefCell<Option<BoxFuture<()>>> = const { std::cell::RefCell::new(None) };
}

/// The thread drops the task with its thread-locals, after the library's own.
#[test]
fn a_call_that_the_end_of_its_thread_drops_does_not_wait_for_itself() {
    let (runtime, me, (sent, joined)) =
        (Keeps::default(), Arc::<OnceLock<_>>::default(), channel());
    let executor = {
        let me = me.clone();
        let builder = AsyncPeriodicExecutor::builder(SECOND, runtime.clone()).unregistered();
        builder.build(move || {
            let joins = JoinsAtItsDrop(me.clone(), sent.clone());
            async move {
                let _joins = joins;
                std::future::pending::<()>().await;
            }
        })
    };
    assert!(me.set(executor.clone()).is_ok());
    executor.open().expect("a task");
    let mut task = runtime.take();
    let thread = std::thread::spawn(move || {
        KEPT.with_borrow_mut(|kept| *kept = None);
        assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        KEPT.with_borrow_mut(|kept| *kept = Some(task));
    });
    soon(move || thread.join()).expect("no panic");
    assert_eq!(joined.recv().expect("it is dropped"), Some(Joined::Itself));
    assert_eq!(block_on(executor.join()), Ok(Joined::Abandoned));
}
