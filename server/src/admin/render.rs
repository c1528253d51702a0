//! The text of `cabrank status`.

use crate::admin::report::{Group, Process, Report};
use std::fmt::Write;

/// Formats the report for people, in colour if `colour`.
pub(crate) fn text(report: &Report, colour: bool) -> String {
    let mut out = Page { text: String::new(), colour };
    out.line(&format!("cabrank {}, {}", report.version, report.date));
    // A server of an earlier version reports one address.
    let places = match &report.addresses[..] {
        [] => format!("http://{}", report.address),
        all => all.join(", "),
    };
    out.fact(
        "Instance",
        &format!("{} ({}, {}, {})", report.instance, places, report.app_type, report.environment),
    );
    if !report.name.is_empty() {
        out.fact("Name", &report.name);
    }
    out.fact("Up for", &duration(report.uptime));
    if report.shutting_down {
        out.line("(shutting down…)");
    }
    out.line("");
    out.fact("Max pool size", &report.max_pool_size.to_string());
    out.fact("Processes", &report.processes.to_string());
    out.fact("Requests in queue", &report.requests_in_queue.to_string());
    for group in &report.groups {
        self::group(&mut out, group);
    }
    out.text
}

fn group(out: &mut Page, group: &Group) {
    out.line("");
    let name = out.styled("1", &group.name);
    out.line(&format!("{name}:"));
    out.fact("  App root", &group.app_root);
    if let Some(release) = group.release.as_ref().filter(|release| **release != group.app_root) {
        let next = group.next_release.as_ref().map(|next| format!(" (next: {next})"));
        out.fact("  Release", &format!("{release}{}", next.unwrap_or_default()));
    }
    if group.restarting {
        out.line("  (restarting…)");
    }
    if group.spawning {
        out.line("  (spawning a new process…)");
    }
    out.fact("  Requests in queue", &group.requests_in_queue.to_string());
    if let Some(error) = &group.last_error {
        let error = out.styled("31", error);
        out.fact("  Last error", &error);
    }
    if let Some(left) = group.back_off {
        out.fact("  Next attempt in", &duration(left));
    }
    if !group.processes.is_empty() {
        table(out, &group.processes);
    }
}

const COLUMNS: [&str; 8] =
    ["PID", "Sessions", "Processed", "Uptime", "CPU", "Memory", "Last used", "State"];

fn table(out: &mut Page, processes: &[Process]) {
    let rows: Vec<[String; 8]> = processes.iter().map(row).collect();
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|i| rows.iter().map(|r| r[i].chars().count()).chain([COLUMNS[i].len()]).max())
        .map(Option::unwrap_or_default)
        .collect();
    let join = |cells: &[&str]| {
        let mut line = String::from(" ");
        for (i, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            // Numbers are aligned to the right, the words of the last column to the left.
            let _ = if i + 1 < cells.len() {
                write!(line, " {cell:>width$} ")
            } else {
                write!(line, " {cell}")
            };
        }
        line
    };
    let header = out.styled("2", &join(&COLUMNS));
    out.line(&header);
    for row in &rows {
        out.line(&join(&row.each_ref().map(String::as_str)));
    }
}

fn row(p: &Process) -> [String; 8] {
    let unknown = || "-".to_owned();
    let mut state = p.state.clone();
    if p.outdated {
        state.push_str(", old code");
    }
    [
        p.pid.map_or_else(unknown, |pid| pid.to_string()),
        p.sessions.to_string(),
        p.processed.to_string(),
        duration(p.uptime),
        p.cpu.map_or_else(unknown, |c| format!("{c:.0}%")),
        p.memory.map_or_else(unknown, |m| format!("{:.0}M", m as f64 / 1048576.0)),
        format!("{} ago", duration(p.last_used)),
        state,
    ]
}

/// Formats a duration with its two largest units, as Passenger does.
fn duration(seconds: f64) -> String {
    let s = seconds as u64;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m {}s", s / 60, s % 60),
        3600..86400 => format!("{}h {}m", s / 3600, s / 60 % 60),
        _ => format!("{}d {}h", s / 86400, s / 3600 % 24),
    }
}

struct Page {
    text: String,
    colour: bool,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
    fn fact(&mut self, name: &str, value: &str) {
        let line = format!("{:<20} {value}", format!("{name}:"));
        self.line(&line);
    }
    fn styled(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        let written = [5.9, 61.0, 3_600.0, 90_061.0].map(duration);
        assert_eq!(written, ["5s", "1m 1s", "1h 0m", "1d 1h"]);
    }

    fn process(pid: u32, sessions: usize) -> Process {
        Process {
            pid: Some(pid),
            identifier: 1,
            state: "busy".into(),
            sessions,
            processed: 12,
            concurrency: 1,
            uptime: 5.0,
            last_used: 1.0,
            cpu: Some(3.2),
            memory: Some(12 << 20),
            kept_connections: 0,
            outdated: sessions > 9,
        }
    }

    #[test]
    fn the_table_is_aligned_and_plain_without_colour() {
        let mut page = Page { text: String::new(), colour: false };
        table(&mut page, &[process(7, 1), process(1234567, 10)]);
        let lines: Vec<_> = page.text.lines().collect();
        let end = |line: &str, word: &str| line.find(word).unwrap() + word.len();
        assert_eq!(end(lines[0], "PID"), end(lines[1], "7"));
        assert_eq!(end(lines[1], "7"), end(lines[2], "1234567"));
        assert_eq!(lines[1].find("busy"), lines[0].find("State"));
        assert!(lines[2].ends_with("busy, old code") && !page.text.contains('\x1b'));
    }
}
