//! That nothing of the specification is forgotten: every erratum and defect, every invariant and every
//! property is cited by the code that carries it out and by a test or a model that would notice, and every
//! function of the text is where the table says.
//!
//! Invariants and properties are cited in comments, by their names in `spec/`. The list of assertions,
//! which names every invariant, is no citation: that it is complete, and that each of its assertions can
//! fail, is looked at by itself.

use cabrank_spec::invariants::INVARIANTS;
use cabrank_spec::properties::{LIVENESS, STEP_PROPERTIES};
use cabrank_spec::rules::Erratum;
use cabrank_spec::{interlock, resource_pool};
use std::collections::BTreeSet;
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

/// All sources below a directory, but for this file, the list of assertions and, in `src`, what tests
/// them.
fn sources(dir: &str) -> String {
    fn read(dir: &Path, into: &mut String) {
        for entry in std::fs::read_dir(dir).expect("it is there") {
            let path = entry.expect("it can be read").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
            if path.is_dir() {
                read(&path, into);
            } else if name.ends_with(".rs")
                && name != "citations.rs"
                && name != "invariants.rs"
                && !name.ends_with("_tests.rs")
            {
                let text = std::fs::read_to_string(&path).expect("it is text");
                into.push_str(text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default());
            }
        }
    }
    let mut text = String::new();
    read(&root().join(dir), &mut text);
    text
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// What is said in comments, and not by code: a name in a string or an assertion cites nothing.
fn comments(source: &str) -> String {
    let comments = source.lines().filter_map(|line| line.split_once("//"));
    comments.map(|(_code, comment)| format!("{comment}\n")).collect()
}

/// Whether the text has this as a word of its own. A range, as in "E1 to E34", cites nothing.
fn cites(text: &str, item: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.match_indices(item).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + item.len()..]);
        let is_word = !before.ends_with(part) && !after.starts_with(part);
        let begins_range =
            after.strip_prefix(" to ").is_some_and(|end| end.starts_with(&item[..1]));
        is_word && !before.ends_with(" to ") && !begins_range
    })
}

#[test]
fn words_are_told_from_parts_of_words() {
    assert!(cites("(errata E1, E12)", "E1") && cites("E1", "E1") && cites("a E12.", "E12"));
    assert!(!cites("(erratum E12)", "E1") && !cites("INV-COUNTER", "INV-COUNT"));
    assert!(!cites("(E1 to E34)", "E1") && !cites("(E1 to E34)", "E34"));
    assert!(
        !cites("rails-late-grant", "late-grant")
            && cites("(`rails-late-grant`)", "rails-late-grant")
    );
}

#[test]
fn comments_are_told_from_code() {
    let comments = comments("let name = \"INV-COUNT\"; // Of all (INV-LIVE).\n/// INV-WANT.\n");
    assert!(cites(&comments, "INV-LIVE") && cites(&comments, "INV-WANT"));
    assert!(!cites(&comments, "INV-COUNT"));
}

#[test]
fn every_erratum_is_cited_by_code_and_by_a_test() {
    let code = sources("src");
    let tests = sources("tests") + &sources("models");
    for erratum in Erratum::ALL {
        let name = erratum.name();
        assert!(cites(&code, name), "no code cites {name}: {}", erratum.as_ruled());
        // Tests may say it in their names: e07_….
        assert!(cites(&tests, name) || is_named_after(&tests, name), "no test cites {name}");
    }
}

/// Whether a test is named after this erratum: after `E1`, `e01_…`.
fn is_named_after(tests: &str, item: &str) -> bool {
    let (letter, number) = item.split_at(1);
    let Ok(number) = number.parse::<u32>() else { return false };
    tests.contains(&format!("fn {}{number:02}_", letter.to_lowercase()))
}

/// The defects of Rails' interlock and of the Elixir pool.
#[test]
fn every_defect_of_another_implementation_is_cited_by_code_and_by_a_test() {
    let code = comments(&sources("src"));
    let tests = comments(&(sources("tests") + &sources("models")));
    let of_the_interlock = interlock::rules::Defect::ALL.iter().map(|defect| defect.name());
    let of_the_pool = resource_pool::rules::Defect::ALL.iter().map(|defect| defect.name());
    for name in of_the_interlock.chain(of_the_pool) {
        assert!(cites(&code, &name), "no code cites {name}");
        assert!(cites(&tests, &name), "no test cites {name}");
    }
}

/// The invariants and properties of the load interlock.
fn promises_of_the_interlock() -> impl Iterator<Item = &'static str> {
    let states = interlock::properties::PROPERTIES.iter().map(|property| property.name);
    let steps = interlock::properties::STEP_PROPERTIES.iter().map(|property| property.name);
    let ends = interlock::properties::LIVENESS.iter().map(|property| property.name);
    states.chain(steps).chain(ends)
}

#[test]
fn every_property_of_the_interlock_is_cited_by_a_test() {
    let tests = comments(&(sources("tests") + &sources("models")));
    let uncited: Vec<_> = promises_of_the_interlock().filter(|name| !cites(&tests, name)).collect();
    assert!(uncited.is_empty(), "no test cites {uncited:?}");
}

/// What the specification promises by name: the invariants, and the properties of steps and in the end.
fn promises() -> impl Iterator<Item = &'static str> {
    let invariants = INVARIANTS.iter().map(|invariant| invariant.name);
    let steps = STEP_PROPERTIES.iter().map(|property| property.name);
    invariants.chain(steps).chain(LIVENESS.iter().map(|property| property.name))
}

/// The same of the resource pool: its invariants.
fn invariants_of_resources() -> impl Iterator<Item = &'static str> {
    resource_pool::invariants::INVARIANTS.iter().map(|invariant| invariant.name)
}

/// Its properties, of steps and in the end: the machine has them.
fn properties_of_resources() -> impl Iterator<Item = &'static str> {
    let steps = resource_pool::properties::STEP_PROPERTIES.iter().map(|property| property.name);
    steps.chain(resource_pool::properties::LIVENESS.iter().map(|property| property.name))
}

#[test]
fn every_invariant_and_every_property_is_cited_by_code_and_by_a_test() {
    let code = comments(&sources("src"));
    let tests = comments(&(sources("tests") + &sources("models")));
    let uncited = |by: &str| promises().filter(|name| !cites(by, name)).collect::<Vec<_>>();
    assert_eq!(
        (uncited(&code), uncited(&tests)),
        (vec![], vec![]),
        "no code, and no test, cites these"
    );
}

/// The properties that the resource pool's machine promises.
#[test]
fn every_property_of_the_resource_pool_is_cited_by_code_and_by_a_test() {
    let code = comments(&sources("src"));
    let tests = comments(&(sources("tests") + &sources("models")));
    let not_promised = |name: &&str| {
        let all = resource_pool::properties::LIVENESS;
        all.iter().any(|property| property.name == *name && !property.promised)
    };
    let uncited = |by: &str| {
        let promised = properties_of_resources().filter(|name| !not_promised(name));
        promised.filter(|name| !cites(by, name)).collect::<Vec<_>>()
    };
    assert_eq!(
        (uncited(&code), uncited(&tests)),
        (vec![], vec![]),
        "no code, and no test, cites these"
    );
}

/// What is cited and not promised: misspelt, or struck out of the specification.
#[test]
fn nothing_is_cited_that_the_specification_does_not_promise() {
    let all = comments(&(sources("src") + &sources("tests") + &sources("models")));
    let words = all.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let names = words.filter(|word| word.starts_with("INV-") || word.starts_with("PROP-"));
    let promised: Vec<_> = promises()
        .chain(promises_of_the_interlock())
        .chain(invariants_of_resources())
        .chain(properties_of_resources())
        .collect();
    // The interlock also asserts invariants of its own bookkeeping, which the machine does not have.
    let asserted = text("src/execution/interlock/invariants.rs");
    let known = |name: &str| promised.contains(&name) || asserted.contains(&format!("\"{name}\""));
    let unknown: Vec<&str> = names.filter(|name| !known(name)).collect();
    assert!(unknown.is_empty(), "the specification has no {unknown:?}");
}

#[test]
fn every_invariant_is_asserted_by_the_code_and_broken_by_a_test() {
    let code = text("src/application_pool/invariants.rs");
    let breaks = text("src/application_pool/invariants_tests.rs");
    for invariant in INVARIANTS {
        let name = invariant.name;
        assert!(code.contains(&format!("    \"{name}\" ")), "the code does not assert {name}");
        assert!(cites(&breaks, name), "no test breaks {name}");
    }
}

/// The resource pool asserts the invariants of its machine, all of them and no others; each is broken.
#[test]
fn the_resource_pool_has_the_invariants_of_its_machine() {
    let code = text("src/resource_pool/invariants.rs");
    let asserted: BTreeSet<_> =
        code.split("holds!(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(asserted, invariants_of_resources().collect());
    let breaks = text("src/resource_pool/invariants_tests.rs");
    for name in asserted {
        assert!(cites(&breaks, name), "no test breaks {name}");
    }
}

/// Whether this file has the function: under its name, as an action of the machine's, under another name
/// of which the documentation begins with it, or as what the file's first line says that it is about.
fn has(file: &str, function: &str) -> bool {
    let text = text(file);
    let camel_case: String =
        function.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
    let forms = [
        format!("fn {function}("),
        format!("fn {function}<"),
        format!("    {camel_case} {{ "),
        format!("/// The text's `{function}`"),
    ];
    let first = text.lines().next().unwrap_or_default();
    let is_its_subject =
        first.starts_with("//! The text's") && first.contains(&format!("`{function}`"));
    is_its_subject || forms.iter().any(|form| text.contains(form))
}

/// The table with which the pool's module begins says where each is; there it must be, in the code and
/// in the specification.
#[test]
fn every_function_of_the_text_is_where_the_table_says() {
    let table = text("src/application_pool/mod.rs");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter_map(|line| line.strip_prefix("//! | "))
        .map(|row| row.trim_end_matches(" |").split(" | ").collect())
        .collect();
    let files = |cell: &str| -> Vec<String> {
        let names = cell.split('`').filter(|part| part.ends_with(".rs"));
        names.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned()).collect()
    };
    for function in FUNCTIONS {
        let row = rows.iter().find(|row| row[0].split(", ").any(|f| f == format!("`{function}`")));
        let row = row.unwrap_or_else(|| panic!("the table has no `{function}`"));
        let [code, spec] = [(row[1], "src/application_pool"), (row[2], "spec/src")]
            .map(|(cell, dir)| files(cell).iter().any(|f| has(&format!("{dir}/{f}"), function)));
        assert!(code, "`{function}` is not in {}", row[1]);
        assert!(spec, "`{function}` is not in the specification's {}", row[2]);
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
