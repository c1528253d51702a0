//! The library's step counter, without the count. Cargo compiles a benchmark without harness as a test, too.

/// Counts nothing.
pub(crate) fn step() {}
