//! What an owner does, and what counts of that for the others.
//!
//! An owner's frames (the shares and the entry that it had before a permit block) are a number: the
//! interface refuses to permit or to load with more than one share in the innermost frame, and a
//! permit block always accepts the same, so all frames are alike: none erases what an outer one permits (defect
//! `rails-permit-erased` of the original).

use super::vitals::{OwnerId, Vitals};
use crate::clock::Time;
use crate::collections::slab_list::{Links, List, linked};
use crate::collections::wait_queue::Wake;
use crate::sync::Condvar;
use slab::Slab;
use std::sync::Arc;

/// What an exclusive section is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Purpose {
    /// To load something. Waiting loads let each other go first.
    Load,
    /// To unload what is loaded. Waits for the loads, and for permit blocks to end.
    Unload,
}

/// What an owner that waits, drains or permits lets go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Accepts {
    /// Newcomers.
    pub share: bool,
    /// Loads: always.
    pub load: bool,
    /// Unloads.
    pub unload: bool,
}

/// What an owner does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing: it is not in an execution.
    Out,
    /// It has a share.
    Running,
    /// A newcomer, in `newcomers`.
    Entering,
    /// In `returning`: a child of a live execution, or a share on top of a permit block.
    Arriving,
    /// In the queue of its purpose. It has given up its share, if it had one.
    Waiting { purpose: Purpose, upgrading: bool },
    /// The holder.
    Holding,
    /// Inside a permit block, without a share.
    Yielded,
    /// In `returning`: it gets its share back, at the end of a permit block or of what it gave up.
    Resuming { ends_permit: bool },
    /// In `draining`: it has released, and lets others of its kind go first.
    Draining(Purpose),
    /// Taken out by [`forfeit`](super::Interlock::forfeit); its guard may still come.
    Forfeited,
}

impl Mode {
    /// Whether it is in one of the queues.
    pub(super) fn is_queued(self) -> bool {
        match self {
            Mode::Entering
            | Mode::Arriving
            | Mode::Waiting { .. }
            | Mode::Resuming { .. }
            | Mode::Draining(_) => true,
            Mode::Out | Mode::Running | Mode::Holding | Mode::Yielded | Mode::Forfeited => false,
        }
    }
}

/// How a wait ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// By what was waited for: the owner's mode says what.
    Granted,
    /// By `forfeit`.
    Forfeited,
}

/// What came of a transition that may have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Step {
    Done,
    /// The owner is queued.
    Wait,
}

/// Who asks for a share, or to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    Thread,
    Task,
    /// Does not wait.
    Impatient,
}

/// One owner. What it says is true only in the slow period it was last touched in: see
/// [`State::adopt`].
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) epoch: u64,
    pub(super) mode: Mode,
    /// What it publishes, and lets go first. Given by each transition that gives or takes one, and not worked
    /// out of the mode, which has to agree (INV-ILK-ENTRY).
    pub(super) entry: Option<Accepts>,
    /// The generation that its body has seen, unless it is out, or has let others unload (INV-ILK-SEES-ONE-WORLD).
    pub(super) sees: Option<u64>,
    /// Permit blocks that it is in, those whose end waits included.
    pub(super) permits: u32,
    /// How often it has said that it waits for its children, and keeps its share.
    pub(super) declared: u32,
    /// The permit blocks, by their number from the outside, in which it has said so, without its share.
    pub(super) awaits: Vec<u32>,
    pub(super) children: Children,
    pub(super) name: Option<(OwnerId, Arc<str>)>,
    pub(super) parent: Option<Parent>,
    /// When it got into its queue.
    pub(super) queued_at: Time,
    /// Counts those who got into a queue: who came first.
    pub(super) ticket: u64,
    pub(super) outcome: Option<Outcome>,
    /// How it is woken, while it is queued.
    pub(super) wake: Option<Wake>,
    /// Who else is woken when it has its share again.
    pub(super) watchers: Slab<Watcher>,
    pub(super) condvar: Arc<Condvar>,
    pub(super) vitals: Arc<Vitals>,
    pub(super) links: Links,
}
linked!(/// The queue that an owner's mode names.
    InQueue, Owner, links);

pub(super) type Queue = List<InQueue>;

/// Somebody who watches for an owner's share to come back; see [`returning`](super::returning).
#[derive(Debug)]
pub(super) struct Watcher {
    /// Nobody else's: whoever has its place in the slab afterwards has another.
    pub(super) id: u64,
    pub(super) wake: Wake,
    /// To be woken after everybody else: what is left to be done at an execution's end.
    pub(super) last: bool,
}

/// The children of one execution: those begun with a token, or inside it by a guard, and tokens that may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Children {
    /// Whose. Those of an execution that is over do not count.
    pub(super) of: OwnerId,
    /// Tokens, and executions begun with one.
    pub(super) alive: usize,
    /// Those of them that were forfeited, and whose guard has not come: nobody waits for them.
    pub(super) lost: usize,
    /// Those that do not go on before their parent has no share, nor whoever that one is a child of.
    pub(super) waiting: usize,
}

impl Children {
    pub(super) fn none(of: OwnerId) -> Self {
        Children { of, alive: 0, lost: 0, waiting: 0 }
    }
}

/// Whose child an execution is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent {
    /// The child: whoever has its place afterwards has another parent.
    pub(super) of: OwnerId,
    pub(super) id: OwnerId,
}

/// What counts of an owner, for the guards of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Owners with a share.
    pub(super) running: usize,
    /// Entries that accept no new sharer.
    pub(super) reject_share: usize,
    /// Entries that accept no unload. All accept a load.
    pub(super) reject_unload: usize,
    /// Owners inside a permit block, not in a queue.
    pub(super) yielded: usize,
    /// Owners that wait for their children and keep their share.
    pub(super) declared: usize,
    /// Those of them that have a child that waits for this share to be given up: a deadlock each.
    pub(super) blocked: usize,
}

impl Owner {
    pub(super) fn id(&self) -> OwnerId {
        self.vitals.id()
    }
    /// It is in nothing any more.
    pub(super) fn clear(&mut self, mode: Mode) {
        (self.mode, self.entry, self.sees) = (mode, None, None);
        (self.permits, self.declared) = (0, 0);
        self.awaits.clear();
    }
    /// Nor does it wait any more for what it was said to wait for in this permit block: a future that was
    /// leaked says it to its end.
    pub(super) fn stop_awaiting(&mut self) {
        let block = self.permits;
        if self.awaits.last().is_some_and(|awaits| *awaits >= block) {
            self.awaits.pop();
        }
    }
    /// A permit block is over.
    pub(super) fn leave_permit(&mut self) {
        self.stop_awaiting();
        self.permits -= 1;
    }
    /// What it publishes while it waits to hold, or lets others of its kind go first: loads, if
    /// it gave a share up to load; else all that hold. In a permit block it lets nobody unload, either.
    pub(super) fn publish(&mut self, purpose: Purpose, gave_up: bool) {
        let unload = self.permits == 0 && !(gave_up && purpose == Purpose::Load);
        self.entry = Some(Accepts { share: false, load: true, unload });
        if purpose == Purpose::Unload {
            self.sees = None;
        }
    }
    /// What it published before: in a permit block that loads may be, and nothing else.
    pub(super) fn restore(&mut self) {
        let permits = Accepts { share: true, load: true, unload: false };
        self.entry = (self.permits > 0).then_some(permits);
    }

    /// It gives its share up, which nobody may who keeps it and waits: a wait that still counts was leaked.
    pub(super) fn forget_declared(&mut self) {
        self.declared = 0;
    }
    /// Whether it waits for its children in a permit block.
    pub(super) fn awaits(&self) -> bool {
        !self.awaits.is_empty()
    }
    /// It has one more, or one less, child that waits.
    pub(super) fn count_child(&mut self, of: OwnerId, waits: bool) {
        if self.children.of == of {
            let waiting = &mut self.children.waiting;
            *waiting = if waits { *waiting + 1 } else { *waiting - 1 };
        }
    }
    /// Its children that live, and those of them that wait until it has no share.
    pub(super) fn live_children(&self) -> (usize, usize) {
        let Children { of, alive, lost, waiting } = self.children;
        if of == self.id() { (alive - lost, waiting) } else { (0, 0) }
    }
    /// Its parent, if it is to have no share before this one goes on: this one waits until nobody has, or for
    /// others that do and go first, or in a permit block for a child of its own. Who drains goes on before
    /// its parent has a share, but where that one's section has ended without a turn for the others: dropped,
    /// or by a panic.
    pub(super) fn waits_for_parent(&self) -> Option<OwnerId> {
        let parent = self.parent.filter(|parent| parent.of == self.id())?;
        let alone = matches!(self.mode, Mode::Waiting { upgrading: true, .. } | Mode::Draining(_));
        let waits = alone || self.awaits() && self.live_children().1 > 0;
        waits.then_some(parent.id)
    }
    /// What it adds to the counts.
    pub(super) fn tally(&self) -> Tally {
        let rejects =
            |accepts: fn(&Accepts) -> bool| self.entry.is_some_and(|entry| !accepts(&entry));
        Tally {
            running: usize::from(self.mode == Mode::Running),
            reject_share: usize::from(rejects(|entry| entry.share)),
            reject_unload: usize::from(rejects(|entry| entry.unload)),
            yielded: usize::from(self.mode == Mode::Yielded),
            declared: usize::from(self.declared > 0),
            blocked: usize::from(self.declared > 0 && self.live_children().1 > 0),
        }
    }
}

impl Tally {
    pub(super) fn plus(self, other: Tally) -> Tally {
        self.with(other, usize::wrapping_add)
    }
    pub(super) fn minus(self, other: Tally) -> Tally {
        self.with(other, usize::wrapping_sub)
    }
    fn with(self, other: Tally, f: fn(usize, usize) -> usize) -> Tally {
        Tally {
            running: f(self.running, other.running),
            reject_share: f(self.reject_share, other.reject_share),
            reject_unload: f(self.reject_unload, other.reject_unload),
            yielded: f(self.yielded, other.yielded),
            declared: f(self.declared, other.declared),
            blocked: f(self.blocked, other.blocked),
        }
    }
}
