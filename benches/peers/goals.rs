//! The goals of the resource pool, and whether this run reached them.
//!
//! Like is compared with like: a pool that serves in order with the peers that do, one that barges with the others. Two
//! pools are compared round by round. It is a tie if neither is faster in [`MOST`] of the rounds. In 25 rounds, equal
//! pools pass that mark by chance once in twenty runs.

use crate::contenders::{BARGING, BARGING_TASKS, POOL, TASKS, is_peer};
use crate::table::{Row, Table, figure};
use std::cmp::Ordering;
use std::fmt::Write;

pub(crate) const HEADING: &str = "| goal | measured | reached |\n|---|---:|---|\n";

/// The share of rounds in which the faster of two pools must be faster: 18 of 25.
const MOST: f64 = 0.72;

/// One line of the list.
struct Goal {
    what: String,
    measured: String,
    reached: Reached,
}

enum Reached {
    Yes,
    Tie,
    No,
}

impl From<bool> for Reached {
    fn from(reached: bool) -> Self {
        if reached { Reached::Yes } else { Reached::No }
    }
}

/// Compares a ratio to the digit that is printed.
fn at_most(what: String, most: f64, of: &str, measured: f64) -> Goal {
    let reached = (measured * 10.0).round() / 10.0 <= most;
    let what = format!("{what}: at most {most} times {of}");
    Goal { what, measured: format!("{measured:.1}"), reached: reached.into() }
}

/// Compares two pools, which ran in turn, round by round.
fn faster(ours: &[f64], theirs: &[f64]) -> Reached {
    let won = |order| ours.iter().zip(theirs).filter(|(a, b)| a.total_cmp(b) == order).count();
    let enough = MOST * ours.len() as f64;
    match (won(Ordering::Less) as f64 >= enough, won(Ordering::Greater) as f64 >= enough) {
        (true, _) => Reached::Yes,
        (false, true) => Reached::No,
        (false, false) => Reached::Tie,
    }
}

impl Table {
    fn row(&self, name: &str) -> &Row {
        self.rows.iter().find(|row| row.name == name).expect("it is a row")
    }

    fn time(&self, name: &str, column: usize) -> f64 {
        self.row(name).cells[column].nanoseconds
    }

    fn to_limit(&self, name: &str, most: f64, column: usize) -> Goal {
        let measured = self.time(name, column) / self.limits[column];
        at_most(format!("{name}, {}", self.loads[column].name), most, "the limit", measured)
    }

    fn flat(&self, name: &str) -> Goal {
        let measured = self.time(name, 1) / self.time(name, 0);
        at_most(format!("{name}, 9,990 of 10,000 borrowed"), 1.1, "the pool of 8", measured)
    }

    fn allocates(&self, name: &str) -> Goal {
        let most = self.row(name).allocations.iter().copied().fold(0.0, f64::max);
        let what = format!("{name}: no allocations once it is warm");
        Goal { what, measured: format!("{most:.2}"), reached: (most < 0.005).into() }
    }

    /// The fastest peer that serves in the same order.
    fn ahead(&self, name: &str, column: usize) -> Goal {
        let order = self.row(name).order;
        let peers = self.rows.iter().filter(|row| is_peer(row.name) && row.order == order);
        let peers = peers.map(|row| (row.name, &row.cells[column]));
        let fastest =
            peers.min_by(|(_, one), (_, other)| one.nanoseconds.total_cmp(&other.nanoseconds));
        let (ours, (peer, theirs)) = (&self.row(name).cells[column], fastest.expect("a peer"));
        let load = self.loads[column].name;
        let (measured, fastest) = (figure(ours.nanoseconds), figure(theirs.nanoseconds));
        Goal {
            what: format!("{name}, {load}: ahead of every peer that serves {}", order.name()),
            measured: format!("{measured}; {peer} {fastest}"),
            reached: faster(&ours.rounds, &theirs.rounds),
        }
    }

    fn goals(&self) -> Vec<Goal> {
        let alone = (0..self.loads.len()).filter(|column| self.loads[*column].threads == 1);
        let mut goals = Vec::new();
        for column in alone {
            goals.extend(
                [(POOL, 2.5), (TASKS, 3.0)].map(|(name, most)| self.to_limit(name, most, column)),
            );
        }
        goals.extend([POOL, TASKS].map(|name| self.flat(name)));
        goals.extend([POOL, TASKS].map(|name| self.allocates(name)));
        for name in [POOL, BARGING, TASKS, BARGING_TASKS] {
            goals.extend((0..self.loads.len()).map(|column| self.ahead(name, column)));
        }
        goals
    }

    /// Returns the name of each goal, whether it is reached or not.
    pub(crate) fn goals_by_name(&self) -> Vec<String> {
        self.goals().into_iter().map(|goal| goal.what).collect()
    }

    pub(crate) fn goals_in_markdown(&self) -> String {
        let mut text = String::from(HEADING);
        for Goal { what, measured, reached } in self.goals() {
            let reached = match reached {
                Reached::Yes => "yes",
                Reached::Tie => "tie",
                Reached::No => "**no**",
            };
            writeln!(text, "| {what} | {measured} | {reached} |").expect("a string");
        }
        text
    }
}
