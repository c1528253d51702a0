//! The command: `list` shows all names, `erratum E2` prints a counterexample, `check NAME` explores.

use cabrank_spec::checking::table::Table;
use cabrank_spec::systems;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

const USAGE: &str = "\
The application pool, the load interlock, the resource pool and the kept session as state machines.

  list                     list errata, defects, invariants, properties and configurations
  erratum E2 | all         show what goes wrong as written, step by step
  erratum DEFECT           the same for a defect of Rails 8.0.0 (rails-…), of the Elixir pool (elixir-…), or of the
                           loaders before their rules (kept-…)
  check NAME               explore a configuration as ruled
  check SYSTEM             explore the usual ones of a system: application, interlock, resource or kept
  check all | deep         explore the usual ones of all systems, or the large ones
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
        ["list"] => {
            for (at, system) in systems::ALL.iter().enumerate() {
                write!(out, "{}", if at > 0 { "\n" } else { "" })?;
                system.list(out)?;
            }
        }
        ["erratum", "all"] => {
            for story in systems::ALL.iter().flat_map(|system| system.stories()) {
                writeln!(out, "{story}")?;
            }
        }
        ["erratum", name] => match systems::ALL.iter().find_map(|system| system.story(name)) {
            Some(story) => write!(out, "{story}")?,
            None => return Ok(fail(&format!("there is no erratum {name}: `list` lists them"))),
        },
        ["check", "all"] => return check(out, |_, _, deep| !deep),
        ["check", "deep"] => return check(out, |_, _, deep| deep),
        ["check", word] if systems::ALL.iter().any(|system| system.word() == word) => {
            return check(out, |system, _, deep| system == word && !deep);
        }
        ["check", name] | ["explore", name, ..]
            if !systems::ALL.iter().any(|system| system.has(name)) =>
        {
            return Ok(fail(&format!("there is no configuration {name}: `list` lists them")));
        }
        ["check", name] => return check(out, |_, other, _| other == name),
        ["explore", name] => return explore(out, name, "127.0.0.1:3333"),
        ["explore", name, address] => return explore(out, name, address),
        _ => return Ok(fail(USAGE)),
    }
    Ok(ExitCode::SUCCESS)
}

fn fail(message: &str) -> ExitCode {
    // The exit code still says so if standard error is closed; `eprintln!` would panic.
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::from(2)
}

/// Explores the configurations for which `which` holds, given a system's word, a name, and whether it is deep.
fn check(out: &mut impl Write, which: impl Fn(&str, &str, bool) -> bool) -> io::Result<ExitCode> {
    let mut table = Table::begin(out)?;
    for system in systems::ALL {
        let of_system = |name: &str, deep: bool| which(system.word(), name, deep);
        if !system.check(&of_system, &mut table)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    table.sums()?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "explore")]
fn explore(out: &mut impl Write, name: &str, address: &str) -> io::Result<ExitCode> {
    // stateright panics if it cannot listen, so try it first.
    if let Err(error) = std::net::TcpListener::bind(address) {
        return Ok(fail(&format!("cannot listen at {address}: {error} (an address is HOST:PORT)")));
    }
    writeln!(out, "{name} at http://{address}")?;
    for system in systems::ALL.iter().filter(|system| system.has(name)) {
        system.explore(name, address);
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "explore"))]
fn explore(_: &mut impl Write, _: &str, _: &str) -> io::Result<ExitCode> {
    let how = "cargo run -p cabrank-spec --features explore -- explore NAME";
    Ok(fail(&format!("the explorer needs a feature: {how}")))
}
