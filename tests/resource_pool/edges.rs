//! Times and numbers at the edge: nothing, the least, what a clock just cannot count, and all there is.

use crate::common::{Background, Pool, Rig, pool, use_one};
use crate::shared::SECOND;
use crate::shared::woken::Woken;
use crate::steps::{self, Step, rig_on};
use cabrank::Clock;
use cabrank::resource_pool::{BorrowError, Borrowed, Builder, Failure};
use std::time::Duration;

const LEAST: Duration = Duration::from_nanos(1);
/// One second more than the whole seconds that a clock counts.
const TOO_LONG: Duration = Duration::from_secs(1 << 32);
/// Half of what a clock counts.
const SEVENTY_YEARS: Duration = Duration::from_secs(1 << 31);

type Build<P> = Builder<crate::common::Script, P>;
type Set = fn(Build<Pool>, Duration) -> Build<Pool>;

/// Each option that ends the time of an idle resource.
const IDLE_TIMES: [(&str, Set); 3] = [
    ("max_idle_time", |b, time| b.max_idle_time(time)),
    ("soft_max_idle_time", |b, time| b.soft_max_idle_time(time)),
    ("max_lifetime", |b, time| b.max_lifetime(time)),
];

#[test]
fn the_least_time_ends_with_the_next_tick() {
    for (name, set) in IDLE_TIMES {
        let rig = pool(|b| set(b, LEAST));
        rig.pool.add().expect("there is room");
        assert_eq!(rig.pool.num_idle(), 1, "{name}");
        rig.clock.advance(LEAST);
        rig.pool.maintain();
        assert_eq!(rig.counts(), (0, 0), "{name}");
    }
}

/// The library counts as far as its clock goes, and does not begin anew.
#[test]
fn a_time_that_no_clock_counts_does_not_end() {
    for (name, set) in IDLE_TIMES {
        for time in [TOO_LONG, TOO_LONG - LEAST, Duration::MAX] {
            let rig = pool(|b| set(b, time));
            rig.clock.advance(SECOND);
            rig.pool.add().expect("there is room");
            rig.clock.advance(SEVENTY_YEARS);
            let due = rig.due();
            assert!(due.is_none_or(|due| due > SEVENTY_YEARS / 2), "{name} {time:?}: {due:?}");
            assert_eq!((use_one(&rig), rig.counts()), (1, (0, 1)), "{name} {time:?}");
        }
    }
}

#[test]
fn a_loan_looks_abandoned_at_its_time() {
    for (time, passes, reported) in
        [(LEAST, LEAST, 1), (TOO_LONG, SEVENTY_YEARS, 0), (Duration::MAX, SEVENTY_YEARS, 0)]
    {
        let rig = pool(|b| b.abandoned_after(time));
        let lent = rig.lend();
        rig.clock.advance(passes);
        rig.pool.maintain();
        assert_eq!(rig.events().len(), reported, "{time:?}");
        drop(lent);
        assert_eq!(rig.counts(), (0, 1));
    }
}

#[test]
fn runs_of_the_eviction_are_so_far_apart() {
    for (interval, passes, evicted) in [
        (LEAST, SECOND, true),
        (TOO_LONG, SEVENTY_YEARS, false),
        (Duration::MAX, SEVENTY_YEARS, false),
    ] {
        let rig = pool(|b| b.max_idle_time(LEAST).eviction_interval(interval));
        rig.pool.add().expect("there is room");
        rig.clock.advance(passes);
        rig.pool.maintain();
        assert_eq!(rig.pool.num_idle() == 0, evicted, "{interval:?}");
    }
}

/// Lifetimes are spread over the jitter.
#[test]
fn a_jitter_may_be_as_long_as_the_lifetime() {
    for jitter in [LEAST, SECOND, TOO_LONG - SECOND] {
        let rig = pool(|b| b.max_active(32).max_lifetime(TOO_LONG).lifetime_jitter(jitter));
        rig.pool.prefill(32).expect("there is room");
        rig.pool.maintain();
        assert_eq!(rig.pool.num_idle(), 32, "{jitter:?}");
        rig.clock.advance(SECOND);
        rig.pool.maintain();
        assert!(rig.pool.num_idle() >= 28, "{jitter:?}");
    }
}

type Waits = fn(&Rig<Pool>, Duration) -> Background<Result<(), BorrowError<String>>>;

/// A wait by the option, and one by the call.
const WAITS: [Waits; 2] = [
    |rig, time| {
        let pool = rig.pool.clone();
        Background::start(move || pool.borrow_timeout(time).map(drop))
    },
    |rig, _| {
        let pool = rig.pool.clone();
        Background::start(move || pool.borrow().map(drop))
    },
];

#[test]
fn a_wait_without_time_ends_at_once() {
    for waits in WAITS {
        let rig = pool(|b| b.max_active(1).max_wait(Duration::ZERO));
        let lent = rig.lend();
        assert!(matches!(waits(&rig, Duration::ZERO).end(), Err(BorrowError::TimedOut(_))));
        drop(lent);
        assert_eq!(waits(&rig, Duration::ZERO).end(), Ok(()), "what is idle needs no time");
    }
}

#[test]
fn a_wait_of_the_least_time_ends_with_the_next_tick() {
    for waits in WAITS {
        let rig = pool(|b| b.max_active(1).max_wait(LEAST));
        let _lent = rig.lend();
        let ended = waits(&rig, LEAST).end_by(&rig.clock, LEAST);
        assert!(matches!(ended, Err(BorrowError::TimedOut(_))));
    }
}

#[test]
fn a_wait_that_no_clock_counts_goes_on() {
    for time in [TOO_LONG, TOO_LONG + LEAST, Duration::MAX] {
        for waits in WAITS {
            let rig = pool(|b| b.max_active(1).max_wait(time));
            rig.clock.advance(SECOND);
            let lent = rig.lend();
            let waits = waits(&rig, time);
            crate::shared::before_long(|| rig.pool.num_waiting() == 1);
            rig.clock.advance(SEVENTY_YEARS);
            assert_eq!((rig.pool.num_waiting(), waits.is_pending()), (1, true), "{time:?}");
            drop(lent);
            assert_eq!(waits.end(), Ok(()));
        }
    }
}

/// The same on the system's clock, which such a time ends never.
#[test]
fn a_wait_on_the_systems_clock_may_take_for_ever() {
    for time in [TOO_LONG, Duration::MAX] {
        let rig = pool(|b| b.max_active(1).max_wait(time).clock(Clock::monotonic()));
        let lent = rig.lend();
        let waits = rig.queue();
        drop(lent);
        drop(waits.end().expect("its turn"));
        rig.pool.close();
        assert!(rig.pool.wait_closed(time));
    }
}

#[test]
fn the_end_of_a_pool_may_be_waited_for_at_each_time() {
    let rig = pool(|b| b);
    let lent = rig.lend();
    assert!(!rig.pool.wait_closed(Duration::ZERO));
    rig.pool.close();
    assert!(!rig.pool.wait_closed(Duration::ZERO));
    let waits = [TOO_LONG, Duration::MAX].map(|time| {
        let pool = rig.pool.clone();
        Background::start(move || pool.wait_closed(time))
    });
    rig.clock.advance(SEVENTY_YEARS);
    drop(lent);
    assert!(waits.map(Background::end).iter().all(|closed| *closed));
    assert!([Duration::ZERO, LEAST, Duration::MAX].iter().all(|time| rig.pool.wait_closed(*time)));
}

type Limit = fn(steps::Building, Duration) -> steps::Building;

/// The time limits of a factory's calls, by a runtime whose time the test lets pass.
#[test]
fn the_time_of_a_factorys_call_ends_or_does_not() {
    let limits: [(&str, Limit); 4] = [
        ("create", |b, time| b.create_timeout(time)),
        ("validate", |b, time| b.validate_timeout(time).test_on_create(true)),
        ("activate", |b, time| b.activate_timeout(time)),
        ("passivate", |b, time| b.passivate_timeout(time)),
    ];
    for (call, limit) in limits {
        for (time, ends) in [(LEAST, true), (TOO_LONG, false), (Duration::MAX, false)] {
            let runtime = Woken::default();
            let rig = rig_on(|b| limit(b, time).clock(Clock::monotonic()), runtime.clone());
            rig.steps.on(call, Step::Held);
            let mut adds = match call {
                "activate" => None,
                _ => Some(rig.add()),
            };
            let mut borrows = match call {
                "activate" => Some(rig.waits()),
                _ => None,
            };
            if call == "activate" {
                // The pool creates.
                runtime.run();
            }
            let mut is_over = || {
                let added = adds.as_mut().and_then(|task| task.poll()).map(|got| got.is_err());
                let lent = borrows.as_mut().and_then(|task| task.poll()).map(|got| got.is_err());
                added.or(lent)
            };
            assert_eq!(is_over(), None, "{call} {time:?}");
            runtime.run();
            runtime.pass(SEVENTY_YEARS);
            assert_eq!(is_over(), ends.then_some(true), "{call} {time:?}");
        }
    }
}

/// A call that takes the least time too long is over, and its error says so.
#[test]
fn a_creation_that_takes_too_long_says_so() {
    let runtime = Woken::default();
    let limited = |b: steps::Building| b.create_timeout(LEAST).max_total(1);
    let rig = rig_on(|b| limited(b).clock(Clock::monotonic()), runtime.clone());
    rig.steps.on("create", Step::Held);
    let mut creates = rig.waits();
    runtime.run();
    runtime.pass(LEAST);
    let why = creates.poll().expect("it took too long").expect_err("no resource");
    assert_eq!(why, BorrowError::Create(Failure::TimedOut));
    assert_eq!((runtime.run(), runtime.timers(), rig.counts()), (0, 0, (0, 0, 0)));
}

type Number = fn(Build<Pool>, usize) -> Build<Pool>;

#[test]
fn numbers_may_be_as_large_as_they_can_be() {
    let numbers: [(&str, Number); 5] = [
        ("max_active", |b, number| b.max_active(number)),
        ("max_total", |b, number| b.max_total(number)),
        ("max_idle", |b, number| b.max_idle(number)),
        ("evictions_per_run", |b, number| {
            b.max_idle_time(SECOND).eviction_interval(SECOND).evictions_per_run(number)
        }),
        ("all", |b, number| b.max_active(number).max_total(number).max_idle(number)),
    ];
    for (name, set) in numbers {
        for number in [usize::MAX, usize::MAX - 1, 1 << 32, 1 << 31] {
            let rig = pool(|b| set(b, number));
            let lent: [_; 8] = rig.lend_all();
            drop(lent);
            rig.pool.maintain();
            assert_eq!(rig.counts(), (0, 8), "{name} {number}");
            rig.pool.set_max_active(number).expect("valid");
            rig.pool.set_max_idle(number).expect("valid");
            rig.pool.set_max_total(number).expect("valid");
            let lent: [_; 9] = rig.lend_all();
            Borrowed::invalidate(lent.into_iter().next().expect("there are nine"));
            rig.pool.maintain();
            assert_eq!(rig.counts(), (0, 8), "{name} {number}");
        }
    }
}

#[test]
fn nothing_is_a_number_too() {
    let rig = pool(|b| b.max_idle(0));
    assert_eq!(rig.pool.prefill(0), Ok(()));
    drop(rig.lend());
    assert_eq!((rig.counts(), rig.script.made()), ((0, 0), 1));
    rig.pool.set_max_idle(1).expect("valid");
    rig.pool.set_min_idle(0).expect("valid");
    drop(rig.lend());
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 1), 2));
}
