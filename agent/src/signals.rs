//! The ways of being told to stop: SIGTERM, SIGINT, SIGQUIT, SIGHUP, `cabrank stop`.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// What follows the first request within this time belongs to it: `timeout` signals the process and
/// then its group, and a shell passes on the Ctrl-C that the terminal has sent to all. Nobody who has
/// waited and lost patience is that quick.
const SAME_REQUEST: Duration = Duration::from_millis(500);

pub(crate) struct Signals {
    term: Signal,
    int: Signal,
    quit: Signal,
    /// None if it is to stay ignored.
    hup: Option<Signal>,
    /// Rung by `cabrank stop`.
    pub(crate) stop: Arc<Notify>,
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

    /// Returns when the agent is told to stop: the first time in good order, the second time at once.
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
                () = self.stop.notified() => {}
            }
            match self.first {
                Some(first) if first.elapsed() < SAME_REQUEST => {}
                _ => {
                    self.first.get_or_insert_with(Instant::now);
                    return;
                }
            }
        }
    }
}

/// Whoever started the agent with SIGHUP ignored, as `nohup` does, wants it to outlive the terminal.
fn hangup_is_ignored() -> bool {
    let number = SignalKind::hangup().as_raw_value();
    let status = procfs::process::Process::myself().and_then(|p| p.status());
    status.is_ok_and(|s| s.sigign & (1 << (number - 1)) != 0)
}
