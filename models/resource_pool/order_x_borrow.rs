//! The pool creates, in tasks of its runtime, while borrowers come and leave, and while it is cleared and closed.
//!
//! Guards `orders.rs`, `ordering.rs` and the end of `line.rs`: without them a borrower sleeps for ever beside a resource or
//! a place, or gets an error that is not its own; or a resource is created for no borrower, or lost.
//!
//! Asserted: each borrower gets a resource or its error; as many creations begin as borrowers wait; and each resource that was
//! made is destroyed in the end, exactly once.

use crate::models::resource_pool::rig::*;
use crate::models::resource_pool::slow::*;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;

/// A resource comes back while another is created for the borrower that waits.
///
/// Guards `State::serve_first`: the borrower gets whichever comes first, and the other is idle.
#[test]
fn resource_order_x_return() {
    let expected = ["the new one", "the returned one"];
    explore(Model("resource_order_x_return", 358), &expected, |outcomes| {
        let hand = ByHand::default();
        let (slow, pool) = Slow::pool_on(&hand, Gate::Open, |b| b.max_active(2));
        let waits = slow.begin(borrow(pool.clone()));
        hand.run(&slow);
        let lent = slow.reentry.block_on(waits).expect("the first");
        let waits = slow.begin(borrow(pool.clone()));
        let returning = spawn(move || drop(lent));
        hand.run(&slow);
        let lent = slow.reentry.block_on(waits).expect("a number");
        outcomes.note(if *lent == 1 { "the returned one" } else { "the new one" });
        drop(lent);
        returning.join().expect("no panic");
        assert_eq!((pool.num_active(), pool.num_idle(), slow.begun()), (0, 2, 2));
        slow.end(&pool);
    });
}

/// The borrower leaves while the resource for it is created. Another borrower comes.
///
/// Guards that a creation belongs to no borrower: the other takes it, and no second one begins.
#[test]
fn resource_order_x_leave() {
    let expected = ["left before", "passed on"];
    explore(Model("resource_order_x_leave", 84), &expected, |outcomes| {
        let hand = ByHand::default();
        let (slow, pool) = Slow::pool_on(&hand, Gate::Open, |b| b.max_active(2));
        let first = slow.begin(borrow(pool.clone()));
        let task = hand.take().pop().expect("an order");
        let reentry = slow.reentry.clone();
        let creating = spawn(move || reentry.block_on(task));
        let granted = pool.num_active() == 1;
        drop(first);
        outcomes.note(if granted { "passed on" } else { "left before" });
        creating.join().expect("no panic");
        assert_eq!((pool.num_active(), pool.num_idle()), (0, 1));
        let mut second = pin!(borrow(pool.clone()));
        assert!(slow.reentry.poll_once(second.as_mut()).is_ready());
        assert_eq!(slow.begun(), 1);
        slow.end(&pool);
    });
}

/// Two borrowers come at once.
///
/// Guards the counts of PROP-RP-ORDERED: two creations begin, and no third.
#[test]
fn resource_order_x_two_borrowers() {
    let expected = ["in turn", "the other way round"];
    explore_small(Model("resource_order_x_two_borrowers", 14), &expected, |outcomes| {
        let hand = ByHand::default();
        let (slow, pool) = Slow::pool_on(&hand, Gate::Open, |b| b.max_active(3));
        let (theirs, reentry) = (pool.clone(), slow.reentry.clone());
        let there = spawn(move || {
            let mut call = Box::pin(borrow(theirs));
            assert!(reentry.poll_once(call.as_mut()).is_pending());
            call
        });
        let here = slow.begin(borrow(pool.clone()));
        let there = there.join().expect("no panic");
        hand.run(&slow);
        let here = slow.reentry.block_on(here).expect("a number");
        let there = slow.reentry.block_on(there).expect("a number");
        outcomes.note(if *here < *there { "in turn" } else { "the other way round" });
        assert_eq!((pool.num_active(), pool.num_total(), slow.begun()), (2, 2, 2));
        drop((here, there));
        slow.end(&pool);
    });
}

/// The pool is closed, or cleared, while a creation ends for the borrower that waits.
///
/// Guards `State::drop_order` and the wait of its task: the creation is dropped, or what it made is destroyed. Otherwise
/// the close never ends, or a resource from before the clear is lent.
fn dropped(model: Model, expected: &[&'static str], closes: bool) {
    explore(model, expected, move |outcomes| {
        let hand = ByHand::default();
        let (slow, pool) = Slow::pool_on(&hand, Gate::Shut, |b| b.max_active(1));
        let waits = slow.begin(borrow(pool.clone()));
        let mut task = hand.take().pop().expect("an order");
        assert!(slow.reentry.poll_once(Pin::new(&mut task)).is_pending());
        let reentry = slow.reentry.clone();
        let creating = spawn(move || reentry.block_on(task));
        match closes {
            true => pool.close(),
            false => pool.clear_all(),
        }
        // Its task may have dropped it by then.
        slow.turn(Gate::Open);
        creating.join().expect("no panic");
        let made = slow.made() == 1;
        hand.run(&slow);
        match slow.reentry.block_on(waits) {
            Ok(lent) => assert_eq!((*lent, closes), (2, false), "not from before"),
            Err(error) => assert_eq!((error, closes), (BorrowError::Closed, true)),
        }
        outcomes.note(if made { "made, and destroyed" } else { "dropped" });
        slow.end(&pool);
    });
}

#[test]
fn resource_order_x_close() {
    dropped(Model("resource_order_x_close", 18_023), &["dropped", "made, and destroyed"], true);
}

#[test]
fn resource_order_x_clear_all() {
    dropped(Model("resource_order_x_clear_all", 3_441), &["dropped", "made, and destroyed"], false);
}

/// A creation fails while its borrower leaves, and another one waits that came before it was ordered.
///
/// Guards `State::order_failed` and `Effect::ReportFailed`: the error reaches the second borrower, or the listener because the
/// first one gave up with it; and then the second is served.
#[test]
fn resource_order_failure_x_leave() {
    let expected = ["the first left with its error", "the second got it"];
    explore(Model("resource_order_failure_x_leave", 56), &expected, |outcomes| {
        let (hand, reported) = (ByHand::default(), Arc::new(AtomicBool::new(false)));
        let notes = reported.clone();
        let (slow, pool) = Slow::pool_on(&hand, Gate::Fails, |b| {
            b.max_active(2).listener(move |(), _| notes.store(true, SeqCst))
        });
        let first = slow.begin(borrow(pool.clone()));
        let second = slow.begin(borrow(pool.clone()));
        // Both waited when the second one was ordered.
        let mut tasks = hand.take();
        let (task, reentry) = (tasks.pop().expect("an order"), slow.reentry.clone());
        let failing = spawn(move || reentry.block_on(task));
        drop(first);
        failing.join().expect("no panic");
        slow.turn(Gate::Open);
        tasks.into_iter().for_each(|task| slow.reentry.block_on(task));
        hand.run(&slow);
        match slow.reentry.block_on(second) {
            Ok(lent) => {
                outcomes.note("the first left with its error");
                assert!(reported.load(SeqCst));
                drop(lent);
            }
            Err(error) => {
                assert_eq!(error, BorrowError::Create(Failure::Error("on purpose")));
                assert!(!reported.load(SeqCst));
                outcomes.note("the second got it");
            }
        }
        hand.run(&slow);
        slow.end(&pool);
    });
}

/// The only creation hangs, its borrower has left, and it becomes overdue while another borrower comes.
///
/// Guards `State::note_overdue`, and the list of what gives way. Otherwise the borrower waits for a creation that hangs
/// (PROP-RP-EVERY-ORDERED-BORROW-ENDS).
#[test]
fn resource_overdue_order_x_borrow() {
    let expected = ["it came later", "it waited before"];
    explore(Model("resource_overdue_order_x_borrow", 108), &expected, |outcomes| {
        let slow = Slow::new(Gate::Shut);
        let hand = slow.hand.clone();
        let pool = ResourcePool::builder(Async(slow.clone()), ()).max_total(1).max_wait(None);
        let pool: SlowPool = pool.build_on(Soon(hand.clone())).expect("a valid pool");
        // User code does not re-enter the pool here: the search would be too long.
        drop(slow.begin(borrow(pool.clone())));
        let mut task = hand.take().pop().expect("an order");
        assert!(slow.reentry.poll_once(Pin::new(&mut task)).is_pending());
        // The timers of its limit, and of when it is overdue.
        let mut timers = hand.take();
        let reentry = slow.reentry.clone();
        let driving = spawn(move || {
            for timer in &mut timers {
                let _ = reentry.poll_once(Pin::new(timer));
            }
            // It is dropped, as soon as the other borrower waits.
            reentry.block_on(task);
            timers
        });
        let mut waits = Box::pin(borrow(pool.clone()));
        let before = pool.num_total() == 1 && slow.begun() == 1;
        assert!(slow.reentry.poll_once(waits.as_mut()).is_pending());
        let ordered_at_once = hand.take();
        outcomes.note(if ordered_at_once.is_empty() {
            "it waited before"
        } else {
            "it came later"
        });
        assert!(before);
        let timers = driving.join().expect("no panic");
        slow.turn(Gate::Open);
        ordered_at_once.into_iter().for_each(|task| slow.reentry.block_on(task));
        for task in hand.take() {
            slow.reentry.block_on(task);
        }
        let lent = slow.reentry.block_on(waits).expect("a number");
        assert_eq!(*lent, 2, "another creation");
        drop((lent, timers));
        slow.end(&pool);
    });
}

/// The runtime ends, and drops the order's task, while another borrower comes.
///
/// Guards `State::order_lost`: both borrowers are granted places, and create for themselves. Otherwise one of them waits for
/// a creation that no task runs.
#[test]
fn resource_runtime_end_x_wait() {
    let expected = ["after the end", "before the end"];
    explore(Model("resource_runtime_end_x_wait", 318), &expected, |outcomes| {
        let hand = ByHand::default();
        let (slow, pool) = Slow::pool_on(&hand, Gate::Open, |b| b.max_active(2));
        let first = slow.begin(borrow(pool.clone()));
        let task = hand.take().pop().expect("an order");
        let ending = spawn(move || drop(task));
        let mut second = Box::pin(borrow(pool.clone()));
        let got = slow.reentry.poll_once(second.as_mut());
        let orders = hand.take();
        ending.join().expect("no panic");
        drop(orders);
        let first = slow.reentry.block_on(first).expect("its own");
        let second = match got {
            Poll::Ready(got) => {
                outcomes.note("after the end");
                got
            }
            Poll::Pending => {
                outcomes.note("before the end");
                slow.reentry.block_on(second)
            }
        };
        drop((first, second.expect("its own")));
        assert_eq!(slow.begun(), 2);
        // The questions whether the runtime takes tasks again.
        drop(hand.take());
        slow.end(&pool);
    });
}
