//! One row: a fresh server, healthy clients, the fault, and what is left over.

use crate::app::App;
use crate::fault::{Fault, Scene};
use crate::healthy::{Healthy, Results};
use crate::kind::Kind;
use crate::server::{Open, Server};
use crate::setup::PROCESSES;
use crate::words::tally;
use cabrank_checks_harness::{Binary, Signal, until};
use std::time::Duration;

/// The time that a server has to clean up after a fault, and to end.
const CLEAN_UP: Duration = Duration::from_secs(10);

/// The results of one trial.
pub(crate) struct Row {
    pub(crate) fault: &'static str,
    pub(crate) cost: &'static str,
    pub(crate) app: App,
    pub(crate) kind: Kind,
    pub(crate) has_started: bool,
    pub(crate) healthy: Results,
    /// Left over, as far as the server's own numbers grew, and after its end.
    pub(crate) processes: usize,
    pub(crate) descriptors: usize,
    pub(crate) files: usize,
    /// The results of the fault's own clients.
    pub(crate) seen: String,
    /// The goals that the row misses.
    pub(crate) misses: Vec<String>,
    pub(crate) log: String,
}

impl Row {
    /// Returns the row as one line for a terminal.
    pub(crate) fn line(&self) -> String {
        format!(
            "{} {:<9} {:<28} {} | {} healthy, {} errors, longest {:.2} s | left {}/{}/{} | {}{}",
            if self.misses.is_empty() { "ok  " } else { "MISS" },
            format!("{:?}", self.kind).to_lowercase(),
            self.fault,
            self.app,
            self.healthy.answered,
            self.healthy.errors.len(),
            self.healthy.longest.as_secs_f64(),
            self.processes,
            self.descriptors,
            self.files,
            self.seen,
            self.misses.iter().map(|miss| format!("\n       {miss}")).collect::<String>(),
        )
    }
}

/// Runs one row against a fresh server. `is_quick` makes its fault shorter.
pub(crate) fn run(fault: &Fault, app: App, kind: Kind, binary: &Binary, is_quick: bool) -> Row {
    let mut row = Row {
        fault: fault.name,
        cost: fault.cost,
        app,
        kind,
        has_started: false,
        healthy: Results::default(),
        processes: 0,
        descriptors: 0,
        files: 0,
        seen: String::new(),
        misses: Vec::new(),
        log: String::new(),
    };
    let mut server = match Server::start(kind, binary, app, &fault.setup) {
        Ok(server) => server,
        Err(why) => {
            row.misses.push(why);
            return row;
        }
    };
    row.has_started = true;
    let healthy = Healthy::start(server.address);
    std::thread::sleep(Duration::from_secs(1));
    let before = server.open();
    healthy.begin();
    let mut by_nature = None;
    let mut scene = Scene { server: &mut server, healthy: &healthy, app, is_quick };
    match (fault.plant)(&mut scene) {
        Ok(seen) => {
            row.seen = seen.text;
            row.misses = seen.wrong;
            by_nature = seen.by_nature;
        }
        Err(why) => row.misses.push(why),
    }
    if server.has_ended().is_none() {
        std::thread::sleep(Duration::from_millis(1500));
        left_while_serving(&server, &before, &mut row);
        healthy.may_end();
        row.healthy = healthy.stop();
        server.signal(Signal::TERM);
    } else {
        row.healthy = healthy.stop();
    }
    left_at_the_end(&mut server, &mut row);
    let errors = row.healthy.errors.iter().filter(|error| Some(error.as_str()) != by_nature);
    let errors: Vec<_> = errors.collect();
    if !errors.is_empty() {
        row.misses.push(format!("healthy clients saw {}", tally(errors)));
    }
    if row.healthy.answered == 0 {
        row.misses.push("healthy clients got no answer".to_owned());
    }
    row.log = server.log();
    row
}

/// Each core may keep a connection to each process.
fn allowed_descriptors() -> usize {
    PROCESSES * std::thread::available_parallelism().map_or(1, usize::from)
}

fn left_while_serving(server: &Server, before: &Open, row: &mut Row) {
    let grown = |open: &Open| {
        let descriptors = open.descriptors.saturating_sub(before.descriptors);
        (
            open.processes.len().saturating_sub(before.processes.len()),
            if descriptors > allowed_descriptors() { descriptors } else { 0 },
            open.files.len().saturating_sub(before.files.len()),
        )
    };
    until(CLEAN_UP, || grown(&server.open()) == (0, 0, 0));
    let after = server.open();
    (row.processes, row.descriptors, row.files) = grown(&after);
    for (what, count) in
        [("processes", row.processes), ("descriptors", row.descriptors), ("files", row.files)]
    {
        if count > 0 {
            row.misses.push(format!("{count} {what} more than before the fault"));
        }
    }
}

fn left_at_the_end(server: &mut Server, row: &mut Row) {
    if !until(CLEAN_UP, || server.has_ended().is_some()) {
        row.misses.push("the server does not end".to_owned());
        return;
    }
    until(CLEAN_UP, || server.processes().is_empty());
    let open = server.open();
    row.processes += open.processes.len();
    row.files += open.files.len();
    if !open.processes.is_empty() {
        row.misses.push(format!("{} processes survive the server", open.processes.len()));
    }
    // Another server leaves its log and pid there.
    if !open.files.is_empty() && server.kind == Kind::Cabrank {
        row.misses.push(format!(
            "files remain: {}",
            open.files.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", ")
        ));
    }
}
