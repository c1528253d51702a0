//! A section of `cabrank.toml`, or the keys before the first one, with the places of its values.

use crate::configuration::peers;
use crate::configuration::values::OptionValue;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A section of the file, whose values are taken one by one. Errors begin with the number of a line.
#[derive(Debug)]
pub(crate) struct Section<'t> {
    text: &'t str,
    /// As in `[app_type.perl]`; `None`: the keys before the first section.
    name: Option<String>,
    entries: DeTable<'t>,
}

impl<'t> Section<'t> {
    pub(crate) fn new(text: &'t str, name: Option<String>, entries: DeTable<'t>) -> Self {
        Section { text, name, entries }
    }

    /// Returns the text of the whole file.
    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    /// Returns the error for a place in the file.
    pub(crate) fn error(&self, place: &Range<usize>, problem: &str) -> String {
        in_line(self.text, place.start, problem)
    }

    /// Takes the value of a key.
    ///
    /// # Errors
    /// The value is bad.
    pub(crate) fn take<T: OptionValue>(&mut self, key: &str) -> Result<Option<T>, String> {
        let Some(value) = self.entries.remove(key) else { return Ok(None) };
        T::of_toml(value.get_ref()).map(Some).map_err(|problem| {
            let problem = bad_value(key, self.name.as_deref(), &problem);
            self.error(&value.span(), &problem)
        })
    }

    /// Takes the section with this name below this one. A key of this name stays.
    ///
    /// # Errors
    /// It is an array of sections.
    pub(crate) fn take_section(&mut self, name: &str) -> Result<Option<Section<'t>>, String> {
        let Some((key, value)) = self.entries.get_key_value(name) else { return Ok(None) };
        let place = key.span();
        match value.get_ref() {
            DeValue::Table(_) => {}
            DeValue::Array(_) if is_header(self.text, place.start) => {
                return Err(self.error(&place, &no_definition(header(self.text, place.start))));
            }
            _ => return Ok(None),
        }
        let full = match &self.name {
            Some(outer) => format!("{outer}.{name}"),
            None => name.to_owned(),
        };
        let Some(DeValue::Table(entries)) =
            self.entries.remove(name).map(|value| value.into_inner())
        else {
            return Ok(None);
        };
        Ok(Some(Section::new(self.text, Some(full), entries)))
    }

    /// Returns the names of the keys and sections in it, and their places, in the file's order.
    pub(crate) fn names(&self) -> Vec<(String, Range<usize>)> {
        let names = self.entries.keys().map(|key| (key.get_ref().to_string(), key.span()));
        let mut names: Vec<_> = names.collect();
        names.sort_by_key(|(_, place)| place.start);
        names
    }

    /// Returns the first key that is not in `known`, and its place.
    pub(crate) fn first_besides(&self, known: &[&str]) -> Option<(String, Range<usize>)> {
        self.names().into_iter().find(|(name, _)| !known.contains(&&**name))
    }

    /// Checks that no section is below it. `known` are the keys of the file.
    ///
    /// # Errors
    /// The name of the first section.
    pub(crate) fn has_no_sections(&self, known: &[&str]) -> Result<(), String> {
        let mut names = self.names().into_iter();
        match names.find(|(_, place)| is_header(self.text, place.start)) {
            Some((_, place)) => {
                let header = header(self.text, place.start);
                let name = header.trim_matches(['[', ']', ' ']);
                let answer = peers::answer_for_key(name, known).map(|answer| format!(": {answer}"));
                let answer = answer.unwrap_or_default();
                let problem = format!(
                    "unknown section {header}{answer}. The only sections are [app_type.NAME], which define types of applications; \
                     all other keys are at the top level."
                );
                Err(self.error(&place, &problem))
            }
            None => Ok(()),
        }
    }
}

/// Returns the error for a value that breaks a rule.
pub(crate) fn bad_value(key: &str, section: Option<&str>, problem: &str) -> String {
    match section {
        Some(section) => format!("bad value for {key} in [{section}]: {problem}."),
        None => format!(
            "bad value for {key}: {problem}. Correct the value, or remove the line to get the default \
             (`cabrank start --help` explains each option)."
        ),
    }
}

/// Returns the error for the line with the byte `start`.
pub(crate) fn in_line(text: &str, start: usize, problem: &str) -> String {
    format!("{}: {problem}", line_number(text, start))
}

/// Returns the number of the line with this byte.
pub(crate) fn line_number(text: &str, start: usize) -> usize {
    text.as_bytes()[..start.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

/// Returns the line with this byte, trimmed.
fn line(text: &str, start: usize) -> &str {
    text.lines().nth(line_number(text, start) - 1).unwrap_or_default().trim()
}

/// Returns the header of a section in the line with this byte, without a comment.
fn header(text: &str, start: usize) -> &str {
    let line = line(text, start);
    line.rfind(']').map_or(line, |end| &line[..=end])
}

/// Returns whether the line with this byte is the header of a section.
fn is_header(text: &str, start: usize) -> bool {
    line(text, start).starts_with('[')
}

/// Returns the error for the header of a section that defines no type.
pub(crate) fn no_definition(header: &str) -> String {
    format!(
        "{header} is no definition of a type. Write a section [app_type.NAME] with lines `key = value`."
    )
}
