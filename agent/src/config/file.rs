//! `cabrank.toml`: the options of `start` with underscores. An error names file, line, key and remedy.

use super::cli::Options;
use crate::failure::Failure;
use crate::regular_file;
use std::io;
use std::path::Path;

/// The file's name in the application's directory.
pub(crate) const NAME: &str = "cabrank.toml";

/// Reads the file in `dir`; without one, nothing is set.
pub(crate) fn read(dir: &Path) -> Result<Options, Failure> {
    let path = dir.join(NAME);
    match regular_file::check(&path).and_then(|()| std::fs::read_to_string(&path)) {
        Ok(text) => parse(&text).map_err(|e| Failure::usage(format!("{}:{e}", path.display()))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Options::default()),
        Err(e) => Err(Failure::usage(format!(
            "{} cannot be read: {e}. Make it readable text, or move it away.",
            path.display()
        ))),
    }
}

/// The error begins with the line, to be put behind the file's name.
fn parse(text: &str) -> Result<Options, String> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |s| s.start).min(text.len());
        let line_number = text[..start].matches('\n').count() + 1;
        let line = text.lines().nth(line_number - 1).unwrap_or_default();
        format!("{line_number}: {}", in_words(error.message(), line))
    })
}

/// What is wrong and what to do, in the file's words instead of those of the parser and of serde.
fn in_words(message: &str, line: &str) -> String {
    let (problem, expected) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    let pair = line.split_once('=').map(|(k, v)| (k.trim(), v.trim()));
    let Some((key, value)) = pair.filter(|(key, _)| !key.is_empty()) else {
        return match line.trim() {
            section if section.starts_with('[') => {
                format!("there are no sections here. Remove {section}; all keys are of one level.")
            }
            _ => format!("{problem}. Each line is `key = value`."),
        };
    };
    let why = match (problem, expected) {
        ("duplicate key", _) => {
            return format!("{key} is there twice. Remove one of the two lines.");
        }
        (_, keys) if problem.starts_with("unknown field") => return unknown_key(key, keys),
        _ if value.is_empty() => "there is no value".to_owned(),
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
         (`cabrank start --help` lists what each option takes)."
    )
}

fn unknown_key(key: &str, known: &str) -> String {
    let known: Vec<_> =
        known.trim_start_matches("one of ").split(", ").map(|k| k.trim_matches('`')).collect();
    let nearest = known.iter().min_by_key(|k| distance(k, key));
    match nearest {
        Some(k) if distance(k, key) <= key.len() / 3 => {
            format!("unknown key {key}. Did you mean {k}? (`cabrank start --help` lists them all.)")
        }
        _ => format!("unknown key {key}. Remove it; the keys are: {}.", known.join(", ")),
    }
}

/// How many letters differ (Levenshtein): for suggestions only.
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
    fn an_unknown_key_is_named_with_its_line_and_a_suggestion() {
        let e = parse("# ours\nmax_pool_sice = 3\n").unwrap_err();
        assert!(e.starts_with("2: unknown key max_pool_sice. Did you mean max_pool_size?"), "{e}");
        let e = parse("completely_different = 3\n").unwrap_err();
        assert!(e.contains("the keys are:") && e.contains("max_pool_size"), "{e}");
        assert!(!parse("dir = 3\n").unwrap_err().contains("Did you mean"));
    }

    #[test]
    fn a_bad_value_is_named_with_its_line_and_key() {
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
