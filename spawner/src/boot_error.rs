//! The error of a process that did not become ready, with the application's own output.

mod advice;
mod explanation;
mod frame;

pub(crate) use advice::{Setup, advise};
pub use explanation::Explanation;
pub use frame::Frame;

use std::fmt;

/// The error of a spawn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BootError {
    /// One sentence that says what happened, with the remedy if there is one.
    pub summary: String,
    /// The loader's text after `!> Error`; may be empty.
    pub message: String,
    /// Whether the loader says that `message` is HTML. Pages must escape it nevertheless.
    pub html: bool,
    /// The application's output while it started, from both streams in order of arrival.
    pub output: String,
    /// Where it failed, what to try, and how the process was started.
    pub explanation: Option<Box<Explanation>>,
}

impl BootError {
    /// Creates an error without any output of the application.
    pub fn plain(summary: impl Into<String>) -> Self {
        BootError {
            summary: summary.into(),
            message: String::new(),
            html: false,
            output: String::new(),
            explanation: None,
        }
    }

    /// Returns the facts of the explanation, for logs, terminals and pages: names and texts.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        self.explanation.iter().flat_map(|explanation| explanation.facts()).collect()
    }

    /// Returns the application's message and output, for logs, terminals and pages.
    pub fn details(&self) -> String {
        let parts = [self.message.trim_end(), self.output.trim_end()];
        parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// Writes one line: the summary, the line of the output that names the error, the place, and what to try.
///
/// That is the last line that looks like an error, else the last line. Python prints the error below the
/// traceback, and JavaScript prints it above the stack.
impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)?;
        let output = if self.message.trim().is_empty() { &self.output } else { &self.message };
        let lines = || output.lines().rev().filter(|l| !l.trim().is_empty());
        match lines().find(|l| names_an_error(l)).or_else(|| lines().next()) {
            Some(last) if !self.html => write!(f, " Its output: {}", last.trim())?,
            _ => {}
        }
        self.explanation.iter().try_for_each(|explanation| explanation.fmt(f))
    }
}

/// Returns whether the line names an error, such as `SyntaxError: …`, `app.ConfigError` or
/// `TypeError [ERR_INVALID_ARG_TYPE]: …`, or `… (LoadError)`, as Ruby ends it.
pub(crate) fn names_an_error(line: &str) -> bool {
    let is_error = |name: &str| {
        ["Error", "Exception", "Exit", "Interrupt"].iter().any(|end| name.ends_with(end))
    };
    if let Some((_, class)) = line.strip_suffix(')').and_then(|line| line.rsplit_once(" (")) {
        return is_error(class) && class.chars().all(|c| c.is_alphanumeric() || c == ':');
    }
    let name = line.split(": ").next().unwrap_or_default().trim_end_matches(':');
    let name = name.split_once(" [").map_or(name, |(name, _)| name);
    name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_')) && is_error(name)
}

impl std::error::Error for BootError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_found_below_a_traceback_and_above_a_stack() {
        for (output, line) in [
            (
                "Traceback:\n  File \"a.py\", line 1\nModuleNotFoundError: No module named 'x'\n",
                "ModuleNotFoundError: No module named 'x'",
            ),
            (
                "/a/app.js:2\n\nSyntaxError: Unexpected end of input\n    at addChunk (node:x:1)\n",
                "SyntaxError: Unexpected end of input",
            ),
            (
                "TypeError [ERR_X]: bad: worse\n    at f (a.js:1)\n  code: 'ERR_X'\n}\n",
                "TypeError [ERR_X]: bad: worse",
            ),
            (
                "config.ru:1:in `require': cannot load x (LoadError)\n\tfrom config.ru:1\n",
                "config.ru:1:in `require': cannot load x (LoadError)",
            ),
            ("app.ConfigError\n\n", "app.ConfigError"),
            ("Error: one\nstill thinking\n", "Error: one"),
            ("no Error: here\n bye \n", "bye"),
        ] {
            let error = BootError { message: output.into(), ..BootError::plain("It failed.") };
            assert_eq!(error.to_string(), format!("It failed. Its output: {line}"));
        }
    }
}
