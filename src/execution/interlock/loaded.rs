//! Values that are loaded under the interlock, and handles to them.

use super::error::AcquireError;
use super::inner::Inner;
use super::running::Running;
use super::sections::{Loading, Unloading};
use super::transitions::BRANCH;
use crate::kernel::user_code::UserValue;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

/// A value that is loaded on first use, and unloaded as a whole.
///
/// A [`Handle`] borrows from a [`Running`]. While it lives, the value may be loaded again, but not unloaded. The
/// compiler refuses a handle that is used in a permit block, lives across a load, or outlives the execution:
///
/// ```compile_fail,E0502
/// # use cabrank::execution::interlock::{Loaded, Running};
/// # fn handle(user: &Loaded<String>, r: &mut Running) {
/// let name = user.get(r).expect("it is loaded");
/// r.permit_loads(|| name.len());
/// # }
/// ```
/// ```compile_fail,E0502
/// # use cabrank::execution::interlock::{Loaded, Running};
/// # fn handle(user: &Loaded<String>, r: &mut Running) {
/// let name = user.get(r).expect("it is loaded");
/// r.load(|_| ());
/// name.len();
/// # }
/// ```
/// ```compile_fail
/// # fn handle(interlock: &cabrank::Interlock, user: &cabrank::execution::interlock::Loaded<String>) {
/// interlock.run(|r| user.get(r)).unwrap().unwrap().len();
/// # }
/// ```
pub struct Loaded<T> {
    /// Locked only to copy or swap a reference.
    value: RwLock<Option<Arc<UserValue<T>>>>,
    /// The first interlock under which it was loaded or unloaded.
    home: OnceLock<Weak<Inner>>,
}

/// A reference to a loaded value, at most as long as the share that it was obtained with.
pub struct Handle<'r, T> {
    value: Arc<UserValue<T>>,
    running: PhantomData<&'r ()>,
}

impl<T> Loaded<T> {
    /// Creates an empty value.
    pub const fn new() -> Self {
        Loaded { value: RwLock::new(None), home: OnceLock::new() }
    }

    /// Returns the loaded value, if there is one.
    ///
    /// Returns `None` for an execution without a [share](Running::has_share), or of another interlock.
    pub fn get<'r>(&self, running: &'r Running<'_>) -> Option<Handle<'r, T>> {
        // Without a share it does not touch the value, so that `clear` counts the handles alone.
        let is_at_home = || self.home.get().is_some_and(|home| is(home, &running.home));
        let value = (running.has_share() && is_at_home()).then(|| self.current())??;
        Some(Handle { value, running: PhantomData })
    }

    /// Returns the value, or loads it by `load` while no other execution runs. Concurrent callers load it once.
    ///
    /// The handle borrows `running` exclusively; [`get`](Self::get) returns any number of handles.
    ///
    /// # Errors
    /// The error of `load`, after which the next call tries again. The error of [`Running::load`], converted.
    ///
    /// # Panics
    /// Under another interlock than the first [`set`](Self::set) or `clear`.
    #[track_caller]
    pub fn get_or_load<'r, E: From<AcquireError>>(
        &self,
        running: &'r mut Running<'_>,
        load: impl FnOnce() -> Result<T, E>,
    ) -> Result<Handle<'r, T>, E> {
        self.may_belong_to(&running.home);
        if !running.has_share() || self.current().is_none() {
            running.load(|loading| match self.current() {
                // Another execution was first.
                Some(_) => Ok(()),
                None => load().map(|value| self.set(value, loading)),
            })??;
        }
        // Loaded, but perhaps under another interlock.
        self.may_belong_to(&running.home);
        let running: &'r Running<'_> = running;
        // No unload can have come since. But a concurrent branch may permit loads, so that there is no share.
        let missing = || running.home.deadlock(running.id(), BRANCH, Location::caller()).into();
        self.get(running).ok_or_else(missing)
    }

    /// Stores a value in place of the previous one.
    ///
    /// # Panics
    /// Under another interlock than the first `set` or `clear`: executions of that one may use the value.
    pub fn set(&self, value: T, loading: &mut Loading<'_>) {
        if let Some(home) = &loading.home {
            self.belongs_to(home);
        }
        drop(self.swap(Some(Arc::new(UserValue::new(value)))));
    }
    /// Removes the value, and drops it.
    ///
    /// # Panics
    /// - Under another interlock, as [`set`](Self::set).
    /// - If an execution inside the unload has a handle to the value. The value is removed, and the handle keeps it.
    pub fn clear(&self, unloading: &mut Unloading<'_>) {
        self.belongs_to(unloading.home);
        let former = self.swap(None);
        let is_free = former.as_ref().is_none_or(|value| Arc::strong_count(value) == 1);
        drop(former);
        assert!(is_free, "an execution inside the unload has a handle to the value");
    }

    /// Binds it to this interlock, unless it is bound.
    fn belongs_to(&self, home: &Arc<Inner>) {
        let _ = self.home.set(Arc::downgrade(home));
        self.may_belong_to(home);
    }
    fn may_belong_to(&self, home: &Arc<Inner>) {
        let may = self.home.get().is_none_or(|first| is(first, home));
        assert!(may, "the value belongs to another interlock");
    }
    fn current(&self) -> Option<Arc<UserValue<T>>> {
        self.value.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
    fn swap(&self, value: Option<Arc<UserValue<T>>>) -> Option<Arc<UserValue<T>>> {
        let mut slot = self.value.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *slot, value)
    }
}

/// Compares the addresses. The address of the first stays unique while the reference to it lives.
fn is(first: &Weak<Inner>, home: &Arc<Inner>) -> bool {
    std::ptr::eq(first.as_ptr(), Arc::as_ptr(home))
}

impl<T> Default for Loaded<T> {
    fn default() -> Self {
        Loaded::new()
    }
}

impl<T> Deref for Handle<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}
