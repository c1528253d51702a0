//! Executions on threads of their own, which carry out orders one after the other, and waits for a state of the
//! dump without sleeping.

use crate::common::{SOON, before_long};
use cabrank::Interlock;
use cabrank::execution::interlock::OwnerState::{Permitting, WaitingForChildren};
use cabrank::execution::interlock::{AcquireError, Child, Deadlock, OwnerId, OwnerState, Running};
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
        let ilk = interlock.clone();
        Actor::begin(interlock, move |body| ilk.run(body))
    }
    /// Starts an actor as a child and waits until it has entered.
    #[track_caller]
    pub(crate) fn enter_as(interlock: &Interlock, child: Child) -> Actor {
        Actor::begin(interlock, move |body| child.run(body))
    }
    #[track_caller]
    fn begin(
        interlock: &Interlock,
        run: impl FnOnce(&mut dyn FnMut(&mut Running<'_>)) + Send + 'static,
    ) -> Actor {
        let (tell, id) = channel();
        let (orders, theirs) = channel::<Order>();
        let thread = std::thread::spawn(move || {
            run(&mut |r| {
                tell.send(r.id()).expect("the test waits for it");
                for order in &theirs {
                    order(r);
                }
            });
        });
        let id = id.recv_timeout(SOON).expect("it enters");
        Actor { interlock: interlock.clone(), id, orders, thread }
    }
    /// Orders the actor to do this next.
    pub(crate) fn tell<T: Send + 'static>(
        &self,
        order: impl FnOnce(&mut Running<'_>) -> T + Send + 'static,
    ) -> Doing<T> {
        let (tell, done) = channel();
        let order: Order = Box::new(move |r| {
            let result = order(r);
            // The test may not care.
            let _ = tell.send(result);
        });
        self.orders.send(order).expect("it still runs");
        Doing(done)
    }
    /// Orders the actor to do this, and waits until it is in the given state.
    #[track_caller]
    pub(crate) fn tell_until<T: Send + 'static>(
        &self,
        state: OwnerState,
        order: impl FnOnce(&mut Running<'_>) -> T + Send + 'static,
    ) -> Doing<T> {
        let doing = self.tell(order);
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
    /// Returns whether the result is still pending.
    pub(crate) fn is_stuck(&self) -> bool {
        matches!(self.0.try_recv(), Err(TryRecvError::Empty))
    }
}

/// Starts work on a thread of its own.
pub(crate) fn start<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Doing<T> {
    let (tell, done) = channel();
    std::thread::spawn(move || {
        // The test may not care.
        let _ = tell.send(work());
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

/// Starts a child of this actor's execution, which loads when the test sends. Returns the sender and the child's
/// result.
pub(crate) fn child_that_loads(parent: &Actor) -> (Sender<()>, Doing<Result<(), AcquireError>>) {
    let child = parent.tell(|r| r.child()).done();
    let (tell, told) = channel();
    let loads = start(move || {
        child.run(|r| {
            told.recv().expect("the test sends");
            r.load(|_| ())
        })
    });
    (tell, loads)
}

/// Returns the deadlock with which the owner that closed a cycle was refused.
#[track_caller]
pub(crate) fn deadlock<T>(result: Result<T, AcquireError>) -> Box<Deadlock> {
    match result {
        Err(AcquireError::Deadlock(deadlock)) => deadlock,
        Err(other) => panic!("a deadlock, not {other}"),
        Ok(_) => panic!("a deadlock"),
    }
}

/// Lets an actor wait for its children until the test drops the sender.
pub(crate) fn waits(actor: &Actor, permits: bool) -> Sender<()> {
    let (over, wait) = channel::<()>();
    let until_told = move || {
        let _ = wait.recv();
    };
    match permits {
        true => drop(actor.tell_until(Permitting, |r| r.permit_waiting(until_told))),
        false => drop(actor.tell_until(WaitingForChildren, |r| r.waiting(until_told))),
    }
    over
}
