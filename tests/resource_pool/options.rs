//! Every option (those of the maintenance are in `maintaining.rs` and `minimum.rs`). The builder and
//! the setters refuse contradicting options, and name both.

use crate::common::{Keyed, Outcome, Pool, Script, keyed, pool};
use crate::shared::SECOND;
use crate::steps::{Building, Steps};
use cabrank::periodic_executor::OpenError;
use cabrank::periodic_executor::{BoxFuture, Runtime};
use cabrank::resource_pool::{
    AddError, Async, BorrowError, Borrowed, BuildError, Builder, Failure, KeyedResourcePool,
    LendOrder, ResourcePool, WhenExhausted,
};
use std::error::Error;
use std::time::{Duration, Instant};

type B = Builder<Script, Pool>;

#[track_caller]
fn refused(configure: impl FnOnce(B) -> B) -> String {
    let builder = ResourcePool::builder(Script::default(), "m").maintenance(false);
    configure(builder).build().expect_err("it is refused").to_string()
}

#[test]
fn options_that_must_be_positive_refuse_zero() {
    type Case = (&'static str, fn(B) -> B);
    let cases: [Case; 8] = [
        ("max_active", |b| b.max_active(0)),
        ("max_total", |b| b.max_total(0)),
        ("max_idle_time", |b| b.max_idle_time(Duration::ZERO)),
        ("soft_max_idle_time", |b| b.soft_max_idle_time(Duration::ZERO)),
        ("max_lifetime", |b| b.max_lifetime(Duration::ZERO)),
        ("eviction_interval", |b| b.eviction_interval(Duration::ZERO)),
        ("evictions_per_run", |b| b.eviction_interval(SECOND).evictions_per_run(0)),
        ("abandoned_after", |b| b.abandoned_after(Duration::ZERO)),
    ];
    for (name, configure) in cases {
        assert_eq!(refused(configure), format!("{name} must not be zero"));
    }
    let keyed = KeyedResourcePool::builder(Script::default()).max_total_per_key(0).build();
    assert!(matches!(keyed, Err(BuildError::Zero("max_total_per_key"))));
}

#[test]
fn contradicting_options_are_refused_by_both_names() {
    type Case = (&'static str, &'static str, fn(B) -> B);
    let cases: [Case; 8] = [
        ("max_active (3)", "max_total (2)", |b| b.max_active(3).max_total(2)),
        ("max_idle (3)", "max_total (2)", |b| b.max_idle(3).max_total(2)),
        ("min_idle (3)", "max_idle (2)", |b| b.max_idle(2).min_idle(3)),
        ("min_idle (3)", "max_active (2)", |b| b.max_active(2).min_idle(3)),
        ("min_idle (3)", "max_total (2)", |b| b.max_total(2).min_idle(3)),
        ("soft_max_idle_time", "max_idle_time", |b| {
            b.soft_max_idle_time(SECOND).max_idle_time(SECOND)
        }),
        ("soft_max_idle_time", "max_idle_time", |b| {
            b.soft_max_idle_time(2 * SECOND).max_idle_time(SECOND)
        }),
        ("lifetime_jitter", "max_lifetime", |b| b.lifetime_jitter(SECOND).max_lifetime(SECOND)),
    ];
    for (one, other, configure) in cases {
        let said = refused(configure);
        assert!(said.starts_with(one) && said.contains(other), "{one} and {other}: {said}");
    }
    let keyed = || KeyedResourcePool::builder(Script::default()).maintenance(false);
    let said = |b: Builder<Script, Keyed>| b.build().expect_err("refused").to_string();
    assert_eq!(
        said(keyed().max_total_per_key(2).min_idle(3)),
        "min_idle (3) must not exceed max_total_per_key (2)"
    );
    assert_eq!(
        said(keyed().max_total_per_key(2).max_idle(3)),
        "max_idle (3) must not exceed max_total_per_key (2)"
    );
    assert_eq!(
        said(keyed().max_total_per_key(3).max_total(2)),
        "max_total_per_key (3) must not exceed max_total (2)"
    );
}

/// An option with a value, and its name.
type Choice = (&'static str, fn(B) -> B);

/// Every option, with a value that has an effect.
const OPTIONS: &[Choice] = &[
    ("max_active", |b| b.max_active(4)),
    ("max_total", |b| b.max_total(6)),
    ("max_idle", |b| b.max_idle(4)),
    ("min_idle", |b| b.min_idle(1)),
    ("when_exhausted(Fail)", |b| b.when_exhausted(WhenExhausted::Fail)),
    ("when_exhausted(Grow)", |b| b.when_exhausted(WhenExhausted::Grow)),
    ("max_wait", |b| b.max_wait(SECOND)),
    ("test_on_create", |b| b.test_on_create(true)),
    ("test_on_borrow", |b| b.test_on_borrow(true)),
    ("test_on_return", |b| b.test_on_return(true)),
    ("test_while_idle", |b| b.test_while_idle(true)),
    ("lend_order", |b| b.lend_order(LendOrder::OldestFirst)),
    ("fair(false)", |b| b.fair(false)),
    ("max_idle_time", |b| b.max_idle_time(9 * SECOND)),
    ("soft_max_idle_time", |b| b.soft_max_idle_time(SECOND)),
    ("max_lifetime", |b| b.max_lifetime(9 * SECOND)),
    ("lifetime_jitter", |b| b.lifetime_jitter(SECOND)),
    ("eviction_interval", |b| b.eviction_interval(SECOND)),
    ("evictions_per_run", |b| b.evictions_per_run(2)),
    ("abandoned_after", |b| b.abandoned_after(SECOND)),
    ("remove_abandoned", |b| b.remove_abandoned(true)),
    ("listener", |b| b.listener(|_, _| {})),
];

/// Options without an effect unless one of the others is set.
const NEEDS: &[(&str, &[&str])] = &[
    ("test_while_idle", &["eviction_interval"]),
    ("lifetime_jitter", &["max_lifetime"]),
    ("eviction_interval", &["max_idle_time", "soft_max_idle_time", "test_while_idle"]),
    ("evictions_per_run", &["eviction_interval"]),
    ("remove_abandoned", &["abandoned_after"]),
];

/// Pairs of which the second takes the first one's effect away.
const NOT_WITH: &[(&str, &str)] = &[("fair(false)", "when_exhausted(Fail)")];

/// Returns an option that has no effect because of the others, and the names for the error.
fn idle_among(names: &[&str]) -> Option<(&'static str, &'static [&'static str])> {
    let needs = NEEDS.iter().find(|(option, needs)| {
        names.contains(option) && !needs.iter().any(|needed| names.contains(needed))
    });
    let excluded = NOT_WITH.iter().find(|(a, b)| names.contains(a) && names.contains(b));
    let excluded = excluded.map(|(option, with)| (*option, std::slice::from_ref(with)));
    needs.copied().or(excluded)
}

/// Each combination of up to three options is refused if and only if one of them would have no
/// effect. The error names that option and the other.
#[test]
fn an_option_without_effect_is_refused() {
    let mut refusals = 0;
    for first in 0..OPTIONS.len() {
        for second in first..OPTIONS.len() {
            for third in second..OPTIONS.len() {
                // Of the two options for an exhausted pool the later one counts.
                let of = [first, second, third].map(|nth| OPTIONS[nth]);
                let mut names = of.map(|(name, _)| name).to_vec();
                if names.contains(&"when_exhausted(Grow)") {
                    names.retain(|name| *name != "when_exhausted(Fail)");
                }
                let builder = ResourcePool::builder(Script::default(), "m").maintenance(false);
                let built = of.into_iter().fold(builder, |b, (_, set)| set(b)).build();
                let expected = idle_among(&names);
                let said = built.err().map(|error| error.to_string());
                assert_eq!(said.is_some(), expected.is_some(), "{names:?}: {said:?}");
                let Some(said) = said else { continue };
                refusals += 1;
                // If several have no effect, the error names one of them.
                let named = NEEDS.iter().any(|(option, needs)| {
                    names.contains(option)
                        && said.starts_with(option)
                        && needs.iter().all(|needed| said.contains(needed))
                });
                let excluded =
                    NOT_WITH.iter().any(|(a, b)| said.starts_with(a) && said.contains(b));
                assert!(named || excluded, "{names:?}: {said}");
            }
        }
    }
    assert!(refusals > 400, "{refusals}");
}

/// A pool without a runtime has no timer, and maintenance needs both a runtime and something to
/// maintain.
#[test]
fn options_that_an_asynchronous_pool_cannot_have_are_refused() {
    let builder = || ResourcePool::builder(Async(Steps::default()), "m");
    let keyed = || KeyedResourcePool::builder(Async(Steps::default()));
    for (refused, one, other) in [
        (builder().max_wait(SECOND).build_async().err(), "max_wait", "build_async"),
        (keyed().max_wait(SECOND).build_async().err(), "max_wait", "build_async"),
        (builder().maintenance(true).build_async().err(), "maintenance(true)", "build_async"),
        (keyed().maintenance(true).build_async().err(), "maintenance(true)", "build_async"),
        (builder().maintenance(false).build_on(Unused).err(), "maintenance(false)", "build_on"),
        (keyed().maintenance(false).build_on(Unused).err(), "maintenance(false)", "build_on"),
    ] {
        let said = refused.expect("it is refused").to_string();
        assert!(said.starts_with(one) && said.contains(other), "{said}");
    }
    assert!(builder().maintenance(false).build_async().is_ok());
    assert!(builder().max_wait(None).build_async().is_ok());
    assert!(keyed().build_async().is_ok());
}

/// A runtime that is never used.
struct Unused;
impl Runtime for Unused {
    type Sleep = std::future::Ready<()>;
    fn spawn(&self, _: BoxFuture<()>) {
        panic!("no task is expected");
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::ready(())
    }
}

/// A refused setter leaves the limits unchanged.
#[test]
fn a_setter_refuses_what_the_builder_does() {
    let rig = pool(|b| b.max_active(2).max_total(4).min_idle(2));
    let above = |refused: Result<(), BuildError>, o, l| match refused {
        Err(BuildError::Above { option, limit }) => assert_eq!((option, limit), (o, l)),
        other => panic!("{other:?}"),
    };
    let zero = |refused: Result<(), BuildError>, name| match refused {
        Err(BuildError::Zero(option)) => assert_eq!(option, name),
        other => panic!("{other:?}"),
    };
    above(rig.pool.set_min_idle(3), ("min_idle", 3), ("max_active", 2));
    above(rig.pool.set_max_idle(1), ("min_idle", 2), ("max_idle", 1));
    above(rig.pool.set_max_idle(5), ("max_idle", 5), ("max_total", 4));
    above(rig.pool.set_max_active(5), ("max_active", 5), ("max_total", 4));
    above(rig.pool.set_max_total(1), ("min_idle", 2), ("max_total", 1));
    above(rig.pool.set_max_active(1), ("min_idle", 2), ("max_active", 1));
    zero(rig.pool.set_max_active(0), "max_active");
    zero(rig.pool.set_max_total(0), "max_total");
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.lend_all::<2>().len()), ((0, 2), 2));

    let keyed = keyed(|b| b.max_total(3).min_idle(2)).pool;
    above(keyed.set_max_total_per_key(1), ("min_idle", 2), ("max_total_per_key", 1));
    above(keyed.set_max_total_per_key(4), ("max_total_per_key", 4), ("max_total", 3));
    zero(keyed.set_max_total_per_key(0), "max_total_per_key");
}

/// A limit that is not set restricts none that is.
#[test]
fn an_unset_max_active_follows_the_totals() {
    let rig = pool(|b| b.max_total(20));
    let all: Vec<_> = (0..20).map(|_| rig.lend()).collect();
    assert!(matches!(rig.pool.try_borrow(), Err(BorrowError::WouldBlock)));
    drop(all);
    assert_eq!(rig.counts(), (0, 20), "as many are idle");
    rig.pool.set_max_total(25).expect("valid");
    assert_eq!((0..25).map(|_| rig.lend()).collect::<Vec<_>>().len(), 25);
    let of_key = keyed(|b| b.max_total(20).max_total_per_key(12));
    let lent: Vec<_> = (0..12).map(|_| of_key.pool.borrow(&"a").expect("one")).collect();
    assert_eq!((lent.len(), of_key.pool.num_active_of(&"a")), (12, 12));
    drop(lent);
    // A limit that is set stays.
    let rig = pool(|b| b.max_active(2));
    rig.pool.set_max_total(5).expect("valid");
    let _two = rig.lend_all::<2>();
    assert!(matches!(rig.pool.try_borrow(), Err(BorrowError::WouldBlock)));
    // Without totals it is 8.
    assert_eq!(pool(|b| b).lend_all::<8>().len(), 8);
}

/// Otherwise the idle list would never be refilled.
#[test]
fn a_pool_without_maintenance_refuses_a_minimum() {
    let pool = || ResourcePool::builder(Async(Steps::default()), "m");
    let without = pool().build_async().expect("valid");
    let said = without.set_min_idle(1).expect_err("refused").to_string();
    assert!(said.starts_with("min_idle does not go with build_async"), "{said}");
    without.set_min_idle(0).expect("valid");
    let by_callers = pool().maintenance(false).build_async().expect("valid");
    by_callers.set_min_idle(1).expect("valid");
}

/// An asynchronous pool without a runtime refuses what only a maintenance can do.
#[test]
fn options_that_need_maintenance_are_refused_without_a_runtime() {
    type Case = (&'static str, fn(Building) -> Building);
    let cases: [Case; 6] = [
        ("min_idle", |b| b.min_idle(1)),
        ("max_idle_time", |b| b.max_idle_time(SECOND)),
        ("soft_max_idle_time", |b| b.soft_max_idle_time(SECOND)),
        ("max_lifetime", |b| b.max_lifetime(SECOND)),
        ("abandoned_after", |b| b.abandoned_after(SECOND)),
        ("test_while_idle", |b| b.eviction_interval(SECOND).test_while_idle(true)),
    ];
    for (name, configure) in cases {
        let builder = || configure(ResourcePool::builder(Async(Steps::default()), "m"));
        let said = builder().build_async().map(drop).expect_err("refused").to_string();
        assert!(said.starts_with(&format!("{name} does not go with build_async")), "{said}");
        assert!(builder().maintenance(false).build_async().is_ok());
    }
}

/// `max_total` bounds existing resources, until their destruction has ended, separately from loans.
#[test]
fn max_total_bounds_a_growing_pool() {
    let rig = pool(|b| b.max_active(1).max_total(3).when_exhausted(WhenExhausted::Grow));
    let three = rig.lend_all::<3>();
    let waits = rig.queue();
    assert_eq!(rig.pool.num_total(), 3);
    drop(three);
    drop(waits.end().expect("one came back"));
    assert_eq!((rig.counts(), rig.script.most_alive()), ((0, 1), 3));
}

/// The place of a resource under destruction is not free.
#[test]
fn a_resource_under_destruction_counts() {
    let rig = pool(|b| b.max_total(1));
    let theirs = rig.pool.clone();
    rig.script.on("destroy", move |_| {
        assert_eq!(theirs.try_borrow().unwrap_err(), BorrowError::WouldBlock);
        assert_eq!((theirs.num_active(), theirs.num_total()), (0, 1));
        Outcome::Well
    });
    Borrowed::invalidate(rig.lend());
    assert_eq!(rig.pool.num_total(), 0);
    assert_eq!(rig.lend().number, 2);
}

#[test]
fn fail_is_for_max_total_too() {
    let rig = pool(|b| b.max_total(1).when_exhausted(WhenExhausted::Fail));
    let lent = rig.lend();
    assert_eq!(rig.pool.borrow().unwrap_err(), BorrowError::Exhausted);
    drop(lent);
}

#[test]
fn a_wait_of_no_time_ends_at_once() {
    let rig = pool(|b| b.max_active(1).max_wait(Duration::ZERO));
    let lent = rig.lend();
    assert!(matches!(rig.pool.borrow(), Err(BorrowError::TimedOut(_))));
    drop(lent);
    drop(rig.pool.borrow_timeout(Duration::ZERO).expect("an idle resource"));
}

/// The call's own timeout replaces `max_wait`.
#[test]
fn a_borrower_may_wait_for_longer_than_others() {
    let rig = pool(|b| b.max_active(1).max_wait(SECOND));
    let lent = rig.lend();
    let pool = rig.pool.clone();
    let waits = crate::common::Background::start(move || pool.borrow_timeout(9 * SECOND).is_ok());
    crate::shared::before_long(|| rig.pool.num_waiting() == 1);
    rig.clock.advance(8 * SECOND);
    assert!(waits.is_pending());
    drop(lent);
    assert!(waits.end());
}

#[test]
fn new_resources_are_tested_if_asked_for() {
    let rig = pool(|b| b.test_on_create(true));
    rig.script.fails("validate");
    assert_eq!(rig.pool.borrow().unwrap_err(), BorrowError::Invalid);
    assert_eq!(rig.pool.add(), Err(AddError::Invalid));
    assert_eq!((rig.counts(), rig.pool.num_total(), rig.script.alive()), ((0, 0), 0, 0));
    assert_eq!(rig.script.calls(), "create validate 1 destroy 1 create validate 2 destroy 2");
    // Each error went to its caller only. A panic's message is in no error, so the listener gets it.
    assert!(rig.events().is_empty());
    rig.script.panics("validate");
    assert_eq!(rig.pool.borrow().unwrap_err(), BorrowError::Invalid);
    assert_eq!(rig.pool.add(), Err(AddError::Invalid));
    assert_eq!(rig.events(), [r#"m: ValidatePanicked("on purpose")"#; 2]);
    rig.script.calls();
    rig.script.is_well("validate");
    drop(rig.lend());
    assert_eq!(rig.script.calls(), "create validate 5 activate 5 passivate 5");
}

/// Invalid idle resources are destroyed one after the other; then the borrower creates exactly one.
#[test]
fn invalid_idle_resources_are_skipped() {
    let rig = pool(|b| b.test_on_borrow(true));
    drop(rig.lend_all::<3>());
    rig.script.calls();
    rig.script.on("validate", |number| if number == 2 { Outcome::Well } else { Outcome::Fails });
    assert_eq!(rig.lend().number, 2);
    assert_eq!(
        rig.script.calls(),
        "activate 3 validate 3 destroy 3 activate 2 validate 2 passivate 2"
    );
    rig.script.fails("validate");
    let new = rig.lend();
    assert_eq!((new.number, rig.counts(), rig.script.alive()), (4, (1, 0), 1));
    assert_eq!(rig.events().len(), 3);
}

/// A creation takes the place of the resource that it replaces, even in a full pool.
#[test]
fn a_replacement_needs_no_room() {
    let rig = pool(|b| b.max_total(1).max_active(1).test_on_borrow(true).test_on_create(true));
    drop(rig.lend());
    rig.script.fails("validate");
    assert_eq!(rig.pool.borrow().unwrap_err(), BorrowError::Invalid);
    assert_eq!((rig.counts(), rig.pool.num_total(), rig.script.made()), ((0, 0), 0, 2));
    rig.script.is_well("validate");
    assert_eq!(rig.lend().number, 3);
}

/// The deadline bounds this, even in the middle of a failing test.
#[test]
fn tests_that_take_longer_than_the_wait_end_it() {
    let rig = pool(|b| b.max_wait(3 * SECOND).test_on_borrow(true));
    drop(rig.lend_all::<8>());
    let clock = rig.clock.clone();
    rig.script.on("validate", move |_| {
        clock.advance(2 * SECOND);
        Outcome::Fails
    });
    // The timeout begins with the call and ends after two tests.
    assert!(matches!(rig.pool.borrow(), Err(BorrowError::TimedOut(_))));
    assert_eq!((rig.counts(), rig.pool.num_total(), rig.script.alive()), ((0, 6), 6, 6));
    assert!(matches!(rig.pool.borrow_timeout(SECOND), Err(BorrowError::TimedOut(_))));
    assert_eq!((rig.counts(), rig.pool.num_total(), rig.script.alive()), ((0, 5), 5, 5));
}

/// The same with keys, and with failing activations: the time begins when the first has failed.
#[test]
fn keyed_borrows_end_in_time_too() {
    let rig = keyed(|b| b.max_wait(3 * SECOND));
    rig.pool.prefill(&"a", 8).expect("room");
    let clock = rig.clock.clone();
    rig.script.on("activate", move |_| {
        clock.advance(2 * SECOND);
        Outcome::Fails
    });
    assert!(matches!(rig.pool.borrow(&"a"), Err(BorrowError::TimedOut(_))));
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 5), 5));
    assert!(matches!(rig.pool.borrow_timeout(&"a", SECOND), Err(BorrowError::TimedOut(_))));
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 4), 4));
}

/// The order of the factory's calls at a loan and a return.
#[test]
fn activation_comes_before_the_test_and_the_test_before_passivation() {
    let rig = pool(|b| b.test_on_create(true).test_on_borrow(true).test_on_return(true));
    drop(rig.lend());
    assert_eq!(rig.script.calls(), "create validate 1 activate 1 validate 1 passivate 1");
    drop(rig.lend());
    assert_eq!(rig.script.calls(), "activate 1 validate 1 validate 1 passivate 1");
    rig.pool.clear();
    rig.script.calls();
    rig.pool.add().expect("room");
    assert_eq!(rig.script.calls(), "create validate 2 passivate 2");
}

#[test]
fn max_idle_zero_keeps_no_idle_resource() {
    let rig = pool(|b| b.max_idle(0).max_active(1));
    let lent = rig.lend();
    let waits = rig.queue();
    drop(lent);
    // A waiter gets it all the same.
    assert_eq!(waits.end().expect("granted").number, 1);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
    assert_eq!(rig.pool.add(), Err(AddError::Full));
}

/// Strict order: a newcomer does not overtake a waiter.
#[test]
fn a_fair_pool_serves_in_the_order_of_arrival() {
    let rig = pool(|b| b.max_active(1));
    let lent = rig.lend();
    let mut tasks: Vec<_> = (0..3).map(|_| rig.task()).collect();
    drop(lent);
    assert_eq!(rig.pool.try_borrow().unwrap_err(), BorrowError::WouldBlock);
    for turn in 0..3 {
        for later in &mut tasks[turn + 1..] {
            assert!(later.poll().is_none());
        }
        let woken: Vec<_> = tasks.iter().map(crate::shared::task::Task::wakes).collect();
        assert_eq!(woken[turn..], [&[1], &[0; 2][..2 - turn]].concat());
        drop(tasks[turn].poll().expect("its turn").expect("one"));
    }
}

/// A returned resource for which a waiter was woken stays idle beyond `max_idle`, until the waiter
/// turns out not to take it (PROP-RP-CALLED-FOR).
#[test]
fn a_resource_for_a_woken_waiter_is_kept() {
    let rig = pool(|b| b.max_active(1).max_idle(0).fair(false));
    for takes in [true, false] {
        let lent = rig.lend();
        let mut task = rig.task();
        drop(lent);
        assert_eq!((rig.counts(), task.wakes()), ((0, 1), 1));
        if takes {
            assert_eq!(task.poll().expect("woken").expect("it is there").number, 1);
        }
        drop(task);
        assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0), "{takes}");
    }
    // A newcomer takes it first, and the idle list is empty.
    let lent = rig.lend();
    let mut task = rig.task();
    drop(lent);
    let barges = rig.lend();
    assert!(task.poll().is_none());
    assert_eq!((barges.number, rig.counts(), rig.pool.num_waiting()), (3, (1, 0), 1));
    drop(task);
    drop(barges);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// A newcomer barges, and the waiter that lost the race is first again.
#[test]
fn an_unfair_pool_lets_newcomers_barge() {
    let rig = pool(|b| b.max_active(1).fair(false));
    let lent = rig.lend();
    let (mut first, mut second) = (rig.task(), rig.task());
    drop(lent);
    let barges = rig.lend();
    assert!(first.poll().is_none() && second.poll().is_none());
    assert_eq!((first.wakes(), second.wakes(), rig.pool.num_waiting()), (1, 0, 2));
    drop(barges);
    assert_eq!((first.wakes(), second.wakes()), (2, 0));
    drop(first.poll().expect("its turn").expect("one"));
    drop(second.poll().expect("its turn").expect("one"));
    assert_eq!(rig.counts(), (0, 1));
}

/// Newcomers barge in 1,024 times. Then the waiter is served directly (PROP-RP-BOUNDED-OVERTAKING).
#[test]
fn a_waiter_loses_a_bounded_number_of_races() {
    let rig = pool(|b| b.max_active(1).fair(false));
    let mut lent = rig.lend();
    let mut waits = rig.task();
    for race in 1..=1024 {
        drop(lent);
        lent = rig.pool.try_borrow().unwrap_or_else(|error| panic!("race {race}: {error}"));
        assert!(waits.poll().is_none(), "race {race}");
    }
    drop(lent);
    assert!(rig.pool.try_borrow().is_err(), "it has been granted");
    drop(waits.poll().expect("its turn").expect("one"));
    assert_eq!(rig.counts(), (0, 1));
}

#[test]
fn errors_have_messages_and_causes() {
    let rig = pool(|b| b);
    rig.script.fails("create");
    let error = rig.pool.borrow().expect_err("it fails");
    assert_eq!(error, BorrowError::Create(Failure::Error("on purpose".to_owned())));
    assert_eq!(error.to_string(), "no resource could be created: on purpose");
    rig.script.panics("create");
    let error = rig.pool.borrow().expect_err("it panics");
    assert_eq!(error.to_string(), "no resource could be created: panicked: on purpose");
    assert_eq!(rig.pool.add().expect_err("too").to_string(), error.to_string());
    assert!(format!("{:?}", rig.pool).starts_with("ResourcePool { active: 0, idle: 0"));
    let io = std::io::Error::other("the cable is cut");
    let io = std::io::Error::other(Refused(Box::new(io)));
    let add = AddError::Create(Failure::Error(Refused(Box::new(std::io::Error::other("again")))));
    for (error, text) in [
        (BorrowError::Create(Failure::Error(io)), "no resource could be created: refused"),
        (
            BorrowError::Activate(Failure::Error(std::io::Error::other("refused"))),
            "the new resource could not be activated: refused",
        ),
    ] {
        assert_eq!(chain(&error)[..2], [text, "refused"]);
        let of_factory = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
        assert!(of_factory.is_some(), "a program looks for its driver's error");
    }
    assert_eq!(chain(&add), ["no resource could be created: refused", "refused", "again"]);
    let cause = add.source().and_then(|cause| cause.downcast_ref::<Refused>());
    assert!(cause.is_some());
    let again = || Refused(Box::new(std::io::Error::other("again")));
    let passivate = AddError::Passivate(Failure::Error(again()));
    assert_eq!(
        chain(&passivate),
        ["the new resource could not be passivated: refused", "refused", "again"]
    );
    assert!(passivate.source().is_some_and(|cause| cause.is::<Refused>()));
    let build = BuildError::Maintenance(OpenError::NotStarted(
        Box::<dyn std::error::Error + Send + Sync>::from("no memory").into(),
    ));
    assert_eq!(
        chain(&build),
        ["the maintenance could not be started", "the executor could not be started", "no memory"]
    );
}

#[derive(Debug)]
struct Refused(Box<dyn Error + Send + Sync>);
impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("refused")
    }
}
impl Error for Refused {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// Returns an error's message and those of its causes.
fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect()
}
