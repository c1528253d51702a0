//! Faults, and their cost for clients that are well-behaved.
//!
//! Each row of the table starts a fresh server with a sample application. Four healthy clients ask it every
//! 20 ms, while a fault is planted beside them. The row says what the healthy clients saw, and what the fault
//! has left over. Errors and leftovers must be 0; times are reported only.

mod app;
mod channels;
mod clock;
mod crashes;
mod descriptors;
mod disk;
mod fault;
mod healthy;
mod interpreter;
mod kept;
mod kind;
mod limits;
mod memory;
mod own_clock;
mod pauses;
mod peers;
mod places;
mod samples;
mod server;
mod setup;
mod slow;
mod stops;
mod table;
mod trial;
mod words;

use app::App;
use cabrank_checks_harness::Binary;
use fault::Fault;
use kind::Kind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;
use trial::Row;

const USAGE: &str = "cargo xtask checks-faults [OPTION…]

  --only NAME       only the rows whose name contains NAME
  --quick           shorter rows, four at a time: about two minutes
  --jobs N          runs N rows at a time; stalls may be longer then [default: 1]
  --server PATH     judges this binary [default: target/debug/cabrank]
  --against NAME…   also the rows that make sense for gunicorn, uwsgi, puma or passenger
  --write PATH      writes the table to this file [default: docs/faults.md, if all rows run]
  --log             prints the server's log of each row that misses its goal
  --list            names the rows

The exit code is 1 if a row misses its goal.";

/// The arguments.
struct Options {
    only: Vec<String>,
    quick: bool,
    jobs: usize,
    binary: Binary,
    against: Vec<Kind>,
    write: Option<PathBuf>,
    log: bool,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options {
        only: Vec::new(),
        quick: false,
        jobs: 1,
        binary: Binary::new("target/debug/cabrank"),
        against: Vec::new(),
        write: None,
        log: false,
    };
    let (mut all, mut write) = (true, None);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--only" => options.only.push(value()?),
            "--server" => options.binary = Binary::new(value()?),
            "--write" => write = Some(PathBuf::from(value()?)),
            "--against" => {
                for name in value()?.split(',') {
                    options.against.push(kind::by_name(name)?);
                }
            }
            "--quick" => (options.quick, options.jobs) = (true, 4),
            "--jobs" => options.jobs = value()?.parse().map_err(|e| format!("--jobs: {e}"))?,
            "--log" => options.log = true,
            "--list" => {
                for fault in faults() {
                    println!("{:<28} {}", fault.name, fault.about);
                }
                return Ok(None);
            }
            "--help" | "-h" => {
                println!("{USAGE}");
                return Ok(None);
            }
            _ => return Err(format!("there is no option {arg}\n\n{USAGE}")),
        }
        all &= !matches!(arg.as_str(), "--only" | "--quick");
    }
    options.write = write.or_else(|| all.then(|| PathBuf::from("docs/faults.md")));
    options.binary = options.binary.find()?;
    Ok(Some(options))
}

fn faults() -> Vec<Fault> {
    let rows = [slow::faults(), limits::faults(), crashes::faults(), channels::faults()];
    let more =
        [pauses::faults(), memory::faults(), clock::faults(), kept::faults(), places::faults()];
    [rows.concat(), stops::faults(), more.concat()].concat()
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => run(&options),
        Ok(None) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// Runs trials, of which `--jobs` at a time.
fn trials(all: Vec<(&Fault, App, Kind)>, options: &Options) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    let Some(&(fault, app, kind)) = all.get(number) else { return };
                    let row = trial::run(fault, app, kind, &options.binary, options.quick);
                    println!("{}", row.line());
                    if options.log && !row.misses.is_empty() {
                        println!("{}", row.log);
                    }
                    rows.lock().expect("no trial panics").push((number, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("no trial panics");
    rows.sort_by_key(|(number, _)| *number);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Returns whether this machine can run the row, and says why not.
fn can_run(fault: &Fault) -> bool {
    let missing = fault.setup.is_missing();
    if let Some(reason) = missing {
        println!("skipped: {}: {reason}", fault.name);
    }
    missing.is_none()
}

fn run(options: &Options) -> ExitCode {
    if let Err(message) = descriptors::raise_limit() {
        eprintln!("the limit of descriptors stays: {message}");
    }
    let chosen: Vec<Fault> = faults()
        .into_iter()
        .filter(|f| options.only.is_empty() || options.only.iter().any(|o| f.name.contains(o)))
        .filter(|f| !options.quick || f.quick)
        .filter(can_run)
        .collect();
    let begun = Instant::now();
    let own = chosen.iter().flat_map(|f| f.apps.iter().map(move |app| (f, *app, Kind::Cabrank)));
    let rows = trials(own.collect(), options);
    let kinds = &options.against;
    let peers = chosen.iter().filter(|f| f.peers);
    let peers = peers.flat_map(|f| kinds.iter().map(move |kind| (f, App::Wsgi, *kind)));
    let beside = trials(peers.collect(), options);
    if let Some(file) = &options.write {
        let text = table::markdown(&rows, &beside);
        if let Err(error) = std::fs::write(file, text) {
            eprintln!("{}: {error}", file.display());
            return ExitCode::FAILURE;
        }
    }
    let missed: Vec<_> = rows.iter().filter(|row| !row.misses.is_empty()).collect();
    println!(
        "{} of {} rows miss their goal, {} s",
        missed.len(),
        rows.len(),
        begun.elapsed().as_secs()
    );
    for row in &missed {
        println!("  {} ({}): {}", row.fault, row.app, row.misses.join("; "));
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
