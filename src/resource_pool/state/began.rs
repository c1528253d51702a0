//! The time at which something began, in a pool that is observed.

#[cfg(any(feature = "metrics", feature = "tracing"))]
use std::time::Instant;

/// Absent in a pool without a name. Without the features it takes no room.
#[derive(Clone, Copy, Default)]
pub(crate) struct Began(
    #[cfg(any(feature = "metrics", feature = "tracing"))] pub(crate) Option<Instant>,
);
