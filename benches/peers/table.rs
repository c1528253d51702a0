//! The figures of all pools under all loads.

use crate::contenders::HAND_MADE;
use crate::rounds::{Contender, Kind, Load, Order, Round};

pub(crate) struct Table {
    pub(crate) loads: &'static [Load],
    /// Under each load, the two uncontended pairs on one thread, in nanoseconds.
    pub(crate) limits: Vec<f64>,
    pub(crate) rows: Vec<Row>,
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) order: Order,
    /// One for each load.
    pub(crate) cells: Vec<Cell>,
    /// For each operation: without waiters, and when nearly all threads wait.
    pub(crate) allocations: Vec<f64>,
}

/// A pool under a load: one round, or the medians of all.
pub(crate) struct Cell {
    pub(crate) nanoseconds: f64,
    /// The same of each round.
    pub(crate) rounds: Vec<f64>,
    /// Where waits are timed, half and all but a hundredth of which end sooner than this, in microseconds.
    pub(crate) waits: Option<(f64, f64)>,
}

impl Cell {
    pub(crate) fn of(round: Round) -> Cell {
        let nanoseconds = round.nanoseconds();
        let mut waits = round.waits;
        waits.sort_unstable();
        let quantile = |hundredths: usize| {
            let nth = (waits.len() - 1) * hundredths / 100;
            waits[nth].as_secs_f64() * 1e6
        };
        let waits = (!waits.is_empty()).then(|| (quantile(50), quantile(99)));
        Cell { nanoseconds, rounds: vec![nanoseconds], waits }
    }

    /// Of several rounds, each figure by itself.
    pub(crate) fn median(rounds: &[Cell]) -> Cell {
        let of = |figure: fn(&Cell) -> Option<f64>| {
            let figures: Option<Vec<f64>> = rounds.iter().map(figure).collect();
            figures.map(median)
        };
        let nanoseconds = of(|cell| Some(cell.nanoseconds)).expect("each has it");
        let waits = of(|cell| Some(cell.waits?.0)).zip(of(|cell| Some(cell.waits?.1)));
        Cell { nanoseconds, rounds: rounds.iter().map(|cell| cell.nanoseconds).collect(), waits }
    }
}

impl Table {
    pub(crate) fn new(contenders: &[Contender], loads: &'static [Load]) -> Table {
        let row = |contender: &Contender| Row {
            name: contender.name,
            kind: contender.kind,
            order: contender.order,
            cells: Vec::new(),
            allocations: Vec::new(),
        };
        Table { loads, limits: Vec::new(), rows: contenders.iter().map(row).collect() }
    }

    /// Returns a table with placeholder figures.
    pub(crate) fn blank(contenders: &[Contender], loads: &'static [Load]) -> Table {
        let mut table = Table::new(contenders, loads);
        table.limits = vec![1.0; loads.len()];
        for row in &mut table.rows {
            row.cells = loads
                .iter()
                .map(|_| Cell { nanoseconds: 1.0, rounds: Vec::new(), waits: Some((0.0, 0.0)) })
                .collect();
        }
        table
    }

    /// Returns the unit of a column: the limit, or the hand-made pool where resources are held.
    pub(crate) fn unit(&self, column: usize) -> f64 {
        if self.loads[column].hold.is_none() {
            return self.limits[column];
        }
        let hand_made = self.rows.iter().find(|row| row.name == HAND_MADE);
        hand_made.expect("it is a row").cells[column].nanoseconds
    }
}

/// Three digits of nanoseconds.
pub(crate) fn figure(nanoseconds: f64) -> String {
    match nanoseconds {
        ..99.95 => format!("{nanoseconds:.1}"),
        ..9_999.5 => format!("{nanoseconds:.0}"),
        _ => format!("{:.1}k", nanoseconds / 1e3),
    }
}

/// Returns the middle one.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
