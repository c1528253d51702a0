//! The modules of one crate, mounted as the compiler does: from the root's file along each `mod`.

use super::source::{self, Scope};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the text of a file, if there is one.
pub(crate) type Files<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A module, by its place in the tree.
pub(crate) type Id = usize;

pub(crate) struct Tree {
    pub(crate) modules: Vec<Mounted>,
    /// The place of each macro, by its name.
    macros: BTreeMap<String, Id>,
}

pub(crate) struct Mounted {
    pub(crate) scope: Scope,
    /// The path of its file. An inline module has the file of the module around it.
    pub(crate) file: String,
    parent: Option<Id>,
    /// Alternatives of one name have different conditions.
    children: BTreeMap<String, Vec<Id>>,
}

/// The meaning of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Named {
    Module(Id),
    /// An item of this module.
    Item(Id),
}

const ROOT: Id = 0;

impl Tree {
    /// Reads the crate with this root. If `tests_count`, the whole crate is for tests.
    pub(crate) fn read(files: Files, root: &str, tests_count: bool) -> Result<Tree, String> {
        let mut tree = Tree { modules: Vec::new(), macros: BTreeMap::new() };
        let (folder, _) = split(root);
        let mount = Mount { files, root_folder: folder.to_owned() };
        mount.file(&mut tree, root, folder.to_owned(), None, tests_count)?;
        for (id, module) in tree.modules.iter().enumerate() {
            tree.macros.extend(module.scope.macros.iter().map(|name| (name.clone(), id)));
        }
        Ok(tree)
    }

    /// Returns whether a module stands below another one.
    pub(crate) fn is_below(&self, id: Id, other: Id) -> bool {
        let mut above = self.modules[id].parent;
        while let Some(id) = above {
            if id == other {
                return true;
            }
            above = self.modules[id].parent;
        }
        false
    }

    /// Returns the module that defines a macro of this crate.
    pub(crate) fn macro_place(&self, name: &str) -> Option<Id> {
        self.macros.get(name).copied()
    }

    /// Finds what a path names that is written in the module `from`. Re-exports are followed to the definition.
    pub(crate) fn find(&self, from: Id, path: &[String]) -> BTreeSet<Named> {
        self.follow(from, path, &mut BTreeSet::new())
    }

    fn follow(&self, from: Id, path: &[String], open: &mut Open) -> BTreeSet<Named> {
        let mut at = from;
        let mut rest = path;
        while let Some((head, tail)) = rest.split_first() {
            match (head.as_str(), self.modules[at].parent) {
                ("crate", _) => at = ROOT,
                ("self", _) => {}
                ("super", Some(parent)) => at = parent,
                _ => break,
            }
            rest = tail;
        }
        let Some((head, rest)) = rest.split_first() else {
            return BTreeSet::from([Named::Module(at)]);
        };
        let mut found = self.look_up(at, head, open);
        if found.is_empty() && rest.len() + 1 < path.len() {
            // A macro may have made it.
            found.insert(Named::Item(at));
        }
        for name in rest {
            let is_module = |named: &Named| matches!(named, Named::Module(_));
            // A module may have the name of a function.
            if found.iter().any(is_module) {
                found.retain(is_module);
            }
            let step = |named: Named| match named {
                Named::Item(_) => BTreeSet::from([named]),
                Named::Module(module) => {
                    let inside = self.look_up(module, name, open);
                    if inside.is_empty() { BTreeSet::from([Named::Item(module)]) } else { inside }
                }
            };
            found = found.into_iter().flat_map(step).collect();
        }
        found
    }

    /// Finds what a name means in a module: a child, an item, an import, or a name that a glob brings.
    fn look_up(&self, at: Id, name: &str, open: &mut Open) -> BTreeSet<Named> {
        // An import may lead back here.
        if !open.insert((at, name.to_owned())) {
            return BTreeSet::new();
        }
        let module = &self.modules[at];
        let children = module.children.get(name).into_iter().flatten();
        let mut found: BTreeSet<Named> = children.map(|id| Named::Module(*id)).collect();
        if module.scope.items.contains(name) {
            found.insert(Named::Item(at));
        }
        let imports = &module.scope.imports;
        for import in imports.iter().filter(|import| import.name.as_deref() == Some(name)) {
            found.extend(self.follow(at, &import.path, open));
        }
        if found.is_empty() {
            for import in imports.iter().filter(|import| import.name.is_none()) {
                for named in self.follow(at, &import.path, open) {
                    if let Named::Module(module) = named {
                        found.extend(self.look_up(module, name, open));
                    }
                }
            }
        }
        if found.is_empty() && at == ROOT {
            found.extend(self.macro_place(name).map(Named::Item));
        }
        open.remove(&(at, name.to_owned()));
        found
    }
}

/// The names that are being looked up.
type Open = BTreeSet<(Id, String)>;

struct Mount<'a> {
    files: Files<'a>,
    root_folder: String,
}

impl Mount<'_> {
    /// Mounts a file, whose children stand in the folder `below`.
    fn file(
        &self,
        tree: &mut Tree,
        file: &str,
        below: String,
        parent: Option<Id>,
        tests_count: bool,
    ) -> Result<Id, String> {
        let text = (self.files)(file).ok_or_else(|| format!("{file} does not exist"))?;
        let scope = source::read(&text, tests_count).map_err(|error| format!("{file}: {error}"))?;
        let place = Place { file, by_attribute: split(file).0.to_owned(), below };
        self.scope(tree, scope, &place, parent, tests_count)
    }

    fn scope(
        &self,
        tree: &mut Tree,
        mut scope: Scope,
        place: &Place,
        parent: Option<Id>,
        tests_count: bool,
    ) -> Result<Id, String> {
        let id = tree.modules.len();
        let modules = std::mem::take(&mut scope.modules);
        let children = BTreeMap::new();
        tree.modules.push(Mounted { scope, file: place.file.to_owned(), parent, children });
        for module in modules {
            let name = module.name;
            let below = join(&place.below, &name);
            let child = if let Some(scope) = module.inline {
                let place = Place { file: place.file, by_attribute: below.clone(), below };
                self.scope(tree, scope, &place, Some(id), tests_count)?
            } else {
                let by_path = module.path.map(|path| join(&place.by_attribute, &path));
                let usual = [format!("{below}.rs"), join(&below, "mod.rs")];
                let there = usual.iter().find(|file| (self.files)(file).is_some());
                let file = by_path.as_ref().or(there).unwrap_or(&usual[0]);
                // The models are a module for tests. Their file lies outside, and all of it counts.
                let is_outside = !file.starts_with(&self.root_folder);
                if module.is_for_tests && !tests_count && !is_outside {
                    continue;
                }
                let (folder, stem) = split(file);
                let is_mod = stem == "mod" || by_path.is_some();
                let below = if is_mod { folder.to_owned() } else { join(folder, stem) };
                self.file(tree, file, below, Some(id), tests_count || module.is_for_tests)?
            };
            tree.modules[id].children.entry(name).or_default().push(child);
        }
        Ok(id)
    }
}

/// Where the modules of a scope have their files.
struct Place<'a> {
    file: &'a str,
    /// The folder for `#[path]`.
    by_attribute: String,
    /// The folder for children without it.
    below: String,
}

/// Splits a path into the folder, with its slash, and the name without `.rs`.
fn split(file: &str) -> (&str, &str) {
    let (folder, name) = file.split_at(file.rfind('/').map_or(0, |slash| slash + 1));
    (folder, name.trim_end_matches(".rs"))
}

/// Appends a path to a folder, without `.` and `..` in the result.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => _ = parts.pop(),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}
