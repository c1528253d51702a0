//! What the source's own tests check, L1 to L31 in their order (L32 to L34: `crowds.rs`). Where a ruling
//! differs from the source, the test shows the ruling and says so.

use crate::common::{Outcome, pool};
use crate::shared::SECOND;
use cabrank::resource_pool::{
    AddError, BorrowError, Borrowed, Limit, PoolBuildError, ResourceFactory, ResourcePool,
    WhenExhausted,
};
use std::time::Duration;

fn invalid(mut lent: Borrowed<'_, crate::common::Script>) {
    lent.valid = false;
}

/// L1: eight lent, eight idle, the last one back first, nobody tested, and who comes too late waits.
#[test]
fn l01_defaults() {
    let rig = pool(|b| b);
    let eight = rig.lend_all::<8>();
    let waits = rig.queue();
    assert_eq!(rig.pool.try_borrow().unwrap_err(), BorrowError::WouldBlock);
    drop(eight);
    drop(waits.end().expect("in the end"));
    assert_eq!(rig.counts(), (0, 8));
    assert_eq!(rig.pool.add(), Err(AddError::Full));
    rig.clock.advance(Duration::from_secs(1 << 20));
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 8), 8));
    assert_eq!(rig.lend().number, 1, "the last one back: the waiter's, which was the first one's");
    assert!(!rig.script.calls().contains("validate"));
}

/// L2: every option at once, as far as they go together.
#[test]
fn l02_custom_options() {
    let rig = pool(|b| {
        b.max_active(2)
            .max_total(3)
            .max_idle(2)
            .min_idle(1)
            .when_exhausted(WhenExhausted::Block)
            .max_wait(SECOND)
            .test_on_create(true)
            .test_on_borrow(true)
            .test_on_return(true)
            .test_while_idle(true)
            .fifo(true)
            .fair(false)
            .max_idle_time(9 * SECOND)
            .soft_max_idle_time(8 * SECOND)
            .max_lifetime(100 * SECOND)
            .lifetime_jitter(10 * SECOND)
            .eviction_interval(SECOND)
            .evictions_per_run(2)
            .abandoned_after(50 * SECOND)
            .remove_abandoned(true)
    });
    let [first, second] = rig.lend_all();
    drop(first);
    drop(second);
    assert_eq!(rig.lend().number, 1);
    assert_eq!(
        rig.script.calls(),
        "create validate 1 activate 1 create validate 2 activate 2 validate 1 passivate 1 \
         validate 2 passivate 2 activate 1 validate 1 validate 1 passivate 1"
    );
}

/// L3, L4: a pool without a factory, or with one that is none, does not compile (see
/// `src/resource_pool/cannot.rs`); what a factory need not say has its default.
#[test]
fn l03_l04_the_least_that_a_factory_has_to_say() {
    struct Least;
    impl ResourceFactory for Least {
        type Resource = Vec<u8>;
        type Metadata = ();
        type Error = std::convert::Infallible;
        fn create(&self, (): &()) -> Result<Vec<u8>, Self::Error> {
            Ok(vec![7])
        }
    }
    let pool = ResourcePool::builder(Least, ()).test_on_borrow(true).test_on_return(true);
    let pool = pool.build().expect("valid");
    drop(pool.borrow().expect("one"));
    assert_eq!(*pool.borrow().expect("the same"), [7]);
    assert_eq!((pool.num_active(), pool.num_idle()), (0, 1));
}

/// L5: the source lists options that it does not know by name. Here they do not compile; those that
/// contradict each other are refused by name (`options.rs` has all).
#[test]
fn l05_wrong_options_are_named() {
    let builder = ResourcePool::builder(crate::common::Script::default(), "m");
    let refused = builder.max_idle(1).min_idle(2).build().expect_err("it is refused");
    assert_eq!(refused.to_string(), "min_idle (2) must not exceed max_idle (1)");
    assert!(matches!(refused, PoolBuildError::Above { .. }));
}

#[test]
fn l06_what_is_added_is_idle_and_lent_next() {
    let rig = pool(|b| b);
    rig.pool.add().expect("room");
    assert_eq!(rig.counts(), (0, 1));
    assert_eq!(rig.lend().number, 1);
    assert_eq!(rig.script.calls(), "create passivate 1 activate 1 passivate 1");
}

#[test]
fn l07_add_stops_at_max_idle() {
    let rig = pool(|b| b.max_idle(2));
    assert_eq!(rig.pool.prefill(3), Err(AddError::Full));
    assert_eq!((rig.counts(), rig.script.made()), ((0, 2), 2));
}

#[test]
fn l08_add_knows_no_limit_where_there_is_none() {
    let rig = pool(|b| b.max_idle(Limit::None));
    rig.pool.prefill(20).expect("room");
    assert_eq!(rig.counts(), (0, 20));
}

/// L9: two are idle beside four loans, and the fifth is refused. In the source the borrower makes the
/// stock, and stock at or below the minimum is never lent. It is lent, and filled up
/// afterwards, in the background (defect `elixir-hoarded-minimum`).
#[test]
fn l09_the_minimum_is_kept_beside_the_loans() {
    let rig = pool(|b| b.max_active(4).min_idle(2).when_exhausted(WhenExhausted::Fail));
    rig.pool.maintain();
    let mut lent = Vec::new();
    for active in 1..=4 {
        lent.push(rig.lend());
        assert_eq!(rig.counts(), (active, 1), "of the stock");
        rig.pool.maintain();
        assert_eq!(rig.counts(), (active, 2));
    }
    assert_eq!(rig.pool.borrow().unwrap_err(), BorrowError::Exhausted);
    drop(lent);
    assert_eq!(rig.counts(), (0, 4));
}

/// L10: in the source, the waiter to whom an invalid one is handed is left to time out, {1, 0}. Here
/// what an invalid one leaves free is the waiter's, and it gets a new one (defect `elixir-forgotten-waiter`).
#[test]
fn l10_a_waiter_is_not_left_alone_with_an_invalid_one() {
    let rig = pool(|b| b.max_active(1).max_wait(SECOND).test_on_borrow(true));
    let lent = rig.lend();
    let waits = rig.queue();
    rig.script.calls();
    invalid(lent);
    let served = waits.end().expect("a new one");
    assert_eq!((served.number, rig.counts()), (2, (1, 0)));
    assert_eq!(rig.script.calls(), "passivate 1 activate 1 validate 1 destroy 1 create activate 2");
}

#[test]
fn l11_no_limit_for_what_is_lent() {
    let rig = pool(|b| b.max_active(Limit::None));
    let eleven = rig.lend_all::<11>();
    assert_eq!(rig.counts(), (11, 0));
    drop(eleven);
}

#[test]
fn l12_no_limit_for_what_is_idle_beside_grow() {
    let rig = pool(|b| b.max_idle(Limit::None).when_exhausted(WhenExhausted::Grow));
    let ten = rig.lend_all::<10>();
    drop(ten);
    rig.pool.prefill(10).expect("room");
    assert_eq!(rig.counts(), (0, 20));
}

#[test]
fn l13_an_exhausted_pool_fails() {
    let rig = pool(|b| b.max_active(2).when_exhausted(WhenExhausted::Fail));
    let two = rig.lend_all::<2>();
    assert_eq!(rig.pool.borrow().unwrap_err(), BorrowError::Exhausted);
    drop(two);
}

#[test]
fn l14_an_exhausted_pool_grows() {
    let rig = pool(|b| b.max_active(2).when_exhausted(WhenExhausted::Grow));
    let five = rig.lend_all::<5>();
    assert_eq!(rig.counts(), (5, 0));
    drop(five);
    assert_eq!(rig.counts(), (0, 2), "as many as may be idle");
}

#[test]
fn l15_a_borrower_waits_until_one_comes_back() {
    let rig = pool(|b| b.max_active(1));
    let lent = rig.lend();
    let waits = rig.queue();
    assert!(waits.is_pending());
    drop(lent);
    assert_eq!(waits.end().expect("it came back").number, 1);
}

#[test]
fn l16_a_wait_ends_at_its_time() {
    let rig = pool(|b| b.max_active(1).max_wait(5 * SECOND));
    let lent = rig.lend();
    let waits = rig.queue();
    rig.clock.advance(5 * SECOND - Duration::from_nanos(1));
    assert!(waits.is_pending());
    rig.clock.advance(Duration::from_nanos(1));
    assert_eq!(waits.end().unwrap_err(), BorrowError::TimedOut);
    assert_eq!((rig.counts(), rig.pool.num_waiting()), ((1, 0), 0));
    drop(lent);
}

#[test]
fn l17_a_wait_within_its_time_is_served() {
    let rig = pool(|b| b.max_active(1).max_wait(5 * SECOND));
    let lent = rig.lend();
    let waits = rig.queue();
    rig.clock.advance(4 * SECOND);
    drop(lent);
    drop(waits.end().expect("in time"));
}

#[test]
fn l18_without_tests_an_invalid_one_is_lent_again() {
    let rig = pool(|b| b);
    invalid(rig.lend());
    let again = rig.lend();
    assert_eq!((again.number, again.valid), (1, false));
}

#[test]
fn l19_without_tests_a_waiter_gets_the_invalid_one() {
    let rig = pool(|b| b.max_active(1));
    let lent = rig.lend();
    let waits = rig.queue();
    invalid(lent);
    let handed = waits.end().expect("handed over");
    assert_eq!((handed.number, handed.valid), (1, false));
}

/// PROP-RP-KEEPS-PLACE.
#[test]
fn l20_with_tests_an_invalid_idle_one_is_replaced() {
    let rig = pool(|b| b.test_on_borrow(true));
    invalid(rig.lend());
    assert_eq!((rig.lend().number, rig.script.alive()), (2, 1));
}

/// L21: the order of loans, the last one back first, through invalidate and clear. A return that is done
/// twice does not compile here.
#[test]
fn l21_the_last_one_back_is_lent_first() {
    let rig = pool(|b| b);
    let [one, two, three] = rig.lend_all();
    drop(two);
    drop(one);
    drop(three);
    let (a, b) = (rig.lend(), rig.lend());
    assert_eq!((a.number, b.number, rig.counts()), (3, 1, (2, 1)));
    a.invalidate();
    drop(b);
    assert_eq!((rig.lend().number, rig.counts()), (1, (1, 1)));
    rig.pool.clear();
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
    assert_eq!(rig.lend().number, 4);
}

/// L22: the same, and the one that has been idle for longest first (PROP-RP-ORDER).
#[test]
fn l22_the_longest_idle_is_lent_first() {
    let rig = pool(|b| b.fifo(true));
    let [one, two, three] = rig.lend_all();
    drop(two);
    drop(one);
    drop(three);
    let (a, b) = (rig.lend(), rig.lend());
    assert_eq!((a.number, b.number, rig.counts()), (2, 1, (2, 1)));
    a.invalidate();
    drop(b);
    assert_eq!((rig.lend().number, rig.counts()), (3, (1, 1)));
    rig.pool.clear();
    assert_eq!((rig.lend().number, rig.script.alive()), (4, 1));
}

#[test]
fn l23_without_tests_an_invalid_one_comes_back() {
    let rig = pool(|b| b);
    invalid(rig.lend());
    assert_eq!(rig.counts(), (0, 1));
    assert_eq!(rig.script.calls(), "create activate 1 passivate 1");
}

#[test]
fn l24_with_tests_an_invalid_one_is_destroyed_on_its_return() {
    let rig = pool(|b| b.test_on_return(true));
    invalid(rig.lend());
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
    assert_eq!(rig.script.calls(), "create activate 1 validate 1 destroy 1");
    assert_eq!(rig.events(), ["m: Invalid"]);
}

#[test]
fn l25_what_is_idle_for_too_long_leaves() {
    let rig = pool(|b| b.max_idle_time(5 * SECOND));
    drop(rig.lend_all::<2>());
    rig.clock.advance(4 * SECOND);
    rig.pool.maintain();
    assert_eq!(rig.counts(), (0, 2));
    rig.clock.advance(SECOND);
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// L26: the source's `max_idle_time` is `soft_max_idle_time` here.
#[test]
fn l26_but_not_below_the_minimum() {
    let rig = pool(|b| b.min_idle(1).soft_max_idle_time(5 * SECOND));
    drop(rig.lend_all::<3>());
    rig.script.calls();
    rig.clock.advance(5 * SECOND);
    rig.pool.maintain();
    assert_eq!(rig.counts(), (0, 1));
    assert_eq!(rig.script.calls(), "destroy 1 destroy 2", "the longest idle first");
}

#[test]
fn l27_all_twenty_are_kept_where_there_is_no_limit() {
    let rig = pool(|b| b.max_active(20).max_idle(Limit::None));
    drop(rig.lend_all::<20>());
    assert_eq!(rig.counts(), (0, 20));
}

/// L28: in the source, a second return and one by somebody else change nothing. Neither can be
/// said, for the guard owns what is lent and returning consumes it; whoever holds it may return it, from
/// any thread, and it comes back once.
#[test]
fn l28_one_loan_comes_back_once() {
    let rig = pool(|b| b);
    let lent = rig.lend();
    std::thread::spawn(move || drop(lent)).join().expect("no panic");
    assert_eq!((rig.counts(), rig.pool.num_total()), ((0, 1), 1));
    assert_eq!(rig.script.calls(), "create activate 1 passivate 1");
}

#[test]
fn l29_a_life_cycle() {
    let rig = pool(|b| b.test_on_borrow(true).test_on_return(true));
    drop(rig.lend());
    drop(rig.lend());
    rig.pool.close();
    assert_eq!(
        rig.script.calls(),
        "create activate 1 validate 1 passivate 1 activate 1 validate 1 validate 1 passivate 1 \
         destroy 1"
    );
    assert_eq!(rig.pool.borrow().unwrap_err(), BorrowError::Closed);
}

/// L30: invalidate. The source's errors, `not_active` for a second one and `not_owner` for a stranger's,
/// cannot come up: it consumes the guard.
#[test]
fn l30_what_is_invalid_is_destroyed() {
    let rig = pool(|b| b);
    let [kept, bad] = rig.lend_all();
    bad.invalidate();
    assert_eq!((rig.counts(), rig.pool.num_total(), rig.script.alive()), ((1, 0), 1, 1));
    drop(kept);
}

/// L31: the source's clear destroys active and idle ones. Here `clear` takes the idle ones, `clear_all`
/// marks the active ones, which nobody can take from under their borrowers (defect `elixir-clear-takes-borrowed`).
#[test]
fn l31_clear_takes_what_is_idle() {
    let rig = pool(|b| b);
    let [lent, idle] = rig.lend_all();
    drop(idle);
    rig.pool.clear();
    assert_eq!((rig.counts(), rig.script.alive()), ((1, 0), 1));
    drop(lent);
    assert_eq!(rig.counts(), (0, 1), "it was not concerned");
    let marked = rig.lend();
    rig.pool.clear_all();
    assert_eq!(marked.number, 1);
    drop(marked);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// After most steps of the source's tests: what is lent is active, what is idle is not.
#[test]
fn what_is_lent_is_active_and_what_is_idle_is_passive() {
    let rig = pool(|b| b);
    let [lent, idle] = rig.lend_all();
    assert!(lent.active && idle.active);
    drop(idle);
    rig.pool.retain(|_, resource| {
        assert!(!resource.active);
        true
    });
    rig.script.on("passivate", |_| Outcome::Fails);
    drop(lent);
    assert_eq!(rig.counts(), (0, 1));
}
