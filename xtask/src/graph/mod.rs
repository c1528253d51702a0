//! Prints which module uses which, inside each package, and the cycles: the strongly connected components.
//!
//! A module is a file, with its inline modules. It uses the module that defines a name it mentions, in a `use`, in
//! code, or in the arguments of a macro. Names are followed through imports, re-exports and globs, so that a re-export
//! neither cuts an edge nor makes one to its own module. Rules:
//! - A re-export of what stands below (`pub use` in a `mod.rs`) is a map of the folder, as `mod` is. It makes no edge,
//!   unless the module's own code uses the name.
//! - What only builds of tests have is left out: `#[test]`, and a `#[cfg]` that needs `test`. Targets that are tests,
//!   benches or examples count as a whole, and so does a module for tests outside the crate's folder (`models/`).
//! - All other conditions hold: a module of any feature counts.
//!
//! A call of a method names no module, and makes no edge. Neither does an attribute.

mod package;
mod packages;
mod rooms;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod tree;

use crate::common::{Outcome, say};
use package::Graph;
use packages::Package;

const HELP: &str = "cargo xtask graph [PACKAGE…] [OPTION]

  --cycles   only the cycles, each with the edges that make it
  --check    compares the table in ARCHITECTURE.md with the cycles, and holds the rules between rooms
  --write    writes the cycles into that table, and keeps the reasons";

/// Prints the graphs of the tree in the current directory: of all packages, or of those named.
pub(crate) fn run(args: &[String]) -> Outcome {
    let (options, names): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|arg| arg.starts_with('-'));
    let option = options.first().map_or("", |option| option.as_str());
    if ["--help", "-h"].contains(&option) {
        say(HELP);
        return Ok(());
    }
    if options.len() > 1 || !["", "--cycles", "--check", "--write"].contains(&option) {
        return Err(HELP.to_owned());
    }
    let mut packages = packages::list()?;
    if let Some(name) = names.iter().find(|name| !packages.iter().any(|package| package.is(name))) {
        let known: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
        return Err(format!("there is no package {name}: {}", known.join(", ")));
    }
    packages.retain(|package| names.is_empty() || names.iter().any(|name| package.is(name)));
    let graphs: Vec<(Package, Graph)> = packages
        .into_iter()
        .map(|package| package.graph().map(|graph| (package, graph)))
        .collect::<Result<_, _>>()?;
    match option {
        "--check" if names.is_empty() => {
            rooms::check(&graphs)?;
            return table::check(&rows(&graphs));
        }
        "--write" if names.is_empty() => return table::write(&rows(&graphs)),
        "--check" | "--write" => return Err("the table has all packages".to_owned()),
        _ => {}
    }
    for (package, graph) in &graphs {
        if option.is_empty() {
            print_edges(&package.name, graph);
        }
        print_cycles(&package.name, graph);
    }
    let sum =
        |count: fn(&Graph) -> usize| graphs.iter().map(|(_, graph)| count(graph)).sum::<usize>();
    say(&format!(
        "packages: {}, modules: {}, edges: {}, cycles: {}",
        graphs.len(),
        sum(|graph| graph.edges.len()),
        sum(Graph::size),
        sum(|graph| graph.cycles().len())
    ));
    Ok(())
}

/// Returns the rows of the table: package and cycle.
fn rows(graphs: &[(Package, Graph)]) -> Vec<table::Key> {
    let of = |(package, graph): &(Package, Graph)| {
        let cycles = graph.cycles().into_iter();
        cycles.map(|cycle| table::Key::new(&package.name, &cycle)).collect::<Vec<_>>()
    };
    graphs.iter().flat_map(of).collect()
}

fn print_edges(package: &str, graph: &Graph) {
    say(package);
    for (name, used) in &graph.edges {
        say(&format!("  {name} -> {}", used.keys().cloned().collect::<Vec<_>>().join(", ")));
    }
    say("");
}

fn print_cycles(package: &str, graph: &Graph) {
    for cycle in graph.cycles() {
        say(&format!("{package}: cycle of {}: {}", cycle.len(), cycle.join(", ")));
        for name in &cycle {
            for (used, names) in graph.edges[name].iter().filter(|(used, _)| cycle.contains(used)) {
                let names = names.iter().cloned().collect::<Vec<_>>().join(", ");
                say(&format!("  {name} -> {used}: {names}"));
            }
        }
        say("");
    }
}
