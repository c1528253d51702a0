//! The rules between the rooms of a package: which modules a room may use.

use super::package::Graph;
use super::packages::Package;
use crate::common::Outcome;

/// The modules below `room` use no module of the package but those below `may_use`, and the names of `also`.
struct Rule {
    package: &'static str,
    room: &'static str,
    may_use: &'static [&'static str],
    /// Names of other modules that the room may use, by module. ARCHITECTURE.md argues each.
    also: &'static [(&'static str, &'static [&'static str])],
}

const RULES: &[Rule] = &[
    Rule { package: "cabrank", room: "kernel", may_use: &["kernel"], also: &[] },
    Rule {
        package: "cabrank",
        room: "application_pool::state",
        may_use: &["kernel", "application_pool::state"],
        also: &[
            ("application_pool::api::error", &["GetError", "SpawnError"]),
            ("application_pool::api::event", &["DetachReason", "Event"]),
            ("application_pool::api::options", &["PoolOptions", "RestartMode"]),
            (
                "application_pool::api::snapshot",
                &["Counts", "GroupSnapshot", "ProcessSnapshot", "ProcessState", "Snapshot"],
            ),
            (
                "application_pool::api::spawner",
                &["CancelToken", "Identifier", "ShutDown", "Spawner"],
            ),
            ("application_pool::api::totals", &["Totals"]),
        ],
    },
    Rule {
        package: "cabrank",
        room: "resource_pool::state",
        may_use: &["kernel", "resource_pool::state"],
        also: &[
            ("resource_pool::api::factory", &["Form"]),
            (
                "resource_pool::api::snapshot",
                &["KeySnapshot", "ResourceSnapshot", "ResourceState", "Snapshot"],
            ),
        ],
    },
];

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
                let names: Vec<&str> = names
                    .iter()
                    .map(String::as_str)
                    .filter(|name| !self.allows(other, name))
                    .collect();
                if !names.is_empty() {
                    let names = names.join(", ");
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

    fn allows(&self, module: &str, name: &str) -> bool {
        self.may_use.iter().any(|room| is_below(module, room))
            || self.also.iter().any(|(other, names)| *other == module && names.contains(&name))
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
        let rule = Rule { package: "p", room: "kernel", may_use: &["kernel"], also: &[] };
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

    #[test]
    fn a_room_below_a_folder_uses_named_values_of_its_neighbour() {
        let rule = Rule {
            package: "p",
            room: "pool::state",
            may_use: &["kernel", "pool::state"],
            also: &[("pool::api::value", &["Name"])],
        };
        let allowed = [
            ("pool::state::a", "pool::state::b"),
            ("pool::state::a", "kernel::a"),
            ("pool::state::a", "pool::api::value"),
            ("pool::work::a", "pool::state::a"),
        ];
        assert!(rule.problems(&graph(&allowed)).is_empty());
        let another = Rule { also: &[("pool::api::value", &["Other"])], ..rule };
        assert_eq!(
            another.problems(&graph(&allowed)),
            [
                "pool::state::a uses pool::api::value (Name): pool::state uses only kernel, pool::state"
            ]
        );
        let forbidden = [("pool::state::a", "pool::work::a"), ("pool::state", "other_pool::state")];
        assert_eq!(another.problems(&graph(&forbidden)).len(), 2);
    }

    #[test]
    fn the_state_of_a_pool_uses_neither_its_work_nor_its_pool() {
        for (pool, also) in [("application_pool", "session"), ("resource_pool", "factory")] {
            let room = format!("{pool}::state");
            let rule = RULES.iter().find(|rule| rule.room == room).expect("a rule");
            let from = format!("{room}::names");
            for module in ["work::inner", "api::pool", &format!("api::{also}")] {
                let module = format!("{pool}::{module}");
                assert_eq!(rule.problems(&graph(&[(&from, &module)])).len(), 1, "{module}");
            }
            for module in ["execution::executor", "periodic_executor"] {
                assert_eq!(rule.problems(&graph(&[(&from, module)])).len(), 1, "{module}");
            }
        }
    }
}
