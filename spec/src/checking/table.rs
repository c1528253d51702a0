//! The table that `check` prints: a row of counts for each exploration, and their sums.

use crate::checking::check::{Counts, Report};
use std::io::{self, Write};

/// The table, as far as it is printed.
pub struct Table<'a> {
    out: &'a mut dyn Write,
    rows: usize,
    states: usize,
    steps: usize,
}

impl<'a> Table<'a> {
    /// Prints the head.
    ///
    /// # Errors
    /// If it cannot write.
    pub fn begin(out: &'a mut dyn Write) -> io::Result<Self> {
        writeln!(
            out,
            "{:34} {:>10} {:>12} {:>6} {:>8}",
            "", "states", "steps", "depth", "seconds"
        )?;
        Ok(Table { out, rows: 0, states: 0, steps: 0 })
    }

    /// Prints a row: the counts, the time, the outcomes of the final states, and the pinned counts if they differ.
    ///
    /// # Errors
    /// If it cannot write.
    pub fn row(&mut self, name: &str, report: &Report, pinned: Counts) -> io::Result<()> {
        let (states, steps, depth) = report.counts();
        let seconds = (report.time + report.liveness_time).as_secs_f64();
        let mut remarks: Vec<String> = report.ends.iter().cloned().collect();
        if pinned != report.counts() {
            remarks.push(format!("the pinned counts are {pinned:?}"));
        }
        let remarks = remarks.join(" | ");
        let row =
            format!("{name:34} {states:>10} {steps:>12} {depth:>6} {seconds:>8.1}  {remarks}");
        (self.rows, self.states, self.steps) =
            (self.rows + 1, self.states + states, self.steps + steps);
        writeln!(self.out, "{}", row.trim_end())
    }

    /// Prints a story instead of a row.
    ///
    /// # Errors
    /// If it cannot write.
    pub fn end_with(&mut self, name: &str, story: &str) -> io::Result<()> {
        writeln!(self.out, "{name}\n{story}")
    }

    /// Prints the sums.
    ///
    /// # Errors
    /// If it cannot write.
    pub fn sums(self) -> io::Result<()> {
        let explored = format!("{} explored", self.rows);
        writeln!(self.out, "{explored:34} {:>10} {:>12}", self.states, self.steps)
    }
}
