//! Comments cite the specification's names: its errata (`E…`), invariants (`INV-…`), properties (`PROP-…`), and
//! the defects of other implementations (`elixir-…`, `rails-…`). `src/` cites every one, `tests/` and `models/`
//! together cite every one, and an unknown name fails the test.
//!
//! A name in code, a string or an assertion is no citation. `src/**/invariants.rs` asserts every invariant
//! and `invariants_tests.rs` breaks each one; these files count only for that.

use cabrank_spec::application_pool::{invariants, liveness, properties, rules};
use cabrank_spec::checking::defects::Defects;
use cabrank_spec::checking::switches::Switch;
use cabrank_spec::{interlock, resource_pool};
use std::collections::BTreeSet;
use std::path::Path;

fn text(file: impl AsRef<Path>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns all comments below a directory.
fn comments_below(dir: impl AsRef<Path>) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
    let mut comments = String::new();
    for entry in std::fs::read_dir(dir).expect("the directory exists") {
        let path = entry.expect("the entry is readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            comments += &comments_below(&path);
        } else if name.ends_with(".rs")
            && !["citations.rs", "invariants.rs", "invariants_tests.rs"].contains(&&*name)
        {
            comments += &comments_of(&text(&path));
        }
    }
    comments
}

fn comments_of(source: &str) -> String {
    let comments = source.lines().filter_map(|line| line.split_once("//"));
    comments.map(|(_code, comment)| format!("{comment}\n")).collect()
}

/// Returns the cited names. The ends of a range, as in "E1 to E34", are not cited.
fn cited_in(comments: &str) -> BTreeSet<&str> {
    let words: Vec<&str> = comments
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let is_range = |at: usize| {
        let to = |at: usize| words.get(at).is_some_and(|word| *word == "to");
        to(at + 1) && words.get(at + 2).is_some_and(|end| is_name(end))
            || at >= 2 && to(at - 1) && is_name(words[at - 2])
    };
    (0..words.len())
        .filter(|at| is_name(words[*at]) && !is_range(*at))
        .map(|at| words[at])
        .collect()
}

fn is_name(word: &str) -> bool {
    let digits = |rest: &str| rest.len() <= 2 && rest.parse::<u8>().is_ok();
    ["INV-", "PROP-", "elixir-", "rails-"].iter().any(|prefix| word.starts_with(prefix))
        || word.strip_prefix('E').is_some_and(digits)
}

#[test]
fn a_citation_is_a_whole_word_of_a_comment_outside_a_range() {
    let source =
        "let name = \"INV-COUNT\"; // (E12, INV-LIVE).\n/// Errata E1 to E34: INV-WANT, E7.\n";
    let cited = comments_of(source);
    assert_eq!(cited_in(&cited), BTreeSet::from(["E12", "E7", "INV-LIVE", "INV-WANT"]));
}

/// Returns the names that code and tests must cite.
fn promised() -> BTreeSet<String> {
    let errata = rules::Erratum::ALL.iter().map(|erratum| erratum.name());
    let of_elixir = resource_pool::rules::Defect::ALL.iter().map(|defect| defect.name());
    let of_rails = interlock::rules::Defect::ALL.iter().map(|defect| defect.name());
    let states = invariants::INVARIANTS.iter().map(|invariant| invariant.name);
    let steps = properties::STEP_PROPERTIES.iter().map(|property| property.name);
    let ends = liveness::LIVENESS.iter().map(|property| property.name);
    let of_resources = resource_pool::properties::STEP_PROPERTIES.iter();
    let in_the_end = resource_pool::properties::LIVENESS.iter();
    let in_the_end = in_the_end.filter(|property| property.promised);
    let names = states.chain(steps).chain(ends);
    let names = names.chain(of_resources.map(|property| property.name));
    let names = names.chain(in_the_end.map(|property| property.name));
    names.map(str::to_owned).chain(errata).chain(of_elixir).chain(of_rails).collect()
}

/// Returns the names that tests must cite, and code may.
fn shown() -> BTreeSet<String> {
    let states = interlock::properties::INVARIANTS.iter().map(|property| property.name);
    let steps = interlock::properties::STEP_PROPERTIES.iter().map(|property| property.name);
    let ends = interlock::properties::LIVENESS.iter().map(|property| property.name);
    states.chain(steps).chain(ends).map(str::to_owned).collect()
}

/// Returns whether the name may be cited although it is not promised: the code asserts it, or the
/// specification shows that it does not hold.
fn is_known(name: &str) -> bool {
    let asserted =
        |module| text(format!("src/{module}/invariants.rs")).contains(&format!("\"{name}\""));
    ["application_pool/state", "resource_pool/state", "execution/interlock"]
        .into_iter()
        .any(asserted)
        || resource_pool::properties::LIVENESS.iter().any(|property| property.name == name)
}

#[test]
fn code_and_tests_cite_every_name_of_the_specification_and_no_other() {
    let (code, tests) =
        (comments_below("src"), comments_below("tests") + &comments_below("models"));
    let (in_code, in_tests) = (cited_in(&code), cited_in(&tests));
    let (promised, shown) = (promised(), shown());
    let uncited = |names: &BTreeSet<String>, cited: &BTreeSet<&str>| -> Vec<String> {
        names.iter().filter(|name| !cited.contains(name.as_str())).cloned().collect()
    };
    assert_eq!(uncited(&promised, &in_code), [""; 0], "src/ does not cite these");
    assert_eq!(uncited(&promised, &in_tests), [""; 0], "no test and no model cites these");
    assert_eq!(uncited(&shown, &in_tests), [""; 0], "no test and no model cites these");
    let is_unknown =
        |name: &&&str| !promised.contains(**name) && !shown.contains(**name) && !is_known(name);
    let unknown: Vec<_> = in_code.union(&in_tests).filter(is_unknown).collect();
    assert!(unknown.is_empty(), "the specification does not have {unknown:?}");
}

#[test]
fn the_code_asserts_every_invariant_and_a_test_breaks_it() {
    let applications = invariants::INVARIANTS.iter().map(|invariant| invariant.name);
    let resources = resource_pool::invariants::INVARIANTS.iter().map(|invariant| invariant.name);
    let all = [("application_pool/state", applications.collect::<Vec<_>>())];
    for (module, names) in all.into_iter().chain([("resource_pool/state", resources.collect())]) {
        let code = text(format!("src/{module}/invariants.rs"));
        let breaks = text(format!("src/{module}/invariants_tests.rs"));
        for name in names {
            assert!(code.contains(&format!("\"{name}\"")), "{module} does not assert {name}");
            assert!(cited_in(&breaks).contains(name), "no unit test of {module} breaks {name}");
        }
    }
}
