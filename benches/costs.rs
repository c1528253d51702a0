//! The table of costs of the application pool, by the number of groups, of processes in a group, and of threads.
//!
//! `cargo bench -p cabrank-benches --bench costs` prints it. Times are medians of short rounds. A ratio compares with
//! the limit of the same round: two lock-unlock pairs of parking_lot, because a get and its close are two sections.

mod free;

use cabrank::application_pool::Lease;
use cabrank::{ApplicationPool, PoolOptions};
use free::Free;
use parking_lot::Mutex;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use std::alloc::System;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Pool = ApplicationPool<Free>;

/// How often a case is repeated.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    calls: u32,
}

fn main() {
    // `cargo test --benches` runs each case once, to see that it runs.
    let is_test = std::env::args().any(|arg| arg == "--test");
    let effort = match is_test {
        true => Effort { rounds: 1, calls: 10 },
        false => Effort { rounds: 51, calls: 2_000 },
    };
    let groups: &[usize] = if is_test { &[1, 100] } else { &[1, 100, 10_000, 1_000_000] };
    println!("\n{:>9} groups, one process each", "");
    println!(
        "{:>9} {:>16} {:>16} {:>7} {:>9} {:>6} {:>5} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}",
        "groups",
        "get + close",
        "of any group",
        "allocs",
        "new opt.",
        "alone",
        "pass",
        "snapshot",
        "wait p50",
        "p99",
        "B/group",
        "B left",
        "beside 1"
    );
    groups.iter().for_each(|&groups| by_groups(groups, effort));
    println!("\n{:>9} processes in the group", "");
    println!("{:>9} {:>16} {:>16}", "", "others idle", "others busy");
    let processes: &[usize] = if is_test { &[1, 100] } else { &[1, 100, 10_000] };
    processes.iter().for_each(|&processes| by_processes(processes, effort));
    println!("\n{:>9} threads, one pool and one group", "");
    println!("{:>9} {:>9} {:>16}", "", "limit", "get + close");
    [1, 2, 8].into_iter().for_each(|threads| by_threads(threads, effort));
    let read = median(effort, |_| {
        black_box(Instant::now());
    });
    let coarse = median(effort, |_| {
        black_box(coarsetime::Instant::now());
    });
    println!(
        "\na read of std::time::Instant: {read:.1} ns; of the coarse clock, as in each close: {coarse:.1} ns"
    );
}

fn name(nth: usize) -> String {
    format!("/srv/applications/{nth:07}")
}

fn by_groups(groups: usize, effort: Effort) {
    let pool = ApplicationPool::builder(Free).max(2 * groups + 8).build().expect("a valid pool");
    let empty = ALLOCATOR.stats();
    // Each process is spawned on a thread of its own, so some are spawned side by side.
    for batch in (0..groups).collect::<Vec<_>>().chunks(32) {
        batch.iter().for_each(|nth| drop(pool.try_get(&PoolOptions::new(name(*nth)))));
        while pool.counts().spawning > 0 {
            thread::yield_now();
        }
    }
    let full = ALLOCATOR.stats();
    let bytes_a_group = (live(&full) - live(&empty)) / groups as i64;

    let one = PoolOptions::new(name(0));
    let get = ratio(effort, |_| drop(black_box(pool.get(&one))));
    // A thousand groups at random places of the table: more of them are cold than in a cache that the pool has for
    // itself.
    let some: Vec<_> = (0..groups.min(1_000))
        .map(|nth| PoolOptions::new(name(nth.wrapping_mul(7_919_777) % groups)))
        .collect();
    let any = ratio(effort, |nth| drop(black_box(pool.get(&some[nth % some.len()]))));
    let region = Region::new(ALLOCATOR);
    (0..effort.calls).for_each(|_| drop(black_box(pool.get(&one))));
    let allocations = region.change().allocations;
    let options = |nth| PoolOptions::new(name(0)).with_max_requests(1_000_000_000 + nth);
    let fresh = median(effort, |nth| drop(pool.get(&options(nth))));
    let alone = median(effort, |nth| drop(black_box(options(nth))));
    let pass = median(effort, |_| pool.clean());
    let (took, typical, long) = snapshots(&pool, &one, effort);

    let leaves = |nth| assert!(pool.detach_group(&name(nth)));
    drop(some);
    (1..groups).for_each(leaves);
    let beside = live(&ALLOCATOR.stats()) - live(&empty);
    leaves(0);
    drop(one);
    let left = live(&ALLOCATOR.stats()) - live(&empty);
    println!(
        "{groups:>9} {get:>16} {any:>16} {allocations:>7} {fresh:>9.0} {alone:>6.0} {pass:>5.0} {took:>9.1?} {typical:>9.1?} \
         {long:>9.1?} {bytes_a_group:>8} {left:>8} {beside:>8}"
    );
}

/// Returns how long a snapshot takes, and for how long it holds up gets: the median and the 99th percentile of their
/// waits above 10 µs. The machine's other work holds up a get, too.
fn snapshots(pool: &Pool, options: &PoolOptions, effort: Effort) -> (Duration, Duration, Duration) {
    const SLOW: Duration = Duration::from_micros(10);
    let rounds = effort.rounds.min(7);
    let took = middle((0..rounds).map(|_| time(|| drop(black_box(pool.snapshot())))).collect());
    let (stop, slow) = (AtomicBool::new(false), Mutex::new(Vec::with_capacity(100_000)));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let wait = time(|| drop(black_box(pool.get(options))));
                if wait > SLOW.as_secs_f64() {
                    slow.lock().push(wait);
                }
            }
        });
        (0..rounds).for_each(|_| drop(black_box(pool.snapshot())));
        stop.store(true, Relaxed);
    });
    let mut slow = slow.into_inner();
    slow.sort_by(f64::total_cmp);
    let at = |part: f64| slow.get((slow.len() as f64 * part) as usize).copied().unwrap_or(0.0);
    let [took, typical, long] = [took, at(0.5), at(0.99)].map(Duration::from_secs_f64);
    (took, typical, long)
}

/// Returns the time of one call, in seconds.
fn time(call: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    call();
    begun.elapsed().as_secs_f64()
}

/// A get and its close in a group of so many processes, all others of which are idle, or busy.
fn by_processes(processes: usize, effort: Effort) {
    let pool = ApplicationPool::builder(Free).max(processes).build().expect("a valid pool");
    let options = PoolOptions::new("/app").with_max_queue(None);
    let mut sessions: Vec<Lease<Free>> =
        (0..processes).map(|_| pool.checkout(&options).expect("a session")).collect();
    sessions.pop();
    let busy = ratio(effort, |_| drop(black_box(pool.get(&options))));
    sessions.clear();
    let idle = ratio(effort, |_| drop(black_box(pool.get(&options))));
    println!("{processes:>9} {idle:>16} {busy:>16}");
}

/// Wall time for each call, over all threads.
fn by_threads(threads: usize, effort: Effort) {
    let pool = ApplicationPool::builder(Free).max(threads).build().expect("a valid pool");
    let options = PoolOptions::new("/app");
    let sessions: Vec<_> = (0..threads).map(|_| pool.get(&options).expect("a session")).collect();
    drop(sessions);
    let lock = Mutex::new(0);
    let of_threads = |call: &(dyn Fn() + Sync)| {
        let barrier = Barrier::new(threads + 1);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    barrier.wait();
                    (0..effort.calls).for_each(|_| call());
                    barrier.wait();
                });
            }
            barrier.wait();
            let begun = Instant::now();
            barrier.wait();
            begun.elapsed().as_secs_f64() * 1e9 / (f64::from(effort.calls) * threads as f64)
        })
    };
    let mut times: Vec<_> = (0..effort.rounds)
        .map(|_| {
            let get = of_threads(&|| drop(black_box(pool.get(&options))));
            (of_threads(&|| two_lock_pairs(&lock)), get)
        })
        .collect();
    let limit = middle(times.iter().map(|time| time.0).collect());
    let ratio = middle(times.drain(..).map(|time| time.1).collect()) / limit;
    println!("{threads:>9} {limit:>9.1} {:>16}", format!("{:.1} ({ratio:.2})", ratio * limit));
}

fn two_lock_pairs(lock: &Mutex<u64>) {
    for _ in 0..2 {
        *black_box(lock).lock() += 1;
    }
}

fn live(stats: &Stats) -> i64 {
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64
}

/// Returns the median of the rounds, in nanoseconds for each call. The call gets its number.
fn median(effort: Effort, mut call: impl FnMut(usize)) -> f64 {
    let mut nth = 0;
    middle((0..effort.rounds).map(|_| round(effort, &mut nth, &mut call)).collect())
}

/// Returns the median time of a call, and its ratio to that of the limit.
fn ratio(effort: Effort, mut call: impl FnMut(usize)) -> String {
    let lock = Mutex::new(0);
    let mut nth = 0;
    let (mut calls, mut limits) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        calls.push(round(effort, &mut nth, &mut call));
        limits.push(round(effort, &mut nth, &mut |_| two_lock_pairs(&lock)));
    }
    let (call, limit) = (middle(calls), middle(limits));
    format!("{call:.0} ns ({:.2})", call / limit)
}

fn round(effort: Effort, nth: &mut usize, call: &mut impl FnMut(usize)) -> f64 {
    let took = time(|| {
        for _ in 0..effort.calls {
            call(*nth);
            *nth += 1;
        }
    });
    took * 1e9 / f64::from(effort.calls)
}

fn middle(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
