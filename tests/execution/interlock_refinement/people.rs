//! The players, and what the machine knows of them.

use crate::interlock_refinement::history::{Block, How};
use crate::interlock_refinement::player::{Order, Player};
use cabrank_spec::interlock::script::World;
use cabrank_spec::interlock::state::{self as spec, OwnerId, Purpose};
use std::fmt;
use std::time::Duration;

/// One of them.
pub(crate) struct Person {
    pub(crate) player: Player,
    /// While it is in an execution, or wants to be.
    pub(crate) owner: Option<OwnerId>,
    /// What it has begun and not ended.
    pub(crate) blocks: Vec<Open>,
    /// What it waits for, or its task was not polled for.
    pub(crate) pending: Option<Pending>,
    /// What it has to say next.
    pub(crate) expected: Option<Expected>,
    /// Whether it was given an order and has said nothing since.
    pub(crate) acts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) block: Block,
    pub(crate) how: How,
}

/// What an order is for that has not been carried out.
pub(crate) struct Pending {
    pub(crate) begins: bool,
    pub(crate) open: Open,
    pub(crate) deadline: Option<Duration>,
    /// It has given up, and waits for its share.
    pub(crate) timed_out: bool,
    /// Somebody else had unloaded.
    pub(crate) skipped: bool,
    /// It had asked to hold, and was forfeited before it was granted that.
    pub(crate) forfeited: bool,
}

#[derive(Debug)]
pub(crate) enum Expected {
    Began,
    Over,
    Skipped,
    Pends,
    /// What it waits for comes in this step, but of another player's doing: it may be polled too early.
    MayPend,
    GaveUp,
    Token(OwnerId),
    Refused(Why),
}

/// Why the code refuses something.
#[derive(Debug)]
pub(crate) enum Why {
    WouldBlock,
    TimedOut,
    Child,
    Nested,
    Forfeited,
    /// With what would be, if nobody were told.
    Deadlock(OwnerId, Box<Untold>),
}

pub(crate) struct Untold(pub(crate) World, pub(crate) spec::Interlock);

impl fmt::Debug for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("who waits for itself")
    }
}

impl Person {
    pub(crate) fn order(&mut self, order: Order) {
        self.acts = true;
        self.player.order(order);
    }
    /// Whether it was given an order and has said nothing since.
    pub(crate) fn acts_still(&self) -> bool {
        self.acts && self.player.is_busy()
    }
    /// Whether its task was polled in this step, and has not said yet what came of it.
    pub(crate) fn is_first_polled(&self) -> bool {
        self.acts && self.expected.is_none()
    }
}

impl Open {
    pub(crate) fn purpose(self) -> Option<Purpose> {
        match self.block {
            Block::Load => Some(Purpose::Load),
            Block::Unload | Block::UnloadOnce => Some(Purpose::Unload),
            Block::Run | Block::Permit | Block::Wait | Block::PermitWait => None,
        }
    }
    /// Whether no `run` nests in it.
    pub(crate) fn is_bare(self) -> bool {
        self.how == How::Task && self.purpose().is_some() || self.waits()
    }
    pub(crate) fn waits(self) -> bool {
        matches!(self.block, Block::Wait | Block::PermitWait)
    }
}
