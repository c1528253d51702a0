//! The words of the table for the answers and errors that clients saw.

use cabrank_checks_harness::http::{Client, describe};
use std::net::SocketAddr;
use std::time::Duration;

/// Sends one GET over a new connection. Returns the status, or the error as text.
pub(crate) fn status_of(to: SocketAddr, path: &str, patience: Duration) -> String {
    match Client::with_patience(to, patience).and_then(|mut client| client.get(path)) {
        Ok(reply) => reply.status.to_string(),
        Err(error) => describe(&error),
    }
}

/// Counts equal texts: `18 × 200, 2 × 503`.
pub(crate) fn tally<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for one in all {
        *counts.entry(one.to_string()).or_default() += 1;
    }
    let all: Vec<_> = counts.iter().map(|(what, count)| format!("{count} × {what}")).collect();
    all.join(", ")
}
