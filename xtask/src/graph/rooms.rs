//! The rules between the rooms of a package: which modules a room may use.

use super::package::Graph;
use super::packages::Package;
use crate::common::Outcome;

/// The modules below `room` use no module of the package but those below `may_use`.
struct Rule {
    package: &'static str,
    room: &'static str,
    may_use: &'static [&'static str],
}

const RULES: &[Rule] = &[Rule { package: "cabrank", room: "kernel", may_use: &["kernel"] }];

/// Returns an error that names each use that a rule forbids.
pub(crate) fn check(graphs: &[(Package, Graph)]) -> Outcome {
    let of = |rule: &Rule| {
        let graph = graphs.iter().find(|(package, _)| package.is(rule.package));
        graph.map_or_else(
            || vec![format!("there is no package {}", rule.package)],
            |(_, graph)| rule.problems(graph),
        )
    };
    let problems: Vec<String> = RULES.iter().flat_map(of).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

impl Rule {
    fn problems(&self, graph: &Graph) -> Vec<String> {
        let mut problems = Vec::new();
        let mut modules = 0;
        for (module, used) in graph.edges.iter().filter(|(module, _)| is_below(module, self.room)) {
            modules += 1;
            for (other, names) in used {
                if !self.may_use.iter().any(|room| is_below(other, room)) {
                    let names = names.iter().cloned().collect::<Vec<_>>().join(", ");
                    problems.push(format!(
                        "{module} uses {other} ({names}): {} uses only {}",
                        self.room,
                        self.may_use.join(", ")
                    ));
                }
            }
        }
        if modules == 0 {
            problems.push(format!("{} has no room {}", self.package, self.room));
        }
        problems
    }
}

fn is_below(module: &str, room: &str) -> bool {
    module.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::default();
        for (from, to) in edges {
            let names = BTreeSet::from(["Name".to_owned()]);
            graph.edges.entry((*from).to_owned()).or_default().insert((*to).to_owned(), names);
            graph.edges.entry((*to).to_owned()).or_insert_with(BTreeMap::new);
        }
        graph
    }

    #[test]
    fn a_room_uses_only_what_its_rule_allows() {
        let rule = Rule { package: "p", room: "kernel", may_use: &["kernel"] };
        let allowed = [("kernel::a", "kernel::b"), ("pool", "kernel::a"), ("kernels", "pool")];
        assert!(rule.problems(&graph(&allowed)).is_empty());
        let forbidden = graph(&[("kernel::a", "pool::b"), ("kernel::a", "kernels")]);
        assert_eq!(
            rule.problems(&forbidden),
            [
                "kernel::a uses kernels (Name): kernel uses only kernel",
                "kernel::a uses pool::b (Name): kernel uses only kernel",
            ]
        );
        assert_eq!(rule.problems(&graph(&[("a", "b")])), ["p has no room kernel"]);
    }
}
