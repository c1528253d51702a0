//! The pools in trouble, side by side: slow connects, hand-shakes that hang, a restart, cancelled borrowers, a crowd.
//!
//! `cargo bench --bench trouble`, in this directory, takes two minutes and prints a table. `-- --write` puts it into
//! `benches/README.md`. `-- --test` runs one scenario of each pool, and checks that the written table has today's rows
//! and columns.
//!
//! The server and its connections are simulated, and the same for all pools. Each pool has its crate's defaults, up to
//! ten connections, and tests a connection before it lends it. The borrowers are threads. In a pool for tasks each
//! thread polls one future at a time, on a runtime with two workers, and drops it after its patience.

#[path = "trouble/pools.rs"]
mod pools;
#[path = "trouble/scenarios.rs"]
mod scenarios;
#[path = "trouble/server.rs"]
mod server;

use pools::{Barging, Manager, Polled, Tasks, Threads};
use scenarios::Crowd;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

type CabrankTasks = cabrank::resource_pool::AsyncResourcePool<Manager>;
type CabrankThreads = cabrank::resource_pool::ResourcePool<Manager>;
type Deadpool = deadpool::managed::Pool<Manager>;
type Asyncband = std::sync::Arc<asyncband::pool::bounded::Pool<Manager>>;

/// A column of the table.
struct Contender {
    name: &'static str,
    /// Returns the figures of one scenario.
    run: fn(Scenario) -> Vec<f64>,
}

const CONTENDERS: [Contender; 7] = [
    Contender { name: "cabrank", run: tasks::<CabrankTasks> },
    Contender { name: "cabrank, barging", run: tasks::<Barging> },
    Contender { name: "cabrank, threads", run: threads::<CabrankThreads> },
    Contender { name: "bb8", run: tasks::<bb8::Pool<Manager>> },
    Contender { name: "deadpool", run: tasks::<Deadpool> },
    Contender { name: "asyncband", run: tasks::<Asyncband> },
    Contender { name: "r2d2 (threads)", run: threads::<r2d2::Pool<Manager>> },
];

/// How many of the contenders are cabrank's. The first one is compared with the peers.
const OURS: usize = 3;

#[derive(Clone, Copy)]
enum Scenario {
    SlowConnect,
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

/// The reasons of the rows in which a peer is ahead, by a part of the row's name.
const WHY: &[(&str, &str)] = &[
    (
        "away for 200 ms: failed borrows",
        "cabrank, deadpool and asyncband return the error of a failed connect to its borrower at once; the borrowers here \
         try again after 10 ms. bb8 and r2d2 hide the error, and try again themselves after a growing pause. The next row \
         shows what that pause costs.",
    ),
    (
        "100 borrowers leave",
        "the borrower's turn comes with the first connect that ends, and a connect of its own may be younger.",
    ),
    (
        "connects begun",
        "a borrower that finds no slot ends a connect that its borrower gave up, because it may hang, and connects \
         itself: the one that was given up last, so the older ones end. bb8 and r2d2 keep the first ten, and in the \
         second scenario wait until the driver gives them up.",
    ),
    (
        "borrows per second",
        "asyncband keeps no record of its loans: no ids, no ages, no limits that change, no clear_all. bb8 lets the task \
         that returns a connection take it again before those that wait, which the p99 shows.",
    ),
    (
        "p99 of the wait",
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

/// Whether the figure is the best, or differs from it by less than a tenth or 5.
fn is_first(row: &Row, figures: &[f64]) -> bool {
    let (ours, peers) = (figures[0], &figures[OURS..]);
    match row.is_best {
        Least => {
            let best = peers.iter().copied().fold(f64::INFINITY, f64::min);
            let slack = if row.name.ends_with("ms") { 5.0 } else { 0.0 };
            ours <= best * 1.1 + slack
        }
        Most => ours >= peers.iter().copied().fold(0.0, f64::max) / 1.1,
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
        let is_first = is_first(row, figures);
        let verdict = if is_first { "yes" } else { "**no**" };
        writeln!(text, " {verdict} | {} |", row.hikari).expect("a string");
        if !is_first {
            let known = WHY.iter().find(|(part, _)| row.name.contains(part));
            let reason = known.map_or("not known yet.", |(_, reason)| reason);
            writeln!(why, "- *{}*: {reason}", row.name).expect("a string");
        }
    }
    if !why.is_empty() {
        write!(text, "\nWhy a peer is ahead:\n{why}").expect("a string");
    }
    text
}

const BEGIN: &str =
    "<!-- written by `cargo bench --bench trouble -- --write` in `benches/peers`, from here -->\n";
const END: &str = "<!-- to here: trouble -->\n";

fn readme() -> (PathBuf, String) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = std::fs::read_to_string(&path).expect("benches/README.md");
    (path, text)
}

fn main() {
    let has = |option: &str| std::env::args().any(|arg| arg == option);
    if has("--test") {
        for contender in &CONTENDERS {
            let waited = (contender.run)(Scenario::SlowConnect)[0];
            assert!(waited < 5_000.0, "{}: {waited} ms", contender.name);
        }
        let (_, text) = readme();
        assert!(text.contains(&heading()), "the columns of benches/README.md are not today's");
        for row in rows() {
            let begin = format!("| {} |", row.name);
            assert!(text.contains(&begin), "benches/README.md lacks a row: {begin}");
        }
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
        let (path, text) = readme();
        let (before, rest) = text.split_once(BEGIN).expect("the place of the table is marked");
        let (_, after) = rest.split_once(END).expect("the end of the table is marked");
        std::fs::write(path, format!("{before}{BEGIN}\n{table}\n{END}{after}"))
            .expect("benches/README.md can be written");
    }
}
