//! The process in which a value was made.

/// Says whether this process was forked from that in which the value was made.
pub(crate) struct Origin(forkguard::Guard);

impl Origin {
    pub(crate) fn here() -> Self {
        Origin(forkguard::new())
    }
    /// Costs one load of a number that each fork counts in its child.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.0.clone().detected_fork()
    }
}
