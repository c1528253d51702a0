//! Requests to stop: SIGTERM, SIGINT, SIGQUIT, SIGHUP, `cabrank stop`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// Requests that follow the first within this time count as the same request.
///
/// `timeout` signals the process and then its group, and a shell passes on the Ctrl-C that the terminal
/// has already sent to all. A user who loses patience takes longer than this.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// A request to stop by a tool, and whether there has been any request to stop.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    asked: Notify,
    begun: AtomicBool,
}

impl Stop {
    /// Shuts the server down, as a signal does.
    pub(crate) fn ask(&self) {
        self.begin();
        self.asked.notify_one();
    }

    /// Returns whether the server shuts down.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }
}

pub(crate) struct Signals {
    term: Signal,
    int: Signal,
    quit: Signal,
    /// `None` if SIGHUP stays ignored.
    hup: Option<Signal>,
    /// For `cabrank stop`.
    pub(crate) stop: Arc<Stop>,
    first: Option<Instant>,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let hup = if hangup_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Signals {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hup,
            stop: Arc::default(),
            first: None,
        })
    }

    /// Waits for a request to stop. The first one asks for a graceful shutdown, the second for an immediate
    /// end.
    pub(crate) async fn next(&mut self) {
        loop {
            let hangup = async {
                match &mut self.hup {
                    Some(hup) => hup.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.term.recv() => {}
                _ = self.int.recv() => {}
                _ = self.quit.recv() => {}
                _ = hangup => {}
                () = self.stop.asked.notified() => {}
            }
            match self.first {
                Some(first) if first.elapsed() < SAME_REQUEST => {}
                _ => {
                    self.first.get_or_insert_with(Instant::now);
                    self.stop.begin();
                    return;
                }
            }
        }
    }
}

/// Returns whether the server was started with SIGHUP ignored, as by `nohup`: it then outlives the terminal.
fn hangup_is_ignored() -> bool {
    let number = SignalKind::hangup().as_raw_value();
    let status = procfs::process::Process::myself().and_then(|p| p.status());
    status.is_ok_and(|s| s.sigign & (1 << (number - 1)) != 0)
}
