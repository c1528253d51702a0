//! The graph over small trees.

use super::package::{Graph, Target};

/// Reads the crate `src/lib.rs` of these files.
fn graph(files: &[(&str, &str)]) -> Graph {
    graph_of(files, &[Target { root: "src/lib.rs".into(), tests_count: false }])
}

fn graph_of(files: &[(&str, &str)], targets: &[Target]) -> Graph {
    let read = |path: &str| {
        let found = files.iter().find(|(file, _)| *file == path);
        found.map(|(_, text)| (*text).to_owned())
    };
    Graph::read(&read, "", targets).unwrap()
}

/// Lists the edges: `from -> to: names`.
fn edges(graph: &Graph) -> Vec<String> {
    let of = |(from, used): (&String, &std::collections::BTreeMap<String, _>)| {
        let line = |(to, names): (&String, &std::collections::BTreeSet<String>)| {
            let names = names.iter().cloned().collect::<Vec<_>>().join(", ");
            format!("{from} -> {to}: {names}")
        };
        used.iter().map(line).collect::<Vec<_>>()
    };
    graph.edges.iter().flat_map(of).collect()
}

#[track_caller]
fn assert_edges(files: &[(&str, &str)], expected: &[&str]) {
    assert_eq!(edges(&graph(files)), expected);
}

#[test]
fn imports_of_all_forms_are_edges() {
    assert_edges(
        &[
            ("src/lib.rs", "mod a; mod b; mod room;"),
            (
                "src/a.rs",
                "use crate::b::{self, One, Two as Second}; use super::room::{inner::{Three}};",
            ),
            ("src/b.rs", "pub struct One; pub struct Two;"),
            ("src/room/mod.rs", "pub mod inner; use self::inner::Three;"),
            ("src/room/inner.rs", "pub struct Three; use std::fmt::Debug; use ::b::Other;"),
        ],
        &["a -> b: One, Two", "a -> room::inner: Three", "room -> room::inner: Three"],
    );
}

#[test]
fn paths_in_code_are_edges() {
    assert_edges(
        &[
            ("src/lib.rs", "mod a; mod b; mod c;"),
            (
                "src/a.rs",
                "use crate::c;
                 fn f(x: &super::b::Kind) -> Vec<crate::b::Item> {
                     match x { crate::b::Kind::Small => c::make(), self::super::b::LARGE => <c::Maker as c::Makes>::run() }
                 }
                 pub(in crate::c) struct Hidden;",
            ),
            ("src/b.rs", "pub enum Kind { Small } pub struct Item; pub const LARGE: u8 = 1;"),
            ("src/c.rs", "pub fn make() {} pub struct Maker; pub trait Makes {}"),
        ],
        &["a -> b: Item, Kind, LARGE", "a -> c: Maker, Makes, make"],
    );
}

#[test]
fn an_imported_module_is_no_edge_until_one_of_its_names_is_used() {
    assert_edges(
        &[
            ("src/lib.rs", "mod a; mod front;"),
            ("src/a.rs", "use crate::front; fn f(_: front::Request) {}"),
            ("src/front/mod.rs", "mod request; pub use request::Request;"),
            ("src/front/request.rs", "pub struct Request;"),
        ],
        &["a -> front::request: Request"],
    );
}

#[test]
fn a_re_export_cuts_no_edge_and_makes_none_to_its_module() {
    let reexports = [
        "mod a; mod b; pub use b::X;",
        "mod a; mod b; pub(crate) use self::b::*;",
        "mod a; mod b; pub use b::X as Y; pub use Y as X;",
        "mod a; mod b; mod map { pub(crate) use super::b::*; } pub use map::*;",
    ];
    for lib in reexports {
        let files =
            [("src/lib.rs", lib), ("src/a.rs", "use super::X;"), ("src/b.rs", "pub struct X;")];
        assert_edges(&files, &["a -> b: X"]);
    }
}

#[test]
fn a_re_export_is_an_edge_where_the_module_uses_the_name_or_looks_sideways() {
    let a = "use super::Own; pub struct X; pub fn made() {}";
    let used = "mod a; pub use a::{X, made}; pub struct Own; fn f() -> X { made() }";
    assert_edges(&[("src/lib.rs", used), ("src/a.rs", a)], &["a -> lib: Own", "lib -> a: X, made"]);
    let unused = "mod a; pub use a::{X, made}; pub struct Own; fn f() { let made = 1; drop(made) }";
    assert_edges(&[("src/lib.rs", unused), ("src/a.rs", a)], &["a -> lib: Own"]);
    assert_edges(
        &[
            ("src/lib.rs", "mod a; mod b;"),
            ("src/a.rs", "pub use super::b::X;"),
            ("src/b.rs", "pub struct X;"),
        ],
        &["a -> b: X"],
    );
}

#[test]
fn names_come_through_globs() {
    assert_edges(
        &[
            ("src/lib.rs", "mod a; mod b; mod c;"),
            ("src/a.rs", "use crate::b::*; struct Mine; fn f(_: Mine) -> Theirs { made(u8::MAX) }"),
            ("src/b.rs", "pub use super::c::*; pub struct Mine; pub fn made(_: u8) -> Theirs {}"),
            ("src/c.rs", "pub struct Theirs;"),
        ],
        &["a -> b: made", "a -> c: Theirs", "b -> c: Theirs"],
    );
}

#[test]
fn the_arguments_of_macros_are_code_and_macros_are_items() {
    assert_edges(
        &[
            ("src/lib.rs", "#[macro_use] mod b; mod a; mod c;"),
            (
                "src/a.rs",
                "use super::c::shown; use super::c;
                 fn f() { println!(\"{}\", super::c::TEXT); say!(c::Kind::Loud, self.b.a()); shown!(); }",
            ),
            ("src/b.rs", "macro_rules! say { () => { $crate::c::write() } }"),
            (
                "src/c.rs",
                "pub const TEXT: &str = \"crate::a::f\"; pub enum Kind { Loud } pub fn write() {}
                 macro_rules! shown { () => {} } pub(crate) use shown;",
            ),
        ],
        &["a -> b: say!", "a -> c: Kind, TEXT, shown, shown!", "b -> c: write"],
    );
}

#[test]
fn inline_modules_belong_to_their_file() {
    assert_edges(
        &[
            ("src/lib.rs", "mod a; mod b;"),
            (
                "src/a.rs",
                "mod inside { use super::Own; use super::super::b::X; pub mod deep; }
                 struct Own; use inside::Z;",
            ),
            ("src/a/inside/deep.rs", "use super::super::Own; pub struct Y;"),
            ("src/b.rs", "pub struct X; use crate::a::inside::deep::Y;"),
        ],
        &["a -> b: X", "a::inside::deep -> a: Own", "b -> a::inside::deep: Y"],
    );
}

#[test]
fn files_are_found_by_path_attributes_and_alternatives_both_count() {
    assert_edges(
        &[
            (
                "src/lib.rs",
                "#[cfg(unix)] mod os; #[cfg(not(unix))] #[path = \"elsewhere/other.rs\"] mod os; mod a;",
            ),
            ("src/os.rs", "pub fn now() {}"),
            ("src/elsewhere/other.rs", "pub mod below; pub use below::now;"),
            ("src/elsewhere/below.rs", "pub fn now() {}"),
            ("src/a.rs", "use crate::os::now;"),
        ],
        &["a -> elsewhere::below: now", "a -> os: now"],
    );
}

#[test]
fn code_of_test_builds_is_left_out() {
    assert_edges(
        &[
            (
                "src/lib.rs",
                "mod a; mod b; #[cfg(test)] mod a_tests;
                 #[cfg(all(test, feature = \"slow\"))] #[path = \"../models/mod.rs\"] mod models;",
            ),
            (
                "src/a.rs",
                "#[cfg(test)] use crate::b::One;
                 #[cfg(all(unix, test))] fn f() { crate::b::two() }
                 #[test] fn g() { crate::b::three() }
                 struct S { #[cfg(test)] x: crate::b::Four, #[cfg(any(test, unix))] y: crate::b::Five }
                 fn h() { #[cfg(test)] crate::b::six(); #[cfg(not(test))] crate::b::seven(); }
                 #[cfg(test)] mod tests { use crate::b::Eight; }",
            ),
            ("src/b.rs", "pub struct One; pub fn seven() {}"),
            ("models/mod.rs", "mod meeting;"),
            ("models/meeting.rs", "#[test] fn f() { crate::b::seven() }"),
        ],
        &["a -> b: Five, seven", "models::meeting -> b: seven"],
    );
}

#[test]
fn targets_of_tests_count_whole_and_share_files() {
    let targets = ["tests/one/main.rs", "tests/two.rs"]
        .map(|root| Target { root: root.into(), tests_count: true });
    let files = [
        ("tests/one/main.rs", "#[path = \"../common/mod.rs\"] mod common; mod case;"),
        ("tests/one/case.rs", "#[test] fn f() { crate::common::run() }"),
        ("tests/common/mod.rs", "pub fn run() {}"),
        ("tests/two.rs", "#[path = \"common/mod.rs\"] mod common; #[cfg(test)] use common::run;"),
    ];
    assert_eq!(
        edges(&graph_of(&files, &targets)),
        ["tests::one::case -> tests::common: run", "tests::two -> tests::common: run"]
    );
}

#[test]
fn the_cycles_are_the_strongly_connected_components() {
    let files = [
        ("src/lib.rs", "mod a; mod b; mod c; mod d; mod e; mod f;"),
        ("src/a.rs", "use super::b::B; use super::d::D; pub struct A;"),
        ("src/b.rs", "use super::c::C; pub struct B;"),
        ("src/c.rs", "use super::a::A; pub struct C;"),
        ("src/d.rs", "use super::e::E; pub struct D;"),
        ("src/e.rs", "use super::d::D; pub struct E;"),
        ("src/f.rs", "use super::a::A; fn f() -> F {} pub struct F;"),
    ];
    assert_eq!(graph(&files).cycles(), [vec!["a", "b", "c"], vec!["d", "e"]]);
}

#[test]
fn an_error_names_the_file() {
    let read = |path: &str| (path == "src/lib.rs").then(|| "fn".to_owned());
    let of = |root: &str| {
        let target = Target { root: root.into(), tests_count: false };
        Graph::read(&read, "", &[target]).map(|_| ()).unwrap_err()
    };
    assert!(of("src/lib.rs").starts_with("src/lib.rs: "));
    assert_eq!(of("src/main.rs"), "src/main.rs does not exist");
}
