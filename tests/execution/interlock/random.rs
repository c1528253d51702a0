//! Random programs of tasks on one thread: loads, unloads, permit blocks, children inside and beside, and dropped
//! guards. They are cancelled at every await, dropped as a whole, and forfeited.
//!
//! Every program ends, in whatever order its tasks are polled. While one owner is alone, no other runs
//! (PROP-ILK-USE-UNDER-SHARE). A parent declares its waits for children, so each deadlock is refused.
//!
//! The histories of `interlock_refinement` are compared with the machine step by step. The machine has no futures
//! inside futures, and no forfeits beside them, so these programs are not compared.

use cabrank::Interlock;
use cabrank::execution::interlock::{AcquireError, Running};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Returns the number of programs: as many as every run has time for, or `CABRANK_CASES`.
fn programs() -> u64 {
    match std::env::var("CABRANK_CASES") {
        Ok(text) => text.parse().expect("CABRANK_CASES is a number of programs"),
        Err(_) => 3_000,
    }
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

struct World {
    random: Cell<u64>,
    interlock: Interlock,
    running: Cell<u32>,
    alone: Cell<u32>,
    /// Whether owners are forfeited. A forfeited owner has no promises.
    forfeits: bool,
    /// Children that have begun and are not tasks yet.
    spawned: RefCell<Vec<Task>>,
    refused: Cell<u32>,
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
        assert!(right || self.forfeits, "{alone} alone, {running} run\n{}", self.interlock.dump());
        Counted(counter)
    }
    async fn runs(&self, running: &Running<'_>) {
        if running.has_share() {
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

    async fn loads(&self, running: &mut Running<'_>) {
        let Ok(loading) = running.load_async().await else { return };
        self.is_alone().await;
        if self.random(3) > 0 {
            loading.finish().await;
        }
    }
    async fn unloads(&self, running: &mut Running<'_>) {
        let Ok(unloading) = running.unload_async().await else { return };
        self.is_alone().await;
        if self.random(3) > 0 {
            unloading.finish().await;
        }
    }
    async fn permits(&self, running: &mut Running<'_>) {
        let permitted = async {
            yields(self.random(3)).await;
            if self.random(2) == 0 {
                let _ = self.interlock.try_run(|_| drop(self.count(&self.running)));
            }
            yields(self.random(2)).await;
        };
        let _ = running.permit_loads_async(permitted).await;
    }
    /// Runs a child in a permit block.
    async fn has_a_child(self: &Rc<Self>, running: &mut Running<'_>, depth: u32) {
        let child = running.child();
        let lives = async {
            let mut child = child.enter_async().await;
            self.body(&mut child, depth).await;
        };
        let _ = running.permit_waiting_async(lives).await;
    }
    /// Starts children as tasks, acts beside them, and waits for them.
    async fn has_children(self: &Rc<Self>, running: &mut Running<'_>, depth: u32) {
        let live = Rc::new(());
        for _ in 0..1 + self.random(2) {
            let (world, child, lives) = (self.clone(), running.child(), live.clone());
            self.spawned.borrow_mut().push(Box::pin(async move {
                let mut child = child.enter_async().await;
                world.body(&mut child, depth).await;
                drop(child);
                drop(lives);
            }));
        }
        yields(self.random(3)).await;
        if self.random(3) > 0 {
            drop(running.load_async().await); // It does not drain.
        }
        let over = poll_fn(move |_| match Rc::strong_count(&live) {
            1 => Poll::Ready(()),
            _ => Poll::Pending,
        });
        let waited = match self.random(2) {
            0 => running.permit_waiting_async(over).await,
            _ => running.waiting_async(over).await,
        };
        let is_told = matches!(waited, Err(AcquireError::Deadlock(_)));
        self.refused.set(self.refused.get() + u32::from(is_told));
    }
    fn body<'a>(
        self: &'a Rc<Self>,
        running: &'a mut Running<'static>,
        depth: u32,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            for _ in 0..1 + self.random(3) {
                self.runs(running).await;
                match self.random(7) {
                    0 => drop(self.perhaps(self.loads(running)).await),
                    1 => drop(self.perhaps(self.unloads(running)).await),
                    2 => drop(self.perhaps(self.permits(running)).await),
                    3 if depth > 0 => {
                        self.perhaps(self.has_a_child(running, depth - 1)).await;
                    }
                    4 if depth > 0 => {
                        self.has_children(running, depth - 1).await;
                    }
                    5 if running.has_share() => {
                        if let Ok(another) = self.interlock.try_enter() {
                            self.runs(&another).await;
                        }
                    }
                    _ => {
                        drop(running.child());
                        let _ = running.waiting_async(async {}).await;
                    }
                }
            }
            self.runs(running).await;
        })
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

async fn program(world: Rc<World>) {
    for _ in 0..1 + world.random(3) {
        let entered = match world.random(2) {
            0 => world.perhaps(world.interlock.enter_async()).await,
            _ => world.interlock.try_enter().ok(),
        };
        if let Some(mut running) = entered {
            world.body(&mut running, 2).await;
        }
        yields(world.random(2)).await;
    }
}

/// Runs a random program and returns the number of refused waits.
fn play(seed: u64, forfeits: bool) -> u32 {
    let interlock = Interlock::new();
    let world = Rc::new(World {
        random: Cell::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
        interlock: interlock.clone(),
        running: Cell::new(0),
        alone: Cell::new(0),
        forfeits,
        spawned: RefCell::default(),
        refused: Cell::new(0),
    });
    let program = |_| Some(Box::pin(program(world.clone())) as Task);
    let mut tasks: Vec<_> = (0..2 + world.random(4)).map(program).collect();
    let (mut cx, mut idle) = (Context::from_waker(Waker::noop()), 0);
    while tasks.iter().any(Option::is_some) {
        if forfeits && world.random(40) == 0 {
            let owners = interlock.dump().owners;
            if !owners.is_empty() {
                interlock.forfeit(owners[world.random(owners.len() as u64) as usize].id);
            }
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
        tasks.extend(world.spawned.take().into_iter().map(Some));
        assert!(idle < 20_000, "seed {seed}: no task goes on\n{}", interlock.dump());
    }
    let dump = interlock.dump();
    assert!(dump.owners.is_empty(), "seed {seed}: {dump}");
    interlock.run(|r| r.try_unload(|_| ())).expect("no owner is left");
    world.refused.get()
}

#[test]
fn random_tasks_end() {
    let refused: u32 = (1..=programs()).map(|seed| play(seed, false)).sum();
    assert!(refused > 0, "no wait was refused");
}

#[test]
fn random_tasks_end_although_some_are_forfeited() {
    (1..=programs()).for_each(|seed| {
        play(seed, true);
    });
}
