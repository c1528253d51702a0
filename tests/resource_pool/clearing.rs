//! Clearing, keeping some, closing, and handles that keep nothing open.

use crate::common::{Background, Outcome, pool};
use crate::shared::task::Task;
use crate::shared::{Door, SECOND, before_long};
use cabrank::resource_pool::{AddError, BorrowError, Borrowed};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

/// PROP-RP-CLEAR-ALL.
#[test]
fn a_clear_of_all_takes_what_is_idle_too() {
    let rig = pool(|b| b);
    let [lent, idle] = rig.lend_all();
    drop(idle);
    rig.pool.clear_all();
    assert_eq!((rig.counts(), rig.script.alive()), ((1, 0), 1));
    drop(lent);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// What is being made, or is on its way to a waiter, is of the old epoch, too.
#[test]
fn a_clear_of_all_takes_what_is_being_made() {
    let rig = pool(|b| b.max_active(2));
    let door = Door::default();
    let theirs = door.clone();
    rig.script.on("create", move |_| {
        theirs.pass();
        Outcome::Well
    });
    let theirs = rig.pool.clone();
    let makes = Background::start(move || theirs.borrow().map(Borrowed::into_owned));
    let theirs = rig.pool.clone();
    let adds = Background::start(move || theirs.add());
    door.await_arrivals(2);
    rig.pool.clear_all();
    door.open();
    drop(makes.end().expect("it is lent all the same"));
    adds.end().expect("it was made");
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
    // What is made from now on stays.
    drop(rig.lend());
    assert_eq!(rig.counts(), (0, 1));
}

/// What a clear of all leaves free is for those who wait.
#[test]
fn who_waits_gets_a_new_one_after_a_clear_of_all() {
    let rig = pool(|b| b.max_active(1).max_total(1));
    let old = rig.lend();
    let waits = rig.queue();
    rig.pool.clear_all();
    drop(old);
    assert_eq!(waits.end().expect("a new one").number, 2);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 1));
}

#[test]
fn retain_keeps_what_it_is_told_to() {
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
    // Each is in its place: the last one back is lent first.
    assert_eq!(rig.lend().number, 4);
    drop(lent);
}

/// The one that was looked at is destroyed, and the panic is the caller's.
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

/// It is outside the lock: it may use the pool.
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

/// Who waits is told at once, what is idle is destroyed, what is lent when it comes back.
/// PROP-RP-CLOSED.
#[test]
fn a_close_tells_all_and_ends_when_all_is_back() {
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

struct Nobody;
impl Wake for Nobody {
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
    let wakes = Arc::new(Nobody);
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

/// What is being made when the pool is closed is lent, or refused, and does not stay.
#[test]
fn a_close_ends_after_what_is_being_made() {
    let rig = pool(|b| b);
    let door = Door::default();
    let theirs = door.clone();
    rig.script.on("create", move |_| {
        theirs.pass();
        Outcome::Well
    });
    let theirs = rig.pool.clone();
    let adds = Background::start(move || theirs.add());
    door.await_arrivals(1);
    rig.pool.close();
    assert!(!rig.pool.wait_closed(Duration::ZERO));
    door.open();
    assert_eq!(adds.end(), Err(AddError::Closed));
    assert!(rig.pool.wait_closed(Duration::ZERO));
    assert_eq!(rig.script.alive(), 0);
}

/// The last handle closes it; guards of their own and weak handles do not keep it open.
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

/// Out of the pool for good: not destroyed, and its place is free.
#[test]
fn what_is_detached_is_the_callers() {
    let rig = pool(|b| b.max_active(1).max_total(1));
    let lent = rig.lend();
    let waits = rig.queue();
    let mine = lent.detach();
    drop(waits.end().expect("its place"));
    assert!(mine.active);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 2));
    rig.pool.close();
    assert_eq!(rig.script.alive(), 1);
    assert!(!rig.script.calls().contains("destroy 1"));
}
