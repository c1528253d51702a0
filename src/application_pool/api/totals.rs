//! Counters over the life of a pool.

/// Counts of a pool's work since it was built.
///
/// ```
/// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
/// let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
/// drop(pool.get(&PoolOptions::new("/srv/shop"))?);
/// let totals = pool.snapshot().totals;
/// assert_eq!((totals.spawned, totals.waited, totals.processed), (1, 1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Totals {
    /// Spawns that gave a process, attached or not.
    pub spawned: u64,
    /// Spawns that failed.
    pub spawns_failed: u64,
    /// Processes detached, or never attached: `spawned - detached` is [`Counts::count`](crate::application_pool::Counts::count).
    pub detached: u64,
    /// Processes never attached, among these: when they were ready, they were no longer wanted, or had failed.
    pub unwanted: u64,
    /// Sessions closed.
    pub processed: u64,
    /// Gets that had to wait, served or not. Each counts once, however often it waits.
    pub waited: u64,
}
