//! The invariants: name, sentence, formula. Each holds in every state.

use crate::resource_pool::machine::Config;
use crate::resource_pool::properties::idle;
use crate::resource_pool::state::{At, Idle, Key, ResourcePool, Test, WhenExhausted};

/// Something that holds in every state.
pub struct Invariant {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    /// Whether it holds.
    pub holds: fn(&Config, &ResourcePool) -> bool,
}

macro_rules! invariants {
    ($($name:literal $says:literal $holds:expr;)*) => {
        /// All of them.
        pub const INVARIANTS: &[Invariant] =
            &[$(Invariant { name: $name, says: $says, holds: $holds }),*];
    };
}

invariants! {
    "INV-RP-COUNTS" "active is how many of a key are lent or made ready for a borrower; total is these, the idle ones, those being added, and those not destroyed yet, those included that make room for another key"
        |_, s| s.keys().all(|key| {
            let active = s.clients.iter().filter(|at| is_of(at, key)).count();
            let leaving = s.leaving.iter().filter(|slot| slot.key == key).count();
            s.active[key] == active
                && s.total[key]
                    == active + s.idle_of(key).count() + s.adding_of(key) + leaving + s.making_room(key)
        });
    "INV-RP-MAX-ACTIVE" "no more than max_active of a key are active, if the pool does not grow"
        |c, s| c.is_resized() || s.options.when_exhausted == WhenExhausted::Grow
            || s.keys().all(|key| s.limits.max_active.allows(s.active[key]));
    "INV-RP-MAX-TOTAL" "no more than max_total exist, those included that are being made and destroyed"
        |c, s| c.is_resized() || s.limits.max_total.allows(s.num_total());
    "INV-RP-MAX-TOTAL-PER-KEY" "nor more than max_total_per_key of a key, to the end of their destruction: also of what makes room for another key"
        |c, s| c.is_resized()
            || s.keys().all(|key| s.limits.max_total_per_key.allows(s.total[key]));
    "INV-RP-MAX-IDLE" "no more than max_idle of a key lie idle that are not being tested, and one for each who was called"
        |c, s| c.is_resized() || s.keys().all(|key| s.limits.max_idle.allows(idle(s, key)));
    "INV-RP-ONE-PLACE" "a resource is in one place: idle, with one borrower, being added, or leaving"
        |_, s| {
            let mut all = present(s);
            all.sort_unstable();
            all.windows(2).all(|two| two[0] != two[1])
        };
    "INV-RP-EXACT-WAKE-UP" "nobody waits who could be served, if the pool is fair"
        |_, s| !s.options.fair || s.line.iter().all(|waiter| !could_be_served(s, waiter.key));
    "INV-RP-BARGING" "nobody waits who could be served, unless as many are called already as there are things to be had, in all or for its key; if newcomers may barge"
        |_, s| {
            let is_enough = |key: Key| {
                let called = |at: &&At| matches!(at, At::Called(waiter) if waiter.key == key);
                let of_key = s.clients.iter().filter(called).count();
                let in_all = s.clients.iter().filter(|at| matches!(at, At::Called(_))).count();
                let places = s.limits.max_total_per_key.left(s.total[key]);
                let stock = s.idle_of(key).filter(takeable).count();
                let in_stock = s.idle.iter().filter(takeable).count();
                in_all >= in_stock.saturating_add(s.limits.max_total.left(s.num_total()))
                    || of_key >= stock.saturating_add(places)
                    || of_key >= s.limits.max_active.left(s.active[key])
            };
            s.options.fair
                || s.line.iter().all(|w| !could_be_served(s, w.key) || is_enough(w.key))
        };
    "INV-RP-WAITING" "who waits is in line, once, and nobody else is"
        |_, s| (0..s.clients.len()).all(|client| {
            let in_line = s.line.iter().filter(|waiter| waiter.client == client);
            let keys: Vec<Key> = in_line.map(|waiter| waiter.key).collect();
            match s.clients[client] {
                At::Waiting(key) => keys == [key],
                _ => keys.is_empty(),
            }
        });
    "INV-RP-LINE" "the line is in the order in which they came"
        |_, s| s.line.windows(2).all(|two| two[0].ticket < two[1].ticket);
    "INV-RP-IDLE-ORDER" "what is idle is in the order in which it became so, what is not finished before the rest"
        |_, s| s.idle.windows(2).all(|two| two[0].place() < two[1].place());
    "INV-RP-CLOSED" "a closed pool has nobody waiting, and nothing idle but what is being tested and must leave"
        |_, s| !s.closed
            || s.line.is_empty() && s.idle.iter().all(|idle| idle.test == Test::Doomed);
    "INV-RP-EPOCH" "nothing idle was there when all was cleared, but what is being tested and must leave"
        |_, s| s.idle.iter().all(|idle| !idle.slot.old || idle.test == Test::Doomed);
    "INV-RP-LIFETIME" "nothing idle has outlived its lifetime while it was lent"
        |_, s| s.idle.iter().all(|idle| !idle.slot.expired);
}

impl Config {
    /// Whether limits are lowered; then what there was may exceed them, and no more comes (PROP-RP-WITHIN).
    fn is_resized(&self) -> bool {
        !self.resize.is_empty()
    }
}

fn is_of(at: &At, key: Key) -> bool {
    at.slot().is_some_and(|slot| slot.key == key)
}

/// Whether an idle one may be lent, or make room.
pub(crate) fn takeable(idle: &&Idle) -> bool {
    idle.test == Test::No
}

/// Whether there is something for a borrower of the key, said anew.
pub(crate) fn could_be_served(s: &ResourcePool, key: Key) -> bool {
    let grows = s.options.when_exhausted == WhenExhausted::Grow;
    let may_be_lent = grows || s.limits.max_active.allows(s.active[key] + 1);
    // What must not be lent any more makes room at least.
    let has_stock = s.idle_of(key).any(|idle| takeable(&idle));
    let is_victim = |idle: &Idle| takeable(&idle) && idle.slot.key != key;
    let has_place = s.limits.max_total_per_key.allows(s.total[key] + 1)
        && (s.limits.max_total.allows(s.num_total() + 1) || s.idle.iter().any(is_victim));
    !s.closed && may_be_lent && (has_stock || has_place)
}

/// Every resource that exists, or for which there is a place; a victim that was not destroyed yet is one.
pub(crate) fn present(s: &ResourcePool) -> Vec<usize> {
    let of_clients = s
        .clients
        .iter()
        .flat_map(|at| at.slot().into_iter().chain(at.victim().map(|victim| &victim.slot)));
    let idle = s.idle.iter().map(|idle| &idle.slot);
    idle.chain(&s.adding).chain(&s.leaving).chain(of_clients).map(|slot| slot.id).collect()
}
