//! Explores each resource pool to its last state, finds each defect's shortest counterexample, and checks that each
//! planted fault is detected. The counts are pinned, so a change of the machine is noticed.
//!
//! `CABRANK_STORE_STORIES=1 cargo test -p cabrank-spec --test resource_pool` stores the current stories.

mod common;

use cabrank_spec::checking::check::{check, counterexample};
use cabrank_spec::checking::machine::Machine;
use cabrank_spec::checking::promises::Promises;
use cabrank_spec::checking::system::Named;
use cabrank_spec::resource_pool::action::Action;
use cabrank_spec::resource_pool::configurations::{all, named};
use cabrank_spec::resource_pool::machine::Config;
use cabrank_spec::resource_pool::rules::{Defect, Planted, Rules};
use common::{all_hold, assert_detected, assert_shown};

/// For each invariant and property, a fault that breaks it and a pool that shows it.
const BROKEN_BY: &[(&str, Planted, &str)] = &[
    ("INV-RP-COUNTS", Planted::CreationLeaks, "rp-active"),
    ("INV-RP-MAX-ACTIVE", Planted::MaxActiveIgnored, "rp-active"),
    ("INV-RP-MAX-TOTAL", Planted::GrowIgnoresTotal, "rp-grow"),
    ("INV-RP-MAX-TOTAL-PER-KEY", Planted::VictimForgetsItsKey, "rp-three-keys-one-each"),
    ("INV-RP-MAX-IDLE", Planted::MaxIdleIgnored, "rp-minimum"),
    ("INV-RP-ONE-PLACE", Planted::TakenStaysIdle, "rp-active"),
    ("INV-RP-EXACT-WAKE-UP", Planted::ReturnServesNoWaiter, "rp-active"),
    ("INV-RP-BARGING", Planted::CallsNoWaiter, "rp-barging"),
    ("INV-RP-MAX-CREATING", Planted::MaxCreatingIgnored, "rp-orders-keyed-few"),
    ("INV-RP-WAITING", Planted::LeavesLineInName, "rp-active"),
    ("INV-RP-LINE", Planted::QueueJumps, "rp-active"),
    ("INV-RP-IDLE-ORDER", Planted::ReturnsToWrongEnd, "rp-active"),
    ("INV-RP-CLOSED", Planted::CloseLeavesWaiters, "rp-clear"),
    ("INV-RP-EPOCH", Planted::OldComesBack, "rp-clear"),
    ("INV-RP-LIFETIME", Planted::ExpiredComesBack, "rp-fifo"),
    ("PROP-RP-NO-OVERTAKING", Planted::LastComeFirstServed, "rp-total"),
    ("PROP-RP-FULL-KEY", Planted::NewcomersQueueBehindAll, "rp-keyed-two"),
    ("PROP-RP-WITHIN", Planted::MaxActiveIgnored, "rp-resize"),
    ("PROP-RP-LOWERED", Planted::LowersLate, "rp-resize"),
    ("PROP-RP-IDLE-FIRST", Planted::CreatesBesideIdle, "rp-active"),
    ("PROP-RP-ORDER", Planted::TakesFromWrongEnd, "rp-active"),
    ("PROP-RP-ORDERED", Planted::OrdersTooFew, "rp-orders"),
    ("PROP-RP-NEXT-ORDER", Planted::OrdersForTheLast, "rp-orders-keyed"),
    ("PROP-RP-DROPPED", Planted::DropsAwaited, "rp-orders-hang"),
    ("PROP-RP-FAILURE", Planted::StaleFailure, "rp-orders"),
    ("PROP-RP-FIRST-USE", Planted::FreshIsTakenAgain, "rp-orders"),
    ("PROP-RP-CALLED-FOR", Planted::TrimsCalledFor, "rp-barging-none"),
    ("PROP-RP-BOUNDED-OVERTAKING", Planted::RacesAreEndless, "rp-barging"),
    ("PROP-RP-FRESH", Planted::LendsExpired, "rp-outlived"),
    ("PROP-RP-VICTIM", Planted::VictimIsNewest, "rp-keyed-two"),
    ("PROP-RP-KEEPS-PLACE", Planted::LosesItsPlace, "rp-active"),
    ("PROP-RP-LATE-GRANT", Planted::LateGrantDestroyed, "rp-active"),
    ("PROP-RP-NOTHING-LOST", Planted::LateGrantLosesVictim, "rp-keyed-one"),
    ("PROP-RP-CLEAR-ALL", Planted::CreatedStaysNew, "rp-clear"),
    ("PROP-RP-SPARED", Planted::SparedIsNewest, "rp-keyed-two"),
    ("PROP-RP-CLOSED", Planted::ClosedLends, "rp-clear"),
    ("PROP-RP-UNDER-TEST", Planted::TestedIsTaken, "rp-test"),
    ("PROP-RP-MIN-IDLE", Planted::SoftBelowMinimum, "rp-minimum"),
    ("PROP-RP-EVERY-BORROW-ENDS", Planted::LastComeFirstServed, "rp-active"),
    ("PROP-RP-EVERY-BARGING-BORROW-ENDS", Planted::CallsNoWaiter, "rp-barging"),
    ("PROP-RP-EVERY-ORDERED-BORROW-ENDS", Planted::DropsAwaited, "rp-orders-slow"),
    ("PROP-RP-REFILLED", Planted::NeverRefills, "rp-minimum"),
    ("PROP-RP-EVICTED", Planted::NeverEvicts, "rp-minimum"),
    ("PROP-RP-CLOSE-ENDS", Planted::DestroysForEver, "rp-clear"),
];

fn with(fault: Planted, config: Config) -> Config {
    Config { rules: Rules::AS_MENDED.with(fault), ..config }
}

fn pool(name: &str) -> Config {
    named(name).expect("a pool")
}

#[test]
fn every_pool_holds_as_mended() {
    all_hold(all());
}

#[test]
fn each_defect_is_shown_by_its_stored_story_and_mended() {
    assert_shown::<Defect>();
}

#[test]
fn every_planted_fault_is_detected() {
    // The smallest pools first.
    let mut pools = all();
    pools.sort_by_key(|named| named.pinned);
    assert_detected(|fault| {
        let broken = |config: &Config| check(&with(fault, config.clone())).err();
        pools.iter().find_map(|named| Some((named.name, broken(&named.machine)?.what)))
    });
}

/// Each invariant and property is broken by a fault.
#[test]
fn every_property_can_be_broken() {
    let broken: Vec<&str> = BROKEN_BY.iter().map(|(name, ..)| *name).collect();
    let promised: Vec<&str> = Config::promises().map(|(name, _)| name).collect();
    assert_eq!(broken, promised);
    for &(name, fault, of) in BROKEN_BY {
        assert!(counterexample(&with(fault, pool(of)), name).is_some(), "{fault:?}: {name} holds");
    }
    // Each of these breaks the rule of the orders in its own way.
    for fault in [
        Planted::OrdersTooMany,
        Planted::OverdueCounts,
        Planted::OverdueStays,
        Planted::OverdueWithoutBound,
    ] {
        let found = ["rp-orders", "rp-orders-hang", "rp-orders-hang-active"]
            .map(|of| counterexample(&with(fault, pool(of)), "PROP-RP-ORDERED"));
        assert!(found.iter().any(Option::is_some), "{fault:?}: PROP-RP-ORDERED holds");
    }
    // A connect slower than `overdue_after` begins again for ever: the story goes round.
    let slow = with(Planted::DropsAwaited, pool("rp-orders-slow"));
    let again = counterexample(&slow, "PROP-RP-EVERY-ORDERED-BORROW-ENDS").expect("a round");
    assert!(again.for_ever.iter().any(|action| matches!(action, Action::Overdue { .. })));
    let endless = with(Planted::DestroysForEver, pool("rp-total"));
    assert!(counterexample(&endless, "deadlock").is_some());
}

/// Not promised: a borrower discards broken resources for ever while others return more of them.
#[test]
fn broken_resources_may_be_discarded_for_ever() {
    let discards = counterexample(&pool("rp-fifo"), "PROP-RP-EVERY-DISCARD-ENDS");
    let round = discards.expect("the borrow does not end").for_ever;
    assert!(round.iter().any(|action| matches!(action, Action::ActivateFails { .. })), "{round:?}");
}

/// A random walk in normal form has the same actions and events as a walk without it, except for numbers.
#[test]
fn the_normal_form_behaves_like_the_pool() {
    for Named { name, machine: config, .. } in all() {
        let mut random: u64 = 0x2545_F491_4F6C_DD1D;
        let (mut plain, mut normal) = (config.initial(), config.initial());
        for _ in 0..2_000 {
            config.normal(&mut normal);
            let actions = config.actions(&plain);
            assert_eq!(actions, config.actions(&normal), "{name}");
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if actions.is_empty() || random.is_multiple_of(100) {
                (plain, normal) = (config.initial(), config.initial());
                continue;
            }
            let action = &actions[random as usize % actions.len()];
            plain = config.step(&plain, action);
            normal = config.step(&normal, action);
            let kinds =
                |events: &[_]| events.iter().map(std::mem::discriminant).collect::<Vec<_>>();
            assert_eq!(kinds(&plain.events), kinds(&normal.events), "{name}: {action:?}");
        }
    }
}
