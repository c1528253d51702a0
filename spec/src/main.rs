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
use cabrank_spec::rules::Erratum;
use std::process::ExitCode;

const USAGE: &str = "\
The ApplicationPool algorithm as a state machine, and the load interlock as another.

  list                     errata, invariants, properties, configurations
  erratum E2 | all         what goes wrong as written, step by step
  erratum D1               the same of the load interlock: a defect of Rails 8.0.0
  check NAME | all | deep  explore a configuration as ruled
  check NAME | interlock   explore a scenario of the load interlock, or all, as mended
  explore NAME [ADDRESS]   walk through a configuration in the browser (with --features explore)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["list"] => list(),
        ["erratum", "all"] => {
            Erratum::ALL.iter().for_each(|&e| println!("{}", errata::story(e)));
            Defect::ALL.iter().for_each(|&d| println!("{}", interlock::defects::story(d)));
        }
        ["erratum", name] => match (Erratum::named(name), Defect::named(name)) {
            (_, Some(defect)) => print!("{}", interlock::defects::story(defect)),
            (Some(erratum), _) => print!("{}", errata::story(erratum)),
            _ => return fail(&format!("there is no erratum {name}: they are E1 to E34, D1 to D5")),
        },
        ["check", "interlock"] => return check_interlock(|_| true),
        ["check", name] if interlock::scenarios::named(name).is_some() => {
            return check_interlock(|other| other == name);
        }
        ["check", "all"] => return check(|named| !named.deep),
        ["check", "deep"] => return check(|named| named.deep),
        ["check", name] if configurations::named(name).is_some() => {
            return check(|named| named.name == name);
        }
        ["check", name] | ["explore", name, ..] if configurations::named(name).is_none() => {
            return fail(&format!("there is no configuration {name}: `list` lists them"));
        }
        ["explore", name] => return explore(name, "127.0.0.1:3333"),
        ["explore", name, address] => return explore(name, address),
        _ => return fail(USAGE),
    }
    ExitCode::SUCCESS
}

fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}

fn list() {
    println!("Errata");
    for &erratum in Erratum::ALL {
        let status = match errata::status(erratum) {
            Status::Shown { breaks, .. } => format!("breaks {breaks}"),
            Status::Holds { property, .. } => format!("holds ({property})"),
            Status::CannotBeSaid { .. } => "cannot be said here".into(),
        };
        println!("  {:4} {:24} {}", erratum.name(), status, erratum.as_written());
    }
    println!("\nInvariants");
    for invariant in INVARIANTS {
        println!("  {:24} {}", invariant.name, invariant.says);
    }
    println!("\nOf every step");
    for property in STEP_PROPERTIES {
        println!("  {:24} {}", property.name, property.says);
    }
    println!("\nIn the end");
    for property in LIVENESS {
        println!(
            "  {:24} {}\n  {:24} assumes: {}",
            property.name, property.says, "", property.assumes
        );
    }
    println!("\nConfigurations");
    for Named { name, about, deep, .. } in configurations::all() {
        println!("  {name:24} {about}{}", if deep { " (deep)" } else { "" });
    }
    list_interlock();
}

fn list_interlock() {
    println!("\nThe load interlock: defects of Rails 8.0.0");
    for &defect in Defect::ALL {
        let (breaks, _) = interlock::defects::shown(defect);
        println!("  {:4} {:24} {}", format!("{defect:?}"), format!("breaks {breaks}"), defect.is());
    }
    println!("\nThe load interlock: what holds");
    for (name, says) in interlock::properties::all() {
        println!("  {name:24} {says}");
    }
    println!("\nThe load interlock: scenarios");
    for scenario in interlock::scenarios::all() {
        println!("  {:32} {}", scenario.name, scenario.shows);
    }
}

fn check_interlock(which: impl Fn(&str) -> bool) -> ExitCode {
    println!("{:34} {:>6} {:>6} {:>5}  ends", "", "states", "steps", "depth");
    for scenario in interlock::scenarios::all().into_iter().filter(|s| which(s.name)) {
        let world = scenario.world(Rules::AS_MENDED);
        match interlock::exploration::check(&world) {
            Ok(found) => {
                let ends = found.ends.into_iter().collect::<Vec<_>>().join(" | ");
                let (states, steps, depth) = (found.states, found.steps, found.depth);
                println!("{:34} {states:>6} {steps:>6} {depth:>5}  {ends}", scenario.name);
            }
            Err(counterexample) => {
                let story = interlock::story::tell(&world, &counterexample);
                println!("{}\n{story}", scenario.name);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn check(which: impl Fn(&Named) -> bool) -> ExitCode {
    println!(
        "{:22} {:>10} {:>12} {:>6} {:>8} {:>9}",
        "", "states", "steps", "depth", "s", "liveness s"
    );
    for Named { name, config, .. } in configurations::all().into_iter().filter(which) {
        match exploration::check(&config) {
            Ok(found) => println!(
                "{name:22} {:>10} {:>12} {:>6} {:>8.1} {:>9.1}",
                found.states,
                found.steps,
                found.depth,
                found.time.as_secs_f64(),
                found.liveness_time.as_secs_f64()
            ),
            Err(story) => {
                println!("{name}\n{story}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

#[cfg(feature = "explore")]
fn explore(name: &str, address: &str) -> ExitCode {
    use stateright::Model;
    let Some(named) = configurations::named(name) else { return ExitCode::FAILURE };
    println!("{name} at http://{address}");
    explorer::Explored(named.config).checker().serve(address);
    ExitCode::SUCCESS
}

#[cfg(not(feature = "explore"))]
fn explore(_: &str, _: &str) -> ExitCode {
    fail("the explorer is a feature: cargo run -p cabrank-spec --features explore -- explore NAME")
}
