//! The table of a benchmark in `benches/README.md`.

use std::path::PathBuf;

fn readme() -> (PathBuf, String) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = std::fs::read_to_string(&path).expect("benches/README.md");
    (path, text)
}

/// Writes the table between the marks of this benchmark.
pub(crate) fn write(bench: &str, table: &str) {
    let begin = format!(
        "<!-- written by `cargo bench --bench {bench} -- --write` in `benches/peers`, from here -->\n"
    );
    let end = format!("<!-- to here: {bench} -->\n");
    let (path, text) = readme();
    let (before, rest) = text.split_once(&begin).expect("the place of the table is marked");
    let (_, after) = rest.split_once(&end).expect("the end of the table is marked");
    std::fs::write(path, format!("{before}{begin}\n{table}\n{end}{after}"))
        .expect("benches/README.md can be written");
}

/// Checks that the written table has this heading, and a row of each name.
pub(crate) fn check<'n>(heading: &str, rows: impl IntoIterator<Item = &'n str>) {
    let (_, text) = readme();
    assert!(text.contains(heading), "the columns of benches/README.md are not today's");
    for row in rows {
        let begin = format!("| {row} |");
        assert!(text.contains(&begin), "benches/README.md lacks a row: {begin}");
    }
}
