//! Players: each carries out orders on a thread of its own, nested as ordered, and answers each.

use crate::interlock_refinement::history::Block;
use cabrank::Interlock;
use cabrank::execution::interlock::{AcquireError, Running};
use std::cell::Cell;
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use std::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// `has_share`: whether the execution around it has its share.
    Begin {
        block: Block,
        task: bool,
        has_share: bool,
    },
    Poll,
    Cancel,
    /// Ends the innermost block, or the player if it has none. `dropped`: drops the future of a task, or panics out
    /// of a thread's block.
    End {
        dropped: bool,
    },
}

/// The answer to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is inside the block.
    Began,
    /// It is outside again.
    Over,
    Deadlock,
    TimedOut,
    /// The future is pending.
    Pends,
    /// The future was dropped.
    GaveUp,
}

/// The channel between the test and a player.
#[derive(Default)]
struct Port {
    desk: Mutex<Desk>,
    changed: Condvar,
}

#[derive(Default)]
struct Desk {
    order: Option<Order>,
    answer: Option<Answer>,
    /// The waker of the last poll, while it is pending.
    pends: Option<Arc<Woken>>,
    /// Whether the test ends: every block ends.
    closing: bool,
    gone: bool,
}

/// Notes whether a task was woken since its poll. Each poll has its own, because a future may be polled inside the
/// poll of another.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// The test's side of a player.
pub(crate) struct Player {
    port: Arc<Port>,
    thread: JoinHandle<()>,
}

impl Player {
    pub(crate) fn new(interlock: &Interlock) -> Player {
        let port = Arc::new(Port::default());
        let (theirs, interlock) = (port.clone(), interlock.clone());
        let thread = std::thread::spawn(move || {
            let inside = Inside { port: theirs, interlock, drops: Cell::new(false) };
            inside.block(None, Place::Outside);
        });
        Player { port, thread }
    }
    pub(crate) fn order(&self, order: Order) {
        self.port.on_desk(|desk| desk.order = Some(order));
        self.port.changed.notify_all();
    }
    /// Returns its answer, if it gives one before the limit.
    pub(crate) fn answer(&self, until: Instant) -> Option<Answer> {
        self.port.wait_while(until, |desk| desk.answer.is_none() && !desk.gone).answer.take()
    }
    pub(crate) fn was_woken(&self) -> bool {
        self.port.on_desk(|desk| desk.pends.as_ref().is_some_and(|task| task.0.load(SeqCst)))
    }
    /// Makes it end every block from now on.
    pub(crate) fn close(&self) {
        self.port.on_desk(|desk| desk.closing = true);
        self.port.changed.notify_all();
    }
    /// Returns whether it has ended before the limit.
    pub(crate) fn has_ended(self, before: Instant) -> bool {
        let ended = self.port.wait_while(before, |desk| !desk.gone).gone;
        // A hanging player is left behind.
        ended && self.thread.join().is_ok()
    }
}

impl Port {
    fn on_desk<R>(&self, f: impl FnOnce(&mut Desk) -> R) -> R {
        f(&mut self.desk.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn wait_while(&self, until: Instant, holds: fn(&mut Desk) -> bool) -> MutexGuard<'_, Desk> {
        let desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(desk, left, holds);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The player's side.
struct Inside {
    port: Arc<Port>,
    interlock: Interlock,
    /// The innermost future is to be dropped in its body.
    drops: Cell<bool>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.port.on_desk(|desk| desk.gone = true);
        self.port.changed.notify_all();
    }
}

/// The place of a player, which limits its orders.
enum Place<'a, 'r> {
    Outside,
    Shared(&'a mut Running<'r>),
    /// Inside a section or a permit block, where a `run` nests.
    Nests,
}

/// Whether a block was ordered to end by a drop or a panic.
struct Dropped(bool);

/// The panic of a player that was ordered to panic.
struct Ordered;

impl Dropped {
    /// A closure has no guard to drop.
    fn or_panic(self) {
        if self.0 {
            resume_unwind(Box::new(Ordered)); // without a message
        }
    }
}

impl Inside {
    /// Answers, and waits for the next order.
    fn next(&self, answer: Option<Answer>) -> Order {
        let mut desk = self.port.desk.lock().unwrap_or_else(PoisonError::into_inner);
        if answer.is_some() {
            desk.answer = answer;
            self.port.changed.notify_all();
        }
        loop {
            if desk.closing {
                return Order::End { dropped: false };
            }
            if let Some(order) = desk.order.take() {
                return order;
            }
            desk = self.port.changed.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Carries orders out until one ends this block.
    fn block(&self, first: Option<Answer>, mut place: Place) -> Dropped {
        let mut answer = first;
        loop {
            let (block, task) = match self.next(answer) {
                Order::End { dropped } => return Dropped(dropped),
                Order::Begin { block, task, has_share } => {
                    if let Place::Shared(r) = &place {
                        assert_eq!(r.has_share(), has_share, "whether it has its share");
                    }
                    (block, task)
                }
                order => unreachable!("{order:?} without a pending future"),
            };
            let done = catch_unwind(AssertUnwindSafe(|| match task {
                true => self.begin_task(block, &mut place),
                false => self.begin(block, &mut place),
            }));
            answer = Some(done.unwrap_or_else(|panic| match panic.downcast::<Ordered>() {
                Ok(_) => Answer::Over,
                Err(panic) => resume_unwind(panic),
            }));
        }
    }
    fn within(&self, place: Place) -> Dropped {
        self.block(Some(Answer::Began), place)
    }
    /// Carries orders out inside one poll. If the future is to be dropped, it is pending instead of ready.
    async fn body(&self, place: Place<'_, '_>) {
        if self.within(place).0 {
            self.drops.set(true);
            pending::<()>().await;
        }
    }

    fn begin(&self, block: Block, place: &mut Place) -> Answer {
        let ilk = &self.interlock;
        let nests = || self.within(Place::Nests).or_panic();
        answer(match (block, place) {
            (Block::Run, _) => ilk.run(|r| self.within(Place::Shared(r)).or_panic()),
            (Block::Unload, _) => ilk.unload(|_| nests()),
            (Block::Load, Place::Shared(r)) => r.load(|_| nests()),
            (Block::Permit, Place::Shared(r)) => r.permit_loads(nests),
            (block, _) => unreachable!("{block:?} outside of an execution"),
        })
    }
    fn begin_task(&self, block: Block, place: &mut Place) -> Answer {
        let ilk = &self.interlock;
        match (block, place) {
            (Block::Run, _) => {
                self.poll(ilk.run_async(async |r| self.body(Place::Shared(r)).await))
            }
            (Block::Unload, _) => {
                self.poll(ilk.unload_async(async |_| self.body(Place::Nests).await))
            }
            (Block::Load, Place::Shared(r)) => {
                self.poll(r.load_async(async |_| self.body(Place::Nests).await))
            }
            (Block::Permit, Place::Shared(r)) => {
                self.poll(r.permit_loads_async(self.body(Place::Nests)))
            }
            (block, _) => unreachable!("{block:?} outside of an execution"),
        }
    }
    /// Polls a future on each order, to its end or until it is ordered to drop it.
    fn poll(&self, future: impl Future<Output = Result<(), AcquireError>>) -> Answer {
        let mut future = pin!(future);
        loop {
            let woken = Arc::new(Woken::default());
            let waker = Waker::from(woken.clone());
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return answer(output);
            }
            if self.drops.take() {
                return Answer::Over;
            }
            self.port.on_desk(|desk| desk.pends = Some(woken));
            let Order::Poll = self.next(Some(Answer::Pends)) else { return Answer::GaveUp };
        }
    }
}

fn answer(result: Result<(), AcquireError>) -> Answer {
    match result {
        Ok(()) => Answer::Over,
        Err(AcquireError::Deadlock(_)) => Answer::Deadlock,
        Err(AcquireError::TimedOut(_)) => Answer::TimedOut,
        Err(error) => panic!("an unknown error: {error}"),
    }
}
