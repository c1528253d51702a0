//! More threads than loom can run, in pools of random kinds. Shuttle only.
//!
//! Four to six threads borrow, with and without a timeout. They give up, return, invalidate, detach, add, clear,
//! change limits, maintain, and move the clock. A pool is keyed or not, and fair or not. It tests, keeps minima,
//! evicts by time, and reclaims abandoned loans. Creations fail and panic, and resources fail their tests.
//!
//! Guards against what models of two or three actors cannot show: a waiter that sleeps for ever because a third
//! actor came between. Asserted: every invariant after every section, and every borrow ends
//! (PROP-RP-EVERY-BORROW-ENDS). At the end no loan and no waiter is left. A closed pool ends with each created
//! resource either detached or destroyed once.

use crate::models::resource_pool::rig::*;
use crate::models::tool::explore::explore_large;
use crate::resource_pool::{Borrowed, LendOrder, WhenExhausted};
use shuttle::rand::{Rng, thread_rng};
use std::sync::Arc;

fn chance(one_in: u32) -> bool {
    thread_rng().gen_range(0..one_in) == 0
}

/// Sets random options.
fn any<P>(builder: Builder<Factory, P>) -> Builder<Factory, P> {
    let total = thread_rng().gen_range(1..4);
    // The builder refuses a limit that the total keeps from being reached.
    let mut builder = builder.max_active(total.min(thread_rng().gen_range(1..3)));
    builder = builder.max_total(total).lend_order(match chance(2) {
        true => LendOrder::OldestFirst,
        false => LendOrder::NewestFirst,
    });
    if chance(3) {
        builder = builder.fair(false).max_lost_races(1);
    }
    if chance(2) {
        builder = builder.min_idle(1);
    }
    if chance(2) {
        builder = builder.test_on_borrow(true).test_on_return(chance(2)).test_on_create(chance(2));
    }
    if chance(2) {
        builder = builder.test_while_idle(true).eviction_interval(SECOND);
    }
    if chance(2) {
        builder = builder.soft_max_idle_time(SECOND).max_idle_time(SECOND * 3);
    }
    if chance(3) {
        builder = builder.max_lifetime(SECOND * 4);
    }
    if chance(3) {
        builder = builder.abandoned_after(SECOND * 2).remove_abandoned(chance(2));
    }
    if chance(4) {
        builder = builder.when_exhausted(WhenExhausted::Grow);
    }
    builder
}

/// Lets some creations fail and one panic, and some of the first resources fail their tests.
fn any_makes(factory: &Factory) {
    for _ in 0..8 {
        factory.next(&[
            [Make::Well, Make::Well, Make::Well, Make::Fail][thread_rng().gen_range(0..4)]
        ]);
    }
    factory.next(&[Make::Panic]);
    for number in 1..4 {
        if chance(3) {
            factory.spoil(number);
        }
    }
}

/// Ends a loan in a random way.
fn end_loan(factory: &Factory, lent: Result<Borrowed<'_, Factory>, BorrowError<&'static str>>) {
    match lent {
        Ok(lent) => match thread_rng().gen_range(0..6) {
            0 => Borrowed::invalidate(lent),
            1 => factory.forget(&Borrowed::detach(lent)),
            2 => drop(Borrowed::into_owned(lent)),
            _ => drop(lent),
        },
        Err(BorrowError::Closed) => panic!("the pool is open"),
        Err(_) => {}
    }
}

macro_rules! one_thing {
    ($rig:expr, $what:expr $(, $key:expr)?) => {{
        let (pool, factory) = (&$rig.pool, &$rig.factory);
        match $what {
            0..=2 => end_loan(factory, pool.borrow($($key)?)),
            3 => end_loan(factory, pool.borrow_timeout($($key,)? SECOND)),
            4 => end_loan(factory, pool.try_borrow($($key)?)),
            5 => {
                // It may wait; then it gives up.
                let mut given_up = Box::pin(pool.borrow_async($($key)?));
                let _ = $rig.reentry().poll_once(given_up.as_mut());
            }
            6 => end_loan(factory, $rig.reentry().block_on(pool.borrow_async($($key)?))),
            7 => drop(pool.add($($key)?)),
            8 => pool.clear(),
            9 => pool.clear_all(),
            10 => {
                $rig.clock.advance(SECOND);
                pool.maintain();
            }
            11 => pool.retain(|_, resource| resource.number % 2 == 0),
            12 => drop(pool.set_max_active(thread_rng().gen_range(1..3))),
            13 => drop(pool.set_max_total(thread_rng().gen_range(1..4))),
            _ => pool.maintain(),
        }
    }};
}

#[test]
fn resource_crowd() {
    explore_large("resource_crowd", &["4 ended", "5 ended", "6 ended"], |outcomes| {
        let rig = Arc::new(unkeyed(any).reentrant());
        any_makes(&rig.factory);
        let size = thread_rng().gen_range(4..7);
        let threads: Vec<_> = (0..size)
            .map(|_| {
                let rig = rig.clone();
                spawn(move || {
                    for _ in 0..3 {
                        let what = thread_rng().gen_range(0..15);
                        one_thing!(rig, what);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        rig.end();
        outcomes.note(format!("{size} ended"));
    });
}

#[test]
fn resource_keyed_crowd() {
    explore_large("resource_keyed_crowd", &["4 ended", "5 ended", "6 ended"], |outcomes| {
        let per_key = thread_rng().gen_range(1..4);
        let rig = keyed(|builder| {
            let builder = any(builder);
            if per_key == 1 { builder.max_total_per_key(1).max_active(1) } else { builder }
        });
        let rig = Arc::new(rig.reentrant());
        any_makes(&rig.factory);
        let size = thread_rng().gen_range(4..7);
        let threads: Vec<_> = (0..size)
            .map(|_| {
                let rig = rig.clone();
                spawn(move || {
                    for _ in 0..3 {
                        let what = thread_rng().gen_range(0..15);
                        // The last two keys have the same hash.
                        let key = Name(["a", "x1", "x2"][thread_rng().gen_range(0..3)]);
                        one_thing!(rig, what, &key);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        rig.end();
        outcomes.note(format!("{size} ended"));
    });
}
