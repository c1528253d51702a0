//! What a load and an unload are given: that nobody else runs.

use super::Inner;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

/// The section: in which interlock, and what was unloaded before it.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) home: Home,
    pub(super) generation: u64,
}

/// Which interlock it is. Its address is nobody else's as long as this is kept.
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

/// That nobody else runs: something may be loaded.
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

/// That nobody else runs, and nobody is in a permit block: what is loaded may be unloaded.
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
    /// How often something was unloaded before.
    pub fn generation(&self) -> u64 {
        self.section.generation
    }
}
impl Unloading<'_> {
    pub(super) fn new(section: Section) -> Self {
        Unloading { section, hold: PhantomData }
    }
    /// How often something was unloaded before.
    pub fn generation(&self) -> u64 {
        self.section.generation
    }
    /// Loads at once: nobody else runs. For what takes the place of what was unloaded.
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
