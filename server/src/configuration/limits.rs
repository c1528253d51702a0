//! The limits of the server on clients, whatever application they ask.

use crate::configuration::options::Options;
use crate::configuration::values::Seconds;
use std::time::Duration;

/// The longest time for an upgraded connection whose process leaves. Nothing else ends a WebSocket, and each restart
/// would add one more process that waits for its WebSockets.
const UPGRADED: Duration = Duration::from_secs(30);

impl Options {
    /// Returns the time that a process has to leave at a restart.
    pub(crate) fn drain_timeout(&self) -> Seconds {
        (*self.drain_timeout).unwrap_or(*self.shutdown_timeout)
    }
}

/// The limits on clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerLimits {
    pub(crate) timeouts: Timeouts,
    /// In bytes per second; 0: none.
    pub(crate) min_client_rate: u64,
    /// In bytes, as all that follow.
    pub(crate) max_header_size: usize,
    /// 0: no limit.
    pub(crate) max_body: u64,
    /// 0: bodies are not buffered.
    pub(crate) buffer_request: usize,
    pub(crate) max_buffered_request: u64,
    pub(crate) max_buffered_answer: u64,
}

impl ServerLimits {
    pub(crate) fn of(options: &Options) -> ServerLimits {
        ServerLimits {
            timeouts: Timeouts {
                keep_alive: options.keep_alive_timeout.0,
                header: options.header_timeout.0,
                client: options.client_timeout.0,
                upgraded: (options.drain_timeout().0 / 2).min(UPGRADED),
            },
            min_client_rate: options.min_client_rate.0,
            max_header_size: options.max_header_size.0,
            max_body: options.max_body.0,
            buffer_request: options.buffer_request.0,
            max_buffered_request: options.max_buffered_request.0,
            max_buffered_answer: options.max_buffered_answer.0,
        }
    }
}

/// The time-outs of clients. Each core looks at all of them together, and at those of the applications.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Between two requests of a connection. Zero: no limit, as in the next two.
    pub(crate) keep_alive: Duration,
    /// For a whole head.
    pub(crate) header: Duration,
    /// For a pause of a client that sends or receives a body.
    pub(crate) client: Duration,
    /// For an upgraded connection whose process leaves, and for its pause once one side has ended its output.
    pub(crate) upgraded: Duration,
}

impl Timeouts {
    /// Returns how often the server looks at them, and at the limits on the work of processes (`works`): once a second, or
    /// more often where one is short.
    pub(crate) fn sweep_pause(&self, works: impl Iterator<Item = Duration>) -> Duration {
        // Names each field, so that a new one cannot be forgotten: it would pass up to a second late.
        let Timeouts { keep_alive, header, client, upgraded } = *self;
        let limits = [keep_alive, header, client, upgraded].into_iter().chain(works);
        let shortest = limits.filter(|limit| !limit.is_zero()).min().unwrap_or(Duration::MAX);
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}
