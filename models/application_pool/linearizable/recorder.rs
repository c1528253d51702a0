//! A pool that records every operation: its beginning, its end and its result.

use super::machine::{GROUPS, Machine, Op, Ret};
use crate::application_pool::{Event, GetError, Identifier, SpawnError, SpawnRequest, Spawner};
use crate::in_memory::{Handle, InMemorySpawner};
use crate::models::rig::Counter;
use crate::{ApplicationPool, PoolOptions, Session};
use cabrank_spec::application_pool::pool::Failure;
use stateright::semantics::{ConsistencyTester, LinearizabilityTester};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

/// The tester's actors, each of which does one operation at a time. Clients have their own numbers; the looks of
/// their gets, other operations and spawns come after them.
const LOOKS: usize = 20;
const OTHERS: usize = 50;
const SPAWNS: usize = 100;

/// The recording. Plain data behind plain locks: accesses are no steps for the tool.
struct Book {
    tester: LinearizabilityTester<usize, Machine>,
    /// The client of each thread.
    clients: BTreeMap<usize, usize>,
}

#[derive(Clone)]
struct History(Arc<Mutex<Book>>);

impl History {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn invoke(&self, who: usize, op: Op) {
        self.book().tester.on_invoke(who, op).expect("one at a time");
    }
    fn gave(&self, who: usize, ret: Ret) {
        self.book().tester.on_return(who, ret).expect("it has begun");
    }
    fn during<T>(&self, who: usize, op: Op, f: impl FnOnce() -> (Ret, T)) -> T {
        self.invoke(who, op);
        let (ret, result) = f();
        self.gave(who, ret);
        result
    }
}

/// Whether the spawn with this ticket fails.
type Fails = fn(usize) -> bool;

/// Records when each spawn begins to end.
pub(super) struct Recording {
    spawner: InMemorySpawner,
    history: History,
    fails: Fails,
}

impl Spawner for Recording {
    type Process = Handle;
    fn spawn(&self, request: &SpawnRequest) -> Result<Handle, SpawnError> {
        let ticket = number(request.identifier());
        let (process, well) = (self.spawner.spawn(request)?, !(self.fails)(ticket));
        self.history.invoke(SPAWNS + ticket, Op::SpawnEnds { ticket, well });
        if !well {
            // The error names the ticket, so that the observer knows the spawn.
            return Err(SpawnError::new(ticket.to_string()));
        }
        Ok(process)
    }
}

fn number(identifier: Identifier) -> usize {
    identifier.as_u64().try_into().expect("a small number")
}

fn why(error: &GetError) -> Failure {
    match error {
        GetError::Closed => Failure::Closed,
        GetError::WouldBlock => Failure::WouldBlock,
        GetError::Spawn(_) => Failure::Spawn,
        other => panic!("unexpected error: {other}"),
    }
}

/// The pool and its history. Clones are handles to the same ones.
#[derive(Clone)]
pub(super) struct Recorder {
    pool: ApplicationPool<Recording>,
    history: History,
    /// The times of the groups' restart files.
    files: Arc<[AtomicU64; GROUPS.len()]>,
    /// Counts the processes that were spawned.
    spawned: Counter,
}

impl Recorder {
    /// Returns a recorder for this many clients. With restart files, every get's look at one is an operation, too.
    pub(super) fn new(clients: usize, max: usize, fails: Fails, restart_files: bool) -> Self {
        let tester = LinearizabilityTester::new(Machine::new(clients, max, restart_files));
        let book = Book { tester, clients: BTreeMap::new() };
        let history = History(Arc::new(Mutex::new(book)));
        let files: Arc<[AtomicU64; GROUPS.len()]> = Arc::default();
        let manual_clock = crate::ManualClock::new();
        let spawner = InMemorySpawner::with_clock(manual_clock.clock());
        let spawner = Recording { spawner, history: history.clone(), fails };
        let (observed, seen, watched) = (history.clone(), history.clone(), files.clone());
        let spawned = Counter::new();
        let counted = spawned.clone();
        let mut builder = ApplicationPool::builder(spawner)
            .max(max)
            .cleaner(false)
            .clock(manual_clock.clock())
            .observer(move |event| match event {
                Event::Spawned { identifier, .. } => {
                    let ticket = number(*identifier);
                    observed.gave(SPAWNS + ticket, Ret::Spawned(true));
                    counted.up();
                }
                Event::SpawnFailed { error, .. } => {
                    let ticket: usize = error.to_string().parse().expect("a ticket");
                    observed.gave(SPAWNS + ticket, Ret::Spawned(false));
                }
                _ => {}
            });
        if restart_files {
            builder = builder.restart_files(move |file: &Path| {
                if !file.ends_with("restart.txt") {
                    return Err(std::io::ErrorKind::NotFound.into());
                }
                let group = GROUPS.iter().position(|group| file.starts_with(group));
                let group = group.expect("a group's directory");
                let client = seen.book().clients[&crate::kernel::sync::me()];
                let time = seen.during(LOOKS + client, Op::Looks { client, group }, || {
                    let time = watched[group].load(Ordering::SeqCst);
                    (Ret::Time(Some(time)), time)
                });
                Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(time))
            });
        }
        Recorder { pool: builder.build().expect("a valid pool"), history, files, spawned }
    }

    /// Returns a client on this thread.
    pub(super) fn client(&self, client: usize) -> Client {
        self.history.book().clients.insert(crate::kernel::sync::me(), client);
        Client { recorder: self.clone(), client }
    }

    fn during<T>(&self, op: Op, f: impl FnOnce() -> (Ret, T)) -> T {
        self.history.during(OTHERS, op, f)
    }
    pub(super) fn detach(&self, process: usize) {
        let identifier = Identifier::from_u64(process as u64);
        self.during(Op::Detach { process }, || (Ret::Found(self.pool.detach(identifier)), ()));
    }
    pub(super) fn set_max(&self, max: usize) {
        self.during(Op::SetMax(max), || (Ret::Done, self.pool.set_max(max).expect("not zero")));
    }
    pub(super) fn touch(&self, group: usize) {
        self.during(Op::Touch { group }, || {
            self.files[group].fetch_add(1, Ordering::SeqCst);
            (Ret::Done, ())
        });
    }
    pub(super) fn close(&self) {
        self.during(Op::ClosePool, || (Ret::Done, self.pool.close()));
    }
    pub(super) fn counts(&self) {
        self.during(Op::Counts, || {
            let c = self.pool.counts();
            (Ret::Counts([c.count, c.active, c.spawning, c.draining, c.waiting]), ())
        });
    }
    /// Returns the totals: spawned, failed, detached, processed, waited.
    pub(super) fn totals(&self) -> [u64; 5] {
        self.during(Op::Totals, || {
            let t = self.pool.snapshot().totals;
            let totals = [t.spawned, t.spawns_failed, t.detached, t.processed, t.waited];
            (Ret::Totals(totals), totals)
        })
    }
    pub(super) fn assert_linearizable(&self) {
        let tester = &self.history.book().tester;
        assert!(tester.is_consistent(), "no order explains {tester:#?}");
    }
}

type Opened = Session<Recording>;
type Getting<'a> = Pin<Box<dyn Future<Output = Result<Opened, GetError>> + 'a>>;

/// A client, on a thread of its own.
pub(super) struct Client {
    recorder: Recorder,
    client: usize,
}

impl Client {
    /// Gets a session as a task, records each poll, and closes the session. Returns the error if the get fails.
    pub(super) fn get_and_close(&self, group: usize) -> Result<(), Failure> {
        struct CountsWakes(Counter);
        impl Wake for CountsWakes {
            fn wake(self: Arc<Self>) {
                self.0.up();
            }
        }
        let counter = Counter::new();
        let waker = Waker::from(Arc::new(CountsWakes(counter.clone())));
        let options = PoolOptions::new(GROUPS[group]);
        let mut future = self.begin(&options);
        let client = self.client;
        let mut polled = self.poll(&mut future, &waker, Op::Get { client, group });
        while polled.is_pending() {
            counter.wait(1);
            polled = self.poll(&mut future, &waker, Op::Sees { client });
        }
        match polled {
            Poll::Ready(Err(error)) => Err(why(&error)),
            Poll::Ready(Ok(session)) => {
                self.close(session);
                Ok(())
            }
            Poll::Pending => unreachable!("polled until it is ready"),
        }
    }

    /// Polls a get once, and gives it up if it waits. Returns whether it was given up.
    pub(super) fn get_and_give_up(&self, group: usize) -> bool {
        let options = PoolOptions::new(GROUPS[group]);
        let mut future = self.begin(&options);
        let client = self.client;
        match self.poll(&mut future, Waker::noop(), Op::Get { client, group }) {
            Poll::Ready(session) => self.close(session.expect("no get fails here")),
            Poll::Pending => {
                let op = Op::GiveUp { client };
                self.recorder.history.during(self.client, op, || (Ret::Done, drop(future)));
                return true;
            }
        }
        false
    }

    pub(super) fn try_get_and_close(&self, group: usize) -> Result<(), Failure> {
        let (client, options) = (self.client, PoolOptions::new(GROUPS[group]));
        let op = Op::TryGet { client, group };
        let got = self.recorder.history.during(client, op, || {
            let got = self.recorder.pool.try_get(&options);
            (given(&got), got)
        });
        got.map(|session| self.close(session)).map_err(|error| why(&error))
    }

    /// Gets a session without waiting, once more after each spawn until a process is free, and closes it.
    ///
    /// Such a get looks at the restart file itself. For a task, a thread of the pool does.
    pub(super) fn try_until_served_and_close(&self, group: usize) -> Result<(), Failure> {
        let spawned = &self.recorder.spawned;
        loop {
            let seen = spawned.count();
            match self.try_get_and_close(group) {
                Err(Failure::WouldBlock) => spawned.wait(seen + 1),
                got => return got,
            }
        }
    }

    fn begin<'a>(&'a self, options: &'a PoolOptions) -> Getting<'a> {
        Box::pin(self.recorder.pool.get_async(options))
    }

    fn poll(&self, future: &mut Getting<'_>, waker: &Waker, op: Op) -> Poll<Got> {
        self.recorder.history.during(self.client, op, || {
            let polled = future.as_mut().poll(&mut Context::from_waker(waker));
            let ret = match &polled {
                Poll::Ready(got) => given(got),
                Poll::Pending => Ret::Waits,
            };
            (ret, polled)
        })
    }
    fn close(&self, session: Opened) {
        let op = Op::Close { client: self.client };
        self.recorder.history.during(self.client, op, || (Ret::Done, drop(session)));
    }
}

type Got = Result<Opened, GetError>;

fn given(got: &Got) -> Ret {
    match got {
        Ok(session) => Ret::Served(number(crate::Session::identifier(session))),
        Err(error) => Ret::Fails(why(error)),
    }
}
