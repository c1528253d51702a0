//! The rights that a load or an unload passes on: no other execution runs.

use super::inner::Inner;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

/// Identifies an interlock. Its address stays unique while this value lives.
#[derive(Clone)]
pub(super) struct Home(Weak<Inner>);

impl Home {
    pub(super) fn of(home: &Arc<Inner>) -> Self {
        Home(Arc::downgrade(home))
    }
    pub(super) fn is(&self, other: &Home) -> bool {
        self.0.ptr_eq(&other.0)
    }
    pub(super) fn is_of(&self, home: &Arc<Inner>) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(home))
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ptr().fmt(f)
    }
}

/// The right to load values: no other execution runs.
///
/// ```
/// let interlock = cabrank::Interlock::new();
/// let generation = interlock.run(|r| r.load(|loading| loading.generation()))??;
/// assert_eq!(generation, 0);
/// # Ok::<(), cabrank::execution::interlock::AcquireError>(())
/// ```
#[derive(Debug)]
pub struct Loading<'a> {
    /// Absent where there is no interlock.
    pub(super) home: Option<Home>,
    generation: u64,
    hold: PhantomData<&'a mut ()>,
}

/// The right to unload values: no other execution runs or is in a permit block.
///
/// ```
/// let interlock = cabrank::Interlock::new();
/// interlock.unload(|unloading| assert_eq!(unloading.generation(), 0))?;
/// assert_eq!(interlock.generation(), 1);
/// # Ok::<(), cabrank::execution::interlock::AcquireError>(())
/// ```
#[derive(Debug)]
pub struct Unloading<'a> {
    pub(super) home: Home,
    generation: u64,
    hold: PhantomData<&'a mut ()>,
}

impl Loading<'_> {
    pub(super) fn new(home: &Arc<Inner>, generation: u64) -> Self {
        Loading { home: Some(Home::of(home)), generation, hold: PhantomData }
    }
    /// Returns the right to load where there is no interlock.
    pub(crate) fn detached() -> Loading<'static> {
        Loading { home: None, generation: 0, hold: PhantomData }
    }
    /// Returns how many unloads came before.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Unloading<'_> {
    pub(super) fn new(home: &Arc<Inner>, generation: u64) -> Self {
        Unloading { home: Home::of(home), generation, hold: PhantomData }
    }
    /// Returns how many unloads came before.
    pub fn generation(&self) -> u64 {
        self.generation
    }
    /// Calls `f` to load the replacement of an unloaded value. It does not wait, because no other execution runs.
    ///
    /// ```
    /// use cabrank::execution::interlock::{AcquireError, Interlock, Loaded};
    ///
    /// let (interlock, version) = (Interlock::new(), Loaded::new());
    /// interlock.unload(|unloading| unloading.load(|loading| version.set(2, loading)))?;
    /// interlock.run(|r| assert_eq!(*version.get(r).expect("it is loaded"), 2))?;
    /// # Ok::<(), AcquireError>(())
    /// ```
    pub fn load<R>(&mut self, f: impl FnOnce(&mut Loading<'_>) -> R) -> R {
        let home = Some(self.home.clone());
        f(&mut Loading { home, generation: self.generation, hold: PhantomData })
    }
}
