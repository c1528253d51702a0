//! The state: owners, their frames and entries, and the holder of the lock.

use crate::interlock::rules::{Defect, Planted, Rules};

/// An owner, by its index in the scenario.
pub type OwnerId = usize;

/// The purpose of holding the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Load.
    Load,
    /// Unload, and load again.
    Unload,
    /// No named purpose. Rails lets its users leave it out (defect `rails-upgrade-deadlock`). As mended it is a load.
    Unnamed,
}

/// The requests that an owner accepts while it has no shares, one bit each.
pub type Accepts = u8;
/// Newcomers.
pub const SHARE: Accepts = 1;
/// Loads.
pub const LOAD: Accepts = 2;
/// Unloads.
pub const UNLOAD: Accepts = 4;
/// Every request to hold.
pub const ALL: Accepts = LOAD | UNLOAD | 8;

impl Purpose {
    /// Returns the request for this purpose.
    pub fn request(self) -> Accepts {
        match self {
            Purpose::Load => LOAD,
            Purpose::Unload => UNLOAD,
            Purpose::Unnamed => 8,
        }
    }
    /// Returns the requests that an owner accepts while it waits to upgrade, and those that go first when it has
    /// released the lock.
    pub fn lets_go_first(self) -> Accepts {
        match self {
            Purpose::Load => LOAD,
            Purpose::Unload => LOAD | UNLOAD,
            Purpose::Unnamed => 0,
        }
    }
}

/// The entry that an owner publishes while it has given up its shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The requests that it accepts.
    pub accepts: Accepts,
    /// The purpose that it waits for, if it waits.
    pub waits_for: Option<Purpose>,
}

/// The part of an owner that is restored when a wait or a permit block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The shares that were given up.
    pub shares: u8,
    /// The earlier entry.
    pub entry: Option<Entry>,
}

/// The reason why an owner waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sleep {
    /// It waits for the lock.
    For(Purpose),
    /// It has released the lock and lets others go first.
    Draining(Purpose),
    /// It has ended its permit block and waits for its shares.
    Ending,
    /// It has given up its wait. Its program goes on, up to the next statement that needs a share.
    GivenUp {
        /// Whether it had requested an unload, and accepts those of others until it has its shares again.
        unloads: bool,
    },
}

impl Sleep {
    /// Returns whether the owner has requested an unload: it gives up the generation that it saw.
    pub fn unloads(self) -> bool {
        match self {
            Sleep::For(p) | Sleep::Draining(p) => p == Purpose::Unload,
            Sleep::Ending => false,
            Sleep::GivenUp { unloads } => unloads,
        }
    }
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The owner would wait for itself.
    Deadlock,
    /// The time limit expired, or the wait was dropped.
    TimedOut,
}

/// An owner's mode, as the table of transitions names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The number of its shares.
    pub shares: u8,
    /// Its open waits and permit blocks, innermost last.
    pub frames: Vec<Frame>,
    /// Its published entry.
    pub entry: Option<Entry>,
    /// The reason why it waits.
    pub sleeps: Option<Sleep>,
    /// The generation that its execution sees. Only INV-ILK-ONE-GENERATION reads it.
    pub sees: u8,
    /// Its place in its script.
    pub at: usize,
    /// Whether it exists yet.
    pub started: bool,
    /// Its last refusal.
    pub refused: Option<Refusal>,
}

/// An event of an action, for stories and step properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Event {
    Waits,
    Holds,
    Drains,
    Refused(Refusal),
    Woke,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Interlock {
    /// The rules.
    pub rules: Rules,
    /// The holder of the lock and its purpose.
    pub holder: Option<(OwnerId, Purpose)>,
    /// How often the holder has acquired the lock.
    pub depth: u8,
    /// The number of unloads.
    pub generation: u8,
    /// The owners.
    pub owners: Vec<Owner>,
    /// The events of the last action. The normal form has none.
    pub events: Vec<Event>,
}

impl Interlock {
    pub(crate) fn original(&self, defect: Defect) -> bool {
        self.rules.original(defect)
    }
    pub(crate) fn planted(&self, fault: Planted) -> bool {
        self.rules.has(fault)
    }
    /// Returns every other owner.
    pub fn others(&self, o: OwnerId) -> impl Iterator<Item = (OwnerId, &Owner)> {
        self.owners.iter().enumerate().filter(move |(q, _)| *q != o)
    }
    /// Returns whether this owner holds the lock.
    pub fn holds(&self, o: OwnerId) -> bool {
        self.holder.is_some_and(|(holder, _)| holder == o)
    }

    /// Returns the mode of an owner.
    pub fn mode(&self, o: OwnerId) -> Mode {
        let owner = &self.owners[o];
        match owner.sleeps {
            Some(Sleep::For(_)) => Mode::Waiting,
            Some(Sleep::Draining(_)) => Mode::Draining,
            Some(Sleep::Ending | Sleep::GivenUp { .. }) => Mode::Resuming,
            None if self.holds(o) => Mode::Holding,
            None if owner.shares > 0 => Mode::Running,
            None if !owner.frames.is_empty() => Mode::Yielded,
            None => Mode::Out,
        }
    }
}

impl Owner {
    /// Returns the number of its open permit blocks.
    pub fn permits(&self) -> usize {
        self.frames.len() - usize::from(self.sleeps.is_some())
    }
    /// Returns whether its entry, if it has one, accepts a request.
    pub fn accepts(&self, request: Accepts) -> bool {
        self.entry.is_none_or(|entry| entry.accepts & request == request)
    }
    /// Returns whether it is in an execution: it has shares, or has given them up for a while.
    pub fn in_execution(&self) -> bool {
        self.shares > 0 || self.frames.iter().any(|frame| frame.shares > 0)
    }
}
