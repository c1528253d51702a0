//! What a load and an unload are given: that nobody else runs.

use std::marker::PhantomData;

/// That nobody else runs: something may be loaded.
///
/// ```
/// let interlock = cabrank::Interlock::new();
/// interlock.run(|r| r.load(|loading| assert_eq!(loading.generation(), 0))).unwrap();
/// ```
#[derive(Debug)]
pub struct Loading<'a> {
    generation: u64,
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
    generation: u64,
    hold: PhantomData<&'a mut ()>,
}

impl Loading<'_> {
    pub(super) fn new(generation: u64) -> Self {
        Loading { generation, hold: PhantomData }
    }
    /// How often something was unloaded before.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}
impl Unloading<'_> {
    pub(super) fn new(generation: u64) -> Self {
        Unloading { generation, hold: PhantomData }
    }
    /// How often something was unloaded before.
    pub fn generation(&self) -> u64 {
        self.generation
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
        f(&mut Loading::new(self.generation))
    }
}
