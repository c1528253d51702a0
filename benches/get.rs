//! The cost of a get and its close, as a ratio to its limit: two uncontended lock-unlock pairs of
//! parking_lot in the same run. Cases with 100,000 more processes show that their number does not matter.
//!
//! `cargo bench -p cabrank-benches --bench get` runs each case and prints the ratios of medians in the end. The cases
//! are interleaved in short rounds, because machines are shared and noisy.

mod free;

use cabrank::application_pool::Lease;
use cabrank::{ApplicationPool, PoolOptions};
use criterion::{Criterion, criterion_group};
use free::Free;
use std::hint::black_box;
use std::time::Instant;

type Pool = ApplicationPool<Free>;

/// A pool that is asked for one group, and has `others` more processes, idle or busy.
struct Case {
    pool: Pool,
    options: PoolOptions,
    // These sessions keep the other processes busy.
    _sessions: Vec<Lease<Free>>,
}

impl Case {
    fn new(others: usize, busy: bool) -> Case {
        let pool = ApplicationPool::builder(Free).max(others + 8).build();
        let pool = pool.expect("a valid pool");
        let crowd = PoolOptions::new("/crowd").with_max_queue(None);
        let mut sessions = Vec::with_capacity(others);
        for _ in 0..others {
            sessions.push(pool.checkout(&crowd).expect("a session"));
        }
        if !busy {
            sessions.clear();
        }
        let options = PoolOptions::new("/app");
        drop(pool.get(&options).expect("a session"));
        Case { pool, options, _sessions: sessions }
    }
    fn get_and_close(&self) {
        drop(black_box(self.pool.get(&self.options)));
    }
    fn checkout_and_close(&self) {
        drop(black_box(self.pool.checkout(&self.options)));
    }
}

fn two_lock_pairs(lock: &parking_lot::Mutex<u64>) {
    for _ in 0..2 {
        *black_box(lock).lock() += 1;
    }
}

fn criterion_cases(c: &mut Criterion) {
    let lock = parking_lot::Mutex::new(0);
    c.bench_function("limit: two lock-unlock pairs", |b| b.iter(|| two_lock_pairs(&lock)));
    let case = Case::new(0, false);
    c.bench_function("get and close, 1 process", |b| b.iter(|| case.get_and_close()));
    c.bench_function("checkout and close, 1 process", |b| b.iter(|| case.checkout_and_close()));
}

/// Medians over interleaved rounds, in nanoseconds.
fn ratios() {
    const ROUNDS: usize = 101;
    const EACH: u32 = 20_000;
    let lock = parking_lot::Mutex::new(0);
    let (one, idle, busy) =
        (Case::new(0, false), Case::new(100_000, false), Case::new(100_000, true));
    let cases: [(&str, &dyn Fn()); 6] = [
        ("limit: two lock-unlock pairs", &|| two_lock_pairs(&lock)),
        ("clock read (std::time::Instant)", &|| {
            black_box(Instant::now());
        }),
        ("checkout + close, 1 process", &|| one.checkout_and_close()),
        ("get + close, 1 process", &|| one.get_and_close()),
        ("get + close, 100,000 more, idle", &|| idle.get_and_close()),
        ("get + close, 100,000 more, busy", &|| busy.get_and_close()),
    ];
    let mut times = vec![Vec::with_capacity(ROUNDS); cases.len()];
    for _ in 0..ROUNDS {
        for (times, (_, run)) in times.iter_mut().zip(&cases) {
            let begun = Instant::now();
            for _ in 0..EACH {
                run();
            }
            times.push(begun.elapsed().as_secs_f64() * 1e9 / f64::from(EACH));
        }
    }
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect();
    println!("\n{:34} {:>8} {:>16}", "case", "ns", "ratio to limit");
    for ((name, _), median) in cases.iter().zip(&medians) {
        println!("{name:34} {median:8.1} {:16.2}", median / medians[0]);
    }
    println!(
        "100,000 idle to 1: {:.2}; 100,000 busy to 1: {:.2}",
        medians[4] / medians[3],
        medians[5] / medians[3]
    );
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
