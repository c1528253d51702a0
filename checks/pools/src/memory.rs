//! Memory, threads and open files at quiet moments.

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How far a later quiet moment may be above the first ones: allocated bytes, and resident bytes.
///
/// The pool of children is open then, and its tables reach their largest size at some time. The system's allocator
/// keeps freed pages, so the resident set says less.
pub(crate) const BOUNDS: [u64; 2] = [4 << 10, 8 << 20];

/// The numbers of a quiet moment. Only Linux has all of them; elsewhere all but the first are zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiet {
    /// Allocated and not freed, by a counting allocator.
    pub(crate) allocated: u64,
    pub(crate) resident: u64,
    pub(crate) threads: usize,
    pub(crate) files: usize,
}

impl Quiet {
    pub(crate) fn now() -> Quiet {
        let stats = ALLOCATOR.stats();
        let entries = |dir| std::fs::read_dir(dir).map_or(0, Iterator::count);
        let (threads, files) = (entries("/proc/self/task"), entries("/proc/self/fd"));
        Quiet {
            allocated: (stats.bytes_allocated - stats.bytes_deallocated) as u64,
            resident: resident().unwrap_or(0),
            threads,
            files,
        }
    }
}

fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// The most at the quiet moments of the first tenth of a run, and of the rest of it.
pub(crate) struct Memory {
    first: Duration,
    most: [Option<[u64; 2]>; 2],
}

impl Memory {
    pub(crate) fn new(first: Duration) -> Memory {
        Memory { first, most: [None; 2] }
    }

    pub(crate) fn note(&mut self, at: Duration, quiet: Quiet) {
        let later = self.most[0].is_some() && at > self.first;
        let most = self.most[usize::from(later)].get_or_insert([0; 2]);
        *most = [most[0].max(quiet.allocated), most[1].max(quiet.resident)];
    }

    /// Prints both, and asserts that they agree.
    pub(crate) fn check(&self) {
        let first = self.most[0].expect("one quiet moment");
        let rest = self.most[1].unwrap_or(first);
        for (nth, name) in ["allocated", "resident"].into_iter().enumerate() {
            let [first, rest] = [first[nth], rest[nth]];
            println!("  {name} at quiet moments: first tenth {first}, rest {rest} bytes");
            assert!(rest <= first + BOUNDS[nth], "memory is not flat: {name}");
        }
    }
}
