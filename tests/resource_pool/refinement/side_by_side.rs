//! Carries out each operation on both sides.

use crate::refinement::history::{End, Limit, Operation, World};
use crate::refinement::mirror::{Adding, Ended, Ends, Mirror, limits};
use crate::refinement::real::{Added, Factory, Guard, Lent, Orders, Pool, Task};
use cabrank::ManualClock;
use cabrank::periodic_executor::BoxFuture;
use cabrank::resource_pool::{AddError, BorrowError, Failure, ResourceState};
use cabrank_spec::resource_pool::action::Action;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const CLIENTS: usize = 5;
const KEYS: usize = 3;

/// The state of one borrower of the real pool.
enum Client {
    Out,
    Asking(Task<Lent>),
    Has(Guard),
}

pub(crate) struct SideBySide {
    mirror: Mirror,
    pool: Pool,
    factory: Factory,
    clock: ManualClock,
    tasks: bool,
    keys: usize,
    clients: Vec<Client>,
    adders: Vec<(Adding, Task<Added>)>,
    runtime: Orders,
    /// The creations that the pool has ordered, and their tasks.
    orders: Vec<(Adding, BoxFuture<()>)>,
    /// The first difference in how a call ended.
    wrong: Option<String>,
}

fn poll<T>(task: &mut Task<T>) -> Option<T> {
    match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn of_failure<E>(failure: &Failure<E>) -> bool {
    matches!(failure, Failure::Panicked(_))
}

fn of_lent(lent: &Lent) -> Ended {
    match lent {
        Ok(guard) => Ended::Has(guard.resource()),
        Err(BorrowError::Closed) => Ended::Closed,
        Err(BorrowError::Exhausted) => Ended::Exhausted,
        Err(BorrowError::WouldBlock) => Ended::WouldBlock,
        Err(BorrowError::TimedOut) => Ended::TimedOut,
        Err(BorrowError::Create(failure)) => Ended::Create(of_failure(failure)),
        Err(BorrowError::Activate(failure)) => Ended::Activate(of_failure(failure)),
        Err(BorrowError::Invalid) => Ended::Invalid,
        Err(other) => unreachable!("no such error: {other:?}"),
    }
}

fn of_added(added: &Added) -> Ended {
    match added {
        Ok(()) => Ended::Added,
        Err(AddError::Closed) => Ended::Closed,
        Err(AddError::Full) => Ended::Full,
        Err(AddError::Create(failure)) => Ended::Create(of_failure(failure)),
        Err(AddError::Passivate(failure)) => Ended::Passivate(of_failure(failure)),
        Err(AddError::Invalid) => Ended::Invalid,
        Err(other) => unreachable!("no such error: {other:?}"),
    }
}

impl SideBySide {
    pub(crate) fn new(world: &World) -> SideBySide {
        let (pool, factory, clock, runtime) = Pool::new(world);
        let keys = if world.keyed { KEYS } else { 1 };
        SideBySide {
            mirror: Mirror::new(world, keys, CLIENTS),
            pool,
            factory,
            clock,
            tasks: world.tasks,
            keys,
            clients: (0..CLIENTS).map(|_| Client::Out).collect(),
            adders: vec![],
            runtime,
            orders: vec![],
            wrong: None,
        }
    }

    /// Returns the nth borrower for which this holds, modulo their number.
    fn nth(&self, nth: usize, is: impl Fn(&Client) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..CLIENTS).filter(|&client| is(&self.clients[client])).collect();
        (!all.is_empty()).then(|| all[nth % all.len()])
    }
    fn nth_out(&self, nth: usize) -> Option<usize> {
        self.nth(nth, |client| matches!(client, Client::Out))
    }
    fn nth_asking(&self, nth: usize) -> Option<usize> {
        self.nth(nth, |client| matches!(client, Client::Asking(_)))
    }
    fn take_guard(&mut self, nth: usize) -> Option<(usize, Guard)> {
        let client = self.nth(nth, |client| matches!(client, Client::Has(_)))?;
        match std::mem::replace(&mut self.clients[client], Client::Out) {
            Client::Has(guard) => Some((client, guard)),
            Client::Out | Client::Asking(_) => None,
        }
    }

    fn ends(&self, ends: &[End]) -> Ends {
        Ends::new(ends, self.tasks)
    }
    /// Adds ends so that no call has to wait.
    fn all_ends(ends: &[End]) -> Vec<End> {
        ends.iter().copied().chain([End::Well; 48]).collect()
    }

    fn differ(&mut self, what: &str, real: Option<Ended>, spec: Option<Ended>) {
        if real != spec && self.wrong.is_none() {
            self.wrong =
                Some(format!("{what}: the pool says {real:?}, the specification {spec:?}"));
        }
    }

    /// Carries out the operation if it is possible now. Returns what was done.
    pub(crate) fn step(&mut self, operation: &Operation) -> Option<String> {
        match *operation {
            Operation::Borrow { client, key, waits, ref ends } => {
                let client = self.nth_out(client)?;
                let key = key % self.keys;
                self.mirror.apply(Action::Borrow { client, key, waits });
                self.clients[client] = Client::Asking(self.pool.borrow(key, waits));
                self.run(client, ends);
                Some(format!("client {client} borrows of {key}, waits: {waits}, {ends:?}"))
            }
            Operation::Block { client, key, ref ends } => {
                let client = self.nth_out(client).filter(|_| !self.tasks)?;
                let key = key % self.keys;
                self.mirror.apply(Action::Borrow { client, key, waits: true });
                let spec = self.mirror.run_through(client, &mut self.ends(ends));
                let in_time = spec.is_some();
                let lent = self.factory.ending(ends, || self.pool.block(key, in_time))?;
                if !in_time {
                    self.mirror.cancel(client);
                }
                self.differ("a thread", Some(of_lent(&lent)), spec.or(Some(Ended::TimedOut)));
                self.clients[client] = lent.map_or(Client::Out, Client::Has);
                Some(format!("client {client} blocks for {key}, {ends:?}"))
            }
            Operation::Run { nth, ref ends } => {
                let client = self.nth_asking(nth)?;
                self.run(client, ends);
                Some(format!("client {client} runs, {ends:?}"))
            }
            Operation::Cancel { nth } => {
                let client = self.nth_asking(nth)?;
                self.mirror.cancel(client);
                self.clients[client] = Client::Out;
                Some(format!("client {client} is cancelled"))
            }
            Operation::Return { nth, ref ends } => {
                let (client, guard) = self.take_guard(nth)?;
                let mut spec_ends = self.ends(ends);
                self.mirror.give_back(client, (!self.tasks).then_some(&mut spec_ends));
                self.factory.ending(ends, || drop(guard));
                Some(format!("client {client} returns it, {ends:?}"))
            }
            Operation::PutBack { nth, ref ends } => {
                let (client, guard) = self.take_guard(nth)?;
                let ends = Self::all_ends(ends);
                self.mirror.give_back(client, Some(&mut self.ends(&ends)));
                let mut task: Task<()> = Box::pin(guard.put_back());
                let done = self.factory.ending(&ends, || poll(&mut task));
                self.differ("put_back", done.map(|()| Ended::Added), Some(Ended::Added));
                Some(format!("client {client} puts it back, {:?}", &ends[..4]))
            }
            Operation::Invalidate { nth } => {
                let (client, guard) = self.take_guard(nth)?;
                self.mirror.apply(Action::Invalidate { client });
                guard.invalidate();
                Some(format!("client {client} invalidates it"))
            }
            Operation::Detach { nth } => {
                let (client, guard) = self.take_guard(nth)?;
                self.mirror.detach(client);
                guard.detach();
                Some(format!("client {client} detaches it"))
            }
            Operation::Die { nth } => {
                let (client, guard) = self.take_guard(nth)?;
                self.mirror.apply(Action::Die { client });
                let died = catch_unwind(AssertUnwindSafe(|| {
                    let _guard = guard;
                    resume_unwind(Box::new("scripted"));
                }));
                assert!(died.is_err());
                Some(format!("client {client} panics"))
            }
            Operation::Add { key, ref ends } => {
                let key = key % self.keys;
                let mut task = self.pool.add(key);
                let real = self.factory.ending(ends, || poll(&mut task));
                let real = real.map(|added| of_added(&added));
                match self.mirror.add(Action::Add { key }) {
                    Ok(mut adding) => {
                        let spec = self.mirror.run_add(&mut adding, &mut self.ends(ends));
                        self.differ("an addition", real, spec);
                        if spec.is_none() {
                            self.adders.push((adding, task));
                        }
                    }
                    Err(refused) => self.differ("an addition", real, Some(refused)),
                }
                Some(format!("one is added to {key}, {ends:?}"))
            }
            Operation::RunAdd { nth, ref ends } => {
                let at = nth % self.adders.len().max(1);
                let mut spec_ends = self.ends(ends);
                let (adding, task) = self.adders.get_mut(at)?;
                let real = self.factory.ending(ends, || poll(task));
                let spec = self.mirror.run_add(adding, &mut spec_ends);
                if spec.is_some() {
                    drop(self.adders.remove(at));
                }
                self.differ("an addition", real.map(|added| of_added(&added)), spec);
                Some(format!("addition {at} runs, {ends:?}"))
            }
            Operation::CancelAdd { nth } => {
                let at = nth % self.adders.len().max(1);
                if at >= self.adders.len() {
                    return None;
                }
                let (adding, task) = self.adders.remove(at);
                self.mirror.fail_add(&adding);
                drop(task);
                Some(format!("addition {at} is cancelled"))
            }
            Operation::Retain { odd } => {
                self.mirror.retain(|resource| (resource % 2 == 1) == odd);
                self.pool.retain(odd);
                Some(format!("those are retained that are odd: {odd}"))
            }
            Operation::Tick { seconds, ref ends } => {
                let ends = Self::all_ends(ends);
                self.mirror.maintain(seconds, &mut self.ends(&ends));
                self.clock.advance(Duration::from_secs(seconds));
                let mut task = self.pool.maintain();
                let done = self.factory.ending(&ends, || poll(&mut task));
                self.differ("maintain", done.map(|()| Ended::Added), Some(Ended::Added));
                Some(format!("{seconds} seconds pass, {:?}", &ends[..6]))
            }
            Operation::Pass { seconds } => {
                self.mirror.pass(seconds);
                self.clock.advance(Duration::from_secs(seconds));
                Some(format!("{seconds} seconds pass"))
            }
            Operation::RunOrder { nth, ref ends } => {
                let at = nth % self.orders.len().max(1);
                if at >= self.orders.len() {
                    return None;
                }
                self.run_order(at, ends);
                Some(format!("order {at} runs, {ends:?}"))
            }
            Operation::Clear => {
                self.mirror.apply(Action::Clear);
                self.pool.clear();
                Some("clear".into())
            }
            Operation::ClearAll => {
                self.mirror.apply(Action::ClearAll);
                self.pool.clear_all();
                Some("clear_all".into())
            }
            Operation::Close => {
                self.mirror.apply(Action::Close);
                self.pool.close();
                Some("close".into())
            }
            Operation::Resize(change) => {
                let refills = self.keys > 1 || self.mirror.spec.options.creates;
                if refills && matches!(change, Limit::MinIdle(_)) {
                    // The specification leaves the order in which keys are refilled to the real
                    // pool, and the time of an ordered refill.
                    return None;
                }
                let bounds = self.mirror.bounds.with(change);
                let real = self.pool.resize(change)?;
                if real != (bounds.are_valid() && bounds.can_reach(change)) {
                    self.wrong = Some(format!("{change:?}: accepted: {real}"));
                }
                if real {
                    self.mirror.bounds = bounds;
                    self.mirror.apply(Action::Resize(limits(&bounds)));
                }
                Some(format!("{change:?}, accepted: {real}"))
            }
        }
    }

    /// The task of an order is polled once.
    fn run_order(&mut self, at: usize, ends: &[End]) {
        let (order, task) = &mut self.orders[at];
        let waker = Waker::noop();
        let polled = |task: &mut BoxFuture<()>| task.as_mut().poll(&mut Context::from_waker(waker));
        let real = self.factory.ending(ends, || polled(task).is_ready());
        let spec = self.mirror.run_order(order, &mut Ends::new(ends, true));
        if spec {
            drop(self.orders.remove(at));
        }
        self.differ("an order", real.then_some(Ended::Added), spec.then_some(Ended::Added));
    }

    /// A task is polled once.
    fn run(&mut self, client: usize, ends: &[End]) {
        let Client::Asking(task) = &mut self.clients[client] else { return };
        let lent = self.factory.ending(ends, || poll(task));
        let spec = self.mirror.run(client, &mut self.ends(ends));
        self.differ(&format!("client {client}"), lent.as_ref().map(of_lent), spec);
        if let Some(lent) = lent {
            self.clients[client] = lent.map_or(Client::Out, Client::Has);
        }
    }

    /// Compares the observable state of both sides.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        let (real, spec) = (self.runtime.take(), self.mirror.take_ordered());
        if real.len() != spec.len() {
            return Err(format!(
                "the pool orders {}, the specification {}",
                real.len(),
                spec.len()
            ));
        }
        self.orders.extend(spec.into_iter().zip(real));
        let (real, spec) = (self.seen_of_the_real(), self.seen_of_the_specification());
        if real != spec {
            return Err(format!("the pool:          {real}\nthe specification: {spec}"));
        }
        let mut real = self.factory.book().destroyed.clone();
        let mut spec = self.mirror.destroyed.clone();
        real.sort_unstable();
        spec.sort_unstable();
        if real != spec {
            return Err(format!("destroyed were {real:?}, and were to be {spec:?}"));
        }
        Ok(())
    }

    fn seen_of_the_real(&self) -> String {
        let snapshot = self.pool.snapshot();
        let of_key = |key: usize| {
            let found = snapshot.keys.iter().find(|of| of.key().is_none_or(|of| *of == key));
            let Some(found) = found else { return line(key, 0, 0, 0, &[], 0, 0) };
            let of =
                |state: ResourceState| found.resources.iter().filter(move |r| r.state == state);
            let is_idle = |state| matches!(state, ResourceState::Idle | ResourceState::Tested);
            let idle: Vec<_> = found
                .resources
                .iter()
                .filter(|r| is_idle(r.state))
                .map(|resource| resource.id as usize)
                .collect();
            let adding = of(ResourceState::BeingCreated).count();
            let leaving = of(ResourceState::Leaving).count();
            line(key, found.active, found.total, found.waiting, &idle, adding, leaving)
        };
        let keys: String = (0..self.keys).map(of_key).collect();
        let waiting = self.pool.num_waiting();
        format!("closed {}, total {}, waiting {waiting}{keys}", snapshot.closed, snapshot.total)
    }

    fn seen_of_the_specification(&self) -> String {
        let spec = &self.mirror.spec;
        let of_key = |key: usize| {
            let waiting = spec.line.iter().filter(|waiter| waiter.key == key).count();
            let idle: Vec<_> = spec.idle_of(key).map(|idle| idle.slot.id).collect();
            let leaving = spec.leaving.iter().filter(|slot| slot.key == key).count();
            let adding = spec.adding_of(key);
            line(key, spec.active[key], spec.total[key], waiting, &idle, adding, leaving)
        };
        let keys: String = (0..self.keys).map(of_key).collect();
        let waiting = spec.line.len();
        format!("closed {}, total {}, waiting {waiting}{keys}", spec.closed, spec.num_total())
    }

    /// Returns the specification's names of all that has happened.
    pub(crate) fn happened(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.mirror.happened)
    }

    /// Returns every loan and closes the pool: both sides must be empty.
    pub(crate) fn end(mut self) -> Result<(), String> {
        for client in 0..CLIENTS {
            match std::mem::replace(&mut self.clients[client], Client::Out) {
                Client::Out => {}
                Client::Asking(task) => {
                    self.mirror.cancel(client);
                    drop(task);
                }
                Client::Has(guard) => {
                    self.mirror.apply(Action::Invalidate { client });
                    guard.invalidate();
                }
            }
            self.compare()?;
        }
        for (adding, task) in std::mem::take(&mut self.adders) {
            self.mirror.fail_add(&adding);
            drop(task);
        }
        self.step(&Operation::Close);
        self.compare()?;
        // Their tasks drop them.
        while !self.orders.is_empty() {
            self.run_order(0, &[]);
            self.compare()?;
        }
        match self.mirror.spec.num_total() {
            0 => Ok(()),
            left => Err(format!("{left} are left in a closed pool")),
        }
    }
}

/// The observable state of a key. An idle entry is a slot's number.
fn line(
    key: usize,
    active: usize,
    total: usize,
    waiting: usize,
    idle: &[usize],
    adding: usize,
    leaving: usize,
) -> String {
    format!(
        "\n    key {key}: active {active}, total {total}, waiting {waiting}, idle {idle:?}, being added {adding}, leaving {leaving}"
    )
}
