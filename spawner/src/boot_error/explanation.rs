//! Where a boot failed, what to try, and how the process was started.

use super::Frame;
use std::fmt;
use std::path::PathBuf;

/// The explanation of a failed boot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The place in the application's own code, if the output names one.
    pub frame: Option<Frame>,
    /// The advice, if the output shows a known kind of error.
    pub advice: Option<String>,
    /// The command.
    pub command: String,
    /// Its working directory.
    pub directory: PathBuf,
    /// The name of its user.
    pub user: String,
    /// The names of its environment variables, sorted. Their values may be secrets.
    pub variables: Vec<String>,
}

impl Explanation {
    /// Returns all facts for people: names and texts.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let frame = self.frame.as_ref().map(|frame| ("Failed in", frame.to_string()));
        let advice = self.advice.clone().map(|advice| ("What to try", advice));
        frame.into_iter().chain(advice).chain(self.start()).collect()
    }

    /// Returns how the process was started, in one line.
    pub fn start_line(&self) -> String {
        self.start().map(|(name, text)| format!("{name}: {text}")).join("; ")
    }

    fn start(&self) -> [(&'static str, String); 4] {
        [
            ("Command", self.command.clone()),
            ("Directory", self.directory.display().to_string()),
            ("User", self.user.clone()),
            ("Environment", format!("{} (values are hidden)", self.variables.join(", "))),
        ]
    }
}

/// Writes the place and the advice, each behind a space.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(frame) = &self.frame {
            write!(f, " (in {frame})")?;
        }
        self.advice.iter().try_for_each(|advice| write!(f, " What to try: {advice}"))
    }
}
