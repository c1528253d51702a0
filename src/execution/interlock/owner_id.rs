//! The names of owners.

use crate::collections::slab_list::Key;
use std::fmt;

/// Names one execution in dumps and errors. Shown as `place.use`: a place is used again, and its use counts up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId {
    place: usize,
    uses: u64,
}

impl OwnerId {
    pub(super) fn new(place: Key, uses: u64) -> Self {
        OwnerId { place: place.index(), uses }
    }
    pub(super) fn key(self) -> Key {
        Key::new(self.place)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.place, self.uses)
    }
}
