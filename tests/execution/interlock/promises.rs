//! What the machine in `spec/` promises of the interlock is kept by an invariant of the real code, or shown
//! by a model or a test, and the invariants' table says by which.

use cabrank_spec::interlock::properties::{LIVENESS, PROPERTIES, STEP_PROPERTIES};
use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string};
use std::path::Path;

const INVARIANTS: &str = include_str!("../../../src/execution/interlock/invariants.rs");

/// The table's rows: a promise, and what keeps it.
fn rows() -> Vec<(&'static str, Vec<&'static str>)> {
    let rows = INVARIANTS.lines().filter_map(|line| line.strip_prefix("//! | "));
    let cells = rows.filter_map(|row| row.strip_suffix(" |")?.split_once(" | "));
    let kept = |cell: &'static str| cell.split(", ").map(|name| name.trim_matches('`')).collect();
    cells.skip(1).map(|(promise, cell)| (promise, kept(cell))).collect()
}

/// The invariants, the models and the tests.
fn keepers() -> BTreeSet<String> {
    let lists = INVARIANTS.lines().filter_map(|line| line.trim_start().strip_prefix("\"ILK-"));
    let invariants = lists.filter_map(|rest| Some(format!("ILK-{}", rest.split_once('"')?.0)));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["models/interlock", "models/execution", "tests/execution/interlock"]
        .map(|folder| read_dir(root.join(folder)).unwrap());
    let paths = files.into_iter().flatten().map(|file| file.unwrap().path());
    let sources = paths.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let functions = sources.flat_map(|path| {
        let source = read_to_string(path).unwrap();
        let tests = source.split("#[test]\nfn ").skip(1);
        tests.filter_map(|text| Some(text.split_once('(')?.0.to_owned())).collect::<Vec<_>>()
    });
    invariants.chain(functions).collect()
}

#[test]
fn every_promise_of_the_machine_is_kept_by_what_the_table_names() {
    let states = PROPERTIES.iter().map(|promise| promise.name);
    let steps = STEP_PROPERTIES.iter().map(|promise| promise.name);
    let ends = LIVENESS.iter().map(|promise| promise.name);
    let promised: Vec<_> = states.chain(steps).chain(ends).collect();
    let told: Vec<_> = rows().into_iter().map(|(promise, _)| promise).collect();
    assert_eq!(told, promised);
    let keepers = keepers();
    for (promise, kept_by) in rows() {
        for name in kept_by {
            assert!(keepers.contains(name), "{promise}: there is no {name}");
        }
    }
}

/// And no invariant is there for nothing: it is in the table, or about the code's own bookkeeping.
#[test]
fn every_invariant_is_in_the_table_or_keeps_the_books() {
    let books = ["ILK-TALLY", "ILK-FAST-IS-EMPTY"];
    let named: BTreeSet<_> = rows().into_iter().flat_map(|(_, kept_by)| kept_by).collect();
    for invariant in keepers().iter().filter(|name| name.starts_with("ILK-")) {
        assert!(
            named.contains(invariant.as_str()) || books.contains(&invariant.as_str()),
            "{invariant}"
        );
    }
}
