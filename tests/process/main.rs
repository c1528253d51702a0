//! Tests that look at the whole process: what it allocates, and how often its cleaner threads wake up.

#[path = "../common/mod.rs"]
mod common;

mod allocations;
mod real_clock;
