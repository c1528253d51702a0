//! The cost of a sleeping periodic executor, and its delays, beside an executor that polls as PyMongo's does, in
//! the same run.
//!
//! `cargo bench -p cabrank-benches --bench periodic`. Wake-ups are the voluntary context switches that Linux counts for
//! each thread. The polling executor is PyMongo's loop: after each call it sleeps half a second at a time, and looks at
//! its flags in between.

use cabrank::PeriodicExecutor;
use cabrank::periodic_executor::Phase;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// PyMongo's loop, with its defaults: a call each minute, and a look at its flags each half second.
struct Polling {
    flags: Arc<Flags>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Flags {
    stopped: AtomicBool,
    event: AtomicBool,
}

impl Polling {
    fn open(name: &str, interval: Duration, mut target: impl FnMut() + Send + 'static) -> Polling {
        let min_interval = Duration::from_millis(500).min(interval);
        let flags = Arc::new(Flags::default());
        let theirs = flags.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while !theirs.stopped.load(SeqCst) {
                target();
                let deadline = Instant::now() + interval;
                while !theirs.stopped.load(SeqCst) && Instant::now() < deadline {
                    std::thread::sleep(min_interval);
                    if theirs.event.load(SeqCst) {
                        break;
                    }
                }
                theirs.event.store(false, SeqCst);
            }
        });
        Polling { flags, thread: Some(thread.expect("a thread")) }
    }
    fn wake(&self) {
        self.flags.event.store(true, SeqCst);
    }
    fn close_and_join(&mut self) {
        self.flags.stopped.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.flags.stopped.store(true, SeqCst);
    }
}

fn parking(
    name: &str,
    interval: Duration,
    target: impl FnMut() + Send + 'static,
) -> PeriodicExecutor {
    let executor = PeriodicExecutor::builder(interval).name(name).build(target);
    executor.open().expect("a thread");
    executor
}

fn until_asleep(executor: &PeriodicExecutor) {
    while executor.phase() != Phase::Asleep {
        std::thread::yield_now();
    }
    // The executor has marked itself asleep. Give its thread the time to park.
    std::thread::sleep(Duration::from_micros(200));
}

/// Returns how often threads of this name have gone to sleep.
fn sleeps(name: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it");
    let statuses = tasks.flatten().filter_map(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        status.starts_with(&format!("Name:\t{name}\n")).then_some(status)
    });
    let count = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).expect("Linux counts them")
    };
    statuses.map(count).sum()
}

const MINUTE: Duration = Duration::from_secs(60);

/// Measures wake-ups per second and executor, with `n` executors of each kind side by side for `seconds`.
fn idle_wake_ups(n: usize, seconds: u64) -> (f64, f64) {
    let parked: Vec<_> = (0..n).map(|_| parking("idle-parking", MINUTE, || ())).collect();
    let polled: Vec<_> = (0..n).map(|_| Polling::open("idle-polling", MINUTE, || ())).collect();
    parked.iter().for_each(until_asleep);
    std::thread::sleep(Duration::from_millis(100));
    let count = || [sleeps("idle-parking"), sleeps("idle-polling")];
    let before = count();
    std::thread::sleep(Duration::from_secs(seconds));
    let after = count();
    drop((parked, polled));
    let rate = |kind: usize| (after[kind] - before[kind]) as f64 / (n as f64 * seconds as f64);
    (rate(0), rate(1))
}

fn measured(rounds: usize, mut once: impl FnMut(usize) -> Duration) -> Vec<Duration> {
    let mut times: Vec<_> = (0..rounds).map(&mut once).collect();
    times.sort_unstable();
    times
}

/// Measures the time from a wake to the target's first line.
fn wake_to_run(rounds: usize) -> Vec<Duration> {
    let (ran, runs) = now_of_each_call();
    let executor = parking("wake", Duration::MAX, ran);
    let _ = runs.recv();
    measured(rounds, |_| {
        until_asleep(&executor);
        let begun = Instant::now();
        executor.wake();
        runs.recv().expect("it is called") - begun
    })
}

fn polled_wake_to_run(rounds: usize) -> Vec<Duration> {
    let (ran, runs) = now_of_each_call();
    let executor = Polling::open("wake", MINUTE, ran);
    let _ = runs.recv();
    measured(rounds, |round| {
        std::thread::sleep(at_another_moment(round));
        let begun = Instant::now();
        executor.wake();
        runs.recv().expect("it is called") - begun
    })
}

/// Returns a delay that meets a polling executor at different moments of its half second.
fn at_another_moment(round: usize) -> Duration {
    Duration::from_millis((round as u64 * 191) % 500)
}

fn now_of_each_call() -> (impl FnMut() + Send + 'static, Receiver<Instant>) {
    let (sender, receiver): (Sender<Instant>, _) = channel();
    let target = move || {
        let _ = sender.send(Instant::now());
    };
    (target, receiver)
}

/// Measures the time from a close to the return of a join that follows at once.
fn close_to_exit(rounds: usize) -> Vec<Duration> {
    measured(rounds, |_| {
        let executor = parking("close", MINUTE, || ());
        until_asleep(&executor);
        let begun = Instant::now();
        executor.close();
        executor.join().expect("no panic");
        begun.elapsed()
    })
}

fn polled_close_to_exit(rounds: usize) -> Vec<Duration> {
    measured(rounds, |round| {
        let mut executor = Polling::open("close", MINUTE, || ());
        std::thread::sleep(at_another_moment(round));
        let begun = Instant::now();
        executor.close_and_join();
        begun.elapsed()
    })
}

/// Measures how much longer than the interval a pause is, from the end of a call to the beginning of the next.
fn period_error(rounds: usize, interval: Duration) -> Vec<Duration> {
    let (sender, receiver) = channel();
    let mut last = None;
    let executor = parking("period", interval, move || {
        if let Some(last) = last {
            let _ = sender.send(Instant::now() - last);
        }
        last = Some(Instant::now());
    });
    let times = measured(rounds, |_| {
        let pause: Duration = receiver.recv().expect("it is called");
        pause.checked_sub(interval).expect("never early")
    });
    executor.close();
    times
}

fn print(what: &str, times: &[Duration]) {
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    let mean = times.iter().sum::<Duration>() / u32::try_from(times.len()).expect("few");
    println!(
        "{what:44} {:>10.1?} {:>10.1?} {:>10.1?} {:>10.1?}",
        black_box(at(0.5)),
        at(0.99),
        at(1.0),
        mean
    );
}

fn main() {
    // `cargo test --benches` and CI run each once, to see that it runs.
    let trial = std::env::args().any(|arg| arg == "--test");
    let (rounds, polled_rounds, seconds) = if trial { (3, 1, 1) } else { (2000, 20, 10) };

    let (parked, polled) = idle_wake_ups(20, seconds);
    println!("idle wake-ups per second, each of 20 executors: {parked:.3}; polling: {polled:.3}\n");
    println!("{:44} {:>10} {:>10} {:>10} {:>10}", "", "p50", "p99", "most", "mean");
    print("wake to run", &wake_to_run(rounds));
    print("wake to run, polling", &polled_wake_to_run(polled_rounds));
    print("close to exit, and the join's return", &close_to_exit(rounds));
    print("close to exit, and the join's return, polling", &polled_close_to_exit(polled_rounds));
    for milliseconds in [1, 10, 100] {
        let (interval, share) = (Duration::from_millis(milliseconds), 100 / milliseconds as usize);
        let times = period_error((rounds * share / 100).max(3), interval);
        print(&format!("period error, {milliseconds} ms"), &times);
    }
}
