//! Players: each carries out orders on a thread of its own, nested as ordered, and answers each.

use crate::interlock_refinement::history::{Block, How};
use cabrank::Interlock;
use cabrank::execution::interlock::{AcquireError, Child, OwnerId, Running};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) enum Order {
    Begin(Block, Limit),
    BeginChild(Child, Limit),
    Token,
    Poll,
    Cancel,
    /// Ends the innermost block, or the player if it has none. `dropped`: drops the guard of a task, or panics out
    /// of a thread's block.
    End {
        dropped: bool,
    },
}

/// [`How`] long, with the time until the deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    Forever,
    Try,
    For(Duration),
    Task,
}

impl Limit {
    pub(crate) fn new(how: How, until: Duration) -> Limit {
        match how {
            How::Forever => Limit::Forever,
            How::Try => Limit::Try,
            How::For => Limit::For(until),
            How::Task => Limit::Task,
        }
    }
}

/// The answer to an order.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It is inside the block.
    Began(Option<OwnerId>),
    /// It is outside again.
    Over,
    /// Another owner had unloaded.
    Skipped,
    Refused(AcquireError),
    /// The future is pending.
    Pends,
    /// The future was dropped.
    GaveUp,
    Token(Child),
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
    /// The wakers of earlier polls and futures, with their numbers of wakes at the time.
    former: Vec<(Arc<Woken>, usize)>,
    /// Whether the test ends: every block ends.
    closing: bool,
    gone: bool,
}

/// Counts the wakes of a task since its poll. Each poll has its own count, because a future may be polled inside
/// the poll of another, and waking one does not wake the other.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
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
        let inside = Inside { port: port.clone(), interlock: interlock.clone() };
        Player { port, thread: std::thread::spawn(move || inside.play()) }
    }
    pub(crate) fn order(&self, order: Order) {
        self.port.on_desk(|desk| desk.order = Some(order));
        self.port.changed.notify_all();
    }
    /// Returns its last answer, if it waits for an order again.
    pub(crate) fn take_answer(&self) -> Option<Answer> {
        self.port.on_desk(|desk| desk.answer.take())
    }
    /// Returns whether it is busy: it neither waits for an order nor has answered.
    pub(crate) fn is_busy(&self) -> bool {
        self.port.on_desk(|desk| desk.answer.is_none() && !desk.gone)
    }
    /// Waits until it has answered, up to a limit.
    pub(crate) fn wait(&self, until: Instant) {
        let silent = |desk: &mut Desk| desk.answer.is_none() && !desk.gone;
        drop(self.port.wait_while(until, silent));
    }
    pub(crate) fn was_woken(&self) -> bool {
        self.port.on_desk(|desk| desk.pends.as_ref().is_some_and(|task| task.0.load(SeqCst) > 0))
    }
    /// Returns whether a waker was woken that is no longer in use, unless another player woke the future just as it
    /// was polled.
    pub(crate) fn was_woken_in_vain(&self, forgiven: bool) -> bool {
        self.port.on_desk(|desk| {
            let mut in_vain = false;
            for (woken, before) in &mut desk.former {
                let times = woken.0.load(SeqCst);
                in_vain |= times != std::mem::replace(before, times);
            }
            in_vain && !forgiven
        })
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
    /// Inside the section of a task's guard, which is no scope; or during a wait for its children.
    Bare,
}

/// The way in which a block was ordered to end.
struct Dropped(bool);

/// The panic of a player that was ordered to panic.
struct ToldTo;

impl Dropped {
    /// A closure has no guard to drop.
    fn or_panic(self) {
        if self.0 {
            resume_unwind(Box::new(ToldTo)); // without a message
        }
    }
}

impl Inside {
    fn play(&self) {
        self.block(None, Place::Outside);
    }

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
            let order = self.next(answer);
            if let Order::End { dropped } = order {
                return Dropped(dropped);
            }
            let done = catch_unwind(AssertUnwindSafe(|| self.carry_out(order, &mut place)));
            answer = Some(done.unwrap_or_else(|panic| match panic.downcast::<ToldTo>() {
                Ok(_) => Answer::Over,
                Err(panic) => resume_unwind(panic),
            }));
        }
    }
    fn carry_out(&self, order: Order, place: &mut Place) -> Answer {
        match (order, place) {
            (Order::Begin(block, limit), Place::Outside) => self.begin(block, limit),
            (Order::BeginChild(child, limit), _) => self.begin_child(child, limit),
            (Order::Begin(Block::Run, limit), Place::Shared(r)) => r.in_scope(|| self.run(limit)),
            (Order::Begin(block, limit), Place::Shared(r)) => self.ask(r, block, limit),
            (Order::Begin(_, limit), Place::Nests) => self.run(limit),
            (Order::Token, Place::Shared(r)) => Answer::Token(r.child()),
            (Order::Begin(..), Place::Bare)
            | (Order::Token | Order::Poll | Order::Cancel | Order::End { .. }, _) => {
                unreachable!("there is no such order here")
            }
        }
    }
    /// The same in an execution.
    fn shared(&self, r: &mut Running<'_>) -> Dropped {
        self.block(Some(Answer::Began(Some(r.id()))), Place::Shared(r))
    }
    fn within(&self, place: Place) -> Dropped {
        self.block(Some(Answer::Began(None)), place)
    }

    /// Outside any execution.
    fn begin(&self, block: Block, limit: Limit) -> Answer {
        let ilk = &self.interlock;
        let alone = || self.within(Place::Nests).or_panic();
        match (block, limit) {
            (Block::Load, Limit::Try) => told(ilk.try_load(|_| alone())),
            (Block::Load, Limit::For(time)) => told(ilk.load_timeout(time, |_| alone())),
            (Block::Load, _) => told(ilk.load(|_| alone())),
            (Block::Unload, Limit::Try) => told(ilk.try_unload(|_| alone())),
            (Block::Unload, Limit::For(time)) => told(ilk.unload_timeout(time, |_| alone())),
            (Block::Unload, _) => told(ilk.unload(|_| alone())),
            (_, Limit::Task) => self.guard(ilk.enter_async()),
            _ => self.run(limit),
        }
    }
    fn begin_child(&self, child: Child, limit: Limit) -> Answer {
        match limit {
            Limit::Task => self.guard(child.enter_async()),
            Limit::Try => told(child.try_run(|r| self.shared(r).or_panic())),
            Limit::For(time) => told(child.run_timeout(time, |r| self.shared(r).or_panic())),
            Limit::Forever => {
                child.run(|r| self.shared(r).or_panic());
                Answer::Over
            }
        }
    }
    fn guard(&self, enters: impl Future<Output = Running<'static>>) -> Answer {
        let Some(mut running) = self.poll(enters) else { return Answer::GaveUp };
        self.shared(&mut running);
        Answer::Over
    }
    /// Runs an execution, or one more share of the one on this thread.
    fn run(&self, limit: Limit) -> Answer {
        let ilk = &self.interlock;
        match limit {
            Limit::Forever | Limit::Task => {
                ilk.run(|r| self.shared(r).or_panic());
                Answer::Over
            }
            Limit::Try => told(ilk.try_run(|r| self.shared(r).or_panic())),
            Limit::For(time) => told(ilk.run_timeout(time, |r| self.shared(r).or_panic())),
        }
    }

    /// Carries out a block in an execution.
    fn ask(&self, r: &mut Running<'_>, block: Block, limit: Limit) -> Answer {
        let alone = || self.within(Place::Nests).or_panic();
        match (block, limit) {
            (Block::Run, _) => unreachable!("it nests"),
            (Block::Load, Limit::Forever) => told(r.load(|_| alone())),
            (Block::Load, Limit::Try) => told(r.try_load(|_| alone())),
            (Block::Load, Limit::For(time)) => told(r.load_timeout(time, |_| alone())),
            (Block::Unload, Limit::Forever) => told(r.unload(|_| alone())),
            (Block::Unload, Limit::Try) => told(r.try_unload(|_| alone())),
            (Block::Unload, Limit::For(time)) => told(r.unload_timeout(time, |_| alone())),
            (Block::Load, Limit::Task) => match self.poll(r.load_async()) {
                None => Answer::GaveUp,
                Some(Err(error)) => Answer::Refused(error),
                Some(Ok(guard)) => match self.within(Place::Bare) {
                    Dropped(true) => drop_of(guard),
                    Dropped(false) => over(self.poll(guard.finish())),
                },
            },
            (Block::Unload, Limit::Task) => match self.poll(r.unload_async()) {
                None => Answer::GaveUp,
                Some(Err(error)) => Answer::Refused(error),
                Some(Ok(guard)) => match self.within(Place::Bare) {
                    Dropped(true) => drop_of(guard),
                    Dropped(false) => over(self.poll(guard.finish())),
                },
            },
            (Block::UnloadOnce, Limit::Task) => {
                let seen = self.interlock.generation();
                match self.poll(r.unload_once_async(seen)) {
                    None => Answer::GaveUp,
                    Some(Err(error)) => Answer::Refused(error),
                    Some(Ok(None)) => Answer::Skipped,
                    Some(Ok(Some(guard))) => match self.within(Place::Bare) {
                        Dropped(true) => drop_of(guard),
                        Dropped(false) => over(self.poll(guard.finish())),
                    },
                }
            }
            (Block::UnloadOnce, _) => {
                let seen = self.interlock.generation();
                let unloaded = match limit {
                    Limit::Try => r.try_unload_once(seen, |_| alone()),
                    Limit::For(time) => r.unload_once_timeout(seen, time, |_| alone()),
                    _ => r.unload_once(seen, |_| alone()),
                };
                match unloaded {
                    Ok(Some(())) => Answer::Over,
                    Ok(None) => Answer::Skipped,
                    Err(error) => Answer::Refused(error),
                }
            }
            (Block::Permit, Limit::Task) => self.ended(r.permit_loads_async(async {
                self.within(Place::Nests);
            })),
            (Block::PermitWait, Limit::Task) => self.ended(r.permit_waiting_async(async {
                self.within(Place::Bare);
            })),
            (Block::Wait, Limit::Task) => self.ended(r.waiting_async(async {
                self.within(Place::Bare);
            })),
            (Block::Permit, _) => told(r.permit_loads(alone)),
            (Block::PermitWait, _) => {
                told(r.permit_waiting(|| self.within(Place::Bare).or_panic()))
            }
            (Block::Wait, _) => told(r.waiting(|| self.within(Place::Bare).or_panic())),
        }
    }

    fn ended(&self, block: impl Future<Output = Result<(), AcquireError>>) -> Answer {
        match self.poll(block) {
            Some(Err(error)) => Answer::Refused(error),
            ended => over(ended.map(|_| ())),
        }
    }
    /// Polls a future on each order. Returns `None` if it was ordered to drop the future.
    fn poll<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        loop {
            let woken = Arc::new(Woken::default());
            let waker = Waker::from(woken.clone());
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            let is_former = |desk: &mut Desk, woken: Arc<Woken>| {
                let times = woken.0.load(SeqCst);
                desk.former.push((woken, times));
            };
            if let Poll::Ready(output) = polled {
                self.port.on_desk(|desk| is_former(desk, woken));
                return Some(output);
            }
            self.port.on_desk(|desk| desk.pends = Some(woken.clone()));
            let order = self.next(Some(Answer::Pends));
            self.port.on_desk(|desk| is_former(desk, woken));
            let Order::Poll = order else { return None };
        }
    }
}

fn told<T>(result: Result<T, AcquireError>) -> Answer {
    match result {
        Ok(_) => Answer::Over,
        Err(error) => Answer::Refused(error),
    }
}
fn over(ended: Option<()>) -> Answer {
    ended.map_or(Answer::GaveUp, |()| Answer::Over)
}
fn drop_of<T>(guard: T) -> Answer {
    drop(guard);
    Answer::Over
}
