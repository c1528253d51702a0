//! The Elixir pool's suite, in its order (`crowds.rs` has the rest). Where a ruling changes the
//! outcome, the test follows the ruling.

use crate::common::{Outcome, pool};
use crate::shared::SECOND;
use cabrank::resource_pool::{
    AddError, BorrowError, Borrowed, BuildError, LendOrder, ResourceFactory, ResourcePool,
    WhenExhausted,
};
use std::time::Duration;

fn invalid(mut lent: Borrowed<'_, crate::common::Script>) {
    lent.valid = false;
}

/// Eight lent, eight idle; the last one back is lent first, untested; a ninth borrower waits.
#[test]
fn defaults() {
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

/// All options that can be combined.
#[test]
fn custom_options() {
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
            .lend_order(LendOrder::OldestFirst)
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

/// A pool without a factory does not compile (`src/resource_pool/api/misuse.rs`). Optional methods have
/// defaults.
#[test]
fn the_minimal_factory() {
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

/// The Elixir pool lists unknown options by name. Here they do not compile, and a contradiction
/// names both options (`options.rs` has all).
#[test]
fn wrong_options_are_named() {
    let builder = ResourcePool::builder(crate::common::Script::default(), "m");
    let refused = builder.max_idle(1).min_idle(2).build().expect_err("it is refused");
    assert_eq!(refused.to_string(), "min_idle (2) must not exceed max_idle (1)");
    assert!(matches!(refused, BuildError::Above { .. }));
}

#[test]
fn an_added_resource_is_idle_and_lent_next() {
    let rig = pool(|b| b);
    rig.pool.add().expect("room");
    assert_eq!(rig.counts(), (0, 1));
    assert_eq!(rig.lend().number, 1);
    assert_eq!(rig.script.calls(), "create passivate 1 activate 1 passivate 1");
}

#[test]
fn add_stops_at_max_idle() {
    let rig = pool(|b| b.max_idle(2));
    assert_eq!(rig.pool.prefill(3), Err(AddError::Full));
    assert_eq!((rig.counts(), rig.script.made()), ((0, 2), 2));
}

#[test]
fn add_knows_no_limit_where_there_is_none() {
    let rig = pool(|b| b.max_idle(None));
    rig.pool.prefill(20).expect("room");
    assert_eq!(rig.counts(), (0, 20));
}

/// Two are idle beside four loans, and the fifth borrower is refused. In the Elixir pool the
/// borrower refills the minimum, and resources at or below it are never lent. Here they are lent,
/// and the background refills (defect `elixir-hoarded-minimum`).
#[test]
fn the_minimum_is_kept_beside_the_loans() {
    let rig = pool(|b| b.max_active(4).min_idle(2).when_exhausted(WhenExhausted::Fail));
    rig.pool.maintain();
    let mut lent = Vec::new();
    for active in 1..=4 {
        lent.push(rig.lend());
        assert_eq!(rig.counts(), (active, 1), "one idle resource less");
        rig.pool.maintain();
        assert_eq!(rig.counts(), (active, 2));
    }
    assert_eq!(rig.pool.borrow().unwrap_err(), BorrowError::Exhausted);
    drop(lent);
    assert_eq!(rig.counts(), (0, 4));
}

/// In the Elixir pool a waiter that is granted an invalid resource times out, with (1, 0). Here the
/// waiter gets its place, and creates a new one (defect `elixir-forgotten-waiter`).
#[test]
fn a_waiter_is_not_left_alone_with_an_invalid_one() {
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
fn no_limit_for_loans() {
    let rig = pool(|b| b.max_active(None));
    let eleven = rig.lend_all::<11>();
    assert_eq!(rig.counts(), (11, 0));
    drop(eleven);
}

#[test]
fn no_limit_for_idle_resources_beside_grow() {
    let rig = pool(|b| b.max_idle(None).when_exhausted(WhenExhausted::Grow));
    let ten = rig.lend_all::<10>();
    drop(ten);
    rig.pool.prefill(20).expect("room");
    assert_eq!(rig.counts(), (0, 20));
}

#[test]
fn an_exhausted_pool_fails() {
    let rig = pool(|b| b.max_active(2).when_exhausted(WhenExhausted::Fail));
    let two = rig.lend_all::<2>();
    assert_eq!(rig.pool.borrow().unwrap_err(), BorrowError::Exhausted);
    drop(two);
}

#[test]
fn an_exhausted_pool_grows() {
    let rig = pool(|b| b.max_active(2).when_exhausted(WhenExhausted::Grow));
    let five = rig.lend_all::<5>();
    assert_eq!(rig.counts(), (5, 0));
    drop(five);
    assert_eq!(rig.counts(), (0, 2), "as many as may be idle");
}

#[test]
fn a_borrower_waits_until_one_comes_back() {
    let rig = pool(|b| b.max_active(1));
    let lent = rig.lend();
    let waits = rig.queue();
    assert!(waits.is_pending());
    drop(lent);
    assert_eq!(waits.end().expect("it came back").number, 1);
}

#[test]
fn a_wait_ends_at_its_time() {
    let rig = pool(|b| b.max_active(1).max_wait(5 * SECOND));
    let lent = rig.lend();
    let waits = rig.queue();
    rig.clock.advance(5 * SECOND - Duration::from_nanos(1));
    assert!(waits.is_pending());
    rig.clock.advance(Duration::from_nanos(1));
    assert!(matches!(waits.end(), Err(BorrowError::TimedOut(_))));
    assert_eq!((rig.counts(), rig.pool.num_waiting()), ((1, 0), 0));
    drop(lent);
}

#[test]
fn a_wait_within_its_time_is_served() {
    let rig = pool(|b| b.max_active(1).max_wait(5 * SECOND));
    let lent = rig.lend();
    let waits = rig.queue();
    rig.clock.advance(4 * SECOND);
    drop(lent);
    drop(waits.end().expect("in time"));
}

#[test]
fn without_tests_an_invalid_one_is_lent_again() {
    let rig = pool(|b| b);
    invalid(rig.lend());
    let again = rig.lend();
    assert_eq!((again.number, again.valid), (1, false));
}

#[test]
fn without_tests_a_waiter_gets_the_invalid_one() {
    let rig = pool(|b| b.max_active(1));
    let lent = rig.lend();
    let waits = rig.queue();
    invalid(lent);
    let granted = waits.end().expect("granted");
    assert_eq!((granted.number, granted.valid), (1, false));
}

/// PROP-RP-KEEPS-PLACE.
#[test]
fn with_tests_an_invalid_idle_one_is_replaced() {
    let rig = pool(|b| b.test_on_borrow(true));
    invalid(rig.lend());
    assert_eq!((rig.lend().number, rig.script.alive()), (2, 1));
}

/// The last one back is lent first, also after invalidate and clear. A second return of a loan does
/// not compile.
#[test]
fn the_last_one_back_is_lent_first() {
    let rig = pool(|b| b);
    let [one, two, three] = rig.lend_all();
    drop(two);
    drop(one);
    drop(three);
    let (a, b) = (rig.lend(), rig.lend());
    assert_eq!((a.number, b.number, rig.counts()), (3, 1, (2, 1)));
    Borrowed::invalidate(a);
    drop(b);
    assert_eq!((rig.lend().number, rig.counts()), (1, (1, 1)));
    rig.pool.clear();
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
    assert_eq!(rig.lend().number, 4);
}

/// The same with the longest idle first (PROP-RP-ORDER).
#[test]
fn the_longest_idle_is_lent_first() {
    let rig = pool(|b| b.lend_order(LendOrder::OldestFirst));
    let [one, two, three] = rig.lend_all();
    drop(two);
    drop(one);
    drop(three);
    let (a, b) = (rig.lend(), rig.lend());
    assert_eq!((a.number, b.number, rig.counts()), (2, 1, (2, 1)));
    Borrowed::invalidate(a);
    drop(b);
    assert_eq!((rig.lend().number, rig.counts()), (3, (1, 1)));
    rig.pool.clear();
    assert_eq!((rig.lend().number, rig.script.alive()), (4, 1));
}

#[test]
fn without_tests_an_invalid_one_comes_back() {
    let rig = pool(|b| b);
    invalid(rig.lend());
    assert_eq!(rig.counts(), (0, 1));
    assert_eq!(rig.script.calls(), "create activate 1 passivate 1");
}

#[test]
fn with_tests_an_invalid_one_is_destroyed_on_its_return() {
    let rig = pool(|b| b.test_on_return(true));
    invalid(rig.lend());
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
    assert_eq!(rig.script.calls(), "create activate 1 validate 1 destroy 1");
    assert_eq!(rig.events(), ["m: Invalid"]);
}

#[test]
fn expired_idle_resources_leave() {
    let rig = pool(|b| b.max_idle_time(5 * SECOND));
    drop(rig.lend_all::<2>());
    rig.clock.advance(4 * SECOND);
    rig.pool.maintain();
    assert_eq!(rig.counts(), (0, 2));
    rig.clock.advance(SECOND);
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// The Elixir pool's `max_idle_time` is `soft_max_idle_time` here.
#[test]
fn but_not_below_the_minimum() {
    let rig = pool(|b| b.min_idle(1).soft_max_idle_time(5 * SECOND));
    drop(rig.lend_all::<3>());
    rig.script.calls();
    rig.clock.advance(5 * SECOND);
    rig.pool.maintain();
    assert_eq!(rig.counts(), (0, 1));
    assert_eq!(rig.script.calls(), "destroy 1 destroy 2", "the longest idle first");
}

#[test]
fn all_twenty_are_kept_where_there_is_no_limit() {
    let rig = pool(|b| b.max_active(20).max_idle(None));
    drop(rig.lend_all::<20>());
    assert_eq!(rig.counts(), (0, 20));
}

/// In the Elixir pool a second return, and a return by another process, change no count. Here the
/// guard owns the loan and returning consumes it; whichever thread holds the guard may return it,
/// once.
#[test]
fn one_loan_comes_back_once() {
    let rig = pool(|b| b);
    let lent = rig.lend();
    std::thread::spawn(move || drop(lent)).join().expect("no panic");
    assert_eq!((rig.counts(), rig.pool.num_total()), ((0, 1), 1));
    assert_eq!(rig.script.calls(), "create activate 1 passivate 1");
}

#[test]
fn a_life_cycle() {
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

/// The Elixir pool's errors `not_active` and `not_owner` cannot occur, because `invalidate` consumes
/// the guard.
#[test]
fn an_invalidated_resource_is_destroyed() {
    let rig = pool(|b| b);
    let [kept, bad] = rig.lend_all();
    Borrowed::invalidate(bad);
    assert_eq!((rig.counts(), rig.pool.num_total(), rig.script.alive()), ((1, 0), 1, 1));
    drop(kept);
}

/// The Elixir pool's `clear` destroys active and idle ones. Here `clear` takes the idle ones, and
/// `clear_all` marks the active ones, which stay with their borrowers (defect `elixir-clear-takes-borrowed`).
#[test]
fn clear_takes_idle_resources() {
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

/// Borrowed resources are active, idle ones are passive.
#[test]
fn borrowed_resources_are_active_and_idle_ones_passive() {
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
