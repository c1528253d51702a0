//! Values that are loaded under the interlock, and handles to them.

use super::alone::{Home, Loading, Unloading};
use super::error::{AcquireError, LoadError};
use super::running::Running;
use crate::user_code::UserValue;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// A value that is loaded on first use, and unloaded as a whole.
///
/// A [`Handle`] borrows from a [`Running`]. While it lives, only the same execution can change the value,
/// inside a section that it is already in. A handle obtained inside an unload may outlive a
/// [`clear`](Self::clear) there; it then keeps the previous value.
///
/// This compiles, because the handle is used only before the permit block:
///
/// ```
/// use cabrank::{Interlock, execution::interlock::{Loaded, Running}};
///
/// fn handle(user: &Loaded<String>, r: &mut Running) -> usize {
///     let name = user.get(r).expect("it is loaded");
///     let length = name.len();
///     r.permit_loads(|| std::thread::yield_now()).expect("the only share");
///     length
/// }
/// ```
///
/// A handle that lives across a permit block does not compile:
///
/// ```compile_fail,E0502
/// use cabrank::{Interlock, execution::interlock::{Loaded, Running}};
///
/// fn handle(user: &Loaded<String>, r: &mut Running) -> usize {
///     let name = user.get(r).expect("it is loaded");
///     r.permit_loads(|| std::thread::yield_now()).expect("the only share");
///     name.len()
/// }
/// ```
///
/// Nor does a handle that is used inside it:
///
/// ```compile_fail,E0502
/// use cabrank::{Interlock, execution::interlock::{Loaded, Running}};
///
/// fn handle(user: &Loaded<String>, r: &mut Running) -> usize {
///     let name = user.get(r).expect("it is loaded");
///     r.permit_loads(|| name.len()).expect("the only share")
/// }
/// ```
///
/// Nor one that lives across a load, which may wait while others load; before it, the handle may be used:
///
/// ```
/// use cabrank::{Interlock, execution::interlock::{Loaded, Running}};
///
/// fn handle(user: &Loaded<String>, r: &mut Running) -> usize {
///     let length = user.get(r).expect("it is loaded").len();
///     r.load(|_| length).expect("no deadlock")
/// }
/// ```
/// ```compile_fail,E0502
/// use cabrank::{Interlock, execution::interlock::{Loaded, Running}};
///
/// fn handle(user: &Loaded<String>, r: &mut Running) -> usize {
///     let name = user.get(r).expect("it is loaded");
///     r.load(|_| ()).expect("no deadlock");
///     name.len()
/// }
/// ```
///
/// Nor one that lives across an unload, after which the value has to be looked up again:
///
/// ```
/// use cabrank::{Interlock, execution::interlock::{Loaded, Running}};
///
/// fn handle(user: &Loaded<String>, r: &mut Running) -> bool {
///     r.unload(|w| user.clear(w)).expect("no deadlock");
///     user.get(r).is_none()
/// }
/// ```
/// ```compile_fail,E0502
/// use cabrank::{Interlock, execution::interlock::{Loaded, Running}};
///
/// fn handle(user: &Loaded<String>, r: &mut Running) -> bool {
///     let name = user.get(r).expect("it is loaded");
///     r.unload(|w| user.clear(w)).expect("no deadlock");
///     name.is_empty()
/// }
/// ```
///
/// Nor one that outlives the execution:
///
/// ```
/// use cabrank::{Interlock, execution::interlock::Loaded};
///
/// fn length(user: &Loaded<String>, interlock: &Interlock) -> usize {
///     interlock.run(|r| user.get(r).expect("it is loaded").len())
/// }
/// ```
/// ```compile_fail
/// use cabrank::{Interlock, execution::interlock::Loaded};
///
/// fn length(user: &Loaded<String>, interlock: &Interlock) -> usize {
///     interlock.run(|r| user.get(r).expect("it is loaded")).len()
/// }
/// ```
pub struct Loaded<T> {
    /// Locked only to copy or swap a reference.
    value: RwLock<Option<Arc<UserValue<T>>>>,
    /// The first interlock under which it was loaded or unloaded.
    home: OnceLock<Home>,
}

/// A reference to a loaded value, at most as long as the share that it was obtained with.
///
/// ```
/// use cabrank::{Interlock, execution::interlock::Loaded};
/// let (interlock, user) = (Interlock::new(), Loaded::new());
/// interlock.run(|r| {
///     user.get_or_load(r, || Ok::<_, ()>("Ann".to_owned())).unwrap();
///     let name = user.get(r).unwrap();
///     assert_eq!(name.len(), 3);
/// });
/// ```
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
    /// Returns `None` for an execution without a [share](Running::has_share), or of another interlock: its
    /// share would not prevent an unload.
    pub fn get<'r>(&self, running: &'r Running<'_>) -> Option<Handle<'r, T>> {
        let is_at_home = || self.home.get().is_some_and(|home| home.is_of(running.home()));
        let value = self.current().filter(|_| running.has_share() && is_at_home())?;
        Some(Handle { value, running: PhantomData })
    }

    /// Returns the value, or loads it by `load` while no other execution runs. Concurrent callers load it
    /// once.
    ///
    /// The handle borrows `running` exclusively; [`get`](Self::get) returns any number of handles.
    ///
    /// # Errors
    /// Those of [`Running::load`], and that of `load`: then the next call tries again.
    ///
    /// # Panics
    /// Under another interlock than the first [`set`](Self::set) or `clear`.
    pub fn get_or_load<'r, E>(
        &self,
        running: &'r mut Running<'_>,
        load: impl FnOnce() -> Result<T, E>,
    ) -> Result<Handle<'r, T>, LoadError<E>> {
        let home = Home::of(running.home());
        self.may_belong_to(&home);
        if self.current().is_none() || !running.has_share() {
            running
                .load(|loading| match self.current() {
                    // Another execution was first.
                    Some(_) => Ok(()),
                    None => load().map(|value| self.set(value, loading)),
                })?
                .map_err(LoadError::Load)?;
        }
        // Loaded, but perhaps under another interlock.
        self.may_belong_to(&home);
        // No unload can have come since: the owner had a share, or an entry that accepts only loads.
        self.get(running).ok_or(LoadError::Acquire(AcquireError::Forfeited))
    }

    /// Stores a value in place of the previous one.
    ///
    /// # Panics
    /// Under another interlock than the first `set` or `clear`: executions of that one may use the value.
    pub fn set(&self, value: T, alone: &mut Loading<'_>) {
        self.belongs_to(&alone.section.home);
        let former = self.swap(Some(Arc::new(UserValue::new(value))));
        drop(former);
    }
    /// Removes the value. It is dropped here, unless a handle still keeps it.
    ///
    /// # Panics
    /// Under another interlock, as [`set`](Self::set).
    pub fn clear(&self, alone: &mut Unloading<'_>) {
        self.belongs_to(&alone.section.home);
        let former = self.swap(None);
        drop(former);
    }

    /// Binds it to this interlock, unless it is bound.
    fn belongs_to(&self, home: &Home) {
        let _ = self.home.set(home.clone());
        self.may_belong_to(home);
    }
    fn may_belong_to(&self, home: &Home) {
        let may = self.home.get().is_none_or(|first| first.is(home));
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

impl<T> fmt::Debug for Loaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("loaded", &self.current().is_some()).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for Handle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
