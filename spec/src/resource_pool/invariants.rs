//! The invariants: name, sentence, formula.

use crate::checking::promises::invariants;
use crate::resource_pool::machine::Config;
use crate::resource_pool::state::{At, Idle, Key, ResourcePool, Test, WhenExhausted};

invariants! {
    Config:
    "INV-RP-COUNTS" "active counts the resources of a key that are lent or activated for a borrower; total also counts those that are idle, being added, or not destroyed yet, and eviction victims for other keys"
        |_, s| s.keys().all(|key| {
            let active = s.clients.iter().filter(|at| is_of(at, key)).count();
            let leaving = s.leaving.iter().filter(|slot| slot.key == key).count();
            s.active[key] == active
                && s.total[key]
                    == active + s.idle_of(key).count() + s.adding_of(key) + leaving + s.victims_for_others(key)
        });
    "INV-RP-MAX-ACTIVE" "no more than max_active of a key are active, if the pool does not grow"
        |c, s| c.is_resized() || s.options.when_exhausted == WhenExhausted::Grow
            || s.keys().all(|key| s.limits.max_active.allows(s.active[key]));
    "INV-RP-MAX-TOTAL" "no more than max_total resources exist, including those being created and destroyed"
        |c, s| c.is_resized() || s.limits.max_total.allows(s.num_total());
    "INV-RP-MAX-TOTAL-PER-KEY" "no more than max_total_per_key resources of a key exist until the end of their destruction, including eviction victims for other keys"
        |c, s| c.is_resized()
            || s.keys().all(|key| s.limits.max_total_per_key.allows(s.total[key]));
    "INV-RP-MAX-IDLE" "no more than max_idle resources of a key are idle and not under test, beside one for each called waiter"
        |c, s| c.is_resized() || s.keys().all(|key| s.limits.max_idle.allows(idle(s, key)));
    "INV-RP-ONE-PLACE" "a resource is in one place: idle, with one borrower, being added, or leaving"
        |_, s| {
            let mut all = present(s);
            all.sort_unstable();
            all.windows(2).all(|two| two[0] != two[1])
        };
    "INV-RP-EXACT-WAKE-UP" "if the pool is fair, a borrower that could be served does not wait"
        |_, s| !s.options.fair || s.line.iter().all(|waiter| !could_be_served(s, waiter.key));
    "INV-RP-BARGING" "if newcomers may barge: a waiter could be served only while the called waiters match the free resources and places, in total or of its key"
        |_, s| {
            let is_enough = |key: Key| {
                let called = |at: &&At| matches!(at, At::Called(waiter) if waiter.key == key);
                let of_key = s.clients.iter().filter(called).count();
                let in_all = s.clients.iter().filter(|at| matches!(at, At::Called(_))).count();
                // Where the pool creates, a waiter is called to an idle resource of its key alone.
                let or_none = |places: usize| if s.creates { 0 } else { places };
                let places = or_none(s.limits.max_total_per_key.left(s.total[key]));
                let available = s.idle_of(key).filter(takeable).count();
                let idle = s.idle.iter().filter(takeable).count();
                in_all >= idle.saturating_add(or_none(s.limits.max_total.left(s.num_total())))
                    || of_key >= available.saturating_add(places)
                    || of_key >= s.limits.max_active.left(s.active[key])
            };
            s.options.fair
                || s.line.iter().all(|w| !could_be_served(s, w.key) || is_enough(w.key))
        };
    "INV-RP-MAX-CREATING" "no more than max_creating creations are in flight that are not overdue, if the pool creates"
        |_, s| !s.creates || s.options.max_creating.allows(s.adding.iter().filter(|slot| slot.ordered > 0 && !slot.overdue).count());
    "INV-RP-WAITING" "exactly the waiting borrowers are in line, once each"
        |_, s| (0..s.clients.len()).all(|client| {
            let in_line = s.line.iter().filter(|waiter| waiter.client == client);
            let keys: Vec<Key> = in_line.map(|waiter| waiter.key).collect();
            match s.clients[client] {
                At::Waiting(key) => keys == [key],
                _ => keys.is_empty(),
            }
        });
    "INV-RP-LINE" "the line is in the order of arrival"
        |_, s| s.line.windows(2).all(|two| two[0].ticket < two[1].ticket);
    "INV-RP-IDLE-ORDER" "the idle list is in the order in which its resources became idle"
        |_, s| s.idle.windows(2).all(|two| two[0].since < two[1].since);
    "INV-RP-CLOSED" "a closed pool has no waiter and orders no creation, and its idle resources are under test and must leave"
        |_, s| !s.closed
            || s.line.is_empty() && s.adding.iter().all(|slot| slot.ordered == 0) && s.idle.iter().all(|idle| idle.test == Test::Doomed);
    "INV-RP-EPOCH" "a resource that is older than clear_all is idle only while it is under test and must leave"
        |_, s| s.idle.iter().all(|idle| !idle.slot.old || idle.test == Test::Doomed);
    "INV-RP-LIFETIME" "a resource that outlived its lifetime while lent is not idle"
        |_, s| s.idle.iter().all(|idle| !idle.slot.expired);
}

impl Config {
    /// Returns whether limits may be lowered. Then existing resources may exceed them, and no more are added
    /// (PROP-RP-WITHIN).
    fn is_resized(&self) -> bool {
        !self.resize.is_empty()
    }
}

fn is_of(at: &At, key: Key) -> bool {
    at.slot().is_some_and(|slot| slot.key == key)
}

/// Returns whether an idle resource may be lent or evicted.
pub(crate) fn takeable(idle: &&Idle) -> bool {
    idle.test == Test::No
}

/// Returns how many idle resources of a key are not under test, beyond those of called waiters.
pub(crate) fn idle(s: &ResourcePool, key: Key) -> usize {
    s.idle_of(key).filter(takeable).count().saturating_sub(s.called(|waiter| waiter.key == key))
}

/// Returns whether a borrower of the key could be served, computed independently of `serving`.
pub(crate) fn could_be_served(s: &ResourcePool, key: Key) -> bool {
    let grows = s.options.when_exhausted == WhenExhausted::Grow;
    let may_be_lent = grows || s.limits.max_active.allows(s.active[key] + 1);
    // An expired resource is at least a victim, where borrowers create.
    let has_idle = s.idle_of(key).any(|idle| takeable(&idle) && !(s.creates && idle.expired));
    let is_victim = |idle: &Idle| takeable(&idle) && idle.slot.key != key;
    let has_place = !s.creates
        && s.limits.max_total_per_key.allows(s.total[key] + 1)
        && (s.limits.max_total.allows(s.num_total() + 1) || s.idle.iter().any(is_victim));
    !s.closed && may_be_lent && (has_idle || has_place)
}

/// Returns every existing resource and reserved place, including eviction victims.
pub(crate) fn present(s: &ResourcePool) -> Vec<usize> {
    let of_clients = s
        .clients
        .iter()
        .flat_map(|at| at.slot().into_iter().chain(at.victim().map(|victim| &victim.slot)));
    let idle = s.idle.iter().map(|idle| &idle.slot);
    let victims = s.adding.iter().chain(&s.leaving).filter_map(|slot| slot.evicts);
    let slots = idle.chain(&s.adding).chain(&s.leaving).chain(of_clients);
    slots.map(|slot| slot.id).chain(victims.map(|(victim, _)| victim)).collect()
}
