//! The table for people: `docs/faults.md`.

use crate::kind::Kind;
use crate::trial::Row;
use crate::words::tally;
use std::fmt::Write;

const HEAD: &str = "# Faults, and what they cost

`cargo xtask checks-faults` makes this page. Each row starts a server with three processes of a sample application.
Four healthy clients keep a connection each, and ask for a small page every 20 ms, while the fault runs beside them.

- *Errors*: answers other than 200, and connections that broke. The goal is 0.
- *Longest stall*: the longest time that a healthy client waited for an answer. A shared machine adds some tens of milliseconds.
- *Left over*: processes, descriptors and files, first beyond what there was before the fault, then after the server's end. The goal is 0.
- *By nature*: the cost of the fault that no server avoids.
";

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn errors(row: &Row) -> String {
    if row.healthy.errors.is_empty() {
        return "0".to_owned();
    }
    format!("**{}** ({})", row.healthy.errors.len(), tally(&row.healthy.errors))
}

/// Returns the page.
pub(crate) fn markdown(rows: &[Row], beside: &[Row]) -> String {
    let mut text = String::from(HEAD);
    text.push_str(
        "\n| Fault | Application | Requests | Errors | Longest stall | Left over: processes | descriptors | files | \
         Seen by the fault's own clients | By nature |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.2} s | {} | {} | {} | {} | {} |",
            row.fault,
            row.app,
            row.healthy.answered,
            cell(&errors(row)),
            row.healthy.longest.as_secs_f64(),
            row.processes,
            row.descriptors,
            row.files,
            cell(&row.seen),
            row.cost,
        );
    }
    let missed: Vec<_> = rows.iter().filter(|row| !row.misses.is_empty()).collect();
    if !missed.is_empty() {
        text.push_str("\nRows that miss their goal:\n\n");
        for row in missed {
            let _ =
                writeln!(text, "- {} ({}): {}", row.fault, row.app, cell(&row.misses.join("; ")));
        }
    }
    if !beside.is_empty() {
        against(&mut text, rows, beside);
    }
    text
}

/// Adds the same faults at other servers: errors, and the longest stall.
fn against(text: &mut String, rows: &[Row], beside: &[Row]) {
    text.push_str(
        "\n## Other servers\n\nThe same clients, and three processes each, with one request at a time. gunicorn, uWSGI and\n\
         Passenger serve the same WSGI application, Puma a Rack application with the same paths.\n\
         Each cell has the errors of the healthy clients, their longest stall, and what the fault's own clients saw.\n\
         Passenger runs with its builtin engine. With nginx before it, bodies of requests wait in nginx.\n\n",
    );
    let mut kinds = vec![Kind::Cabrank];
    for row in beside {
        if !kinds.contains(&row.kind) {
            kinds.push(row.kind);
        }
    }
    let names: Vec<_> = kinds.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
    let _ = writeln!(text, "| Fault | {} |", names.join(" | "));
    let _ = writeln!(text, "|---{}|", "|---".repeat(kinds.len()));
    let mut done: Vec<&str> = Vec::new();
    for row in beside {
        if done.contains(&row.fault) {
            continue;
        }
        done.push(row.fault);
        let cells: Vec<_> = kinds
            .iter()
            .map(|kind| {
                let mut all = rows.iter().chain(beside);
                let found = all.find(|r| r.kind == *kind && r.fault == row.fault);
                found.map_or("–".to_owned(), |r| match r.has_started {
                    false => "does not start".to_owned(),
                    true => {
                        let longest = r.healthy.longest.as_secs_f64();
                        format!("{}, {longest:.2} s; {}", r.healthy.errors.len(), cell(&r.seen))
                    }
                })
            })
            .collect();
        let _ = writeln!(text, "| {} | {} |", row.fault, cells.join(" | "));
    }
}
