//! Compares the invariants with those that the real code asserts.

use cabrank_spec::application_pool::invariants::INVARIANTS;

/// Returns the name and sentence of each invariant in the source of the real code.
fn of_the_real_code() -> Vec<(String, String)> {
    let source = include_str!("../../src/application_pool/state/invariants.rs");
    let lines = source.lines().filter(|line| line.trim_start().starts_with("\"INV-"));
    lines
        .map(|line| {
            let mut quoted = line.split('"').skip(1).step_by(2);
            let mut next = || quoted.next().expect("the line has a name and a sentence").to_owned();
            (next(), next())
        })
        .collect()
}

#[test]
fn the_invariants_are_those_of_the_real_code() {
    let here = INVARIANTS.iter().map(|i| (i.name.to_owned(), i.says.to_owned()));
    assert_eq!(here.collect::<Vec<_>>(), of_the_real_code());
}
