//! The table of the cycles that remain, in ARCHITECTURE.md: a row for each, with its package, modules and reason.

use crate::common::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const FILE: &str = "ARCHITECTURE.md";
const HEAD: &str = "| package | cycle | why |\n|---|---|---|\n";

/// The first two cells of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    package: String,
    /// `room::{self, a, b}`: the modules, as a `use` would list them.
    cycle: String,
}

impl Key {
    pub(crate) fn new(package: &str, modules: &[String]) -> Key {
        let first: Vec<&str> = modules[0].split("::").collect();
        let inside = |module: &str, path: &str| match module.strip_prefix(path) {
            Some("") => Some("self".to_owned()),
            Some(rest) => rest.strip_prefix("::").map(str::to_owned),
            None => None,
        };
        let below = |path: &String| {
            let names = modules.iter().map(|module| inside(module, path));
            names.collect::<Option<Vec<String>>>()
        };
        let mut paths = (1..=first.len()).rev().map(|depth| first[..depth].join("::"));
        let cycle = paths
            .find_map(|path| below(&path).map(|names| format!("{path}::{{{}}}", names.join(", "))));
        let cycle = cycle.unwrap_or_else(|| modules.join(", "));
        Key { package: package.to_owned(), cycle }
    }
}

/// Compares the table with the cycles, both ways, and looks for rows without a reason.
pub(crate) fn check(cycles: &[Key]) -> Outcome {
    let problems = problems(&read_file()?, cycles)?;
    if problems.is_empty() {
        return Ok(());
    }
    let list = problems.join("\n");
    Err(format!(
        "{list}\nCut the cycle, or write its row by `cargo xtask graph --write`, and its reason."
    ))
}

/// Writes the rows of these cycles into the table. A row that stands there keeps its reason.
pub(crate) fn write(cycles: &[Key]) -> Outcome {
    let text = rewritten(&read_file()?, cycles)?;
    fs::write(FILE, text).map_err(|error| format!("{FILE}: {error}"))
}

fn read_file() -> Result<String, String> {
    fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))
}

fn problems(text: &str, cycles: &[Key]) -> Result<Vec<String>, String> {
    let (_, rows, _) = split(text)?;
    let reasons = reasons(rows)?;
    let cycles: BTreeSet<&Key> = cycles.iter().collect();
    let mut problems = Vec::new();
    for Key { package, cycle } in cycles.iter().filter(|key| !reasons.contains_key(key)) {
        problems.push(format!("{FILE} lacks a cycle of {package}: {cycle}"));
    }
    for (key, reason) in &reasons {
        let Key { package, cycle } = key;
        if !cycles.contains(key) {
            problems.push(format!("{FILE} has a cycle of {package} that is gone: {cycle}"));
        } else if reason.is_empty() {
            problems.push(format!("{FILE} gives no reason for a cycle of {package}: {cycle}"));
        }
    }
    Ok(problems)
}

fn rewritten(text: &str, cycles: &[Key]) -> Result<String, String> {
    let (before, rows, after) = split(text)?;
    let reasons = reasons(rows)?;
    let mut table = String::new();
    for key in cycles.iter().collect::<BTreeSet<_>>() {
        let reason = reasons.get(key).map_or("", String::as_str);
        table += &format!("| {} | `{}` | {reason} |\n", key.package, key.cycle);
    }
    Ok(format!("{before}{HEAD}{table}{after}"))
}

/// Splits the page into what stands before the table, its rows, and what stands after it.
fn split(text: &str) -> Result<(&str, &str, &str), String> {
    let (before, rest) =
        text.split_once(HEAD).ok_or_else(|| format!("{FILE} has no table that begins:\n{HEAD}"))?;
    let end = rest.split_inclusive('\n').take_while(|line| line.starts_with('|'));
    let (rows, after) = rest.split_at(end.map(str::len).sum());
    Ok((before, rows, after))
}

fn reasons(rows: &str) -> Result<BTreeMap<Key, String>, String> {
    let read = |row: &str| {
        let cells: Vec<&str> = row.trim().trim_matches('|').splitn(3, '|').map(str::trim).collect();
        let [package, cycle, reason] = cells[..] else {
            return Err(format!("{FILE}: a row of the cycles has no three cells: {row}"));
        };
        let cycle = cycle.trim_matches('`').to_owned();
        Ok((Key { package: package.to_owned(), cycle }, reason.to_owned()))
    };
    rows.lines().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(package: &str, modules: &[&str]) -> Key {
        Key::new(package, &modules.iter().map(|module| (*module).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_cycle_is_named_by_its_modules_behind_the_path_that_they_share() {
        let name = |modules: &[&str]| key("p", modules).cycle;
        assert_eq!(name(&["a", "b"]), "a, b");
        assert_eq!(name(&["a::b", "a::c"]), "a::{b, c}");
        assert_eq!(name(&["a", "a::b"]), "a::{self, b}");
        assert_eq!(name(&["a", "ab"]), "a, ab");
        assert_eq!(name(&["a::b::c", "a::b::d", "a::e"]), "a::{b::c, b::d, e}");
        assert_eq!(name(&["a::be", "a::bee"]), "a::{be, bee}");
    }

    fn page(rows: &str) -> String {
        format!("# Page\n\n{HEAD}{rows}\n## Next\n| not | a | row |\n")
    }

    #[test]
    fn the_table_is_compared_both_ways_and_needs_reasons() {
        let cycles = [key("p", &["a", "b"]), key("q", &["a", "b"]), key("q", &["c", "d"])];
        let text =
            page("| p | `a, b` | one owns the other |\n| q | `c, d` |  |\n| q | `e, f` | x |\n");
        assert_eq!(
            problems(&text, &cycles).unwrap(),
            [
                "ARCHITECTURE.md lacks a cycle of q: a, b",
                "ARCHITECTURE.md gives no reason for a cycle of q: c, d",
                "ARCHITECTURE.md has a cycle of q that is gone: e, f",
            ]
        );
        assert!(problems("no table", &cycles).is_err());
        assert!(problems(&page("| p | a |\n"), &cycles).is_err());
    }

    #[test]
    fn written_rows_keep_their_reasons() {
        let cycles = [key("q", &["x::a", "x::b"]), key("p", &["a", "b"])];
        let text = page("| p | `a, b` | one `a|b` owns the other |\n| q | `e, f` | x |\n");
        let written = rewritten(&text, &cycles).unwrap();
        let rows = "| p | `a, b` | one `a|b` owns the other |\n| q | `x::{a, b}` |  |\n";
        assert_eq!(written, page(rows));
        assert_eq!(rewritten(&written, &cycles).unwrap(), written);
    }
}
