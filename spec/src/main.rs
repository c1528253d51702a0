//! `erratum E2` tells a story, `list` lists what there is, `check NAME` explores a configuration.

#[cfg(feature = "explore")]
mod explorer;

use cabrank_spec::configurations::{self, Named};
use cabrank_spec::errata::{self, Status};
use cabrank_spec::exploration;
use cabrank_spec::interlock;
use cabrank_spec::interlock::rules::{Defect, Rules};
use cabrank_spec::invariants::INVARIANTS;
use cabrank_spec::properties::{LIVENESS, STEP_PROPERTIES};
use cabrank_spec::resource_pool::{self, machine::Config};
use cabrank_spec::rules::Erratum;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

const USAGE: &str = "\
The ApplicationPool algorithm as a state machine; the load interlock and the resource pool as others.

  list                     errata, invariants, properties, configurations
  erratum E2 | all         what goes wrong as written, step by step
  erratum rails-upgrade-deadlock  the same of the load interlock: a defect of Rails 8.0.0
  erratum elixir-late-grant       the same of the resource pool: a defect of the Elixir pool
  check NAME | all | deep  explore a configuration as ruled
  check NAME | interlock   explore a scenario of the load interlock, or all, as mended
  check NAME | resource    explore a resource pool, or all, as mended
  explore NAME [ADDRESS]   walk through a configuration in the browser (with --features explore)
  help                     this";

fn main() -> ExitCode {
    match run(&mut io::stdout()) {
        Ok(code) => code,
        // Whoever read has read enough: `list | head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cannot write: {error}")),
    }
}

fn run(out: &mut impl Write) -> io::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["help" | "--help" | "-h"] => writeln!(out, "{USAGE}")?,
        ["list"] => list(out)?,
        ["erratum", "all"] => {
            for &erratum in Erratum::ALL {
                writeln!(out, "{}", errata::story(erratum))?;
            }
            for &defect in Defect::ALL {
                writeln!(out, "{}", interlock::defects::story(defect))?;
            }
            for &defect in resource_pool::rules::Defect::ALL {
                writeln!(out, "{}", resource_pool::defects::story(defect))?;
            }
        }
        ["erratum", name] => match story(name) {
            Some(story) => write!(out, "{story}")?,
            None => {
                return Ok(fail(&format!("there is no erratum {name}: `list` lists them")));
            }
        },
        ["check", "resource"] => return check_resource_pools(out, |_| true),
        ["check", name] if resource_pool::configurations::named(name).is_some() => {
            return check_resource_pools(out, |config| config.name == name);
        }
        ["check", "interlock"] => return check_interlock(out, |_| true),
        ["check", name] if interlock::scenarios::named(name).is_some() => {
            return check_interlock(out, |other| other == name);
        }
        ["check", "all"] => return check(out, |named| !named.deep),
        ["check", "deep"] => return check(out, |named| named.deep),
        ["check", name] if configurations::named(name).is_some() => {
            return check(out, |named| named.name == name);
        }
        ["explore", name, ..] if interlock::scenarios::named(name).is_some() => {
            return Ok(fail(&format!(
                "{name} is a scenario of the load interlock: it can be checked (`check {name}`), and not be \
                 explored in the browser"
            )));
        }
        ["explore", name, ..] if resource_pool::configurations::named(name).is_some() => {
            return Ok(fail(&format!(
                "{name} is a resource pool: it can be checked (`check {name}`), and not be explored in the \
                 browser"
            )));
        }
        ["check", name] | ["explore", name, ..] if configurations::named(name).is_none() => {
            return Ok(fail(&format!("there is no configuration {name}: `list` lists them")));
        }
        ["explore", name] => return explore(out, name, "127.0.0.1:3333"),
        ["explore", name, address] => return explore(out, name, address),
        _ => return Ok(fail(USAGE)),
    }
    Ok(ExitCode::SUCCESS)
}

/// The story of an erratum, or of a defect of one of the other machines.
fn story(name: &str) -> Option<String> {
    let of_the_pool = Erratum::named(name).map(errata::story);
    let of_the_interlock = || Defect::named(name).map(interlock::defects::story);
    let of_resources =
        || resource_pool::rules::Defect::named(name).map(resource_pool::defects::story);
    of_the_pool.or_else(of_the_interlock).or_else(of_resources)
}

fn fail(message: &str) -> ExitCode {
    // Nobody reads it: then the code alone says so. (`eprintln!` would panic.)
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::from(2)
}

fn list(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Errata")?;
    for &erratum in Erratum::ALL {
        let status = match errata::status(erratum) {
            Status::Shown { breaks, .. } => format!("breaks {breaks}"),
            Status::Holds { property, .. } => format!("holds ({property})"),
            Status::CannotBeSaid { .. } => "cannot be said here".into(),
        };
        writeln!(out, "  {:4} {:24} {}", erratum.name(), status, erratum.as_written())?;
    }
    writeln!(out, "\nInvariants")?;
    for invariant in INVARIANTS {
        writeln!(out, "  {:24} {}", invariant.name, invariant.says)?;
    }
    writeln!(out, "\nOf every step")?;
    for property in STEP_PROPERTIES {
        writeln!(out, "  {:24} {}", property.name, property.says)?;
    }
    writeln!(out, "\nIn the end")?;
    for property in LIVENESS {
        writeln!(
            out,
            "  {:24} {}\n  {:24} assumes: {}",
            property.name, property.says, "", property.assumes
        )?;
    }
    writeln!(out, "\nConfigurations")?;
    for Named { name, about, deep, .. } in configurations::all() {
        writeln!(out, "  {name:24} {about}{}", if deep { " (deep)" } else { "" })?;
    }
    list_interlock(out)
}

fn list_interlock(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nThe load interlock: defects of Rails 8.0.0")?;
    for &defect in Defect::ALL {
        let (breaks, _) = interlock::defects::shown(defect);
        writeln!(out, "  {:27} {:42} {}", defect.name(), format!("breaks {breaks}"), defect.is())?;
    }
    writeln!(out, "\nThe load interlock: what holds")?;
    for (name, says) in interlock::properties::all() {
        writeln!(out, "  {name:24} {says}")?;
    }
    writeln!(out, "\nThe load interlock: scenarios")?;
    for scenario in interlock::scenarios::all() {
        writeln!(out, "  {:32} {}", scenario.name, scenario.shows)?;
    }
    list_resource_pools(out)
}

fn list_resource_pools(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nThe resource pool: defects of the Elixir pool")?;
    for &defect in resource_pool::rules::Defect::ALL {
        let (breaks, _) = resource_pool::defects::shown(defect);
        let (name, breaks) = (defect.name(), format!("breaks {breaks}"));
        writeln!(out, "  {name:27} {breaks:32} {}", defect.is())?;
    }
    writeln!(out, "\nThe resource pool: what holds")?;
    for (name, says) in resource_pool::story::promises() {
        writeln!(out, "  {name:34} {says}")?;
    }
    writeln!(out, "\nThe resource pool: configurations")?;
    for Config { name, about, .. } in resource_pool::configurations::all() {
        writeln!(out, "  {name:24} {about}")?;
    }
    Ok(())
}

fn check_resource_pools(
    out: &mut impl Write,
    which: impl Fn(&Config) -> bool,
) -> io::Result<ExitCode> {
    writeln!(out, "{:22} {:>10} {:>12} {:>6}", "", "states", "steps", "depth")?;
    for config in resource_pool::configurations::all().into_iter().filter(which) {
        match resource_pool::exploration::check(&config) {
            Ok(found) => {
                let (states, steps, depth) = (found.states, found.steps, found.depth);
                writeln!(out, "{:22} {states:>10} {steps:>12} {depth:>6}", config.name)?;
            }
            Err(counterexample) => {
                let story = resource_pool::story::tell(&config, &counterexample);
                writeln!(out, "{}\n{story}", config.name)?;
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check_interlock(out: &mut impl Write, which: impl Fn(&str) -> bool) -> io::Result<ExitCode> {
    writeln!(out, "{:34} {:>6} {:>6} {:>5}  ends", "", "states", "steps", "depth")?;
    for scenario in interlock::scenarios::all().into_iter().filter(|s| which(s.name)) {
        let world = scenario.world(Rules::AS_MENDED);
        match interlock::exploration::check(&world) {
            Ok(found) => {
                let ends = found.ends.into_iter().collect::<Vec<_>>().join(" | ");
                let (states, steps, depth) = (found.states, found.steps, found.depth);
                writeln!(out, "{:34} {states:>6} {steps:>6} {depth:>5}  {ends}", scenario.name)?;
            }
            Err(counterexample) => {
                let story = interlock::story::tell(&world, &counterexample);
                writeln!(out, "{}\n{story}", scenario.name)?;
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check(out: &mut impl Write, which: impl Fn(&Named) -> bool) -> io::Result<ExitCode> {
    writeln!(
        out,
        "{:22} {:>10} {:>12} {:>6} {:>8} {:>9}",
        "", "states", "steps", "depth", "s", "liveness s"
    )?;
    for Named { name, config, .. } in configurations::all().into_iter().filter(which) {
        match exploration::check(&config) {
            Ok(found) => writeln!(
                out,
                "{name:22} {:>10} {:>12} {:>6} {:>8.1} {:>9.1}",
                found.states,
                found.steps,
                found.depth,
                found.time.as_secs_f64(),
                found.liveness_time.as_secs_f64()
            )?,
            Err(story) => {
                writeln!(out, "{name}\n{story}")?;
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "explore")]
fn explore(out: &mut impl Write, name: &str, address: &str) -> io::Result<ExitCode> {
    use stateright::Model;
    let Some(named) = configurations::named(name) else { return Ok(ExitCode::FAILURE) };
    // stateright panics where it cannot listen: whether that is possible is tried before.
    if let Err(error) = std::net::TcpListener::bind(address) {
        return Ok(fail(&format!("cannot listen at {address}: {error} (an address is HOST:PORT)")));
    }
    writeln!(out, "{name} at http://{address}")?;
    explorer::Explored(named.config).checker().serve(address);
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "explore"))]
fn explore(_: &mut impl Write, _: &str, _: &str) -> io::Result<ExitCode> {
    let how = "cargo run -p cabrank-spec --features explore -- explore NAME";
    Ok(fail(&format!("the explorer is a feature: {how}")))
}
