//! Reads one file by `syn`: its scopes, what each defines and imports, and the names that its code mentions.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use syn::visit::{self, Visit};
use syn::{Attribute, Meta, UseTree, Visibility};

/// A path of names, as written: `crate::clock::Clock`.
pub(crate) type Path = Vec<String>;

/// A file, or an inline module of it: the names that its code sees without a path.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// The names of items that are defined here, also in functions.
    pub(crate) items: BTreeSet<String>,
    /// The macros among them.
    pub(crate) macros: BTreeSet<String>,
    pub(crate) imports: Vec<Import>,
    pub(crate) modules: Vec<Module>,
    /// Each path that the code names, imports aside.
    pub(crate) mentions: BTreeSet<Path>,
    /// Each macro that is called by a name alone.
    pub(crate) calls: BTreeSet<String>,
}

/// One name that a `use` brings, or all names of a module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) path: Path,
    /// The name here. `None`: all names of a module.
    pub(crate) name: Option<String>,
    pub(crate) is_exported: bool,
}

/// `mod NAME`.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) name: String,
    /// The file that `#[path]` names.
    pub(crate) path: Option<String>,
    /// Whether only builds of tests have it.
    pub(crate) is_for_tests: bool,
    /// The module itself, if it is not in a file of its own.
    pub(crate) inline: Option<Scope>,
}

/// Reads a file. Unless `tests_count`, it leaves out what only builds of tests have.
pub(crate) fn read(text: &str, tests_count: bool) -> Result<Scope, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut reader = Reader { tests_count, scope: Scope::default(), locals: BTreeSet::new() };
    reader.visit_file(&file);
    Ok(reader.scope)
}

struct Reader {
    tests_count: bool,
    scope: Scope,
    /// The variables of the function that is being read. They hide what is imported.
    locals: BTreeSet<String>,
}

impl Reader {
    fn leaves_out(&self, attributes: &[Attribute]) -> bool {
        !self.tests_count && attributes.iter().any(is_for_tests)
    }

    fn mention(&mut self, path: Path) {
        let is_variable = path.len() == 1 && self.locals.contains(&path[0]);
        if !is_variable && path[0] != "Self" {
            self.scope.mentions.insert(path);
        }
    }

    /// Reads a function, whose variables are known by then.
    fn function(&mut self, variables: Variables, read: impl FnOnce(&mut Self)) {
        let outer = self.locals.clone();
        self.locals.extend(variables.0);
        read(self);
        self.locals = outer;
    }

    /// Reads the arguments of a macro, which have no syntax: a path is names with `::` between them.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let sign = |at: usize| match tokens.get(at) {
            Some(TokenTree::Punct(sign)) => sign.as_char(),
            _ => ' ',
        };
        let mut at = 0;
        while at < tokens.len() {
            let is_field = at > 0 && sign(at - 1) == '.';
            match &tokens[at] {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) if !is_field => {
                    let mut path = vec![first.to_string()];
                    while sign(at + 1) == ':'
                        && sign(at + 2) == ':'
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 3)
                    {
                        path.push(next.to_string());
                        at += 3;
                    }
                    let is_call = matches!(tokens.get(at + 1), Some(TokenTree::Group(_)));
                    let is_type = path[0].starts_with(char::is_uppercase);
                    if sign(at + 1) == '!' && path.len() == 1 {
                        self.scope.calls.insert(path.remove(0));
                    } else if path.len() > 1 || is_type || is_call {
                        self.mention(path);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item;
        let (attributes, name) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::TraitAlias(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Impl(item) => (&item.attrs, None),
            Item::Use(item) => (&item.attrs, None),
            // A module for tests may be read by its file (`tree.rs`).
            _ => return visit::visit_item(self, item),
        };
        if self.leaves_out(attributes) {
            return;
        }
        self.scope.items.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let is_for_tests = module.attrs.iter().any(is_for_tests);
        let mut inline = None;
        if let Some((_, items)) = &module.content
            && (self.tests_count || !is_for_tests)
        {
            let scope = Scope::default();
            let mut reader =
                Reader { tests_count: self.tests_count, scope, locals: BTreeSet::new() };
            items.iter().for_each(|item| reader.visit_item(item));
            inline = Some(reader.scope);
        } else if module.content.is_some() {
            return;
        }
        let path = module.attrs.iter().find_map(path_attribute);
        let name = module.ident.to_string();
        self.scope.modules.push(Module { name, path, is_for_tests, inline });
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // A path that begins with `::` names another crate.
        if item.leading_colon.is_none() {
            let is_exported = !matches!(item.vis, Visibility::Inherited);
            use_tree(&item.tree, Vec::new(), is_exported, &mut self.scope.imports);
        }
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        self.scope.macros.extend(item.ident.as_ref().map(ToString::to_string));
        visit::visit_item_macro(self, item);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        match call.path.get_ident() {
            Some(name) => _ = self.scope.calls.insert(name.to_string()),
            None => self.visit_path(&call.path),
        }
        self.tokens(call.tokens.clone());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.mention(path.segments.iter().map(|part| part.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let variables = Variables::of(|variables| variables.visit_item_fn(item));
        self.function(variables, |reader| visit::visit_item_fn(reader, item));
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let variables = Variables::of(|variables| variables.visit_impl_item_fn(item));
        self.function(variables, |reader| visit::visit_impl_item_fn(reader, item));
    }
    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let variables = Variables::of(|variables| variables.visit_trait_item_fn(item));
        self.function(variables, |reader| visit::visit_trait_item_fn(reader, item));
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes: &[Attribute] = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !self.leaves_out(attributes) {
            visit::visit_impl_item(self, item);
        }
    }
    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        let attributes: &[Attribute] = match item {
            syn::TraitItem::Fn(item) => &item.attrs,
            _ => &[],
        };
        if !self.leaves_out(attributes) {
            visit::visit_trait_item(self, item);
        }
    }
    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !self.leaves_out(&field.attrs) {
            visit::visit_field(self, field);
        }
    }
    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if !self.leaves_out(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }
    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if !self.leaves_out(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }
    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !self.leaves_out(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }
    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        use syn::{Expr, Stmt};
        let attributes: &[Attribute] = match statement {
            Stmt::Local(local) => &local.attrs,
            Stmt::Macro(call) => &call.attrs,
            Stmt::Expr(Expr::Block(block), _) => &block.attrs,
            Stmt::Expr(Expr::Call(call), _) => &call.attrs,
            Stmt::Expr(Expr::If(branch), _) => &branch.attrs,
            Stmt::Expr(Expr::MethodCall(call), _) => &call.attrs,
            _ => &[],
        };
        if !self.leaves_out(attributes) {
            visit::visit_stmt(self, statement);
        }
    }

    // `pub(in PATH)` and `#[PATH]` use nothing of the path.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

/// The names of variables in lower case. A pattern in upper case is a constant or a unit struct.
struct Variables(BTreeSet<String>);

impl Variables {
    fn of(read: impl FnOnce(&mut Self)) -> Self {
        let mut variables = Variables(BTreeSet::new());
        read(&mut variables);
        variables
    }
}

impl<'ast> Visit<'ast> for Variables {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        let name = pattern.ident.to_string();
        if !name.starts_with(char::is_uppercase) {
            self.0.insert(name);
        }
        visit::visit_pat_ident(self, pattern);
    }
}

/// Lists the imports of a tree, below `path`.
fn use_tree(tree: &UseTree, mut path: Path, is_exported: bool, imports: &mut Vec<Import>) {
    let mut add = |path: Path, name: Option<String>| {
        // `{self}` names the module itself.
        let is_module = path.len() > 1 && path.last().is_some_and(|last| last == "self");
        let path = path[..path.len() - usize::from(is_module)].to_vec();
        let name = if name.as_deref() == Some("self") { path.last().cloned() } else { name };
        imports.push(Import { path, name, is_exported });
    };
    match tree {
        UseTree::Path(step) => {
            path.push(step.ident.to_string());
            use_tree(&step.tree, path, is_exported, imports);
        }
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| use_tree(tree, path.clone(), is_exported, imports));
        }
        UseTree::Glob(_) => add(path, None),
        UseTree::Name(name) => {
            path.push(name.ident.to_string());
            add(path, Some(name.ident.to_string()));
        }
        UseTree::Rename(rename) => {
            path.push(rename.ident.to_string());
            add(path, Some(rename.rename.to_string()));
        }
    }
}

/// Whether only builds of tests have what this stands before: `#[test]` and its like, and a `#[cfg]` that needs `test`.
fn is_for_tests(attribute: &Attribute) -> bool {
    if attribute.path().is_ident("cfg") {
        return attribute.parse_args::<Meta>().is_ok_and(|condition| needs_tests(&condition));
    }
    attribute.path().segments.last().is_some_and(|last| last.ident == "test")
}

/// Whether the condition holds in builds of tests alone.
fn needs_tests(condition: &Meta) -> bool {
    use syn::punctuated::Punctuated;
    let parts = |list: &syn::MetaList| {
        let parts = list.parse_args_with(Punctuated::<Meta, syn::Token![,]>::parse_terminated);
        parts.map(|parts| parts.into_iter().collect::<Vec<_>>()).unwrap_or_default()
    };
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => parts(list).iter().any(needs_tests),
        Meta::List(list) if list.path.is_ident("any") => {
            let parts = parts(list);
            !parts.is_empty() && parts.iter().all(needs_tests)
        }
        _ => false,
    }
}

/// Returns the file of `#[path = "FILE"]`.
fn path_attribute(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(literal) = &pair.value else { return None };
    let syn::Lit::Str(file) = &literal.lit else { return None };
    pair.path.is_ident("path").then(|| file.value())
}
