//! Prints which module of `src/` uses which, and the cycles: the strongly connected components.
//!
//! A module is a file. It depends on the module that defines a name it mentions: names are followed through
//! imports and re-exports, so that a `pub use` adds no edge. Tests do not count.

use crate::{Outcome, say, tracked_files};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Prints the graph of the tree in the current directory. With `--cycles`, only the cycles.
pub(crate) fn run(args: &[String]) -> Outcome {
    let only_cycles = args.iter().any(|arg| arg == "--cycles");
    let modules = read_modules()?;
    let mut edges: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (name, module) in &modules {
        let used = module.mentions.iter().filter_map(|path| resolve(&modules, name, path, 0));
        edges.insert(name, used.filter(|used| used != name).collect());
    }
    let count: usize = edges.values().map(BTreeSet::len).sum();
    if !only_cycles {
        for (name, used) in &edges {
            say(&format!("{name} -> {}", used.iter().cloned().collect::<Vec<_>>().join(", ")));
        }
        say("");
    }
    let cycles = components(&edges);
    say(&format!("{} modules, {count} edges, {} cycles", modules.len(), cycles.len()));
    for cycle in &cycles {
        say(&format!("cycle of {}: {}", cycle.len(), cycle.join(", ")));
    }
    Ok(())
}

/// A path of names, as written: `crate::clock::Clock`.
type Path = Vec<String>;

#[derive(Default)]
struct Module {
    children: BTreeSet<String>,
    /// Maps each name that is imported or re-exported to its path.
    names: BTreeMap<String, Path>,
    /// The modules whose names are all imported.
    globs: Vec<Path>,
    /// Each path that this module's code uses. Re-exports are not among them.
    mentions: BTreeSet<Path>,
}

fn read_modules() -> Result<BTreeMap<String, Module>, String> {
    let mut modules: BTreeMap<String, Module> = BTreeMap::new();
    let mut tests = BTreeSet::new();
    for file in tracked_files(".rs")?.iter().filter(|file| file.starts_with("src/")) {
        let source = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let name = module_name(file);
        let module = Reader::new(&source).read(&name, &mut tests);
        modules.insert(name, module);
    }
    let is_test = |name: &str| {
        name.ends_with("_tests")
            || tests
                .iter()
                .any(|test: &String| name == test || name.starts_with(&format!("{test}::")))
    };
    modules.retain(|name, _| !is_test(name));
    let names: Vec<String> = modules.keys().cloned().collect();
    for name in names {
        if let Some((parent, child)) = name.rsplit_once("::")
            && let Some(parent) = modules.get_mut(parent)
        {
            parent.children.insert(child.to_owned());
        }
    }
    Ok(modules)
}

/// `src/application_pool/mod.rs` is `crate::application_pool`.
fn module_name(file: &str) -> String {
    let parts = file.trim_start_matches("src/").trim_end_matches(".rs").split('/');
    let parts: Vec<&str> = parts.filter(|part| *part != "mod" && *part != "lib").collect();
    ["crate"].into_iter().chain(parts).collect::<Vec<_>>().join("::")
}

/// Finds the module that defines what `path`, written in `from`, names.
fn resolve(
    modules: &BTreeMap<String, Module>,
    from: &str,
    path: &[String],
    depth: usize,
) -> Option<String> {
    if depth > 16 {
        return None;
    }
    let mut at = from.to_owned();
    let mut rest = path;
    while let Some((head, tail)) = rest.split_first() {
        let module = modules.get(&at)?;
        match head.as_str() {
            "crate" => at = "crate".to_owned(),
            "self" => {}
            "super" => at = at.rsplit_once("::")?.0.to_owned(),
            name if module.children.contains(name) => at = format!("{at}::{name}"),
            name => {
                if let Some(target) = module.names.get(name) {
                    // An import of the same name would lead back here.
                    let target: Path = target.iter().chain(tail).cloned().collect();
                    return resolve(modules, &at, &target, depth + 1);
                }
                let by_glob = module.globs.iter().filter_map(|glob| {
                    let target = resolve(modules, &at, glob, depth + 1)?;
                    let holds = modules.get(&target)?;
                    let knows = holds.children.contains(name) || holds.names.contains_key(name);
                    knows.then(|| resolve(modules, &target, rest, depth + 1))?
                });
                // An item of this module, or a name of another crate.
                return by_glob
                    .into_iter()
                    .next()
                    .or_else(|| (rest.len() < path.len()).then_some(at));
            }
        }
        rest = tail;
    }
    Some(at)
}

/// Tarjan's algorithm: the components of more than one module, the largest first.
fn components(edges: &BTreeMap<&str, BTreeSet<String>>) -> Vec<Vec<String>> {
    struct Search<'a> {
        edges: &'a BTreeMap<&'a str, BTreeSet<String>>,
        index: BTreeMap<String, usize>,
        low: BTreeMap<String, usize>,
        stack: Vec<String>,
        found: Vec<Vec<String>>,
    }
    impl Search<'_> {
        fn visit(&mut self, name: &str) -> usize {
            let index = self.index.len();
            self.index.insert(name.to_owned(), index);
            self.low.insert(name.to_owned(), index);
            self.stack.push(name.to_owned());
            let edges = self.edges;
            for used in edges.get(name).into_iter().flatten() {
                let reached = match self.index.get(used) {
                    None => self.visit(used),
                    Some(index) if self.stack.contains(used) => *index,
                    Some(_) => continue,
                };
                let low = self.low[name].min(reached);
                self.low.insert(name.to_owned(), low);
            }
            if self.low[name] == index {
                let start =
                    self.stack.iter().position(|other| other == name).expect("it was pushed above");
                self.found.push(self.stack.split_off(start));
            }
            self.low[name]
        }
    }
    let mut search = Search {
        edges,
        index: BTreeMap::new(),
        low: BTreeMap::new(),
        stack: Vec::new(),
        found: Vec::new(),
    };
    for name in edges.keys() {
        if !search.index.contains_key(*name) {
            search.visit(name);
        }
    }
    let mut cycles = search.found;
    cycles.retain(|cycle| cycle.len() > 1);
    cycles.iter_mut().for_each(|cycle| cycle.sort());
    cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
    cycles
}

/// Reads one file: its tokens without comments, texts and tests.
struct Reader {
    tokens: Vec<String>,
    at: usize,
}

impl Reader {
    fn new(source: &str) -> Self {
        Reader { tokens: crate::tokens::of_code(source), at: 0 }
    }

    fn read(mut self, name: &str, tests: &mut BTreeSet<String>) -> Module {
        let mut module = Module::default();
        while self.at < self.tokens.len() {
            if self.attribute_is_for_tests() {
                self.skip_item(name, tests);
            } else if self.is("use") {
                self.at += 1;
                let is_public = self.is_exported();
                let mut paths = Vec::new();
                self.use_tree(Vec::new(), &mut paths);
                for (path, alias) in paths {
                    match path.last().map(String::as_str) {
                        Some("*") => module.globs.push(path[..path.len() - 1].to_vec()),
                        _ => _ = module.names.insert(alias, path.clone()),
                    }
                    if !is_public {
                        let path = path.into_iter().filter(|part| part != "*").collect();
                        module.mentions.insert(path);
                    }
                }
            } else if is_name(self.token(0)) && self.token(1) == "::" {
                let mut path = vec![self.token(0).to_owned()];
                self.at += 1;
                while self.is("::") && is_name(self.token(1)) {
                    path.push(self.token(1).to_owned());
                    self.at += 2;
                }
                module.mentions.insert(path);
            } else {
                self.at += 1;
            }
        }
        module
    }

    fn token(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }
    fn is(&self, token: &str) -> bool {
        self.token(0) == token
    }

    /// Whether `pub`, `pub(crate)` and the like stand before the `use` that was just read.
    fn is_exported(&self) -> bool {
        let before: Vec<&str> =
            self.tokens[..self.at - 1].iter().rev().take(6).map(String::as_str).collect();
        before.first() == Some(&"pub")
            || before.first() == Some(&")")
                && before
                    .iter()
                    .position(|token| *token == "(")
                    .is_some_and(|at| before.get(at + 1) == Some(&"pub"))
    }

    /// Passes an attribute `#[cfg(…)]` and says whether its item is compiled for tests only.
    fn attribute_is_for_tests(&mut self) -> bool {
        if !(self.is("#") && self.token(1) == "[") {
            return false;
        }
        self.at += 1;
        let start = self.at;
        self.skip_balanced();
        let attribute = &self.tokens[start..self.at];
        let has = |token: &str| attribute.iter().any(|other| other == token);
        (has("cfg") && has("test") && !has("not")) || (attribute.len() == 3 && has("test"))
    }

    /// Passes an item that is for tests only, and notes it if it is a module of its own file.
    fn skip_item(&mut self, name: &str, tests: &mut BTreeSet<String>) {
        while self.is("#") {
            self.at += 1;
            self.skip_balanced();
        }
        while !self.is("") && !self.is(";") && !self.is("{") && !self.is(",") {
            if self.is("mod") {
                tests.insert(format!("{name}::{}", self.token(1)));
            }
            if self.is("use") {
                self.at += 1;
                self.use_tree(Vec::new(), &mut Vec::new());
            } else if self.is("(") || self.is("[") {
                self.skip_balanced();
            } else {
                self.at += 1;
            }
        }
        if self.is("{") {
            self.skip_balanced();
        } else {
            self.at += 1;
        }
    }

    fn skip_balanced(&mut self) {
        let mut depth = 0;
        loop {
            match self.token(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                "" => return,
                _ => {}
            }
            self.at += 1;
            if depth <= 0 {
                return;
            }
        }
    }

    /// Reads what follows `use`: each path, and the name that it gets here.
    fn use_tree(&mut self, mut path: Path, paths: &mut Vec<(Path, String)>) {
        loop {
            match self.token(0) {
                "{" => {
                    self.at += 1;
                    while !self.is("}") && !self.is("") {
                        self.use_tree(path.clone(), paths);
                        if self.is(",") {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "::" => self.at += 1,
                "as" => {
                    paths.push((path, self.token(1).to_owned()));
                    self.at += 2;
                    return;
                }
                token if is_name(token) || token == "*" => {
                    // `{self}` names the module itself.
                    if token != "self" || path.is_empty() {
                        path.push(token.to_owned());
                    }
                    self.at += 1;
                }
                _ => {
                    let alias = path.last().cloned().unwrap_or_default();
                    paths.push((path, alias));
                    return;
                }
            }
        }
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}
