//! The pool is closed while the maintenance does work that is due. In each model every resource is destroyed once,
//! and `wait_closed` returns.

use crate::ManualClock;
use crate::models::resource_pool::rig::*;
use crate::models::rig::{block_on, poll_once};
use crate::periodic_executor::{BoxFuture, Runtime};
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Instant;

/// A loan looks abandoned during the close. Guards the touch of the key in `State::reclaim`: reclaiming the last loan
/// ends the close. Otherwise the caller of `wait_closed` sleeps for ever.
///
/// Asserted: `wait_closed` does not wait for the loan, whether it is reclaimed before the close or after it. The
/// resource is destroyed when it comes back late.
#[test]
fn resource_close_x_abandoned() {
    let expected = ["given up after the close", "given up before it"];
    explore_small(Model("resource_close_x_abandoned", 208), &expected, |outcomes| {
        let rig = unkeyed(|b| b.abandoned_after(SECOND).remove_abandoned(true)).reentrant();
        let lost = rig.lend();
        rig.clock.advance(SECOND);
        let pool = rig.pool.clone();
        let maintenance = spawn(move || pool.maintain());
        let before = rig.pool.num_total() == 0;
        rig.pool.close();
        assert!(rig.pool.wait_closed(SECOND));
        maintenance.join().expect("no panic");
        outcomes.note(if before { "given up before it" } else { "given up after the close" });
        assert_eq!((rig.counts(), rig.factory.gone().len()), ((0, 0, 0), 0));
        drop(lost);
        assert_eq!(rig.end(), [1]);
    });
}

/// A factory whose second creation, or its activation, completes once the flag is set.
#[derive(Clone, Default)]
struct Late(Arc<(AtomicU32, AtomicBool)>, Where);

#[derive(Clone, Copy, Default, PartialEq)]
enum Where {
    #[default]
    Creation,
    Activation,
}

impl Late {
    async fn may(&self, number: u32, at: Where) {
        let held = || number == 2 && at == self.1 && !self.0.1.load(SeqCst);
        poll_fn(|_| if held() { Poll::Pending } else { Poll::Ready(()) }).await;
    }
}

impl AsyncResourceFactory for Late {
    type Resource = u32;
    type Metadata = ();
    type Error = Infallible;

    async fn create(&self, (): &()) -> Result<u32, Infallible> {
        let number = self.0.0.fetch_add(1, SeqCst) + 1;
        self.may(number, Where::Creation).await;
        Ok(number)
    }
    async fn activate(&self, (): &(), number: &mut u32) -> Result<(), Infallible> {
        self.may(*number, Where::Activation).await;
        Ok(())
    }
}

/// A runtime whose tasks the model polls.
#[derive(Clone, Default)]
struct ByHand(Arc<Mutex<Vec<BoxFuture<()>>>>, Arc<AtomicU32>);

impl Runtime for ByHand {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        self.1.fetch_add(1, SeqCst);
        self.0.lock().expect("no panic").push(task);
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::pending()
    }
}

impl ByHand {
    /// Polls each task once, and keeps the pending ones.
    fn run(&self) {
        let mut tasks = std::mem::take(&mut *self.0.lock().expect("no panic"));
        tasks.retain_mut(|task| poll_once(task.as_mut()).is_pending());
        self.0.lock().expect("no panic").append(&mut tasks);
    }
}

/// An activation begun before the close completes after it, so a loan begins in a closed pool. The executor stops if
/// it sees no loan before. Guards that `Inner::after_pass` updates the alarm even then. Otherwise the new loan
/// relies on an outdated time and does not wake the executor, and the loan is never reclaimed.
///
/// Asserted: the loan is reclaimed when it looks abandoned, and the close ends.
#[test]
fn resource_close_x_late_loan() {
    let expected = ["it went on", "it was begun again"];
    explore_small(Model("resource_close_x_late_loan", 14), &expected, |outcomes| {
        let late = Late(Arc::default(), Where::Activation);
        let (runtime, clock) = (ByHand::default(), ManualClock::new());
        let pool = ResourcePool::builder(Async(late.clone()), ()).clock(clock.clock());
        let pool = pool.abandoned_after(SECOND).remove_abandoned(true);
        let pool = pool.build_on(runtime.clone()).expect("a valid pool");
        // Because of this loan the executor sleeps until a time.
        let mut first = Box::pin(pool.borrow_async());
        assert!(poll_once(first.as_mut()).is_pending());
        runtime.run();
        let first = block_on(first).expect("made by then");
        runtime.run();
        Borrowed::invalidate(first);
        clock.advance(SECOND / 2);
        let mut begun = Box::pin(pool.borrow_async());
        assert!(poll_once(begun.as_mut()).is_pending());
        runtime.run();
        assert!(poll_once(begun.as_mut()).is_pending(), "its activation is held");
        pool.close();
        let (theirs, spawned) = (runtime.clone(), runtime.1.load(SeqCst));
        let sweep = spawn(move || theirs.run());
        late.0.1.store(true, SeqCst);
        let Poll::Ready(lost) = poll_once(begun.as_mut()) else { panic!("it is made") };
        let lost = lost.expect("begun before the close");
        sweep.join().expect("no panic");
        clock.advance(SECOND);
        let again = runtime.1.load(SeqCst) > spawned;
        outcomes.note(if again { "it was begun again" } else { "it went on" });
        for _ in 0..3 {
            runtime.run();
        }
        assert_eq!((pool.num_active(), pool.num_total()), (0, 0), "no call gives it up");
        assert!(pool.wait_closed(SECOND));
        drop(lost);
    });
}

/// A refill hangs. Guards that a close drops it (`State::list_order`). Otherwise the close waits for its end.
///
/// Asserted: the refill ends, and then the close.
#[test]
fn resource_close_x_hanging_refill() {
    let expected = ["dropped at once", "dropped when woken", "not begun"];
    explore_small(Model("resource_close_x_hanging_refill", 336), &expected, |outcomes| {
        // Its second creation hangs.
        let late = Late::default();
        let pool = ResourcePool::builder(Async(late.clone()), ()).min_idle(1);
        let pool = pool
            .clock(ManualClock::new().clock())
            .maintenance(false)
            .build_async()
            .expect("a valid pool");
        Borrowed::invalidate(block_on(pool.borrow_async()).expect("at once"));
        let theirs = pool.clone();
        let maintenance = spawn(move || {
            let mut pass = Box::pin(theirs.maintain_async());
            let pends = poll_once(pass.as_mut()).is_pending();
            if pends {
                block_on(pass);
            }
            pends
        });
        pool.close();
        assert!(pool.wait_closed(SECOND));
        let pended = maintenance.join().expect("no panic");
        let had_begun = late.0.0.load(SeqCst) == 2;
        outcomes.note(match (had_begun, pended) {
            (true, true) => "dropped when woken",
            (true, false) => "dropped at once",
            _ => "not begun",
        });
        assert_eq!((pool.num_active(), pool.num_total()), (0, 0));
    });
}

/// An idle resource has expired. Guards the touch of the key by a destruction that has ended: that of the last resource
/// ends the close. Otherwise the caller of `wait_closed` sleeps for ever.
///
/// Asserted: the close or the maintenance destroys the resource.
#[test]
fn resource_close_x_eviction() {
    let expected = ["by the close", "by the maintenance"];
    explore_small(Model("resource_close_x_eviction", 80), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_idle_time(SECOND));
        drop(rig.lend());
        rig.clock.advance(SECOND);
        let me = crate::kernel::sync::me();
        let theirs = outcomes.clone();
        rig.factory.on_call(move |call| {
            if call == Call::Destroy(1) {
                let mine = crate::kernel::sync::me() == me;
                theirs.note(if mine { "by the close" } else { "by the maintenance" });
            }
        });
        let pool = rig.pool.clone();
        let evictor = spawn(move || pool.maintain());
        rig.pool.close();
        assert!(rig.pool.wait_closed(SECOND));
        assert_eq!(rig.factory.gone(), [1]);
        evictor.join().expect("no panic");
        rig.end();
    });
}

/// An idle resource is under test. Guards the check of `tested` in `State::evict`: the close leaves the resource to
/// its tester, and marks it as expired. Otherwise the close destroys an empty slot, and the tester writes to a slot
/// that is gone.
///
/// Asserted: the resource is destroyed, although it passes its test; if the test has begun, after the test.
#[test]
fn resource_close_x_test() {
    let expected = ["closed before its test", "tested first"];
    explore_small(Model("resource_close_x_test", 148), &expected, |outcomes| {
        let rig = unkeyed(|b| b.test_while_idle(true).eviction_interval(SECOND));
        drop(rig.lend());
        rig.clock.advance(SECOND);
        let tests = Counter::new();
        let theirs = tests.clone();
        rig.factory.on_call(move |call| {
            if call == Call::Validate(1) {
                theirs.up();
            }
        });
        let pool = rig.pool.clone();
        let tester = spawn(move || pool.maintain());
        rig.pool.close();
        assert!(rig.pool.wait_closed(SECOND));
        assert_eq!(rig.factory.gone(), [1]);
        tester.join().expect("no panic");
        let tested = tests.count() > 0;
        outcomes.note(if tested { "tested first" } else { "closed before its test" });
        rig.end();
    });
}
