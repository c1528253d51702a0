//! The attempts to get the answer to one request from a process.

use crate::connection::core::{Core, Scratch};
use crate::connection::watched::{Connection, Left};
use crate::exchange::error_page::Trouble;
use crate::exchange::processes::{Hold, Processes};
use crate::exchange::pump::{Exchange, Outcome};
use crate::exchange::serving::Serving;
use crate::exchange::stages::End;
use crate::exchange::work::{Failed, Reached, Request, Work};
use crate::exchange::{abandoned, overtime, tunnel};
use crate::request::body::Body;
use crate::request::origin::Forwarded;
use cabrank::application_pool::{ConnectError, GetError};
use std::sync::Arc;

/// The largest number of processes that one request tries without reaching the application.
const MAX_REFUSALS: usize = 10;

/// Gets an answer from a process.
pub(crate) async fn answer(
    core: &Core,
    client: &mut Connection,
    scratch: &mut Scratch,
    body: &mut Body,
) -> End {
    let serving = &*core.serving;
    let application = &serving.application;
    let origin = Forwarded::of(&scratch.head, &client.peer, &serving.trusted_proxies);
    let mut tries = Tries::default();
    let mut in_progress = None;
    loop {
        let get = application.processes.get(&mut in_progress);
        let hold = match client.unless_left(&mut scratch.input, get).await {
            Err(Left) => return End::Close,
            Ok(Err(error)) => return End::Trouble(Trouble::Get(error)),
            Ok(Ok(hold)) => hold,
        };
        let process = Arc::clone(&hold.process);
        let Scratch { input, head, to_app, .. } = &mut *scratch;
        let peer = client.peer;
        let request = Request { head, body, peer: &peer, origin: &origin };
        let begin = Work::begin(hold, core.index, request, to_app);
        let work = match client.unless_left(input, begin).await {
            Err(Left) => return End::Close,
            Ok(Ok(work)) => Ok(work),
            Ok(Err(failed)) => Err(failed),
        };
        let failed = match work {
            Ok(work) => match run(serving, client, scratch, body, work).await {
                Ok(end) => return end,
                Err(failed) => failed,
            },
            Err(failed) => failed,
        };
        let Failed { hold, why, reached } = failed;
        let is_gone = match hold {
            Some(hold) => give_back(&application.processes, hold, reached).await,
            None => true,
        };
        if is_gone {
            let pid = process.pid;
            tracing::warn!(pid, "process {pid} gets no more requests: {why}");
        }
        let may_retry = application.retries
            && tries.may_retry(reached, scratch.head.is_safe())
            && body.rewind();
        if let Some(end) = trouble(scratch, process.pid, why, reached, may_retry) {
            return End::Trouble(end);
        }
    }
}

/// Runs the exchange with a process to its end.
async fn run(
    serving: &Serving,
    client: &mut Connection,
    scratch: &mut Scratch,
    body: &mut Body,
    work: Work,
) -> Result<End, Failed> {
    let process = Arc::clone(&work.process);
    let pid = process.pid;
    let mut exchange = Exchange::new(client, scratch, body, serving, work);
    let outcome = loop {
        match exchange.run().await {
            Outcome::Closed if process.is_dying().await => {
                break Outcome::Cut("the application closed the connection".into());
            }
            Outcome::Closed => exchange.end_with_connection(),
            outcome => break outcome,
        }
    };
    let stays = exchange.client_stays();
    let has_begun = exchange.has_begun();
    let work = exchange.into_work();
    let application = &serving.application;
    let mut abandon = |work: Option<Work>| {
        if let Some(work) = work {
            let rest = std::mem::take(&mut scratch.from_app);
            abandoned::abandon(application, work, rest, scratch.head.answer_to());
        }
    };
    Ok(match outcome {
        Outcome::Done => End::Answered { stays },
        Outcome::Failed(reached, why) => {
            let hold = work.and_then(|work| work.hold);
            return Err(Failed { hold, why, reached });
        }
        Outcome::Cut(why) => {
            tracing::warn!(pid, "App {pid}: its answer ended early: {why}");
            if let Some(hold) = work.and_then(|work| work.hold)
                && process.is_dying().await
            {
                application.processes.detach(process.endpoint.identifier);
                drop(hold);
            }
            End::Close
        }
        Outcome::Closed => End::Close, // handled above
        Outcome::Left => {
            abandon(work);
            End::Close
        }
        Outcome::Refused(status, why) => {
            abandon(work);
            End::Trouble(Trouble::Broken(status, why))
        }
        Outcome::Broken(why) => {
            abandon(work);
            tracing::debug!("the connection from {} is closed: {why}", client.peer.remote);
            End::Close
        }
        Outcome::TooLong => {
            if let Some(work) = work {
                overtime::end(application, work);
            }
            match has_begun {
                true => End::Close,
                false => End::Trouble(Trouble::TooLong),
            }
        }
        Outcome::Switched => {
            if let Some(work) = work {
                tunnel::run(client, scratch, work).await;
            }
            End::Close
        }
    })
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
            Reached::Verdict(_) => false,
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
        if reached == Reached::TheApp || process.has_answered() {
            // A request may be the cause: this one, or an answered one. The pool does not back off then, as it does
            // after `fail`.
            processes.detach(process.endpoint.identifier);
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

/// Logs a failed attempt. Returns the reason for the client, unless the request is retried.
fn trouble(
    scratch: &Scratch,
    pid: u32,
    why: String,
    reached: Reached,
    again: bool,
) -> Option<Trouble> {
    match reached {
        Reached::Verdict(400) => return Some(Trouble::Refused(400, why)),
        Reached::Verdict(503) => {
            return Some(Trouble::Get(GetError::Connect(ConnectError::local(why))));
        }
        _ => {}
    }
    let (method, path) = (scratch.head.method(), String::from_utf8_lossy(scratch.head.path()));
    if again {
        tracing::debug!(pid, "App {pid}: no answer to {method} {path}: {why}; retrying");
        return None;
    }
    tracing::warn!(pid, "App {pid}: no answer to {method} {path}: {why}; giving up");
    Some(Trouble::NoAnswer(why))
}
