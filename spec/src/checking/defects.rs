//! The defects of the system that a machine is modelled on: what each breaks, and its story.

use crate::checking::promises::Promises;
use crate::checking::story::story_of;
use crate::checking::switches::Switch;

/// The effect of a defect.
pub struct Shown<M> {
    /// The property that it breaks, or `deadlock`.
    pub breaks: &'static str,
    /// The machine with the defect.
    pub original: M,
    /// The same machine without it.
    pub mended: M,
}

/// An enumeration of the defects of a system.
pub trait Defects: Switch {
    /// The machine that shows them.
    type Machine: Promises;
    /// The system, in the names of its defects.
    const ORIGIN: &'static str;
    /// The words before a defect, and before the correct rule.
    const HEADS: [&'static str; 2];

    /// Returns the effect of the defect.
    fn shown(self) -> Shown<Self::Machine>;

    /// Returns the name on the command line and of the stored story: `UpgradeDeadlock` of `rails` is
    /// `rails-upgrade-deadlock`.
    fn name(self) -> String {
        let mut name = String::from(Self::ORIGIN);
        for c in format!("{self:?}").chars() {
            if c.is_ascii_uppercase() {
                name.push('-');
            }
            name.push(c.to_ascii_lowercase());
        }
        name
    }
    /// Returns the story: the defect, the correct rule, and the shortest way to the failure of a machine in which
    /// everything else is as mended.
    fn story(self) -> String {
        let (Shown { breaks, original, .. }, name) = (self.shown(), self.name());
        let rules = both_rules(Self::HEADS, self);
        let story = story_of(&original, breaks);
        format!("{name}\n{rules}\nEverything is as mended except {name}.\n{story}")
    }
}

/// Returns a defect and the correct rule, in lines with these words before them.
pub fn both_rules(heads: [&str; 2], defect: impl Switch) -> String {
    let width = heads.map(str::len).into_iter().max().unwrap_or_default() + 1;
    let line = |head: &str, rule: &str| format!("{:width$} {rule}.\n", format!("{head}:"));
    line(heads[0], defect.is()) + &line(heads[1], defect.instead())
}
