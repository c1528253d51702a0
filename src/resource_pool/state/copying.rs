//! Copies the state for a snapshot, under the lock.

use super::names::SubKey;
use super::slot::{Slot, SlotState};
use super::state::State;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::api::snapshot::{KeySnapshot, ResourceSnapshot, ResourceState, Snapshot};
use std::collections::HashMap;

/// The unsorted copy that is taken under the lock.
pub(crate) struct Copied<M> {
    pool: Snapshot<M>,
    /// For each of `pool.keys`: the number that sorts it, and its key in the pool.
    keys: Vec<(u64, SubKey)>,
    /// The resources that are not idle, each with the key of its entry.
    others: Vec<(SubKey, ResourceSnapshot)>,
}

impl<M> Copied<M> {
    /// Sorts the copy, without the lock: the keys by their number, and in each, after the idle resources, the others by
    /// theirs.
    pub(crate) fn in_order(self) -> Snapshot<M> {
        let Copied { mut pool, keys, mut others } = self;
        others.sort_unstable_by_key(|(_, resource)| resource.id);
        let mut by_key: HashMap<SubKey, Vec<ResourceSnapshot>> = HashMap::new();
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
    pub(crate) fn copied(&self) -> Copied<F::Metadata> {
        let now = self.clock.now();
        let snapshot = |slot: &Slot<F>| ResourceSnapshot {
            id: slot.serial,
            state: match slot.state {
                SlotState::Idle if slot.tested => ResourceState::Tested,
                SlotState::Idle => ResourceState::Idle,
                SlotState::Lent => ResourceState::Lent,
                SlotState::Adding => ResourceState::BeingCreated,
                SlotState::Reclaimed => ResourceState::Abandoned,
                SlotState::Marked | SlotState::Replaced => ResourceState::MarkedForEviction,
                SlotState::Leaving => ResourceState::Leaving,
            },
            age: self.timed.then(|| now.since(slot.created)),
            since: self.timed.then(|| now.since(slot.since)),
        };
        let others = self.slots.iter().filter(|(_, slot)| slot.state != SlotState::Idle);
        let keys = self.subs.iter().map(|(_, sub)| {
            let idle = sub.idle.iter(&self.slots);
            KeySnapshot {
                metadata: (!sub.permanent).then(|| sub.metadata.clone()),
                total: sub.total,
                active: sub.active,
                waiting: sub.queue.len(),
                resources: idle.map(|slot| snapshot(&self.slots[slot])).collect(),
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
            keys: self.subs.iter().map(|(key, sub)| (sub.id, key)).collect(),
            others: others.map(|(_, slot)| (slot.key, snapshot(slot))).collect(),
        }
    }
}
