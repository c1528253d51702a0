//! What the pool is to reach, and whether it did in this run.

use crate::contenders::{BARGING, BARGING_TASKS, HAND_MADE, LIMIT, POOL, TASKS, is_peer};
use crate::report::{Row, Table, figure};
use std::fmt::Write;

pub(crate) const HEADING: &str = "| goal | measured | reached |\n|---|---:|---|\n";

/// One line of the list.
struct Goal {
    what: String,
    measured: String,
    reached: bool,
}

/// A ratio, to the digit that is printed.
fn at_most(what: String, most: f64, of: &str, measured: f64) -> Goal {
    let reached = (measured * 10.0).round() / 10.0 <= most;
    let what = format!("{what}: at most {most} times {of}");
    Goal { what, measured: format!("{measured:.1}"), reached }
}

impl Table {
    fn row(&self, name: &str) -> &Row {
        self.rows.iter().find(|row| row.name == name).expect("it is a row")
    }

    fn time(&self, name: &str, column: usize) -> f64 {
        self.row(name).cells[column].nanoseconds
    }

    /// The fastest of the pools that Rust programs use, or of some of them.
    fn fastest_peer(&self, column: usize, of: impl Fn(&Row) -> bool) -> (&'static str, f64) {
        let peers = self.rows.iter().filter(|row| is_peer(row.name) && of(row));
        let peers = peers.map(|row| (row.name, row.cells[column].nanoseconds));
        peers.min_by(|(_, one), (_, other)| one.total_cmp(other)).expect("there are peers")
    }

    /// As the brackets in the table are. With several threads it is a goal for a pool whose threads would not share
    /// a lock.
    fn to_limit(&self, name: &str, most: f64, column: usize) -> Goal {
        let measured = self.time(name, column) / self.limits[column];
        let what = format!("{name}, {}", self.loads[column].name);
        at_most(what, most, "the limit, uncontended", measured)
    }

    /// The limit's own row has as many threads use one lock as share the pool.
    fn to_contended_limit(&self, name: &str, most: f64, column: usize) -> Goal {
        let measured = self.time(name, column) / self.time(LIMIT, column);
        let what = format!("{name}, {}", self.loads[column].name);
        at_most(what, most, "the limit, its lock contended as well", measured)
    }

    fn flat(&self, name: &str) -> Goal {
        let measured = self.time(name, 1) / self.time(name, 0);
        at_most(format!("{name}, 9,990 of 10,000 borrowed"), 1.1, "the pool of 8", measured)
    }

    fn allocates(&self, name: &str) -> Goal {
        let most = self.row(name).allocations.iter().copied().fold(0.0, f64::max);
        let what = format!("{name}: no allocations once it is warm");
        Goal { what, measured: format!("{most:.2}"), reached: most < 0.005 }
    }

    fn held(&self, name: &str, most: f64, column: usize) -> Goal {
        let measured = self.time(name, column) / self.unit(column);
        let of = format!("the {HAND_MADE} pool");
        at_most(format!("{name}, held for 2 µs"), most, &of, measured)
    }

    fn waits(&self, name: &str, most: f64, column: usize) -> Goal {
        let (_, measured) = self.row(name).cells[column].waits.expect("timed where it is held");
        Goal {
            what: format!("{name}, held for 2 µs: p99 of its waits at most {most} µs"),
            measured: format!("{measured:.0} µs"),
            reached: measured.round() <= most,
        }
    }

    fn ahead(&self, name: &str, column: usize) -> Goal {
        let what = format!("{name}, {}: ahead of every peer", self.loads[column].name);
        self.ahead_of(what, name, column, |_| true)
    }

    /// Like with like: those that serve in another order win or lose by that.
    fn ahead_in_its_order(&self, name: &str, column: usize) -> Goal {
        let order = self.row(name).order;
        let (of, load) = (order.name(), self.loads[column].name);
        let what = format!("{name} ({of}), {load}: ahead of every peer that serves so");
        self.ahead_of(what, name, column, |peer| peer.order == order)
    }

    fn ahead_of(&self, what: String, name: &str, column: usize, of: impl Fn(&Row) -> bool) -> Goal {
        let (ours, (peer, theirs)) = (self.time(name, column), self.fastest_peer(column, of));
        let measured = format!("{}; {peer} {}", figure(ours), figure(theirs));
        Goal { what, measured, reached: ours < theirs }
    }

    fn goals(&self) -> Vec<Goal> {
        let held = self.loads.iter().position(|load| load.hold.is_some()).expect("a column");
        let crowded = || (0..held).filter(|column| self.loads[*column].threads > 1);
        let mut goals = Vec::new();
        for (name, most) in [(POOL, 2.0), (TASKS, 3.0)] {
            goals.extend((0..held).map(|column| self.to_limit(name, most, column)));
            goals.extend(crowded().map(|column| self.to_contended_limit(name, most, column)));
        }
        goals.extend([POOL, TASKS].map(|name| self.flat(name)));
        goals.extend([POOL, TASKS].map(|name| self.allocates(name)));
        goals.extend([self.held(BARGING, 1.3, held), self.held(POOL, 4.0, held)]);
        goals.push(self.waits(POOL, 66.0, held));
        for name in [POOL, TASKS] {
            goals.extend((0..self.loads.len()).map(|column| self.ahead(name, column)));
        }
        goals.extend([BARGING, BARGING_TASKS].map(|name| self.ahead(name, held)));
        goals.extend([POOL, TASKS].map(|name| self.ahead_in_its_order(name, held)));
        goals
    }

    /// What each of them is, whether reached or not.
    pub(crate) fn goals_by_name(&self) -> Vec<String> {
        self.goals().into_iter().map(|goal| goal.what).collect()
    }

    pub(crate) fn goals_in_markdown(&self) -> String {
        let mut text = String::from(HEADING);
        for Goal { what, measured, reached } in self.goals() {
            let reached = if reached { "yes" } else { "**no**" };
            writeln!(text, "| {what} | {measured} | {reached} |").expect("a string");
        }
        text
    }
}
