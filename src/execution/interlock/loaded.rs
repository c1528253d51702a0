//! Things that are loaded under the interlock, and handles to them.

use super::alone::{Home, Loading, Unloading};
use super::error::{AcquireError, LoadError};
use super::running::Running;
use crate::user_code::UserValue;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Something that is loaded when it is first needed, and unloaded as a whole.
///
/// A [`Handle`] to it borrows from a [`Running`]: as long as it lives, what it refers to is what is loaded,
/// but for what its own execution does in a section that it is in already. A handle that was got inside
/// an unload may outlive a [`clear`](Self::clear) there; it then keeps what was loaded before.
///
/// This compiles, for the handle is used before the permit block only:
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
/// A handle that lives across a permit block does not:
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
/// Nor one that is used inside it:
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
/// Nor one that lives across a load, which may have to wait while others load (before it, it may be
/// used):
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
/// Nor across an unload, after which it has to be looked for again:
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
/// Nor after the execution:
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
    /// Locked for as long as it takes to copy or swap a reference.
    value: RwLock<Option<Arc<UserValue<T>>>>,
    /// The interlock that it is loaded and unloaded under: the first that it was.
    home: OnceLock<Home>,
}

/// A reference to what is loaded, that lives no longer than the share it was got with allows.
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
    /// Nothing is loaded yet.
    pub const fn new() -> Self {
        Loaded { value: RwLock::new(None), home: OnceLock::new() }
    }

    /// What is loaded. None too for an execution without a [share](Running::has_share), and for one of
    /// another interlock, which would keep nobody from unloading it.
    pub fn get<'r>(&self, running: &'r Running<'_>) -> Option<Handle<'r, T>> {
        let is_at_home = || self.home.get().is_some_and(|home| home.is_of(running.home()));
        let value = self.current().filter(|_| running.has_share() && is_at_home())?;
        Some(Handle { value, running: PhantomData })
    }

    /// What is loaded; if nothing is, it is loaded by `load`, while nobody else runs. Several that need
    /// it at once load it once.
    ///
    /// The handle keeps `running` borrowed whole; [`get`](Self::get) gives any number of them.
    ///
    /// # Errors
    /// Those of [`Running::load`], and that of `load`: then nothing is loaded, and the next tries again.
    ///
    /// # Panics
    /// Under another interlock than it was first loaded or unloaded under; see [`set`](Self::set). A `load`
    /// that fails is none.
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
                    // Somebody else was first.
                    Some(_) => Ok(()),
                    None => load().map(|value| self.set(value, loading)),
                })?
                .map_err(LoadError::Load)?;
        }
        // It is loaded; but somebody may have been first under another interlock.
        self.may_belong_to(&home);
        // Nobody can have unloaded it since: a share has been there, or an entry that accepts loads
        // alone.
        self.get(running).ok_or(LoadError::Acquire(AcquireError::Forfeited))
    }

    /// Something is loaded, in place of what was before.
    ///
    /// # Panics
    /// Under another interlock than it was first loaded or unloaded under: those who have a share of that
    /// one may be using it.
    pub fn set(&self, value: T, alone: &mut Loading<'_>) {
        self.belongs_to(&alone.section.home);
        let former = self.swap(Some(Arc::new(UserValue::new(value))));
        drop(former);
    }
    /// Nothing is loaded any more. What was is dropped here, unless somebody kept it.
    ///
    /// # Panics
    /// Under another interlock, as [`set`](Self::set).
    pub fn clear(&self, alone: &mut Unloading<'_>) {
        self.belongs_to(&alone.section.home);
        let former = self.swap(None);
        drop(former);
    }

    /// From here on, to this one.
    fn belongs_to(&self, home: &Home) {
        let _ = self.home.set(home.clone());
        self.may_belong_to(home);
    }
    fn may_belong_to(&self, home: &Home) {
        let may = self.home.get().is_none_or(|first| first.is(home));
        assert!(may, "it belongs to another interlock");
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
