//! The errors for text that is not TOML, in the terms of `cabrank.toml`.
//!
//! The parser says where it failed. The line, and the lines above it, say why.

use crate::configuration::section::{bad_value, in_line, line_number, no_definition};

/// Returns what is wrong in the line of `text` where the parser failed. The error begins with the line's number.
pub(crate) fn problem(text: &str, start: usize) -> String {
    let number = line_number(text, start);
    let mut above: Vec<&str> = text.lines().map(str::trim).take(number).collect();
    let line = above.pop().unwrap_or_default();
    let problem = match pair(line) {
        _ if line.starts_with('[') => of_header(line, &above),
        Some((key, value)) => of_pair(key, value, &above),
        None => "the line is no setting. Write each line as `key = value`.".to_owned(),
    };
    in_line(text, start, &problem)
}

fn of_header(header: &str, above: &[&str]) -> String {
    if above.contains(&header) {
        return format!("the section {header} is there twice. Remove one of the two.");
    }
    let names_type =
        above.iter().take_while(|line| !line.starts_with('[')).filter_map(|line| pair(line));
    if header.starts_with("[app_type.") && names_type.into_iter().any(|(key, _)| key == "app_type")
    {
        return format!(
            "the file has both the key app_type and the section {header}. Remove the key: the startup file in \
             the directory, or --app-type, chooses among the types."
        );
    }
    no_definition(header)
}

fn of_pair(key: &str, value: &str, above: &[&str]) -> String {
    let in_section: Vec<&str> =
        above.iter().rev().take_while(|line| !line.starts_with('[')).copied().collect();
    let header = above.iter().rev().find(|line| line.starts_with('['));
    let section = header.map(|header| header.trim_matches(['[', ']']));
    let is_twice = in_section.iter().any(|line| pair(line).is_some_and(|(k, _)| k == key));
    let quote = value.chars().next().filter(|first| ['"', '\''].contains(first));
    let rule = match quote {
        _ if value.is_empty() || value.starts_with('#') => "the value is missing".to_owned(),
        _ if is_twice => {
            let place = section.map(|name| format!(" in [{name}]")).unwrap_or_default();
            return format!("{key} is set twice{place}. Remove one of the two lines.");
        }
        Some(quote) if !value[1..].contains(quote) => "the closing quote is missing".to_owned(),
        Some(_) => format!("{value} is not text in one pair of quotes"),
        None => format!("{value} is neither a number, true, false, nor text in quotes"),
    };
    bad_value(key, section, &rule)
}

/// Returns the key and the value of a line that has both, however wrong the value is.
fn pair(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    let key = key.trim();
    (!key.is_empty() && !key.starts_with('#')).then_some((key, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::de::DeTable;

    #[track_caller]
    fn error(text: &str) -> String {
        let start = DeTable::parse(text).unwrap_err().span().unwrap().start;
        problem(text, start)
    }

    #[test]
    fn the_line_says_what_is_wrong() {
        for (text, expected) in [
            ("port =", "1: bad value for port: the value is missing. Correct"),
            ("port = # none\n", "1: bad value for port: the value is missing. Correct"),
            ("port = 1\nport = 2", "2: port is set twice. Remove one of the two lines."),
            ("user = \"a\n", "1: bad value for user: the closing quote is missing."),
            (
                "user = \"a\" b\n",
                "1: bad value for user: \"a\" b is not text in one pair of quotes.",
            ),
            ("user = www", "1: bad value for user: www is neither a number, true, false, nor text"),
            ("port = 3000x", "1: bad value for port: 3000x is neither a number"),
            ("port = 1\nwhat is this", "2: the line is no setting. Write each line as"),
            ("= 3", "1: the line is no setting."),
            ("[app_type.a]\n[app_type.a]\n", "2: the section [app_type.a] is there twice."),
            ("app_type = \"a\"\n[app_type.a]\n", "2: the file has both the key app_type and"),
            ("[app_type.\nx = 1", "1: [app_type. is no definition of a type."),
            ("[app_type.a]\ntitle =\n", "2: bad value for title in [app_type.a]: the value"),
            ("[app_type.a]\ntitle = 1\ntitle = 1\n", "3: title is set twice in [app_type.a]."),
        ] {
            let error = error(text);
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
