//! The text of a dump.

use super::dump::{BlockedBy, Dump, OwnerDump, OwnerState};
use super::owner_id::OwnerId;
use std::fmt::{self, Formatter};

/// How many executions a list names at most.
const SHOWN: usize = 8;

struct Title<'a>(&'a OwnerDump);

impl fmt::Display for Title<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0.name {
            Some(name) => write!(f, "{} “{name}”", self.0.id),
            None => write!(f, "{}", self.0.id),
        }
    }
}

impl OwnerState {
    fn text(self) -> &'static str {
        match self {
            OwnerState::Entering => "waits to enter",
            OwnerState::Running => "runs",
            OwnerState::WaitingToLoad => "waits to load",
            OwnerState::WaitingToUnload => "waits to unload",
            OwnerState::Loading => "loads",
            OwnerState::Unloading => "unloads",
            OwnerState::Permitting => "permits loads",
            OwnerState::Resuming => "waits for its share",
            OwnerState::Draining => "lets others load first",
        }
    }
}

impl BlockedBy {
    fn text(self) -> &'static str {
        match self {
            BlockedBy::Holder => "the one that holds",
            BlockedBy::Running => "all that run",
            BlockedBy::Permits => "all in permit blocks",
            BlockedBy::Loads => "all that load first",
            BlockedBy::Unloads => "all that wait to unload",
        }
    }
}

impl Dump {
    /// Writes what an execution waits for, and which others block it.
    pub(super) fn write_wait(&self, id: OwnerId, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(owner) = self.owner(id) else { return write!(f, "{id} has ended") };
        write!(f, "{} {}", Title(owner), owner.state.text())?;
        let Some(wait) = &owner.wait else { return Ok(()) };
        write!(f, ", blocked by {}: ", wait.blocked_by.text())?;
        self.write_blockers(wait.blocked_by, f)
    }
    fn write_blockers(&self, by: BlockedBy, f: &mut Formatter<'_>) -> fmt::Result {
        let mut blockers = self.blockers(by);
        for (at, owner) in blockers.by_ref().take(SHOWN).enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { ", " }, Title(owner))?;
        }
        match blockers.count() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (number, generation) = (self.owners.len(), self.generation);
        writeln!(f, "load interlock: {number} executions, generation {generation}")?;
        for owner in &self.owners {
            write!(f, "  {} {}: ", Title(owner), owner.state.text())?;
            match &owner.thread {
                Some(thread) => {
                    let name = thread.name().unwrap_or("without a name");
                    write!(f, "thread {name} ({:?})", thread.id())?;
                }
                None => f.write_str("a task")?,
            }
            write!(f, ", entered {:.1?} ago at {}", owner.age, owner.entered_at)?;
            if let Some(wait) = &owner.wait {
                write!(f, "\n      waits since {:.1?} at {}", wait.since, wait.at)?;
                write!(f, ", blocked by {}", wait.blocked_by.text())?;
                if let Some(backtrace) = &wait.backtrace {
                    write!(f, "\n{backtrace}")?;
                }
            }
            writeln!(f)?;
        }
        // Each list of blockers stands here once, however many wait for it.
        use BlockedBy::{Holder, Loads, Permits, Running, Unloads};
        for by in [Holder, Running, Permits, Loads, Unloads] {
            let mut waits = self.owners.iter().filter_map(|owner| owner.wait.as_ref());
            if waits.any(|wait| wait.blocked_by == by) {
                write!(f, "  {}: ", by.text())?;
                self.write_blockers(by, f)?;
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
