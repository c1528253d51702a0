//! cabrank's resource pool beside its peers, in one run.
//!
//! `cargo bench`, in this directory, lets criterion time each pool under each load. It then runs all of them in turn,
//! in short rounds, because machines are shared and noisy. The table at the end compares the medians of those rounds.
//!
//! - `cargo bench -- --write` puts the table and its plot into `benches/`.
//! - `-- --table` leaves criterion's part out.
//! - `-- --test` runs each case once, and checks that the written table has today's rows, columns and goals.

mod contenders;
mod goals;
mod plot;
mod report;
mod rounds;
mod table;

use contenders::LIMIT;
use criterion::{BenchmarkId, Criterion};
use rounds::{Contender, Load, Loaded};
use std::time::Duration;
use table::{Cell, Table, median};

/// The columns of the table.
const LOADS: [Load; 6] = [
    alone("1 thread, pool of 8", 8, 0),
    alone("1 thread, 9,990 of 10,000 borrowed", 10_000, 9_990),
    crowded("2 threads, pool of 8", 2, 8, 50_000),
    crowded("4 threads, pool of 8", 4, 8, 25_000),
    crowded("8 threads, pool of 2", 8, 2, 4_000),
    Load {
        hold: Some(Duration::from_micros(2)),
        ..crowded("8 threads, pool of 2, held for 2 µs", 8, 2, 4_000)
    },
];

const fn alone(name: &'static str, size: usize, borrowed: usize) -> Load {
    Load { name, threads: 1, size, borrowed, hold: None, operations: 20_000 }
}

const fn crowded(name: &'static str, threads: usize, size: usize, operations: u32) -> Load {
    Load { name, threads, size, borrowed: 0, hold: None, operations }
}

/// The loads under which allocations are counted: without waiters, and when nearly all threads wait.
const COUNTED: [usize; 2] = [0, 4];

const ROUNDS: usize = 25;

fn main() {
    let has = |option| std::env::args().any(|arg| arg == option);
    let contenders = contenders::all();
    if !has("--table") {
        let criterion = Criterion::default()
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_millis(800))
            .sample_size(20);
        // Criterion refuses the options it does not know.
        let known = !has("--write");
        let mut criterion = if known { criterion.configure_from_args() } else { criterion };
        criterion_cases(&mut criterion, &contenders);
        criterion.final_summary();
    }
    if has("--test") {
        return report::check(&contenders, &LOADS);
    }
    // A filter for criterion asks for those cases only.
    if std::env::args().skip(1).any(|arg| !arg.starts_with("--")) {
        return;
    }
    let table = in_turn(&contenders);
    println!("\n{}\n{}", table.markdown(), table.goals_in_markdown());
    if has("--write") {
        report::write(&table);
        plot::write(&table);
    }
}

fn criterion_cases(criterion: &mut Criterion, contenders: &[Contender]) {
    for load in &LOADS {
        let mut group = criterion.benchmark_group(load.name);
        for contender in contenders {
            let pool = contender.prepare(load);
            group.bench_function(BenchmarkId::from_parameter(contender.name), |bencher| {
                bencher.iter_custom(|iterations| {
                    let each = iterations.div_ceil(load.threads as u64);
                    let round = pool.round(load, each.try_into().unwrap_or(u32::MAX));
                    round.elapsed.mul_f64(iterations as f64 / round.operations as f64)
                });
            });
        }
        group.finish();
    }
}

/// All pools under all loads, in turn, again and again: a time in which the machine is slow befalls all of them.
fn in_turn(contenders: &[Contender]) -> Table {
    let mut table = Table::new(contenders, &LOADS);
    let limit = contenders.iter().position(|contender| contender.name == LIMIT);
    let limit = limit.expect("it is a row");
    let pools = LOADS.map(|load| {
        let pools = contenders.iter().map(|contender| contender.prepare(&load));
        pools.collect::<Vec<_>>()
    });
    let mut limits = LOADS.map(|_| Vec::with_capacity(ROUNDS));
    let mut cells = LOADS.map(|_| contenders.iter().map(|_| Vec::new()).collect::<Vec<_>>());
    for _ in 0..ROUNDS {
        for (column, load) in LOADS.iter().enumerate() {
            let uncontended =
                Load { operations: 2_000, threads: 1, hold: None, borrowed: 0, ..*load };
            let alone = pools[column][limit].round(&uncontended, uncontended.operations);
            limits[column].push(alone.nanoseconds());
            for (pool, cells) in pools[column].iter().zip(&mut cells[column]) {
                cells.push(Cell::of(pool.round(load, load.operations)));
            }
        }
    }
    table.limits = limits.map(median).to_vec();
    for (column, load) in LOADS.iter().enumerate() {
        for (nth, row) in table.rows.iter_mut().enumerate() {
            row.cells.push(Cell::median(&cells[column][nth]));
            if COUNTED.contains(&column) {
                row.allocations.push(allocations(pools[column][nth].as_ref(), load));
            }
        }
    }
    table
}

/// Returns how often an operation allocates on a warm pool, without the allocations of the start.
fn allocations(pool: &dyn Loaded, load: &Load) -> f64 {
    let round = pool.round(load, 2_000);
    (round.allocations - pool.round(load, 0).allocations) as f64 / round.operations as f64
}
