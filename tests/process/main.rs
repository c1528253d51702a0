//! Tests that look at the whole process: what it allocates, how often its cleaner threads wake up, and which threads
//! are left.

// The tools of the models run the library's own tests only.
#![cfg(not(any(feature = "loom", feature = "shuttle")))]

#[path = "../common/mod.rs"]
mod common;

mod allocations;
mod growth;
mod real_clock;
mod shut_down;
mod threads;
