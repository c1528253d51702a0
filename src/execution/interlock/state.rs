//! The state machine: what each owner does, and how it gets from one thing to the next.
//!
//! Every function here is one transition. Who can go on because of it is found by
//! [`settle`](super::settle), once, at the end of the critical section.
//!
//! An owner's frames (the shares and the entry that it had before a permit block) are a number: the
//! interface refuses to permit or to load with more than one share in the innermost frame, and a
//! permit block always accepts the same, so all frames are alike.

use super::owner::{OwnerId, Place, Vitals};
use crate::clock::{Clock, Time};
use crate::slab_list::{Key, Links, List, linked};
use crate::sync::{Condvar, Word};
use crate::wait_queue::Wake;
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
    /// Permit blocks that it is in, those whose end waits included.
    pub(super) permits: u32,
    /// How often it has said that it waits for its children, and keeps its share.
    pub(super) declared: u32,
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
    pub(super) condvar: Arc<Condvar>,
    pub(super) vitals: Arc<Vitals>,
    pub(super) links: Links,
}
linked!(/// The queue that an owner's mode names.
    InQueue, Owner, links);

pub(super) type Queue = List<InQueue>;

/// The children of one execution that were begun with a token, or may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Children {
    /// Whose. Those of an execution that is over do not count.
    pub(super) of: OwnerId,
    /// Tokens, and executions begun with one.
    pub(super) alive: usize,
    /// Those that wait until nobody else has a share: until their parent has none, too.
    pub(super) waiting: usize,
}

/// Whose child an execution is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent {
    /// The child: whoever has its place afterwards has another parent.
    pub(super) of: OwnerId,
    pub(super) id: OwnerId,
    /// It was begun with a token, and is one of its parent's [`Children`].
    pub(super) token: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) key: Key,
    pub(super) purpose: Purpose,
    pub(super) depth: u32,
    /// It had a share before, and has it again afterwards.
    pub(super) upgraded: bool,
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

pub(super) struct State {
    /// The word says so, too: everybody comes through here.
    pub(super) slow: bool,
    /// Counts the slow periods.
    pub(super) epoch: u64,
    /// Owners that entered through the word and have not been here since.
    pub(super) anonymous: usize,
    /// Of the owners that have.
    pub(super) tally: Tally,
    /// Owners that were forfeited and whose guard has not come.
    pub(super) forfeited: usize,
    pub(super) holder: Option<Holder>,
    pub(super) generation: u64,
    pub(super) owners: Slab<Owner>,
    pub(super) newcomers: Queue,
    pub(super) returning: Queue,
    /// Requests by owners that had a share, and by owners that had none, by purpose.
    pub(super) upgrading: [Queue; 2],
    pub(super) pending: [Queue; 2],
    pub(super) draining: [Queue; 2],
    /// How many have got into a queue so far.
    pub(super) tickets: u64,
    /// Whom this critical section wakes.
    pub(super) wakes: Vec<Wake>,
    pub(super) clock: Clock,
}

/// The bit of the word that says: through the mutex.
pub(super) const SLOW: usize = 1 << (usize::BITS - 1);

impl State {
    pub(super) fn new(clock: Clock) -> Self {
        State {
            slow: false,
            epoch: 0,
            anonymous: 0,
            tally: Tally::default(),
            forfeited: 0,
            holder: None,
            generation: 0,
            owners: Slab::new(),
            newcomers: Queue::new(),
            returning: Queue::new(),
            upgrading: Default::default(),
            pending: Default::default(),
            draining: Default::default(),
            tickets: 0,
            wakes: Vec::new(),
            clock,
        }
    }

    /// A place for an owner that is none yet.
    pub(super) fn register(&mut self) -> Place {
        let entry = self.owners.vacant_entry();
        let key = Key::new(entry.key());
        let vitals = Arc::new(Vitals::new(key));
        entry.insert(Owner {
            epoch: 0,
            mode: Mode::Out,
            permits: 0,
            declared: 0,
            children: Children { of: vitals.id(), alive: 0, waiting: 0 },
            name: None,
            parent: None,
            queued_at: Time::default(),
            ticket: 0,
            outcome: None,
            wake: None,
            condvar: Arc::new(Condvar::new()),
            vitals: vitals.clone(),
            links: Links::default(),
        });
        Place { key, vitals }
    }

    /// From here on everybody comes through the mutex: the word's count moves into this state.
    pub(super) fn slow_down(&mut self, word: &Word) {
        if !self.slow {
            let count = word.fetch_or(SLOW);
            self.slow = true;
            self.epoch += 1;
            (self.anonymous, self.tally) = (count, Tally::default());
        }
    }
    /// The count moves back if nobody holds, waits, or has an entry.
    pub(super) fn speed_up(&mut self, word: &Word) {
        let Tally { running: _, reject_share, reject_unload, yielded, declared, blocked: _ } =
            self.tally;
        let rest = reject_share + reject_unload + yielded + declared + self.forfeited;
        if self.slow && rest == 0 && self.holder.is_none() && !self.somebody_is_queued() {
            word.swap(self.running());
            self.slow = false;
        }
    }
    pub(super) fn somebody_is_queued(&self) -> bool {
        let by_purpose = [&self.upgrading, &self.pending, &self.draining];
        !self.newcomers.is_empty()
            || !self.returning.is_empty()
            || by_purpose.into_iter().flatten().any(|queue| !queue.is_empty())
    }

    /// How many owners have a share.
    pub(super) fn running(&self) -> usize {
        self.anonymous + self.tally.running
    }

    /// An owner that entered through the word, or in an earlier slow period, is known from here on.
    /// Its guard vouches for its share.
    pub(super) fn adopt(&mut self, key: Key) {
        if self.owner(key).epoch != self.epoch {
            self.anonymous -= 1;
            self.renew(key, Mode::Running);
        }
    }
    fn renew(&mut self, key: Key, mode: Mode) {
        let epoch = self.epoch;
        let owner = &mut self.owners[key.index()];
        (owner.epoch, owner.mode, owner.permits, owner.declared) = (epoch, Mode::Out, 0, 0);
        self.change(key, |owner| owner.mode = mode);
    }

    pub(super) fn owner(&self, key: Key) -> &Owner {
        &self.owners[key.index()]
    }

    /// The only way to change what others' guards look at.
    pub(super) fn change(&mut self, key: Key, change: impl FnOnce(&mut Owner)) {
        let waited = self.owner(key).waits_for_parent();
        self.count(key, change);
        let waits = self.owner(key).waits_for_parent();
        match (waited, waits) {
            (None, Some(parent)) => self.count_child(parent, |waiting| waiting + 1),
            (Some(parent), None) => self.count_child(parent, |waiting| waiting - 1),
            _ => {}
        }
    }
    fn count(&mut self, key: Key, change: impl FnOnce(&mut Owner)) {
        let before = self.owner(key).tally();
        change(&mut self.owners[key.index()]);
        let after = self.owner(key).tally();
        self.tally = self.tally.plus(after).minus(before);
    }
    /// One more, or one less, of its children waits.
    fn count_child(&mut self, parent: OwnerId, change: fn(usize) -> usize) {
        self.count(parent.key(), |owner| {
            if owner.children.of == parent {
                owner.children.waiting = change(owner.children.waiting);
            }
        });
    }
    pub(super) fn set_mode(&mut self, key: Key, mode: Mode) {
        self.change(key, |owner| owner.mode = mode);
    }

    pub(super) fn queue(&mut self, mode: Mode) -> &mut Queue {
        match mode {
            Mode::Entering => &mut self.newcomers,
            Mode::Arriving | Mode::Resuming { .. } => &mut self.returning,
            Mode::Waiting { purpose, upgrading: true } => &mut self.upgrading[purpose as usize],
            Mode::Waiting { purpose, upgrading: false } => &mut self.pending[purpose as usize],
            Mode::Draining(purpose) => &mut self.draining[purpose as usize],
            Mode::Out | Mode::Running | Mode::Holding | Mode::Yielded | Mode::Forfeited => {
                unreachable!("{mode:?} is no way to wait")
            }
        }
    }
    /// The owner waits as `mode`.
    pub(super) fn enqueue(&mut self, key: Key, mode: Mode, asker: Asker) -> Step {
        let now = self.clock.now();
        self.tickets += 1;
        let ticket = self.tickets;
        self.change(key, |owner| {
            owner.mode = mode;
            (owner.queued_at, owner.ticket) = (now, ticket);
            owner.outcome = None;
            owner.wake = Some(match asker {
                Asker::Thread | Asker::Impatient => Wake::Thread(owner.condvar.clone()),
                Asker::Task => Wake::Task(None),
            });
        });
        let mut queue = std::mem::take(self.queue(mode));
        queue.push_back(&mut self.owners, key);
        *self.queue(mode) = queue;
        Step::Wait
    }
    pub(super) fn unlink(&mut self, key: Key) {
        let mode = self.owner(key).mode;
        if mode.is_queued() {
            let mut queue = std::mem::take(self.queue(mode));
            queue.remove(&mut self.owners, key);
            *self.queue(mode) = queue;
        }
    }
    /// The wait of an owner that was queued is over.
    pub(super) fn resolve(&mut self, key: Key, outcome: Outcome) {
        let owner = &mut self.owners[key.index()];
        owner.outcome = Some(outcome);
        self.wakes.extend(owner.wake.take());
    }

    /// Guard N: nobody holds, and every entry accepts a new sharer.
    fn may_enter(&self) -> bool {
        self.holder.is_none() && self.tally.reject_share == 0
    }
    /// Guard X, for an owner whose own share and entry do not count.
    fn may_hold(&self, key: Key, purpose: Purpose) -> bool {
        let own = self.owner(key).tally();
        let others = self.running() - own.running;
        let rejecting = self.tally.reject_unload - own.reject_unload;
        self.holder.is_none() && others == 0 && (purpose == Purpose::Load || rejecting == 0)
    }
    /// Guard E: somebody who had a share waits for its turn, and all others let it go first.
    pub(super) fn has_turns(&self, after: Purpose) -> bool {
        let [loads, unloads] = &self.upgrading;
        !loads.is_empty()
            || after == Purpose::Unload && !unloads.is_empty() && self.tally.reject_unload == 0
    }

    /// Out → Running. A descendant of a live execution waits for the holder alone.
    pub(super) fn enter(&mut self, key: Key, descends: bool, asker: Asker) -> Option<Step> {
        self.renew(key, Mode::Out);
        let may = if descends { self.holder.is_none() } else { self.may_enter() };
        if may {
            self.set_mode(key, Mode::Running);
            return Some(Step::Done);
        }
        let mode = if descends { Mode::Arriving } else { Mode::Entering };
        (asker != Asker::Impatient).then(|| self.enqueue(key, mode, asker))
    }
    /// Yielded → Running, on top of the frame.
    pub(super) fn enter_frame(&mut self, key: Key, asker: Asker) -> Option<Step> {
        if self.owner(key).mode == Mode::Forfeited {
            // It has no part in anything any more: its guards find out.
            return Some(Step::Done);
        }
        if self.holder.is_none() {
            self.set_mode(key, Mode::Running);
            return Some(Step::Done);
        }
        (asker != Asker::Impatient).then(|| self.enqueue(key, Mode::Arriving, asker))
    }
    /// Running → Yielded: the share on top of the frame is given back.
    pub(super) fn leave_frame(&mut self, key: Key) {
        if self.owner(key).mode == Mode::Running {
            self.set_mode(key, Mode::Yielded);
        }
    }

    /// Out → Waiting or Holding: a request without a share.
    pub(super) fn request(&mut self, key: Key, purpose: Purpose, asker: Asker) -> Option<Step> {
        self.renew(key, Mode::Out);
        self.acquire(key, purpose, asker)
    }
    /// Running → Holding, or Waiting. None: it would have to wait, and nothing has changed.
    pub(super) fn acquire(&mut self, key: Key, purpose: Purpose, asker: Asker) -> Option<Step> {
        let upgrading = self.owner(key).mode == Mode::Running;
        if self.may_hold(key, purpose) {
            self.hold(key, purpose, upgrading);
            return Some(Step::Done);
        }
        if asker == Asker::Impatient {
            return None;
        }
        Some(self.enqueue(key, Mode::Waiting { purpose, upgrading }, asker))
    }
    pub(super) fn hold(&mut self, key: Key, purpose: Purpose, upgraded: bool) {
        self.set_mode(key, Mode::Holding);
        self.holder = Some(Holder { key, purpose, depth: 1, upgraded });
    }
    /// Holding → Draining, Running or Out. `done`: something was loaded or unloaded.
    pub(super) fn release(&mut self, key: Key, done: bool, drain: Option<Asker>) -> Step {
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.key == key) else {
            return Step::Done; // Forfeited.
        };
        holder.depth -= 1;
        if holder.depth > 0 {
            return Step::Done;
        }
        let Holder { purpose, upgraded, .. } = *holder;
        self.let_go(done);
        if !upgraded {
            self.set_mode(key, Mode::Out);
        } else if let Some(asker) = drain
            && self.has_turns(purpose)
        {
            return self.enqueue(key, Mode::Draining(purpose), asker);
        } else {
            self.set_mode(key, Mode::Running);
        }
        Step::Done
    }
    fn let_go(&mut self, done: bool) {
        if self.holder.take().is_some_and(|holder| done && holder.purpose == Purpose::Unload) {
            self.generation += 1;
        }
    }

    /// Running → Yielded, in one more frame.
    pub(super) fn permit(&mut self, key: Key) {
        self.change(key, |owner| {
            owner.permits += 1;
            owner.mode = Mode::Yielded;
        });
    }
    /// Yielded → Running, or Resuming: the frame is left with the share that was saved in it.
    pub(super) fn end_permit(&mut self, key: Key, asker: Asker) -> Step {
        if self.owner(key).mode == Mode::Forfeited {
            return Step::Done;
        }
        if self.holder.is_none() {
            self.resume(key, true);
            return Step::Done;
        }
        self.enqueue(key, Mode::Resuming { ends_permit: true }, asker)
    }
    pub(super) fn resume(&mut self, key: Key, ends_permit: bool) {
        self.change(key, |owner| {
            owner.permits -= u32::from(ends_permit);
            owner.mode = Mode::Running;
        });
    }

    /// Who waits gives up. Where it was to get or to give back its share, it is to get it back: with a
    /// holder there, it waits for that as `asker`.
    pub(super) fn cancel(&mut self, key: Key, asker: Asker) -> Step {
        let mode = self.owner(key).mode;
        self.unlink(key);
        self.owners[key.index()].wake = None;
        match mode {
            Mode::Entering | Mode::Waiting { upgrading: false, .. } => {
                self.set_mode(key, Mode::Out);
            }
            Mode::Arriving => {
                let on_frame = self.owner(key).permits > 0;
                self.set_mode(key, if on_frame { Mode::Yielded } else { Mode::Out });
            }
            Mode::Waiting { upgrading: true, .. } | Mode::Draining(_) | Mode::Resuming { .. } => {
                let ends_permit = mode == Mode::Resuming { ends_permit: true };
                if self.holder.is_some() {
                    return self.enqueue(key, Mode::Resuming { ends_permit }, asker);
                }
                self.resume(key, ends_permit);
            }
            Mode::Out | Mode::Running | Mode::Holding | Mode::Yielded | Mode::Forfeited => {}
        }
        Step::Done
    }

    /// Its share is to come back after something that was dropped. None if there is none to come.
    pub(super) fn recover(&mut self, key: Key, asker: Asker) -> Option<Step> {
        self.adopt(key);
        match self.owner(key).mode {
            Mode::Running => Some(Step::Done),
            Mode::Resuming { .. } => Some(self.cancel(key, asker)),
            _ => None,
        }
    }

    /// Whatever it does → Out: the execution is over.
    pub(super) fn leave(&mut self, key: Key) {
        if self.owner(key).mode == Mode::Forfeited {
            self.forfeited -= 1;
        }
        self.take_out(key, Mode::Out);
    }
    /// Whatever it does → Forfeited: it counts for nothing from now on.
    pub(super) fn forfeit(&mut self, key: Key) {
        let waits = self.owner(key).mode.is_queued();
        self.take_out(key, Mode::Forfeited);
        self.forfeited += 1;
        if waits {
            self.resolve(key, Outcome::Forfeited);
        }
    }
    fn take_out(&mut self, key: Key, mode: Mode) {
        self.unlink(key);
        if self.holder.is_some_and(|holder| holder.key == key) {
            self.let_go(true);
        }
        self.change(key, |owner| (owner.mode, owner.permits, owner.declared) = (mode, 0, 0));
    }

    /// A child is born.
    pub(super) fn add_child(&mut self, parent: OwnerId) {
        self.change(parent.key(), |owner| {
            if owner.children.of != parent {
                owner.children = Children { of: parent, alive: 0, waiting: 0 };
            }
            owner.children.alive += 1;
        });
    }
    /// A child's token was dropped, or its execution is over.
    pub(super) fn remove_child(&mut self, parent: OwnerId) {
        self.change(parent.key(), |owner| {
            // Of an execution that is over, none are counted.
            if owner.children.of == parent {
                owner.children.alive -= 1;
            }
        });
    }
}

impl Owner {
    pub(super) fn id(&self) -> OwnerId {
        self.vitals.id()
    }
    /// Its children that live, and those of them that wait until it has no share.
    pub(super) fn live_children(&self) -> (usize, usize) {
        let Children { of, alive, waiting } = self.children;
        if of == self.id() { (alive, waiting) } else { (0, 0) }
    }
    /// Its parent, if it is to have no share before this one goes on.
    pub(super) fn waits_for_parent(&self) -> Option<OwnerId> {
        let parent = self.parent.filter(|parent| parent.token && parent.of == self.id())?;
        matches!(self.mode, Mode::Waiting { upgrading: true, .. }).then_some(parent.id)
    }
    /// What it adds to the counts.
    pub(super) fn tally(&self) -> Tally {
        let (mut reject_share, mut reject_unload) = (false, self.permits > 0);
        match self.mode {
            Mode::Waiting { purpose, upgrading } => {
                reject_share = true;
                reject_unload |= upgrading && purpose == Purpose::Load;
            }
            Mode::Draining(purpose) => {
                reject_share = true;
                reject_unload |= purpose == Purpose::Load;
            }
            _ => {}
        }
        Tally {
            running: usize::from(self.mode == Mode::Running),
            reject_share: usize::from(reject_share),
            reject_unload: usize::from(reject_unload),
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
