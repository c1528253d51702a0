//! Requests to stop: SIGTERM, SIGINT, SIGQUIT, SIGHUP, `cabrank stop`. And the signals that mean something to other servers only.

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
        let hup = unless_ignored(SignalKind::hangup())?;
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

/// Logs SIGUSR1 and SIGUSR2, by which other servers open their logs or restart. Without a handler they would kill this one.
///
/// A handler ends with an exec: the application's processes begin with the default.
pub(crate) fn outlive_signals_of_others() -> io::Result<()> {
    for (kind, text) in [
        (
            SignalKind::user_defined1(),
            "SIGUSR1 has no meaning here, and is ignored: logs need no signal.",
        ),
        (
            SignalKind::user_defined2(),
            "SIGUSR2 has no meaning here, and is ignored: restart by `cabrank restart`.",
        ),
    ] {
        let Some(mut signal) = unless_ignored(kind)? else { continue };
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                tracing::warn!("{text}");
            }
        });
    }
    Ok(())
}

/// Handles a signal, unless the server was started with it ignored: by `nohup`, the server outlives the terminal.
fn unless_ignored(kind: SignalKind) -> io::Result<Option<Signal>> {
    let number = kind.as_raw_value();
    let status = procfs::process::Process::myself().and_then(|p| p.status());
    let is_ignored = status.is_ok_and(|s| s.sigign & (1 << (number - 1)) != 0);
    if is_ignored { Ok(None) } else { signal(kind).map(Some) }
}
