//! placeholder
use super::state::State;
use crate::section::{Invariant, invariants};
pub(super) const ALL: &[Invariant<State>] = invariants! {};
