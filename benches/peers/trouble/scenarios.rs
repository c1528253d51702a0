//! The scenarios: each function puts one pool into trouble, and returns the figures of its rows.

use crate::pools::Threads;
use crate::server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

const MS: Duration = Duration::from_millis(1);
const SIZE: usize = 10;
const PATIENT: Duration = Duration::from_secs(20);

/// Runs `work` on this many threads, in the context of the runtime.
fn threads(number: usize, work: impl Fn() + Sync) {
    let (handle, work) = (Handle::current(), &work);
    scope(|scope| {
        for _ in 0..number {
            let handle = handle.clone();
            scope.spawn(move || {
                let _context = handle.enter();
                work();
            });
        }
    });
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn wait_of_a_borrow<P: Threads>(pool: &P) -> f64 {
    let begin = Instant::now();
    let lent = pool.borrow(PATIENT);
    let waited = milliseconds(begin.elapsed());
    if lent.is_some() { waited } else { f64::INFINITY }
}

/// A connection is lent, and another connect takes 800 ms. After 20 ms the first one comes back.
pub(crate) fn slow_connect<P: Threads>() -> Vec<f64> {
    let server = Server::new(Duration::ZERO);
    let pool = P::open(&server, 2);
    let lent = pool.borrow(PATIENT).expect("a connection");
    server.state().connect = 800 * MS;
    let handle = Handle::current();
    scope(|scope| {
        let waits = scope.spawn(|| {
            let _context = handle.enter();
            wait_of_a_borrow(&pool)
        });
        sleep(20 * MS);
        drop(lent);
        vec![waits.join().expect("no panic")]
    })
}

/// One connection is open, and loans are shorter than a connect. Ten borrowers borrow again at once.
pub(crate) fn fills<P: Threads>() -> Vec<f64> {
    let server = Server::new(Duration::ZERO);
    let pool = P::open(&server, SIZE);
    drop(pool.borrow(PATIENT).expect("a connection"));
    server.state().connect = 200 * MS;
    let before = server.connects.load(SeqCst);
    let (end, borrows) = (Instant::now() + 2000 * MS, AtomicUsize::new(0));
    threads(SIZE, || {
        while Instant::now() < end {
            let _lent = pool.borrow(PATIENT).expect("a connection");
            borrows.fetch_add(1, SeqCst);
            sleep(5 * MS);
        }
    });
    let connects = server.connects.load(SeqCst) - before;
    vec![borrows.into_inner() as f64, connects as f64]
}

/// Ten hand-shakes hang, and their borrowers give up after a second. Then the server is well again.
pub(crate) fn hung_hand_shake<P: Threads>() -> Vec<f64> {
    let server = Server::new(20 * MS);
    let pool = P::open(&server, SIZE);
    server.state().hangs = true;
    threads(SIZE, || drop(pool.borrow(1000 * MS)));
    server.state().hangs = false;
    vec![wait_of_a_borrow(&pool)]
}

/// All connections die, and the server is away for a while. 50 borrowers try until they are served.
pub(crate) fn restart<P: Threads>(away: Duration) -> Vec<f64> {
    let server = Server::new(20 * MS);
    let pool = P::open(&server, SIZE);
    let held = std::sync::Barrier::new(SIZE);
    threads(SIZE, || {
        let _lent = pool.borrow(PATIENT).expect("a connection");
        held.wait();
    });
    server.kill();
    let back = Instant::now() + away;
    if away.is_zero() {
        server.state().is_up = true;
    }
    let failed = AtomicUsize::new(0);
    let (first, last) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
    scope(|scope| {
        scope.spawn(|| {
            sleep(back.saturating_duration_since(Instant::now()));
            server.state().is_up = true;
        });
        threads(50, || {
            loop {
                if pool.borrow(PATIENT).is_some_and(|lent| {
                    let is_alive = lent.is_alive();
                    sleep(5 * MS);
                    is_alive
                }) {
                    break;
                }
                failed.fetch_add(1, SeqCst);
                sleep(10 * MS);
            }
            let at = back.elapsed().as_micros() as usize;
            first.fetch_min(at, SeqCst);
            last.fetch_max(at, SeqCst);
        });
    });
    let of = |number: AtomicUsize| number.into_inner() as f64;
    vec![of(failed), of(first) / 1e3, of(last) / 1e3]
}

/// A connect takes 500 ms. 100 borrowers begin, and leave after 100 ms; then one comes and stays.
pub(crate) fn cancelled<P: Threads>() -> Vec<f64> {
    let server = Server::new(500 * MS);
    let pool = P::open(&server, SIZE);
    threads(100, || drop(pool.borrow(100 * MS)));
    let waited = wait_of_a_borrow(&pool);
    let connects = server.connects.load(SeqCst) as f64;
    sleep(600 * MS);
    // Every slot can be lent at once.
    let served = AtomicUsize::new(0);
    threads(SIZE, || {
        if let Some(_lent) = pool.borrow(2000 * MS) {
            served.fetch_add(1, SeqCst);
            sleep(1000 * MS);
        }
    });
    drop(pool);
    let begin = Instant::now();
    while server.connections.load(SeqCst) > 0 && begin.elapsed() < PATIENT / 2 {
        sleep(MS);
    }
    let lost = SIZE - served.into_inner() + server.connections.load(SeqCst);
    vec![waited, connects, lost as f64]
}

/// Times and orders of many borrowers.
pub(crate) struct Crowd {
    pub(crate) took: Duration,
    pub(crate) waits: Vec<Duration>,
    pub(crate) overtakings: usize,
}

impl Crowd {
    /// Borrows a second, the longest but one in a hundred waits, and overtakings in a hundred borrows.
    pub(crate) fn figures(mut times: Crowd, orders: &Crowd) -> Vec<f64> {
        times.waits.sort_unstable();
        let p99 = times.waits[(times.waits.len() - 1) * 99 / 100];
        let throughput = times.waits.len() as f64 / times.took.as_secs_f64();
        let overtakings = 100.0 * orders.overtakings as f64 / orders.waits.len() as f64;
        vec![throughput, milliseconds(p99), overtakings]
    }
}

/// The borrowers that wait, in the order in which they came.
#[derive(Default)]
pub(crate) struct Line(std::sync::Mutex<(u64, std::collections::BTreeSet<u64>, usize)>);

impl Line {
    pub(crate) fn come(&self) -> u64 {
        let mut line = self.0.lock().expect("no panic");
        line.0 += 1;
        let number = line.0;
        line.1.insert(number);
        number
    }
    /// Counts the borrower if it is served while an earlier one waits.
    pub(crate) fn served(&self, number: u64) {
        let mut line = self.0.lock().expect("no panic");
        line.2 += usize::from(line.1.first() != Some(&number));
        line.1.remove(&number);
    }
    pub(crate) fn overtakings(&self) -> usize {
        self.0.lock().expect("no panic").2
    }
}

/// Opens all connections first.
pub(crate) fn crowd_of_threads<P: Threads>(number: usize, each: usize, ordered: bool) -> Crowd {
    let pool = Arc::new(P::open(&Server::new(Duration::ZERO), SIZE));
    let (line, waits) = (Line::default(), std::sync::Mutex::new(Vec::new()));
    let begin = Instant::now();
    threads(number, || {
        let mut mine = Vec::with_capacity(each);
        for _ in 0..each {
            let place = ordered.then(|| line.come());
            let asked = Instant::now();
            let lent = pool.borrow(PATIENT * 10).expect("a connection");
            mine.push(asked.elapsed());
            if let Some(place) = place {
                line.served(place);
            }
            std::thread::yield_now();
            drop(lent);
        }
        waits.lock().expect("no panic").extend(mine);
    });
    let took = begin.elapsed();
    Crowd { took, waits: waits.into_inner().expect("no panic"), overtakings: line.overtakings() }
}

/// The same with tasks, on the runtime of the caller.
pub(crate) async fn crowd_of_tasks<P: crate::pools::Tasks>(
    number: usize,
    each: usize,
    ordered: bool,
) -> Crowd {
    let pool = Arc::new(P::open(&Server::new(Duration::ZERO), SIZE).await);
    let line = Arc::new(Line::default());
    let begin = Instant::now();
    let start = |_| {
        let (pool, line) = (pool.clone(), line.clone());
        tokio::spawn(async move {
            let mut mine = Vec::with_capacity(each);
            for _ in 0..each {
                let place = ordered.then(|| line.come());
                let asked = Instant::now();
                let lent = pool.borrow().await.expect("a connection");
                mine.push(asked.elapsed());
                if let Some(place) = place {
                    line.served(place);
                }
                tokio::task::yield_now().await;
                drop(lent);
            }
            mine
        })
    };
    let tasks: Vec<_> = (0..number).map(start).collect();
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await.expect("no panic"));
    }
    Crowd { took: begin.elapsed(), waits, overtakings: line.overtakings() }
}
