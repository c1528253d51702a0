//! Carries out each operation on both sides.

use crate::refinement::factory::Factory;
use crate::refinement::history::{End, Limit, Operation, World};
use crate::refinement::mirror::{Adding, Ended, Ends, Mirror, Why};
use crate::refinement::real::{Added, Guard, Lent, Pool, Task};
use crate::refinement::runtime::{Orders, Timer};
use crate::refinement::seen::{seen_of, seen_of_the_real};
use cabrank::ManualClock;
use cabrank::periodic_executor::BoxFuture;
use cabrank::resource_pool::{AddError, BorrowError, Failure};
use cabrank_spec::resource_pool::action::Action;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const CLIENTS: usize = 5;
const KEYS: usize = 3;
/// The borrower of the factory.
pub(super) const INNER: usize = CLIENTS;

/// The state of one borrower of the real pool.
pub(super) enum Client {
    Out,
    /// Its task, and in a pool that creates the timer of `max_wait`, once it has pended.
    Asking(Task<Lent>, Vec<Timer>),
    Has(Guard),
    /// The factory may return its resource during this step.
    Aside,
}

/// A creation that the pool has ordered, its task, and its timers.
struct Order {
    adding: Adding,
    task: BoxFuture<()>,
    timers: Vec<Timer>,
}

impl Order {
    /// Returns its timer that has not rung yet: the limit of its creation, or that after which it is overdue.
    fn timer(&mut self, is_limit: bool) -> Option<&mut Timer> {
        self.timers.iter_mut().find(|timer| timer.is_limit() == is_limit && timer.runs())
    }
}

pub(crate) struct SideBySide {
    pub(super) mirror: Mirror,
    pub(super) pool: Pool,
    pub(super) factory: Factory,
    clock: ManualClock,
    tasks: bool,
    pub(super) keys: usize,
    pub(super) clients: Vec<Client>,
    adders: Vec<(Adding, Task<Added>, Vec<Timer>)>,
    pub(super) runtime: Orders,
    /// The creations that the pool has ordered.
    orders: Vec<Order>,
    /// The loan that the factory may return during this step.
    pub(super) aside: Option<Arc<Mutex<Option<Guard>>>>,
    /// The first difference in how a call ended.
    wrong: Option<String>,
}

pub(super) fn poll<T>(task: &mut Task<T>) -> Option<T> {
    match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn of_failure<E>(failure: &Failure<E>) -> Why {
    match failure {
        Failure::Panicked(_) => Why::Panic,
        Failure::TimedOut => Why::Time,
        _ => Why::Error,
    }
}

pub(super) fn of_lent(lent: &Lent) -> Ended {
    match lent {
        Ok(guard) => Ended::Has(guard.resource()),
        Err(BorrowError::Closed) => Ended::Closed,
        Err(BorrowError::Exhausted) => Ended::Exhausted,
        Err(BorrowError::WouldBlock) => Ended::WouldBlock,
        Err(BorrowError::TimedOut(_)) => Ended::TimedOut,
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
        let looked_at = pool.clone();
        factory.looks(Some(Arc::new(move || seen_of_the_real(&looked_at, keys))));
        SideBySide {
            mirror: Mirror::new(world, keys, CLIENTS + 1),
            pool,
            factory,
            clock,
            tasks: world.tasks,
            keys,
            clients: (0..=INNER).map(|_| Client::Out).collect(),
            adders: vec![],
            runtime,
            orders: vec![],
            aside: None,
            wrong: None,
        }
    }

    /// Returns the nth borrower for which this holds, modulo their number.
    fn nth(&self, nth: usize, is: impl Fn(&Client) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..=INNER).filter(|&client| is(&self.clients[client])).collect();
        (!all.is_empty()).then(|| all[nth % all.len()])
    }
    fn nth_out(&self, nth: usize) -> Option<usize> {
        let all: Vec<_> =
            (0..CLIENTS).filter(|&client| matches!(self.clients[client], Client::Out)).collect();
        (!all.is_empty()).then(|| all[nth % all.len()])
    }
    fn nth_asking(&self, nth: usize) -> Option<usize> {
        self.nth(nth, |client| matches!(client, Client::Asking(..)))
    }
    pub(super) fn take_guard(&mut self, nth: usize) -> Option<(usize, Guard)> {
        let client = self.nth(nth, |client| matches!(client, Client::Has(_)))?;
        match std::mem::replace(&mut self.clients[client], Client::Out) {
            Client::Has(guard) => Some((client, guard)),
            Client::Out | Client::Aside | Client::Asking(..) => None,
        }
    }

    fn ends(&self, ends: &[End]) -> Ends {
        Ends::new(ends, self.tasks)
    }
    /// Adds ends so that no call has to wait.
    fn all_ends(ends: &[End]) -> Vec<End> {
        ends.iter().copied().chain([End::Well; 48]).collect()
    }

    /// After the real pool's part of a step, and before the specification's: of several resources that leave at once, the
    /// specification leaves open which is destroyed first.
    fn watch(&mut self) {
        self.mirror.real_order.clone_from(&self.factory.book().destroyed);
    }

    pub(super) fn differ(&mut self, what: &str, real: Option<Ended>, spec: Option<Ended>) {
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
                let mut task = self.pool.borrow(key, waits);
                let lent = self.factory.ending(ends, || poll(&mut task));
                self.clients[client] = Client::Asking(task, self.runtime.take_timers());
                self.watch();
                self.mirror.apply(Action::Borrow { client, key, waits });
                self.ran(client, lent, ends);
                Some(format!("client {client} borrows of {key}, waits: {waits}, {ends:?}"))
            }
            Operation::Block { client, key, ref ends } => {
                let client = self.nth_out(client).filter(|_| !self.tasks)?;
                let key = key % self.keys;
                let borrow = Action::Borrow { client, key, waits: true };
                let mut trial = self.mirror.clone();
                trial.apply(borrow);
                let in_time = trial.run_through(client, &mut self.ends(ends)).is_some();
                let lent = self.factory.ending(ends, || self.pool.block(key, in_time))?;
                self.watch();
                self.mirror.apply(borrow);
                let spec = self.mirror.run_through(client, &mut self.ends(ends));
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
                self.leaves(client);
                self.watch();
                self.mirror.cancel(client);
                Some(format!("client {client} is cancelled"))
            }
            Operation::TooLate { nth, ref ends } => {
                let client = self.nth_asking(nth)?;
                let Client::Asking(task, timers) = &mut self.clients[client] else { return None };
                timers.first_mut()?.ring();
                let lent = self.factory.ending(ends, || poll(task));
                self.watch();
                let spec = self.mirror.run(client, &mut self.ends(ends));
                if spec.is_none() {
                    self.mirror.cancel(client);
                }
                let spec = spec.or(Some(Ended::TimedOut));
                self.differ(&format!("client {client}"), lent.as_ref().map(of_lent), spec);
                self.leaves(client);
                self.clients[client] = lent.and_then(Result::ok).map_or(Client::Out, Client::Has);
                Some(format!("client {client} has waited for too long, {ends:?}"))
            }
            Operation::Return { nth, ref ends } => {
                let (client, guard) = self.take_guard(nth)?;
                let mut spec_ends = self.ends(ends);
                self.factory.ending(ends, || drop(guard));
                self.watch();
                self.mirror.give_back(client, (!self.tasks).then_some(&mut spec_ends));
                Some(format!("client {client} returns it, {ends:?}"))
            }
            Operation::PutBack { nth, ref ends } => {
                let (client, guard) = self.take_guard(nth)?;
                let ends = Self::all_ends(ends);
                let mut task: Task<()> = Box::pin(guard.put_back());
                let done = self.factory.ending(&ends, || poll(&mut task));
                self.watch();
                self.mirror.give_back(client, Some(&mut self.ends(&ends)));
                self.differ("put_back", done.map(|()| Ended::Added), Some(Ended::Added));
                Some(format!("client {client} puts it back, {:?}", &ends[..4]))
            }
            Operation::Invalidate { nth } => {
                let (client, guard) = self.take_guard(nth)?;
                guard.invalidate();
                self.watch();
                self.mirror.apply(Action::Invalidate { client });
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
                let died = catch_unwind(AssertUnwindSafe(|| {
                    let _guard = guard;
                    resume_unwind(Box::new("scripted"));
                }));
                assert!(died.is_err());
                self.watch();
                self.mirror.apply(Action::Die { client });
                Some(format!("client {client} panics"))
            }
            Operation::Add { key, ref ends } => {
                let key = key % self.keys;
                let mut task = self.pool.add(key);
                let real = self.factory.ending(ends, || poll(&mut task));
                let real = real.map(|added| of_added(&added));
                let timers = self.runtime.take_timers();
                self.watch();
                match self.mirror.add(Action::Add { key }) {
                    Ok(mut adding) => {
                        let spec = self.mirror.run_add(&mut adding, &mut self.ends(ends));
                        self.differ("an addition", real, spec);
                        if spec.is_none() {
                            self.adders.push((adding, task, timers));
                        }
                    }
                    Err(refused) => self.differ("an addition", real, Some(refused)),
                }
                Some(format!("one is added to {key}, {ends:?}"))
            }
            Operation::RunAdd { nth, ref ends } => {
                let at = nth % self.adders.len().max(1);
                let mut spec_ends = self.ends(ends);
                let (adding, task, _) = self.adders.get_mut(at)?;
                let real = self.factory.ending(ends, || poll(task));
                self.mirror.real_order.clone_from(&self.factory.book().destroyed);
                let spec = self.mirror.run_add(adding, &mut spec_ends);
                if spec.is_some() {
                    let (_, task, timers) = self.adders.remove(at);
                    drop(task);
                    self.are_over(timers);
                }
                self.differ("an addition", real.map(|added| of_added(&added)), spec);
                Some(format!("addition {at} runs, {ends:?}"))
            }
            Operation::CancelAdd { nth } => {
                let at = nth % self.adders.len().max(1);
                if at >= self.adders.len() {
                    return None;
                }
                let (adding, task, timers) = self.adders.remove(at);
                drop(task);
                self.are_over(timers);
                self.watch();
                self.mirror.fail_add(&adding);
                Some(format!("addition {at} is cancelled"))
            }
            Operation::Retain { odd } => {
                self.pool.retain(odd);
                self.watch();
                self.mirror.retain(|resource| (resource % 2 == 1) == odd);
                Some(format!("those are retained that are odd: {odd}"))
            }
            Operation::Tick { seconds, ref ends } => {
                if !self.mirror.knows_the_time() {
                    return None;
                }
                let ends = Self::all_ends(ends);
                self.clock.advance(Duration::from_secs(seconds));
                let mut task = self.pool.maintain();
                let done = self.factory.ending(&ends, || poll(&mut task));
                self.watch();
                self.mirror.maintain(seconds, &mut self.ends(&ends));
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
            Operation::Overdue { nth, ref ends } => {
                let at = nth % self.orders.len().max(1);
                if !self.ring(at, false) {
                    return None;
                }
                let real = self.poll_order(at, ends);
                let order = &mut self.orders[at].adding;
                let ended = self.mirror.run_order(order, &mut Ends::new(ends, true));
                let spec = ended || self.mirror.overdue(order);
                self.order_ran(at, real, spec);
                Some(format!("order {at} is overdue, {ends:?}"))
            }
            Operation::TimeOut { nth } => {
                let at = nth % self.orders.len().max(1);
                if !self.ring(at, true) {
                    return None;
                }
                let real = self.poll_order(at, &[]);
                self.mirror.time_out(&self.orders[at].adding);
                self.order_ran(at, real, true);
                Some(format!("order {at} takes too long"))
            }
            Operation::Clear => {
                self.pool.clear();
                self.watch();
                self.mirror.apply(Action::Clear);
                Some("clear".into())
            }
            Operation::ClearAll => {
                if !self.mirror.world.may_compete() {
                    return None;
                }
                self.pool.clear_all();
                self.watch();
                self.mirror.apply(Action::ClearAll);
                Some("clear_all".into())
            }
            Operation::Close => {
                self.pool.close();
                self.watch();
                self.mirror.apply(Action::Close);
                Some("close".into())
            }
            Operation::Resize(change) => {
                if self.keys > 1 && matches!(change, Limit::MinIdle(_)) {
                    // The specification leaves the order in which keys are refilled to the real
                    // pool.
                    return None;
                }
                if change.is_for_all_keys() && !self.mirror.world.may_compete() {
                    return None;
                }
                let real = self.pool.resize(change)?;
                self.watch();
                if real != self.mirror.resize(change) {
                    self.wrong = Some(format!("{change:?}: accepted: {real}"));
                }
                Some(format!("{change:?}, accepted: {real}"))
            }
            Operation::Within { nth, inner, ref operation } => self.within(nth, inner, operation),
        }
    }

    /// The task of an order is polled once. Returns whether it is done.
    fn run_order(&mut self, at: usize, ends: &[End]) -> bool {
        let done = self.poll_order(at, ends);
        let spec = self.mirror.run_order(&mut self.orders[at].adding, &mut Ends::new(ends, true));
        self.order_ran(at, done, spec);
        spec
    }
    fn poll_order(&mut self, at: usize, ends: &[End]) -> bool {
        let Order { task, timers, .. } = &mut self.orders[at];
        let waker = Waker::noop();
        let polled = |task: &mut BoxFuture<()>| task.as_mut().poll(&mut Context::from_waker(waker));
        let done = self.factory.ending(ends, || polled(task).is_ready());
        timers.extend(self.runtime.take_timers());
        self.watch();
        done
    }
    fn order_ran(&mut self, at: usize, real: bool, spec: bool) {
        self.differ("an order", real.then_some(Ended::Added), spec.then_some(Ended::Added));
        if spec {
            let order = self.orders.remove(at);
            drop(order.task);
            self.are_over(order.timers);
        }
    }
    fn are_over(&mut self, mut timers: Vec<Timer>) {
        if !timers.iter_mut().all(Timer::is_over) && self.wrong.is_none() {
            self.wrong = Some("a timer of a call that has ended goes on".into());
        }
    }

    /// Lets the time of an order come. Returns false if that is impossible.
    fn ring(&mut self, at: usize, is_limit: bool) -> bool {
        let Some(order) = self.orders.get_mut(at) else { return false };
        let may_ring = match is_limit {
            true => self.mirror.is_creating(&order.adding),
            false => self.mirror.is_in_flight(&order.adding),
        };
        order.timer(is_limit).filter(|_| may_ring).map(Timer::ring).is_some()
    }

    /// A task is polled once.
    fn run(&mut self, client: usize, ends: &[End]) {
        let Client::Asking(task, timers) = &mut self.clients[client] else { return };
        let lent = self.factory.ending(ends, || poll(task));
        timers.extend(self.runtime.take_timers());
        self.ran(client, lent, ends);
    }
    fn ran(&mut self, client: usize, lent: Option<Lent>, ends: &[End]) {
        self.watch();
        let spec = self.mirror.run(client, &mut self.ends(ends));
        self.differ(&format!("client {client}"), lent.as_ref().map(of_lent), spec);
        if let Some(lent) = lent {
            self.leaves(client);
            self.clients[client] = lent.map_or(Client::Out, Client::Has);
        }
    }

    /// Drops the task of a borrower. Its timer goes with it.
    pub(super) fn leaves(&mut self, client: usize) {
        match std::mem::replace(&mut self.clients[client], Client::Out) {
            Client::Asking(task, timers) => {
                drop(task);
                self.are_over(timers);
            }
            other => self.clients[client] = other,
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
        let order = |(adding, task)| Order { adding, task, timers: vec![] };
        self.orders.extend(spec.into_iter().zip(real).map(order));
        let (real, spec) = (seen_of_the_real(&self.pool, self.keys), seen_of(&self.mirror.spec));
        if real != spec {
            return Err(format!("the pool:          {real}\nthe specification: {spec}"));
        }
        let real = std::mem::take(&mut self.factory.book().calls);
        let spec = std::mem::take(&mut self.mirror.noted);
        if real != spec {
            return Err(format!(
                "the pool's calls:      {real:#?}\nthe specification's: {spec:#?}"
            ));
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

    /// Returns the specification's names of all that has happened.
    pub(crate) fn happened(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.mirror.happened)
    }

    /// Returns which calls of the pool have happened within which call of its factory.
    pub(crate) fn called_back(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.mirror.called_back)
    }

    /// Returns every loan and closes the pool: both sides must be empty.
    pub(crate) fn end(mut self) -> Result<(), String> {
        for client in 0..=INNER {
            match std::mem::replace(&mut self.clients[client], Client::Out) {
                Client::Out | Client::Aside => {}
                Client::Asking(task, timers) => {
                    drop(task);
                    self.are_over(timers);
                    self.watch();
                    self.mirror.cancel(client);
                }
                Client::Has(guard) => {
                    guard.invalidate();
                    self.watch();
                    self.mirror.apply(Action::Invalidate { client });
                }
            }
            self.compare()?;
        }
        for (adding, task, timers) in std::mem::take(&mut self.adders) {
            drop(task);
            self.are_over(timers);
            self.watch();
            self.mirror.fail_add(&adding);
        }
        self.step(&Operation::Close);
        self.compare()?;
        // Their tasks drop them.
        while !self.orders.is_empty() {
            self.run_order(0, &[]);
            self.compare()?;
        }
        self.runtime.end();
        self.factory.looks(None);
        match self.mirror.spec.num_total() {
            0 => Ok(()),
            left => Err(format!("{left} are left in a closed pool")),
        }
    }
}
