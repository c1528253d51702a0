//! Where the agent was told a value: for errors about two values of which each alone would be a good one, so that
//! neither the command line's parser nor the file's can name the place.

use super::cli::Options;
use std::path::Path;

/// All that was said, each place by itself.
#[derive(Debug)]
pub(crate) struct Origins<'a> {
    /// On the command line or in the environment.
    pub(crate) given: &'a Options,
    /// Which of those were in the environment, by their names in the file.
    pub(crate) environment: &'a [String],
    pub(crate) in_file: &'a Options,
    pub(crate) file: &'a Path,
}

impl Origins<'_> {
    /// The option and its value as they were written, and where if that does not show. `name` is the option's in
    /// the file; `is_set` finds out whether a place sets it.
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

/// As the command line calls it.
pub(crate) fn option(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}
