//! The healthy clients: each keeps a connection, and asks every 20 ms.

use cabrank_checks_harness::http::{Client, describe};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const CLIENTS: usize = 4;
const PACE: Duration = Duration::from_millis(20);
/// Longer than the longest pause that a row makes.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// The server is about to end: from now on it may close connections between two requests.
    may_end: AtomicBool,
    /// The server has been killed: whatever fails now is no error of its own.
    is_killed: AtomicBool,
    seen: Mutex<Results>,
}

/// The results of the healthy clients.
#[derive(Clone, Default)]
pub(crate) struct Results {
    pub(crate) answered: usize,
    pub(crate) errors: Vec<String>,
    /// The longest time from a request to its answer.
    pub(crate) longest: Duration,
}

pub(crate) struct Healthy {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Healthy {
    pub(crate) fn start(to: SocketAddr) -> Healthy {
        let shared = Arc::<Shared>::default();
        let threads = (0..CLIENTS)
            .map(|_| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || one(to, &shared))
            })
            .collect();
        Healthy { shared, threads }
    }

    /// Forgets what was seen so far, and returns it.
    pub(crate) fn begin(&self) -> Results {
        std::mem::take(&mut self.shared.seen.lock().expect("no client panics"))
    }

    /// Allows the server to end.
    pub(crate) fn may_end(&self) {
        self.shared.may_end.store(true, SeqCst);
    }

    /// Forgives each error from now on.
    pub(crate) fn server_is_killed(&self) {
        self.shared.is_killed.store(true, SeqCst);
    }

    pub(crate) fn stop(self) -> Results {
        self.shared.stop.store(true, SeqCst);
        for thread in self.threads {
            thread.join().expect("no client panics");
        }
        let seen = self.shared.seen.lock().expect("no client panics");
        seen.clone()
    }
}

fn one(to: SocketAddr, shared: &Shared) {
    let mut kept: Option<Client> = None;
    while !shared.stop.load(SeqCst) {
        let begun = Instant::now();
        let is_new = kept.is_none();
        let client = kept.take().map_or_else(|| Client::with_patience(to, PATIENCE), Ok);
        let outcome = client.and_then(|mut client| {
            let reply = client.get("/")?;
            Ok((client, reply))
        });
        let took = begun.elapsed();
        let mut seen = shared.seen.lock().expect("no client panics");
        seen.longest = seen.longest.max(took);
        match outcome {
            Ok((client, reply)) if reply.status == 200 && reply.body == b"ok" => {
                seen.answered += 1;
                kept = (!reply.closes()).then_some(client);
            }
            Ok((client, reply)) => {
                let is_foreign = reply.status == 200;
                let error = reply.status.to_string();
                seen.errors.push(if is_foreign { "another's answer".to_owned() } else { error });
                kept = (!reply.closes()).then_some(client);
            }
            Err(_) if shared.is_killed.load(SeqCst) => return,
            Err(error) if shared.may_end.load(SeqCst) => {
                let between = matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                );
                match error.kind() {
                    ErrorKind::ConnectionRefused => return,
                    // A kept connection may end between two requests.
                    _ if between && !is_new => {}
                    _ => seen.errors.push(describe(&error)),
                }
            }
            Err(error) => seen.errors.push(describe(&error)),
        }
        drop(seen);
        std::thread::sleep(PACE.saturating_sub(took));
    }
}
