//! `cabrank.toml`: the options of `start`, written with underscores, and definitions of types. Errors name file, line,
//! key and remedy.

use crate::configuration::cli::{self, Options};
use crate::configuration::custom_types::{AppTypeOption, Invalid};
use crate::configuration::regular_file;
use crate::failure::Failure;
use cabrank_spawner::app_type::CustomType;
use std::io;
use std::path::Path;

/// The file's name in the application's directory.
pub(crate) const NAME: &str = "cabrank.toml";

/// Reads the file in `dir`. Returns no options if it does not exist.
pub(crate) fn read(dir: &Path) -> Result<(Options, Vec<CustomType>), Failure> {
    let path = dir.join(NAME);
    match regular_file::check(&path).and_then(|()| std::fs::read_to_string(&path)) {
        Ok(text) => {
            parse(&text, dir).map_err(|e| Failure::usage(format!("{}:{e}", path.display())))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Default::default()),
        Err(e) => Err(Failure::usage(format!(
            "cannot read {}: {e}. Make it a readable text file, or remove it.",
            path.display()
        ))),
    }
}

/// Parses the text. The error begins with the line number, so that it can follow the file's name.
fn parse(text: &str, dir: &Path) -> Result<(Options, Vec<CustomType>), String> {
    let mut options: Options = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |s| s.start).min(text.len());
        let line_number = line_number(text, start);
        let line = text.lines().nth(line_number - 1).unwrap_or_default();
        let before = text.lines().take(line_number);
        let section = before.map(str::trim).filter(|line| line.starts_with('[')).last();
        let problem = match section {
            Some(section) => in_section(error.message(), line, section),
            None => in_words(error.message(), line),
        };
        format!("{line_number}: {problem}")
    })?;
    let definitions = match options.app_type.take() {
        Some(AppTypeOption::Definitions(definitions)) => definitions,
        name => {
            options.app_type = name;
            Vec::new()
        }
    };
    let checked = definitions.iter().map(|definition| {
        definition.custom_type(dir).map_err(|Invalid { span, text: problem }| {
            let header = || text.find(&definition.header()).unwrap_or(0);
            let start = span.map_or_else(header, |span| span.start);
            format!("{}: {problem}", line_number(text, start))
        })
    });
    Ok((options, checked.collect::<Result<_, _>>()?))
}

/// Returns the number of the line with this byte.
fn line_number(text: &str, byte: usize) -> usize {
    text[..byte].matches('\n').count() + 1
}

/// Rewrites an error in or below the header of a section.
fn in_section(message: &str, line: &str, section: &str) -> String {
    let is_definition = section.trim_start_matches('[').trim_start().starts_with("app_type");
    if !is_definition {
        return format!(
            "unknown section {section}. The only sections are [app_type.NAME], which define types of applications; \
             all other keys are at the top level."
        );
    }
    let (problem, expected) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    let pair = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
    match pair.filter(|_| !line.trim_start().starts_with('[')) {
        Some((key, _)) if problem.starts_with("duplicate key") => {
            format!("{key} is set twice in {section}. Remove one of the two lines.")
        }
        Some((key, _)) if problem.starts_with("unknown field") && cli::is_option(key) => format!(
            "the key {key} is below {section}, which has no such key. Move it above the first section."
        ),
        Some((key, _)) if problem.starts_with("unknown field") => format!(
            "unknown key {key} in {section}. Remove it, or use one of the keys: {}.",
            known_keys(expected).join(", ")
        ),
        Some((key, "")) => format!("bad value for {key} in {section}: the value is missing."),
        Some((key, _)) if expected == crate::configuration::custom_types::SECTION => format!(
            "{key} is below {section}. Each type has a section of its own, such as [app_type.perl]."
        ),
        Some((key, _)) if !expected.is_empty() => {
            format!("bad value for {key} in {section}: must be {expected}.")
        }
        Some((key, _)) => format!("bad value for {key} in {section}: {problem}."),
        None if problem.starts_with("duplicate key") => {
            format!("the section {section} is there twice. Remove one of the two.")
        }
        None if problem.starts_with("cannot extend value") => format!(
            "the file has both the key app_type and the section {section}. Remove the key: the startup file in \
             the directory, or --app-type, chooses among the types."
        ),
        None => format!(
            "{section} is no definition of a type. Write a section [app_type.NAME] with lines `key = value`."
        ),
    }
}

/// Rewrites an error of the parser or of serde in the terms of the file, and adds the remedy.
fn in_words(message: &str, line: &str) -> String {
    let (problem, expected) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    let pair = line.split_once('=').map(|(k, v)| (k.trim(), v.trim()));
    let Some((key, value)) = pair.filter(|(key, _)| !key.is_empty()) else {
        return format!("{problem}. Write each line as `key = value`.");
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
    let known = known_keys(known);
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

/// Returns the keys of a list such as "one of `a`, `b`".
fn known_keys(list: &str) -> Vec<&str> {
    list.trim_start_matches("one of ").split(", ").map(|key| key.trim_matches('`')).collect()
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

    fn parsed(text: &str) -> Result<Options, String> {
        parse(text, Path::new("/")).map(|(options, _)| options)
    }

    #[test]
    fn keys_are_the_options_with_underscores() {
        let o = parsed("max_pool_size = 3\npool_idle_time = 0.5\nlog_format = \"json\"\n").unwrap();
        assert_eq!(o.max_pool_size.unwrap().0, 3);
        assert_eq!(o.pool_idle_time.unwrap().0, Duration::from_millis(500));
        assert!(o.port.is_none());
    }

    #[test]
    fn the_error_for_an_unknown_key_names_its_line_and_a_suggestion() {
        let e = parsed("# ours\nmax_pool_sice = 3\n").unwrap_err();
        assert!(e.starts_with("2: unknown key max_pool_sice. Did you mean max_pool_size?"), "{e}");
        let e = parsed("completely_different = 3\n").unwrap_err();
        assert!(e.contains("one of the keys:") && e.contains("max_pool_size"), "{e}");
        assert!(!parsed("dir = 3\n").unwrap_err().contains("Did you mean"));
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
            let e = parsed(text).unwrap_err();
            assert!(e.starts_with(start), "{e}");
        }
        assert!(parsed("port = 1\nwhat is this").unwrap_err().starts_with("2: "));
    }
}
