//! Tests that look at the whole process: what it allocates, how often its cleaner threads wake up, and which threads
//! are left.

#[path = "../common/mod.rs"]
mod common;

mod allocations;
mod real_clock;
mod threads;
