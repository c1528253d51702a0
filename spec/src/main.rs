//! The command: `list` shows all names, `erratum E2` prints a counterexample, `check NAME` explores.

#[cfg(feature = "explore")]
mod explorer;

use cabrank_spec::application_pool::configurations::{self, Named};
use cabrank_spec::application_pool::errata::{self, Status};
use cabrank_spec::application_pool::exploration;
use cabrank_spec::application_pool::invariants::INVARIANTS;
use cabrank_spec::application_pool::liveness::LIVENESS;
use cabrank_spec::application_pool::properties::STEP_PROPERTIES;
use cabrank_spec::application_pool::rules::Erratum;
use cabrank_spec::checking::check::Promises;
use cabrank_spec::interlock;
use cabrank_spec::interlock::rules::{Defect, Rules};
use cabrank_spec::interlock::script::World;
use cabrank_spec::kept;
use cabrank_spec::resource_pool::{self, machine::Config};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

const USAGE: &str = "\
The ApplicationPool algorithm, the load interlock, the resource pool and the kept session as state machines.

  list                     list errata, invariants, properties and configurations
  erratum E2 | all         show what goes wrong as written, step by step
  erratum DEFECT           the same for a defect of Rails 8.0.0 (rails-…), of the Elixir pool (elixir-…), or of the
                           loaders before their rules (kept-…)
  check NAME | all | deep  explore a configuration as ruled, the usual ones, or the large ones
  check NAME | interlock   explore a scenario of the load interlock, or all of them
  check NAME | resource    explore a configuration of the resource pool, or all of them
  check NAME | kept        explore a kept session, or all of them
  explore NAME [ADDRESS]   walk through a configuration in the browser (with --features explore)
  help                     show this text";

fn main() -> ExitCode {
    match run(&mut io::stdout()) {
        Ok(code) => code,
        // The reader has closed the pipe, as in `list | head`.
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
                writeln!(out, "{}", defect.story())?;
            }
            for &defect in resource_pool::rules::Defect::ALL {
                writeln!(out, "{}", resource_pool::defects::story(defect))?;
            }
            for &defect in kept::rules::Defect::ALL {
                writeln!(out, "{}", kept::configurations::story(defect))?;
            }
        }
        ["erratum", name] => match story(name) {
            Some(story) => write!(out, "{story}")?,
            None => return Ok(fail(&format!("there is no erratum {name}: `list` lists them"))),
        },
        ["check", "resource"] => return check_resource_pools(out, |_| true),
        ["check", name] if resource_pool::configurations::named(name).is_some() => {
            return check_resource_pools(out, |config| config.name == name);
        }
        ["check", "kept"] => return check_kept_sessions(out, |_| true),
        ["check", name] if kept::configurations::named(name).is_some() => {
            return check_kept_sessions(out, |config| config.name == name);
        }
        ["check", "interlock"] => return check_interlock(out, |_| true),
        ["check", name] if interlock::scenarios::named(name).is_some() => {
            return check_interlock(out, |other| other == name);
        }
        ["check", "all"] => return check(out, |named| !named.deep()),
        ["check", "deep"] => return check(out, |named| named.deep()),
        ["check", name] if configurations::named(name).is_some() => {
            return check(out, |named| named.name == name);
        }
        ["explore", name, ..]
            if interlock::scenarios::named(name).is_some()
                || resource_pool::configurations::named(name).is_some()
                || kept::configurations::named(name).is_some() =>
        {
            return Ok(fail(&format!(
                "{name} is not a configuration of the application pool: the browser cannot show it, but \
                 `check {name}` explores it"
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

/// Prints an erratum, or a defect of one of the other machines.
fn story(name: &str) -> Option<String> {
    let of_the_pool = Erratum::named(name).map(errata::story);
    let of_the_interlock = || Defect::named(name).map(Defect::story);
    let of_resources =
        || resource_pool::rules::Defect::named(name).map(resource_pool::defects::story);
    let of_kept_sessions = || kept::rules::Defect::named(name).map(kept::configurations::story);
    of_the_pool.or_else(of_the_interlock).or_else(of_resources).or_else(of_kept_sessions)
}

fn fail(message: &str) -> ExitCode {
    // The exit code still says so if standard error is closed; `eprintln!` would panic.
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::from(2)
}

fn list(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Errata")?;
    for &erratum in Erratum::ALL {
        let status = match errata::status(erratum) {
            Status::Shown { breaks, .. } => format!("breaks {breaks}"),
            Status::Holds { property, .. } => format!("{property} holds"),
            Status::CannotBeSaid { .. } => "not expressible".into(),
        };
        writeln!(out, "  {:4} {:31} {}", erratum.name(), status, erratum.as_written())?;
    }
    writeln!(out, "\nInvariants")?;
    for invariant in INVARIANTS {
        writeln!(out, "  {:24} {}", invariant.name, invariant.says)?;
    }
    writeln!(out, "\nProperties of every step")?;
    for property in STEP_PROPERTIES {
        writeln!(out, "  {:24} {}", property.name, property.says)?;
    }
    writeln!(out, "\nLiveness properties")?;
    for property in LIVENESS {
        writeln!(
            out,
            "  {:24} {}\n  {:24} assumes: {}",
            property.name, property.says, "", property.assumes
        )?;
    }
    writeln!(out, "\nConfigurations")?;
    for named in configurations::all() {
        let (states, steps, depth) = named.pinned;
        let figures = format!("{states} states, {steps} steps, depth {depth}");
        writeln!(out, "  {:28} {figures}\n    {}", named.name, named.about())?;
    }
    list_interlock(out)
}

fn list_interlock(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nThe load interlock: defects of Rails 8.0.0")?;
    for &defect in Defect::ALL {
        let (breaks, _) = defect.shown();
        writeln!(out, "  {:27} {:42} {}", defect.name(), format!("breaks {breaks}"), defect.is())?;
    }
    writeln!(out, "\nThe load interlock: properties")?;
    for (name, says) in World::promises() {
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
    writeln!(out, "\nThe resource pool: invariants and properties")?;
    for (name, says) in Config::promises() {
        writeln!(out, "  {name:34} {says}")?;
    }
    writeln!(out, "\nThe resource pool: configurations")?;
    for Config { name, about, .. } in resource_pool::configurations::all() {
        writeln!(out, "  {name:24} {about}")?;
    }
    list_kept_sessions(out)
}

fn list_kept_sessions(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nThe kept session: defects of the loaders before their rules")?;
    for &defect in kept::rules::Defect::ALL {
        let (breaks, _) = kept::configurations::shown(defect);
        let (name, breaks) = (defect.name(), format!("breaks {breaks}"));
        writeln!(out, "  {name:27} {breaks:32} {}", defect.is())?;
    }
    writeln!(out, "\nThe kept session: invariants and properties")?;
    for (name, says) in kept::machine::Config::promises() {
        writeln!(out, "  {name:24} {says}")?;
    }
    writeln!(out, "\nThe kept session: configurations")?;
    for kept::machine::Config { name, about, .. } in kept::configurations::all() {
        writeln!(out, "  {name:24} {about}")?;
    }
    Ok(())
}

/// The outcome of one exploration: a row of figures, or the story of a counterexample.
type Outcome = (&'static str, Result<(usize, usize, usize, String), String>);

/// Prints a row for each outcome, and the totals. Stops at the first counterexample.
fn print(out: &mut impl Write, outcomes: impl Iterator<Item = Outcome>) -> io::Result<ExitCode> {
    writeln!(out, "{:34} {:>10} {:>12} {:>6}", "", "states", "steps", "depth")?;
    let (mut rows, mut all_states, mut all_steps) = (0, 0, 0);
    for (name, outcome) in outcomes {
        match outcome {
            Ok((states, steps, depth, remark)) => {
                writeln!(out, "{name:34} {states:>10} {steps:>12} {depth:>6}  {remark}")?;
                (rows, all_states, all_steps) = (rows + 1, all_states + states, all_steps + steps);
            }
            Err(story) => {
                writeln!(out, "{name}\n{story}")?;
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    writeln!(out, "{:34} {all_states:>10} {all_steps:>12}", format!("{rows} explored"))?;
    Ok(ExitCode::SUCCESS)
}

fn check_resource_pools(
    out: &mut impl Write,
    which: impl Fn(&Config) -> bool,
) -> io::Result<ExitCode> {
    let configs = resource_pool::configurations::all().into_iter().filter(which);
    print(out, configs.map(|config| outcome(config.name, &config)))
}

fn check_kept_sessions(
    out: &mut impl Write,
    which: impl Fn(&kept::machine::Config) -> bool,
) -> io::Result<ExitCode> {
    let configs = kept::configurations::all().into_iter().filter(which);
    print(out, configs.map(|config| outcome(config.name, &config)))
}

fn check_interlock(out: &mut impl Write, which: impl Fn(&str) -> bool) -> io::Result<ExitCode> {
    let scenarios = interlock::scenarios::all().into_iter().filter(|s| which(s.name));
    print(out, scenarios.map(|s| outcome(s.name, &s.world(Rules::AS_MENDED))))
}

fn outcome<M: Promises>(name: &'static str, machine: &M) -> Outcome {
    let found = cabrank_spec::checking::check::check(machine).map(|found| {
        let ends = found.ends.into_iter().collect::<Vec<_>>().join(" | ");
        (found.states, found.steps, found.depth, ends)
    });
    (name, found.map_err(|broken| machine.describe(&broken)))
}

fn check(out: &mut impl Write, which: impl Fn(&Named) -> bool) -> io::Result<ExitCode> {
    let configurations = configurations::all().into_iter().filter(which);
    let explored = configurations.map(|Named { name, config, pinned }| {
        let found = exploration::check(&config).map(|found| {
            let (time, liveness) = (found.time.as_secs_f64(), found.liveness_time.as_secs_f64());
            let mut remark = format!("{time:.1} s, liveness {liveness:.1} s");
            if pinned != (found.states, found.steps, found.depth) {
                remark += &format!("; the pinned figures are {pinned:?}");
            }
            (found.states, found.steps, found.depth, remark)
        });
        (name, found)
    });
    print(out, explored)
}

#[cfg(feature = "explore")]
fn explore(out: &mut impl Write, name: &str, address: &str) -> io::Result<ExitCode> {
    use stateright::Model;
    let Some(named) = configurations::named(name) else { return Ok(ExitCode::FAILURE) };
    // stateright panics if it cannot listen, so try it first.
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
    Ok(fail(&format!("the explorer needs a feature: {how}")))
}
