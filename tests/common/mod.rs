//! What the tests share: a pool on a hand-driven clock, and a way to wait for something to happen
//! without sleeping.

use cabrank::in_memory::InMemorySpawner;
use cabrank::{ApplicationPool, Builder, Counts, Event, ManualClock, PoolOptions};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long anything may take that is to happen at once; only a failing test waits that long.
pub const SOON: Duration = Duration::from_secs(20);

/// A pool, its spawner, its clock, and what it tells.
pub struct Rig {
    pub pool: ApplicationPool<InMemorySpawner>,
    pub spawner: InMemorySpawner,
    pub clock: ManualClock,
    events: Receiver<Event>,
}

impl Rig {
    pub fn new(
        configure: impl FnOnce(Builder<InMemorySpawner>) -> Builder<InMemorySpawner>,
    ) -> Rig {
        let clock = ManualClock::new();
        let spawner = InMemorySpawner::with_clock(clock.clock());
        let (tell, events): (Sender<Event>, _) = channel();
        let builder = ApplicationPool::builder(spawner.clone()).clock(clock.clock());
        let builder = configure(builder).observer(move |event| {
            // The test may have ended.
            let _ = tell.send(event.clone());
        });
        Rig { pool: builder.build().expect("a valid pool"), spawner, clock, events }
    }

    /// (active, count), as the originals' tests write it.
    pub fn counts(&self) -> (usize, usize) {
        let counts = self.pool.counts();
        (counts.active, counts.count)
    }

    /// Waits until the pool's counts are as `wanted`, looking again at every event.
    #[track_caller]
    pub fn eventually(&self, wanted: impl Fn(&Counts) -> bool) {
        let deadline = Instant::now() + SOON;
        while !wanted(&self.pool.counts()) {
            assert!(Instant::now() < deadline, "did not come about: {:?}", self.pool.snapshot());
            match self.events.recv_timeout(Duration::from_millis(2)) {
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the pool holds the sender"),
            }
        }
    }

    /// The next event for which `wanted` gives something.
    #[track_caller]
    pub fn event<T>(&self, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let deadline = Instant::now() + SOON;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left).expect("the event comes");
            if let Some(found) = wanted(&event) {
                return found;
            }
        }
    }
}

pub fn app(name: &str) -> PoolOptions {
    PoolOptions::new(format!("/srv/{name}"))
}
