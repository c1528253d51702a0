//! A consistent snapshot of a pool.

use crate::resource_pool::state::names::Shared;
use std::fmt;
use std::time::Duration;

/// The state of a pool at one moment.
///
/// A snapshot copies a few numbers of every resource under the lock, and sorts them after the lock is released. So it
/// holds the lock for longer the more resources there are.
///
/// ```
#[doc = include_str!("example.txt")]
/// use cabrank::resource_pool::ResourceState;
///
/// let pool = KeyedResourcePool::builder(Connections).build()?;
/// let lent = pool.borrow(&"a.example")?;
/// pool.add(&"b.example")?;
///
/// let snapshot = pool.snapshot();
/// assert_eq!((snapshot.active, snapshot.idle), (1, 1));
/// for key in &snapshot.keys {
///     println!("{:?}: {} lent, {} idle", key.key(), key.active, key.idle());
/// }
/// assert_eq!(snapshot.keys[0].resources[0].state, ResourceState::Lent);
/// # drop(lent);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Snapshot<M> {
    /// Whether the pool is closed.
    pub closed: bool,
    /// Resources that exist or have a place: lent, idle, being created or destroyed. An eviction victim and the
    /// resource that takes its place count as one.
    pub total: usize,
    /// Resources that are lent, or reserved for a borrower.
    pub active: usize,
    /// Idle resources.
    pub idle: usize,
    /// Borrowers that wait for their turn.
    pub waiting: usize,
    /// The keys, in the order in which the pool met them. A pool without keys has one entry.
    pub keys: Vec<KeySnapshot<M>>,
}

/// The state of one key. Its serialized form has the key in `key`, or `None` in a pool without keys.
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(bound = "M: serde::Serialize"))]
#[non_exhaustive]
pub struct KeySnapshot<M> {
    #[cfg_attr(feature = "serde", serde(rename = "key", serialize_with = "as_key"))]
    pub(crate) metadata: Option<Shared<M>>,
    /// Resources that exist or have a place, including a victim for another key until it is destroyed.
    pub total: usize,
    /// Resources that are lent, or reserved for a borrower.
    pub active: usize,
    /// Borrowers that wait for their turn.
    pub waiting: usize,
    /// Idle resources, the longest idle first, then all others by `id`.
    pub resources: Vec<ResourceSnapshot>,
}

#[cfg(feature = "serde")]
fn as_key<M: serde::Serialize, S: serde::Serializer>(
    metadata: &Option<Shared<M>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&metadata.as_deref().map(|metadata| &**metadata), serializer)
}

impl<M> KeySnapshot<M> {
    /// Returns the key, or `None` in a pool without keys.
    pub fn key(&self) -> Option<&M> {
        self.metadata.as_deref().map(|metadata| &**metadata)
    }
    /// Returns the number of idle resources, with those under test.
    pub fn idle(&self) -> usize {
        let idle = [ResourceState::Idle, ResourceState::Tested];
        self.resources.iter().filter(|resource| idle.contains(&resource.state)).count()
    }
}

/// The state of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ResourceSnapshot {
    /// Its number, which the pool never reuses.
    pub id: u64,
    /// Its state.
    pub state: ResourceState,
    /// Time since its creation began, or else since its place was reserved. `None` if no option of the pool needs
    /// times.
    pub age: Option<Duration>,
    /// For an idle resource, the time since it became idle. For a lent one, the time since the loan began if
    /// [`abandoned_after`](crate::resource_pool::Builder::abandoned_after) is set, else since it last became idle or was
    /// begun. `None` if no option of the pool needs times.
    pub since: Option<Duration>,
}

/// The state of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ResourceState {
    /// Idle: it can be lent.
    Idle,
    /// Idle and being tested: it cannot be lent until the test ends.
    Tested,
    /// Lent to a borrower, granted to one, or being created or activated for one.
    Lent,
    /// Being created to become idle, also where the borrower that began it has left.
    BeingCreated,
    /// Lent for too long: its place was reclaimed and it no longer counts.
    Abandoned,
    /// Evicted: its place belongs to another resource, and its destruction is due.
    MarkedForEviction,
    /// Being destroyed.
    Leaving,
}

impl<M> fmt::Debug for Snapshot<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("closed", &self.closed)
            .field("total", &self.total)
            .field("active", &self.active)
            .field("idle", &self.idle)
            .field("waiting", &self.waiting)
            .field("keys", &self.keys)
            .finish()
    }
}

impl<M> fmt::Debug for KeySnapshot<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySnapshot")
            .field("total", &self.total)
            .field("active", &self.active)
            .field("waiting", &self.waiting)
            .field("resources", &self.resources)
            .finish_non_exhaustive()
    }
}
