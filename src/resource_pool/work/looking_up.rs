//! Finds the key of a call.
//!
//! `Hash`, `Eq` and `Clone` of a key are user code, so they run without the lock. A look-up hashes first, then
//! compares the entries of that hash in order of insertion. It *holds* the entry under comparison: the pool
//! neither forgets nor moves a held entry. So its index stays valid, and all entries behind it are still to be
//! compared. A look-up therefore never restarts; only keys inserted meanwhile with the same hash make it longer.
//! It clones the key at most once. A panic in this user code goes to the caller, and the look-up releases its entry.

use super::inner::Inner;
use crate::kernel::section::Guarded;
use crate::kernel::sync::has_failed;
use crate::kernel::user_code::UserValue;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::state::effects::Effects;
use crate::resource_pool::state::keys::THE_KEY;
use crate::resource_pool::state::names::{Shared, SubKey};
use crate::resource_pool::state::state::State;
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
            let (key, theirs) = self.pool.critical(|state, _| state.hold_next(hash, held))?;
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
            state.release(key);
            result
        })
    }
}

impl<F: Form> Drop for Search<'_, F> {
    fn drop(&mut self) {
        if let Some(key) = self.held.take().filter(|_| !has_failed()) {
            self.pool.critical(|state, _| state.release(key));
        }
    }
}

/// The key that a call is about.
pub(crate) trait Select<F: Form>: Copy {
    /// Runs `section` with the key.
    fn select<R>(
        self,
        pool: &Inner<F>,
        section: impl FnMut(&mut State<F>, SubKey, &mut Effects<F>) -> R,
    ) -> R;
    /// Runs `section` with the key, if it exists.
    fn select_known<R>(
        self,
        pool: &Inner<F>,
        section: impl FnOnce(&mut State<F>, SubKey, &mut Effects<F>) -> R,
    ) -> Option<R>;
    /// Returns the key's metadata, if the caller has given them.
    fn given(&self) -> Option<&F::Metadata>;
}

/// Selects the one key of a pool without keys.
#[derive(Clone, Copy)]
pub(crate) struct TheKey;

impl<F: Form> Select<F> for TheKey {
    #[inline]
    fn select<R>(
        self,
        pool: &Inner<F>,
        mut section: impl FnMut(&mut State<F>, SubKey, &mut Effects<F>) -> R,
    ) -> R {
        pool.critical(|state, fx| section(state, THE_KEY, fx))
    }
    fn select_known<R>(
        self,
        pool: &Inner<F>,
        section: impl FnOnce(&mut State<F>, SubKey, &mut Effects<F>) -> R,
    ) -> Option<R> {
        Some(pool.critical(|state, fx| section(state, THE_KEY, fx)))
    }
    fn given(&self) -> Option<&F::Metadata> {
        None
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
    fn select_known<R>(
        self,
        pool: &Inner<F>,
        section: impl FnOnce(&mut State<F>, SubKey, &mut Effects<F>) -> R,
    ) -> Option<R> {
        pool.with_known_key(self, section)
    }
    fn given(&self) -> Option<&F::Metadata> {
        Some(self)
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
    pub(crate) fn with_key<R>(
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
                Some(section(state, key, fx))
            });
            if let Some(made) = made {
                return made;
            }
        }
    }

    /// Runs `section` with the key, if it exists.
    pub(crate) fn with_known_key<R>(
        &self,
        metadata: &F::Metadata,
        section: impl FnOnce(&mut State<F>, SubKey, &mut Effects<F>) -> R,
    ) -> Option<R> {
        let mut search = self.search(metadata);
        let key = search.find_next(metadata)?;
        Some(search.end(key, section))
    }
}
