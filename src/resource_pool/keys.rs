//! How a keyed pool finds a key, and when it forgets one.
//!
//! To hash a key, to compare it and to clone it is foreign code, so none of it is done under the lock
//! (rule 1). Under the lock a key is a number: its hash was made before, and each that has the same hash is
//! compared with it after, from one to the next in the order in which they were made. The one that is being
//! compared is *held*: it is not forgotten, so it is what was compared when a section takes it by its number,
//! and it keeps its place among those of its hash, so what follows it has not been compared yet. A look-up
//! therefore begins never again, whatever becomes of other keys; it goes on only past keys that are made
//! meanwhile with the very same hash. The key is cloned once at most. If any of that panics it is the caller's own
//! value in the caller's own call: the panic goes through it, and the look-up lets go of what it holds.
//!
//! A key is there while there is anything of it: resources, lent or idle, being made or destroyed; somebody
//! who waits; a look-up that holds it. Then it is forgotten, and with it what was to be kept in stock of it
//! (`refilling.rs`). So there are never more keys than there are resources, waiters and look-ups.

use super::effects::{Effect, Effects};
use super::factory::Form;
use super::pool::Inner;
use super::slot::{OfHash, Shared, Sub};
use super::state::State;
use crate::collections::slab_list::{Key, List};
use crate::section::Guarded;
use crate::sync::has_failed;
use crate::user_code::UserValue;
use std::hash::{BuildHasher, Hash};

/// A look-up. It holds the key that it has come to.
struct Search<'p, F: Form> {
    pool: &'p Inner<F>,
    hash: u64,
    held: Option<Key>,
}

impl<F: Form> Search<'_, F>
where
    F::Metadata: Eq,
{
    /// On to the one that is equal; none: there is no further one, and the last is held.
    fn go_on(&mut self, metadata: &F::Metadata) -> Option<Key> {
        loop {
            let (hash, held) = (self.hash, self.held);
            let (key, theirs) = self.pool.critical(|state, fx| state.hold_next(hash, held, fx))?;
            self.held = Some(key);
            if **theirs == *metadata {
                return Some(key);
            }
        }
    }
}

impl<F: Form> Search<'_, F> {
    /// Runs `section` with the key that is held, and lets go of it.
    fn end<R>(
        mut self,
        key: Key,
        section: impl FnOnce(&mut State<F>, Key, &mut Effects<F>) -> R,
    ) -> R {
        self.held = None;
        self.pool.critical(|state, fx| {
            let result = section(state, key, fx);
            state.let_go(key, fx);
            result
        })
    }
}

impl<F: Form> Drop for Search<'_, F> {
    fn drop(&mut self) {
        if let Some(key) = self.held.take().filter(|_| !has_failed()) {
            self.pool.critical(|state, fx| state.let_go(key, fx));
        }
    }
}

/// The key of a pool that has no other.
pub(super) const THE_KEY: Key = Key::FIRST;

/// The key that a call is about.
pub(super) trait Select<F: Form> {
    /// Runs `section` with the key.
    fn select<R>(
        self,
        pool: &Inner<F>,
        section: impl FnMut(&mut State<F>, Key, &mut Effects<F>) -> R,
    ) -> R;
}

/// Selects the one key of a pool without keys.
pub(super) struct TheKey;

impl<F: Form> Select<F> for TheKey {
    #[inline]
    fn select<R>(
        self,
        pool: &Inner<F>,
        mut section: impl FnMut(&mut State<F>, Key, &mut Effects<F>) -> R,
    ) -> R {
        pool.critical(|state, fx| section(state, THE_KEY, fx))
    }
}

/// Selects a key by looking it up. A key that is not there is inserted.
impl<F: Form> Select<F> for &F::Metadata
where
    F::Metadata: Clone + Eq + Hash,
{
    fn select<R>(
        self,
        pool: &Inner<F>,
        section: impl FnMut(&mut State<F>, Key, &mut Effects<F>) -> R,
    ) -> R {
        pool.with_key(self, section)
    }
}

impl<F: Form> Inner<F>
where
    F::Metadata: Clone + Eq + Hash,
{
    fn search(&self, metadata: &F::Metadata) -> Search<'_, F> {
        Search { pool: self, hash: self.hasher.hash_one(metadata), held: None }
    }

    /// Runs `section` with the key, which is looked up, or made if there is none.
    pub(super) fn with_key<R>(
        &self,
        metadata: &F::Metadata,
        mut section: impl FnMut(&mut State<F>, Key, &mut Effects<F>) -> R,
    ) -> R {
        let mut search = self.search(metadata);
        let mut owned = None;
        loop {
            if let Some(key) = search.go_on(metadata) {
                return search.end(key, section);
            }
            let owned = owned.get_or_insert_with(|| Shared::new(UserValue::new(metadata.clone())));
            let made = self.critical(|state, fx| {
                let key = state.new_key(search.hash, owned, search.held)?;
                let result = section(state, key, fx);
                state.forget_if_empty(key, fx);
                Some(result)
            });
            if let Some(made) = made {
                return made;
            }
        }
    }

    /// Runs `section` with the key, if there is one.
    pub(super) fn with_known_key<R>(
        &self,
        metadata: &F::Metadata,
        section: impl FnOnce(&mut State<F>, Key, &mut Effects<F>) -> R,
    ) -> Option<R> {
        let mut search = self.search(metadata);
        let key = search.go_on(metadata)?;
        Some(search.end(key, section))
    }
}

impl<F: Form> State<F> {
    /// The one of this hash that was made next after `held`; none held: the first.
    fn next_of_hash(&self, hash: u64, held: Option<Key>) -> Option<Key> {
        match held {
            Some(held) => List::<OfHash>::after(&self.subs, held),
            None => self.keys.get(&hash).and_then(List::front),
        }
    }

    /// Holds the next one, and lets go of the one before.
    fn hold_next(
        &mut self,
        hash: u64,
        held: Option<Key>,
        fx: &mut Effects<F>,
    ) -> Option<(Key, Shared<F::Metadata>)> {
        let next = self.next_of_hash(hash, held)?;
        let sub = &mut self.subs[next.index()];
        sub.held += 1;
        let metadata = sub.metadata.clone();
        if let Some(held) = held {
            self.let_go(held, fx);
        }
        Some((next, metadata))
    }

    fn let_go(&mut self, key: Key, fx: &mut Effects<F>) {
        self.subs[key.index()].held -= 1;
        self.forget_if_empty(key, fx);
    }

    /// A new key, unless there is one that has not been compared.
    pub(super) fn new_key(
        &mut self,
        hash: u64,
        metadata: &Shared<F::Metadata>,
        held: Option<Key>,
    ) -> Option<Key> {
        if self.next_of_hash(hash, held).is_some() {
            return None;
        }
        self.keys_created += 1;
        let sub = Sub::new(self.keys_created, metadata.clone(), hash);
        let key = Key::new(self.subs.insert(sub));
        self.keys.entry(hash).or_default().push_back(&mut self.subs, key);
        Some(key)
    }

    /// A key is looked up no more if there is nothing of it.
    pub(super) fn forget_if_empty(&mut self, key: Key, fx: &mut Effects<F>) {
        let Some(sub) = self.subs.get_mut(key.index()).filter(|sub| !sub.permanent) else { return };
        sub.made &= sub.total > 0;
        let unused = sub.queue.is_empty() && sub.retrying == 0;
        if !unused || sub.total > 0 || sub.outside > 0 || sub.held > 0 {
            return;
        }
        let hash = sub.hash;
        self.forget_refills(key);
        if let Some(list) = self.keys.get_mut(&hash) {
            list.remove(&mut self.subs, key);
            if list.is_empty() {
                self.keys.remove(&hash);
            }
        }
        let sub = self.subs.remove(key.index());
        fx.push(Effect::Forget(sub.metadata));
    }
}
