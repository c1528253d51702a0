//! The graph of one package: its files, which of them uses which, and the cycles.

use super::tree::{Files, Id, Named, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// A crate of a package: its root's file, and whether all of it is for tests, benches or examples.
pub(crate) struct Target {
    pub(crate) root: String,
    pub(crate) tests_count: bool,
}

#[derive(Default)]
pub(crate) struct Graph {
    /// Maps each module to those that it uses, with the names that it uses of them.
    pub(crate) edges: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Graph {
    /// Reads all crates of the package in `folder`. A file that several of them mount is one module.
    pub(crate) fn read(files: Files, folder: &str, targets: &[Target]) -> Result<Graph, String> {
        let mut graph = Graph::default();
        for target in targets {
            let tree = Tree::read(files, &target.root, target.tests_count)?;
            for id in 0..tree.modules.len() {
                graph.add(&tree, id, folder);
            }
        }
        Ok(graph)
    }

    fn add(&mut self, tree: &Tree, id: Id, folder: &str) {
        let name = |id: Id| module_name(&tree.modules[id].file, folder);
        let used = self.edges.entry(name(id)).or_default();
        let mut add = |to: Id, what: &str| {
            if tree.modules[to].file != tree.modules[id].file {
                used.entry(name(to)).or_default().insert(what.to_owned());
            }
        };
        let scope = &tree.modules[id].scope;
        for import in &scope.imports {
            for (to, what) in items(tree, id, &import.path) {
                // A re-export from below is the map of a folder, as `mod` is, and no use.
                if !(import.is_exported && tree.is_below(to, id)) {
                    add(to, what);
                }
            }
        }
        for path in &scope.mentions {
            for (to, what) in items(tree, id, path) {
                add(to, what);
            }
        }
        for call in &scope.calls {
            let path = std::slice::from_ref(call);
            let imported = items(tree, id, path).first().map(|(to, _)| *to);
            if let Some(to) = imported.or_else(|| tree.macro_place(call)) {
                add(to, &format!("{call}!"));
            }
        }
    }

    /// Returns the number of edges.
    pub(crate) fn size(&self) -> usize {
        self.edges.values().map(BTreeMap::len).sum()
    }

    /// Returns the strongly connected components of more than one module, sorted.
    pub(crate) fn cycles(&self) -> Vec<Vec<String>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.edges.keys().map(|name| (name.as_str(), self.reached_from(name))).collect();
        let mut cycles = BTreeSet::new();
        for (name, far) in &reached {
            let back = far.iter().filter(|other| reached[*other].contains(name));
            let cycle: Vec<String> = back.map(|other| (*other).to_owned()).collect();
            if !cycle.is_empty() {
                cycles.insert(cycle);
            }
        }
        cycles.into_iter().collect()
    }

    /// Returns the modules that a module uses, and those that they use. A module in a cycle is among them.
    fn reached_from(&self, name: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&str> = self.edges[name].keys().map(String::as_str).collect();
        while let Some(name) = next.pop() {
            if reached.insert(name) {
                next.extend(self.edges[name].keys().map(String::as_str));
            }
        }
        reached
    }
}

/// Lists the modules that define the item of a path, each with the item's name. A path of modules alone has none: the
/// uses of an imported module show where its names are used.
fn items<'a>(tree: &Tree, from: Id, path: &'a [String]) -> Vec<(Id, &'a str)> {
    for length in 1..=path.len() {
        let found = tree.find(from, &path[..length]);
        // A variant or a method follows an item. If a module has the same name, the path goes on in it.
        if length < path.len() && found.iter().any(|named| matches!(named, Named::Module(_))) {
            continue;
        }
        let place = |named: Named| match named {
            Named::Item(id) => Some((id, path[length - 1].as_str())),
            Named::Module(_) => None,
        };
        let items: Vec<_> = found.into_iter().filter_map(place).collect();
        if !items.is_empty() {
            return items;
        }
    }
    Vec::new()
}

/// Returns the name of a file's module: its path in the package, without `src` and `mod`.
fn module_name(file: &str, folder: &str) -> String {
    let path = file.strip_prefix(folder).unwrap_or(file).trim_start_matches('/');
    let path = path.strip_prefix("src/").unwrap_or(path).trim_end_matches(".rs");
    path.strip_suffix("/mod").unwrap_or(path).replace('/', "::")
}
