//! A group's place among the groups with an idle process (`inactive_apps.rs`).

use super::table_keys::Groups;
use crate::kernel::collections::indexed_heap::HeapIndex;
use crate::kernel::collections::list::Links;

/// One group's place in the pool's `inactive_apps`.
#[derive(Debug, Default)]
pub(crate) struct Inactive {
    pub(super) standing: Option<Standing>,
    pub(super) recent: Links<Groups>,
    pub(super) others: HeapIndex,
}

/// Determines a group's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The rank of its longest idle process.
    pub(crate) rank: u64,
    /// Whether its minimum protects that process.
    pub(crate) protected: bool,
}

impl Inactive {
    #[inline]
    pub(crate) fn standing(&self) -> Option<Standing> {
        self.standing
    }
}
