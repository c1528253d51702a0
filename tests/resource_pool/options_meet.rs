//! Two options that meet: what the one does while the other one has something under way.

use crate::common::{Keyed, Outcome, Rig, Script, keyed, pool};
use crate::runtimes::{HOUR, Numbers};
use crate::shared::task::{Task, block_on};
use crate::shared::woken::{Sleep, Woken};
use crate::shared::{SECOND, end_the_run_when_the_library_panics};
use crate::steps::{Step, Steps};
use cabrank::ManualClock;
use cabrank::periodic_executor::{BoxFuture, Runtime};
use cabrank::resource_pool::{
    Async, Borrowed, BuildError, KeyedResourcePool, LendOrder, ResourcePool,
};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// `min_idle`, `soft_max_idle_time` and `retain`: a resource that is looked at counts for the minimum, so another one
/// above it leaves at its time.
#[test]
fn a_resource_under_test_counts_for_the_minimum() {
    end_the_run_when_the_library_panics();
    let (clock, runtime) = (ManualClock::new(), Woken::default());
    let builder = ResourcePool::builder(Async(Numbers), ()).min_idle(1).max_idle(4);
    let builder = builder.soft_max_idle_time(SECOND).clock(clock.clock());
    let pool = builder.build_on(runtime.clone()).expect("a valid pool");
    runtime.run();
    let mut lent = Some(block_on(pool.borrow_async()).expect("the idle one"));
    runtime.run();
    assert_eq!((pool.num_idle(), pool.num_active()), (1, 1));
    pool.retain(|(), _| {
        drop(lent.take());
        clock.advance(SECOND);
        runtime.run();
        assert_eq!(pool.num_idle(), 1, "the other one has left");
        true
    });
    runtime.run();
    assert_eq!(pool.num_idle(), 1);
}

/// `max_idle_time` and `retain`: the maintenance finds nothing due during the test, so the end of the test wakes it.
#[test]
fn an_idle_time_that_ends_during_a_test_is_due_after_it() {
    end_the_run_when_the_library_panics();
    let (clock, runtime) = (ManualClock::new(), Woken::default());
    let builder = ResourcePool::builder(Async(Numbers), ()).max_idle_time(SECOND);
    let pool = builder.clock(clock.clock()).build_on(runtime.clone()).expect("a valid pool");
    drop(runtime.block_on(pool.borrow_async()).expect("a new one"));
    runtime.run();
    pool.retain(|(), _| {
        clock.advance(SECOND);
        runtime.run();
        true
    });
    assert_eq!(pool.num_idle(), 1);
    runtime.run();
    assert_eq!(pool.num_idle(), 0);
}

/// `test_while_idle` and `max_total`: a victim that is spared keeps its turn among those that are tested.
#[test]
fn a_victim_of_a_cancelled_waiter_is_lent_and_tested() {
    let rig: Rig<Keyed> = keyed(|b| {
        b.max_active(None).max_total(1).max_idle(1).test_while_idle(true).eviction_interval(SECOND)
    });
    let lent = rig.lend("a");
    let waits = rig.task("b");
    drop(lent);
    assert_eq!(waits.wakes(), 1);
    drop(waits);
    assert_eq!((rig.pool.num_idle_of(&"a"), rig.pool.num_keys()), (1, 1));
    rig.script.calls();
    rig.clock.advance(SECOND);
    rig.pool.maintain();
    assert_eq!(rig.script.calls(), "validate 1");
    assert_eq!(rig.lend("a").number, 1);
    rig.pool.clear();
    assert_eq!((rig.pool.num_total(), rig.pool.num_keys()), (0, 0));
}

/// `retain` looks at what was idle when it was called, and at no resource that came later.
#[test]
fn retain_looks_at_no_resource_that_came_later() {
    let rig = pool(|b| b.max_active(4));
    rig.pool.prefill(2).expect("there is room");
    let looked = Mutex::new(Vec::new());
    rig.pool.retain(|_, resource| {
        let mut looked = looked.lock().expect("no panic");
        looked.push(resource.number);
        if looked.len() == 1 {
            // The newest is lent, and its slot is free for the next.
            Borrowed::invalidate(rig.lend());
            rig.pool.add().expect("there is room");
        }
        true
    });
    assert_eq!(*looked.lock().expect("no panic"), [1]);
    assert_eq!(rig.pool.num_idle(), 2);
}

/// `lend_order` and `test_on_borrow`: an invalid resource is skipped in either order.
#[test]
fn an_invalid_resource_is_skipped_in_either_order() {
    for order in [LendOrder::NewestFirst, LendOrder::OldestFirst] {
        let rig = pool(|b| b.max_active(4).lend_order(order).test_on_borrow(true));
        rig.pool.prefill(3).expect("there is room");
        rig.script.on("validate", |number| match number {
            1 | 3 => Outcome::Fails,
            _ => Outcome::Well,
        });
        let lent = rig.lend();
        assert_eq!((lent.number, rig.counts()), (2, (1, 1)), "{order:?}");
    }
}

/// `abandoned_after`, `remove_abandoned` and `min_idle`: the place of a lost loan is refilled at most to the minimum.
#[test]
fn the_place_of_a_lost_loan_is_not_hoarded() {
    let rig = pool(|b| {
        b.max_total(2).max_idle(1).min_idle(1).abandoned_after(SECOND).remove_abandoned(true)
    });
    rig.pool.maintain();
    let lost = [rig.lend(), rig.lend()];
    rig.clock.advance(SECOND);
    rig.pool.maintain();
    assert_eq!(rig.counts(), (0, 1));
    drop(lost);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 1));
}

/// `fair(false)` and `max_wait`: the time limit of a waiter that was woken in vain is still its own.
#[test]
fn a_waiter_that_lost_the_race_gives_up_in_its_time() {
    let rig = pool(|b| b.max_active(1).fair(false).max_wait(SECOND));
    let lent = rig.lend();
    let mut waits = rig.task();
    drop(lent);
    assert_eq!(waits.wakes(), 1);
    let lent = rig.lend();
    assert!(waits.poll().is_none(), "it lost the race");
    let late = rig.queue();
    assert!(late.end_by(&rig.clock, SECOND).is_err());
    drop(lent);
    assert_eq!((waits.wakes(), waits.poll().is_some()), (2, true));
}

/// `max_idle` and orders: of what was ordered for borrowers that have left, so many stay.
#[test]
fn creations_that_go_on_do_not_exceed_max_idle() {
    let runtime = Woken::eager();
    let clock = cabrank::Clock::monotonic();
    let configure = |b: crate::steps::Building| b.max_active(4).max_idle(1).clock(clock);
    let rig = crate::steps::rig_on(configure, runtime.clone());
    rig.steps.on("create", Step::Held);
    let all = [rig.waits(), rig.waits(), rig.waits()];
    drop(all);
    runtime.run();
    assert_eq!((rig.steps.held(), rig.counts()), (3, (0, 0, 3)));
    rig.steps.go_on("create");
    assert_eq!((runtime.run(), runtime.timers(), rig.counts()), (0, 0, (0, 1, 1)));
    assert_eq!(rig.steps.alive(), 1);
}

/// A runtime whose first timer panics.
#[derive(Clone, Default)]
struct FirstTimerPanics(Woken, Arc<AtomicBool>);

impl Runtime for FirstTimerPanics {
    type Sleep = Sleep;
    fn spawn(&self, task: BoxFuture<()>) {
        self.0.spawn(task);
    }
    fn sleep_until(&self, at: Instant) -> Sleep {
        if !self.1.swap(true, SeqCst) {
            std::panic::resume_unwind(Box::new("no timers"));
        }
        self.0.sleep_until(at)
    }
}

/// The maintenance sleeps without a timer, until the next work of whatever kind is due.
#[test]
fn due_work_wakes_a_maintenance_whose_timer_panicked() {
    end_the_run_when_the_library_panics();
    let runtime = FirstTimerPanics::default();
    let builder = KeyedResourcePool::builder(Async(Steps::default())).max_idle_time(HOUR);
    let pool = builder.build_on(runtime.clone()).expect("a valid pool");
    let is_used = |key| {
        let theirs = pool.clone();
        drop(Task::new(async move { theirs.borrow_async(&key).await.map(drop) }).poll());
        runtime.0.run();
        runtime.0.timers()
    };
    assert_eq!(["a", "b", "c"].map(is_used), [0, 1, 1]);
}

/// The search goes on behind a resource that is under test.
#[test]
fn the_oldest_that_is_not_under_test_is_lent_first() {
    let rig = pool(|b| b.lend_order(LendOrder::OldestFirst));
    drop(rig.lend_all::<3>());
    let mut lent = None;
    rig.pool.retain(|_, _| {
        lent.get_or_insert_with(|| rig.lend());
        true
    });
    assert_eq!((lent.map(|lent| lent.number), rig.script.made()), (Some(2), 3));
}

/// A refusal is a value: it is compared, and kept beside what it was about.
#[test]
fn refusals_are_compared_and_cloned() {
    let refused = || {
        let builder = ResourcePool::builder(Script::default(), "m").max_total(2).min_idle(3);
        builder.build().map(drop).expect_err("it is refused")
    };
    let why = refused();
    assert_eq!((why.clone(), &why), (refused(), &why));
    assert_eq!(why, BuildError::Above { option: ("min_idle", 3), limit: ("max_total", 2) });
    assert_ne!(why, BuildError::Zero("min_idle"));
}
