//! `cargo xtask test`: the tests of all packages, without those that need a program which is missing.
//!
//! The tests that are left out are named at the end, and the command fails, unless `--only-installed` was given.

use crate::common::{Outcome, say, shell};
use crate::needs::{self, PROGRAMS, Program};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const HELP: &str = "cargo xtask test [OPTION…]

  --install          installs the programs that are missing (Debian)
  --only-installed   does not fail for the tests that were left out
  --without PROGRAM  runs as if PROGRAM of tests/needs.txt were missing; may be repeated

`cargo test` runs single tests.";

/// Says how many tests of a program run side by side.
const THREADS: &str = "RUST_TEST_THREADS";

/// The tests that need a program, and how they are named.
const NEEDS: &str = include_str!("../../tests/needs.txt");

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    install: bool,
    only_installed: bool,
    without: Vec<&'static Program>,
}

pub(crate) fn run(args: &[String]) -> Outcome {
    let Some(options) = parse(args)? else {
        say(HELP);
        return Ok(());
    };
    let mut missing = needs::missing();
    if options.install && !missing.is_empty() {
        needs::install(&missing)?;
        missing = needs::missing();
    }
    missing.extend(&options.without);
    missing.sort_by_key(|program| program.name);
    missing.dedup();
    let path = hide(&options.without)?;
    if missing.is_empty() {
        return success(&mut command(&["test", "--workspace"].map(str::to_owned), &path));
    }
    let remedy = needs::message(&missing);
    say(&remedy);
    let table = table(NEEDS)?;
    let left_out = LeftOut::new(&missing, &table, &path)?;
    let ended = success(&mut command(&left_out.arguments(), &path));
    left_out.report(&missing);
    ended?;
    if options.only_installed {
        return Ok(());
    }
    Err(format!(
        "{remedy}\n`cargo xtask test --install` does so; `--only-installed` does without these tests."
    ))
}

/// The packages and the tests that need a program that is missing.
struct LeftOut {
    packages: BTreeMap<&'static str, Vec<String>>,
    tests: BTreeMap<&'static str, Vec<String>>,
}

impl LeftOut {
    /// Builds the tests, and finds those that the table names below these programs.
    fn new(
        missing: &[&'static Program],
        table: &BTreeMap<String, Vec<String>>,
        path: &Option<PathBuf>,
    ) -> Result<LeftOut, String> {
        let package = |name: &String| name.strip_prefix("package ").map(str::to_owned);
        let of = |program: &&'static Program| {
            (program.name, table[program.name].iter().filter_map(package).collect())
        };
        let packages = missing.iter().map(of).collect();
        let mut left_out = LeftOut { packages, tests: BTreeMap::new() };
        let all = tests(&left_out.arguments(), path)?;
        for program in missing {
            let named = all.iter().filter(|test| is_named(&table[program.name], test));
            left_out.tests.insert(program.name, named.cloned().collect());
        }
        Ok(left_out)
    }

    /// Returns the arguments of cargo that run all other tests. Arguments for the tests follow `--`.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["test", "--workspace"];
        for package in self.packages.values().flatten().collect::<BTreeSet<_>>() {
            arguments.extend(["--exclude", package]);
        }
        let names = self.tests.values().flatten().filter_map(|test| test.split_once("::"));
        let names: BTreeSet<&str> = names.map(|(_, name)| name).collect();
        if !names.is_empty() {
            arguments.extend(["--", "--exact"]);
        }
        for name in names {
            arguments.extend(["--skip", name]);
        }
        arguments.into_iter().map(str::to_owned).collect()
    }

    fn report(&self, missing: &[&Program]) {
        for program in missing {
            let (packages, tests) = (&self.packages[program.name], &self.tests[program.name]);
            say(&format!("\nleft out, because they need {}:", program.about));
            packages.iter().for_each(|package| say(&format!("  all tests of {package}")));
            tests.iter().for_each(|test| say(&format!("  {test}")));
        }
        let count = self.tests.values().flatten().collect::<BTreeSet<_>>().len();
        say(&format!("\ntests that were left out by name: {count}"));
    }
}

fn success(cargo: &mut Command) -> Outcome {
    let status = cargo.status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed: {status}")) }
}

fn parse(args: &[String]) -> Result<Option<Options>, String> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--install" => options.install = true,
            "--only-installed" => options.only_installed = true,
            "--without" => {
                let name = args.next().map_or("", String::as_str);
                let program = PROGRAMS.iter().find(|program| program.name == name);
                options.without.push(program.ok_or(format!("--without {name}: no such program"))?);
            }
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("there is no option {arg}\n\n{HELP}")),
        }
    }
    Ok(Some(options))
}

/// Reads the list of tests: their names below the name of each program.
fn table(text: &str) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut table: BTreeMap<String, Vec<String>> =
        PROGRAMS.iter().map(|program| (program.name.to_owned(), Vec::new())).collect();
    let mut program = String::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("    ") {
            None => program = line.to_owned(),
            Some(test) => {
                let tests = table.get_mut(&program);
                let tests = tests.ok_or(format!("tests/needs.txt: no such program: {program}"))?;
                tests.push(test.to_owned());
            }
        }
    }
    Ok(table)
}

fn is_named(names: &[String], test: &str) -> bool {
    names.iter().any(|name| name == test || (name.ends_with("::") && test.starts_with(name)))
}

/// Returns a command whose tests find the programs of `path` alone.
fn command(args: &[String], path: &Option<PathBuf>) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(args).envs(path.iter().map(|path| ("PATH", path)));
    // The end-to-end tests wait for processes most of the time: twice as many side by side take two thirds of the time.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = std::env::var(THREADS).unwrap_or_else(|_| (2 * cores).to_string());
    cargo.env(THREADS, threads);
    cargo
}

/// Builds the tests, and lists their names behind those of their targets.
fn tests(cargo: &[String], path: &Option<PathBuf>) -> Result<Vec<String>, String> {
    let args: Vec<String> =
        cargo.iter().cloned().chain(["--tests", "--", "--list"].map(str::to_owned)).collect();
    let (output, input) = std::io::pipe().map_err(|error| error.to_string())?;
    let mut cargo = command(&args, path);
    cargo
        .env("CARGO_TERM_COLOR", "never")
        .stderr(input.try_clone().map_err(|error| error.to_string())?);
    let child = cargo.stdout(input).spawn();
    // It has the other end of the pipe, which would not end.
    drop(cargo);
    let mut child = child.map_err(|error| format!("cargo: {error}"))?;
    let mut target = String::new();
    let mut tests = Vec::new();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Some(name) = line.strip_suffix(": test") {
            tests.push(format!("{target}::{name}"));
        } else if let Some(name) = target_of(&line) {
            target = name.to_owned();
        } else {
            eprintln!("{line}");
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(tests),
        false => Err(format!("the tests cannot be listed: {status}")),
    }
}

/// Returns the target of `Running tests/e2e/main.rs (target/debug/deps/e2e-0123456789abcdef)`.
fn target_of(line: &str) -> Option<&str> {
    let (_, binary) =
        line.trim_start().strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once('/')?;
    Some(binary.rsplit_once('-')?.0)
}

/// Makes a folder of links to all programs of the `PATH` but these. Returns `None` if there is none to hide.
fn hide(programs: &[&Program]) -> Result<Option<PathBuf>, String> {
    if programs.is_empty() {
        return Ok(None);
    }
    let folder = Path::new("target/path");
    shell("rm -rf target/path && mkdir -p target/path", &[])?;
    let is_hidden = |file: &str| {
        let name = file.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        programs.iter().any(|program| [file, name].contains(&program.name))
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    for entry in std::env::split_paths(&path).filter_map(|folder| folder.read_dir().ok()).flatten()
    {
        let Ok(entry) = entry else { continue };
        if !is_hidden(&entry.file_name().to_string_lossy()) {
            // The first of a name counts.
            let _ = symlink(entry.path(), folder.join(entry.file_name()));
        }
    }
    folder.canonicalize().map(Some).map_err(|error| format!("target/path: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the Rust files below a folder: their names and texts.
    fn sources(folder: &Path, texts: &mut BTreeMap<String, String>) {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, texts);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                texts.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    #[test]
    fn the_list_names_tests_and_modules_that_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut texts = BTreeMap::new();
        for folder in ["server/tests/e2e", "spawner/tests", "examples/databases/tests"] {
            sources(&root.join(folder), &mut texts);
        }
        for name in table(NEEDS).unwrap().into_values().flatten() {
            if let Some(package) = name.strip_prefix("package cabrank-") {
                assert!(root.join(package).join("Cargo.toml").exists(), "{name}");
                continue;
            }
            // `target::folder::file::test`; a macro may make a module before the test.
            let parts: Vec<&str> = name.trim_end_matches("::").split("::").collect();
            let file = parts.iter().rposition(|part| texts.contains_key(*part));
            let file = file.unwrap_or_else(|| panic!("no file holds {name}"));
            let is_there = |part: &&str| match name.ends_with("::") {
                true => texts[parts[file]].contains(*part),
                false => texts[parts[file]].contains(&format!("fn {part}(")),
            };
            assert!(parts[file + 1..].iter().all(is_there), "{}.rs has no {name}", parts[file]);
        }
    }

    #[test]
    fn a_name_is_a_test_or_a_module() {
        let table = table("# comment\nnode\n    a::b\n    c::\n\nruby\n    package p\n").unwrap();
        let node = &table["node"];
        assert!(is_named(node, "a::b") && is_named(node, "c::d") && is_named(node, "c::d::e"));
        assert!(!is_named(node, "a::bc") && !is_named(node, "b::c::d") && !is_named(node, "cc::d"));
        assert_eq!(table["ruby"], ["package p"]);
        assert!(super::table("cobol\n    a::b\n").is_err());
    }

    #[test]
    fn a_target_is_known_by_its_binary() {
        let line = "     Running tests/e2e/main.rs (target/debug/deps/e2e-bd20293fdf0154f1)";
        assert_eq!(target_of(line), Some("e2e"));
        let line = "     Running unittests src/lib.rs (/t/debug/deps/cabrank_spawner-cc4a)";
        assert_eq!(target_of(line), Some("cabrank_spawner"));
        assert_eq!(target_of("a_request: test"), None);
    }

    #[test]
    fn the_options_are_read() {
        let parse =
            |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let options = parse("--only-installed --without ruby --without node").unwrap().unwrap();
        assert_eq!(
            options.without.iter().map(|program| program.name).collect::<Vec<_>>(),
            ["ruby", "node"]
        );
        assert!(options.only_installed && !options.install);
        assert_eq!(parse("--help"), Ok(None));
        assert!(parse("--without cobol").is_err() && parse("-p cabrank").is_err());
    }
}
