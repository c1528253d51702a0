//! The machine that is explored: a pool, its borrowers, and the possible actions.

use crate::checking::machine::Machine;
use crate::resource_pool::action::{Action, kind};
use crate::resource_pool::rules::Defect::ForgottenWaiter;
use crate::resource_pool::rules::Planted::{DestroysForEver, NeverRefills};
use crate::resource_pool::rules::Rules;
use crate::resource_pool::state::{
    At, ClientId, Idle, Key, Limits, Options, ResourcePool, Slot, Test,
};
use std::collections::BTreeMap;

/// An optional event, beside borrowing, creating, returning and destroying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum May {
    CreateFail,
    ActivateFail,
    /// A new resource cannot be activated, or is invalid.
    FreshFail,
    Invalidate,
    Detach,
    Die,
    Try,
    GiveUp,
    /// A borrower leaves, and its creation is dropped.
    Cancel,
    /// A creation that the pool ordered becomes overdue.
    Overdue,
    /// Creations take so long that each becomes overdue before it ends.
    Slow,
    /// Creations may hang until their limit ends them.
    Hang,
    /// The runtime ends, and comes back.
    RuntimeEnds,
    Add,
    Test,
    /// Idle resources become due, and are evicted softly.
    Age,
    /// Idle resources become due, and are evicted below the minimum, too.
    AgeHard,
    /// Idle resources, and grants that were not picked up, expire.
    Outlive,
    Expire,
    Clear,
    ClearAll,
    Close,
}

/// A pool to be explored.
#[derive(Clone, Debug)]
pub struct Config {
    /// The behaviour that it explores.
    pub about: &'static str,
    /// The number of keys.
    pub keys: usize,
    /// For each borrower, the keys that it borrows.
    pub clients: Vec<Vec<Key>>,
    /// The options.
    pub options: Options,
    /// The initial limits.
    pub limits: Limits,
    /// The limits to which they may change.
    pub resize: Vec<Limits>,
    /// The events that may happen.
    pub may: Vec<May>,
    /// The rules.
    pub rules: Rules,
}

impl Config {
    fn may(&self, what: May) -> bool {
        self.may.contains(&what)
    }

    fn client_acts(&self, s: &ResourcePool, client: ClientId, out: &mut Vec<Action>) {
        let able = |what: May, action: Action| self.may(what).then_some(action);
        match s.clients[client] {
            At::Out => {
                for &key in &self.clients[client] {
                    out.extend(able(May::Try, Action::Borrow { client, key, waits: false }));
                    out.push(Action::Borrow { client, key, waits: true });
                }
            }
            At::Waiting(_) => out.extend(able(May::GiveUp, Action::GiveUp { client })),
            At::Called(_) => {
                out.extend(able(May::GiveUp, Action::GiveUp { client }));
                out.push(Action::Retry { client });
            }
            At::Evicting { slot, granted: true, .. }
            | At::Creating { slot, granted: true, .. }
            | At::Activating { slot, granted: true, .. } => {
                out.extend(able(May::GiveUp, Action::GiveUp { client }));
                out.extend(able(May::Outlive, Action::Expire { client }).filter(|_| !slot.expired));
                // The Elixir pool validates a resource at its hand-off.
                let is_stock = matches!(s.clients[client], At::Activating { .. });
                let fails = able(May::ActivateFail, Action::ActivateFails { client });
                out.extend(fails.filter(|_| is_stock && s.original(ForgottenWaiter)));
                out.push(Action::PickUp { client });
            }
            At::Evicting { .. } => out.push(Action::VictimDestroyed { client }),
            At::Creating { .. } => {
                out.extend(able(May::CreateFail, Action::CreateFails { client }));
                out.extend(able(May::Cancel, Action::Cancel { client }));
                out.push(Action::Created { client });
            }
            At::Activating { fresh, .. } => {
                let fails = if fresh { May::FreshFail } else { May::ActivateFail };
                out.extend(able(fails, Action::ActivateFails { client }));
                out.extend(able(May::Cancel, Action::Cancel { client }));
                out.push(Action::Ready { client });
            }
            At::Lent(slot) => {
                out.extend(able(May::Invalidate, Action::Invalidate { client }));
                out.extend(able(May::Detach, Action::Detach { client }));
                out.extend(able(May::Die, Action::Die { client }));
                out.extend(able(May::Expire, Action::Expire { client }).filter(|_| !slot.expired));
                out.push(Action::Return { client });
            }
        }
    }

    fn idle_acts(&self, s: &ResourcePool, out: &mut Vec<Action>) {
        if !s.planted(DestroysForEver) {
            out.extend((0..s.leaving.len()).map(|at| Action::Destroyed { at }));
        }
        for (at, slot) in s.adding.iter().enumerate() {
            let ordered = slot.ordered > 0;
            if self.may(May::RuntimeEnds) && ordered {
                out.push(Action::Lost { at });
            }
            if slot.evicts.is_some() {
                out.push(Action::VictimGone { at });
                continue;
            }
            let late = !ordered || slot.overdue;
            if !slot.hangs && (late || !self.may(May::Slow)) {
                out.push(Action::Added { at });
            }
            if self.may(May::CreateFail) || slot.hangs && late {
                out.push(Action::AddFails { at });
            }
            if self.may(May::Overdue) && !late {
                out.push(Action::Overdue { at });
            }
            if self.may(May::Hang) && ordered && !slot.hangs {
                out.push(Action::Hangs { at });
            }
        }
        if s.options.creates && !s.creates {
            out.push(Action::RuntimeIsBack);
        }
        let ages = self.may(May::Age) || self.may(May::AgeHard);
        for (at, idle) in s.idle.iter().enumerate() {
            if idle.test != Test::No {
                out.extend([true, false].map(|valid| Action::Tested { at, valid }));
                continue;
            }
            if self.may(May::Test) {
                out.push(Action::Test { at });
            }
            if ages && !idle.due {
                out.push(Action::Age { at });
            }
            if self.may(May::Outlive) && !idle.expired {
                out.push(Action::Outlive { at });
            }
            if s.may_evict(idle, false) {
                out.push(Action::Evict { at, hard: false });
            }
            if self.may(May::AgeHard) && s.may_evict(idle, true) {
                out.push(Action::Evict { at, hard: true });
            }
        }
        for key in s.keys() {
            if self.may(May::Add) && s.has_room_to_add(key) && !s.closed {
                out.push(Action::Add { key });
            }
            if s.wants_refill(key) && !s.planted(NeverRefills) {
                out.push(Action::Refill { key });
            }
        }
    }

    fn pool_acts(&self, s: &ResourcePool, out: &mut Vec<Action>) {
        let makes_room = |at: &At| matches!(at, At::Evicting { granted: true, .. });
        let has_idle = !s.idle.is_empty() || s.clients.iter().any(makes_room);
        if self.may(May::Clear) && has_idle {
            out.push(Action::Clear);
        }
        if self.may(May::ClearAll) && s.num_total() > s.leaving.len() {
            out.push(Action::ClearAll);
        }
        if self.may(May::Close) && !s.closed {
            out.push(Action::Close);
        }
        let others = self.resize.iter().filter(|&&limits| limits != s.limits);
        out.extend(others.map(|&limits| Action::Resize(limits)));
    }
}

impl Machine for Config {
    type State = ResourcePool;
    type Action = Action;

    fn initial(&self) -> ResourcePool {
        ResourcePool::new(self.rules, self.options, self.limits, self.keys, self.clients.len())
    }

    fn actions(&self, s: &ResourcePool) -> Vec<Action> {
        let mut out = vec![];
        (0..s.clients.len()).for_each(|client| self.client_acts(s, client, &mut out));
        self.idle_acts(s, &mut out);
        self.pool_acts(s, &mut out);
        out
    }

    fn step(&self, s: &ResourcePool, action: &Action) -> ResourcePool {
        let mut next = s.clone();
        next.apply(action);
        next
    }

    /// Clears the events and renumbers slots, tickets and times: only their order matters. Of a leaving resource only
    /// the key matters, and of a victim once its grant was picked up. The age of a closed pool's lent resources does
    /// not matter.
    fn normal(&self, s: &mut ResourcePool) {
        s.events.clear();
        for at in &mut s.clients {
            if let At::Evicting { victim, granted: false, .. } = at {
                let slot = Slot { old: false, expired: false, ..victim.slot };
                *victim = Idle { slot, since: 0, due: false, expired: false, ..*victim };
            }
        }
        let closed = s.closed;
        let mut numbers = BTreeMap::new();
        let mut renumber = |slot: &mut Slot, forget: bool| {
            let next = numbers.len() + 1;
            slot.id = *numbers.entry(slot.id).or_insert(next);
            if let Some((victim, _)) = &mut slot.evicts {
                let next = numbers.len() + 1;
                *victim = *numbers.entry(*victim).or_insert(next);
            }
            if forget {
                (slot.old, slot.expired) = (false, false);
            }
        };
        s.idle.iter_mut().for_each(|idle| renumber(&mut idle.slot, false));
        s.adding.iter_mut().for_each(|slot| renumber(slot, false));
        s.leaving.iter_mut().for_each(|slot| renumber(slot, true));
        for at in &mut s.clients {
            let lent = matches!(at, At::Lent(_));
            at.slots_mut().for_each(|slot| renumber(slot, closed && lent));
        }
        s.made = numbers.len();
        let victims = s.clients.iter().filter_map(|at| match at {
            At::Evicting { victim, granted: true, .. } => Some(victim),
            _ => None,
        });
        let mut came: Vec<usize> = s.idle.iter().chain(victims).map(|idle| idle.since).collect();
        let idle = came.len();
        came.extend(s.line.iter().map(|waiter| waiter.ticket));
        let called = |at: &At| if let At::Called(waiter) = at { Some(waiter.ticket) } else { None };
        came.extend(s.clients.iter().filter_map(called));
        let creates = s.options.creates;
        for (at, ticket) in s.clients.iter().zip(&mut s.tickets) {
            // The ticket of a waiter is in the line.
            if !creates || !matches!(at, At::Activating { .. }) {
                *ticket = 0;
            }
        }
        came.extend(s.tickets.iter().filter(|&&ticket| ticket > 0));
        if !creates {
            // Only whether it was ordered matters.
            s.adding.iter_mut().for_each(|slot| slot.ordered = slot.ordered.min(1));
        }
        let ordered = s.adding.iter().map(|slot| slot.ordered);
        came.extend(ordered.filter(|&ordered| creates && ordered > 0));
        let mut waits = came.split_off(idle);
        waits.sort_unstable();
        waits.dedup();
        let rank = |among: &[usize], number: usize| among.iter().filter(|&&n| n < number).count();
        s.adding.iter_mut().filter(|slot| creates && slot.ordered > 0).for_each(|slot| {
            slot.ordered = rank(&waits, slot.ordered) + 1;
        });
        s.tickets.iter_mut().filter(|ticket| **ticket > 0).for_each(|ticket| {
            *ticket = rank(&waits, *ticket) + 1;
        });
        s.came = came.len().max(waits.len() + 1);
        s.idle.iter_mut().for_each(|idle| idle.since = rank(&came, idle.since));
        s.line.iter_mut().for_each(|waiter| waiter.ticket = rank(&waits, waiter.ticket) + 1);
        for at in &mut s.clients {
            match at {
                At::Called(waiter) => waiter.ticket = rank(&waits, waiter.ticket) + 1,
                At::Evicting { victim, granted: true, .. } => {
                    victim.since = rank(&came, victim.since);
                }
                _ => {}
            }
        }
    }

    /// Returns whether a borrower waits and no operation of the pool can help it.
    fn stuck(&self, s: &ResourcePool, actions: &[Action]) -> bool {
        let waits = |at: &At| matches!(at, At::Waiting(_) | At::Called(_));
        s.clients.iter().any(waits)
            && !actions.iter().any(|action| action.kind_and_class(s).0 == kind::OWN)
    }
}
