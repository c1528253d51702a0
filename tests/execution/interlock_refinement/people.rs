//! The players, and the machine's view of them.

use crate::interlock_refinement::history::{Block, How};
use crate::interlock_refinement::player::{Order, Player};
use cabrank_spec::interlock::script::World;
use cabrank_spec::interlock::state::{self as spec, OwnerId, Purpose};
use std::fmt;
use std::time::Duration;

/// A player.
pub(crate) struct Person {
    pub(crate) player: Player,
    /// Its owner, while it is in an execution or enters one.
    pub(crate) owner: Option<OwnerId>,
    /// Its open blocks.
    pub(crate) blocks: Vec<Open>,
    /// Its pending wait, or its unpolled task.
    pub(crate) pending: Option<Pending>,
    /// Its next expected answer.
    pub(crate) expected: Option<Expected>,
    /// Whether it has an unanswered order.
    pub(crate) acts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) block: Block,
    pub(crate) how: How,
}

/// The purpose of an order that was not carried out yet.
pub(crate) struct Pending {
    pub(crate) begins: bool,
    pub(crate) open: Open,
    pub(crate) deadline: Option<Duration>,
    /// It has given up, and waits for its share.
    pub(crate) timed_out: bool,
    /// Another owner had unloaded.
    pub(crate) skipped: bool,
    /// It was forfeited before its request was granted.
    pub(crate) forfeited: bool,
}

#[derive(Debug)]
pub(crate) enum Expected {
    Began,
    Over,
    Skipped,
    Pends,
    /// Its wait ends in this step by another player's action, so its poll may come too early.
    MayPend,
    GaveUp,
    Token(OwnerId),
    Refused(Why),
}

/// The reason of a refusal by the code.
#[derive(Debug)]
pub(crate) enum Why {
    WouldBlock,
    TimedOut,
    Child,
    Nested,
    Forfeited,
    /// With the state that would follow without the refusal.
    Deadlock(OwnerId, Box<Untold>),
}

pub(crate) struct Untold(pub(crate) World, pub(crate) spec::Interlock);

impl fmt::Debug for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an owner that waits for itself")
    }
}

impl Person {
    pub(crate) fn order(&mut self, order: Order) {
        self.acts = true;
        self.player.order(order);
    }
    /// Returns whether it has an unanswered order.
    pub(crate) fn acts_still(&self) -> bool {
        self.acts && self.player.is_busy()
    }
    /// Returns whether its task was polled in this step and has not answered.
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
    /// Returns whether a `run` does not nest in it.
    pub(crate) fn is_bare(self) -> bool {
        self.how == How::Task && self.purpose().is_some() || self.waits()
    }
    pub(crate) fn waits(self) -> bool {
        matches!(self.block, Block::Wait | Block::PermitWait)
    }
}
