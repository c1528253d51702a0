//! Some pages name the test that shows each of their claims, as `file::test`. Each name must lead to a test.
//!
//! `file` is the name of a file of tests without its extension, in Rust or Python, or the name of its folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The pages, and the least number of tests that each one names.
const PAGES: [(&str, usize); 6] = [
    ("docs/from-passenger.md", 10),
    ("docs/passenger.md", 40),
    ("docs/security.md", 40),
    ("docs/kept-sessions.md", 60),
    ("docs/http.md", 10),
    ("tests/README.md", 20),
];
/// The folders with tests.
const FOLDERS: [&str; 7] =
    ["checks", "models", "server/src", "server/tests", "spawner", "spec", "tests"];

/// Returns the names `file::test` in code spans of a page.
fn named_in(page: &str) -> Vec<(&str, &str)> {
    let is_word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let spans = page.split('`').skip(1).step_by(2);
    let names = spans.filter_map(|span| span.split_once("::"));
    // A test has a sentence for its name, so `io::Error` and `hijack::call` are no names of tests.
    names
        .filter(|(file, test)| is_word(file) && is_word(test) && test.matches('_').count() > 1)
        .collect()
}

/// Adds each test below a folder, with the names of its file and of the folder.
fn tests_below(dir: &Path, found: &mut BTreeSet<(String, String)>) {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    for path in entries.map(|entry| entry.expect("the entry is readable").path()) {
        if path.is_dir() {
            tests_below(&path, found);
            continue;
        }
        let keyword = match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => "fn ",
            Some("py") => "def ",
            _ => continue,
        };
        let text = fs::read_to_string(&path).expect("a source is text");
        let lines = text.lines().map(|line| line.trim_start().trim_start_matches("async "));
        let names = lines.filter_map(|line| line.strip_prefix(keyword));
        for name in names.filter_map(|rest| Some(rest.split_once('(')?.0)) {
            for file in [path.file_stem(), dir.file_name()].into_iter().flatten() {
                found.insert((file.to_string_lossy().into_owned(), name.to_owned()));
            }
        }
    }
}

#[test]
fn only_code_spans_with_a_file_and_a_sentence_name_a_test() {
    let page = "`rights::no_user_may_do_that`, rights::not_in_a_span `io::Error` `a::b` `x` `test_a::test_each_one`";
    let expected = [("rights", "no_user_may_do_that"), ("test_a", "test_each_one")];
    assert_eq!(named_in(page), expected);
}

#[test]
fn each_test_that_a_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = BTreeSet::new();
    for folder in FOLDERS {
        tests_below(&root.join(folder), &mut tests);
    }
    for (page, least) in PAGES {
        let text = fs::read_to_string(root.join(page)).expect("the page exists");
        let named = named_in(&text);
        assert!(named.len() >= least, "{page} names only {} tests", named.len());
        for (file, test) in named {
            let is_there = tests.contains(&(file.to_owned(), test.to_owned()));
            assert!(is_there, "{page} names {file}::{test}, which does not exist");
        }
    }
}
