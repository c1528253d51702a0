//! How tables that are mostly empty become smaller.
//!
//! A table doubles as its elements come. When seven eighths of it are empty, what is left moves to a smaller one. This costs
//! what the table still has, and less than the growth did that it undoes. The old table is returned, so that its memory is
//! freed without the lock. A table cannot become smaller than the highest key in use.

use super::arena::{Arena, Key};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::mem::replace;

/// The capacity above which a table becomes smaller.
pub(crate) const LARGE: usize = 256;

/// The inverse of the part that a table has at most in use when it is moved.
const MOSTLY: usize = 8;

/// Returns how many elements a table of this capacity has when it is mostly empty.
pub(crate) fn mostly_empty(capacity: usize) -> usize {
    if capacity > LARGE { capacity / MOSTLY } else { 0 }
}

/// Moves all elements, which have these keys, to a smaller arena. Returns the old one.
pub(crate) fn smaller_arena<T, N>(
    arena: &mut Arena<T, N>,
    keys: Vec<Key<N>>,
) -> Option<Arena<T, N>> {
    let size = keys.iter().max().map_or(0, |last| last.index() + 1);
    if arena.capacity() <= LARGE || size > mostly_empty(arena.capacity()) {
        return None;
    }
    Some(arena.shrink(keys))
}

/// Moves all entries to a map of the capacity that they need. Returns the old one.
///
/// A map moves with the arena to which it leads. Its own capacity does not tell its size: the places of removed entries may count
/// as used.
pub(crate) fn smaller_map<K, V, S>(map: &mut HashMap<K, V, S>) -> HashMap<K, V, S>
where
    K: Eq + Hash,
    S: BuildHasher + Default,
{
    let mut moved = HashMap::with_capacity_and_hasher(map.len(), S::default());
    moved.extend(map.drain());
    replace(map, moved)
}
