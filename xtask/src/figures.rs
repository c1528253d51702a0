//! Prints the counts that pages would otherwise keep by hand.

use crate::common::{Outcome, say, tracked_files};
use regex::Regex;
use std::collections::BTreeMap;
use std::fs;

/// Prints the counts. Those of searches are pinned in the sources, and held by the tests that search.
pub(crate) fn run() -> Outcome {
    let executions = Regex::new(r#"Model\("\w+", ([\d_]+)\)"#).expect("a valid pattern");
    let mut pinned: Vec<u64> = Vec::new();
    for file in tracked_files(".rs")? {
        if file.starts_with("models/") {
            let model = read(&file)?;
            pinned.extend(executions.captures_iter(&model).map(|found| number(&found[1])));
        }
    }
    say(&format!(
        "loom: {} models, {} executions, each pinned beside its model's name",
        pinned.len(),
        pinned.iter().sum::<u64>()
    ));

    let test = Regex::new(r"#\[(tokio::)?test\b").expect("a valid pattern");
    let mut tests: BTreeMap<&str, usize> = BTreeMap::new();
    for file in tracked_files(".rs")? {
        let folder = [
            "src", "models", "tests", "spec", "spawner", "server", "tower", "benches", "checks",
            "xtask",
        ]
        .into_iter()
        .find(|folder| file.starts_with(&format!("{folder}/")));
        *tests.entry(folder.unwrap_or("examples")).or_default() +=
            test.find_iter(&read(&file)?).count();
    }
    say(&format!("shuttle: {} models", tests.get("models").unwrap_or(&0)));
    let mut faults = 0;
    for file in tracked_files("faults.txt")? {
        let text = read(&file)?;
        // The other lines are the files that faults change, changes and comments.
        let is_fault =
            |line: &&str| !line.is_empty() && !line.starts_with(['#', ' ']) && line.contains(": ");
        faults += text.lines().filter(is_fault).count();
    }
    say(&format!("faults: {faults}"));
    for (folder, count) in
        tests.iter().filter(|(folder, count)| **count > 0 && **folder != "models")
    {
        say(&format!("tests in {folder}/: {count}"));
    }

    let (with, all) = examples()?;
    say(&format!("public functions in src/ with an example: {with} of {all}"));

    let row = Regex::new(r#""[\w-]+" \[([\d_]+), ([\d_]+), \d+\]"#).expect("a valid pattern");
    let pins = [
        ("application pool", "spec/src/application_pool/configurations.rs"),
        ("resource pool", "spec/src/resource_pool/configurations.rs"),
        ("interlock", "spec/src/interlock/scenarios.rs"),
        ("kept session", "spec/src/kept/configurations.rs"),
    ];
    for (system, file) in pins {
        let source = read(file)?;
        let (mut configurations, mut states, mut steps) = (0, 0, 0);
        for found in row.captures_iter(&source) {
            configurations += 1;
            states += number(&found[1]);
            steps += number(&found[2]);
        }
        say(&format!(
            "spec, {system}: {configurations} configurations, {states} states, {steps} steps"
        ));
    }
    Ok(())
}

/// Counts the public functions of the library: those with an example, and all.
fn examples() -> Result<(usize, usize), String> {
    let (mut with, mut all) = (0, 0);
    for file in tracked_files(".rs")? {
        if !file.starts_with("src/") {
            continue;
        }
        let mut has_example = false;
        for line in read(&file)?.lines().map(str::trim) {
            if line.starts_with("/// ```") || line.contains("include_str!(\"example.txt\")") {
                has_example = true;
            } else if ["pub fn ", "pub async fn ", "pub const fn "]
                .iter()
                .any(|is| line.starts_with(is))
            {
                all += 1;
                with += usize::from(has_example);
                has_example = false;
            } else if !line.starts_with(['/', '#']) {
                has_example = false;
            }
        }
    }
    Ok((with, all))
}

fn read(file: &str) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))
}

/// Reads a number as Rust writes it: digits and underscores.
fn number(text: &str) -> u64 {
    text.replace('_', "").parse().unwrap_or(0)
}
