//! Executions on threads of their own, that do what they are told, one thing after the other; and ways
//! to wait for what the dump shows, without sleeping.

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

/// What an actor was told to do.
pub(crate) struct Doing<T>(Receiver<T>);

impl Actor {
    /// It has entered when this returns.
    #[track_caller]
    pub(crate) fn enter(interlock: &Interlock) -> Actor {
        let ilk = interlock.clone();
        Actor::begin(interlock, move |body| ilk.run(body))
    }
    /// The same, as somebody's child.
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
    /// It does this next.
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
    /// The same; it has got to be in this state when this returns.
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
    /// Waits until it is in this state.
    #[track_caller]
    pub(crate) fn until(&self, state: OwnerState) {
        before_long(|| self.state() == Some(state));
    }
    pub(crate) fn state(&self) -> Option<OwnerState> {
        self.interlock.dump().owner(self.id).map(|owner| owner.state)
    }
    /// Its execution ends.
    #[track_caller]
    pub(crate) fn leave(self) {
        drop(self.orders);
        self.thread.join().expect("no panic in the thread");
    }
}

impl<T> Doing<T> {
    /// What came of it.
    #[track_caller]
    pub(crate) fn done(self) -> T {
        self.0.recv_timeout(SOON).expect("it comes to its end")
    }
    /// Whether it has not come to its end.
    pub(crate) fn is_stuck(&self) -> bool {
        matches!(self.0.try_recv(), Err(TryRecvError::Empty))
    }
}

/// Something on a thread of its own.
pub(crate) fn start<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Doing<T> {
    let (tell, done) = channel();
    std::thread::spawn(move || {
        // The test may not care.
        let _ = tell.send(work());
    });
    Doing(done)
}

/// Waits until `n` are in this state.
#[track_caller]
pub(crate) fn until(interlock: &Interlock, state: OwnerState, n: usize) {
    before_long(|| count(interlock, state) == n);
}
pub(crate) fn count(interlock: &Interlock, state: OwnerState) -> usize {
    interlock.dump().owners.iter().filter(|owner| owner.state == state).count()
}

/// A child of this actor's execution, which loads when it is told to, and says what came of it.
pub(crate) fn child_that_loads(parent: &Actor) -> (Sender<()>, Doing<Result<(), AcquireError>>) {
    let child = parent.tell(|r| r.child()).done();
    let (tell, told) = channel();
    let loads = start(move || {
        child.run(|r| {
            told.recv().expect("it is told");
            r.load(|_| ())
        })
    });
    (tell, loads)
}

/// What whoever closed a circle was told.
#[track_caller]
pub(crate) fn deadlock<T>(result: Result<T, AcquireError>) -> Box<Deadlock> {
    match result {
        Err(AcquireError::Deadlock(deadlock)) => deadlock,
        Err(other) => panic!("a deadlock, not {other}"),
        Ok(_) => panic!("a deadlock"),
    }
}

/// An actor that waits for its children until it is told that they have ended.
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
