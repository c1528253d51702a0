//! The least pace of a client that sends a body or reads an answer.
//!
//! Only the time in which the agent waits for the client counts: not the time in which the application
//! computes, or is slow to read the request. A client is too slow if it pauses for longer than the limit, or
//! if it moves fewer bytes than the least rate asks for, over [`window`](Limits::window).

use super::sweep::{Tick, Watch};
use std::time::Duration;

/// The limits of a client's pace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The longest pause; zero: no limit.
    pub(crate) pause: Duration,
    /// Bytes per second; 0: no limit.
    pub(crate) rate: u64,
    /// The time over which the rate is measured.
    pub(crate) window: Duration,
}

/// How a client is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slow {
    Pauses,
    Trickles,
}

/// The pace of one direction of a connection.
#[derive(Debug)]
pub(crate) struct Pace {
    limits: Limits,
    /// Set while the agent waits for the client: the beginnings of the pause and of the measured time.
    waits: Option<(Tick, Tick)>,
    /// The time that the agent has waited in this window, before `waits`.
    waited: Duration,
    /// The bytes of this window.
    bytes: u64,
}

impl Pace {
    pub(crate) fn new(limits: Limits) -> Self {
        Pace { limits, waits: None, waited: Duration::ZERO, bytes: 0 }
    }

    /// Counts bytes that the client has moved. The agent waits no longer.
    pub(crate) fn moved(&mut self, bytes: usize, now: Tick) {
        self.bytes += bytes as u64;
        self.stop(now);
    }

    /// Stops the clock: the agent waits for something else.
    pub(crate) fn stop(&mut self, now: Tick) {
        if let Some((_, since)) = self.waits.take() {
            self.waited += now.since(since);
        }
    }

    /// Notes that the agent waits for the client, and asks for a wake-up when the client is too slow.
    ///
    /// # Errors
    /// The client is too slow.
    pub(crate) fn wait(&mut self, watch: &Watch) -> Result<(), Slow> {
        let now = watch.now();
        let Limits { pause, rate, window } = self.limits;
        let (pauses_since, waits_since) = self.waits.get_or_insert((now, now));
        if !pause.is_zero() && watch.has_passed(pause, *pauses_since) {
            return Err(Slow::Pauses);
        }
        if rate == 0 || !watch.has_passed(window.saturating_sub(self.waited), *waits_since) {
            return Ok(());
        }
        let time = self.waited + now.since(*waits_since);
        if (self.bytes as f64) < rate as f64 * time.as_secs_f64() {
            return Err(Slow::Trickles);
        }
        *waits_since = now;
        (self.waited, self.bytes) = (Duration::ZERO, 0);
        let _ = watch.has_passed(window, now);
        Ok(())
    }
}
