//! Clients, spawns, a detach and a change of limits at once, against the specification. Shuttle only.
//!
//! Every operation is recorded with its beginning, its end and what it gave. There must be an order in
//! which the machine of `spec/`, taking one operation after the other, gives the same, and which keeps what
//! ended before something else began in its place: then the pool is *linearizable*, and what was
//! found out about the machine holds of the pool under concurrency. stateright's tester looks for the
//! order.
//!
//! What is one operation here is one critical section: the poll of a waiting get; the end of a spawn, from
//! before the spawner returns until its process is told of. The first poll of a get may be two (it
//! queues up, and looks whether it has been served since), so that it was served is then held against
//! the machine when it closes its session.

use super::rig::{Bell, spawn};
use crate::in_memory::{Handle, InMemorySpawner};
use crate::sync::explore::explore_large;
use crate::{ApplicationPool, ConnectError, Event, Identifier, PoolOptions, Process};
use crate::{ShutDown, SpawnError, SpawnRequest, Spawner};
use cabrank_spec::configuration::{Config, Options};
use cabrank_spec::pool::{Action, At, Pool, SpawnResult};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

const GROUPS: [&str; 2] = ["/a", "/b"];

#[derive(Clone, Debug, PartialEq)]
enum Op {
    Get { client: usize, group: usize },
    Look { client: usize },
    TryGet { client: usize, group: usize },
    Close { client: usize },
    SpawnEnds { ticket: usize },
    Detach { process: usize },
    SetMax(usize),
    Counts,
}

#[derive(Clone, Debug, PartialEq)]
enum Ret {
    Done,
    Served(usize),
    Waits,
    Fails,
    Found(bool),
    Attached(bool),
    /// Processes, active ones, spawns, draining ones, gets that wait.
    Counts([usize; 5]),
}

/// The machine, and whom it must have served before they close.
#[derive(Clone)]
struct Machine {
    pool: Pool,
    promised: Vec<Option<usize>>,
}

impl Machine {
    fn status(&self, client: usize) -> Ret {
        match self.pool.clients[client].at {
            At::InSession(Some(process)) => Ret::Served(process),
            At::Waiting(_) => Ret::Waits,
            _ => Ret::Fails,
        }
    }
}

impl SequentialSpec for Machine {
    type Op = Op;
    type Ret = Ret;

    fn invoke(&mut self, op: &Op) -> Ret {
        match *op {
            Op::Get { client, group } => {
                self.pool.apply(&Action::Get { client, group });
                self.status(client)
            }
            Op::TryGet { client, group } => {
                self.pool.apply(&Action::TryGet { client, group });
                self.status(client)
            }
            Op::Look { client } => self.status(client),
            Op::Close { client } => {
                let has = self.status(client);
                let promised = self.promised[client].take();
                if promised.is_some_and(|process| has != Ret::Served(process)) {
                    return Ret::Fails;
                }
                self.pool.apply(&Action::CloseSession { client });
                Ret::Done
            }
            Op::SpawnEnds { ticket } => {
                if !self.pool.spawns.iter().any(|spawn| spawn.ticket == ticket) {
                    return Ret::Fails;
                }
                self.pool.apply(&Action::SpawnEnds { ticket, result: SpawnResult::Process });
                Ret::Attached(
                    self.pool
                        .told
                        .iter()
                        .any(|event| matches!(event, cabrank_spec::pool::Event::Attached { .. })),
                )
            }
            Op::Detach { process } => {
                let attached = self.pool.find(process).is_some_and(|p| !p.detached);
                self.pool.apply(&Action::Detach { process });
                Ret::Found(attached)
            }
            Op::SetMax(max) => {
                self.pool.apply(&Action::SetMax(max));
                Ret::Done
            }
            Op::Counts => {
                let p = &self.pool;
                let active = usize::try_from(p.active).expect("never negative as ruled");
                Ret::Counts([p.count, active, p.spawns.len(), p.draining.len(), p.waiting])
            }
        }
    }

    fn is_valid_step(&mut self, op: &Op, ret: &Ret) -> bool {
        let gives = self.invoke(op);
        if let (Op::Get { client, .. }, Ret::Served(process), Ret::Waits) = (op, ret, &gives) {
            self.promised[*client] = Some(*process);
            return true;
        }
        gives == *ret
    }
}

/// The history, as the tester wants it: clients by their numbers, spawns by their tickets.
#[derive(Clone)]
struct History(Arc<Mutex<LinearizabilityTester<usize, Machine>>>);

const SPAWNS: usize = 100;
const OTHERS: usize = 50;

impl History {
    fn new(clients: usize, max: usize) -> Self {
        let groups = GROUPS.iter().enumerate().map(|(dir, name)| Options::new(name).dir(dir));
        let pool = Pool::new(Config::new(groups.collect(), max, clients));
        let machine = Machine { pool, promised: vec![None; clients] };
        History(Arc::new(Mutex::new(LinearizabilityTester::new(machine))))
    }
    fn invoke(&self, thread: usize, op: Op) {
        let mut tester = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tester.on_invoke(thread, op).expect("one at a time");
    }
    fn gave(&self, thread: usize, ret: Ret) {
        let mut tester = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tester.on_return(thread, ret).expect("it has begun");
    }
    fn during<T>(&self, thread: usize, op: Op, f: impl FnOnce() -> (Ret, T)) -> T {
        self.invoke(thread, op);
        let (ret, result) = f();
        self.gave(thread, ret);
        result
    }
    fn assert_linearizable(&self) {
        let tester = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(tester.is_consistent(), "no order explains {tester:#?}");
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Machine")
    }
}

/// Records when its spawns begin to end, and those that nobody wanted.
struct Recording(InMemorySpawner, History, Attached);
/// The processes of which the pool has told that they are attached.
type Attached = Arc<Mutex<BTreeSet<usize>>>;
struct Recorded {
    process: Handle,
    ticket: usize,
    /// On which thread it was spawned: who disposes of it there, without having told that it is
    /// attached, never attached it.
    spawned_on: usize,
    attached: Attached,
    history: History,
}

impl Spawner for Recording {
    type Process = Recorded;
    fn spawn(&self, request: &SpawnRequest) -> Result<Recorded, SpawnError> {
        let ticket = number(request.identifier());
        let process = self.0.spawn(request)?;
        self.1.invoke(SPAWNS + ticket, Op::SpawnEnds { ticket });
        let (history, attached) = (self.1.clone(), self.2.clone());
        Ok(Recorded { process, ticket, spawned_on: crate::sync::me(), attached, history })
    }
}

impl Process for Recorded {
    type Connection = ();
    fn connect(&self) -> Result<(), ConnectError> {
        self.process.connect().map(drop)
    }
    fn shut_down(&self, how: ShutDown) {
        self.process.shut_down(how);
        let attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        if self.spawned_on == crate::sync::me() && !attached.contains(&self.ticket) {
            self.history.gave(SPAWNS + self.ticket, Ret::Attached(false));
        }
    }
}

fn number(identifier: Identifier) -> usize {
    identifier.as_u64().try_into().expect("a small number")
}

type Recorder = ApplicationPool<Recording>;

fn pool(history: &History, max: usize) -> Recorder {
    let hands = crate::ManualClock::new();
    let (told, attached) = (history.clone(), Attached::default());
    let spawner = InMemorySpawner::with_clock(hands.clock());
    let spawner = Recording(spawner, history.clone(), attached.clone());
    let builder = ApplicationPool::builder(spawner).max(max).cleaner(false).clock(hands.clock());
    let builder = builder.observer(move |event| {
        if let Event::Spawned { identifier, .. } = event {
            let ticket = number(*identifier);
            attached.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket);
            told.gave(SPAWNS + ticket, Ret::Attached(true));
        }
    });
    builder.build().expect("a valid pool")
}

/// A get as a task, every poll of which is recorded, and its close.
fn get_and_close(pool: &Recorder, history: &History, client: usize, group: usize) {
    struct Ring(Bell);
    impl Wake for Ring {
        fn wake(self: Arc<Self>) {
            self.0.ring();
        }
    }
    let bell = Bell::new();
    let waker = Waker::from(Arc::new(Ring(bell.clone())));
    let options = PoolOptions::new(GROUPS[group]);
    let mut future = Box::pin(pool.get_async(&options));
    let mut op = Op::Get { client, group };
    let session = loop {
        let polled = history.during(client, op, || {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(session) => {
                    let session = session.expect("nothing fails here");
                    (Ret::Served(number(session.identifier())), Some(session))
                }
                Poll::Pending => (Ret::Waits, None),
            }
        });
        match polled {
            Some(session) => break session,
            None => bell.wait(1),
        }
        op = Op::Look { client };
    };
    history.during(client, Op::Close { client }, || (Ret::Done, drop(session)));
}

fn try_get_and_close(pool: &Recorder, history: &History, client: usize, group: usize) {
    let options = PoolOptions::new(GROUPS[group]);
    let session =
        history.during(client, Op::TryGet { client, group }, || match pool.try_get(&options) {
            Ok(session) => (Ret::Served(number(session.identifier())), Some(session)),
            Err(_) => (Ret::Fails, None),
        });
    if let Some(session) = session {
        history.during(client, Op::Close { client }, || (Ret::Done, drop(session)));
    }
}

#[test]
fn linearizable() {
    explore_large("linearizable", &["linearizable"], |outcomes| {
        let history = History::new(3, 1);
        let pool = pool(&history, 1);
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let (pool, history) = (pool.clone(), history.clone());
                spawn(move || {
                    get_and_close(&pool, &history, client, client % 2);
                    try_get_and_close(&pool, &history, client, 0);
                })
            })
            .collect();
        let look = |thread| {
            history.during(thread, Op::Counts, || {
                let c = pool.counts();
                (Ret::Counts([c.count, c.active, c.spawning, c.draining, c.waiting]), ())
            });
        };
        look(OTHERS);
        history.during(OTHERS, Op::Detach { process: 1 }, || {
            (Ret::Found(pool.detach(Identifier::from_u64(1))), ())
        });
        history.during(OTHERS, Op::SetMax(2), || (Ret::Done, pool.set_max(2).expect("not zero")));
        look(OTHERS);
        for client in clients {
            client.join().expect("no panic");
        }
        look(OTHERS);
        history.assert_linearizable();
        outcomes.note("linearizable");
    });
}
