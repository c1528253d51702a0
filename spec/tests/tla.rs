//! Compares the TLA+ module `tla/ApplicationPool.tla` with the machine: both have the same number of
//! states, and the module's invariants and liveness properties hold.
//!
//! The deep run is `cargo test -p cabrank-spec --test tla -- --include-ignored`. It installs the TLA+
//! checker into the target directory; as a dependency, the checker would add 137 crates to the lock file.
//!
//! Both sides read the same `.cfg` file beside the module.

use cabrank_spec::application_pool::configuration::{Config, Options};
use cabrank_spec::application_pool::invariants::INVARIANTS;
use cabrank_spec::checking::check::check;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const CHECKER: &str = "0.24.11";

/// Each `.cfg` file, and the number of states.
const PINNED: &[(&str, usize)] = &[
    ("solo-global", 44),
    ("solo-private", 48),
    ("solo-requests", 263),
    ("solo-rolling", 501),
    ("solo-time", 319),
    ("solo-drain", 62),
    ("pair-global", 172),
    ("pair-private", 172),
    ("pair-max", 526),
    ("pair-three", 453),
    ("pair-limits", 672),
    ("pair-restarts", 1521),
    ("pair-time", 1390),
    ("pair-groups", 859),
];

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tla")
}
fn module() -> String {
    std::fs::read_to_string(here().join("ApplicationPool.tla")).expect("the module")
}
fn cfg(name: &str) -> String {
    std::fs::read_to_string(here().join(name).with_extension("cfg")).expect("its configuration")
}

fn constants(cfg: &str) -> BTreeMap<&str, &str> {
    cfg.lines().filter_map(|line| line.split_once(" = ")).map(|(k, v)| (k.trim(), v)).collect()
}

fn config(cfg: &str) -> Config {
    let constants = constants(cfg);
    let text = |name: &str| *constants.get(name).unwrap_or_else(|| panic!("no {name}"));
    let number = |name: &str| text(name).parse::<usize>().expect("a number");
    let yes = |name: &str| text(name) == "TRUE";
    let set = |name: &str| -> Vec<usize> {
        let inner = text(name).trim_matches(['{', '}']);
        inner.split(", ").filter(|n| !n.is_empty()).map(|n| n.parse().expect("a number")).collect()
    };
    // Each group has its own restart file.
    let group = |n: usize| {
        let mut options = Options::new(["a", "b", "c"][n - 1]).dir(n - 1);
        options.min_processes = if n == 1 { number("Minimum") } else { 0 };
        options.concurrency = number("Concurrency");
        options.max_requests = number("MaxRequests");
        // The module has the growth of the pseudocode (E35), which the machine has as an option.
        options.eager_growth = true;
        options.max_queue = number("MaxQueue");
        if yes("Rolling") { options.rolling() } else { options }
    };
    let groups = set("Groups").into_iter().map(group).collect();
    let mut config = Config::new(groups, number("Max"), set("Clients").len());
    config.max_per_app = number("MaxPerApp");
    config.max_draining = Some(number("MaxDraining"));
    config.max_idle_time = number("MaxIdleTime") as i64;
    config.drain_timeout = number("DrainTimeout") as i64;
    config.back_off = (number("BackOffFirst") as i64, number("BackOffCap") as i64);
    config.restart_file = yes("Restarts");
    let env = &mut config.environment;
    env.spawns_fail = yes("SpawnsFail");
    env.touch = yes("Restarts");
    env.detach = yes("Detaches");
    env.detach_group = yes("DetachesGroup");
    env.processes_fail = yes("SessionsFail");
    env.give_up = yes("GivesUp");
    env.try_get = yes("TryGets");
    env.time = yes("TimePasses");
    env.close = yes("Closes");
    env.set_max = set("SetMax");
    env.set_max_per_app = set("SetMaxPerApp");
    config
}

#[test]
fn the_machine_has_the_pinned_states() {
    for &(name, states) in PINNED {
        let report =
            check(&config(&cfg(name))).unwrap_or_else(|broken| panic!("{name}: {broken:?}"));
        assert_eq!(report.states, states, "{name}");
    }
}

#[test]
fn every_configuration_is_pinned() {
    let files =
        std::fs::read_dir(here()).expect("the directory").map(|file| file.expect("a file").path());
    let cfgs = files.filter(|path| path.extension().is_some_and(|ending| ending == "cfg"));
    let found: BTreeSet<String> =
        cfgs.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
    let pinned: BTreeSet<String> = PINNED.iter().map(|pinned| pinned.0.to_owned()).collect();
    assert_eq!(found, pinned);
}

/// The TLA+ checker ignores an invariant that the configuration does not list.
#[test]
fn every_configuration_lists_every_invariant() {
    let module = module();
    let defined = module.lines().filter_map(|line| line.split_once(" ==")).map(|(name, _)| name);
    let invariants: Vec<&str> =
        defined.filter(|name| name.starts_with("Inv") || *name == "TypeOK").collect();
    assert!(invariants.len() > 20, "{invariants:?}");
    for (name, _) in PINNED {
        let cfg = cfg(name);
        let words: BTreeSet<&str> = cfg.split_whitespace().collect();
        for invariant in &invariants {
            assert!(words.contains(invariant), "{name}: {invariant}");
        }
    }
}

/// The module defines each invariant, or its head says why not.
#[test]
fn the_module_names_every_invariant() {
    let module = module();
    for invariant in INVARIANTS {
        assert!(module.contains(invariant.name), "{}", invariant.name);
    }
}

/// Returns the path of the TLA+ checker; installs it first if needed.
fn checker() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tla-checker");
    let tla = root.join("bin").join("tla");
    if !tla.exists() {
        let installed = Command::new(env!("CARGO"))
            .args(["install", "tla-checker", "--version", CHECKER, "--locked", "--root"])
            .arg(&root)
            .arg("--target-dir")
            .arg(root.join("build"))
            .status()
            .expect("cargo");
        assert!(installed.success(), "tla-checker {CHECKER} could not be installed");
    }
    tla
}

/// Returns the number after this name in the checker's answer.
fn figure(answer: &str, name: &str) -> usize {
    let after = answer.split(&format!("\"{name}\": ")).nth(1).unwrap_or_default();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no {name} in {answer}"))
}

#[test]
#[ignore = "installs a checker, and takes minutes: run by `.ci/run deep`"]
fn the_module_has_the_pinned_states() {
    let tla = checker();
    for &(name, states) in PINNED {
        let begun = std::time::Instant::now();
        let output = Command::new(&tla)
            .current_dir(here())
            .args(["ApplicationPool.tla", "--json", "--max-states", "10000", "--config"])
            .arg(format!("{name}.cfg"))
            .output()
            .expect("the checker");
        let answer = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        // The status is `ok` only for a complete search.
        let ok = output.status.success() && answer.contains("\"status\": \"ok\"");
        assert!(ok, "{name}: {answer}\n{complaint}");
        // The checker skips parts that it does not understand, with a warning.
        assert!(!complaint.contains("arning"), "{name}: {complaint}");
        // The answer lists the properties that were checked.
        let cfg = cfg(name);
        let properties = cfg.split_once("PROPERTIES\n").map_or("", |(_, rest)| rest);
        for property in properties.lines().next().unwrap_or_default().split_whitespace() {
            let looked_at = answer.split("properties_checked").nth(1);
            assert!(looked_at.is_some_and(|list| list.contains(property)), "{name}: {property}");
        }
        assert_eq!(figure(&answer, "states_explored"), states, "{name}");
        // Write to stderr directly: the test harness captures `eprintln!`.
        let _ = writeln!(
            std::io::stderr(),
            "{name}: {states} states in both, {} steps, {:.1} s",
            figure(&answer, "transitions"),
            begun.elapsed().as_secs_f64(),
        );
    }
}
