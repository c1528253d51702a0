//! The cost of an execution without a concurrent load: to enter and to leave, as a ratio to an uncontended read
//! lock of parking_lot in the same run, on one thread and on two.
//!
//! `cargo bench -p cabrank-benches --bench interlock` runs each case and prints the ratios of medians in the end. The cases
//! are interleaved in short rounds, because machines are shared and noisy.

use cabrank::{Clock, Interlock};
use criterion::{Criterion, criterion_group};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

fn enter_and_leave(interlock: &Interlock) {
    drop(black_box(interlock.enter()));
}
fn run(interlock: &Interlock) {
    interlock.run(|r| {
        black_box(r);
    });
}
fn read_and_unlock(lock: &parking_lot::RwLock<u64>) {
    drop(black_box(black_box(lock).read()));
}

fn criterion_cases(c: &mut Criterion) {
    let (interlock, lock) = (Interlock::new(), parking_lot::RwLock::new(0));
    c.bench_function("limit: parking_lot read and unlock", |b| b.iter(|| read_and_unlock(&lock)));
    c.bench_function("enter and leave", |b| b.iter(|| enter_and_leave(&interlock)));
    c.bench_function("run", |b| b.iter(|| run(&interlock)));
}

const ROUNDS: usize = 101;
const EACH: u32 = 20_000;

/// Nanoseconds for each of `EACH` calls on each of `threads` threads at once.
fn time(threads: usize, call: &(dyn Fn() + Sync)) -> f64 {
    let barrier = Barrier::new(threads);
    let one = || {
        barrier.wait();
        let begun = Instant::now();
        for _ in 0..EACH {
            call();
        }
        begun.elapsed().as_secs_f64() * 1e9 / f64::from(EACH)
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one)).collect();
        let mine = one();
        others.into_iter().map(|other| other.join().expect("no panic")).fold(mine, f64::max)
    })
}

/// Medians over interleaved rounds.
fn ratios() {
    let lock = parking_lot::RwLock::new(0);
    let interlock = Interlock::new();
    // With a clock that is free to read, which shows the cost of the reading.
    let hands = cabrank::ManualClock::new();
    let still: Clock = hands.clock();
    let timeless = Interlock::with_clock(still);
    let absent: Option<Interlock> = None;
    let cases: [(&str, &(dyn Fn() + Sync)); 5] = [
        ("limit: read lock and unlock", &|| read_and_unlock(&lock)),
        ("enter and leave", &|| enter_and_leave(&interlock)),
        ("the same, no time read", &|| enter_and_leave(&timeless)),
        ("run", &|| run(&interlock)),
        ("no interlock", &|| {
            if let Some(interlock) = black_box(&absent) {
                enter_and_leave(interlock);
            }
        }),
    ];
    for threads in [1, 2] {
        let mut times = vec![Vec::with_capacity(ROUNDS); cases.len()];
        for _ in 0..ROUNDS {
            for (times, (_, call)) in times.iter_mut().zip(&cases) {
                times.push(time(threads, *call));
            }
        }
        println!("\n{threads} thread(s)");
        println!("{:34} {:>8} {:>16}", "case", "ns", "ratio to limit");
        let mut limit = None;
        for ((name, _), times) in cases.iter().zip(&mut times) {
            times.sort_by(f64::total_cmp);
            let median = times[times.len() / 2];
            let ratio = median / *limit.get_or_insert(median);
            println!("{name:34} {median:8.1} {ratio:16.2}");
        }
    }
}

criterion_group!(benches, criterion_cases);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    // `cargo test --benches` runs each once, to see that it runs.
    if !std::env::args().any(|arg| arg == "--test") {
        ratios();
    }
}
