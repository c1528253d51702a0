//! A factory whose creations end when the model says so, its pools, and a runtime whose tasks the model polls.

use crate::kernel::sync::Mutex;
use crate::models::resource_pool::rig::*;
use crate::periodic_executor::{BoxFuture, Runtime};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::time::Instant;

#[derive(Clone, Copy, PartialEq)]
pub(in crate::models) enum Gate {
    Shut,
    Open,
    /// Creations fail.
    Fails,
}

/// The factory. Its numbers are no steps of the model.
#[derive(Clone)]
pub(in crate::models) struct Slow {
    pub(in crate::models) reentry: Reentry,
    /// The runtime of its pool.
    pub(in crate::models) hand: ByHand,
    begun: Arc<AtomicU32>,
    made: Arc<AtomicU32>,
    gone: Arc<AtomicU32>,
    gate: Arc<Mutex<(Gate, Vec<Waker>)>>,
}

pub(in crate::models) type SlowPool = ResourcePool<Async<Slow>>;
pub(in crate::models) type Got = Result<Borrowed<'static, Async<Slow>>, BorrowError<&'static str>>;
type Building = Builder<Async<Slow>, SlowPool>;

impl Slow {
    pub(in crate::models) fn new(gate: Gate) -> Slow {
        let gate = Arc::new(Mutex::new((gate, Vec::new())));
        let (begun, made, gone) = Default::default();
        let (reentry, hand) = Default::default();
        Slow { reentry, hand, begun, made, gone, gate }
    }
    /// Returns a factory, and its pool on a runtime. There are no time limits: the clock is manual.
    pub(in crate::models) fn pool_on(
        hand: &ByHand,
        gate: Gate,
        configure: impl FnOnce(Building) -> Building,
    ) -> (Slow, SlowPool) {
        let slow = Slow { hand: hand.clone(), ..Slow::new(gate) };
        let builder = configure(ResourcePool::builder(Async(slow.clone()), ()));
        let pool = builder.clock(crate::ManualClock::new().clock()).build_on(hand.clone());
        let pool: SlowPool = pool.expect("a valid pool");
        enable_for(&slow.reentry, &pool);
        (slow, pool)
    }
    /// Returns a factory, and its pool without a runtime. The factory's calls, and the wakers of futures that `reentry`
    /// polls, re-enter the pool.
    pub(in crate::models) fn pool(
        gate: Gate,
        configure: impl FnOnce(Building) -> Building,
    ) -> (Slow, SlowPool) {
        let slow = Slow::new(gate);
        let builder = configure(ResourcePool::builder(Async(slow.clone()), ()));
        let pool = builder.maintenance(false).build_async().expect("a valid pool");
        enable_for(&slow.reentry, &pool);
        (slow, pool)
    }
    /// Turns the gate, and wakes the creations that wait for it.
    pub(in crate::models) fn turn(&self, to: Gate) {
        let wakers = {
            let mut gate = self.gate.lock();
            gate.0 = to;
            std::mem::take(&mut gate.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
    pub(in crate::models) fn gate(&self) -> Gate {
        self.gate.lock().0
    }
    pub(in crate::models) fn begun(&self) -> u32 {
        self.begun.load(SeqCst)
    }
    pub(in crate::models) fn made(&self) -> u32 {
        self.made.load(SeqCst)
    }
    /// Polls once a call that cannot complete yet.
    pub(in crate::models) fn begin<T>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = T> + Send>> {
        let mut call = Box::pin(call);
        assert!(self.reentry.poll_once(call.as_mut()).is_pending());
        call
    }
    /// Closes the pool, and asserts that each resource that was made is destroyed.
    pub(in crate::models) fn end(&self, pool: &SlowPool) {
        pool.close();
        self.hand.run(self);
        assert!(pool.wait_closed(SECOND));
        assert_eq!(pool.num_total(), 0);
        assert_eq!(self.made(), self.gone.load(SeqCst), "a resource is lost");
    }
}

pub(in crate::models) async fn borrow(pool: SlowPool) -> Got {
    pool.borrow_async().await.map(Borrowed::into_owned)
}

impl AsyncResourceFactory for Slow {
    type Resource = u32;
    type Metadata = ();
    type Error = &'static str;

    async fn create(&self, (): &()) -> Result<u32, &'static str> {
        self.reentry.enter();
        let number = self.begun.fetch_add(1, SeqCst) + 1;
        let ends = poll_fn(|cx| {
            self.reentry.enter();
            let mut gate = self.gate.lock();
            if gate.0 != Gate::Shut {
                return Poll::Ready(gate.0);
            }
            gate.1.push(cx.waker().clone());
            Poll::Pending
        });
        if ends.await == Gate::Fails {
            return Err("on purpose");
        }
        self.made.fetch_add(1, SeqCst);
        Ok(number)
    }
    fn destroy(&self, (): &(), _: u32) {
        self.gone.fetch_add(1, SeqCst);
    }
}

/// A runtime whose tasks the model polls.
#[derive(Clone, Default)]
pub(in crate::models) struct ByHand(Arc<std::sync::Mutex<Vec<BoxFuture<()>>>>);

impl ByHand {
    pub(in crate::models) fn take(&self) -> Vec<BoxFuture<()>> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
    /// Polls all tasks to their end.
    pub(in crate::models) fn run(&self, slow: &Slow) {
        loop {
            let tasks = self.take();
            if tasks.is_empty() {
                return;
            }
            tasks.into_iter().for_each(|task| slow.reentry.block_on(task));
        }
    }
}

impl Runtime for ByHand {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        self.0.lock().expect("no panic").push(task);
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::pending()
    }
}

/// A runtime whose timers for up to ten seconds have ended.
pub(in crate::models) struct Soon(pub(in crate::models) ByHand);

impl Runtime for Soon {
    type Sleep = BoxFuture<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        self.0.spawn(task);
    }
    fn sleep_until(&self, at: Instant) -> BoxFuture<()> {
        match at < Instant::now() + 10 * SECOND {
            true => Box::pin(std::future::ready(())),
            false => Box::pin(std::future::pending()),
        }
    }
}
