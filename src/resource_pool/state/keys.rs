//! The keys of a pool, by their hash, and when an unused one is forgotten. `looking_up.rs` finds the key of a call.
//!
//! A key lives while it has a resource (lent, idle, being created or destroyed), a waiter, or a look-up that
//! holds it. Then it is forgotten, with its minimum (`refill.rs`). So there are never more keys than resources,
//! waiters and look-ups together. Tables that are mostly empty then become smaller
//! ([`smaller`](crate::kernel::collections::smaller)).

use super::effects::{Effect, Effects};
use super::names::{Shared, SubKey};
use super::slot::{OfHash, Sub};
use super::state::State;
use crate::kernel::collections::list::List;
use crate::kernel::collections::smaller::{LARGE, mostly_empty, smaller_arena, smaller_map};
use crate::resource_pool::api::factory::Form;

/// The one key of a pool without keys.
pub(crate) const THE_KEY: SubKey = SubKey::FIRST;

impl<F: Form> State<F> {
    /// Returns the entry of this hash behind `held`, or the first one.
    fn next_of_hash(&self, hash: u64, held: Option<SubKey>) -> Option<SubKey> {
        match held {
            Some(held) => List::<OfHash>::after(&self.subs, held),
            None => self.keys.get(&hash).and_then(List::front),
        }
    }

    /// Holds the next entry, and releases the previous one.
    pub(crate) fn hold_next(
        &mut self,
        hash: u64,
        held: Option<SubKey>,
    ) -> Option<(SubKey, Shared<F::Metadata>)> {
        let next = self.next_of_hash(hash, held)?;
        let sub = self.subs.touch(next);
        sub.held += 1;
        let metadata = sub.metadata.clone();
        if let Some(held) = held {
            self.release(held);
        }
        Some((next, metadata))
    }

    pub(crate) fn release(&mut self, key: SubKey) {
        self.subs.touch(key).held -= 1;
    }

    /// Inserts a key, unless an entry of its hash is still to be compared.
    pub(crate) fn new_key(
        &mut self,
        hash: u64,
        metadata: &Shared<F::Metadata>,
        held: Option<SubKey>,
    ) -> Option<SubKey> {
        if self.next_of_hash(hash, held).is_some() {
            return None;
        }
        self.keys_created += 1;
        let sub = Sub::new(self.keys_created, metadata.clone(), hash);
        let capacity = self.subs.capacity();
        let key = self.subs.insert(sub);
        if self.subs.capacity() > capacity {
            self.shrink_at = mostly_empty(self.subs.capacity());
        }
        self.keys.entry(hash).or_default().push_back(self.subs.links(), key);
        Some(key)
    }

    /// Forgets an unused key.
    #[cold]
    pub(crate) fn forget(&mut self, key: SubKey, fx: &mut Effects<F>) {
        let hash = self.subs[key].hash;
        self.forget_refills(key);
        if let Some(list) = self.keys.get_mut(&hash) {
            list.remove(self.subs.links(), key);
            if list.is_empty() {
                self.keys.remove(&hash);
            }
        }
        let sub = self.subs.remove(key);
        fx.push(Effect::Forget(sub.metadata));
        if self.subs.len() <= self.shrink_at && self.subs.capacity() > LARGE {
            self.shrink(fx);
        }
    }

    /// Moves what is left of large tables to smaller ones. They are freed without the lock.
    #[cold]
    fn shrink(&mut self, fx: &mut Effects<F>) {
        // A key that stays at a high place may prevent it now: an eighth of the keys go before the next try.
        let left = self.subs.len();
        self.shrink_at = left.saturating_sub((left / 8).max(1));
        let lists = self.keys.values();
        let keys = lists.flat_map(|list| list.iter(&self.subs)).collect();
        let subs = smaller_arena(self.subs.links(), keys);
        if subs.is_some() {
            self.shrink_at = mostly_empty(self.subs.capacity());
        }
        // The list has all resources, unless some are lent or on their way.
        let few = self.slots.len() <= mostly_empty(self.slots.capacity());
        let slots = if few && self.idle == self.slots.len() {
            let idle = self.by_age().collect();
            smaller_arena(&mut self.slots, idle)
        } else {
            None
        };
        let map = subs.is_some().then(|| smaller_map(&mut self.keys));
        let heaps = (self.line.shrink(), self.backing_off.shrink(), self.spare.shrink());
        fx.push(Effect::DropTables(Box::new((subs, slots, map, heaps))));
    }
}
