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
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Poll, Waker};

/// A factory whose creations complete once the gate is open.
#[derive(Clone)]
struct Slow {
    door: Door,
    begun: Arc<AtomicU32>,
    gate: Arc<Mutex<(bool, Option<Waker>)>>,
}

impl Slow {
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
}

impl AsyncResourceFactory for Slow {
    type Resource = u32;
    type Metadata = ();
    type Error = Infallible;

    async fn create(&self, (): &()) -> Result<u32, Infallible> {
        self.door.enter();
        let number = self.begun.fetch_add(1, SeqCst) + 1;
        poll_fn(|cx| {
            self.door.enter();
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
    explore_small(
        "resource_creation_cancelled_x_borrow",
        &["made", "still to be made"],
        |outcomes| {
            let door = Door::default();
            let slow = Slow {
                door: door.clone(),
                begun: Arc::default(),
                gate: Arc::new(Mutex::new((false, None))),
            };
            let pool = ResourcePool::builder(Async(slow.clone()), ());
            let pool = pool.max_active(1).build_async().expect("a valid pool");
            let weak = pool.downgrade();
            door.open(move || {
                if let Some(pool) = weak.upgrade() {
                    pool.num_idle();
                }
            });
            let mut first = Box::pin(pool.borrow_async());
            let mut behind = pin!(pool.borrow_async());
            assert!(door.poll_once(first.as_mut()).is_pending());
            assert!(door.poll_once(behind.as_mut()).is_pending());
            let theirs = slow.clone();
            let opening = spawn(move || theirs.open());
            drop(first);
            let open = slow.gate.lock().0;
            outcomes.note(if open { "made" } else { "still to be made" });
            let lent = door.block_on(behind).expect("a number");
            assert_eq!((*lent, slow.begun.load(SeqCst)), (1, 1));
            drop(lent);
            opening.join().expect("no panic");
            assert_eq!((pool.num_active(), pool.num_idle(), pool.num_total()), (0, 1, 1));
            pool.close();
            assert!(pool.wait_closed(SECOND));
        },
    );
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
        let door = Door::default();
        let gate = Arc::new(Mutex::new((false, None)));
        let hangs = Slow { door: door.clone(), begun: Arc::default(), gate };
        let pool = ResourcePool::builder(Async(hangs.clone()), ());
        let pool = pool.max_active(1).build_async().expect("a valid pool");
        let weak = pool.downgrade();
        door.open(move || {
            if let Some(pool) = weak.upgrade() {
                pool.num_idle();
            }
        });
        let borrow = || {
            let pool = pool.clone();
            Box::pin(async move { pool.borrow_async().await.map(Borrowed::into_owned) })
        };
        let mut first = borrow();
        assert!(door.poll_once(first.as_mut()).is_pending());
        drop(first);
        let mut second = borrow();
        assert!(door.poll_once(second.as_mut()).is_pending());
        // From now on, creations complete.
        hangs.gate.lock().0 = true;
        let giving_up = spawn(move || drop(second));
        let mut behind = borrow();
        let at_once = door.poll_once(behind.as_mut());
        outcomes.note(if at_once.is_pending() { "in line" } else { "late" });
        let lent = match at_once {
            Poll::Ready(lent) => lent,
            Poll::Pending => door.block_on(behind),
        };
        let lent = lent.expect("a number");
        giving_up.join().expect("no panic");
        assert_eq!((*lent, hangs.begun.load(SeqCst)), (2, 2));
        drop(lent);
        assert_eq!((pool.num_active(), pool.num_idle(), pool.num_total()), (0, 1, 1));
        pool.close();
        assert!(pool.wait_closed(SECOND));
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
        let door = Door::default();
        let gate = Arc::new(Mutex::new((false, None)));
        let slow = Slow { door: door.clone(), begun: Arc::default(), gate };
        let pool = ResourcePool::builder(Async(slow.clone()), ());
        let pool = pool.max_total(1).build_async().expect("a valid pool");
        let weak = pool.downgrade();
        door.open(move || {
            if let Some(pool) = weak.upgrade() {
                pool.num_idle();
            }
        });
        let theirs = pool.clone();
        let mut adding = Box::pin(async move { theirs.add_async().await });
        assert!(door.poll_once(adding.as_mut()).is_pending());
        slow.gate.lock().0 = true;
        let giving_up = spawn(move || drop(adding));
        let mut borrow = pin!(pool.borrow_async());
        let at_once = door.poll_once(borrow.as_mut());
        outcomes.note(if at_once.is_pending() { "in line" } else { "late" });
        let lent = match at_once {
            Poll::Ready(lent) => lent,
            Poll::Pending => door.block_on(borrow),
        };
        let lent = lent.expect("a number");
        giving_up.join().expect("no panic");
        assert_eq!((*lent, slow.begun.load(SeqCst)), (1, 1));
        drop(lent);
        assert_eq!((pool.num_active(), pool.num_idle(), pool.num_total()), (0, 1, 1));
        pool.close();
        assert!(pool.wait_closed(SECOND));
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
        let door = Door::default();
        let gate = Arc::new(Mutex::new((false, None)));
        let slow = Slow { door: door.clone(), begun: Arc::default(), gate };
        let pool = ResourcePool::builder(Async(slow.clone()), ());
        let pool = pool.max_total(1).build_async().expect("a valid pool");
        let weak = pool.downgrade();
        door.open(move || {
            if let Some(pool) = weak.upgrade() {
                pool.num_idle();
            }
        });
        let theirs = pool.clone();
        let mut borrow =
            Box::pin(async move { theirs.borrow_async().await.map(Borrowed::into_owned) });
        assert!(door.poll_once(borrow.as_mut()).is_pending());
        // The total is reached, so this schedules no refill.
        pool.set_min_idle(1).expect("valid");
        slow.gate.lock().0 = true;
        let giving_up = spawn(move || drop(borrow));
        door.block_on(pin!(pool.maintain_async()));
        let is_ready = || pool.snapshot().keys[0].resources[0].state == ResourceState::Idle;
        let at_once = is_ready();
        outcomes.note(if at_once { "at once" } else { "later" });
        giving_up.join().expect("no panic");
        if !at_once {
            door.block_on(pin!(pool.maintain_async()));
        }
        assert!(is_ready());
        assert_eq!((pool.num_idle(), pool.num_total()), (1, 1));
        assert_eq!(slow.begun.load(SeqCst), 1);
        pool.close();
        assert!(pool.wait_closed(SECOND));
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
        let door = Door::default();
        let gate = Arc::new(Mutex::new((true, None)));
        let slow = Slow { door: door.clone(), begun: Arc::default(), gate };
        let pool = ResourcePool::builder(Async(slow.clone()), ());
        let pool = pool.min_idle(1).max_total(2).build_async().expect("a valid pool");
        let weak = pool.downgrade();
        door.open(move || {
            if let Some(pool) = weak.upgrade() {
                pool.num_idle();
            }
        });
        let ready = door.block_on(pin!(pool.borrow_async())).expect("a number");
        slow.gate.lock().0 = false;
        let theirs = pool.clone();
        let mut leaves =
            Box::pin(async move { theirs.borrow_async().await.map(Borrowed::into_owned) });
        assert!(door.poll_once(leaves.as_mut()).is_pending());
        drop(ready);
        assert_eq!(door.block_on(pin!(pool.maintain_async())), None, "nothing is due");
        slow.gate.lock().0 = true;
        let giving_up = spawn(move || drop(leaves));
        let lent = door.block_on(pin!(pool.borrow_async())).expect("what is ready");
        let left = pool.num_idle() == 1;
        outcomes.note(if left { "before it is seen" } else { "after the loan" });
        giving_up.join().expect("no panic");
        // The invariants have asserted after each section that the maintenance knows what is due.
        door.block_on(pin!(pool.maintain_async()));
        assert_eq!(pool.snapshot().keys[0].resources[0].state, ResourceState::Idle);
        assert_eq!((*lent, pool.num_idle(), slow.begun.load(SeqCst)), (1, 1, 2));
        drop(lent);
        pool.close();
        assert!(pool.wait_closed(SECOND));
    });
}
