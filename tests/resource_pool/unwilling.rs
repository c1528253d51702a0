//! Runtimes that refuse or drop tasks, or have no timers: the listener is notified, once at a time,
//! and due work is still done later.

use crate::common::{Background, locked};
use crate::runtimes::{HOUR, MOMENT, Names, Numbers, Threads};
use crate::shared::task::{Task, block_on};
use crate::shared::woken::{Sleep, Woken};
use crate::shared::{SECOND, before_long, end_the_run_when_the_library_panics};
use crate::steps::{Step, Steps};
use cabrank::ManualClock;
use cabrank::periodic_executor::{BoxFuture, Runtime};
use cabrank::resource_pool::{Async, Borrowed, Event, KeyedResourcePool, ResourcePool};
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

/// A runtime that refuses or drops its first tasks.
struct Reluctant {
    left: AtomicUsize,
    panics: bool,
}

impl Runtime for Reluctant {
    type Sleep = BoxFuture<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        let refuses = self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        match (refuses, self.panics) {
            (false, _) => Threads.spawn(task),
            (true, false) => drop(task),
            (true, true) => resume_unwind(Box::new("on purpose")),
        }
    }
    fn sleep_until(&self, at: Instant) -> BoxFuture<()> {
        Threads.sleep_until(at)
    }
}

/// The listener learns that the maintenance could not begin; the next change begins it again.
#[test]
fn a_maintenance_that_did_not_begin_is_begun_again() {
    end_the_run_when_the_library_panics();
    for panics in [true, false] {
        let reported = Arc::new(AtomicUsize::new(0));
        let theirs = reported.clone();
        // The maintenance, and the first creation: from then on borrowers create.
        let runtime = Reluctant { left: AtomicUsize::new(2), panics };
        let pool = ResourcePool::builder(Async(Numbers), ()).listener(move |(), event| {
            let expected = matches!(event, Event::MaintenanceNotStarted(_) | Event::RuntimeEnded);
            assert!(expected, "{event:?}");
            theirs.fetch_add(1, SeqCst);
        });
        let pool = pool.build_on(runtime).expect("no maintenance is due yet");
        pool.set_min_idle(1).expect("a valid limit");
        // Each loan changes what may have to be evicted.
        before_long(|| {
            let lent = block_on(pool.borrow_async()).expect("one");
            let filled = pool.num_idle() > 0;
            Borrowed::invalidate(lent);
            filled
        });
        assert_eq!(reported.load(SeqCst), 2, "panics: {panics}");
    }
}

/// A listener that borrows is not notified again inside its own call. The next due work tries
/// again, however soon.
#[test]
fn a_listener_that_borrows_while_no_maintenance_runs() {
    end_the_run_when_the_library_panics();
    let (time, reported) = (ManualClock::new(), Arc::new(AtomicUsize::new(0)));
    let runtime = Reluctant { left: AtomicUsize::new(usize::MAX), panics: true };
    let pool = Arc::new(OnceLock::<ResourcePool<Async<Numbers>>>::new());
    let (theirs, in_listener) = (reported.clone(), pool.clone());
    let builder = ResourcePool::builder(Async(Numbers), ()).clock(time.clock());
    let builder = builder.listener(move |(), event| {
        assert!(matches!(event, Event::MaintenanceNotStarted(_)), "{event:?}");
        assert!(theirs.fetch_add(1, SeqCst) < 10, "reported again and again");
        drop(block_on(in_listener.get().expect("it is there").borrow_async()));
    });
    let pool = pool.get_or_init(|| builder.build_on(runtime).expect("no maintenance is due yet"));
    pool.set_min_idle(1).expect("a valid limit");
    assert_eq!(reported.load(SeqCst), 1);
    Borrowed::invalidate(block_on(pool.borrow_async()).expect("one"));
    assert_eq!(reported.load(SeqCst), 1, "it has not begun since");
}

/// A slow listener learns that the refill could not begin. This comes before the creation of an
/// added resource, so it takes no time from its life.
#[test]
fn the_life_of_an_addition_begins_with_its_creation() {
    end_the_run_when_the_library_panics();
    let (time, takes_its_time) = (ManualClock::new(), Arc::new(AtomicBool::new(false)));
    let (theirs, clock) = (takes_its_time.clone(), time.clone());
    let builder = ResourcePool::builder(Async(Numbers), ()).clock(time.clock());
    let builder = builder.max_lifetime(10 * SECOND).listener(move |(), event| {
        assert!(matches!(event, Event::MaintenanceNotStarted(_)), "{event:?}");
        if theirs.swap(false, SeqCst) {
            clock.advance(9 * SECOND);
        }
    });
    let runtime = Full::default();
    runtime.0.store(true, SeqCst);
    let pool = builder.build_on(runtime.clone()).expect("a task for evictions");
    pool.set_min_idle(2).expect("a valid limit");
    runtime.1.forget_all();
    runtime.0.store(false, SeqCst);
    takes_its_time.store(true, SeqCst);
    block_on(pool.add_async()).expect("there is room");
    assert!(!takes_its_time.load(SeqCst), "the listener was notified");
    assert_eq!(pool.snapshot().keys[0].resources[0].age, Some(Duration::ZERO));
}

/// Refuses every task until the test allows them.
#[derive(Clone, Default)]
struct Full(Arc<AtomicBool>, Woken);

impl Runtime for Full {
    type Sleep = Sleep;
    fn spawn(&self, task: BoxFuture<()>) {
        if !self.0.load(SeqCst) {
            resume_unwind(Box::new("no more tasks"));
        }
        self.1.spawn(task);
    }
    fn sleep_until(&self, at: Instant) -> Self::Sleep {
        self.1.sleep_until(at)
    }
}

/// The next work that becomes due begins a maintenance that could not begin, however soon after.
#[test]
fn work_that_is_due_after_a_failed_beginning_is_done() {
    end_the_run_when_the_library_panics();
    let (time, runtime) = (ManualClock::new(), Full::default());
    let builder = ResourcePool::builder(Async(Numbers), ()).clock(time.clock());
    let pool = builder.build_on(runtime.clone()).expect("no maintenance is due yet");
    pool.set_min_idle(1).expect("a valid limit");
    runtime.0.store(true, SeqCst);
    pool.set_min_idle(2).expect("a valid limit");
    runtime.1.run();
    assert_eq!(pool.num_idle(), 2);
}

/// A listener that is notified about one maintenance is not notified about the other inside that
/// call. The next due work begins both.
#[test]
fn a_listener_is_notified_of_one_maintenance_at_a_time() {
    end_the_run_when_the_library_panics();
    let (time, runtime) = (ManualClock::new(), Full::default());
    let pool = Arc::new(OnceLock::<ResourcePool<Async<Numbers>>>::new());
    let (reported, inside) = (Arc::new(AtomicUsize::new(0)), Mutex::new(()));
    let (theirs, in_listener) = (reported.clone(), pool.clone());
    let builder = ResourcePool::builder(Async(Numbers), ()).clock(time.clock());
    let builder = builder.max_idle_time(SECOND).listener(move |(), event| {
        assert!(matches!(event, Event::MaintenanceNotStarted(_)), "{event:?}");
        theirs.fetch_add(1, SeqCst);
        let _alone = inside.try_lock().expect("notified inside its own call");
        drop(block_on(in_listener.get().expect("it is there").borrow_async()));
    });
    runtime.0.store(true, SeqCst);
    let pool =
        pool.get_or_init(|| builder.build_on(runtime.clone()).expect("a task for evictions"));
    runtime.1.forget_all();
    runtime.0.store(false, SeqCst);
    pool.set_min_idle(2).expect("a valid limit");
    assert_eq!((reported.load(SeqCst), pool.num_idle()), (1, 1));
    runtime.0.store(true, SeqCst);
    drop(block_on(pool.borrow_async()).expect("one"));
    assert_eq!((reported.load(SeqCst), runtime.1.tasks()), (1, 2));
    runtime.1.run();
    assert_eq!(pool.num_idle(), 2);
}

/// A listener makes work due while another thread begins the maintenance: the work is done.
#[test]
fn a_listener_wakes_a_maintenance_that_was_begun_by_another() {
    end_the_run_when_the_library_panics();
    let (time, runtime) = (ManualClock::new(), Full::default());
    let pool = Arc::new(OnceLock::<ResourcePool<Async<Numbers>>>::new());
    let (theirs, in_listener) = (runtime.clone(), pool.clone());
    let builder = ResourcePool::builder(Async(Numbers), ()).clock(time.clock());
    let builder = builder.listener(move |(), event| {
        assert!(matches!(event, Event::MaintenanceNotStarted(_)), "{event:?}");
        theirs.0.store(true, SeqCst);
        let (pool, runtime) = (in_listener.clone(), theirs.1.clone());
        Background::start(move || {
            pool.get().expect("it is there").set_min_idle(2).expect("a valid limit");
            runtime.run();
        })
        .end();
        in_listener.get().expect("it is there").set_min_idle(3).expect("a valid limit");
    });
    let pool =
        pool.get_or_init(|| builder.build_on(runtime.clone()).expect("no maintenance is due yet"));
    pool.set_min_idle(1).expect("a valid limit");
    assert_eq!(pool.num_idle(), 2);
    runtime.1.run();
    assert_eq!(pool.num_idle(), 3);
}

/// A runtime whose timers panic when they are set, or at their second poll. The first few work, and
/// fire at once.
#[derive(Clone)]
struct NoTimers(Arc<AtomicUsize>, bool, Woken);

impl Runtime for NoTimers {
    type Sleep = BoxFuture<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        self.2.spawn(task);
    }
    fn sleep_until(&self, _: Instant) -> BoxFuture<()> {
        let works = self.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        let (late, mut polled) = (self.1, false);
        if !works && !late {
            resume_unwind(Box::new("no timers"));
        }
        Box::pin(poll_fn(move |cx| match works {
            true => Poll::Ready(()),
            false if !std::mem::replace(&mut polled, true) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            false => resume_unwind(Box::new("no timers")),
        }))
    }
}

/// The listener learns of a panicking timer once, even if it uses the pool. Due work is done when
/// other work becomes due.
#[test]
fn a_timer_that_panics_is_reported() {
    end_the_run_when_the_library_panics();
    for late in [false, true] {
        let runtime = NoTimers(Arc::default(), late, Woken::eager());
        let reported = Arc::new(Mutex::new(Vec::new()));
        let pool = Arc::new(OnceLock::<KeyedResourcePool<&'static str, Async<Names>>>::new());
        let (theirs, in_listener) = (reported.clone(), pool.clone());
        let builder = KeyedResourcePool::builder(Async(Names)).max_idle_time(HOUR);
        // So soon that a timer which fires at once is not far too early.
        let soon = Duration::from_millis(50);
        let builder = builder.abandoned_after(soon).listener(move |key, event| {
            locked(&theirs).push(format!("{key}: {event:?}"));
            drop(block_on(in_listener.get().expect("it is there").borrow_async(&"b")));
        });
        let pool = pool.get_or_init(|| builder.build_on(runtime.clone()).expect("a task"));
        let message = r#"a: MaintenanceNotStarted("the runtime's timer panicked: no timers")"#;
        for _ in 0..3 {
            drop(block_on(pool.borrow_async(&"a")).expect("one"));
            runtime.2.run();
            assert_eq!(*locked(&reported), [message]);
        }
        // A timer works, and the next panics: the listener learns of it again.
        runtime.0.store(1, SeqCst);
        // This one looks abandoned before an idle one is due.
        let lent = block_on(pool.borrow_async(&"a")).expect("one");
        runtime.2.run();
        assert_eq!(*locked(&reported), [message, message]);
        drop(lent);
    }
}

/// On the real clock: without timers, the next use of the pool evicts a resource that has expired.
#[test]
fn a_pool_whose_timer_panics_is_maintained_by_its_use() {
    end_the_run_when_the_library_panics();
    let runtime = NoTimers(Arc::default(), false, Woken::eager());
    let builder = KeyedResourcePool::builder(Async(Names)).max_idle_time(MOMENT);
    let pool = builder.build_on(runtime.clone()).expect("a task");
    drop(block_on(pool.borrow_async(&"a")).expect("one"));
    runtime.2.run();
    before_long(|| {
        drop(block_on(pool.borrow_async(&"b")).expect("one"));
        runtime.2.run();
        pool.num_keys() == 1
    });
}

/// A timer that panics, when it is set or when it is polled, limits nothing, and is not set again at each poll.
#[test]
fn the_timer_of_a_limit_is_set_once() {
    end_the_run_when_the_library_panics();
    struct Panics(Arc<AtomicUsize>, bool, Arc<Mutex<Vec<Task<()>>>>);
    impl Runtime for Panics {
        type Sleep = BoxFuture<()>;
        fn spawn(&self, task: BoxFuture<()>) {
            let mut task = Task::new(task);
            if task.poll().is_none() {
                locked(&self.2).push(task);
            }
        }
        fn sleep_until(&self, _: Instant) -> BoxFuture<()> {
            self.0.fetch_add(1, SeqCst);
            if !self.1 {
                resume_unwind(Box::new("no timers"));
            }
            Box::pin(poll_fn(|_| -> Poll<()> { resume_unwind(Box::new("no timers")) }))
        }
    }
    for late in [false, true] {
        let (set, steps) = (Arc::new(AtomicUsize::new(0)), Steps::default());
        steps.on("create", Step::Held);
        let builder = ResourcePool::builder(Async(steps.clone()), "m");
        let tasks: Arc<Mutex<Vec<Task<()>>>> = Arc::default();
        let runtime = Panics(set.clone(), late, tasks.clone());
        let pool = builder.build_on(runtime).expect("a valid pool");
        let run = || {
            let mut woken = std::mem::take(&mut *locked(&tasks));
            woken.retain_mut(|task| task.poll_if_woken().is_none());
            locked(&tasks).append(&mut woken);
        };
        let theirs = pool.clone();
        let mut borrower = Task::new(async move { theirs.borrow_async().await.map(drop) });
        for _ in 0..3 {
            assert!(borrower.poll().is_none());
            run();
        }
        assert_eq!(set.load(SeqCst), 2, "the limit, and when it is overdue");
        drop(borrower);
        run();
        assert_eq!((steps.held(), pool.num_total()), (1, 1), "it goes on");
        pool.close();
        run();
        assert_eq!((steps.held(), pool.num_total()), (0, 0));
    }
}
