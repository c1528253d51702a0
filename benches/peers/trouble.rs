//! The pools in trouble, side by side: slow connects, hand-shakes that hang, a restart, cancelled borrowers, a crowd.
//!
//! `cargo bench --bench trouble`, in this directory, takes two minutes and prints a table. `-- --write` puts it into
//! `benches/README.md`. `-- --test` runs one scenario of each pool, and checks that the written table has today's rows
//! and columns.
//!
//! The server and its connections are simulated, and the same for all pools. Each pool has its crate's defaults, up to
//! ten connections, and tests a connection before it lends it. The borrowers are threads. In a pool for tasks each
//! thread polls one future at a time, on a runtime with two workers, and drops it after its patience.

#[path = "trouble/page.rs"]
mod page;
#[path = "trouble/pools.rs"]
mod pools;
#[path = "trouble/scenarios.rs"]
mod scenarios;
#[path = "trouble/server.rs"]
mod server;

use pools::{Barging, Manager, Polled, Tasks, Threads, WithoutRuntime};
use scenarios::Crowd;
use std::fmt::Write;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

type CabrankTasks = cabrank::resource_pool::AsyncResourcePool<Manager>;
type CabrankThreads = cabrank::resource_pool::ResourcePool<Manager>;
type Deadpool = deadpool::managed::Pool<Manager>;
type Asyncband = std::sync::Arc<asyncband::pool::bounded::Pool<Manager>>;

/// A column of the table.
struct Contender {
    name: &'static str,
    role: Role,
    users: Users,
    /// Returns the figures of one scenario.
    run: fn(Scenario) -> Vec<f64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Compared with the peers that have the same users.
    Judged,
    /// An option of ours that trades one row for another.
    Variant,
    Peer,
}

#[derive(Clone, Copy, PartialEq)]
enum Users {
    OfTasks,
    OfThreads,
}

use Role::{Judged, Peer, Variant};
use Users::{OfTasks, OfThreads};

const fn contender(
    name: &'static str,
    role: Role,
    users: Users,
    run: fn(Scenario) -> Vec<f64>,
) -> Contender {
    Contender { name, role, users, run }
}

const CONTENDERS: [Contender; 8] = [
    contender("cabrank", Judged, OfTasks, tasks::<CabrankTasks>),
    contender("cabrank, no runtime", Judged, OfTasks, tasks::<WithoutRuntime>),
    contender("cabrank, barging", Variant, OfTasks, tasks::<Barging>),
    contender("cabrank, threads", Judged, OfThreads, threads::<CabrankThreads>),
    contender("bb8", Peer, OfTasks, tasks::<bb8::Pool<Manager>>),
    contender("deadpool", Peer, OfTasks, tasks::<Deadpool>),
    contender("asyncband", Peer, OfTasks, tasks::<Asyncband>),
    contender("r2d2 (threads)", Peer, OfThreads, threads::<r2d2::Pool<Manager>>),
];

#[derive(Clone, Copy)]
enum Scenario {
    SlowConnect,
    Fills,
    HungHandShake,
    Restart(Duration),
    Cancelled,
    Crowd,
}

struct Row {
    name: &'static str,
    is_best: Best,
    /// HikariCP's behaviour by its documentation.
    hikari: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Best {
    Least,
    Most,
}

use Best::{Least, Most};

const fn row(name: &'static str, is_best: Best, hikari: &'static str) -> Row {
    Row { name, is_best, hikari }
}

const SCENARIOS: &[(Scenario, &[Row])] = &[
    (
        Scenario::SlowConnect,
        &[row(
            "a connect takes 800 ms, another connection comes back after 20 ms: wait, ms",
            Least,
            "served by the one that comes back: threads wait for the pool only ([spike demand])",
        )],
    ),
    (
        Scenario::Fills,
        &[
            row(
                "a connect takes 200 ms, ten borrowers have loans of 5 ms, and one connection is open: borrows in two seconds",
                Most,
                "",
            ),
            row("… connects begun", Least, ""),
        ],
    ),
    (
        Scenario::HungHandShake,
        &[row(
            "ten hand-shakes hang, their borrowers leave, the server is well again: wait of the next borrower, ms",
            Least,
            "as long as the driver's timeout, which must be set ([rapid recovery])",
        )],
    ),
    (
        Scenario::Restart(Duration::ZERO),
        &[
            row(
                "all connections die, the server is back at once, 50 borrowers: failed borrows",
                Least,
                "0",
            ),
            row("… first one served after, ms", Least, ""),
            row("… all served after, ms", Least, ""),
        ],
    ),
    (
        Scenario::Restart(Duration::from_millis(200)),
        &[
            row(
                "the same, and the server is away for 200 ms: failed borrows",
                Least,
                "0 within `connectionTimeout`",
            ),
            row(
                "… first one served, ms after the server is back",
                Least,
                "connects are retried after 250 ms, then half as long again each time ([adder])",
            ),
            row("… all served, ms after the server is back", Least, ""),
        ],
    ),
    (
        Scenario::Cancelled,
        &[
            row(
                "a connect takes 500 ms, 100 borrowers leave after 100 ms: wait of the next borrower, ms",
                Least,
                "connects go on, on the pool's own threads ([adder])",
            ),
            row("… connects begun until then", Least, ""),
            row("… slots and connections lost", Least, ""),
        ],
    ),
    (
        Scenario::Crowd,
        &[
            row("1,000 borrowers on 10 connections: borrows per second", Most, ""),
            row("… p99 of the wait, ms", Least, ""),
            row(
                "… overtakings in 100 borrows",
                Least,
                "waiters in order; a newcomer may take a connection before them ([bag])",
            ),
        ],
    ),
];

/// Why a peer is ahead: by a part of the row's name, and of the contender's.
const WHY: &[(&str, &str, &str)] = &[
    (
        "comes back after 20 ms",
        "no runtime",
        "without a runtime only the borrower polls its connect, so the pool would have to drop it (next scenario). \
         deadpool and asyncband do the same.",
    ),
    (
        "comes back after 20 ms",
        "threads",
        "a blocking connect is on its borrower's thread, which takes nothing else meanwhile. r2d2 has threads of its own \
         for connects.",
    ),
    (
        "away for 200 ms: failed borrows",
        "",
        "cabrank, deadpool and asyncband return the error of a failed connect to its borrower at once; the borrowers here \
         try again after 10 ms. bb8 and r2d2 hide the error, and try again themselves after a growing pause. The next row \
         shows what that pause costs.",
    ),
    (
        "100 borrowers leave",
        "no runtime",
        "the connects of the borrowers that leave end with them, so it awaits its own. deadpool and asyncband do the same.",
    ),
    (
        "100 borrowers leave",
        "",
        "the borrower's turn comes with the first connect that ends, and a connect of its own may be younger.",
    ),
    (
        "connects begun until then",
        "no runtime",
        "a connect ends with its borrower, and each next borrower begins one. deadpool and asyncband do the same.",
    ),
    (
        "connects begun until then",
        "threads",
        "each thread goes on with the connect that it began: one for each place. r2d2 connects with three threads.",
    ),
    (
        "connects begun until then",
        "",
        "a borrower that finds no slot ends a connect that its borrower gave up, because it may hang, and connects \
         itself: the one that was given up last, so the older ones end. bb8 and r2d2 keep the first ten, and in the \
         second scenario wait until the driver gives them up.",
    ),
    (
        "borrows per second",
        "threads",
        "r2d2 lets the thread that returns a connection take it again before those that wait, which the p99 shows.",
    ),
    (
        "borrows per second",
        "",
        "asyncband keeps no record of its loans: no ids, no ages, no limits that change, no clear_all. bb8 lets the task \
         that returns a connection take it again before those that wait, which the p99 shows.",
    ),
    (
        "p99 of the wait",
        "",
        "as above: with 990 of 1,000 tasks waiting in order, the wait is the time of 990 borrows.",
    ),
];

fn runtime(workers: usize) -> Runtime {
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(workers.max(1)).enable_time().build().expect("a runtime")
}

fn figures<P: Threads>(scenario: Scenario) -> Vec<f64> {
    match scenario {
        Scenario::SlowConnect => scenarios::slow_connect::<P>(),
        Scenario::Fills => scenarios::fills::<P>(),
        Scenario::HungHandShake => scenarios::hung_hand_shake::<P>(),
        Scenario::Restart(away) => scenarios::restart::<P>(away),
        Scenario::Cancelled => scenarios::cancelled::<P>(),
        Scenario::Crowd => {
            let times = median((0..5).map(|_| scenarios::crowd_of_threads::<P>(1000, 20, false)));
            Crowd::figures(times, &scenarios::crowd_of_threads::<P>(1000, 20, true))
        }
    }
}

fn threads<P: Threads>(scenario: Scenario) -> Vec<f64> {
    // For the handle that a borrower's thread enters.
    let runtime = runtime(2);
    let _context = runtime.enter();
    figures::<P>(scenario)
}

fn tasks<P: Tasks>(scenario: Scenario) -> Vec<f64> {
    if let Scenario::Crowd = scenario {
        let many = || runtime(2).block_on(scenarios::crowd_of_tasks::<P>(1000, 50, false));
        let times = median((0..5).map(|_| many()));
        // One thread polls all tasks, so the order in which they come is known.
        return Crowd::figures(
            times,
            &runtime(0).block_on(scenarios::crowd_of_tasks::<P>(1000, 20, true)),
        );
    }
    threads::<Polled<P>>(scenario)
}

fn median(crowds: impl Iterator<Item = Crowd>) -> Crowd {
    let mut crowds: Vec<Crowd> = crowds.collect();
    crowds.sort_by_key(|crowd| crowd.took);
    crowds.swap_remove(crowds.len() / 2)
}

fn rows() -> impl Iterator<Item = &'static Row> {
    SCENARIOS.iter().flat_map(|(_, rows)| *rows)
}

fn heading() -> String {
    let mut text = String::from("| |");
    for contender in &CONTENDERS {
        write!(text, " {} |", contender.name).expect("a string");
    }
    text.push_str(" first or equal | HikariCP, by its documentation |\n|---|");
    text.push_str(&"---:|".repeat(CONTENDERS.len()));
    text.push_str("---|---|\n");
    text
}

/// Whether our figure is the best of the pools with the same users, or differs from that by less than a tenth or 5.
fn is_first(row: &Row, judged: &Contender, ours: f64, figures: &[f64]) -> bool {
    let rivals = CONTENDERS.iter().zip(figures);
    let rivals = rivals.filter(|(other, _)| other.role == Peer && other.users == judged.users);
    let peers = rivals.map(|(_, figure)| *figure);
    match row.is_best {
        Least => {
            let best = peers.fold(f64::INFINITY, f64::min);
            let slack = if row.name.contains(", ms") { 5.0 } else { 0.0 };
            ours <= best * 1.1 + slack
        }
        Most => ours >= peers.fold(0.0, f64::max) / 1.1,
    }
}

fn figure(figure: f64) -> String {
    match figure {
        _ if figure.is_infinite() => "not served".to_owned(),
        ..0.05 => "0".to_owned(),
        ..9.95 if figure.fract() > 0.0 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}

fn markdown(table: &[Vec<f64>]) -> String {
    let (mut text, mut why) = (heading(), String::new());
    for (row, figures) in rows().zip(table) {
        write!(text, "| {} |", row.name).expect("a string");
        for cell in figures {
            write!(text, " {} |", figure(*cell)).expect("a string");
        }
        let judged = CONTENDERS.iter().zip(figures).filter(|(one, _)| one.role == Judged);
        let behind: Vec<&str> = judged
            .filter(|(one, ours)| !is_first(row, one, **ours, figures))
            .map(|(one, _)| one.name)
            .collect();
        let verdict = match behind.is_empty() {
            true => "yes".to_owned(),
            false => format!("**not**: {}", behind.join("; ")),
        };
        writeln!(text, " {verdict} | {} |", row.hikari).expect("a string");
        let mut reasons: Vec<(Vec<&str>, &str)> = Vec::new();
        for name in behind {
            let is_known = |(of_row, of_name, _): &&(&str, &str, &str)| {
                row.name.contains(of_row) && name.contains(of_name)
            };
            let reason = WHY.iter().find(is_known).map_or("not known yet.", |(.., reason)| reason);
            match reasons.iter_mut().find(|(_, other)| *other == reason) {
                Some((names, _)) => names.push(name),
                None => reasons.push((vec![name], reason)),
            }
        }
        for (names, reason) in reasons {
            let names = names.join("; ");
            writeln!(why, "- *{}* ({names}): {reason}", row.name).expect("a string");
        }
    }
    if !why.is_empty() {
        write!(text, "\nWhy a peer is ahead:\n{why}").expect("a string");
    }
    text
}

fn main() {
    let has = |option: &str| std::env::args().any(|arg| arg == option);
    if has("--test") {
        for contender in &CONTENDERS {
            let waited = (contender.run)(Scenario::SlowConnect)[0];
            assert!(waited < 5_000.0, "{}: {waited} ms", contender.name);
        }
        page::check(&heading(), rows().map(|row| row.name));
        return;
    }
    let mut table: Vec<Vec<f64>> = Vec::new();
    for (scenario, rows) in SCENARIOS {
        let first = table.len();
        table.resize(first + rows.len(), Vec::new());
        for contender in &CONTENDERS {
            for (nth, figure) in (contender.run)(*scenario).into_iter().enumerate() {
                table[first + nth].push(figure);
            }
            eprint!(".");
        }
    }
    let table = markdown(&table);
    println!("\n{table}");
    if has("--write") {
        page::write("trouble", &table);
    }
}
