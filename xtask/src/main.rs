//! The developer's commands: `cargo xtask` lists them.

mod ci;
mod commit;
mod common;
mod compare;
mod figures;
mod graph;
mod needs;
mod prose;
mod test;

use common::{say, shell};
use std::process::ExitCode;

/// A command that runs others in a shell; what follows its name on the command line is appended to the last.
struct Script {
    name: &'static str,
    about: &'static str,
    lines: &'static str,
}

const SCRIPTS: &[Script] = &[
    Script {
        name: "check",
        about: "format, types of each feature set, whether the faults fit, prose, cycles, the last commit's name: before each commit",
        lines: "
            cargo fmt --all --check
            cargo check --workspace --all-targets
            for features in in-memory,serde loom shuttle; do
              cargo check -p cabrank --all-targets --features $features
            done
            python3 models/faults.py --fit
            cargo xtask prose
            cargo xtask graph --check
            cargo xtask commit",
    },
    Script {
        name: "loom",
        about: "every interleaving of every model, or of those with NAME in their path",
        lines: "CABRANK_DEEP=1 cargo test --features loom --lib --",
    },
    Script {
        name: "shuttle",
        about: "random schedules of every model, or of those with NAME in their path",
        lines: "cargo test --features shuttle --lib --",
    },
    Script {
        name: "faults",
        about: "plants each fault and runs the models that must catch it; NAME selects, --why shows how",
        lines: "python3 models/faults.py",
    },
    Script {
        name: "mutants",
        about: "changes the library one operator at a time (hours; tests/MUTANTS.md)",
        lines: "python3 tests/mutants.py",
    },
    Script {
        name: "spec",
        about: "the specification's own checks; `cargo run -p cabrank-spec` explores it by hand",
        lines: "cargo test -p cabrank-spec",
    },
    Script {
        name: "bench",
        about: "the benchmarks as ratios, or --bench NAME; benches/peers has the other pools",
        lines: "cargo bench -p cabrank-benches",
    },
    Script {
        name: "checks-pools",
        about: "works both pools for SECONDS (600), and looks whether anything is lost",
        lines: "cargo run --quiet -p cabrank-checks-pools --",
    },
    Script {
        name: "checks-faults",
        about: "judges the server under faults, from the outside, and writes docs/faults.md; --help shows how",
        lines: "
            case \" $* \" in
              *gunicorn*|*uwsgi*)
                python3 -m venv target/peers
                target/peers/bin/pip install --quiet gunicorn uwsgi ;;
            esac
            cargo build --quiet -p cabrank-server
            cargo run --quiet -p cabrank-checks-faults --",
    },
    Script {
        name: "checks-applications",
        about: "serves real applications of many frameworks, and looks at what their users would see; --write makes docs/applications.md",
        lines: "
            cargo build --quiet -p cabrank-server
            cargo run --quiet -p cabrank-checks-applications --",
    },
    Script {
        name: "preload",
        about: "measures memory and spawn time with a preloader and without; --write puts them into docs/preloaders.md",
        lines: "
            cargo build --quiet --release -p cabrank-server
            cargo run --quiet -p cabrank-checks-applications -- preload",
    },
    Script {
        name: "semver",
        about: "compares the public API with the revision named, by the tools that are installed",
        lines: "
            compare() {
              revision=${1:?the revision to compare with}
              if command -v cargo-semver-checks; then
                cargo semver-checks -p cabrank --baseline-rev $revision
              else echo 'skipped: cargo install cargo-semver-checks'; fi
              if command -v cargo-public-api; then
                cargo public-api -p cabrank diff $revision..HEAD
              else echo 'skipped: cargo install cargo-public-api'; fi
            }
            compare",
    },
];

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    // `graph` may be asked of another tree.
    if args.first().is_none_or(|name| name != "graph")
        && let Err(error) = std::env::set_current_dir(root)
    {
        eprintln!("{root}: {error}");
        return ExitCode::FAILURE;
    }
    let name = if args.is_empty() { "help".to_owned() } else { args.remove(0) };
    let outcome = match name.as_str() {
        "ci" => ci::run(&args),
        "commit" => commit::run(&args),
        "compare" => compare::run(&args),
        "figures" => figures::run(),
        "graph" => graph::run(&args),
        "needs" => needs::run(&args),
        "prose" => prose::run(&args),
        "test" => test::run(&args),
        name => match SCRIPTS.iter().find(|script| script.name == name) {
            Some(script) => shell(script.lines, &args),
            None if ["help", "-h", "--help"].contains(&name) => {
                help();
                return ExitCode::SUCCESS;
            }
            None => {
                eprintln!("there is no command {name}: cargo xtask lists them");
                return ExitCode::from(2);
            }
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn help() {
    say("cargo xtask COMMAND [ARGUMENT…]\n");
    say(
        "  test       the tests of all packages; --install installs the programs that they need, --help for more",
    );
    say(
        "  needs      the programs that the tests need and that are missing; --install installs them",
    );
    for Script { name, about, .. } in SCRIPTS {
        say(&format!("  {name:<10} {about}"));
    }
    say("  prose      the rates of hard sentences, by folder; --list [PATH…] prints each");
    say(
        "  graph      which module of each package uses which; --cycles for those alone, --help for its options",
    );
    say(
        "  compare    writes docs/performance.md: cabrank beside other servers; --help for its options",
    );
    say("  commit     checks the name of the last commit, or of the one named");
    say("  figures    counts of states, executions, models, faults, tests and examples");
    say(
        "  ci         what every change must pass; ci STEP… for some, ci --list for their names, ci deep for all",
    );
}
