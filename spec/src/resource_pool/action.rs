//! The actions, one for each critical section, and their kinds and fairness.

use crate::checking::machine::UNFAIR;
use crate::resource_pool::state::{At, ClientId, Event, Key, Limits, ResourcePool, Slot};

/// One critical section. `at` is an index into the list of the affected resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it, and the functions that carry them out")]
pub enum Action {
    Borrow {
        client: ClientId,
        key: Key,
        waits: bool,
    },
    Retry {
        client: ClientId,
    },
    /// A borrower picks up its grant.
    PickUp {
        client: ClientId,
    },
    VictimDestroyed {
        client: ClientId,
    },
    Created {
        client: ClientId,
    },
    Ready {
        client: ClientId,
    },
    CreateFails {
        client: ClientId,
    },
    ActivateFails {
        client: ClientId,
    },
    GiveUp {
        client: ClientId,
    },
    Cancel {
        client: ClientId,
    },
    Return {
        client: ClientId,
    },
    Invalidate {
        client: ClientId,
    },
    Detach {
        client: ClientId,
    },
    Die {
        client: ClientId,
    },
    Expire {
        client: ClientId,
    },
    Destroyed {
        at: usize,
    },
    Add {
        key: Key,
    },
    /// An addition up to the minimum.
    Refill {
        key: Key,
    },
    Added {
        at: usize,
    },
    AddFails {
        at: usize,
    },
    /// The victim of an ordered creation is destroyed, so it begins.
    VictimGone {
        at: usize,
    },
    /// An ordered creation takes so long that it may hang.
    Overdue {
        at: usize,
    },
    /// A creation begins to hang.
    Hangs {
        at: usize,
    },
    /// The runtime has ended, and drops the task of an ordered creation.
    Lost {
        at: usize,
    },
    /// There is a place to run creations again.
    RuntimeIsBack,
    Test {
        at: usize,
    },
    Tested {
        at: usize,
        valid: bool,
    },
    Age {
        at: usize,
    },
    Outlive {
        at: usize,
    },
    Evict {
        at: usize,
        hard: bool,
    },
    Clear,
    ClearAll,
    Close,
    Resize(Limits),
}

/// The kinds of actions, for liveness: some may go on for ever.
pub mod kind {
    /// An operation goes on, or a borrowed resource is returned.
    pub const OWN: u8 = 0;
    /// An operation fails.
    pub const FAILS: u8 = 1;
    /// A borrower borrows.
    pub const BORROW: u8 = 2;
    /// A borrower gives up.
    pub const GIVE_UP: u8 = 3;
    /// Any other action.
    pub const OTHERS: u8 = 4;
    /// A resource from the idle list cannot be activated, or is invalid.
    pub const IDLE_FAILS: u8 = 5;
    /// A resource or a creation becomes outdated, or the runtime drops it.
    pub const OUTDATES: u8 = 6;
}

impl Action {
    /// Returns the kind and the fairness class. These are fair, each by itself:
    ///
    /// * for each borrower: its operations go on, and it returns its resource;
    /// * for each key: resources that leave are destroyed, creations finish or become overdue, additions finish, tests finish, the idle
    ///   list is refilled, and due resources are evicted.
    pub fn kind_and_class(&self, s: &ResourcePool) -> (u8, u8) {
        let of = |group: usize, place: usize| (group * 8 + place) as u8;
        match *self {
            Action::PickUp { client }
            | Action::VictimDestroyed { client }
            | Action::Created { client }
            | Action::Ready { client }
            | Action::Return { client }
            | Action::Retry { client } => (kind::OWN, of(0, client)),
            Action::CreateFails { client }
            | Action::Invalidate { client }
            | Action::Detach { client }
            | Action::Die { client } => (kind::FAILS, of(0, client)),
            Action::ActivateFails { client } => match s.clients[client] {
                At::Activating { fresh: false, .. } => (kind::IDLE_FAILS, of(0, client)),
                _ => (kind::FAILS, of(0, client)),
            },
            Action::Destroyed { at } => (kind::OWN, of(1, s.leaving[at].key)),
            Action::Added { at } | Action::AddFails { at } => {
                let Slot { key, ordered, hangs, .. } = s.adding[at];
                let place = if ordered > 0 { key } else { 4 + key };
                // A creation that hangs ends by its limit.
                let fails = matches!(self, Action::AddFails { .. }) && !hangs;
                (if fails { kind::FAILS } else { kind::OWN }, of(2, place))
            }
            Action::Overdue { at } => (kind::OWN, of(6, s.adding[at].key)),
            Action::VictimGone { at } => (kind::OWN, of(7, s.adding[at].key)),
            Action::Tested { at, valid } => {
                (if valid { kind::OWN } else { kind::FAILS }, of(3, s.idle[at].slot.key))
            }
            Action::Refill { key } => (kind::OWN, of(4, key)),
            Action::Evict { at, hard: false } => (kind::OWN, of(5, s.idle[at].slot.key)),
            Action::Borrow { .. } => (kind::BORROW, UNFAIR),
            Action::ClearAll
            | Action::Expire { .. }
            | Action::Outlive { .. }
            | Action::Lost { .. } => (kind::OUTDATES, UNFAIR),
            Action::GiveUp { .. } | Action::Cancel { .. } => (kind::GIVE_UP, UNFAIR),
            _ => (kind::OTHERS, UNFAIR),
        }
    }
}

impl ResourcePool {
    /// Carries an action out and returns its events.
    pub fn apply(&mut self, action: &Action) -> &[Event] {
        self.events.clear();
        match *action {
            Action::Borrow { client, key, waits } => self.borrow(client, key, waits),
            Action::Retry { client } => self.retry(client),
            Action::PickUp { client } => self.pick_up(client),
            Action::VictimDestroyed { client } => self.victim_destroyed(client),
            Action::Created { client } => self.created(client),
            Action::Ready { client } => self.ready(client),
            Action::CreateFails { client } => self.create_fails(client),
            Action::ActivateFails { client } => self.activate_fails(client),
            Action::GiveUp { client } => self.give_up(client),
            Action::Cancel { client } => self.cancel(client),
            Action::Return { client } => self.give_back(client),
            Action::Invalidate { client } => self.invalidate(client),
            Action::Detach { client } => self.detach(client),
            Action::Die { client } => self.die(client),
            Action::Expire { client } => self.expire(client),
            Action::Destroyed { at } => self.destroyed(at),
            Action::Add { key } => drop(self.add(key)),
            Action::Refill { key } => self.refill(key),
            Action::Added { at } => self.added(at, true),
            Action::AddFails { at } => self.added(at, false),
            Action::VictimGone { at } => self.victim_gone(at),
            Action::Overdue { at } => self.overdue(at),
            Action::Hangs { at } => self.adding[at].hangs = true,
            Action::Lost { at } => self.lost(at),
            Action::RuntimeIsBack => self.runtime_is_back(),
            Action::Test { at } => self.test(at),
            Action::Tested { at, valid } => self.tested(at, valid),
            Action::Age { at } => self.age(at),
            Action::Outlive { at } => self.outlive(at),
            Action::Evict { at, hard } => self.evict(at, hard),
            Action::Clear => self.clear(),
            Action::ClearAll => self.clear_all(),
            Action::Close => self.close(),
            Action::Resize(limits) => self.resize(limits),
        }
        if self.keys().len() > 1 {
            self.look_at_keys();
        }
        &self.events
    }
}
