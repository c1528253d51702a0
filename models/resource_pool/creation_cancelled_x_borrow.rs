//! A borrower of an asynchronous pool gives up during its creation, while another waits behind it.
//!
//! Guards the drop of `InCreation`, which puts the unfinished creation into the idle list. The next borrower polls
//! it on. Otherwise that borrower sleeps for ever, or repeats the work. Guards too that the next borrower polls the
//! creation with its own waker: the first borrower's waker wakes no task any more.
//!
//! Asserted: one creation begins. The second borrower gets its resource, and waits for it if necessary.

use crate::models::resource_pool::rig::*;
use crate::resource_pool::ResourceState;
use crate::sync::Mutex;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Poll, Waker};

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
    /// Returns a factory and its pool. The factory's calls, and the wakers of futures that `reentry` polls, re-enter
    /// the pool.
    fn pool(
        is_open: bool,
        configure: impl FnOnce(Builder<Async<Slow>, SlowPool>) -> Builder<Async<Slow>, SlowPool>,
    ) -> (Slow, SlowPool) {
        let gate = Arc::new(Mutex::new((is_open, None)));
        let slow = Slow { reentry: Reentry::default(), begun: Arc::default(), gate };
        let builder = configure(ResourcePool::builder(Async(slow.clone()), ()));
        let pool = builder.build_async().expect("a valid pool");
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
    /// Opens or closes the gate, and wakes no creation.
    fn set_gate(&self, is_open: bool) {
        self.gate.lock().0 = is_open;
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
    /// Completes a call, and notes whether it had to wait.
    fn complete<T>(&self, call: impl Future<Output = T>, waits: impl FnOnce(bool)) -> T {
        let mut call = pin!(call);
        let at_once = self.reentry.poll_once(call.as_mut());
        waits(at_once.is_pending());
        match at_once {
            Poll::Ready(value) => value,
            Poll::Pending => self.reentry.block_on(call),
        }
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

#[test]
fn resource_creation_cancelled_x_borrow() {
    let expected = ["made", "still to be made"];
    explore_small("resource_creation_cancelled_x_borrow", &expected, |outcomes| {
        let (slow, pool) = Slow::pool(false, |b| b.max_active(1));
        let first = slow.begin(borrow(pool.clone()));
        let behind = slow.begin(borrow(pool.clone()));
        let theirs = slow.clone();
        let opening = spawn(move || theirs.open());
        drop(first);
        let open = slow.gate.lock().0;
        outcomes.note(if open { "made" } else { "still to be made" });
        let lent = slow.reentry.block_on(behind).expect("a number");
        assert_eq!((*lent, slow.begun()), (1, 1));
        drop(lent);
        opening.join().expect("no panic");
        end(&pool);
    });
}

/// A second borrower takes over a hanging creation, and gives up too while a third arrives.
///
/// Guards the check of `begun` in the drop of `InCreation`. Otherwise the third borrower gets the creation that two
/// have left, and so does every later one. Asserted: the third borrower gets a new creation, whether it arrives
/// before the second gives up or after it.
#[test]
fn resource_creation_left_twice_x_waiter() {
    let expected = ["in line", "late"];
    explore_small("resource_creation_left_twice_x_waiter", &expected, |outcomes| {
        let (hangs, pool) = Slow::pool(false, |b| b.max_active(1));
        drop(hangs.begin(borrow(pool.clone())));
        let second = hangs.begin(borrow(pool.clone()));
        // From now on, creations complete.
        hangs.set_gate(true);
        let giving_up = spawn(move || drop(second));
        let in_line = |waits| outcomes.note(if waits { "in line" } else { "late" });
        let lent = hangs.complete(borrow(pool.clone()), in_line).expect("a number");
        giving_up.join().expect("no panic");
        assert_eq!((*lent, hangs.begun()), (2, 2));
        drop(lent);
        end(&pool);
    });
}

/// A caller of `add` leaves its creation while a borrower arrives. Later creations complete.
///
/// Guards `Room::leave` of `Refilling`, which puts the unfinished creation into the idle list. Otherwise the work
/// is repeated. Asserted: one creation begins, and the borrower gets its resource, whether it arrives before the
/// `add` ends or after it.
#[test]
fn resource_add_cancelled_x_borrow() {
    let expected = ["in line", "late"];
    explore_small("resource_add_cancelled_x_borrow", &expected, |outcomes| {
        let (slow, pool) = Slow::pool(false, |b| b.max_total(1));
        let theirs = pool.clone();
        let adding = slow.begin(async move { theirs.add_async().await });
        slow.set_gate(true);
        let giving_up = spawn(move || drop(adding));
        let in_line = |waits| outcomes.note(if waits { "in line" } else { "late" });
        let lent = slow.complete(pool.borrow_async(), in_line).expect("a number");
        giving_up.join().expect("no panic");
        assert_eq!((*lent, slow.begun()), (1, 1));
        drop(lent);
        end(&pool);
    });
}

/// A borrower leaves its creation, which has the only place, while the maintenance refills. Later creations
/// complete.
///
/// Guards that `State::reserve_idle` takes over an unfinished creation before it looks for a free place. Otherwise
/// a later maintenance finds no place. Asserted: one creation begins, and its resource is idle after this
/// maintenance or the next one.
#[test]
fn resource_creation_left_x_refill() {
    let expected = ["at once", "later"];
    explore_small("resource_creation_left_x_refill", &expected, |outcomes| {
        let (slow, pool) = Slow::pool(false, |b| b.max_total(1));
        let leaves = slow.begin(borrow(pool.clone()));
        // The total is reached, so this schedules no refill.
        pool.set_min_idle(1).expect("valid");
        slow.set_gate(true);
        let giving_up = spawn(move || drop(leaves));
        slow.reentry.block_on(pin!(pool.maintain_async()));
        let is_ready = || pool.snapshot().keys[0].resources[0].state == ResourceState::Idle;
        let at_once = is_ready();
        outcomes.note(if at_once { "at once" } else { "later" });
        giving_up.join().expect("no panic");
        if !at_once {
            slow.reentry.block_on(pin!(pool.maintain_async()));
        }
        assert!(is_ready());
        assert_eq!(slow.begun(), 1);
        end(&pool);
    });
}

/// A borrower leaves its creation while another takes the finished resource. The idle list is below its minimum
/// then, and the total is reached. The maintenance has run before, and sleeps.
///
/// Guards `needs_room` in `State::watch_minimum`: a key with an unfinished creation needs no free place. Otherwise
/// the loan does not wake the maintenance, and no later event does. Asserted: the maintenance is scheduled, and
/// completes the creation.
#[test]
fn resource_creation_left_x_loan() {
    let expected = ["after the loan", "before it is seen"];
    explore_small("resource_creation_left_x_loan", &expected, |outcomes| {
        let (slow, pool) = Slow::pool(true, |b| b.min_idle(1).max_total(2));
        let reentry = &slow.reentry;
        let ready = reentry.block_on(pin!(pool.borrow_async())).expect("a number");
        slow.set_gate(false);
        let leaves = slow.begin(borrow(pool.clone()));
        drop(ready);
        assert_eq!(reentry.block_on(pin!(pool.maintain_async())), None, "nothing is due");
        slow.set_gate(true);
        let giving_up = spawn(move || drop(leaves));
        let lent = reentry.block_on(pin!(pool.borrow_async())).expect("what is ready");
        let left = pool.num_idle() == 1;
        outcomes.note(if left { "before it is seen" } else { "after the loan" });
        giving_up.join().expect("no panic");
        // The invariants have asserted after each section that the maintenance knows what is due.
        reentry.block_on(pin!(pool.maintain_async()));
        assert_eq!(pool.snapshot().keys[0].resources[0].state, ResourceState::Idle);
        assert_eq!((*lent, pool.num_idle(), slow.begun()), (1, 1, 2));
        drop(lent);
        pool.close();
        assert!(pool.wait_closed(SECOND));
    });
}
