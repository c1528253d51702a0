//! That `tests/README.md` says which test covers what, and that what it says is so.

use std::collections::{BTreeMap, BTreeSet};

const README: &str = include_str!("README.md");

const SOURCES: [&str; 42] = [
    include_str!("allocations.rs"),
    include_str!("async_get.rs"),
    include_str!("executor.rs"),
    include_str!("periodic_executor/by_hand.rs"),
    include_str!("periodic_executor/clients.rs"),
    include_str!("periodic_executor/ends.rs"),
    include_str!("periodic_executor/flavours.rs"),
    include_str!("periodic_executor/joining.rs"),
    include_str!("reloader/changes.rs"),
    include_str!("reloader/conformance.rs"),
    include_str!("reloader/failures.rs"),
    include_str!("reloader/nesting.rs"),
    include_str!("reloader/steps.rs"),
    include_str!("reloader/waiting.rs"),
    include_str!("real_clock.rs"),
    include_str!("conformance/limits.rs"),
    include_str!("conformance/restart_files.rs"),
    include_str!("conformance/restarts.rs"),
    include_str!("conformance/sessions.rs"),
    include_str!("conformance/status.rs"),
    include_str!("foreign_code/errors.rs"),
    include_str!("foreign_code/main.rs"),
    include_str!("foreign_code/observers.rs"),
    include_str!("foreign_code/processes.rs"),
    include_str!("foreign_code/wakers.rs"),
    include_str!("interlock/conformance.rs"),
    include_str!("interlock/defects.rs"),
    include_str!("interlock/dump.rs"),
    include_str!("interlock/executions.rs"),
    include_str!("interlock/liveness.rs"),
    include_str!("interlock/loaded.rs"),
    include_str!("interlock/tasks.rs"),
    include_str!("rulings/capacity.rs"),
    include_str!("rulings/closing.rs"),
    include_str!("rulings/detaching.rs"),
    include_str!("rulings/idling.rs"),
    include_str!("rulings/policy.rs"),
    include_str!("rulings/queueing.rs"),
    include_str!("rulings/restarting.rs"),
    include_str!("rulings/rolling.rs"),
    include_str!("rulings/sessions.rs"),
    include_str!("readme.rs"),
];

/// The names of all tests.
fn tests() -> BTreeSet<&'static str> {
    let after_attribute = SOURCES.iter().flat_map(|source| source.split("#[test]\n").skip(1));
    let names = after_attribute.filter_map(|text| {
        let (_, name) = text.split_once("fn ")?;
        Some(name.split_once("()")?.0)
    });
    names.chain(SOURCES.iter().flat_map(|source| of_both_flavours(source))).collect()
}

/// The names that are given to `both!`, which makes two tests of each line.
fn of_both_flavours(source: &'static str) -> Vec<&'static str> {
    let list = source.split_once("\nboth! {\n").and_then(|(_, rest)| rest.split_once("\n}\n"));
    let lines = list.map_or("", |(list, _)| list).lines();
    let names = lines
        .filter_map(|line| line.split_once(" => "))
        .flat_map(|(names, _)| names.split(',').map(str::trim));
    names.collect()
}

/// The numbers at the beginning of a test's name, as the README writes them.
fn numbers(test: &str) -> Vec<String> {
    let numbers = test.split('_').map_while(|part| {
        let (letter, number) = part.split_at_checked(1)?;
        let number: u32 = (number.len() == 2).then(|| number.parse().ok())??;
        "oefqrdl".contains(letter).then(|| format!("{}{number}", letter.to_uppercase()))
    });
    numbers.collect()
}

/// The tables' rows: a number, and the tests that its row names.
fn rows() -> Vec<(&'static str, BTreeSet<&'static str>)> {
    let rows = README.lines().filter_map(|line| {
        let number = line.strip_prefix("| ")?.split(' ').next()?;
        let is_number = number.len() > 1 && number[1..].parse::<u32>().is_ok();
        let names = line.split('`').skip(1).step_by(2);
        is_number.then(|| (number, names.filter(|name| !numbers(name).is_empty()).collect()))
    });
    rows.collect()
}

#[test]
fn the_tables_have_one_row_for_each_number() {
    let listed: Vec<&str> = rows().into_iter().map(|(number, _)| number).collect();
    let range = |letter, last| (1..=last).map(move |number| format!("{letter}{number}"));
    let pool = range("O", 37).chain(range("F", 19)).chain(range("E", 34));
    let interlock = range("R", 85).chain(range("D", 5)).chain(range("L", 6));
    let all: Vec<String> = pool.chain(interlock).chain(range("Q", 11)).collect();
    assert_eq!(listed, all);
}

#[test]
fn each_row_names_exactly_the_tests_with_its_number() {
    let mut named: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for test in tests() {
        for number in numbers(test) {
            named.entry(number).or_default().insert(test);
        }
    }
    for (number, listed) in rows() {
        assert_eq!(listed, named.remove(number).unwrap_or_default(), "the row of {number}");
    }
    assert!(named.is_empty(), "without a row: {named:?}");
}

#[test]
fn a_row_without_a_test_says_why() {
    for line in README.lines().filter(|line| line.starts_with("| ") && line.contains("| — |")) {
        let reason = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        assert!(reason.trim().len() > 10, "{line}");
    }
    for (number, listed) in rows() {
        let prefix = format!("| {number} |");
        let line = README.lines().find(|line| line.starts_with(&prefix)).expect("it has a row");
        assert_eq!(listed.is_empty(), line.contains("| — |"), "{line}");
    }
}

#[test]
fn every_file_is_listed() {
    for path in include_str!("readme.rs").split("include_str!(\"").skip(1) {
        let path = path.split('"').next().unwrap_or_default();
        if path.ends_with(".rs") {
            assert!(README.contains(&format!("`{path}`")), "{path} is not listed");
        }
    }
}

#[test]
fn numbers_are_read_from_names() {
    assert_eq!(numbers("o09_full_pool_makes_the_other_group_wait"), ["O9"]);
    assert_eq!(numbers("e09_e10_sizes_and_lists"), ["E9", "E10"]);
    assert!(numbers("a_get_is_served_at_once").is_empty());
    assert!(tests().contains("numbers_are_read_from_names"));
}
