//! A load: connections that stay open, and GET one path again and again.

use super::client::Client;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The results of a load.
#[derive(Debug, Default)]
pub struct Seen {
    /// The number of answers with status 200.
    pub answered: usize,
    /// The failures, each with its reason.
    pub failed: Vec<String>,
    /// The longest time between a request and its answer.
    pub longest: Duration,
    /// The distinct answers.
    pub texts: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Shared {
    ends: AtomicBool,
    seen: Mutex<Seen>,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A load that runs until [`stop`](Load::stop).
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The number of requests that have ended, for each connection.
    ended: Vec<Arc<AtomicUsize>>,
}

impl Load {
    /// Starts a load of so many connections.
    pub fn start(to: SocketAddr, path: &str, connections: usize) -> Load {
        let shared = Arc::<Shared>::default();
        let ended: Vec<_> = (0..connections).map(|_| Arc::<AtomicUsize>::default()).collect();
        let one = |ended: &Arc<AtomicUsize>| {
            let (shared, ended, path) = (Arc::clone(&shared), Arc::clone(ended), path.to_owned());
            std::thread::spawn(move || work(to, &path, &shared, &ended))
        };
        let threads = ended.iter().map(one).collect();
        Load { shared, threads, ended }
    }

    /// Returns a function that says whether each request has ended that is in progress now.
    pub fn in_progress(&self) -> impl Fn() -> bool {
        let before = self.ended.iter().map(|ended| ended.load(Ordering::SeqCst));
        let before: Vec<_> = self.ended.iter().cloned().zip(before).collect();
        move || before.iter().all(|(ended, before)| ended.load(Ordering::SeqCst) > *before)
    }

    /// Returns the number of answers so far.
    pub fn answered(&self) -> usize {
        self.shared.seen().answered
    }

    /// Returns the results so far, and forgets them.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut *self.shared.seen())
    }

    /// Ends the load, and returns its results.
    ///
    /// # Panics
    ///
    /// If a thread of the load has panicked.
    pub fn stop(self) -> Seen {
        self.shared.ends.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no client panics");
        }
        std::mem::take(&mut *self.shared.seen())
    }
}

/// Asks until the load ends, or until the server accepts no connection.
fn work(to: SocketAddr, path: &str, shared: &Shared, ended: &AtomicUsize) {
    let mut connected = Client::connect(to);
    while !shared.ends.load(Ordering::Relaxed) {
        let client = match &mut connected {
            Ok(client) => client,
            Err(error) => return shared.seen().failed.push(error.to_string()),
        };
        let asked = Instant::now();
        let reply = client.get(path);
        ended.fetch_add(1, Ordering::SeqCst);
        let mut seen = shared.seen();
        seen.longest = seen.longest.max(asked.elapsed());
        match reply {
            Ok(reply) if reply.status == 200 => {
                seen.answered += 1;
                seen.texts.insert(reply.text());
            }
            Ok(reply) => seen.failed.push(reply.describe()),
            Err(error) => {
                seen.failed.push(error.to_string());
                drop(seen);
                connected = Client::connect(to);
            }
        }
    }
}
