//! The library's own lists, at their own paths: they are private. The benchmark and the test use a part of them.

pub(crate) mod collections;
pub(crate) mod steps;
