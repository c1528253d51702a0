//! Random programs of tasks on one thread: loads, unloads, permit blocks, nested executions, and executions inside
//! permit blocks. They are cancelled at every await, dropped as a whole, and limited in time.
//!
//! Every program ends, in whatever order its tasks are polled. While one owner is alone, no other runs
//! (PROP-ILK-USE-UNDER-SHARE). No unload comes between the begin and the end of an execution that does not unload
//! (INV-ILK-ONE-GENERATION).
//!
//! The histories of `interlock_refinement` are compared with the machine step by step. The machine has no futures
//! inside futures, so these programs are not compared.

use cabrank::execution::interlock::{AcquireError, Running};
use cabrank::{Interlock, ManualClock};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Returns the number of programs: as many as every run has time for, or `CABRANK_CASES`.
fn programs() -> u64 {
    match std::env::var("CABRANK_CASES") {
        Ok(text) => text.parse().expect("CABRANK_CASES is a number of programs"),
        Err(_) => 3_000,
    }
}

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

struct World {
    random: Cell<u64>,
    interlock: Interlock,
    running: Cell<u32>,
    alone: Cell<u32>,
    refused: Cell<u32>,
    timed_out: Cell<u32>,
}

/// Counts an owner that runs, or is alone, until this is dropped.
struct Counted<'a>(&'a Cell<u32>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl World {
    /// Returns a random number below `n`.
    fn random(&self, n: u64) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        (x >> 11) % n
    }
    fn count<'a>(&'a self, counter: &'a Cell<u32>) -> Counted<'a> {
        counter.set(counter.get() + 1);
        let (alone, running) = (self.alone.get(), self.running.get());
        let right = alone == 0 || alone == 1 && running == 0;
        assert!(right, "{alone} alone, {running} run\n{}", self.interlock.dump());
        Counted(counter)
    }
    /// Runs for a while, unless the share is missing or a section is around this.
    async fn runs(&self, running: &Running<'_>) {
        if running.has_share() && self.alone.get() == 0 {
            let _counted = self.count(&self.running);
            yields(self.random(3)).await;
        }
    }
    async fn is_alone(&self) {
        let _counted = self.count(&self.alone);
        yields(self.random(3)).await;
    }
    /// Polls a future to its end, or a few times before dropping it.
    async fn perhaps<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut left = if self.random(2) == 0 { self.random(6) } else { u64::MAX };
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => {
                left -= 1;
                Poll::Pending
            }
        })
        .await
    }
    fn note<T>(&self, result: Option<Result<T, AcquireError>>) {
        let counter = match result {
            Some(Err(AcquireError::Deadlock(_))) => &self.refused,
            Some(Err(_)) => &self.timed_out,
            _ => return,
        };
        counter.set(counter.get() + 1);
    }

    fn body<'a>(self: &'a Rc<Self>, running: &'a mut Running<'_>, depth: u32) -> Task<'a> {
        Box::pin(async move {
            let sees = self.interlock.generation();
            for _ in 0..1 + self.random(3) {
                self.runs(running).await;
                match self.random(6) {
                    0 => {
                        let load = running.load_async(async |_| self.is_alone().await);
                        let loaded = self.perhaps(load).await;
                        self.note(loaded);
                    }
                    1 => {
                        let unload = self.interlock.unload_async(async |_| ());
                        let unloaded = self.perhaps(unload).await;
                        assert!(!matches!(unloaded, Some(Ok(()))), "an execution is around it");
                        self.note(unloaded);
                    }
                    2 if depth > 0 => {
                        let inside = async {
                            yields(self.random(3)).await;
                            self.executions(depth - 1).await;
                            yields(self.random(2)).await;
                        };
                        let permitted = running.permit_loads_async(inside);
                        let permitted = self.perhaps(permitted).await;
                        self.note(permitted);
                    }
                    3 if depth > 0 => self.executions(depth - 1).await,
                    4 if running.has_share() => {
                        let id = running.id();
                        let nested = self.interlock.run(|nested| nested.id());
                        assert!(nested.is_ok_and(|nested| nested == id));
                    }
                    _ => {}
                }
                if running.has_share() {
                    assert_eq!(self.interlock.generation(), sees, "unloaded around a share");
                }
            }
            self.runs(running).await;
        })
    }
    async fn executions(self: &Rc<Self>, depth: u32) {
        for _ in 0..1 + self.random(2) {
            if depth == 2 && self.random(3) == 0 {
                let unload = self.interlock.unload_async(async |_| self.is_alone().await);
                let unloaded = self.perhaps(unload).await;
                self.note(unloaded);
            }
            let body = async |r: &mut Running<'_>| self.body(r, depth).await;
            let ran = self.perhaps(self.interlock.run_async(body)).await;
            self.note(ran);
            yields(self.random(2)).await;
        }
    }
}

async fn yields(mut times: u64) {
    poll_fn(move |_| match times.checked_sub(1) {
        None => Poll::Ready(()),
        Some(left) => {
            times = left;
            Poll::Pending
        }
    })
    .await;
}

/// Runs a random program. Returns the numbers of refused waits and of those that timed out.
fn play(seed: u64, is_limited: bool) -> [u32; 2] {
    let clock = ManualClock::new();
    let limit = is_limited.then_some(Duration::from_secs(1));
    let interlock = Interlock::builder().clock(clock.clock()).acquire_timeout(limit).build();
    let world = Rc::new(World {
        random: Cell::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
        interlock: interlock.clone(),
        running: Cell::new(0),
        alone: Cell::new(0),
        refused: Cell::new(0),
        timed_out: Cell::new(0),
    });
    let program = |_| Some(Box::pin(world.executions(2)) as Task<'_>);
    let mut tasks: Vec<_> = (0..2 + world.random(4)).map(program).collect();
    let (mut cx, mut idle) = (Context::from_waker(Waker::noop()), 0);
    while tasks.iter().any(Option::is_some) {
        if is_limited && world.random(30) == 0 {
            clock.advance(Duration::from_secs(1));
        }
        let at = world.random(tasks.len() as u64) as usize;
        // Tasks that do not make progress are not dropped: that would hide a hang.
        let dropped = idle < 400 && world.random(60) == 0;
        let task = tasks[at].as_mut();
        if task.is_some_and(|task| dropped || task.as_mut().poll(&mut cx).is_ready()) {
            (tasks[at], idle) = (None, 0);
        } else {
            idle += 1;
        }
        assert!(idle < 20_000, "seed {seed}: no task goes on\n{}", interlock.dump());
    }
    let dump = interlock.dump();
    assert!(dump.owners.is_empty(), "seed {seed}: {dump}");
    interlock.unload(|_| ()).expect("no owner is left");
    [world.refused.get(), world.timed_out.get()]
}

#[test]
fn random_tasks_end() {
    let refused: u32 = (1..=programs()).map(|seed| play(seed, false)[0]).sum();
    assert!(refused > 0, "no wait was refused");
}

/// The timer is a thread of each interlock, so these are fewer.
#[test]
fn random_tasks_with_a_time_limit_end() {
    // Whether a limit passes depends on the machine, so only the ends are asserted.
    for seed in 1..=programs() / 10 {
        play(seed, true);
    }
}
