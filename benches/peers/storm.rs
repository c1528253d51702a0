//! A storm of connects: tasks that need more connections than are open, a spike, and an outage in which connects hang.
//!
//! `cargo bench --bench storm`, in this directory, takes two minutes and prints a table. `-- --write` puts it into
//! `benches/README.md`. `-- --test` runs one storm of each pool, and checks that the written table has today's rows and
//! columns.
//!
//! Server, connections and pools are those of `trouble`. The borrowers are tasks on a runtime with two workers.

#[path = "trouble/page.rs"]
mod page;
#[path = "trouble/pools.rs"]
#[allow(dead_code)] // `trouble` has scenarios of threads, too
mod pools;
#[path = "trouble/server.rs"]
#[allow(dead_code)] // as above
mod server;

use pools::{Manager, Tasks, WithoutRuntime};
use server::{Connection, Server};
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const MS: Duration = Duration::from_millis(1);
const SIZE: usize = 100;
/// How long a storm lasts.
const LENGTH: Duration = Duration::from_millis(2000);
/// How long connects hang.
const OUTAGE: Duration = Duration::from_millis(2000);
/// How long a borrower waits during the outage, before it tries again.
const PATIENCE: Duration = Duration::from_millis(500);

/// Tasks that borrow again and again, while one connection is open.
#[derive(Clone, Copy)]
struct Storm {
    tasks: usize,
    loan: Duration,
    connect: Duration,
}

#[derive(Clone, Copy)]
enum Scenario {
    Storm(Storm),
    /// HikariCP's: 50 requests at once, while five connections are idle and a connect takes 150 ms.
    Spike,
    /// All connections end, connects hang for a time, and 50 borrowers try again and again.
    Outage,
}

/// The figures of one pool.
#[derive(Default)]
struct Figures {
    connects: usize,
    loans: usize,
    p99: Duration,
    /// The time until all were served.
    all: Option<Duration>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        match self.all {
            Some(all) => write!(f, "{} / {:.0}", self.connects, milliseconds(all)),
            None => write!(f, "{} / {} / {:.1}", self.connects, self.loans, milliseconds(self.p99)),
        }
    }
}

type Cabrank = cabrank::resource_pool::AsyncResourcePool<Manager>;
type Deadpool = deadpool::managed::Pool<Manager>;
type Asyncband = Arc<asyncband::pool::bounded::Pool<Manager>>;

/// The name of a column, and the figures of a scenario.
type Contender = (&'static str, fn(Scenario) -> Figures);

const CONTENDERS: [Contender; 5] = [
    ("cabrank", run::<Cabrank>),
    ("cabrank, no runtime", run::<WithoutRuntime>),
    ("bb8", run::<bb8::Pool<Manager>>),
    ("deadpool", run::<Deadpool>),
    ("asyncband", run::<Asyncband>),
];

fn scenarios() -> Vec<(String, Scenario)> {
    let mut all = Vec::new();
    for (tasks, loan) in [(2, 1), (2, 10), (8, 10), (200, 10)] {
        for connect in [20, 100, 500] {
            let name = format!("{tasks} tasks, loans of {loan} ms, a connect takes {connect} ms");
            let storm = Storm { tasks, loan: loan * MS, connect: connect * MS };
            all.push((name, Scenario::Storm(storm)));
        }
    }
    let spike =
        "*spike*: 5 connections are idle, 50 tasks come, a loan is 2 ms, a connect takes 150 ms";
    all.push((format!("{spike}: connects, ms until all are served"), Scenario::Spike));
    let outage =
        "*outage*: all connections end, connects hang for 2 s, 50 tasks try for 500 ms each";
    all.push((
        format!("{outage}: connects, ms after the outage until all are served"),
        Scenario::Outage,
    ));
    all
}

fn run<P: Tasks>(scenario: Scenario) -> Figures {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_time().build().expect("a runtime");
    runtime.block_on(async {
        match scenario {
            Scenario::Storm(storm) => storm.run::<P>().await,
            Scenario::Spike => spike::<P>().await,
            Scenario::Outage => outage::<P>().await,
        }
    })
}

/// Opens a pool, and so many connections in it.
async fn warm<P: Tasks>(server: &Arc<Server>, size: usize, connections: usize) -> Arc<P> {
    let pool = Arc::new(P::open(server, size).await);
    let mut lent = Vec::new();
    for _ in 0..connections {
        lent.push(pool.borrow().await.expect("a connection"));
    }
    drop(lent);
    pool
}

/// Lends a connection for this time.
async fn lend(lent: impl std::ops::Deref<Target = Connection>, loan: Duration) -> bool {
    let is_alive = lent.is_alive();
    sleep(loan).await;
    is_alive
}

impl Storm {
    async fn run<P: Tasks>(self) -> Figures {
        let server = Server::new(Duration::ZERO);
        let pool = warm::<P>(&server, SIZE, 1).await;
        server.state().connect = self.connect;
        let (before, end) = (server.connects.load(SeqCst), Instant::now() + LENGTH);
        let mut tasks = JoinSet::new();
        for _ in 0..self.tasks {
            let pool = pool.clone();
            tasks.spawn(async move {
                let mut waits = Vec::new();
                while Instant::now() < end {
                    let asked = Instant::now();
                    let lent = pool.borrow().await.expect("a connection");
                    waits.push(asked.elapsed());
                    lend(lent, self.loan).await;
                }
                waits
            });
        }
        let mut waits: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        waits.sort_unstable();
        let connects = 1 + server.connects.load(SeqCst) - before;
        let p99 = waits[(waits.len() - 1) * 99 / 100];
        Figures { connects, loans: waits.len(), p99, all: None }
    }
}

async fn spike<P: Tasks>() -> Figures {
    let server = Server::new(Duration::ZERO);
    let pool = warm::<P>(&server, 50, 5).await;
    server.state().connect = 150 * MS;
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let pool = pool.clone();
        tasks.spawn(async move { lend(pool.borrow().await.expect("a connection"), 2 * MS).await });
    }
    tasks.join_all().await;
    let all = Some(begin.elapsed());
    Figures { connects: server.connects.load(SeqCst), all, ..Figures::default() }
}

async fn outage<P: Tasks>() -> Figures {
    let server = Server::new(20 * MS);
    let pool = warm::<P>(&server, 10, 10).await;
    server.kill();
    server.state().is_up = true;
    server.state().hangs = true;
    let before = server.connects.load(SeqCst);
    let back = Instant::now() + OUTAGE;
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let pool = pool.clone();
        tasks.spawn(async move {
            loop {
                let is_served = match timeout(PATIENCE, pool.borrow()).await {
                    Ok(Some(lent)) => lend(lent, 5 * MS).await,
                    _ => false,
                };
                if is_served {
                    return;
                }
                sleep(10 * MS).await;
            }
        });
    }
    tokio::time::sleep_until(back.into()).await;
    server.state().hangs = false;
    tasks.join_all().await;
    let connects = server.connects.load(SeqCst) - before;
    Figures { connects, all: Some(back.elapsed()), ..Figures::default() }
}

fn heading() -> String {
    let mut text = String::from("| connects / loans / p99 of the wait in ms |");
    for (name, _) in &CONTENDERS {
        write!(text, " {name} |").expect("a string");
    }
    text.push_str("\n|---|");
    text.push_str(&"---:|".repeat(CONTENDERS.len()));
    text.push('\n');
    text
}

fn main() {
    let has = |option: &str| std::env::args().any(|arg| arg == option);
    if has("--test") {
        let storm = Scenario::Storm(Storm { tasks: 2, loan: MS, connect: 20 * MS });
        for (name, run) in &CONTENDERS {
            assert!(run(storm).loans > 0, "{name}");
        }
        page::check(&heading(), scenarios().iter().map(|(name, _)| name.as_str()));
        return;
    }
    let mut table = heading();
    for (name, scenario) in scenarios() {
        write!(table, "| {name} |").expect("a string");
        for (_, run) in &CONTENDERS {
            write!(table, " {} |", run(scenario)).expect("a string");
            eprint!(".");
        }
        table.push('\n');
    }
    println!("\n{table}");
    if has("--write") {
        page::write("storm", &table);
    }
}
