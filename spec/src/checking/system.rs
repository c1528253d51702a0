//! A system: its configurations and its errors, by the names that the command line takes.

use crate::checking::check::{Counts, check};
use crate::checking::defects::Defects;
use crate::checking::promises::Promises;
use crate::checking::story::story;
use crate::checking::table::Table;
use std::io::{self, Write};

/// A machine to be explored, with a name.
#[derive(Clone, Debug)]
pub struct Named<M> {
    /// The name.
    pub name: &'static str,
    /// The behaviour that it explores.
    pub about: String,
    /// The machine as ruled.
    pub machine: M,
    /// The counts that an exploration finds. A change of the machine that changes them needs a second look.
    pub pinned: Counts,
    /// The outcomes of its final states. Empty if it has none, or if the machine describes none.
    pub ends: &'static [&'static str],
}

impl<M> Named<M> {
    /// Returns whether the exploration takes too long for every run of the tests.
    pub fn deep(&self) -> bool {
        self.name.ends_with("-deep")
    }
}

/// Finds a machine by name.
pub fn named<M>(all: Vec<Named<M>>, name: &str) -> Option<Named<M>> {
    all.into_iter().find(|named| named.name == name)
}

/// An error of the system that a machine is modelled on, as `list` shows it.
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The promise that it breaks.
    pub effect: String,
    /// The error in words.
    pub is: &'static str,
}

/// A system with its machines.
pub trait System {
    /// The machine.
    type Machine: Promises;
    /// The word for its configurations on the command line.
    const WORD: &'static str;
    /// Its name.
    const TITLE: &'static str;
    /// Describes its errors.
    const ERRORS: &'static str;

    /// Returns its configurations, in order.
    fn configurations() -> Vec<Named<Self::Machine>>;
    /// Returns its errors, in order.
    fn errors() -> Vec<Listed>;
    /// Returns the story of an error.
    fn tell(error: &str) -> Option<String>;
}

/// Lists all defects of a system.
pub fn defects<D: Defects>() -> Vec<Listed> {
    let listed = |&defect: &D| Listed {
        name: defect.name(),
        effect: format!("breaks {}", defect.shown().breaks),
        is: defect.is(),
    };
    D::ALL.iter().map(listed).collect()
}

/// Returns the story of the defect of this name.
pub fn defect_story<D: Defects>(name: &str) -> Option<String> {
    D::ALL.iter().find(|defect| defect.name().eq_ignore_ascii_case(name)).map(|d| d.story())
}

/// The operations of the command line on a system of any machine.
pub trait Commands {
    /// Returns the word for its configurations.
    fn word(&self) -> &'static str;
    /// Returns whether it has a configuration of this name.
    fn has(&self, name: &str) -> bool;
    /// Returns the story of an error.
    fn story(&self, error: &str) -> Option<String>;
    /// Returns the stories of all its errors.
    fn stories(&self) -> Vec<String>;
    /// Prints all names.
    ///
    /// # Errors
    /// If it cannot write.
    fn list(&self, out: &mut dyn Write) -> io::Result<()>;
    /// Explores some configurations, given by name and whether they are deep, and adds a row for each. Returns whether
    /// every promise holds; the first counterexample ends the table.
    ///
    /// # Errors
    /// If it cannot write.
    fn check(&self, which: &dyn Fn(&str, bool) -> bool, table: &mut Table<'_>) -> io::Result<bool>;
    /// Serves the configuration of this name to the browser.
    #[cfg(feature = "explore")]
    fn explore(&self, name: &str, address: &str);
}

impl<S: System> Commands for S {
    fn word(&self) -> &'static str {
        S::WORD
    }
    fn has(&self, name: &str) -> bool {
        named(S::configurations(), name).is_some()
    }
    fn story(&self, error: &str) -> Option<String> {
        S::tell(error)
    }
    fn stories(&self) -> Vec<String> {
        S::errors().iter().filter_map(|error| S::tell(&error.name)).collect()
    }

    fn list(&self, out: &mut dyn Write) -> io::Result<()> {
        let title = S::TITLE;
        writeln!(out, "{title}: {}", S::ERRORS)?;
        for Listed { name, effect, is } in S::errors() {
            writeln!(out, "  {name:27} {effect:42} {is}")?;
        }
        writeln!(out, "\n{title}: invariants")?;
        for invariant in S::Machine::INVARIANTS {
            writeln!(out, "  {:34} {}", invariant.name, invariant.says)?;
        }
        writeln!(out, "\n{title}: properties of every step")?;
        for property in S::Machine::STEP_PROPERTIES {
            writeln!(out, "  {:34} {}", property.name, property.says)?;
        }
        writeln!(out, "\n{title}: liveness properties")?;
        for property in S::Machine::LIVENESS.iter().filter(|property| property.promised) {
            writeln!(out, "  {:34} {}", property.name, property.says)?;
            if !property.assumes.is_empty() {
                writeln!(out, "  {:34} assumes: {}", "", property.assumes)?;
            }
        }
        writeln!(out, "\n{title}: configurations (check {})", S::WORD)?;
        for Named { name, about, pinned: (states, steps, depth), .. } in S::configurations() {
            writeln!(
                out,
                "  {name:34} {states} states, {steps} steps, depth {depth}\n    {about}"
            )?;
        }
        Ok(())
    }

    fn check(&self, which: &dyn Fn(&str, bool) -> bool, table: &mut Table<'_>) -> io::Result<bool> {
        let wanted = |named: &Named<S::Machine>| which(named.name, named.deep());
        for Named { name, machine, pinned, .. } in S::configurations().into_iter().filter(wanted) {
            match check(&machine) {
                Ok(report) => table.row(name, &report, pinned)?,
                Err(broken) => {
                    table.end_with(name, &story(&machine, &broken))?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    #[cfg(feature = "explore")]
    fn explore(&self, name: &str, address: &str) {
        use stateright::Model;
        if let Some(named) = named(S::configurations(), name) {
            crate::checking::explorer::Explored(named.machine).checker().serve(address);
        }
    }
}
