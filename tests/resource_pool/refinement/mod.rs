//! The real resource pool and its executable specification, side by side. Random histories of the
//! public API run on both, with and without keys, for threads and for tasks. The observable state
//! must agree after each step.
//!
//! One thread plays all borrowers: waiting ones are futures, polled by hand. The calls of an
//! asynchronous factory end when the history says so. Borrowers and additions are cancelled during a
//! creation, a test or an activation, and others take over. The calls of a synchronous factory end
//! at once. A blocking call has a deadline that has come. The history moves the clock and calls
//! `maintain`.
//!
//! Where the pool creates, creations are overdue, or take longer than their limit, when the history
//! says so. In any call of the factory, that may call the pool itself.
//!
//! The test compares the snapshot (for each key: active, idle in order, existing, waiting), the end
//! of each call, the calls of the factory in order, with the snapshot at each of them, and the
//! destroyed resources. proptest shrinks a failing history. Some options are left to
//! `histories.rs`: loans that look abandoned, jitter, bounded runs, and eviction runs without tests.
//! So are minima of several keys, whose order the specification leaves open.
//!
//! With `CABRANK_CASES=10000`, `cargo test --test resource_pool refinement` runs more histories than
//! the usual 1,000.

mod calls;
mod factory;
mod history;
mod inner;
mod mirror;
mod orders;
mod real;
mod runtime;
mod seen;
mod side_by_side;
mod upkeep;

use crate::shared::histories;
use cabrank_spec::resource_pool::state::{Limit, Options, WhenExhausted};
use history::{Bounds, End, Operation, RACES, World};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseError, TestRunner};
use side_by_side::SideBySide;
use std::collections::BTreeSet;

proptest! {
    #![proptest_config(histories::config())]

    #[test]
    fn the_pool_does_what_the_specification_does(
        world in history::world(),
        operations in prop::collection::vec(history::operation(), 1..=120),
    ) {
        let mut both = SideBySide::new(&world);
        histories::play(&operations, |operation| (both.step(operation), both.compare()))?;
        both.end().map_err(TestCaseError::fail)?;
    }
}

/// Every action of the machine, and every event.
const ALL: &[&str] = &[
    "ActivateFails",
    "Add",
    "AddFails",
    "Added",
    "Adds",
    "Age",
    "Borrow",
    "Called",
    "Cancel",
    "Clear",
    "ClearAll",
    "Close",
    "CreateFails",
    "Created",
    "Creates",
    "Destroyed",
    "Detach",
    "Die",
    "Evict",
    "Expire",
    "GiveUp",
    "Has",
    "Idles",
    "Invalidate",
    "Leaves",
    "Orders",
    "Outlive",
    "Overdue",
    "PickUp",
    "Ready",
    "Refill",
    "Refused",
    "Resize",
    "Retry",
    "Return",
    "Takes",
    "Test",
    "Tested",
    "VictimDestroyed",
    "VictimGone",
    "Waits",
];

/// How many histories meet all of them.
const HISTORIES: usize = 200;

/// Two waiters that lost the race wait in their former order.
#[test]
fn a_waiter_that_lost_the_race_keeps_its_place() {
    let bounds = Bounds { active: None, total: Some(2), per_key: None, idle: None, min_idle: 0 };
    let barging = Options {
        when_exhausted: WhenExhausted::Block,
        fair: false,
        fifo: false,
        races: RACES,
        creates: false,
        max_creating: Limit::NONE,
    };
    let mut both = SideBySide::new(&World {
        keyed: false,
        tasks: true,
        options: barging,
        bounds,
        test_on_create: false,
        test_on_borrow: false,
        test_on_return: false,
        test_while_idle: false,
        max_idle_time: None,
        soft_max_idle_time: None,
        max_lifetime: None,
        destroy_panics: false,
    });
    let borrow =
        |ends: &[End]| Operation::Borrow { client: 0, key: 0, waits: true, ends: ends.to_vec() };
    let (well, comes_back) = ([End::Well; 2], || Operation::Return { nth: 0, ends: vec![] });
    let runs = |nth| Operation::Run { nth, ends: vec![End::Well] };
    for operation in [
        borrow(&well),
        borrow(&well),
        borrow(&[]),
        borrow(&[]),
        comes_back(),
        comes_back(),
        borrow(&well),
        borrow(&well),
        runs(0),
        runs(1),
        comes_back(),
        runs(0),
    ] {
        both.step(&operation).expect("it can be");
        both.compare().expect("they agree");
    }
}

/// The histories use every rule of the machine, and each call of the factory calls the pool in each way.
#[test]
fn histories_use_every_rule_of_the_specification() {
    let mut runner = TestRunner::deterministic();
    let operations = prop::collection::vec(history::operation(), 120);
    let histories = (history::world(), operations);
    let (mut happened, mut called_back) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..HISTORIES {
        let (world, operations) = histories.new_tree(&mut runner).expect("a history").current();
        let mut both = SideBySide::new(&world);
        for operation in &operations {
            both.step(operation);
            both.compare().expect("they agree");
        }
        happened.append(&mut both.happened());
        called_back.append(&mut both.called_back());
    }
    assert_eq!(happened.iter().collect::<Vec<_>>(), ALL);
    let calls = ["Activate", "Create", "Destroy", "Passivate", "Validate"];
    let inner = ["Borrow", "Clear", "ClearAll", "Close", "Resize", "Return"];
    let all = inner.iter().flat_map(|one| calls.map(|call| format!("{one} within {call}")));
    assert_eq!(called_back, all.collect());
}

/// Each option is met by each other one in some history, unless the pool cannot have both.
#[test]
fn each_option_meets_each_other_one() {
    let cannot = [
        ("fail", "grow"),
        ("fail", "unfair"),
        // The specification leaves the order in which keys are refilled to the real pool.
        ("keyed", "min_idle"),
        ("max_total_per_key", "min_idle"),
        // A creation is overdue by a clock that is not the test's.
        ("creates", "test_while_idle"),
        ("creates", "max_idle_time"),
        ("creates", "soft_max_idle_time"),
        ("creates", "max_lifetime"),
        ("max_creating", "test_while_idle"),
        ("max_creating", "max_idle_time"),
        ("max_creating", "soft_max_idle_time"),
        ("max_creating", "max_lifetime"),
    ];
    let mut runner = TestRunner::deterministic();
    let (mut options, mut met) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..2000 {
        let world = history::world().new_tree(&mut runner).expect("a world").current();
        let set = world.set_options();
        options.extend(set.iter().copied());
        met.extend(set.iter().flat_map(|one| set.iter().map(|other| (*one, *other))));
    }
    assert_eq!(options.len(), 21, "an option came or went: count it here");
    let all = options.iter().flat_map(|one| options.iter().map(|other| (*one, *other)));
    let cannot = |pair: &(_, _)| cannot.contains(pair) || cannot.contains(&(pair.1, pair.0));
    let never: Vec<_> = all.filter(|pair| !met.contains(pair)).collect();
    assert!(never.iter().all(cannot), "{never:?}");
    assert_eq!(never.len(), 2 * 12);
}
