//! That nothing of the specification is forgotten: every invariant, every erratum and every function of
//! the text is cited by the code that carries it out and by a test or a model that would notice.

use cabrank_spec::invariants::INVARIANTS;
use cabrank_spec::properties::{LIVENESS, STEP_PROPERTIES};
use cabrank_spec::rules::Erratum;
use std::path::Path;

/// The functions, callbacks, threads and condition variables of the text, in its order.
const FUNCTIONS: &[&str] = &[
    "get",
    "detach",
    "checkout_without_lock",
    "mutate_active",
    "mutate_count",
    "mutate_max",
    "needs_restart",
    "spawning_allowed",
    "detach_group_without_lock",
    "select_process",
    "spawn_in_background",
    "spawner_thread_callback",
    "detach_without_lock",
    "session_has_been_closed",
    "cleaner",
    "new_app_group_creatable",
    "global_queue_position_became_available",
];

/// All sources below a directory, this file excepted.
fn sources(dir: &str) -> String {
    fn read(dir: &Path, into: &mut String) {
        for entry in std::fs::read_dir(dir).expect("it is there") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                read(&path, into);
            } else if path.extension().is_some_and(|ext| ext == "rs") && !path.ends_with(file!()) {
                into.push_str(&std::fs::read_to_string(&path).expect("it is text"));
            }
        }
    }
    let mut text = String::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(dir), &mut text);
    text
}

/// Whether the text has this as a word of its own.
fn cites(text: &str, item: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.match_indices(item).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + item.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

#[test]
fn words_are_told_from_parts_of_words() {
    assert!(cites("(errata E1, E12)", "E1") && cites("E1", "E1") && cites("a E12.", "E12"));
    assert!(!cites("(erratum E12)", "E1") && !cites("INV-COUNTER", "INV-COUNT"));
}

#[test]
fn every_erratum_is_cited_by_code_and_by_a_test() {
    let code = sources("src");
    let tests = sources("tests") + &sources("models");
    for erratum in Erratum::ALL {
        let name = erratum.name();
        // Tests may say it in their names: e07_….
        let number: u32 = name[1..].parse().expect("a number");
        let named = format!("fn e{number:02}_");
        assert!(cites(&code, name), "no code cites {name}: {}", erratum.as_ruled());
        assert!(cites(&tests, name) || tests.contains(&named), "no test cites {name}");
    }
}

#[test]
fn every_invariant_is_asserted_by_the_code_and_broken_by_a_test() {
    let code = sources("src");
    let breaks = include_str!("../src/application_pool/invariants_tests.rs");
    for invariant in INVARIANTS {
        let name = invariant.name;
        assert!(code.contains(&format!("\"{name}\"")), "the code does not assert {name}");
        assert!(cites(breaks, name), "no test breaks {name}");
    }
}

#[test]
fn every_function_of_the_text_is_found_by_its_name() {
    let (code, spec) = (sources("src"), sources("spec/src"));
    for function in FUNCTIONS {
        assert!(code.contains(&format!("fn {function}")) || cites(&code, function), "{function}");
        assert!(cites(&spec, function), "the specification has no {function}");
    }
}

/// What is promised beyond the invariants goes back to an erratum, which is cited.
#[test]
fn every_property_says_where_it_comes_from() {
    let steps = STEP_PROPERTIES.iter().map(|property| (property.name, property.says));
    let in_the_end = LIVENESS.iter().map(|property| (property.name, property.says));
    for (name, says) in steps.chain(in_the_end) {
        let cited = Erratum::ALL.iter().any(|erratum| cites(says, erratum.name()));
        assert!(cited, "{name} cites nothing: {says}");
    }
}
