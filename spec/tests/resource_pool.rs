//! The resource pool: every pool to its last state, each defect's shortest counterexample, and that every
//! fault that could be planted in a rule is noticed. The figures are pinned: if the machine changes, so do
//! they, and whoever changes it looks twice.
//!
//! To store the stories that are told now:
//! `CABRANK_STORE_STORIES=1 cargo test -p cabrank-spec --test resource_pool`.

use cabrank_spec::checker::Machine;
use cabrank_spec::resource_pool::configurations::{all, named};
use cabrank_spec::resource_pool::defects::{shown, story};
use cabrank_spec::resource_pool::exploration::{check, counterexample};
use cabrank_spec::resource_pool::machine::{Action, Config};
use cabrank_spec::resource_pool::rules::{Defect, Planted, Rules};
use cabrank_spec::resource_pool::story::{promises, tell};
use std::collections::BTreeMap;
use std::io::Write;

/// Name, states, steps, depth.
const PINNED: &[(&str, usize, usize, usize)] = &[
    ("rp-one", 108, 415, 8),
    ("rp-active", 1131, 7016, 12),
    ("rp-total", 1582, 10_300, 12),
    ("rp-fifo", 1718, 9466, 15),
    ("rp-fail", 58, 277, 8),
    ("rp-grow", 1582, 9436, 12),
    ("rp-barging", 1333, 8184, 12),
    ("rp-barging-none", 894, 5205, 9),
    ("rp-barging-all", 45_016, 511_023, 19),
    ("rp-all", 37_868, 372_576, 16),
    ("rp-cancel", 4626, 32_232, 15),
    ("rp-minimum", 1662, 10_884, 12),
    ("rp-left", 171, 764, 6),
    ("rp-outlived", 898, 4195, 15),
    ("rp-clear", 10_311, 74_033, 13),
    ("rp-test", 8749, 67_429, 25),
    ("rp-resize", 5030, 32_356, 18),
    ("rp-keyed-one", 830, 5397, 8),
    ("rp-keyed-two", 4441, 26_223, 18),
    ("rp-keyed-per-key", 3245, 18_517, 14),
    ("rp-keyed-grow", 7732, 45_342, 20),
    ("rp-keyed-barging", 5636, 34_415, 17),
    ("rp-keyed-cancel", 7073, 48_891, 18),
    ("rp-keyed-test", 5822, 30_392, 23),
    ("rp-keyed-outlived", 5653, 32_243, 16),
    ("rp-barging-outlived", 3116, 17_184, 15),
    ("rp-keyed-resize", 6124, 35_476, 14),
    ("rp-keyed-all", 20_071, 168_799, 11),
    ("rp-three-keys", 12_967, 70_908, 19),
    ("rp-three-keys-one-each", 2663, 16_480, 8),
    ("rp-three-keys-barging", 1756, 8432, 19),
];

/// For each invariant and property a fault that breaks it, and a pool in which it does.
const BROKEN_BY: &[(&str, Planted, &str)] = &[
    ("INV-RP-COUNTS", Planted::CreationLeaks, "rp-active"),
    ("INV-RP-MAX-ACTIVE", Planted::MaxActiveIgnored, "rp-active"),
    ("INV-RP-MAX-TOTAL", Planted::GrowIgnoresTotal, "rp-grow"),
    ("INV-RP-MAX-TOTAL-PER-KEY", Planted::VictimForgetsItsKey, "rp-three-keys-one-each"),
    ("INV-RP-MAX-IDLE", Planted::MaxIdleIgnored, "rp-minimum"),
    ("INV-RP-ONE-PLACE", Planted::StockIsKept, "rp-active"),
    ("INV-RP-EXACT-WAKE-UP", Planted::ReturnServesNobody, "rp-active"),
    ("INV-RP-BARGING", Planted::CallsNobody, "rp-barging"),
    ("INV-RP-WAITING", Planted::LeavesLineInName, "rp-active"),
    ("INV-RP-LINE", Planted::QueueJumps, "rp-active"),
    ("INV-RP-IDLE-ORDER", Planted::ReturnsToWrongEnd, "rp-active"),
    ("INV-RP-CLOSED", Planted::CloseTellsNobody, "rp-clear"),
    ("INV-RP-EPOCH", Planted::OldComesBack, "rp-clear"),
    ("INV-RP-LIFETIME", Planted::ExpiredComesBack, "rp-fifo"),
    ("PROP-RP-NO-OVERTAKING", Planted::LastComeFirstServed, "rp-total"),
    ("PROP-RP-FULL-KEY", Planted::NewcomersQueueBehindAll, "rp-keyed-two"),
    ("PROP-RP-WITHIN", Planted::MaxActiveIgnored, "rp-resize"),
    ("PROP-RP-LOWERED", Planted::LowersLate, "rp-resize"),
    ("PROP-RP-IDLE-FIRST", Planted::CreatesBesideStock, "rp-active"),
    ("PROP-RP-ORDER", Planted::TakesFromWrongEnd, "rp-active"),
    ("PROP-RP-FINISHED-FIRST", Planted::UnfinishedFirst, "rp-cancel"),
    ("PROP-RP-OFFERED-ONCE", Planted::OfferedAgain, "rp-cancel"),
    ("PROP-RP-CALLED-FOR", Planted::TrimsWhatIsCalledFor, "rp-barging-none"),
    ("PROP-RP-FRESH", Planted::LendsWhatIsOver, "rp-outlived"),
    ("PROP-RP-VICTIM", Planted::VictimIsNewest, "rp-keyed-two"),
    ("PROP-RP-KEEPS-PLACE", Planted::LosesItsPlace, "rp-active"),
    ("PROP-RP-LATE-GRANT", Planted::LateIsDestroyed, "rp-active"),
    ("PROP-RP-NOTHING-LOST", Planted::LateLosesVictim, "rp-keyed-one"),
    ("PROP-RP-CLEAR-ALL", Planted::CreatedKeepsItsAge, "rp-clear"),
    ("PROP-RP-SPARED", Planted::SparedIsNewest, "rp-keyed-two"),
    ("PROP-RP-CLOSED", Planted::ClosedLends, "rp-clear"),
    ("PROP-RP-UNDER-TEST", Planted::TestedIsTaken, "rp-test"),
    ("PROP-RP-MIN-IDLE", Planted::SoftBelowMinimum, "rp-minimum"),
    ("PROP-RP-EVERY-BORROW-ENDS", Planted::LastComeFirstServed, "rp-active"),
    ("PROP-RP-EVERY-BARGING-BORROW-ENDS", Planted::CallsNobody, "rp-barging"),
    ("PROP-RP-REFILLED", Planted::NobodyRefills, "rp-minimum"),
    ("PROP-RP-EVICTED", Planted::NobodyEvicts, "rp-minimum"),
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
    let mut found_all = vec![];
    let mut said: BTreeMap<&str, usize> = BTreeMap::new();
    for config in all() {
        let found = check(&config)
            .unwrap_or_else(|broken| panic!("{}\n{}", config.name, tell(&config, &broken)));
        // Past the test harness, which shows what failed only.
        let _ = writeln!(
            std::io::stderr(),
            "{}: {} states, {} steps, depth {} ({})",
            config.name,
            found.states,
            found.steps,
            found.depth,
            config.about
        );
        found_all.push((config.name, found.states, found.steps, found.depth));
        for (name, times) in found.said {
            *said.entry(name).or_default() += times;
        }
    }
    let empty: Vec<_> = said.iter().filter(|(_, times)| **times == 0).collect();
    assert!(empty.is_empty(), "never had anything to say: {empty:?}");
    assert_eq!(found_all, PINNED, "the figures have changed");
}

#[test]
fn each_story_is_the_one_that_is_stored() {
    for &defect in Defect::ALL {
        let file = format!("{}/stories/{}.txt", env!("CARGO_MANIFEST_DIR"), defect.name());
        let told = story(defect);
        if std::env::var_os("CABRANK_STORE_STORIES").is_some() {
            std::fs::write(&file, &told).expect("stored");
        }
        let stored = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(told, stored, "the story of {defect:?} has changed");
    }
}

#[test]
fn what_a_defect_breaks_holds_as_mended() {
    for &defect in Defect::ALL {
        let (breaks, mended) = shown(defect);
        let original = Config { rules: Rules::AS_MENDED.but(defect), ..mended.clone() };
        assert!(counterexample(&original, breaks).is_some(), "{defect:?} breaks nothing");
        assert!(counterexample(&mended, breaks).is_none(), "{defect:?} is not mended");
    }
}

#[test]
fn every_planted_fault_is_noticed() {
    // The smallest pools first.
    let mut pools = all();
    pools.sort_by_key(|config| PINNED.iter().find(|p| p.0 == config.name).map(|p| p.1));
    for &fault in Planted::ALL {
        let noticed = pools.clone().into_iter().find_map(|config| {
            let name = config.name;
            Some((name, check(&with(fault, config)).err()?.what))
        });
        let (name, what) = noticed.unwrap_or_else(|| panic!("nobody notices that {}", fault.is()));
        let _ =
            writeln!(std::io::stderr(), "{fault:?}: noticed in {name}: {what} ({})", fault.is());
    }
}

/// No invariant or property is there for nothing.
#[test]
fn every_property_can_be_broken() {
    let broken: Vec<&str> = BROKEN_BY.iter().map(|(name, ..)| *name).collect();
    let promised: Vec<&str> = promises().map(|(name, _)| name).collect();
    assert_eq!(broken, promised);
    for &(name, fault, of) in BROKEN_BY {
        assert!(counterexample(&with(fault, pool(of)), name).is_some(), "{fault:?}: {name} holds");
    }
    let endless = with(Planted::DestroysForEver, pool("rp-total"));
    assert!(counterexample(&endless, "deadlock").is_some());
}

/// Not promised: who barges may keep those who wait waiting for ever.
#[test]
fn who_waits_may_starve_beside_newcomers_who_barge() {
    let starves = counterexample(&pool("rp-barging"), "PROP-RP-EVERY-BORROW-ENDS");
    let round = starves.expect("it starves").for_ever;
    assert!(round.iter().any(|action| matches!(action, Action::Borrow { .. })), "{round:?}");
}

/// Not promised: whoever discards what is broken comes to an end, if others put in more that is.
#[test]
fn what_is_broken_may_be_discarded_for_ever() {
    let discards = counterexample(&pool("rp-fifo"), "PROP-RP-EVERY-DISCARD-ENDS");
    let round = discards.expect("it does not end").for_ever;
    assert!(round.iter().any(|action| matches!(action, Action::PrepareFails { .. })), "{round:?}");
}

/// What the normal form forgets makes no difference: a walk without it, and one with it, can do the same,
/// and are told the same but for numbers.
#[test]
fn the_normal_form_forgets_nothing_that_matters() {
    for config in all() {
        let mut random: u64 = 0x2545_F491_4F6C_DD1D;
        let (mut plain, mut normal) = (config.initial(), config.initial());
        for _ in 0..2_000 {
            config.normal(&mut normal);
            let actions = config.actions(&plain);
            assert_eq!(actions, config.actions(&normal), "{}", config.name);
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
            let kinds = |told: &[_]| told.iter().map(std::mem::discriminant).collect::<Vec<_>>();
            assert_eq!(kinds(&plain.told), kinds(&normal.told), "{}: {action:?}", config.name);
        }
    }
}
