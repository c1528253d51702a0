//! Finds the key of a call, and forgets unused keys.
//!
//! `Hash`, `Eq` and `Clone` of a key are user code, so they run without the lock. A look-up hashes first, then
//! compares the entries of that hash in order of insertion. It *holds* the entry under comparison: the pool
//! neither forgets nor moves a held entry. So its index stays valid, and all entries behind it are still to be
//! compared. A look-up therefore never restarts; only keys inserted meanwhile with the same hash make it longer.
//! It clones the key at most once. A panic in this user code goes to the caller, and the look-up releases its entry.
//!
//! A key lives while it has a resource (lent, idle, being created or destroyed), a waiter, or a look-up that
//! holds it. Then it is forgotten, with its minimum (`refill.rs`). So there are never more keys than resources,
//! waiters and look-ups together.

use super::effects::{Effect, Effects};
use super::factory::Form;
use super::inner::Inner;
use super::slot::{OfHash, Shared, Sub, SubKey};
use super::state::State;
use crate::kernel::collections::list::List;
use crate::kernel::section::Guarded;
use crate::kernel::sync::has_failed;
use crate::kernel::user_code::UserValue;
use std::hash::{BuildHasher, Hash};

/// A look-up, and the entry that it holds.
struct Search<'p, F: Form> {
    pool: &'p Inner<F>,
    hash: u64,
    held: Option<SubKey>,
}

impl<F: Form> Search<'_, F>
where
    F::Metadata: Eq,
{
    /// Returns the next equal entry. At the end of the list it returns `None` and holds the last entry.
    fn find_next(&mut self, metadata: &F::Metadata) -> Option<SubKey> {
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
    /// Runs `section` with the held key, and releases it.
    fn end<R>(
        mut self,
        key: SubKey,
        section: impl FnOnce(&mut State<F>, SubKey, &mut Effects<F>) -> R,
    ) -> R {
        self.held = None;
        self.pool.critical(|state, fx| {
            let result = section(state, key, fx);
            state.release(key, fx);
            result
        })
    }
}

impl<F: Form> Drop for Search<'_, F> {
    fn drop(&mut self) {
        if let Some(key) = self.held.take().filter(|_| !has_failed()) {
            self.pool.critical(|state, fx| state.release(key, fx));
        }
    }
}

/// The one key of a pool without keys.
pub(super) const THE_KEY: SubKey = SubKey::FIRST;

/// The key that a call is about.
pub(super) trait Select<F: Form> {
    /// Runs `section` with the key.
    fn select<R>(
        self,
        pool: &Inner<F>,
        section: impl FnMut(&mut State<F>, SubKey, &mut Effects<F>) -> R,
    ) -> R;
}

/// Selects the one key of a pool without keys.
pub(super) struct TheKey;

impl<F: Form> Select<F> for TheKey {
    #[inline]
    fn select<R>(
        self,
        pool: &Inner<F>,
        mut section: impl FnMut(&mut State<F>, SubKey, &mut Effects<F>) -> R,
    ) -> R {
        pool.critical(|state, fx| section(state, THE_KEY, fx))
    }
}

/// Looks the key up, and inserts it if it is absent.
impl<F: Form> Select<F> for &F::Metadata
where
    F::Metadata: Clone + Eq + Hash,
{
    fn select<R>(
        self,
        pool: &Inner<F>,
        section: impl FnMut(&mut State<F>, SubKey, &mut Effects<F>) -> R,
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

    /// Runs `section` with the key, which is inserted if it is absent.
    pub(super) fn with_key<R>(
        &self,
        metadata: &F::Metadata,
        mut section: impl FnMut(&mut State<F>, SubKey, &mut Effects<F>) -> R,
    ) -> R {
        let mut search = self.search(metadata);
        let mut owned = None;
        loop {
            if let Some(key) = search.find_next(metadata) {
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

    /// Runs `section` with the key, if it exists.
    pub(super) fn with_known_key<R>(
        &self,
        metadata: &F::Metadata,
        section: impl FnOnce(&mut State<F>, SubKey, &mut Effects<F>) -> R,
    ) -> Option<R> {
        let mut search = self.search(metadata);
        let key = search.find_next(metadata)?;
        Some(search.end(key, section))
    }
}

impl<F: Form> State<F> {
    /// Returns the entry of this hash behind `held`, or the first one.
    fn next_of_hash(&self, hash: u64, held: Option<SubKey>) -> Option<SubKey> {
        match held {
            Some(held) => List::<OfHash>::after(&self.subs, held),
            None => self.keys.get(&hash).and_then(List::front),
        }
    }

    /// Holds the next entry, and releases the previous one.
    fn hold_next(
        &mut self,
        hash: u64,
        held: Option<SubKey>,
        fx: &mut Effects<F>,
    ) -> Option<(SubKey, Shared<F::Metadata>)> {
        let next = self.next_of_hash(hash, held)?;
        let sub = &mut self.subs[next];
        sub.held += 1;
        let metadata = sub.metadata.clone();
        if let Some(held) = held {
            self.release(held, fx);
        }
        Some((next, metadata))
    }

    fn release(&mut self, key: SubKey, fx: &mut Effects<F>) {
        self.subs[key].held -= 1;
        self.forget_if_empty(key, fx);
    }

    /// Inserts a key, unless an entry of its hash is still to be compared.
    pub(super) fn new_key(
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
        let key = self.subs.insert(sub);
        self.keys.entry(hash).or_default().push_back(&mut self.subs, key);
        Some(key)
    }

    /// Forgets the key if it is unused.
    pub(super) fn forget_if_empty(&mut self, key: SubKey, fx: &mut Effects<F>) {
        let Some(sub) = self.subs.get_mut(key).filter(|sub| !sub.permanent) else { return };
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
        let sub = self.subs.remove(key);
        fx.push(Effect::Forget(sub.metadata));
    }
}
