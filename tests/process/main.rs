//! Tests that look at the whole process: what it allocates, how often its cleaner threads wake up, and which threads
//! are left.

// The tools of the models run the library's own tests only.
#![cfg(not(any(feature = "loom", feature = "shuttle")))]

#[path = "../common/mod.rs"]
mod common;

mod allocations;
mod growth;
mod memory;
mod no_threads;
mod real_clock;
mod shut_down;
mod shutdown_all;
mod threads;

/// Asserts that the rounds after the first thousand keep no memory of the calling thread. Rounds are numbered.
///
/// A table may have grown once, by what one of its entries takes.
#[track_caller]
fn keeps_no_memory(mut round: impl FnMut(u64)) {
    (0..1_000).for_each(&mut round);
    let kept = allocation_counter::measure(|| (1_000..10_000).for_each(&mut round)).bytes_current;
    assert!(kept < 1_000, "{kept} bytes are kept by 9,000 rounds");
}
