//! That the READMEs give the figures of the checks as they are: how many models, executions, schedules and
//! faults. Who adds a model or a fault is told here what the sentence is to say.
//!
//! loom's executions are those of `models/executions.rs`, to which each model's run is held; how many
//! schedules shuttle is given, `.ci/run` says.

use std::path::Path;

fn text(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// `1234567` as the READMEs write it.
fn readable(n: usize) -> String {
    let digits = n.to_string();
    let places = digits.chars().enumerate().map(|(at, digit)| {
        let comma = at > 0 && (digits.len() - at).is_multiple_of(3);
        format!("{}{digit}", if comma { "," } else { "" })
    });
    places.collect()
}

/// The executions of each model under loom.
fn executions() -> Vec<usize> {
    let pinned = text("models/executions.rs");
    let rows = pinned.lines().filter_map(|line| line.strip_prefix("    (\"")?.strip_suffix("),"));
    let numbers = rows.map(|row| {
        let (_, number) = row.split_once("\", ").expect("a name, and a number");
        number.replace('_', "").parse().expect("a number")
    });
    numbers.collect()
}

/// The files of models that loom has not.
fn for_shuttle_alone() -> Vec<String> {
    let list = text("models/mod.rs");
    let (_, lines) = list.split_once("mod always_").expect("the models");
    let marked = lines.split("#[cfg(not(feature = \"loom\"))]\nmod ").skip(1);
    marked.map(|rest| format!("{}.rs", rest.split(';').next().expect("a name"))).collect()
}

/// How often they are explored in this way.
fn explored_by(function: &str) -> usize {
    let call = format!(" {function}(\"");
    let sources = for_shuttle_alone().into_iter().map(|file| text(&format!("models/{file}")));
    sources.map(|source| source.matches(&call).count()).sum()
}

/// How many schedules CI gives to each model.
fn schedules() -> usize {
    let run = text(".ci/run");
    let (_, rest) = run.split_once("${CABRANK_SCHEDULES:-").expect("CI says how many");
    rest.split('}').next().and_then(|number| number.parse().ok()).expect("a number")
}

fn assert_says(file: &str, sentence: &str) {
    assert!(text(file).contains(sentence), "{file} is to say: {sentence}");
}

#[test]
fn the_readmes_have_the_models_and_executions() {
    let executions = executions();
    let sum = readable(executions.iter().sum());
    let sentence = format!("{} models, {sum} executions", executions.len());
    assert_says("README.md", &sentence);
    assert_says("spec/README.md", &sentence);
}

#[test]
fn the_readmes_have_the_random_schedules() {
    let each = schedules();
    // Whatever loom goes through, shuttle is given, too; and what is too large for loom, most of that a tenth as
    // often.
    let full = executions().len() + explored_by("explore");
    let random = full * each + explored_by("explore_large") * (each / 10);
    let sentence = format!("{} random schedules", readable(random));
    assert_says("README.md", &sentence);
    assert_says("spec/README.md", &sentence);
    let small = text("models/small.rs").lines().filter(|line| line.starts_with("    \"")).count();
    assert_says("README.md", &format!("{small} small ones under every schedule"));
}

#[test]
fn the_readmes_have_the_faults() {
    let faults = text("models/faults.toml").lines().filter(|line| *line == "[[fault]]").count();
    let sentence = format!("{faults} faults, all caught");
    assert_says("README.md", &sentence);
    assert_says("spec/README.md", &sentence);
}

#[test]
fn the_models_readme_names_what_is_for_shuttle_alone() {
    let files = for_shuttle_alone();
    assert!(files.iter().any(|file| file == "crowd.rs"), "{files:?}");
    for file in files {
        assert_says("models/README.md", &format!("`{file}`"));
    }
}
