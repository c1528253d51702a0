//! Serves real applications, and looks at what their users would see.
//!
//! The frameworks come from PyPI, from npm and from Debian's packages, in the versions that `catalog.rs` and the
//! applications' own files name. They are installed below `target/applications`. An application that cannot be
//! installed is a row that fails, and with `--quick` a row that is left out.

mod browser;
mod catalog;
mod install;
mod preload;
mod probes;
mod site;

use cabrank_checks_harness::Binary;
use catalog::{APPLICATIONS, Application};
use probes::{PROBES, Probe};
use site::Site;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "cargo xtask checks-applications [OPTION…] [NAME…]

  NAME        only these applications, such as flask or express
  --quick     one application a language
  --write     also writes docs/applications.md

Rails chats in a real browser where chromium is installed (apt-get install chromium).

cargo xtask preload [--write]

The exit code is 1 if an application misses what it must do.";

const NOT_INSTALLED: &str = "not installed";

const INTRODUCTION: &str = "# Applications

`cargo xtask checks-applications --write` makes this page. Each row is a small application of the framework, below [checks/applications/](../checks/applications), written as the
framework's guide would write it. The command installs the framework, serves the application with `cabrank start`, and asks it as its
users would.

";

const BOOTS: &str = "- *boots*: two processes, in development and in production (Socket.IO: one, because its long polling needs that; Next: what `next build` has made).\n";

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().unwrap_or(root);
    let outcome = match args.first().map(String::as_str) {
        Some("preload") => preload::run(&root, args.split_off(1)).map(|()| true),
        _ => run(&root, &args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// Judges the chosen applications. Returns whether each does what it must.
fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    let (options, names): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|a| a.starts_with('-'));
    let has = |option: &str| options.iter().any(|o| *o == option);
    if has("--help") || has("-h") {
        println!("{USAGE}");
        return Ok(true);
    }
    if let Some(option) = options.iter().find(|o| !["--quick", "--write"].contains(&o.as_str())) {
        return Err(format!("there is no option {option}\n\n{USAGE}"));
    }
    let known: Vec<&str> = APPLICATIONS.iter().map(|application| application.name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("there is no application {name}: choose among {}", known.join(", ")));
    }
    let is_chosen = |application: &&Application| match names.is_empty() {
        true => application.is_quick || !has("--quick"),
        false => names.iter().any(|name| *name == application.name),
    };
    let binary = Binary::new(root.join("target/debug/cabrank")).find()?;
    let columns: Vec<&str> =
        ["boots"].into_iter().chain(PROBES.iter().map(|probe| probe.column)).collect();
    let mut table = format!("| application | versions | {} |\n", columns.join(" | "));
    table += &format!("|---|---|{}\n", "---|".repeat(columns.len()));
    print!("{table}");
    let mut is_well = true;
    for application in APPLICATIONS.iter().filter(is_chosen) {
        let results = judge(application, root, &binary);
        let cells = columns.iter().map(|c| results.get(c).map_or("–", String::as_str));
        let cells: Vec<&str> = cells.collect();
        let is_installed = !cells[0].starts_with(NOT_INSTALLED);
        is_well &=
            cells.iter().all(|cell| ["yes", "–"].contains(cell)) || !is_installed && has("--quick");
        let versions =
            if is_installed { install::versions(application)? } else { "–".to_owned() };
        let cells = cells.join(" | ").replace('\n', " ");
        let row = format!("| {} | {versions} | {cells} |\n", application.title);
        print!("{row}");
        table += &row;
    }
    if has("--write") {
        let about =
            PROBES.iter().map(|Probe { column, about, .. }| format!("- *{column}*: {about}\n"));
        let page = format!("{INTRODUCTION}{table}\n{BOOTS}{}", about.collect::<String>());
        let file = root.join("docs/applications.md");
        std::fs::write(&file, page).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(is_well)
}

/// Returns the cells of an application by their columns: `yes`, `–` where a probe does not apply, or an error.
fn judge(
    application: &Application,
    root: &Path,
    binary: &Binary,
) -> BTreeMap<&'static str, String> {
    let directory: PathBuf = match install::install(application, root) {
        Ok(directory) => directory,
        Err(error) => return BTreeMap::from([("boots", format!("{NOT_INSTALLED}: {error}"))]),
    };
    let mut results = BTreeMap::new();
    for environment in ["development", "production"] {
        let site = match Site::start(binary, application, &directory, environment) {
            Ok(site) => site,
            Err(error) => {
                eprintln!("{}: {error}", application.name);
                results.insert("boots", error);
                continue;
            }
        };
        results.entry("boots").or_insert_with(|| "yes".to_owned());
        for probe in PROBES.iter().filter(|probe| probe.environment == environment) {
            results.insert(probe.column, outcome(probe, &site));
        }
    }
    results
}

fn outcome(probe: &Probe, site: &Site<'_>) -> String {
    match (probe.run)(site) {
        Ok(true) => "yes".to_owned(),
        Ok(false) => "–".to_owned(),
        Err(error) => {
            let (name, log) = (site.application.name, site.server.log());
            let tail = log.len().saturating_sub(4000);
            let tail = log.ceil_char_boundary(tail);
            eprintln!(
                "{name}, {}: {error}\n--- the server's log ---\n{}\n---",
                probe.column,
                &log[tail..]
            );
            format!("**no**: {}", error.chars().take(200).collect::<String>())
        }
    }
}
