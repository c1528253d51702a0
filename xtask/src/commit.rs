//! Checks the subject of a commit: `component: imperative`, with a component of the list in CONTRIBUTING.md.

use crate::common::Outcome;
use regex::Regex;
use std::collections::BTreeSet;
use std::process::Command;

const LIST: &str = "CONTRIBUTING.md";
const HEAD: &str = "| part | components |";
const LONGEST: usize = 100;

/// Checks the last commit, or the one named.
pub(crate) fn run(args: &[String]) -> Outcome {
    let revision = args.first().map_or("HEAD", String::as_str);
    let output = Command::new("git")
        .args(["log", "-1", "--format=%p%n%s", revision])
        .output()
        .map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let (parents, subject) = text.trim_end().split_once('\n').unwrap_or_default();
    // Git names a merge.
    if parents.contains(' ') {
        return Ok(());
    }
    let list = std::fs::read_to_string(LIST).map_err(|error| format!("{LIST}: {error}"))?;
    check(subject, &components(&list)?).map_err(|problem| {
        format!("{revision}: {subject}: {problem} ({LIST}, \"Names of commits\")")
    })
}

/// Reads the components: the words in code of the table.
fn components(text: &str) -> Result<BTreeSet<String>, String> {
    let (_, table) = text.split_once(HEAD).ok_or_else(|| format!("{LIST} has no table {HEAD}"))?;
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let word = Regex::new("`([a-z_]+)`").expect("a valid pattern");
    Ok(rows.flat_map(|row| word.captures_iter(row)).map(|found| found[1].to_owned()).collect())
}

fn check(subject: &str, components: &BTreeSet<String>) -> Result<(), String> {
    let Some((component, what)) = subject.split_once(": ") else {
        return Err("it has no `component: `".to_owned());
    };
    if !components.contains(component) {
        return Err(format!("there is no component `{component}`"));
    }
    let first = what.split(' ').next().unwrap_or_default();
    let mut letters = first.chars();
    // A name has a sign or another capital: `README.md`, `WebSocket`. A verb has none.
    let begins_as_a_sentence =
        letters.next().is_some_and(char::is_uppercase) && letters.all(char::is_lowercase);
    if first.is_empty() || begins_as_a_sentence {
        return Err("after the colon follows a verb in lower case".to_owned());
    }
    if what.ends_with('.') {
        return Err("it ends with a full stop".to_owned());
    }
    match subject.chars().count() {
        0..=LONGEST => Ok(()),
        length => Err(format!("it has {length} characters; at most {LONGEST} are allowed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_names_a_component_and_what_the_commit_does() {
        let list = format!(
            "`not` this\n\n{HEAD}\n|---|---|\n| a | `server`, `xtask` |\n| b | `resource_pool` |\n\n`nor` this\n"
        );
        let components = components(&list).unwrap();
        assert_eq!(components.iter().collect::<Vec<_>>(), ["resource_pool", "server", "xtask"]);
        let long = |length: usize| format!("xtask: {}", "x".repeat(length - 7));
        let good = [
            "server: end a tunnel with its process",
            "resource_pool: README.md names each option",
            "xtask: WebSockets are cut",
            "server: `cabrank stop` waits: for all",
            &long(100),
        ];
        for subject in good {
            assert_eq!(check(subject, &components), Ok(()), "{subject}");
        }
        let bad = [
            ("end a tunnel", "no `component: `"),
            ("server:end a tunnel", "no `component: `"),
            ("Server: end a tunnel", "no component `Server`"),
            ("resource pool: end a loan", "no component `resource pool`"),
            ("server, xtask: end a tunnel", "no component `server, xtask`"),
            ("not: end a tunnel", "no component `not`"),
            ("server: End a tunnel", "lower case"),
            ("server:  end a tunnel", "lower case"),
            ("server: end a tunnel.", "full stop"),
            (&long(101), "101 characters"),
        ];
        for (subject, problem) in bad {
            let found = check(subject, &components).unwrap_err();
            assert!(found.contains(problem), "{subject}: {found}");
        }
        assert!(super::components("no table").is_err());
    }
}
