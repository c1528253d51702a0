//! The maintenance runs by itself: on a thread from the first due work on, or as a task of a
//! runtime. On the real clock; each test waits for an effect.

use crate::runtimes::{MOMENT, Names, Numbers, Threads};
use crate::shared::task::{Task, block_on};
use crate::shared::woken::Woken;
use crate::shared::{Gate, SECOND, before_long, end_the_run_when_the_library_panics};
use crate::steps::{Step, Steps};
use cabrank::ManualClock;
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, BorrowError, Borrowed, Event, KeyedResourcePool, ResourceFactory,
    ResourcePool,
};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn a_minimum_that_is_set_later_is_filled() {
    end_the_run_when_the_library_panics();
    for idle in [0, 1] {
        let pool = ResourcePool::builder(Numbers, ()).build().expect("a valid pool");
        pool.prefill(idle).expect("there is room");
        pool.set_min_idle(2).expect("a valid limit");
        before_long(|| pool.num_idle() == 2);
    }
}

#[test]
fn a_task_keeps_the_minimum_of_an_asynchronous_pool() {
    end_the_run_when_the_library_panics();
    let builder = ResourcePool::builder(Async(Numbers), ()).min_idle(2);
    let pool = builder.build_on(Threads).expect("a valid pool");
    before_long(|| pool.num_idle() == 2);
    let borrowed = block_on(pool.borrow_async()).expect("one of the two");
    before_long(|| pool.num_idle() == 2);
    drop(borrowed);
    let evicting =
        ResourcePool::builder(Async(Numbers), ()).max_idle_time(Duration::from_millis(1));
    let pool = evicting.build_on(Threads).expect("a valid pool");
    drop(block_on(pool.borrow_async()).expect("a new one"));
    before_long(|| pool.num_idle() == 0);
}

/// Creations wait at a gate once the test says so, and so do tests, which are enabled for idle resources only.
#[derive(Clone, Default)]
struct Slow {
    gate: Gate,
    is_slow: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
}

impl ResourceFactory for Slow {
    type Resource = usize;
    type Metadata = ();
    type Error = Infallible;
    fn create(&self, (): &()) -> Result<usize, Infallible> {
        let number = self.made.fetch_add(1, SeqCst) + 1;
        if self.is_slow.load(SeqCst) {
            self.gate.pass();
        }
        Ok(number)
    }
    fn validate(&self, (): &(), _: &mut usize) -> bool {
        self.gate.pass();
        true
    }
}

impl AsyncResourceFactory for Slow {
    type Resource = usize;
    type Metadata = ();
    type Error = Infallible;
    // Its tasks have threads of their own, which may block.
    async fn create(&self, (): &()) -> Result<usize, Infallible> {
        ResourceFactory::create(self, &())
    }
}

/// Counts the reported loans.
fn abandoned<E>(reported: &Arc<AtomicUsize>) -> impl Fn(&(), &Event<E>) + Send + Sync + use<E> {
    let reported = reported.clone();
    move |(), event| {
        if matches!(event, Event::Abandoned { .. }) {
            reported.fetch_add(1, SeqCst);
        }
    }
}

/// A refill hangs in a creation: loans are still reported, and idle resources evicted.
#[test]
fn a_creation_that_hangs_holds_up_no_eviction() {
    end_the_run_when_the_library_panics();
    let (slow, reported) = (Slow::default(), Arc::default());
    let builder = ResourcePool::builder(slow.clone(), ()).listener(abandoned(&reported));
    let builder = builder.abandoned_after(MOMENT).max_idle_time(MOMENT);
    let pool = builder.build().expect("a valid pool");
    let (lent, back) = (pool.borrow().expect("the first"), pool.borrow().expect("the second"));
    before_long(|| reported.load(SeqCst) == 2);
    slow.is_slow.store(true, SeqCst);
    pool.set_min_idle(1).expect("a valid limit");
    slow.gate.await_arrivals(1);
    drop(back);
    before_long(|| pool.num_idle() == 0);
    slow.gate.open();
    drop(lent);
}

/// The same with tasks.
#[test]
fn a_task_that_creates_and_hangs_holds_up_no_eviction() {
    end_the_run_when_the_library_panics();
    let (slow, reported) = (Slow::default(), Arc::default());
    let builder = ResourcePool::builder(Async(slow.clone()), ()).listener(abandoned(&reported));
    let builder = builder.abandoned_after(Duration::from_millis(50)).max_idle_time(MOMENT);
    let pool = builder.build_on(Threads).expect("a valid pool");
    let lent = block_on(pool.borrow_async()).expect("the first");
    drop(block_on(pool.borrow_async()).expect("the second"));
    before_long(|| pool.num_idle() == 0);
    slow.is_slow.store(true, SeqCst);
    pool.set_min_idle(1).expect("a valid limit");
    slow.gate.await_arrivals(1);
    before_long(|| reported.load(SeqCst) >= 1);
    slow.gate.open();
    drop(lent);
}

/// A test hangs.
#[test]
fn a_test_that_hangs_holds_up_no_report() {
    end_the_run_when_the_library_panics();
    let (slow, reported) = (Slow::default(), Arc::default());
    let builder = ResourcePool::builder(slow.clone(), ()).listener(abandoned(&reported));
    let builder = builder.test_while_idle(true).eviction_interval(MOMENT);
    let pool = builder.abandoned_after(Duration::from_millis(50)).build().expect("a valid pool");
    drop(pool.borrow().expect("the first"));
    slow.gate.await_arrivals(1);
    let lent = pool.borrow().expect("the second");
    before_long(|| reported.load(SeqCst) >= 1);
    slow.gate.open();
    drop(lent);
}

/// A loan is lost at the close: the pool gives it up in its time, and ends.
#[test]
fn a_closed_pool_does_not_wait_for_lost_loans() {
    end_the_run_when_the_library_panics();
    let builder = ResourcePool::builder(Numbers, ()).abandoned_after(MOMENT).remove_abandoned(true);
    let pool = builder.build().expect("a valid pool");
    let lost = Borrowed::into_owned(pool.borrow().expect("one"));
    pool.close();
    assert!(pool.wait_closed(crate::shared::SOON));
    drop(lost);
}

/// A borrower that was lent a resource before the close gets it after it, new or idle; that loan may be
/// lost too. An earlier version never gave it up, because the sweep had stopped and its wake-up time
/// was taken for its work. PROP-RP-CLOSE-ENDS.
#[test]
fn a_loan_that_begins_after_the_close_is_given_up_in_its_time() {
    end_the_run_when_the_library_panics();
    for was_idle in [false, true] {
        let (runtime, steps, clock) = (Woken::eager(), Steps::default(), ManualClock::new());
        let builder = ResourcePool::builder(Async(steps.clone()), "m").clock(clock.clock());
        let builder = builder.abandoned_after(10 * SECOND).remove_abandoned(true);
        let pool = builder.build_on(runtime.clone()).expect("a valid pool");
        let first = block_on(pool.borrow_async()).expect("created at once");
        runtime.run();
        if was_idle {
            drop(first)
        } else {
            Borrowed::invalidate(first)
        }
        steps.on("activate", Step::Held);
        let theirs = pool.clone();
        let mut task =
            Task::new(async move { theirs.borrow_async().await.map(Borrowed::into_owned) });
        assert!(task.poll().is_none(), "its activation takes its time");
        clock.advance(2 * SECOND);
        pool.close();
        runtime.run();
        steps.go_on("activate");
        let lost = task.poll().expect("it goes on").expect("begun before the close");
        clock.advance(10 * SECOND);
        runtime.run();
        assert_eq!((pool.num_active(), pool.num_total()), (0, 0), "idle: {was_idle}");
        assert!(pool.wait_closed(Duration::ZERO), "the pool is empty");
        drop(lost);
        assert_eq!(steps.alive(), 0);
    }
}

/// All waiters leave the creation that was ordered for them. Its resource becomes idle, as the minimum requires
/// (PROP-RP-REFILLED).
#[test]
fn a_place_that_its_waiters_leave_is_filled_up() {
    end_the_run_when_the_library_panics();
    for fair in [true, false] {
        let runtime = Woken::default();
        let builder = ResourcePool::builder(Async(Numbers), ()).clock(ManualClock::new().clock());
        let builder = builder.fair(fair).max_total(2).max_active(None).max_idle(2).min_idle(1);
        let pool = builder.build_on(runtime.clone()).expect("a valid pool");
        runtime.run();
        assert_eq!(pool.num_idle(), 1);
        let [one, two] =
            [(), ()].map(|()| runtime.block_on(pool.borrow_async()).expect("there is room"));
        let waiters = [(), ()].map(|()| {
            let theirs = pool.clone();
            let mut task = Task::new(async move { theirs.borrow_async().await.map(drop) });
            assert!(task.poll().is_none(), "it waits");
            task
        });
        Borrowed::invalidate(two);
        assert_eq!((pool.num_idle(), pool.num_total()), (0, 2), "it is the waiters'");
        drop(waiters);
        runtime.run();
        assert_eq!((pool.num_waiting(), pool.num_idle()), (0, 1), "fair: {fair}");
        drop(one);
    }
}

/// The same where the last waiter is a thread that times out.
#[test]
fn a_place_that_a_thread_leaves_is_filled_up() {
    end_the_run_when_the_library_panics();
    let clock = ManualClock::new();
    let builder = ResourcePool::builder(Numbers, ()).clock(clock.clock()).fair(false);
    let builder = builder.max_total(2).max_active(None).max_idle(2).min_idle(1);
    let pool = builder.build().expect("a valid pool");
    before_long(|| pool.num_idle() == 1);
    let [one, two] = [(), ()].map(|()| pool.borrow().expect("there is room"));
    let theirs = pool.clone();
    let mut called = Task::new(async move { theirs.borrow_async().await.map(drop) });
    assert!(called.poll().is_none(), "it waits");
    let theirs = pool.clone();
    let waits = std::thread::spawn(move || theirs.borrow_timeout(SECOND).map(drop));
    before_long(|| pool.num_waiting() == 2);
    Borrowed::invalidate(two);
    assert_eq!((called.wakes(), pool.num_waiting(), pool.num_idle()), (1, 1, 0));
    clock.advance(SECOND);
    assert!(matches!(waits.join().expect("no panic"), Err(BorrowError::TimedOut(_))));
    before_long(|| pool.num_idle() == 1);
    drop((called, one));
}

/// A lower minimum no longer protects a resource that had expired before (PROP-RP-MIN-IDLE, defect
/// `elixir-missed-eviction`).
#[test]
fn a_lower_minimum_evicts_expired_resources() {
    end_the_run_when_the_library_panics();
    let (clock, runtime) = (ManualClock::new(), Woken::default());
    let builder = ResourcePool::builder(Async(Numbers), ()).clock(clock.clock());
    let builder = builder.max_idle(4).min_idle(2).soft_max_idle_time(SECOND);
    let pool = builder.build_on(runtime.clone()).expect("a valid pool");
    let builder = KeyedResourcePool::builder(Async(Names)).clock(clock.clock());
    let builder = builder.max_idle(4).min_idle(2).soft_max_idle_time(SECOND);
    let keyed = builder.build_on(runtime.clone()).expect("a valid pool");
    block_on(keyed.add_async(&"a")).expect("there is room");
    runtime.run();
    clock.advance(2 * SECOND);
    runtime.run();
    assert_eq!((pool.num_idle(), keyed.num_idle()), (2, 2));
    pool.set_min_idle(1).expect("a valid limit");
    keyed.set_min_idle(0).expect("a valid limit");
    runtime.run();
    assert_eq!((pool.num_idle(), keyed.num_idle()), (1, 0));
}

/// The runtime has dropped the task that was to evict. Once the task is overdue, a later return starts another one.
#[test]
fn an_overdue_eviction_is_started_again() {
    end_the_run_when_the_library_panics();
    let (clock, runtime) = (ManualClock::new(), Woken::default());
    let builder = KeyedResourcePool::builder(Async(Names)).max_idle_time(10 * SECOND);
    let pool = builder.clock(clock.clock()).build_on(runtime.clone()).expect("a valid pool");
    drop(runtime.block_on(pool.borrow_async(&"a")).expect("one"));
    runtime.run();
    runtime.forget_all();
    clock.advance(11 * SECOND);
    assert_eq!(pool.num_idle(), 1, "its task is gone");
    drop(runtime.block_on(pool.borrow_async(&"b")).expect("one"));
    runtime.run();
    assert_eq!((pool.num_idle(), pool.num_keys()), (1, 1));
}

/// The soft idle time does not concern a resource at the minimum, so no eviction is due.
#[test]
fn a_return_at_the_minimum_wakes_no_eviction() {
    end_the_run_when_the_library_panics();
    let (clock, runtime) = (ManualClock::new(), Woken::default());
    let builder = ResourcePool::builder(Async(Numbers), ()).min_idle(1).max_total(1);
    let builder = builder.soft_max_idle_time(SECOND).clock(clock.clock());
    let pool = builder.build_on(runtime.clone()).expect("a valid pool");
    runtime.run();
    let lent = block_on(pool.borrow_async()).expect("the idle one");
    runtime.run();
    drop(lent);
    assert_eq!((pool.num_idle(), runtime.woken()), (1, 0));
}

/// An addition wakes the eviction that would sleep past the end of its shorter life.
#[test]
fn a_newcomer_with_a_shorter_life_leaves_at_its_own_time() {
    end_the_run_when_the_library_panics();
    let (clock, runtime) = (ManualClock::new(), Woken::default());
    let builder = ResourcePool::builder(Async(Numbers), ()).max_total(16).max_idle(16);
    let builder = builder.max_lifetime(32 * SECOND).lifetime_jitter(16 * SECOND);
    let pool = builder.clock(clock.clock()).build_on(runtime.clone()).expect("a valid pool");
    for round in [1, 2] {
        for _ in 0..16 {
            runtime.block_on(pool.add_async()).expect("there is room");
            runtime.run();
        }
        clock.advance(16 * SECOND);
        // Sixteen lives in succession end a second apart, in an order that differs from pool to pool.
        for left in (0..=16).rev() {
            runtime.run();
            assert_eq!(pool.num_idle(), left, "round {round}");
            clock.advance(SECOND);
        }
        // One more life lies between the rounds: only one of them can begin with the shortest.
        runtime.block_on(pool.add_async()).expect("there is room");
        pool.clear();
    }
}
