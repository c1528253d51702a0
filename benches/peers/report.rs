//! The table as text, and its place in `benches/README.md`.

use crate::contenders::LIMIT;
use crate::goals;
use crate::rounds::{Contender, Kind, Load, Order};
use crate::table::{Table, figure};
use std::fmt::Write;
use std::path::PathBuf;

impl Table {
    pub(crate) fn markdown(&self) -> String {
        let mut text = heading(self.loads);
        for row in &self.rows {
            write!(text, "| {}{} |", row.name, form(row.kind, row.order)).expect("a string");
            for (column, cell) in row.cells.iter().enumerate() {
                let ratio = cell.nanoseconds / self.unit(column);
                write!(text, " {} ({ratio:.1}) |", figure(cell.nanoseconds)).expect("a string");
            }
            match row.cells.last().and_then(|cell| cell.waits).filter(|_| row.name != LIMIT) {
                Some((half, most)) => write!(text, " {half:.1} / {most:.0} |"),
                None => write!(text, " |"),
            }
            .expect("a string");
            for allocations in &row.allocations {
                write!(text, " {allocations:.2} |").expect("a string");
            }
            text.push('\n');
        }
        text
    }
}

fn heading(loads: &[Load]) -> String {
    let mut text = String::from("| |");
    for load in loads {
        write!(text, " {} |", load.name).expect("a string");
    }
    text.push_str(" its waits, µs: p50 / p99 | allocations, 1 thread | 8 threads |\n|---|");
    text.push_str(&"---:|".repeat(loads.len() + 3));
    text.push('\n');
    text
}

fn form(kind: Kind, order: Order) -> &'static str {
    match (kind, order) {
        (Kind::Limit, _) => "",
        (Kind::Blocking, Order::FirstCome) => " (in order)",
        (Kind::Blocking, Order::Barging) => " (barging)",
        (Kind::Asynchronous, Order::FirstCome) => " (async, in order)",
        (Kind::Asynchronous, Order::Barging) => " (async, barging)",
    }
}

pub(crate) fn beside(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

const BEGIN: &str = "<!-- written by `cargo bench -- --write` in `benches/peers`, from here -->\n";
const END: &str = "<!-- to here -->\n";

/// The README in three: before the table, the table, and after it.
fn parts(text: &str) -> (&str, &str, &str) {
    let (before, rest) = text.split_once(BEGIN).expect("the place of the table is marked");
    let (table, after) = rest.split_once(END).expect("the end of the table is marked");
    (before, table, after)
}

/// Puts the table into its place.
pub(crate) fn write(table: &Table) {
    let path = beside("README.md");
    let text = std::fs::read_to_string(&path).expect("benches/README.md");
    let (before, _, after) = parts(&text);
    let text = format!(
        "{before}{BEGIN}\n{}\n{}\n{END}{after}",
        table.markdown(),
        table.goals_in_markdown()
    );
    std::fs::write(path, text).expect("benches/README.md can be written");
}

/// That the table in its place has the columns and the rows of today, and what is below it the goals.
pub(crate) fn check(contenders: &[Contender], loads: &'static [Load]) {
    let text = std::fs::read_to_string(beside("README.md")).expect("benches/README.md");
    let (_, table, _) = parts(&text);
    assert!(table.contains(&heading(loads)), "the columns of benches/README.md are not today's");
    let (_, written) = table.split_once(goals::HEADING).expect("it says what is reached");
    let written: Vec<_> = written.lines().take_while(|goal| !goal.is_empty()).collect();
    let goals = Table::blank(contenders, loads).goals_by_name();
    let goals: Vec<_> = goals.iter().map(|what| format!("| {what} | ")).collect();
    let same = written.len() == goals.len()
        && written.iter().zip(&goals).all(|(goal, what)| goal.starts_with(what));
    assert!(same, "the goals of benches/README.md are not today's: {goals:#?}");
    let rows: Vec<_> = table.trim().lines().skip(2).take_while(|row| !row.is_empty()).collect();
    let names =
        contenders.iter().map(|contender| (contender.name, form(contender.kind, contender.order)));
    let names: Vec<_> = names.map(|(name, form)| format!("| {name}{form} |")).collect();
    let same = rows.len() == names.len()
        && rows.iter().zip(&names).all(|(row, name)| row.starts_with(name));
    assert!(same, "the rows of benches/README.md are not today's: {names:#?}");
}
