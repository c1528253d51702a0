//! Why an application process did not become ready, with what the application itself said.

use std::fmt;

/// The error of a spawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BootError {
    /// What happened, in one sentence, with the remedy where there is one.
    pub(crate) summary: String,
    /// What the loader said behind `!> Error`; may be empty.
    pub(crate) message: String,
    /// Whether `message` is HTML, made by the loader to be shown as it is.
    pub(crate) html: bool,
    /// What the application printed while it started, both streams, as it came.
    pub(crate) output: String,
}

impl BootError {
    /// An error that comes with nothing from the application.
    pub(crate) fn plain(summary: impl Into<String>) -> Self {
        BootError {
            summary: summary.into(),
            message: String::new(),
            html: false,
            output: String::new(),
        }
    }

    /// Everything the application said, for logs, terminals and pages.
    pub(crate) fn details(&self) -> String {
        let parts = [self.message.trim_end(), self.output.trim_end()];
        parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// One line: the summary, and the last thing the application said, which in a traceback is the error
/// itself.
impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)?;
        let said = if self.message.trim().is_empty() { &self.output } else { &self.message };
        match said.lines().rev().find(|l| !l.trim().is_empty()) {
            Some(last) if !self.html => write!(f, " Its last words: {}", last.trim()),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for BootError {}
