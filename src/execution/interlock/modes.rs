//! The modes of an owner, and how each counts in the guards of the others.
//!
//! A permit block saves a frame: the shares and the entry that the owner had before. All frames are alike, so
//! a counter is enough: the interface refuses to permit or to load with a second share in the innermost
//! frame, and every permit block accepts the same. So an inner block cannot erase an outer one's
//! permission (in Rails it does: `rails-permit-erased`).

use super::vitals::{OwnerId, Vitals};
use crate::clock::Time;
use crate::collections::slab_list::{Links, List, linked};
use crate::collections::wait_queue::Wake;
use crate::sync::Condvar;
use slab::Slab;
use std::sync::Arc;

/// The purpose of an exclusive section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Purpose {
    /// To load something. Waiting loads let each other go first.
    Load,
    /// To unload. Waits for loads and for the end of permit blocks.
    Unload,
}

/// The owners that a waiting, draining or permitting owner lets go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Accepts {
    /// It accepts newcomers.
    pub share: bool,
    /// It accepts loads: always true.
    pub load: bool,
    /// It accepts unloads.
    pub unload: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is not in an execution.
    Out,
    /// It has a share.
    Running,
    /// A newcomer, in `newcomers`.
    Entering,
    /// In `returning`: a child of a live execution, or a share on top of a permit block.
    Arriving,
    /// In the queue of its purpose. It has given up its share, if it had one (`upgrading`).
    Waiting {
        purpose: Purpose,
        upgrading: bool,
    },
    Holding,
    /// In a permit block, without a share.
    Yielded,
    /// In `returning`: it regains its share after a permit block or an abandoned request.
    Resuming {
        ends_permit: bool,
    },
    /// In `draining`: it has released, and lets others of its kind go first.
    Draining(Purpose),
    /// Taken out by [`forfeit`](super::Interlock::forfeit); its guard may still come.
    Forfeited,
}

impl Mode {
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

#[derive(Debug)]
pub(super) enum Outcome {
    /// The owner's mode says what was granted.
    Granted,
    Forfeited,
}

/// The result of a transition that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Step {
    Done,
    /// The owner is queued.
    Wait,
}

/// The caller of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    Thread,
    Task,
    /// It does not wait.
    Impatient,
}

/// One owner, as of the slow period that last touched it: see `State::adopt`.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) epoch: u64,
    pub(super) mode: Mode,
    /// The entry that it publishes. Each transition sets it; it has to agree with the mode (INV-ILK-ENTRY).
    pub(super) entry: Option<Accepts>,
    /// The generation that its body sees. Empty while it is out or has let others unload
    /// (INV-ILK-SEES-ONE-WORLD).
    pub(super) sees: Option<u64>,
    /// The permit blocks that it is in, or whose end it waits for.
    pub(super) permits: u32,
    /// How many of its calls keep the share and wait for its children.
    pub(super) declared: u32,
    /// The permit blocks, numbered from the outside, in which it waits for its children.
    pub(super) awaits: Vec<u32>,
    pub(super) children: Children,
    pub(super) name: Option<(OwnerId, Arc<str>)>,
    pub(super) parent: Option<Parent>,
    pub(super) queued_at: Time,
    /// Numbers the queued owners in order of arrival.
    pub(super) ticket: u64,
    pub(super) outcome: Option<Outcome>,
    /// Present while it is queued.
    pub(super) wake: Option<Wake>,
    /// Woken, too, when the owner has its share again.
    pub(super) watchers: Slab<Watcher>,
    pub(super) condvar: Arc<Condvar>,
    pub(super) vitals: Arc<Vitals>,
    pub(super) links: Links,
}
linked!(/// The queue that an owner's mode names.
    InQueue, Owner, links);

pub(super) type Queue = List<InQueue>;

/// A waiter for an owner's share; see [`returning`](super::returning).
#[derive(Debug)]
pub(super) struct Watcher {
    /// Unique, unlike the index in the slab.
    pub(super) id: u64,
    pub(super) wake: Wake,
    /// Woken after all others: it carries out the rest of an execution's end.
    pub(super) last: bool,
}

/// The children of one execution, and its unused tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Children {
    /// The parent. Once it has ended, its children do not count.
    pub(super) of: OwnerId,
    /// Tokens, and children begun with one.
    pub(super) alive: usize,
    /// Children that were forfeited and whose guard has not come.
    pub(super) lost: usize,
    /// Children that cannot go on while this parent, or an ancestor of it, has a share.
    pub(super) waiting: usize,
}

impl Children {
    pub(super) fn none(of: OwnerId) -> Self {
        Children { of, alive: 0, lost: 0, waiting: 0 }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Parent {
    /// The child, because a later owner of the place has another parent.
    pub(super) of: OwnerId,
    pub(super) id: OwnerId,
}

/// The counters that the guards compare, of one owner or of all.
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
    /// Owners that keep their share and wait for their children.
    pub(super) declared: usize,
    /// Those whose child waits for that share: each is a deadlock.
    pub(super) blocked: usize,
}

impl Owner {
    pub(super) fn id(&self) -> OwnerId {
        self.vitals.id()
    }
    pub(super) fn clear(&mut self, mode: Mode) {
        (self.mode, self.entry, self.sees) = (mode, None, None);
        (self.permits, self.declared) = (0, 0);
        self.awaits.clear();
    }
    /// Ends the declared wait in this permit block: a leaked future never does.
    pub(super) fn stop_awaiting(&mut self) {
        let block = self.permits;
        if self.awaits.last().is_some_and(|awaits| *awaits >= block) {
            self.awaits.pop();
        }
    }
    pub(super) fn leave_permit(&mut self) {
        self.stop_awaiting();
        self.permits -= 1;
    }
    /// Publishes the entry of an owner that waits to hold, or drains. After giving a share up to load it
    /// accepts only loads, otherwise all holders. In a permit block it rejects unloads.
    pub(super) fn publish(&mut self, purpose: Purpose, gave_up: bool) {
        let unload = self.permits == 0 && !(gave_up && purpose == Purpose::Load);
        self.entry = Some(Accepts { share: false, load: true, unload });
        if purpose == Purpose::Unload {
            self.sees = None;
        }
    }
    /// Restores the entry: a permit block lets newcomers and loads go first.
    pub(super) fn restore(&mut self) {
        let permits = Accepts { share: true, load: true, unload: false };
        self.entry = (self.permits > 0).then_some(permits);
    }

    /// Clears `declared`. An owner that waits may not release its share, so any remaining count belongs to a
    /// leaked future.
    pub(super) fn forget_declared(&mut self) {
        self.declared = 0;
    }
    pub(super) fn awaits(&self) -> bool {
        !self.awaits.is_empty()
    }
    pub(super) fn count_child(&mut self, of: OwnerId, waits: bool) {
        if self.children.of == of {
            let waiting = &mut self.children.waiting;
            *waiting = if waits { *waiting + 1 } else { *waiting - 1 };
        }
    }
    /// Returns the number of live children, and how many wait until this owner has no share.
    pub(super) fn live_children(&self) -> (usize, usize) {
        let Children { of, alive, lost, waiting } = self.children;
        if of == self.id() { (alive - lost, waiting) } else { (0, 0) }
    }
    /// Returns the parent if its share keeps this owner from going on, because this owner
    /// - waits until no other owner has a share;
    /// - drains. It resumes before its parent, unless a drop or a panic ended the parent's section without
    ///   draining;
    /// - waits in a permit block for a child that waits.
    pub(super) fn waits_for_parent(&self) -> Option<OwnerId> {
        let parent = self.parent.filter(|parent| parent.of == self.id())?;
        let alone = matches!(self.mode, Mode::Waiting { upgrading: true, .. } | Mode::Draining(_));
        let waits = alone || self.awaits() && self.live_children().1 > 0;
        waits.then_some(parent.id)
    }
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
