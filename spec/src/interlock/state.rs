//! The types: who shares, who waits, who holds.

use crate::interlock::rules::{Defect, Planted, Rules};

/// An owner, by its place in the scenario.
pub type OwnerId = usize;

/// What the lock is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// To load.
    Load,
    /// To unload, and load again.
    Unload,
    /// For nothing that was named: the original lets its users do so (UpgradeDeadlock).
    Unnamed,
}

/// Whom an owner lets in while it has no shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Accepts(pub u8);

impl Accepts {
    /// Nobody.
    pub const NOBODY: Accepts = Accepts(0);
    /// Who enters.
    pub const SHARE: Accepts = Accepts(1);
    /// Loads.
    pub const LOAD: Accepts = Accepts(2);
    /// Unloads.
    pub const UNLOAD: Accepts = Accepts(4);
    /// Requests of no named purpose.
    pub const UNNAMED: Accepts = Accepts(8);

    /// These and those.
    pub const fn and(self, those: Accepts) -> Accepts {
        Accepts(self.0 | those.0)
    }
    /// Without the exclusive ones that are not among those.
    pub fn within(self, those: Accepts) -> Accepts {
        Accepts(self.0 & (those.0 | Accepts::SHARE.0))
    }
    /// Whether all those are let in.
    pub fn includes(self, those: Accepts) -> bool {
        self.0 & those.0 == those.0
    }
}

impl From<Purpose> for Accepts {
    fn from(purpose: Purpose) -> Accepts {
        match purpose {
            Purpose::Load => Accepts::LOAD,
            Purpose::Unload => Accepts::UNLOAD,
            Purpose::Unnamed => Accepts::UNNAMED,
        }
    }
}

/// What an owner publishes while it has given up its shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Whom it lets in.
    pub accepts: Accepts,
    /// What it waits for, if it does.
    pub waits_for: Option<Purpose>,
}

/// What is put back when a wait or a permit block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The shares that were given up.
    pub shares: u8,
    /// The entry that was there before.
    pub entry: Option<Entry>,
}

/// Why an owner sleeps in the interlock, other than to enter or to end a permit block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sleep {
    /// It waits for the lock.
    For(Purpose),
    /// It has released the lock, and lets others go first.
    Draining(Purpose),
    /// It has given up waiting, and needs its shares back.
    GivenUp(Purpose),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// It did not want to wait.
    WouldBlock,
    /// It would wait for itself.
    Deadlock,
    /// The child of a live execution wants to unload.
    Child,
    /// It holds the lock, and wants to wait for a child.
    Holding,
    /// An unload inside a load.
    InsideLoad,
    /// Its time was up.
    TimedOut,
}

/// What an owner is doing, as the table of transitions names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are the table's")]
pub enum Mode {
    Out,
    Running,
    Waiting,
    Holding,
    Yielded,
    Draining,
    Resuming,
}

/// One owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Whose child it is, if the interlock was told.
    pub parent: Option<OwnerId>,
    /// How many shares it has.
    pub shares: u8,
    /// What it gave up, innermost last.
    pub frames: Vec<Frame>,
    /// What it publishes.
    pub entry: Option<Entry>,
    /// Why it sleeps.
    pub sleeps: Option<Sleep>,
    /// Whose ends it waits for, if the interlock was told.
    pub waits_on: Vec<OwnerId>,
    /// The generation that its request was made in.
    pub asked: u8,
    /// The generation that its execution sees; for INV-ILK-SEES-ONE-WORLD only.
    pub sees: u8,
    /// Where it is in its script.
    pub at: usize,
    /// Whether it exists yet.
    pub started: bool,
    /// Whether it died.
    pub dead: bool,
    /// What it was refused last.
    pub refused: Option<Refusal>,
}

/// What happens in an action, to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Event {
    Waits,
    Holds,
    Drains,
    Refused(Refusal),
    Reloaded,
    Coalesced,
    Woke,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Interlock {
    /// What is as in the original.
    pub rules: Rules,
    /// Who holds the lock, and for what.
    pub holder: Option<(OwnerId, Purpose)>,
    /// How many times over.
    pub depth: u8,
    /// How many times everything was unloaded.
    pub generation: u8,
    /// Everybody.
    pub owners: Vec<Owner>,
    /// What the last action did; no part of the normal form.
    pub told: Vec<Event>,
}

impl Interlock {
    pub(crate) fn original(&self, defect: Defect) -> bool {
        self.rules.original(defect)
    }
    pub(crate) fn planted(&self, fault: Planted) -> bool {
        self.rules.has(fault)
    }
    pub(crate) fn tell(&mut self, event: Event) {
        self.told.push(event);
    }
    /// Everybody but one.
    pub fn others(&self, o: OwnerId) -> impl Iterator<Item = (OwnerId, &Owner)> {
        self.owners.iter().enumerate().filter(move |(q, _)| *q != o)
    }
    /// Who holds the lock, if not this one.
    pub fn other_holder(&self, o: OwnerId) -> Option<OwnerId> {
        self.holder.map(|(holder, _)| holder).filter(|&holder| holder != o)
    }
    /// Whether this one holds the lock.
    pub fn holds(&self, o: OwnerId) -> bool {
        self.holder.is_some_and(|(holder, _)| holder == o)
    }

    /// What it is doing.
    pub fn mode(&self, o: OwnerId) -> Mode {
        let owner = &self.owners[o];
        match owner.sleeps {
            Some(Sleep::For(_)) => Mode::Waiting,
            Some(Sleep::Draining(_)) => Mode::Draining,
            Some(Sleep::GivenUp(_)) => Mode::Resuming,
            None if self.holds(o) => Mode::Holding,
            None if owner.shares > 0 => Mode::Running,
            None if !owner.frames.is_empty() => Mode::Yielded,
            None => Mode::Out,
        }
    }

    /// Whether it is in an execution: it has shares, or gave them up for a while.
    pub fn in_execution(&self, o: OwnerId) -> bool {
        let owner = &self.owners[o];
        owner.shares > 0 || owner.frames.iter().any(|frame| frame.shares > 0)
    }

    /// Whether somebody it descends from is in an execution.
    pub fn has_live_ancestor(&self, o: OwnerId) -> bool {
        let mut ancestor = self.owners[o].parent;
        while let Some(a) = ancestor {
            let overlooked =
                self.planted(Planted::DrainingIsNotLive) && self.mode(a) == Mode::Draining;
            if self.mode(a) != Mode::Out && !overlooked {
                return true;
            }
            ancestor = self.owners[a].parent;
        }
        false
    }
}
