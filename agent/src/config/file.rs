//! `cabrank.toml`: the options of `start`, written with underscores. Errors name file, line, key and remedy.

use super::cli::Options;
use crate::failure::Failure;
use crate::regular_file;
use std::io;
use std::path::Path;

/// The file's name in the application's directory.
pub(crate) const NAME: &str = "cabrank.toml";

/// Reads the file in `dir`. Returns no options if it does not exist.
pub(crate) fn read(dir: &Path) -> Result<Options, Failure> {
    let path = dir.join(NAME);
    match regular_file::check(&path).and_then(|()| std::fs::read_to_string(&path)) {
        Ok(text) => parse(&text).map_err(|e| Failure::usage(format!("{}:{e}", path.display()))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Options::default()),
        Err(e) => Err(Failure::usage(format!(
            "cannot read {}: {e}. Make it a readable text file, or remove it.",
            path.display()
        ))),
    }
}

/// Parses the text. The error begins with the line number, so that it can follow the file's name.
fn parse(text: &str) -> Result<Options, String> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |s| s.start).min(text.len());
        let line_number = text[..start].matches('\n').count() + 1;
        let line = text.lines().nth(line_number - 1).unwrap_or_default();
        format!("{line_number}: {}", in_words(error.message(), line))
    })
}

/// Rewrites an error of the parser or of serde in the terms of the file, and adds the remedy.
fn in_words(message: &str, line: &str) -> String {
    let (problem, expected) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    let pair = line.split_once('=').map(|(k, v)| (k.trim(), v.trim()));
    let Some((key, value)) = pair.filter(|(key, _)| !key.is_empty()) else {
        return match line.trim() {
            section if section.starts_with('[') => {
                format!(
                    "the file has no sections. Remove the line {section}; all keys are at the top level."
                )
            }
            _ => format!("{problem}. Write each line as `key = value`."),
        };
    };
    let why = match (problem, expected) {
        ("duplicate key", _) => {
            return format!("{key} is set twice. Remove one of the two lines.");
        }
        (_, keys) if problem.starts_with("unknown field") => return unknown_key(key, keys),
        _ if value.is_empty() => "the value is missing".to_owned(),
        ("wanted string or table", _) | (_, "a string" | "path string") => {
            "must be text in quotes".to_owned()
        }
        (_, "a boolean") => "must be true or false".to_owned(),
        (_, "`\"`" | "`'`") => "the closing quote is missing".to_owned(),
        (_, rule)
            if ["invalid type", "invalid value", "unknown variant"]
                .iter()
                .any(|start| problem.starts_with(start)) =>
        {
            format!("must be {rule}")
        }
        _ => problem.to_owned(),
    };
    format!(
        "bad value for {key}: {why}. Correct the value, or remove the line to get the default \
         (`cabrank start --help` explains each option)."
    )
}

fn unknown_key(key: &str, known: &str) -> String {
    let known: Vec<_> =
        known.trim_start_matches("one of ").split(", ").map(|k| k.trim_matches('`')).collect();
    let nearest = known.iter().min_by_key(|k| distance(k, key));
    match nearest {
        Some(k) if distance(k, key) <= key.len() / 3 => {
            format!(
                "unknown key {key}. Did you mean {k}? (`cabrank start --help` lists all options.)"
            )
        }
        _ => format!("unknown key {key}. Remove it, or use one of the keys: {}.", known.join(", ")),
    }
}

/// Returns the Levenshtein distance of two keys.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn keys_are_the_options_with_underscores() {
        let o = parse("max_pool_size = 3\npool_idle_time = 0.5\nlog_format = \"json\"\n").unwrap();
        assert_eq!(o.max_pool_size.unwrap().0, 3);
        assert_eq!(o.pool_idle_time.unwrap().0, Duration::from_millis(500));
        assert!(o.port.is_none());
    }

    #[test]
    fn the_error_for_an_unknown_key_names_its_line_and_a_suggestion() {
        let e = parse("# ours\nmax_pool_sice = 3\n").unwrap_err();
        assert!(e.starts_with("2: unknown key max_pool_sice. Did you mean max_pool_size?"), "{e}");
        let e = parse("completely_different = 3\n").unwrap_err();
        assert!(e.contains("one of the keys:") && e.contains("max_pool_size"), "{e}");
        assert!(!parse("dir = 3\n").unwrap_err().contains("Did you mean"));
    }

    #[test]
    fn the_error_for_a_bad_value_names_its_line_and_key() {
        for (text, start) in [
            ("\nmax_pool_size = 0", "2: bad value for max_pool_size: "),
            ("max_pool_size = \"six\"", "1: bad value for max_pool_size: "),
            ("port = 70000", "1: bad value for port: "),
            ("start_timeout = -1", "1: bad value for start_timeout: "),
            ("log_level = \"loud\"", "1: bad value for log_level: "),
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.starts_with(start), "{e}");
        }
        assert!(parse("port = 1\nwhat is this").unwrap_err().starts_with("2: "));
    }
}
