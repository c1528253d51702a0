//! Explores each kept session to its last state, finds each defect's shortest counterexample, and checks that each planted
//! fault is detected. The counts are pinned, so a change of the machine is noticed.
//!
//! `CABRANK_STORE_STORIES=1 cargo test -p cabrank-spec --test kept` stores the current stories.

mod common;

use cabrank_spec::checking::check::{check, counterexample};
use cabrank_spec::checking::promises::Promises;
use cabrank_spec::kept::configurations::{all, named};
use cabrank_spec::kept::machine::Config;
use cabrank_spec::kept::rules::{Defect, Planted, Rules};
use cabrank_spec::kept::walks;
use common::{all_hold, assert_detected, assert_shown, note};

/// For each invariant and property, a fault that breaks it and a session that shows it.
const BROKEN_BY: &[(&str, Planted, &str)] = &[
    ("INV-KS-OWN-BYTES", Planted::InputEndsLate, "ks-reader"),
    ("INV-KS-ONE-ATTEMPT", Planted::RetriesAfterByte, "ks-plain"),
    ("INV-KS-IN-TURN", Planted::AwaitsNothing, "ks-plain"),
    ("PROP-KS-WHOLE", Planted::TakesCutForWhole, "ks-plain"),
    ("PROP-KS-INPUT-FIRST", Planted::InputEndsLate, "ks-plain"),
    ("PROP-KS-ENDS", Planted::EndWithoutNews, "ks-plain"),
];

fn with(fault: Planted, config: Config) -> Config {
    Config { rules: Rules::AS_MENDED.with(fault), ..config }
}

#[test]
fn every_session_holds_as_ruled() {
    all_hold(all());
}

#[test]
fn each_defect_is_shown_by_its_stored_story_and_mended() {
    assert_shown::<Defect>();
}

#[test]
fn every_planted_fault_is_detected() {
    assert_detected(|fault| {
        let broken = |config| check(&with(fault, config)).err();
        all().into_iter().find_map(|named| Some((named.name, broken(named.machine)?.what)))
    });
}

/// Walks that the loaders' conformance tests play. With `CABRANK_STORE_STORIES` set, the test stores them first.
#[test]
fn the_walks_for_real_loaders_are_those_of_the_machine() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../spawner/loaders/walks.txt");
    let walks = walks::text();
    if std::env::var_os("CABRANK_STORE_STORIES").is_some() {
        std::fs::write(file, &walks).expect("the walks are stored");
    }
    let stored = std::fs::read_to_string(file).unwrap_or_default();
    assert!(walks == stored, "the walks have changed: CABRANK_STORE_STORIES=1 stores them");
    let count = walks.lines().count();
    note(&format!("{count} walks, {} actions", walks.split_whitespace().count()));
}

/// As written, with all three defects at once, the loaders break the invariant.
#[test]
fn as_written_a_client_gets_the_bytes_of_another() {
    let written = Config { rules: Rules::ORIGINAL, ..named("ks-all").expect("a session") };
    assert!(counterexample(&written, "INV-KS-OWN-BYTES").is_some());
}

/// Each invariant and property is broken by a fault.
#[test]
fn every_property_can_be_broken() {
    let broken: Vec<&str> = BROKEN_BY.iter().map(|(name, ..)| *name).collect();
    let promised: Vec<&str> = Config::promises().map(|(name, _)| name).collect();
    assert_eq!(broken, promised);
    for &(name, fault, of) in BROKEN_BY {
        let session = with(fault, named(of).expect("a session"));
        assert!(counterexample(&session, name).is_some(), "{fault:?}: {name} holds");
    }
}
