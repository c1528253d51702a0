//! `cargo xtask compare`: cabrank beside other servers, in processor time, rate, latency and memory.
//!
//! All servers run at the same time and take short turns under the load, so that a change of the machine's
//! speed meets all of them. A figure is the median of the rounds.

mod case;
mod kind;
mod load;
mod report;
mod servers;

use crate::common::{Outcome, say, shell};
use case::{Case, Turn};
use kind::Kind;
use load::Phase;
use servers::{EndAll, Place, Server};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const HELP: &str = "cargo xtask compare [OPTION…]

  --quick        one short round with what is installed; prints the result only (CI)
  --other PATH   also this build of cabrank; may be repeated
  --server PATH   this build as cabrank, instead of a release build of this tree
  --only KIND    wsgi, node, rack, asgi, wsgi-threads or rack-threads
  --rounds N     rounds (3)
  --seconds S    the length of each turn (2)
  --out FILE     the result's file (docs/performance.md)
  --no-install   no attempt to install missing peers";

const CONNECTIONS: [usize; 2] = [16, 64];

#[derive(Debug)]
struct Options {
    quick: bool,
    install: bool,
    server: Option<PathBuf>,
    others: Vec<PathBuf>,
    only: Option<Kind>,
    rounds: usize,
    turn: Duration,
    out: PathBuf,
}

pub(crate) fn run(args: &[String]) -> Outcome {
    let Some(options) = parse(args)? else {
        say(HELP);
        return Ok(());
    };
    let place = Place::prepare().map_err(|error| format!("target/compare: {error}"))?;
    if options.install {
        place.install();
    }
    let server = match &options.server {
        Some(server) => server.clone(),
        None => build(options.quick)?,
    };
    let mut programs = vec![server];
    programs.extend(options.others.iter().cloned());
    // A server that becomes a daemon stays a child of this process, which then finds and ends it.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| error.to_string())?;
    let _ends = EndAll;
    let mut running = Vec::new();
    let mut missing = Vec::new();
    let is_chosen = |kind| options.only.is_none_or(|only| only == kind);
    for candidate in servers::candidates(&place, &programs) {
        if !is_chosen(candidate.kind) {
            continue;
        }
        match candidate.start(&place) {
            Ok(server) => running.push(server),
            Err(error) if candidate.name == "cabrank" => return Err(format!("cabrank: {error}")),
            Err(error) => {
                missing.push(format!("{} ({:?}): {error}", candidate.name, candidate.kind));
            }
        }
    }
    let cases = rounds(&options, &running, &mut missing)?;
    let text = report::write(&running, &cases, &missing, options.rounds, options.turn);
    say(&text);
    if !options.quick {
        if let Some(parent) = options.out.parent() {
            std::fs::create_dir_all(parent).map_err(|error| error.to_string())?;
        }
        std::fs::write(&options.out, text)
            .map_err(|error| format!("{}: {error}", options.out.display()))?;
    }
    Ok(())
}

fn parse(args: &[String]) -> Result<Option<Options>, String> {
    let mut options = Options {
        quick: false,
        install: true,
        server: None,
        others: Vec::new(),
        only: None,
        rounds: 3,
        turn: Duration::from_secs(2),
        out: "docs/performance.md".into(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--quick" => {
                (options.quick, options.install, options.rounds) = (true, false, 1);
                options.turn = Duration::from_millis(300);
            }
            "--no-install" => options.install = false,
            "--server" => options.server = Some(absolute(value()?)?),
            "--other" => options.others.push(absolute(value()?)?),
            "--only" => {
                let name = value()?;
                let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
                options.only =
                    Some(kind.ok_or_else(|| format!("--only {name}: there is no such kind"))?);
            }
            "--rounds" => {
                let number = value()?.parse().ok().filter(|number| *number > 0);
                options.rounds = number.ok_or("--rounds needs a number")?;
            }
            "--seconds" => {
                let seconds = value()?.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
                options.turn = Duration::from_secs_f64(seconds.ok_or("--seconds needs a number")?);
            }
            "--out" => options.out = value()?.into(),
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("there is no option {arg}\n\n{HELP}")),
        }
    }
    Ok(Some(options))
}

/// The servers are started in other directories.
fn absolute(path: &str) -> Result<PathBuf, String> {
    Path::new(path).canonicalize().map_err(|error| format!("{path}: {error}"))
}

fn build(quick: bool) -> Result<PathBuf, String> {
    let release = if quick { "" } else { " --release" };
    shell(&format!("cargo build --quiet -p cabrank-server{release}"), &[])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let program = target.join(if quick { "debug" } else { "release" }).join("cabrank");
    program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))
}

/// Runs all rounds. A peer that fails leaves the comparison, and the reason joins `missing`.
fn rounds(
    options: &Options,
    servers: &[Server],
    missing: &mut Vec<String>,
) -> Result<Vec<Case>, String> {
    let connections = if options.quick { &CONNECTIONS[..1] } else { &CONNECTIONS };
    let mut cases: Vec<Case> = connections
        .iter()
        .flat_map(|connections| {
            let of = move |server| Case { server, connections: *connections, turns: Vec::new() };
            (0..servers.len()).map(of)
        })
        .collect();
    let mut failed = BTreeSet::new();
    for round in 0..options.rounds {
        // Each round begins with another server.
        let shift = round * cases.len() / options.rounds;
        for at in 0..cases.len() {
            let at = (at + shift) % cases.len();
            let case = &mut cases[at];
            if failed.contains(&case.server) {
                continue;
            }
            let server = &servers[case.server];
            let turn = match turn(server, case.connections, options.turn) {
                Ok(turn) => turn,
                Err(error) => {
                    let error = format!("{} ({:?}): {error}", server.name, server.kind);
                    if server.name == "cabrank" {
                        return Err(error);
                    }
                    eprintln!("{error}");
                    missing.push(error);
                    failed.insert(case.server);
                    continue;
                }
            };
            eprintln!(
                "round {}: {} ({:?}), {} connections: {:.0} + {:.0} µs, {:.0}/s",
                round + 1,
                server.name,
                server.kind,
                case.connections,
                turn.server,
                turn.app,
                turn.rate
            );
            case.turns.push(turn);
        }
    }
    cases.retain(|case| !failed.contains(&case.server));
    Ok(cases)
}

fn turn(server: &Server, connections: usize, length: Duration) -> Result<Turn, String> {
    let phase = Phase::default();
    std::thread::scope(|scope| {
        let load = scope.spawn(|| load::run(server.address, connections, &phase));
        std::thread::sleep(length / 8);
        let (before, begun) = (server.spent(), Instant::now());
        phase.measures.store(true, Ordering::Relaxed);
        std::thread::sleep(length);
        phase.measures.store(false, Ordering::Relaxed);
        let (after, took) = (server.spent(), begun.elapsed());
        let memory = server.memory() as f64;
        phase.ends.store(true, Ordering::Relaxed);
        let mut latencies = load.join().map_err(|_| "the load panicked".to_owned())??;
        if latencies.is_empty() {
            return Err("no request was answered in time".into());
        }
        latencies.sort_unstable();
        let count = latencies.len() as f64;
        let each = |after: Duration, before: Duration| {
            after.saturating_sub(before).as_secs_f64() * 1e6 / count
        };
        let at = |share: f64| latencies[((count - 1.0) * share) as usize].as_secs_f64() * 1e6;
        Ok(Turn {
            server: each(after.server, before.server),
            app: each(after.app, before.app),
            rate: count / took.as_secs_f64(),
            p50: at(0.5),
            p99: at(0.99),
            memory,
        })
    })
}
