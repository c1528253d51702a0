//! The source of a value, for errors about two values that contradict each other.
//!
//! Each value alone is valid, so the parsers of command line and file cannot report the error.

use crate::configuration::cli::Options;
use std::path::Path;

/// The options of each source, before they are merged.
#[derive(Debug)]
pub(crate) struct Origins<'a> {
    /// The options of the command line and the environment.
    pub(crate) given: &'a Options,
    /// The options among them that come from the environment, by their names in the file.
    pub(crate) environment: &'a [String],
    pub(crate) in_file: &'a Options,
    pub(crate) file: &'a Path,
}

impl Origins<'_> {
    /// Returns the option and its value as the user wrote them, and the file if they come from there.
    ///
    /// `name` is the option's name in the file; `is_set` returns whether a source sets it.
    pub(crate) fn of(&self, name: &str, value: usize, is_set: impl Fn(&Options) -> bool) -> String {
        if is_set(self.given) {
            if self.environment.iter().any(|variable| variable == name) {
                format!("CABRANK_{}={value}", name.to_uppercase())
            } else {
                format!("{} {value}", option(name))
            }
        } else if is_set(self.in_file) {
            format!("{name} = {value} in {}", self.file.display())
        } else {
            format!("{} {value} (the default)", option(name))
        }
    }
}

/// Returns the option's name on the command line.
pub(crate) fn option(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}
