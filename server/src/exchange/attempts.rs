//! The attempts to get the answer to one request from a process.

use crate::client::Side;
use crate::connection::core::{Bytes, Core};
use crate::connection::watched::{Connection, Left};
use crate::exchange::attempt::{self, Attempt};
use crate::exchange::end::{End, Refusal};
use crate::exchange::processes::{Hold, Processes};
use crate::exchange::pump::Exchange;
use crate::exchange::request::Request;
use crate::exchange::serving::Serving;
use crate::exchange::{abandoned, overtime, tunnel};
use crate::lane::Reached;
use std::sync::Arc;

/// The largest number of processes that one request tries without reaching the application.
const MAX_REFUSALS: usize = 10;

/// Gets an answer from a process.
pub(crate) async fn answer(
    core: &Core,
    client: &mut Connection,
    request: &mut Request<'_>,
    bytes: &mut Bytes,
    side: &mut Side,
) -> End {
    let serving = &*core.serving;
    let application = request.application;
    let mut tries = Tries::default();
    let mut place = None;
    loop {
        let get = application.processes.get(place.take());
        let mut hold = match client.unless_left(&mut bytes.input, get).await {
            Err(Left) => return End::Left,
            Ok(Err(error)) => return End::Refused(Refusal::NoProcess(error)),
            Ok(Ok(hold)) => hold,
        };
        let pid = hold.process.pid;
        let Bytes { input, to_app, .. } = &mut *bytes;
        let open = attempt::open(&mut hold, core.index, request.message(), to_app);
        let (end, hold) = match client.unless_left(input, open).await {
            Err(Left) => return End::Left,
            Ok(Ok(lane)) => {
                let attempt = Attempt::new(hold, lane);
                request.record.attempt(attempt.since, pid);
                run(serving, client, request, bytes, side, attempt).await
            }
            Ok(Err(refusal)) => (End::Refused(refusal), Some(hold)),
        };
        let End::Refused(Refusal::NoAnswer { why, reached }) = end else { return end };
        if let Some(mut hold) = hold {
            // The next attempt does not wait in line once more.
            place = hold.take_place();
            if give_back(&application.processes, hold, reached).await {
                tracing::warn!(pid, "process {pid} gets no more requests: {why}");
            }
        }
        let head = request.head;
        let (method, path) = (head.method(), String::from_utf8_lossy(head.path()));
        if application.retries && tries.may_retry(reached, head.is_safe()) && request.body.rewind()
        {
            tracing::debug!(pid, "App {pid}: no answer to {method} {path}: {why}; retrying");
            continue;
        }
        tracing::warn!(pid, "App {pid}: no answer to {method} {path}: {why}; giving up");
        return End::Refused(Refusal::NoAnswer { why, reached });
    }
}

/// Runs the exchange with a process to its end. Returns the session of a process that gave no answer.
async fn run(
    serving: &Serving,
    client: &mut Connection,
    request: &mut Request<'_>,
    bytes: &mut Bytes,
    side: &mut Side,
    attempt: Attempt,
) -> (End, Option<Hold>) {
    let application = request.application;
    let process = Arc::clone(&attempt.process);
    let mut exchange = Exchange::new(client, request, bytes, side, &serving.buffers, attempt);
    let end = exchange.run().await;
    let Some(attempt) = exchange.into_attempt() else { return (end, None) };
    match &end {
        End::Refused(Refusal::NoAnswer { .. }) => return (end, attempt.hold),
        End::Cut(why) => {
            let pid = process.pid;
            tracing::warn!(pid, "App {pid}: its answer ended early: {why}");
            let hold = attempt.hold;
            if hold.is_some() && process.is_dying().await {
                application.processes.is_gone(process.endpoint.identifier);
            }
        }
        End::TooLong | End::Refused(Refusal::TooLong) => overtime::end(application, attempt),
        End::Switched => {
            let limit = serving.limits.timeouts.upgraded;
            tunnel::run(client, bytes, attempt, limit, &mut request.record).await
        }
        End::Left | End::GivenUp(_) | End::Refused(_) => {
            let rest = std::mem::take(&mut bytes.from_app);
            abandoned::abandon(application, attempt, rest, request.head.answer_to());
        }
        End::Answered => {}
    }
    (end, None)
}

/// The failed attempts of one request.
#[derive(Debug, Default)]
struct Tries {
    reached: usize,
    refused: usize,
}

impl Tries {
    /// Counts a failure, and returns whether a retry is safe.
    ///
    /// If the application may have seen the request, only a safe method is tried again, and only once. If a
    /// living process has closed the connection, it may have done so before the request came.
    fn may_retry(&mut self, reached: Reached, is_safe: bool) -> bool {
        match reached {
            Reached::Interim | Reached::Nonsense => false,
            Reached::TheApp => {
                self.reached += 1;
                is_safe && self.reached == 1
            }
            Reached::Nowhere | Reached::NotTheApp => {
                self.refused += 1;
                self.refused < MAX_REFUSALS
            }
        }
    }
}

/// Returns the session to the pool, and returns whether its process leaves the pool.
///
/// A process leaves if it is dying or refuses connections. A living process that closed this connection
/// stays: otherwise one bad URL could empty the pool.
async fn give_back(processes: &Processes, hold: Hold, reached: Reached) -> bool {
    let process = Arc::clone(&hold.process);
    let is_gone = reached == Reached::Nowhere || process.is_dying().await;
    if is_gone {
        let may_be_cause = !matches!(reached, Reached::Nowhere | Reached::NotTheApp);
        if may_be_cause || process.has_answered() {
            // A request may be the cause: this one, or an answered one. The pool does not back off then, as it does
            // after `fail`.
            processes.is_gone(process.endpoint.identifier);
            drop(hold);
        } else {
            hold.fail();
        }
    } else {
        drop(hold);
        // The process may have closed its other connections for the same reason.
        process.connections.close_idle(&process.endpoint);
    }
    is_gone
}
