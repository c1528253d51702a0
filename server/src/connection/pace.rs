//! The least pace of a client that sends a body or reads an answer.
//!
//! Only the time in which the server waits for the client counts: not the time in which the application
//! computes, or is slow to read the request. A client is too slow if it pauses for longer than the limit, or
//! if it moves fewer bytes than the least rate asks for, over [`window`](Limits::window).

use crate::connection::sweep::{Tick, Watch};
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
    /// Set while the server waits for the client: the beginnings of the pause and of the measured time.
    waits: Option<(Tick, Tick)>,
    /// The time that the server has waited in this window, before `waits`.
    waited: Duration,
    /// The bytes of this window.
    bytes: u64,
}

impl Pace {
    pub(crate) fn new(limits: Limits) -> Self {
        Pace { limits, waits: None, waited: Duration::ZERO, bytes: 0 }
    }

    /// Counts bytes that the client has moved. The server waits no longer.
    pub(crate) fn moved(&mut self, bytes: usize, now: Tick) {
        self.bytes += bytes as u64;
        self.stop(now);
    }

    /// Stops the clock: the server waits for something else.
    pub(crate) fn stop(&mut self, now: Tick) {
        if let Some((_, since)) = self.waits.take() {
            self.waited += now.since(since);
        }
    }

    /// Notes that the server waits for the client, and asks for a wake-up when the client is too slow.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::sweep::Sweep;
    use std::sync::Arc;

    const LIMITS: Limits =
        Limits { pause: Duration::from_secs(60), rate: 500, window: Duration::from_secs(10) };

    /// A client and its clock, whose sweep takes place each second.
    struct Scene {
        sweep: Arc<Sweep>,
        watch: Watch,
        pace: Pace,
        seconds: u64,
    }

    impl Scene {
        fn new(limits: Limits) -> Self {
            let sweep = Arc::new(Sweep::new(Duration::from_secs(1)));
            let watch = sweep.watch();
            Scene { sweep, watch, pace: Pace::new(limits), seconds: 0 }
        }

        fn pass(&mut self, seconds: u64) {
            self.seconds += seconds;
            self.sweep.set_now(Duration::from_secs(self.seconds));
        }

        /// The server waits for the client until it has moved `bytes`, for a second.
        fn second(&mut self, bytes: usize) -> Result<(), Slow> {
            self.pace.wait(&self.watch)?;
            self.pass(1);
            self.pace.wait(&self.watch)?;
            self.pace.moved(bytes, self.watch.now());
            Ok(())
        }

        /// Returns how the client ended within the seconds, with as many bytes in each.
        fn seconds(&mut self, number: u64, bytes: usize) -> Result<(), Slow> {
            (0..number).try_for_each(|_| self.second(bytes))
        }
    }

    #[test]
    fn a_client_below_the_rate_is_ended_after_the_window_and_not_before() {
        let mut scene = Scene::new(LIMITS);
        assert_eq!(scene.seconds(10, 400), Ok(()));
        assert_eq!(scene.seconds(3, 400), Err(Slow::Trickles));
    }

    #[test]
    fn a_client_above_the_rate_is_never_ended() {
        assert_eq!(Scene::new(LIMITS).seconds(1000, 600), Ok(()));
    }

    #[test]
    fn each_window_is_measured_by_itself() {
        let mut scene = Scene::new(LIMITS);
        // The bytes of a fast beginning do not pay for the time after it.
        assert_eq!(scene.second(1 << 20), Ok(()));
        assert_eq!(scene.seconds(40, 1), Err(Slow::Trickles));
        assert!(scene.seconds < 30, "{}", scene.seconds);
    }

    #[test]
    fn the_time_in_which_the_server_waits_for_something_else_does_not_count() {
        let mut scene = Scene::new(LIMITS);
        for _ in 0..20 {
            assert_eq!(scene.second(600), Ok(()));
            scene.pass(100); // the application computes
        }
        scene.pace.wait(&scene.watch).unwrap();
        scene.pass(5);
        scene.pace.stop(scene.watch.now());
        scene.pass(100);
        assert_eq!(scene.pace.wait(&scene.watch), Ok(()));
    }

    #[test]
    fn a_client_that_pauses_is_ended_whatever_it_moved_before() {
        let mut scene = Scene::new(Limits { rate: 0, ..LIMITS });
        assert_eq!(scene.second(1 << 30), Ok(()));
        scene.pace.wait(&scene.watch).unwrap();
        scene.pass(60);
        assert_eq!(scene.pace.wait(&scene.watch), Ok(()));
        scene.pass(1);
        assert_eq!(scene.pace.wait(&scene.watch), Err(Slow::Pauses));
    }

    #[test]
    fn zero_is_no_limit() {
        let none = Limits { pause: Duration::ZERO, rate: 0, ..LIMITS };
        let mut scene = Scene::new(none);
        scene.pace.wait(&scene.watch).unwrap();
        scene.pass(1_000_000);
        assert_eq!(scene.pace.wait(&scene.watch), Ok(()));
    }
}
