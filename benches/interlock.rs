//! The cost of an execution without a concurrent load, in nanoseconds. The ratio is to two lock pairs, because an
//! execution enters by one critical section and leaves by another.
//!
//! `cargo bench -p cabrank-benches --bench interlock` prints medians over interleaved rounds, because machines are
//! shared and noisy. Each case runs on one thread, on two and on eight.

use cabrank::{Executor, Interlock};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// Each in nanoseconds for each call, on each of several threads at once.
const THREADS: [usize; 3] = [1, 2, 8];

type Call<'a> = Box<dyn Fn() + Sync + 'a>;

struct Case<'a> {
    name: &'static str,
    /// Called once on each thread before each round.
    before: Call<'a>,
    call: Call<'a>,
}

fn case<'a>(name: &'static str, call: impl Fn() + Sync + 'a) -> Case<'a> {
    Case { name, before: Box::new(|| ()), call: Box::new(call) }
}
fn after<'a>(
    name: &'static str,
    before: impl Fn() + Sync + 'a,
    call: impl Fn() + Sync + 'a,
) -> Case<'a> {
    Case { name, before: Box::new(before), call: Box::new(call) }
}

fn run(interlock: &Interlock) {
    let _ = interlock.run(|r| {
        black_box(r);
    });
}
fn permit(interlock: &Interlock) {
    let _ = interlock.run(|r| {
        let _ = r.permit_loads(|| ());
    });
}
fn wrap(executor: &Executor) {
    let _ = executor.wrap(|execution| {
        black_box(execution);
        Ok(())
    });
}

/// Nanoseconds for each of `each` calls.
fn time(threads: usize, each: u32, case: &Case<'_>) -> f64 {
    let barrier = Barrier::new(threads);
    let one = || {
        (case.before)();
        barrier.wait();
        let begun = Instant::now();
        for _ in 0..each {
            (case.call)();
        }
        begun.elapsed().as_secs_f64() * 1e9 / f64::from(each)
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one)).collect();
        let mine = one();
        others.into_iter().map(|other| other.join().expect("no panic")).fold(mine, f64::max)
    })
}

fn measure(rounds: usize, each: u32) {
    let lock = parking_lot::Mutex::new(0u64);
    let interlock = Interlock::new();
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let plain = Executor::builder().build();
    let absent: Option<Interlock> = None;
    let cases = [
        case("two lock pairs", || {
            for _ in 0..2 {
                *black_box(&lock).lock() += 1;
            }
        }),
        case("run", || run(&interlock)),
        after("run, after a permit block", || permit(&interlock), || run(&interlock)),
        case("run with a permit block", || permit(&interlock)),
        case("executor, wrap", || wrap(&executor)),
        after("executor, wrap after a permit block", || permit(&interlock), || wrap(&executor)),
        case("executor without an interlock, wrap", || wrap(&plain)),
        case("no interlock", || {
            if let Some(interlock) = black_box(&absent) {
                run(interlock);
            }
        }),
    ];
    for threads in THREADS {
        let each = each / threads as u32;
        let mut times = vec![Vec::with_capacity(rounds); cases.len()];
        for _ in 0..rounds {
            for (times, case) in times.iter_mut().zip(&cases) {
                times.push(time(threads, each, case));
            }
        }
        println!("\n{threads} thread(s)");
        println!("{:38} {:>8} {:>10}", "case", "ns", "ratio");
        let mut limit = None;
        for (case, times) in cases.iter().zip(&mut times) {
            times.sort_by(f64::total_cmp);
            let median = times[times.len() / 2];
            let ratio = median / *limit.get_or_insert(median);
            println!("{:38} {median:8.1} {ratio:10.2}", case.name);
        }
    }
}

fn main() {
    // `cargo test --benches` runs each once, to see that it runs.
    let is_test = std::env::args().any(|arg| arg == "--test");
    if is_test { measure(1, 100) } else { measure(51, 20_000) }
}
