//! `cabrank list`: the servers that run.
//!
//! Only the caller's own servers are asked. Of another user's server root sees the pid and the owner, which the kernel
//! says: so no directory of another user holds up the list, or writes into it.

use crate::admin::client::{identities, print};
use crate::admin::{Identity, NAME, REGISTERED};
use crate::configuration::cli::ListArgs;
use crate::failure::Failure;
use crate::observe::plain;
use cabrank_spawner::{Running, Standing, running};
use serde::Serialize;

const COLUMNS: [&str; 5] = ["PID", "Owner", "Name", "Listens at", "Directory"];

/// A line of the list. Its order is that of the columns.
#[derive(Debug, Serialize)]
struct Line {
    pid: u32,
    owner: String,
    name: Option<String>,
    addresses: Vec<String>,
    directory: Option<String>,
    /// Why the server may not be one of its owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    doubt: Option<&'static str>,
}

/// Prints the list.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn list(args: &ListArgs) -> Result<(), Failure> {
    let (own, others): (Vec<_>, Vec<_>) =
        running(NAME, REGISTERED).into_iter().partition(|server| server.standing == Standing::Own);
    let own =
        identities(&own).into_iter().zip(own).map(|(identity, server)| line(&server, identity));
    let mut lines: Vec<_> = own.chain(others.iter().map(|server| line(server, None))).collect();
    lines.sort_by_key(|line| line.pid);
    if args.json {
        let text = serde_json::to_string_pretty(&lines);
        return print(&format!("{}\n", text.map_err(|e| Failure::other(e.to_string()))?));
    }
    print(&plain::text(&table(&lines)))
}

fn line(server: &Running, identity: Option<Identity>) -> Line {
    let doubt = match server.standing {
        Standing::Untrusted(why) => Some(why),
        _ => None,
    };
    let (pid, owner) = (server.pid, server.owner());
    match identity {
        Some(Identity { name, directory, addresses }) => {
            Line { pid, owner, name: Some(name), addresses, directory: Some(directory), doubt }
        }
        None => Line { pid, owner, name: None, addresses: Vec::new(), directory: None, doubt },
    }
}

fn table(lines: &[Line]) -> String {
    let cells = |line: &Line| {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        let at = line.addresses.join(", ");
        let at = if at.is_empty() { "-".into() } else { at };
        let directory = match line.doubt {
            Some(why) => format!("({why})"),
            None => known(&line.directory),
        };
        [line.pid.to_string(), line.owner.clone(), known(&line.name), at, directory]
    };
    let rows = std::iter::once(COLUMNS.map(str::to_owned)).chain(lines.iter().map(cells));
    let rows: Vec<_> = rows.collect();
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
