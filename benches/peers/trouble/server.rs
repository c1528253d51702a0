//! A server that is slow, hangs, or is away, and connections to it.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time after which a driver gives up a hand-shake that hangs.
const DRIVER_GIVES_UP: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) is_up: bool,
    pub(crate) hangs: bool,
    pub(crate) connect: Duration,
    /// Connections of an earlier generation are dead.
    generation: u64,
}

#[derive(Debug)]
pub(crate) struct Server {
    state: Mutex<State>,
    /// Connects that were begun.
    pub(crate) connects: AtomicUsize,
    /// Connections that exist.
    pub(crate) connections: AtomicUsize,
}

#[derive(Debug)]
pub(crate) struct Connection {
    server: Arc<Server>,
    generation: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("connection refused")
    }
}

impl std::error::Error for Refused {}

impl Server {
    pub(crate) fn new(connect: Duration) -> Arc<Server> {
        let state = State { is_up: true, hangs: false, connect, generation: 0 };
        let (connects, connections) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Server { state: Mutex::new(state), connects, connections })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every connection.
    pub(crate) fn kill(&self) {
        let mut state = self.state();
        state.generation += 1;
        state.is_up = false;
    }

    /// Begins a connect. Returns how long it takes.
    fn begin(&self) -> Result<(Duration, State), Refused> {
        self.connects.fetch_add(1, SeqCst);
        let state = *self.state();
        match (state.hangs, state.is_up) {
            (true, _) => Ok((DRIVER_GIVES_UP, state)),
            (false, true) => Ok((state.connect, state)),
            (false, false) => Err(Refused),
        }
    }

    fn end(self: &Arc<Self>, begun: State) -> Result<Connection, Refused> {
        if begun.hangs || begun.generation != self.state().generation {
            return Err(Refused);
        }
        self.connections.fetch_add(1, SeqCst);
        Ok(Connection { server: self.clone(), generation: begun.generation })
    }

    pub(crate) fn connect(self: &Arc<Self>) -> Result<Connection, Refused> {
        let (takes, begun) = self.begin()?;
        std::thread::sleep(takes);
        self.end(begun)
    }

    pub(crate) async fn connect_async(self: &Arc<Self>) -> Result<Connection, Refused> {
        let (takes, begun) = self.begin()?;
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        self.end(begun)
    }
}

impl Connection {
    /// Returns whether the server has not been restarted since.
    pub(crate) fn is_alive(&self) -> bool {
        self.generation == self.server.state().generation
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.server.connections.fetch_sub(1, SeqCst);
    }
}
