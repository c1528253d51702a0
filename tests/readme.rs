//! That `tests/README.md` says which test covers what, and that what it says is so.

use std::collections::{BTreeMap, BTreeSet};

const README: &str = include_str!("README.md");

const SOURCES: [&str; 42] = [
    include_str!("allocations.rs"),
    include_str!("async_get.rs"),
    include_str!("executor/hooks.rs"),
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

/// Those of the resource pool, whose L1 to L34 are called RPL1 to RPL34 in the tables.
const RESOURCE_POOL: [&str; 19] = [
    include_str!("resource_pool/asynchronous.rs"),
    include_str!("resource_pool/clearing.rs"),
    include_str!("resource_pool/common.rs"),
    include_str!("resource_pool/conformance.rs"),
    include_str!("resource_pool/crowds.rs"),
    include_str!("resource_pool/executions.rs"),
    include_str!("resource_pool/failures.rs"),
    include_str!("resource_pool/foreign_code.rs"),
    include_str!("resource_pool/keyed.rs"),
    include_str!("resource_pool/main.rs"),
    include_str!("resource_pool/maintaining.rs"),
    include_str!("resource_pool/minimum.rs"),
    include_str!("resource_pool/abandoned.rs"),
    include_str!("resource_pool/options.rs"),
    include_str!("resource_pool/real_clock.rs"),
    include_str!("resource_pool/resizing.rs"),
    include_str!("resource_pool/steps.rs"),
    include_str!("resource_pool/stress.rs"),
    include_str!("resource_pool/upkeep.rs"),
];

/// The names of a source's tests.
fn names(source: &'static str) -> impl Iterator<Item = &'static str> {
    let after_attribute = source.split("#[test]\n").skip(1);
    let names = after_attribute.filter_map(|text| {
        let (_, name) = text.split_once("fn ")?;
        Some(name.split_once("()")?.0)
    });
    names.chain(of_both_flavours(source))
}

/// All tests, and the numbers of what they cover.
fn tests() -> BTreeMap<&'static str, Vec<String>> {
    let of_the_resource_pool = |name| {
        let own = |number: String| match number.starts_with('L') {
            true => format!("RP{number}"),
            false => number,
        };
        (name, numbers(name).into_iter().map(own).collect())
    };
    let others = SOURCES.into_iter().flat_map(names).map(|name| (name, numbers(name)));
    others.chain(RESOURCE_POOL.into_iter().flat_map(names).map(of_the_resource_pool)).collect()
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
        let digits = number.trim_start_matches(|c: char| c.is_ascii_uppercase());
        let is_number = digits.len() < number.len() && digits.parse::<u32>().is_ok();
        let names = line.split('`').skip(1).step_by(2);
        is_number.then(|| (number, names.filter(|name| !numbers(name).is_empty()).collect()))
    });
    rows.collect()
}

#[test]
fn the_tables_have_one_row_for_each_number() {
    let listed: Vec<&str> = rows().into_iter().map(|(number, _)| number).collect();
    let range = |letters, last| (1..=last).map(move |number| format!("{letters}{number}"));
    let pool = range("O", 37).chain(range("F", 19)).chain(range("E", 34));
    let interlock = range("R", 85).chain(range("D", 5)).chain(range("L", 6));
    let others = range("Q", 11).chain(range("RPL", 34));
    let all: Vec<String> = pool.chain(interlock).chain(others).collect();
    assert_eq!(listed, all);
}

#[test]
fn each_row_names_exactly_the_tests_with_its_number() {
    let mut named: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (test, numbers) in tests() {
        for number in numbers {
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

/// The sixteen rulings on what the resource pool's source leaves open or has wrong.
#[test]
fn each_ruling_on_the_resource_pool_is_cited_by_a_test() {
    let cited = RESOURCE_POOL.iter().flat_map(|source| source.split("uling").skip(1));
    let numbers: BTreeSet<u32> = cited
        .filter_map(|text| text.trim_start_matches('s').split(['.', ':', ',', ')']).next())
        .flat_map(|text| text.split(' ').filter_map(|word| word.parse().ok()).take(2))
        .collect();
    assert_eq!(numbers, (1..=16).collect());
}

#[test]
fn numbers_are_read_from_names() {
    assert_eq!(numbers("o09_full_pool_makes_the_other_group_wait"), ["O9"]);
    assert_eq!(numbers("e09_e10_sizes_and_lists"), ["E9", "E10"]);
    assert!(numbers("a_get_is_served_at_once").is_empty());
    assert!(tests().contains_key("numbers_are_read_from_names"));
    assert_eq!(tests()["l01_defaults"], ["RPL1"]);
}
