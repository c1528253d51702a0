//! A borrower of an asynchronous pool creates, and gives up, or is served by a resource that comes back, while others
//! borrow and wait.
//!
//! Guards `orphans.rs` and the futures of `creation.rs`: without them a borrower sleeps for ever beside a resource, or
//! a creation that no borrower polls keeps its place.
//!
//! Asserted: each borrower is served, and at the end the counts are those of the resources.

use crate::kernel::sync::Mutex;
use crate::models::resource_pool::rig::*;
use crate::periodic_executor::{BoxFuture, Runtime};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::time::Instant;

/// A factory whose creations complete once the gate is open.
#[derive(Clone)]
struct Slow {
    reentry: Reentry,
    begun: Arc<AtomicU32>,
    gate: Arc<Mutex<(bool, Option<Waker>)>>,
}

type SlowPool = ResourcePool<Async<Slow>>;
type Got = Result<Borrowed<'static, Async<Slow>>, BorrowError<Infallible>>;

impl Slow {
    fn new(is_open: bool) -> Slow {
        let gate = Arc::new(Mutex::new((is_open, None)));
        Slow { reentry: Reentry::default(), begun: Arc::default(), gate }
    }
    /// Returns a factory, and its pool on a runtime.
    fn pool_on(
        hand: &ByHand,
        is_open: bool,
        configure: impl FnOnce(Builder<Async<Slow>, SlowPool>) -> Builder<Async<Slow>, SlowPool>,
    ) -> (Slow, SlowPool) {
        let slow = Slow::new(is_open);
        let builder = configure(ResourcePool::builder(Async(slow.clone()), ()));
        // With a manual clock, there are no time limits.
        let pool = builder.clock(crate::ManualClock::new().clock()).build_on(hand.clone());
        let pool: SlowPool = pool.expect("a valid pool");
        enable_for(&slow.reentry, &pool);
        (slow, pool)
    }
    /// Returns a factory and its pool. The factory's calls, and the wakers of futures that `reentry` polls, re-enter
    /// the pool.
    fn pool(
        is_open: bool,
        configure: impl FnOnce(Builder<Async<Slow>, SlowPool>) -> Builder<Async<Slow>, SlowPool>,
    ) -> (Slow, SlowPool) {
        let slow = Slow::new(is_open);
        let builder = configure(ResourcePool::builder(Async(slow.clone()), ()));
        let pool = builder.maintenance(false).build_async().expect("a valid pool");
        enable_for(&slow.reentry, &pool);
        (slow, pool)
    }
    /// Opens the gate, and wakes the creation that waits for it.
    fn open(&self) {
        let waker = {
            let mut gate = self.gate.lock();
            gate.0 = true;
            gate.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
    fn begun(&self) -> u32 {
        self.begun.load(SeqCst)
    }
    /// Polls once a call that cannot complete yet.
    fn begin<T>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = T> + Send>> {
        let mut call = Box::pin(call);
        assert!(self.reentry.poll_once(call.as_mut()).is_pending());
        call
    }
}

async fn borrow(pool: SlowPool) -> Got {
    pool.borrow_async().await.map(Borrowed::into_owned)
}

/// Asserts that one idle resource is left, and closes the pool.
fn end(pool: &SlowPool) {
    assert_eq!((pool.num_active(), pool.num_idle(), pool.num_total()), (0, 1, 1));
    pool.close();
    assert!(pool.wait_closed(SECOND));
}

impl AsyncResourceFactory for Slow {
    type Resource = u32;
    type Metadata = ();
    type Error = Infallible;

    async fn create(&self, (): &()) -> Result<u32, Infallible> {
        self.reentry.enter();
        let number = self.begun.fetch_add(1, SeqCst) + 1;
        poll_fn(|cx| {
            self.reentry.enter();
            let mut gate = self.gate.lock();
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        Ok(number)
    }
}

/// The first borrower leaves its creation, which is dropped, while the gate opens.
///
/// Guards that the drop of `Creating` gives the place back, and only then: the second borrower, which waits, creates.
#[test]
fn resource_creation_cancelled_x_borrow() {
    let expected = ["created at once", "still to be created"];
    explore_small(Model("resource_creation_cancelled_x_borrow", 1_954), &expected, |outcomes| {
        let (slow, pool) = Slow::pool(false, |b| b.max_active(1));
        let first = slow.begin(borrow(pool.clone()));
        let behind = slow.begin(borrow(pool.clone()));
        let theirs = slow.clone();
        let opening = spawn(move || theirs.open());
        drop(first);
        let open = slow.gate.lock().0;
        outcomes.note(if open { "created at once" } else { "still to be created" });
        let lent = slow.reentry.block_on(behind).expect("a number");
        assert_eq!((*lent, slow.begun()), (2, 2));
        drop(lent);
        opening.join().expect("no panic");
        end(&pool);
    });
}

/// A resource comes back while a borrower creates and waits, and its creation completes.
///
/// Guards `State::serve_creation`, and the look at the grant when the creation completes first (`Turn::end`). Otherwise
/// the borrower waits for its own creation, or a resource is lost with its grant.
#[test]
fn resource_creation_x_return() {
    let expected = ["its own", "the returned one"];
    explore(Model("resource_creation_x_return", 227), &expected, |outcomes| {
        let hand = ByHand::default();
        let (slow, pool) = Slow::pool_on(&hand, true, |b| b.max_active(2));
        let lent = slow.reentry.block_on(borrow(pool.clone())).expect("a number");
        slow.gate.lock().0 = false;
        let creates = slow.begin(borrow(pool.clone()));
        let returning = spawn(move || drop(lent));
        slow.open();
        let lent = slow.reentry.block_on(creates).expect("a number");
        outcomes.note(if *lent == 1 { "the returned one" } else { "its own" });
        drop(lent);
        returning.join().expect("no panic");
        hand.run(&slow);
        assert_eq!((pool.num_active(), pool.num_idle(), pool.num_total()), (0, 2, 2));
        assert_eq!(slow.begun(), 2);
        pool.close();
        assert!(pool.wait_closed(SECOND));
    });
}

/// The same without a runtime: the borrower awaits its own creation, beside an idle resource.
///
/// Guards the look at the runtime in `Creating::poll`. Otherwise the return drops the creation, and the pool does not
/// fill.
#[test]
fn resource_creation_without_a_runtime_x_return() {
    let expected = ["beside an idle one", "before the other came back"];
    explore(Model("resource_creation_without_a_runtime_x_return", 49), &expected, |outcomes| {
        let (slow, pool) = Slow::pool(true, |b| b.max_active(2));
        let lent = slow.reentry.block_on(borrow(pool.clone())).expect("a number");
        slow.gate.lock().0 = false;
        let creates = slow.begin(borrow(pool.clone()));
        let returning = spawn(move || drop(lent));
        let beside = pool.num_idle() == 1;
        slow.open();
        let lent = slow.reentry.block_on(creates).expect("a number");
        assert_eq!(*lent, 2, "its own");
        outcomes.note(if beside { "beside an idle one" } else { "before the other came back" });
        drop(lent);
        returning.join().expect("no panic");
        assert_eq!((pool.num_active(), pool.num_idle(), pool.num_total()), (0, 2, 2));
        pool.close();
        assert!(pool.wait_closed(SECOND));
    });
}

/// A resource comes back while a borrower that creates gives up, and another creates behind it.
///
/// Guards `give_up` of `WaitWhileCreating`: the grant of the first is passed on. Otherwise the second never gets it.
#[test]
fn resource_creation_cancelled_x_return() {
    let expected = ["granted before", "left before"];
    explore(Model("resource_creation_cancelled_x_return", 1_486), &expected, |outcomes| {
        let hand = ByHand::default();
        let (slow, pool) = Slow::pool_on(&hand, true, |b| b.max_active(3));
        let lent = slow.reentry.block_on(borrow(pool.clone())).expect("a number");
        slow.gate.lock().0 = false;
        let first = slow.begin(borrow(pool.clone()));
        let second = slow.begin(borrow(pool.clone()));
        let theirs = pool.clone();
        let returning = spawn(move || {
            drop(lent);
            theirs.num_active()
        });
        drop(first);
        let lent = slow.reentry.block_on(second).expect("a number");
        assert_eq!(*lent, 1, "its own creation hangs");
        let active = returning.join().expect("no panic");
        outcomes.note(if active == 2 { "granted before" } else { "left before" });
        drop(lent);
        // Neither creation ends.
        drop(hand.take());
        end(&pool);
    });
}

/// A runtime whose tasks the model polls.
#[derive(Clone, Default)]
struct ByHand(Arc<std::sync::Mutex<Vec<BoxFuture<()>>>>);

impl ByHand {
    fn take(&self) -> Vec<BoxFuture<()>> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
    /// Polls all tasks to their end.
    fn run(&self, slow: &Slow) {
        self.take().into_iter().for_each(|task| slow.reentry.block_on(task));
    }
}

impl Runtime for ByHand {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        self.0.lock().expect("no panic").push(task);
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::pending()
    }
}

/// Two creations that hang were left and go on. Then a borrower finds no room.
///
/// Guards `State::make_way` and the wait of the task that drives a creation on: the younger one gives way, and its
/// place goes to the borrower. Otherwise the borrower waits for creations that hang.
#[test]
fn resource_orphaned_creation_x_borrow() {
    let expected = ["its task had begun", "its task had not begun"];
    explore(Model("resource_orphaned_creation_x_borrow", 137), &expected, |outcomes| {
        let hand = ByHand::default();
        let (slow, pool) = Slow::pool_on(&hand, false, |b| b.max_total(2));
        drop((slow.begin(borrow(pool.clone())), slow.begin(borrow(pool.clone()))));
        let mut tasks = hand.take();
        assert_eq!((tasks.len(), pool.num_total()), (2, 2));
        let younger = tasks.remove(1);
        let begun = Arc::new(AtomicU32::new(0));
        let (theirs, reentry) = (begun.clone(), slow.reentry.clone());
        let driving = spawn(move || {
            let mut younger = pin!(younger);
            let ends = reentry.poll_once(younger.as_mut());
            theirs.store(1 + u32::from(ends.is_ready()), SeqCst);
            if ends.is_pending() {
                reentry.block_on(younger);
            }
        });
        let waits = slow.begin(borrow(pool.clone()));
        driving.join().expect("no panic");
        let polled = begun.load(SeqCst) == 1;
        outcomes.note(if polled { "its task had begun" } else { "its task had not begun" });
        slow.open();
        let lent = slow.reentry.block_on(waits).expect("a number");
        assert_eq!(*lent, 3, "a creation of its own");
        drop(lent);
        drop(tasks);
        end(&pool);
    });
}

/// A runtime whose timers for up to ten seconds have ended.
struct Soon(ByHand);

impl Runtime for Soon {
    type Sleep = BoxFuture<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        self.0.spawn(task);
    }
    fn sleep_until(&self, at: Instant) -> BoxFuture<()> {
        match at < Instant::now() + 10 * SECOND {
            true => Box::pin(std::future::ready(())),
            false => Box::pin(std::future::pending()),
        }
    }
}

/// The only creation hangs, was given up, and becomes overdue, while a borrower finds no room.
///
/// Guards `State::note_overdue`. Otherwise the borrower waits for a creation that hangs.
#[test]
fn resource_overdue_creation_x_borrow() {
    let expected = ["it waited before", "it came later"];
    explore(Model("resource_overdue_creation_x_borrow", 4_843), &expected, |outcomes| {
        let (slow, hand) = (Slow::new(false), ByHand::default());
        let pool = ResourcePool::builder(Async(slow.clone()), ()).max_total(1);
        let pool: SlowPool = pool.build_on(Soon(hand.clone())).expect("a valid pool");
        // User code does not re-enter the pool here: the search would be too long.
        drop(slow.begin(borrow(pool.clone())));
        // The timer of its time limit, and the creation.
        let mut tasks = hand.take();
        let task = tasks.pop().expect("it goes on");
        let came = Arc::new(AtomicU32::new(0));
        let (theirs, seen) = (slow.clone(), came.clone());
        let driving = spawn(move || {
            let mut task = pin!(task);
            let ends = theirs.reentry.poll_once(task.as_mut());
            let waited = seen.load(SeqCst) == 1;
            // The timer that says when it is overdue.
            let mut timers = hand.take();
            for timer in &mut timers {
                let _ = theirs.reentry.poll_once(pin!(timer));
            }
            if ends.is_pending() {
                theirs.reentry.block_on(task);
            }
            theirs.open();
            (waited, timers)
        });
        let mut waits = pin!(borrow(pool.clone()));
        let lent = slow.reentry.poll_once(waits.as_mut());
        came.store(1, SeqCst);
        let lent = match lent {
            Poll::Ready(lent) => lent,
            Poll::Pending => slow.reentry.block_on(waits),
        };
        let lent = lent.expect("a number");
        assert_eq!(*lent, 2, "a creation of its own");
        let (waited, timers) = driving.join().expect("no panic");
        outcomes.note(if waited { "it waited before" } else { "it came later" });
        drop((lent, tasks, timers));
        end(&pool);
    });
}

/// Two borrowers that create are served by the resource that comes back, while a third one finds no room.
///
/// Guards `Slot::gives_way`: creations whose borrowers were served go on. Otherwise each waiter drops one, and where
/// loans are shorter than a creation, no creation ends.
///
/// Asserted: no other creation begins, and both end.
#[test]
fn resource_served_creations_x_borrow() {
    let expected = ["the third waited", "the third came late"];
    explore(Model("resource_served_creations_x_borrow", 11_025), &expected, |outcomes| {
        let hand = ByHand::default();
        let (slow, pool) = Slow::pool_on(&hand, true, |b| b.max_total(3));
        let lent = slow.reentry.block_on(borrow(pool.clone())).expect("a number");
        slow.gate.lock().0 = false;
        let first = slow.begin(borrow(pool.clone()));
        let second = slow.begin(borrow(pool.clone()));
        let (theirs, reentry) = (pool.clone(), slow.reentry.clone());
        let third = spawn(move || {
            let lent = reentry.block_on(borrow(theirs)).expect("a number");
            assert_eq!(*lent, 1, "the only one");
        });
        let waited = pool.num_waiting() == 1;
        drop(lent);
        for creates in [first, second] {
            let lent = slow.reentry.block_on(creates).expect("a number");
            assert_eq!(*lent, 1, "its own creation hangs");
        }
        third.join().expect("no panic");
        assert_eq!((slow.begun(), pool.num_total()), (3, 3), "no creation gave way");
        outcomes.note(if waited { "the third waited" } else { "the third came late" });
        slow.open();
        hand.run(&slow);
        assert_eq!((pool.num_active(), pool.num_idle(), pool.num_total()), (0, 3, 3));
        pool.close();
        assert!(pool.wait_closed(SECOND));
    });
}
