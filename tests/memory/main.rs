//! The memory that a pool keeps: after 10,000 rounds of each life cycle the program has as many bytes as after 1,000.

// The tools of the models run the library's own tests only.
#![cfg(not(any(feature = "loom", feature = "shuttle")))]

#[path = "../common/mod.rs"]
mod common;

mod application_pool;
mod resource_pool;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counts the bytes of all threads.
#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test at a time.
static ALONE: Mutex<()> = Mutex::new(());

const FEW: usize = 1_000;
const MANY: usize = 10_000;

fn bytes() -> usize {
    let stats = MEMORY.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Asserts that less than a byte of each round is kept.
#[track_caller]
fn keeps_no_memory(round: impl FnMut(usize)) {
    let (few, many) = bytes_after(Duration::from_secs(20), round);
    assert!(many < few + MANY - FEW, "{few} bytes after {FEW} rounds, {many} after {MANY}");
}

/// Returns the bytes after the first rounds, and after all of them.
///
/// Threads of the library may still be about to end, and free memory at their end: they have this time.
fn bytes_after(patience: Duration, mut round: impl FnMut(usize)) -> (usize, usize) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    (0..FEW).for_each(&mut round);
    let few = bytes();
    (FEW..MANY).for_each(&mut round);
    let ended = Instant::now();
    loop {
        let many = bytes();
        if many < few + MANY - FEW || ended.elapsed() >= patience {
            return (few, many);
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_byte_of_each_round_is_noticed() {
    let mut kept = Vec::with_capacity(MANY);
    let (few, many) = bytes_after(Duration::ZERO, |_| kept.push(Box::new(1_u8)));
    assert!(many >= few + MANY - FEW, "{few} bytes, then {many}");
    assert_eq!(kept.len(), MANY);
}
