//! How a keyed pool finds a key.
//!
//! To hash a key, to compare it and to clone it is foreign code, so none of it is done under the lock
//! (rule 1). Under the lock a key is a number: its hash was made before, and who has the same hash is
//! compared with it after; then a second section takes it by its number, if it has not been forgotten
//! meanwhile.

use super::effects::{Effect, Effects, Shared};
use super::factory::Form;
use super::pool::Inner;
use super::slot::Sub;
use super::state::State;
use crate::foreign::Foreign;
use crate::slab_list::Key;
use std::hash::{BuildHasher, Hash};

/// A key that was found, or not.
enum Found {
    At {
        key: Key,
        id: u64,
    },
    /// As of this many changes of the keys.
    Nowhere {
        changes: u64,
    },
}

impl<F: Form> Inner<F>
where
    F::Metadata: Clone + Eq + Hash,
{
    /// Runs `section` with the key, which is looked up, or made if there is none.
    pub(super) fn with_key<R>(
        &self,
        metadata: &F::Metadata,
        mut section: impl FnMut(&mut State<F>, Key, &mut Effects<F>) -> R,
    ) -> (Key, R) {
        let hash = self.hasher.hash_one(metadata);
        loop {
            let found = match self.find(hash, metadata) {
                Found::At { key, id } => self.critical(|state, fx| {
                    let there = state.subs.get(key.index()).is_some_and(|sub| sub.id == id);
                    there.then(|| (key, section(state, key, fx)))
                }),
                Found::Nowhere { changes } => {
                    let owned = Shared::new(Foreign::new(metadata.clone()));
                    self.critical(|state, fx| {
                        let key = state.new_key(hash, &owned, changes)?;
                        let result = section(state, key, fx);
                        state.forget_if_empty(key, fx);
                        Some((key, result))
                    })
                }
            };
            if let Some(result) = found {
                return result;
            }
        }
    }

    /// Runs `section` with the key, if there is one.
    pub(super) fn with_known_key<R>(
        &self,
        metadata: &F::Metadata,
        section: impl FnOnce(&mut State<F>, Key, &mut Effects<F>) -> R,
    ) -> Option<R> {
        let hash = self.hasher.hash_one(metadata);
        match self.find(hash, metadata) {
            Found::Nowhere { .. } => None,
            Found::At { key, id } => self.critical(|state, fx| {
                let there = state.subs.get(key.index()).is_some_and(|sub| sub.id == id);
                there.then(|| section(state, key, fx))
            }),
        }
    }

    fn find(&self, hash: u64, metadata: &F::Metadata) -> Found {
        let mut seen = (0, 0);
        loop {
            let (nth, since) = seen;
            let (changes, candidate) = {
                let state = self.state.lock();
                let key = state.keys.get(&hash).and_then(|chain| chain.get(nth)).copied();
                let candidate = key.map(|key| {
                    let sub = &state.subs[key.index()];
                    (key, sub.id, sub.metadata.clone())
                });
                (state.keys_changed, candidate)
            };
            if nth > 0 && changes != since {
                // The others of this hash may have moved.
                seen = (0, 0);
                continue;
            }
            match candidate {
                None => return Found::Nowhere { changes },
                Some((key, id, Some(theirs))) if **theirs == *metadata => {
                    return Found::At { key, id };
                }
                Some(_) => seen = (nth + 1, changes),
            }
        }
    }
}

impl<F: Form> State<F> {
    /// A new key, unless the keys have changed since it was not found.
    fn new_key(&mut self, hash: u64, metadata: &Shared<F::Metadata>, changes: u64) -> Option<Key> {
        if self.keys_changed != changes {
            return None;
        }
        self.keys_changed += 1;
        let sub = Sub::new(self.keys_changed, Some(metadata.clone()), hash);
        let key = Key::new(self.subs.insert(sub));
        self.keys.entry(hash).or_default().push(key);
        Some(key)
    }

    /// A key is looked up no more if there is nothing of it.
    pub(super) fn forget_if_empty(&mut self, key: Key, fx: &mut Effects<F>) {
        if !self.keyed {
            return;
        }
        let Some(sub) = self.subs.get(key.index()) else { return };
        let unused = sub.queue.is_empty() && sub.retrying == 0;
        let empty = unused && sub.total == 0 && sub.outside == 0;
        // What a key has had is to be filled up again, if there is a minimum.
        if !empty || sub.below_minimum.is_linked() && !self.closed {
            return;
        }
        if sub.below_minimum.is_linked() {
            self.below_minimum.remove(&mut self.subs, key);
        }
        let sub = self.subs.remove(key.index());
        self.keys_changed += 1;
        if let Some(chain) = self.keys.get_mut(&sub.hash) {
            chain.retain(|other| *other != key);
            if chain.is_empty() {
                self.keys.remove(&sub.hash);
            }
        }
        fx.push(Effect::Forget(sub.metadata));
    }
}
