//! The file of variables for an application's processes: lines `NAME=value`, and each value is taken as it stands.
//!
//! The application's user reads it: a file that only root may read would otherwise reach the application by a link. The process reads
//! it itself before it executes its program. So a restart takes new values, and no value stands in a list of arguments, which
//! every user of the system may see.
//!
//! No value refers to another variable: passwords and URLs contain `$`, and a substitution would change them silently.

use crate::app_type::read_text;
use crate::file_rights::with_rights_of;
use crate::user::User;
use std::io;
use std::path::Path;

/// Returns the variables in the file, in its order, as this user reads it; `None`: with the rights of this process.
///
/// # Errors
/// The file cannot be read, or a line has no variable. The error names the line and the variable, and never the value.
pub fn variables_of_file(path: &Path, user: Option<&User>) -> io::Result<Vec<(String, String)>> {
    let text = with_rights_of(user, || read_text(path))?;
    variables_of(&text).map_err(|rule| io::Error::new(io::ErrorKind::InvalidData, rule))
}

/// Returns the variables in a text, in its order.
fn variables_of(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    let mut lines = text.trim_start_matches('\u{feff}').lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = split(line).ok_or(format!("line {number} is no NAME=value"))?;
        let more = lines.by_ref().map(|(line, _)| line);
        let value = match value.chars().next() {
            Some(quote @ ('\'' | '"')) => quoted(quote, &value[1..], more),
            _ => Ok(value.to_owned()),
        };
        let value = value.and_then(|value| match value.contains('\0') {
            true => Err("the value has a NUL character"),
            false => Ok(value),
        });
        variables.push((name.into(), value.map_err(|e| format!("line {number} ({name}): {e}"))?));
    }
    Ok(variables)
}

/// Returns the name and the value of a line, without the spaces around them.
fn split(line: &str) -> Option<(&str, &str)> {
    let line = match line.strip_prefix("export") {
        Some(rest) if rest.starts_with([' ', '\t']) => rest,
        _ => line,
    };
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    is_name.then_some((name, value.trim()))
}

/// Returns a value that has this quote before it. It may continue on the next lines.
fn quoted<'a>(
    quote: char,
    first: &'a str,
    more: impl Iterator<Item = &'a str>,
) -> Result<String, &'static str> {
    let mut value = String::new();
    for line in std::iter::once(first).chain(more) {
        let mut joined = false;
        let mut characters = line.chars();
        while let Some(character) = characters.next() {
            match character {
                c if c == quote => return ends(characters.as_str()).map(|()| value),
                '\\' if quote == '"' => match characters.next() {
                    Some('n') => value.push('\n'),
                    Some(c @ ('"' | '\\' | '$' | '`')) => value.push(c),
                    Some(other) => value.extend(['\\', other]),
                    None => joined = true,
                },
                c => value.push(c),
            }
        }
        if !joined {
            value.push('\n');
        }
    }
    Err("the quote before the value has no end")
}

/// Refuses a text behind the closing quote, except a comment.
fn ends(rest: &str) -> Result<(), &'static str> {
    match rest.trim_start() {
        "" => Ok(()),
        comment if comment.starts_with('#') && comment.len() < rest.len() => Ok(()),
        _ => Err("a text follows the closing quote"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_as_it_stands() {
        for (line, value) in [
            ("A=1", "1"),
            ("A=", ""),
            ("  A = 1  ", "1"),
            ("export A=1", "1"),
            ("\u{feff}A=1\r\n", "1"),
            ("# ours\n\n  # B=2\nA=1", "1"),
            ("A=postgres://u:p$w@h/db?a=b", "postgres://u:p$w@h/db?a=b"),
            ("A=p$ssw0rd!x", "p$ssw0rd!x"),
            ("A=${HOME}/$HOME", "${HOME}/$HOME"),
            ("A={\"a\":1}", "{\"a\":1}"),
            ("A=two  words  ", "two  words"),
            ("A=a#b # c", "a#b # c"),
            ("A=a\\nb\\", "a\\nb\\"),
            ("A=don't", "don't"),
            ("A='$x \\n \"'", "$x \\n \""),
            ("A=' x '", " x "),
            ("A=\"a\\nb\"", "a\nb"),
            ("A=\"\\\"\\\\\\$\\` \\x $HOME {'a'}\"", "\"\\$` \\x $HOME {'a'}"),
            ("A=\"x\" # not this", "x"),
            ("A=\"one\ntwo\\\nthree\"", "one\ntwothree"),
            ("A='one\r\ntwo'", "one\ntwo"),
        ] {
            assert_eq!(variables_of(line), Ok(vec![("A".into(), value.into())]), "{line}");
        }
        let several = variables_of("A='1\n2'\nexport_x.y=2\nA=3").unwrap();
        let pairs: Vec<_> = several.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(pairs, [("A", "1\n2"), ("export_x.y", "2"), ("A", "3")]);
    }

    #[test]
    fn an_error_names_the_line_and_the_variable_and_no_value() {
        for (text, error) in [
            ("A=1\nT='secret\nB=2", "line 2 (T): the quote before the value has no end"),
            ("A='1\n2'\nT=\"secret\"x", "line 3 (T): a text follows the closing quote"),
            ("T='secret'#x", "line 1 (T): a text follows the closing quote"),
            ("T=secret\0", "line 1 (T): the value has a NUL character"),
            ("A=1\nA=1\nsecret", "line 3 is no NAME=value"),
            ("two secrets=1", "line 1 is no NAME=value"),
            ("=secret", "line 1 is no NAME=value"),
            ("1A=secret", "line 1 is no NAME=value"),
        ] {
            assert_eq!(variables_of(text), Err(error.into()), "{text}");
        }
    }

    #[test]
    fn a_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".env");
        let error = variables_of_file(&path, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, "A=1\nB='x").unwrap();
        let error = variables_of_file(&path, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        std::fs::write(&path, "A=p$w").unwrap();
        assert_eq!(variables_of_file(&path, None).unwrap(), [("A".into(), "p$w".into())]);
    }
}
