//! HTTP conformance: tables of what a client sends, and what it must get.
//!
//! Each case is one connection: a list of steps, of which each sends bytes or expects some. The sections stand in
//! `conformance/`. `docs/http.md` shows them all; with `CABRANK_WRITE_DOCS=1`, the test writes that file.

mod answers;
mod apps;
mod bodies;
mod case;
mod connections;
mod heads;
mod limits;
mod origins;
mod scgi;
mod smuggling;

use crate::server::{Server, start_command};
use case::{App, Section};
use scgi::Passed;
use std::fmt::Write as _;
use std::path::Path;

fn sections() -> Vec<Section> {
    [
        smuggling::sections(),
        bodies::sections(),
        heads::sections(),
        connections::sections(),
        answers::sections(),
        limits::sections(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Plays each case of a section against the application that it names.
fn play(sections: Vec<Section>) {
    let mut failed = Vec::new();
    for section in &sections {
        for app in [App::Wsgi, App::Node] {
            let cases: Vec<_> = section.cases.iter().filter(|case| case.app == app).collect();
            if cases.is_empty() {
                continue;
            }
            let dir = apps::write(app);
            let runtime = tempfile::tempdir().unwrap();
            let (unix, scgi) = (runtime.path().join("http"), runtime.path().join("scgi"));
            let mut command = start_command(runtime.path(), dir.path(), section.options);
            command.arg("--socket").arg(&unix).arg("--scgi-socket").arg(&scgi);
            let server = Server::start_with(command, runtime);
            for case in cases {
                let mut check = |over: &str, outcome: Result<(), String>| {
                    let Err(why) = outcome else { return };
                    let title = section.title;
                    failed.push(format!("{title}: {} ({app:?}, {over}): {why}", case.name));
                };
                check("TCP", case.play(&server));
                check("Unix", case.play_over_unix(&unix));
                if let Some(passed) = Passed::of(case) {
                    check("SCGI", passed.play(&scgi));
                }
            }
        }
    }
    let all: usize = sections.iter().map(|section| section.cases.len()).sum();
    assert!(failed.is_empty(), "{} of {all} cases fail:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn no_request_hides_in_another() {
    play(smuggling::sections());
}

#[test]
fn bodies_are_framed_as_the_head_says() {
    play(bodies::sections());
}

#[test]
fn heads_are_taken_or_refused() {
    play(heads::sections());
}

#[test]
fn connections_live_as_long_as_both_sides_want() {
    play(connections::sections());
}

#[test]
fn answers_are_framed_for_their_client() {
    play(answers::sections());
}

#[test]
fn limits_mean_what_they_say() {
    play(limits::sections());
}

#[test]
fn the_table_in_the_docs_is_this_one() {
    let mut text = String::from(
        "# HTTP/1.1, case by case\n\n\
         Each row is one connection: the bytes that a client sends, and the statuses of the answers.\n\
         `server/tests/e2e/conformance/` has the cases, and `cargo test -p cabrank-server conformance` plays them all against a running server.\n\
         With `CABRANK_WRITE_DOCS=1`, that command writes this page.\n\
         *Closed*: the server ends the connection. *Open*: the next request on it gets its answer.\n\n\
         Each case is played over TCP and over a Unix socket (`--socket`). Those with a *yes* in the last column are also played over SCGI \
         (`--scgi-socket`), as a web server would pass them on, up to their first answer. The others are left out there, because the client and \
         its web server decide them: the form of the head, the framing of bodies, `Expect`, and what follows on the connection. Interim answers are \
         not passed on over SCGI. An answer without a length that breaks off looks complete, because SCGI has no other end.\n",
    );
    for section in sections() {
        let _ = write!(text, "\n## {}\n\n{}\n", section.title, section.about);
        if !section.options.is_empty() {
            let _ = writeln!(text, "Options: `{}`.", section.options.join(" "));
        }
        text.push_str("\n| Case | The client sends | It gets | SCGI |\n|---|---|---|---|\n");
        for case in &section.cases {
            let (sends, gets) = case.describe();
            let node = if case.app == App::Node { " (Node)" } else { "" };
            let scgi = if Passed::of(case).is_some() { "yes" } else { "–" };
            let _ = writeln!(text, "| {}{node} | {sends} | {gets} | {scgi} |", case.name);
        }
    }
    text.push_str(&origins::page());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/http.md");
    if std::env::var_os("CABRANK_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &text).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == text, "docs/http.md is out of date: CABRANK_WRITE_DOCS=1 writes it");
}
