//! One consistent picture of a pool.

use super::factory::Form;
use super::slot::{Content, Place, Shared};
use super::state::State;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// A picture of the whole pool, as it was at one moment. It copies plain numbers of all resources under the
/// lock, and brings them into order after it. (Which other sections take the longer the more there is, the module's
/// limits say.)
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Snapshot<M> {
    /// Whether it is closed.
    pub closed: bool,
    /// All that exist, or have a place: lent, idle, being made, being destroyed. What makes room for another
    /// counts as one with it.
    pub total: usize,
    /// Lent, or reserved for a borrower.
    pub active: usize,
    /// In stock.
    pub idle: usize,
    /// Borrowers that wait for their turn.
    pub waiting: usize,
    /// By key; a pool without keys has one.
    pub keys: Vec<KeySnapshot<M>>,
}

/// What there is of one key. As data it has the key as `key`: none in a pool without keys.
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(bound = "M: serde::Serialize"))]
#[non_exhaustive]
pub struct KeySnapshot<M> {
    #[cfg_attr(feature = "serde", serde(rename = "key", serialize_with = "as_key"))]
    pub(super) metadata: Option<Shared<M>>,
    /// All that exist, or have a place; also what makes room for another key, until it has been destroyed.
    pub total: usize,
    /// Lent, or reserved for a borrower.
    pub active: usize,
    /// Borrowers that wait for their turn.
    pub waiting: usize,
    /// In stock, what is not finished first, then by how long it has been idle; then the others.
    pub resources: Vec<ResourceSnapshot>,
}

#[cfg(feature = "serde")]
fn as_key<M: serde::Serialize, S: serde::Serializer>(
    metadata: &Option<Shared<M>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&metadata.as_deref().map(|metadata| &**metadata), serializer)
}

impl<M> KeySnapshot<M> {
    /// The key; none in a pool without keys.
    pub fn key(&self) -> Option<&M> {
        self.metadata.as_deref().map(|metadata| &**metadata)
    }
    /// How many are in stock.
    pub fn idle(&self) -> usize {
        let idle = [ResourceState::Idle, ResourceState::Tested, ResourceState::Unfinished];
        self.resources.iter().filter(|resource| idle.contains(&resource.state)).count()
    }
}

/// One resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ResourceSnapshot {
    /// Its number: none is given twice.
    pub id: u64,
    /// Where it is.
    pub state: ResourceState,
    /// How long ago it began to be made, if the pool's options need to know; of a place in which nothing has been
    /// begun yet, how long ago that was reserved.
    pub age: Option<Duration>,
    /// For how long it has been idle, if the pool's options need to know; of what is lent, for how long it has been, if
    /// they include [`abandoned_after`](super::Builder::abandoned_after), else since when it was last idle or begun.
    pub since: Option<Duration>,
}

/// Where a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ResourceState {
    /// In stock.
    Idle,
    /// In stock, and being tested: it cannot be lent now.
    Tested,
    /// In stock, and not finished: whoever began to make it has given up.
    Unfinished,
    /// With its borrower, or being made or activated for one.
    Lent,
    /// Being made for stock.
    BeingCreated,
    /// With a borrower that has kept it for too long: it counts no more.
    Abandoned,
    /// Its place was given to another; it is about to be destroyed.
    MarkedForEviction,
    /// Being destroyed.
    Leaving,
}

/// What is copied under the lock, as it stands there.
pub(super) struct Copied<M> {
    pool: Snapshot<M>,
    /// By what the keys of the above are to be sorted, and where each of them is in the pool.
    keys: Vec<(u64, usize)>,
    /// What is not in stock, and where its key is.
    others: Vec<(usize, ResourceSnapshot)>,
}

impl<M> Copied<M> {
    /// Keys in the order in which they came; of each, what is idle, the oldest first, and then the rest, in the order
    /// in which it was made. The lock is not held.
    pub(super) fn in_order(self) -> Snapshot<M> {
        let Copied { mut pool, keys, mut others } = self;
        others.sort_unstable_by_key(|(_, resource)| resource.id);
        let mut by_key: HashMap<usize, Vec<ResourceSnapshot>> = HashMap::new();
        for (key, resource) in others {
            by_key.entry(key).or_default().push(resource);
        }
        let mut all: Vec<_> = keys.into_iter().zip(pool.keys).collect();
        all.sort_unstable_by_key(|((id, _), _)| *id);
        let completed = all.into_iter().map(|((_, place), mut key)| {
            key.resources.extend(by_key.remove(&place).unwrap_or_default());
            key
        });
        pool.keys = completed.collect();
        pool
    }
}

impl<F: Form> State<F> {
    pub(super) fn copied(&self) -> Copied<F::Metadata> {
        let now = self.clock.now();
        let picture = |slot: &super::slot::Slot<F>| ResourceSnapshot {
            id: slot.serial,
            state: match (slot.place, &slot.content) {
                (Place::Idle, _) if slot.tested => ResourceState::Tested,
                (Place::Idle, Content::Unfinished(_)) => ResourceState::Unfinished,
                (Place::Idle, _) => ResourceState::Idle,
                (Place::Lent, _) => ResourceState::Lent,
                (Place::Adding, _) => ResourceState::BeingCreated,
                (Place::Reclaimed, _) => ResourceState::Abandoned,
                (Place::Marked | Place::Replaced, _) => ResourceState::MarkedForEviction,
                (Place::Leaving, _) => ResourceState::Leaving,
            },
            age: self.timed.then(|| now.since(slot.created)),
            since: self.timed.then(|| now.since(slot.since)),
        };
        let others = self.slots.iter().filter(|(_, slot)| slot.place != Place::Idle);
        let keys = self.subs.iter().map(|(_, sub)| {
            let idle = sub.unfinished.iter(&self.slots).chain(sub.idle.iter(&self.slots));
            KeySnapshot {
                metadata: (!sub.permanent).then(|| sub.metadata.clone()),
                total: sub.total,
                active: sub.active,
                waiting: sub.queue.len(),
                resources: idle.map(|slot| picture(&self.slots[slot.index()])).collect(),
            }
        });
        Copied {
            pool: Snapshot {
                closed: self.closed,
                total: self.total,
                active: self.active,
                idle: self.idle,
                waiting: self.waiting,
                keys: keys.collect(),
            },
            keys: self.subs.iter().map(|(index, sub)| (sub.id, index)).collect(),
            others: others.map(|(_, slot)| (slot.key.index(), picture(slot))).collect(),
        }
    }
}

impl<M> fmt::Debug for Snapshot<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("closed", &self.closed)
            .field("total", &self.total)
            .field("active", &self.active)
            .field("idle", &self.idle)
            .field("waiting", &self.waiting)
            .field("keys", &self.keys)
            .finish()
    }
}

impl<M> fmt::Debug for KeySnapshot<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySnapshot")
            .field("total", &self.total)
            .field("active", &self.active)
            .field("waiting", &self.waiting)
            .field("resources", &self.resources)
            .finish_non_exhaustive()
    }
}
