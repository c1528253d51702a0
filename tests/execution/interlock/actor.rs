//! Executions on threads of their own, which carry out orders one after the other, and waits for a state of the
//! dump without sleeping.

use crate::common::{SOON, before_long};
use crate::polling::poll;
use cabrank::Interlock;
use cabrank::execution::interlock::{
    AcquireError, Blocked, OwnerId, OwnerState, Running, Unloading,
};
use std::future::Future;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

type Order = Box<dyn FnOnce(&mut Running<'_>) + Send>;

/// An execution on a thread of its own.
pub(crate) struct Actor {
    interlock: Interlock,
    pub(crate) id: OwnerId,
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

/// A pending result of an order.
pub(crate) struct Doing<T>(Receiver<T>);

impl Actor {
    /// Starts an actor and waits until it has entered.
    #[track_caller]
    pub(crate) fn enter(interlock: &Interlock) -> Actor {
        let (report, id) = channel();
        let (orders, theirs) = channel::<Order>();
        let ilk = interlock.clone();
        let thread = std::thread::spawn(move || {
            let ran = ilk.run(|r| {
                report.send(r.id()).expect("the test waits for it");
                for order in &theirs {
                    order(r);
                }
            });
            ran.expect("there is no time limit");
        });
        let id = id.recv_timeout(SOON).expect("it enters");
        Actor { interlock: interlock.clone(), id, orders, thread }
    }
    /// Orders the actor to do this next.
    pub(crate) fn order<T: Send + 'static>(
        &self,
        order: impl FnOnce(&mut Running<'_>) -> T + Send + 'static,
    ) -> Doing<T> {
        let (report, done) = channel();
        let order: Order = Box::new(move |r| {
            let result = order(r);
            // The test may not care.
            let _ = report.send(result);
        });
        self.orders.send(order).expect("it still runs");
        Doing(done)
    }
    /// Orders the actor to do this, and waits until it is in the given state.
    #[track_caller]
    pub(crate) fn order_until<T: Send + 'static>(
        &self,
        state: OwnerState,
        order: impl FnOnce(&mut Running<'_>) -> T + Send + 'static,
    ) -> Doing<T> {
        let doing = self.order(order);
        self.until(state);
        doing
    }
    /// Waits until the actor is in this state.
    #[track_caller]
    pub(crate) fn until(&self, state: OwnerState) {
        before_long(|| self.state() == Some(state));
    }
    pub(crate) fn state(&self) -> Option<OwnerState> {
        self.interlock.dump().owner(self.id).map(|owner| owner.state)
    }
    /// Ends the actor's execution.
    #[track_caller]
    pub(crate) fn leave(self) {
        drop(self.orders);
        self.thread.join().expect("no panic in the thread");
    }
}

impl<T> Doing<T> {
    /// Returns the result.
    #[track_caller]
    pub(crate) fn done(self) -> T {
        self.0.recv_timeout(SOON).expect("it comes to its end")
    }
    /// Returns the result, or this if it is still pending.
    pub(crate) fn ready(self) -> Result<T, Self> {
        match self.0.try_recv() {
            Ok(result) => Ok(result),
            Err(TryRecvError::Empty) => Err(self),
            Err(TryRecvError::Disconnected) => panic!("it has panicked"),
        }
    }
    /// Returns whether the result is still pending.
    pub(crate) fn is_stuck(&self) -> bool {
        matches!(self.0.try_recv(), Err(TryRecvError::Empty))
    }
}

/// Starts work on a thread of its own.
pub(crate) fn start<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Doing<T> {
    let (report, done) = channel();
    std::thread::spawn(move || {
        // The test may not care.
        let _ = report.send(work());
    });
    Doing(done)
}

/// Waits until `n` owners are in this state.
#[track_caller]
pub(crate) fn until(interlock: &Interlock, state: OwnerState, n: usize) {
    before_long(|| count(interlock, state) == n);
}
pub(crate) fn count(interlock: &Interlock, state: OwnerState) -> usize {
    interlock.dump().owners.iter().filter(|owner| owner.state == state).count()
}

/// Returns whether a future has to wait at its first poll. Then it is dropped.
pub(crate) fn has_to_wait(future: impl Future) -> bool {
    poll(future).is_pending()
}
pub(crate) fn newcomer_waits(interlock: &Interlock) -> bool {
    has_to_wait(interlock.run_async(async |_| ()))
}
pub(crate) fn load_waits(r: &mut Running<'_>) -> bool {
    has_to_wait(r.load_async(async |_| ()))
}
pub(crate) fn unload_waits(interlock: &Interlock) -> bool {
    has_to_wait(interlock.unload_async(async |_| ()))
}
/// Starts an unload on a thread of its own, and waits until it waits, to enter or to unload.
#[track_caller]
pub(crate) fn start_unload<T: Send + 'static>(
    interlock: &Interlock,
    unload: impl FnOnce(&mut Unloading<'_>) -> T + Send + 'static,
) -> Doing<Result<T, AcquireError>> {
    let waiting =
        || count(interlock, OwnerState::WaitingToUnload) + count(interlock, OwnerState::Entering);
    let (theirs, before) = (interlock.clone(), waiting());
    let unloads = start(move || theirs.unload(unload));
    before_long(|| waiting() > before);
    unloads
}

/// Returns the deadlock with which a call was refused.
#[track_caller]
pub(crate) fn deadlock<T>(result: Result<T, AcquireError>) -> Box<Blocked> {
    match result {
        Err(AcquireError::Deadlock(blocked)) => blocked,
        Err(other) => panic!("a deadlock, not {other}"),
        Ok(_) => panic!("a deadlock"),
    }
}
/// Returns what blocked a call until its time limit.
#[track_caller]
pub(crate) fn timed_out<T>(result: Result<T, AcquireError>) -> Box<Blocked> {
    match result {
        Err(AcquireError::TimedOut(blocked)) => blocked,
        Err(other) => panic!("a timeout, not {other}"),
        Ok(_) => panic!("a timeout"),
    }
}
