//! The proofs that a load or an unload passes on: no other execution runs.

use super::Inner;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

/// The section's interlock, and the generation before it.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) home: Home,
    pub(super) generation: u64,
}

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

/// Proof that no other execution runs: values may be loaded.
///
/// ```
/// let interlock = cabrank::Interlock::new();
/// interlock.run(|r| r.load(|loading| assert_eq!(loading.generation(), 0))).unwrap();
/// ```
#[derive(Debug)]
pub struct Loading<'a> {
    pub(super) section: Section,
    hold: PhantomData<&'a mut ()>,
}

/// Proof that no other execution runs or is in a permit block: values may be unloaded.
///
/// ```
/// let interlock = cabrank::Interlock::new();
/// interlock.run(|r| r.unload(|unloading| assert_eq!(unloading.generation(), 0))).unwrap();
/// assert_eq!(interlock.generation(), 1);
/// ```
#[derive(Debug)]
pub struct Unloading<'a> {
    pub(super) section: Section,
    hold: PhantomData<&'a mut ()>,
}

impl Loading<'_> {
    pub(super) fn new(section: Section) -> Self {
        Loading { section, hold: PhantomData }
    }
    /// Returns how many unloads came before.
    pub fn generation(&self) -> u64 {
        self.section.generation
    }
}
impl Unloading<'_> {
    pub(super) fn new(section: Section) -> Self {
        Unloading { section, hold: PhantomData }
    }
    /// Returns how many unloads came before.
    pub fn generation(&self) -> u64 {
        self.section.generation
    }
    /// Loads without waiting, because no other execution runs: for the replacement of an unloaded value.
    ///
    /// ```
    /// use cabrank::execution::interlock::{Interlock, Loaded};
    ///
    /// let (interlock, version) = (Interlock::new(), Loaded::new());
    /// interlock.run(|r| {
    ///     r.unload(|unloading| unloading.load(|loading| version.set(2, loading))).unwrap();
    ///     assert_eq!(*version.get(r).unwrap(), 2);
    /// });
    /// ```
    pub fn load<R>(&mut self, f: impl FnOnce(&mut Loading<'_>) -> R) -> R {
        f(&mut Loading::new(self.section.clone()))
    }
}
