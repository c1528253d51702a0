//! Clear, retain, close, detach, and weak handles.

use crate::common::{Background, Outcome, pool};
use crate::shared::task::Task;
use crate::shared::{Gate, SECOND, before_long};
use cabrank::resource_pool::{AddError, BorrowError, Borrowed};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

/// PROP-RP-CLEAR-ALL.
#[test]
fn a_clear_of_all_takes_idle_resources_too() {
    let rig = pool(|b| b);
    let [lent, idle] = rig.lend_all();
    drop(idle);
    rig.pool.clear_all();
    assert_eq!((rig.counts(), rig.script.alive()), ((1, 0), 1));
    drop(lent);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// Resources being created, or granted to a waiter, belong to the old epoch too.
#[test]
fn a_clear_of_all_takes_resources_under_creation() {
    let rig = pool(|b| b.max_active(2));
    let gate = Gate::default();
    let theirs = gate.clone();
    rig.script.on("create", move |_| {
        theirs.pass();
        Outcome::Well
    });
    let theirs = rig.pool.clone();
    let makes = Background::start(move || theirs.borrow().map(Borrowed::into_owned));
    let theirs = rig.pool.clone();
    let adds = Background::start(move || theirs.add());
    gate.await_arrivals(2);
    rig.pool.clear_all();
    gate.open();
    drop(makes.end().expect("it is lent all the same"));
    adds.end().expect("created");
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
    // Resources created from now on stay.
    drop(rig.lend());
    assert_eq!(rig.counts(), (0, 1));
}

/// Waiters get the places that `clear_all` frees.
#[test]
fn a_waiter_gets_a_new_one_after_a_clear_of_all() {
    let rig = pool(|b| b.max_active(1).max_total(1));
    let old = rig.lend();
    let waits = rig.queue();
    rig.pool.clear_all();
    drop(old);
    assert_eq!(waits.end().expect("a new one").number, 2);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 1));
}

#[test]
fn retain_keeps_the_chosen_ones() {
    let rig = pool(|b| b);
    let mut five = Vec::from(rig.lend_all::<5>());
    let lent = five.pop();
    drop(five);
    let mut seen = Vec::new();
    rig.pool.retain(|metadata, resource| {
        seen.push((*metadata, resource.number));
        resource.number % 2 == 0
    });
    assert_eq!(seen, [1, 2, 3, 4].map(|number| ("m", number)));
    assert_eq!((rig.counts(), rig.script.alive()), ((1, 2), 3));
    // The kept ones are in their order: the last one back is lent first.
    assert_eq!(rig.lend().number, 4);
    drop(lent);
}

/// The resource under inspection is destroyed, and the caller of `retain` gets the panic.
#[test]
fn retain_lets_a_panic_through() {
    let rig = pool(|b| b);
    drop(rig.lend_all::<3>());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        rig.pool.retain(|_, resource| match resource.number {
            2 => resume_unwind(Box::new("on purpose")),
            _ => true,
        });
    }));
    assert!(panicked.is_err());
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 2), 2));
    drop(rig.lend_all::<3>());
}

/// `retain` calls its closure without the lock.
#[test]
fn retain_may_use_the_pool() {
    let rig = pool(|b| b);
    drop(rig.lend_all::<2>());
    rig.pool.retain(|_, resource| {
        assert_ne!(rig.lend().number, resource.number, "it is looked at");
        true
    });
    assert_eq!(rig.counts(), (0, 2));
}

/// Waiters fail at once, idle resources are destroyed now, and borrowed ones on return.
/// PROP-RP-CLOSED.
#[test]
fn a_close_fails_the_waiters_and_ends_with_the_last_return() {
    let rig = pool(|b| b.max_active(2));
    let [lent, idle] = rig.lend_all();
    let mut task = rig.task();
    let waits = rig.queue();
    rig.pool.close();
    rig.pool.close();
    assert_eq!(waits.end().unwrap_err(), BorrowError::Closed);
    assert_eq!(task.poll().expect("woken").unwrap_err(), BorrowError::Closed);
    assert_eq!(rig.pool.borrow().unwrap_err(), BorrowError::Closed);
    assert_eq!(rig.pool.try_borrow().unwrap_err(), BorrowError::Closed);
    assert_eq!(rig.pool.add().unwrap_err(), AddError::Closed);
    assert!(rig.pool.is_closed() && rig.pool.snapshot().closed);
    assert_eq!((rig.counts(), rig.pool.num_waiting()), ((2, 0), 0));
    assert!(!rig.pool.wait_closed(Duration::ZERO));
    let (pool, theirs) = (rig.pool.clone(), rig.pool.clone());
    let blocking = Background::start(move || pool.wait_closed(SECOND));
    let mut waiting = Task::new(async move { theirs.wait_closed_async().await });
    assert!(waiting.poll().is_none());
    drop(idle);
    assert!(waiting.poll().is_none());
    drop(lent);
    assert!(blocking.end());
    assert_eq!(waiting.wakes(), 1);
    assert!(waiting.poll().is_some());
    assert_eq!((rig.pool.num_total(), rig.script.alive()), (0, 0));
    assert!(rig.pool.wait_closed(Duration::ZERO));
}

struct Counted;
impl Wake for Counted {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_wait_for_the_end_ends_at_its_time_and_can_be_given_up() {
    let rig = pool(|b| b);
    let lent = rig.lend();
    rig.pool.close();
    let (pool, theirs) = (rig.pool.clone(), rig.pool.clone());
    let waits = Background::start(move || pool.wait_closed(SECOND));
    let mut given_up = Task::new(async move { theirs.wait_closed_async().await });
    let wakes = Arc::new(Counted);
    assert!(given_up.poll_with(&Waker::from(wakes.clone())).is_none());
    drop(given_up);
    assert_eq!(Arc::strong_count(&wakes), 1, "its waker goes with it");
    before_long(|| {
        rig.clock.advance(SECOND);
        !waits.is_pending()
    });
    drop(lent);
    assert!(rig.pool.wait_closed(Duration::ZERO));
}

/// A resource under creation at the close is lent or refused, and does not stay.
#[test]
fn a_close_ends_after_a_creation_in_flight() {
    let rig = pool(|b| b);
    let gate = Gate::default();
    let theirs = gate.clone();
    rig.script.on("create", move |_| {
        theirs.pass();
        Outcome::Well
    });
    let theirs = rig.pool.clone();
    let adds = Background::start(move || theirs.add());
    gate.await_arrivals(1);
    rig.pool.close();
    assert!(!rig.pool.wait_closed(Duration::ZERO));
    gate.open();
    assert_eq!(adds.end(), Err(AddError::Closed));
    assert!(rig.pool.wait_closed(Duration::ZERO));
    assert_eq!(rig.script.alive(), 0);
}

/// The last handle closes the pool; owned guards and weak handles do not keep it open.
#[test]
fn the_last_handle_closes_the_pool() {
    let rig = pool(|b| b);
    let weak = rig.pool.downgrade();
    let [lent, idle] = rig.lend_all();
    drop(idle);
    let second = weak.upgrade().expect("it is open");
    drop(rig.pool);
    drop(second.borrow().expect("it is open"));
    drop(second);
    assert!(weak.clone().upgrade().is_none());
    assert_eq!(rig.script.alive(), 1);
    drop(lent);
    assert_eq!(rig.script.alive(), 0);

    let keyed = crate::common::keyed(|b| b);
    let weak = keyed.pool.downgrade();
    drop(keyed.lend("a"));
    drop(keyed.pool);
    assert!(weak.upgrade().is_none());
    assert_eq!(keyed.script.alive(), 0);
}

/// A detached resource is not destroyed, and its place becomes free.
#[test]
fn a_detached_resource_is_the_callers() {
    let rig = pool(|b| b.max_active(1).max_total(1));
    let lent = rig.lend();
    let waits = rig.queue();
    let mine = Borrowed::detach(lent);
    drop(waits.end().expect("its place"));
    assert!(mine.active);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 2));
    rig.pool.close();
    assert_eq!(rig.script.alive(), 1);
    assert!(!rig.script.calls().contains("destroy 1"));
}
