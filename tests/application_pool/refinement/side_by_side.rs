//! Carries out each operation on both sides.

mod compare;

use crate::common::task::Task;
use crate::common::{limit, look_until};
use crate::refinement::history::{Connect, How, LeaseEnd, Operation, SpawnEnd};
use crate::refinement::limits::{Limits, World};
use crate::refinement::observed::Reported;
use crate::refinement::real::{Got, Leased, Pool, Scripted, options, pool, seconds, time_limit};
use cabrank::application_pool::{GetError, Identifier, Lease, RestartMode, WeakPool};
use cabrank::{ManualClock, PoolOptions, Session};
use cabrank_spec::application_pool::configuration;
use cabrank_spec::application_pool::pool::{self, Action, At, Event, Failure, SpawnResult};
use std::sync::mpsc::{Receiver, channel};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

/// The state of one client of the real pool.
enum Client {
    Out,
    /// Its task has not ended.
    Asking(Task<Got>),
    /// The same, for a lease.
    CheckingOut(Task<Leased>),
    /// A thread checks out with a time limit.
    Blocked(Receiver<Leased>),
    /// The machine's `Connecting`: it connects on its own.
    Leasing(Lease<Scripted>),
    InSession(Session<Scripted>),
}

pub(crate) struct SideBySide {
    spec: pool::Pool,
    world: World,
    limits: Limits,
    reported: Reported,
    pool: Pool,
    spawner: Scripted,
    clock: ManualClock,
    /// The current options for gets of each group.
    options: Vec<PoolOptions>,
    clients: Vec<Client>,
    /// `close` waits for the spawns, which this thread ends.
    closing: Option<JoinHandle<()>>,
    /// How a failed get ends, until its client runs.
    failed: Vec<Option<Failure>>,
    /// How often a restart file was touched.
    touches: u64,
    /// Weak handles that are kept.
    weak: Vec<WeakPool<Scripted>>,
    /// The first difference in how a get ended.
    wrong: Option<String>,
}

impl SideBySide {
    pub(crate) fn new(world: &World) -> SideBySide {
        let ((pool, spawner, clock), config) = (pool(world), &world.config);
        SideBySide {
            spec: pool::Pool::new(config.clone()),
            world: world.clone(),
            limits: Limits::new(world),
            reported: Reported::default(),
            pool,
            spawner,
            clock,
            options: (0..config.groups.len()).map(|group| options(world, group, 0)).collect(),
            clients: config.clients.iter().map(|_| Client::Out).collect(),
            closing: None,
            failed: vec![None; config.clients.len()],
            touches: 0,
            weak: Vec::new(),
            wrong: None,
        }
    }

    /// Carries out the operation if it is possible now. Returns what was done.
    pub(crate) fn step(&mut self, operation: &Operation) -> Option<String> {
        let groups = self.options.len();
        match *operation {
            Operation::Ask { client, group, lease, how, ref connects } => {
                let client = self.nth_client(client, |at| at == At::Out)?;
                let group = group % groups;
                self.looks(group, false);
                let set = self.spec.brought[group];
                self.limits.begins(client, self.world.queue_time(group, set));
                self.apply(match how {
                    How::Tries => Action::TryGet { client, group },
                    _ => Action::Get { client, group },
                });
                match lease {
                    true => self.check_out(client, group, how),
                    false => self.get(client, group, how, connects),
                }
                let what = if lease { "lease" } else { "session" };
                Some(format!("client {client}: a {what} of {group}, {how:?}, {connects:?}"))
            }
            Operation::Lease { nth, end } => {
                let client = self.nth(nth, |client| matches!(client, Client::Leasing(_)))?;
                let held = std::mem::replace(&mut self.clients[client], Client::Out);
                let Client::Leasing(lease) = held else { return None };
                self.end_lease(client, lease, end);
                Some(format!("client {client}'s lease ends: {end:?}"))
            }
            Operation::Run { nth, ref connects } => {
                let served = |at| matches!(at, At::Connecting(_));
                let client = self.nth_client(nth, served)?;
                match self.clients[client] {
                    Client::Leasing(_) => return None,
                    Client::CheckingOut(_) | Client::Blocked(_) => self.run(client, &[]),
                    _ => {
                        self.connect(client, connects.clone());
                        self.run(client, connects);
                    }
                }
                Some(format!("client {client} runs, connects: {connects:?}"))
            }
            Operation::GiveUp { nth } => {
                let asks = |at| matches!(at, At::Waiting(_) | At::Connecting(_));
                let client = self.nth_client(nth, asks)?;
                if matches!(self.clients[client], Client::Leasing(_) | Client::Blocked(_)) {
                    return None; // To drop a lease is to close it, and a thread is not dropped.
                }
                self.apply(Action::GiveUp { client });
                self.clients[client] = Client::Out;
                Some(format!("client {client} gives up"))
            }
            Operation::Close { nth } => {
                let client = self.nth_client(nth, |at| matches!(at, At::InSession(_)))?;
                self.apply(Action::CloseSession { client });
                self.clients[client] = Client::Out;
                Some(format!("client {client} closes its session"))
            }
            Operation::Fail { nth } => {
                let client = self.nth_client(nth, |at| matches!(at, At::InSession(Some(_))))?;
                self.apply(Action::SessionFails { client });
                match std::mem::replace(&mut self.clients[client], Client::Out) {
                    Client::InSession(session) => Session::fail(session),
                    _ => self.is_wrong(client, "has no session"),
                }
                Some(format!("client {client}'s session is broken"))
            }
            Operation::SpawnEnds { nth, end } => {
                let ticket = self.spec.spawns.get(nth % self.spec.spawns.len().max(1))?.ticket;
                let result = match end {
                    SpawnEnd::Well => SpawnResult::Process,
                    SpawnEnd::Error | SpawnEnd::Panic => SpawnResult::Error,
                };
                self.apply(Action::SpawnEnds { ticket, result });
                self.spawner.end(ticket as u64, end);
                Some(format!("spawn {ticket} ends: {end:?}"))
            }
            Operation::Touch { dir } => {
                let dir = dir % self.spec.files.len();
                let file = &mut self.spawner.book().files[dir];
                self.touches += 1;
                *file = Some(self.touches);
                self.limits.changes(dir, Action::Touch { dir });
                Some(format!("restart file {dir} is touched"))
            }
            Operation::Delete { dir } => {
                let dir = dir % self.spec.files.len();
                self.spawner.book().files[dir] = None;
                self.limits.changes(dir, Action::Delete { dir });
                Some(format!("restart file {dir} is deleted"))
            }
            Operation::Detach { nth } => {
                let process = self.spec.processes.get(nth % self.spec.processes.len().max(1))?;
                let process = process.identifier;
                let attached = !process_is_detached(&self.spec, process);
                self.apply(Action::Detach { process });
                let found = self.pool.detach(Identifier::from_u64(process as u64));
                assert_eq!(found, attached, "whether {process} was there to be detached");
                Some(format!("process {process} is detached"))
            }
            Operation::ProcessFails { nth } => {
                let process = self.spec.processes.get(nth % self.spec.processes.len().max(1))?;
                let process = process.identifier;
                let attached = !process_is_detached(&self.spec, process);
                self.apply(Action::ProcessFails { process });
                let found = self.pool.process_has_failed(Identifier::from_u64(process as u64));
                assert_eq!(found, attached, "whether {process} was there to fail");
                Some(format!("process {process} fails"))
            }
            Operation::Toggle { nth } => {
                let process = self.spec.processes.get(nth % self.spec.processes.len().max(1))?;
                let (process, enable) = (process.identifier, process.disabled);
                let attached = !process_is_detached(&self.spec, process);
                let identifier = Identifier::from_u64(process as u64);
                let (action, found) = match enable {
                    true => (Action::Enable { process }, self.pool.enable(identifier)),
                    false => (Action::Disable { process }, self.pool.disable(identifier)),
                };
                self.apply(action);
                assert_eq!(
                    found, attached,
                    "whether {process} was there to be disabled or enabled"
                );
                Some(format!(
                    "process {process} is {}",
                    if enable { "enabled" } else { "disabled" }
                ))
            }
            Operation::DetachGroup { group } => {
                let group = group % groups;
                let known = self.spec.groups[group].known;
                self.apply(Action::DetachGroup { group });
                let found = self.pool.detach_group(self.options[group].app_group_name());
                assert_eq!(found, known, "whether {group} was there to be detached");
                Some(format!("group {group} is detached"))
            }
            Operation::RestartGroup { group, rolling } => {
                let group = group % groups;
                let known = self.spec.groups[group].known && !self.spec.groups[group].forgotten;
                let known = known && !self.spec.closed;
                let (mode, spec_mode) = match rolling {
                    true => (RestartMode::Rolling, configuration::RestartMode::Rolling),
                    false => (RestartMode::Immediate, configuration::RestartMode::Immediate),
                };
                self.apply(Action::RestartGroup { group, mode: spec_mode });
                let found = self.pool.restart_group(self.options[group].app_group_name(), mode);
                assert_eq!(found, known, "whether {group} was there to be restarted");
                Some(format!("group {group} is restarted: {mode:?}"))
            }
            Operation::PreStart { group } => {
                let group = group % groups;
                self.looks(group, true);
                self.apply(Action::PreStart { group });
                let started = self.pool.pre_start(&self.options[group]);
                assert_eq!(started.is_err(), self.spec.closed, "whether {group} may start");
                Some(format!("the minimum of group {group} is asked for"))
            }
            Operation::SetOptions { group, nth } => {
                let group = group % groups;
                let config = self.spec.config().clone();
                let all: Vec<_> = config.options_of(group).collect();
                let id = all[nth % all.len()];
                self.apply(Action::SetOptions { group, options: id });
                // A new object every time, though its values may equal the last one's.
                self.options[group] = options(&self.world, group, id);
                Some(format!("gets of {group} come with {:?}", config.options(group, id)))
            }
            Operation::SetMax(0) => {
                self.pool.set_max(0).expect_err("erratum E19");
                Some("max is not set to 0".to_owned())
            }
            Operation::SetMax(max) => {
                self.apply(Action::SetMax(max));
                self.pool.set_max(max).expect("not zero");
                Some(format!("max is {max}"))
            }
            Operation::SetMaxPerApp(max) => {
                self.apply(Action::SetMaxPerApp(max));
                self.pool.set_max_per_app(limit(max)).expect("not zero");
                Some(format!("max_per_app is {max}"))
            }
            Operation::SetMaxIdleTime(time) => {
                self.apply(Action::SetMaxIdleTime(time.into()));
                self.pool.set_max_idle_time(time_limit(time.into())).expect("not zero");
                Some(format!("max_idle_time is {time}"))
            }
            Operation::Tick(n) => {
                for _ in 0..n {
                    self.apply(Action::Tick);
                }
                self.clock.advance(seconds(n.into()));
                if let Some(client) = self.limits.timed_out(&self.spec) {
                    self.apply(Action::GiveUp { client });
                }
                Some(format!("{n} s pass"))
            }
            Operation::Clean => {
                let late = self.limits.late(&self.spec);
                self.change(|spec| spec.clean_and_give_up(&late));
                self.limits.note_late(&late, &self.spec);
                self.pool.clean();
                Some("the cleaner passes".to_owned())
            }
            Operation::ClosePool => {
                if self.closing.is_some() {
                    return None;
                }
                self.apply(Action::ClosePool);
                let pool = self.pool.clone();
                self.closing = Some(std::thread::spawn(move || pool.close()));
                Some("the pool is closed".to_owned())
            }
            Operation::WaitClosed => {
                let ended = self.spec.closed && self.spec.live() == 0;
                let pool = &self.pool;
                // The last shut-down may still be under way.
                let says = look_until(|| pool.wait_closed(Duration::ZERO), |says| *says == ended);
                if says != ended {
                    self.wrong.get_or_insert(format!("whether it has come to its end: {says}"));
                }
                Some(format!("it is asked whether the pool has come to its end: {ended}"))
            }
            Operation::Downgrade => {
                self.weak.push(self.pool.downgrade());
                Some("a weak handle is made".to_owned())
            }
        }
    }

    fn get(&mut self, client: usize, group: usize, how: How, connects: &[Connect]) {
        self.connect(client, connects.to_vec());
        let (pool, options) = (self.pool.clone(), self.options[group].clone());
        if how == How::Awaits {
            let future = async move { pool.get_async(&options).await };
            self.clients[client] = Client::Asking(Task::new(future));
            return self.run(client, connects);
        }
        self.spawner.book().connects = connects.iter().copied().collect();
        let got = match how {
            How::Tries => pool.try_get(&options),
            _ if self.would_wait(client) => {
                self.give_up(Task::new(async move { pool.get_async(&options).await }))
            }
            _ => pool.get(&options),
        };
        self.spawner.book().connects.clear();
        self.ended(client, got);
    }

    fn check_out(&mut self, client: usize, group: usize, how: How) {
        let (pool, options) = (self.pool.clone(), self.options[group].clone());
        let leased = match how {
            How::Awaits => {
                let future = async move { pool.checkout_async(&options).await };
                self.clients[client] = Client::CheckingOut(Task::new(future));
                return self.run(client, &[]);
            }
            How::Timed(limit) if self.limits.may_be_timed() => {
                self.limits.is_timed(client, self.spec.now + i64::from(limit));
                let (sender, receiver) = channel();
                std::thread::spawn(move || {
                    sender.send(pool.checkout_timeout(&options, seconds(limit.into())))
                });
                self.clients[client] = Client::Blocked(receiver);
                return self.run(client, &[]);
            }
            How::Tries => pool.try_checkout(&options),
            _ if self.would_wait(client) => {
                self.give_up(Task::new(async move { pool.checkout_async(&options).await }))
            }
            _ => pool.checkout(&options),
        };
        self.checked_out(client, Poll::Ready(leased));
    }

    /// Returns whether a get would have to wait. If so, it gives up at once.
    fn would_wait(&mut self, client: usize) -> bool {
        let waits = matches!(self.spec.clients[client].at, At::Waiting(_));
        if waits {
            self.apply(Action::GiveUp { client });
        }
        waits
    }

    /// Drops a get as soon as it waits. With a time limit of zero it would not wait for its look.
    fn give_up<T>(&self, mut task: Task<Result<T, GetError>>) -> Result<T, GetError> {
        let (pool, waiting) = (&self.pool, self.spec.waiting);
        match poll(&mut task, || pool.counts().waiting > waiting) {
            Poll::Ready(got) => got,
            Poll::Pending => Err(GetError::TimedOut),
        }
    }

    fn end_lease(&mut self, client: usize, lease: Lease<Scripted>, end: LeaseEnd) {
        // A process that was detached meanwhile cannot be detached again.
        let gone = self.spec.clients[client].at.process().is_none();
        match end {
            LeaseEnd::Connected => {
                self.apply(Action::Connected { client });
                self.clients[client] = Client::InSession(lease.connected(()));
            }
            LeaseEnd::Close => {
                self.apply(Action::Connected { client });
                self.apply(Action::CloseSession { client });
                lease.close();
            }
            LeaseEnd::Fail => {
                self.apply(Action::Connected { client });
                self.apply(match gone {
                    true => Action::CloseSession { client },
                    false => Action::SessionFails { client },
                });
                lease.fail();
            }
            LeaseEnd::Cancel => {
                self.apply(Action::GiveUp { client });
                self.failed[client] = None;
                lease.cancel();
            }
        }
    }

    fn nth(&self, n: usize, wanted: impl Fn(&Client) -> bool) -> Option<usize> {
        let fitting: Vec<usize> =
            (0..self.clients.len()).filter(|&client| wanted(&self.clients[client])).collect();
        fitting.get(n % fitting.len().max(1)).copied()
    }
    fn nth_client(&self, n: usize, wanted: impl Fn(At) -> bool) -> Option<usize> {
        let fits = |&c: &usize| wanted(self.spec.clients[c].at);
        let fitting: Vec<usize> = (0..self.clients.len()).filter(fits).collect();
        fitting.get(n % fitting.len().max(1)).copied()
    }

    /// A get looks at its restart file, or uses the last look once more.
    fn looks(&mut self, group: usize, anew: bool) {
        let config = &self.world.config;
        let dir = config.options(group, self.spec.brought[group]).restart_dir;
        for change in self.limits.sees(dir, self.spec.now, anew) {
            self.apply(change);
        }
    }

    fn apply(&mut self, action: Action) {
        self.change(|spec| spec.apply(&action));
    }
    fn change(&mut self, step: impl FnOnce(&mut pool::Pool)) {
        let reloads = |spec: &pool::Pool, group: usize| spec.groups[group].reload_pending;
        let before: Vec<bool> = (0..self.options.len()).map(|g| reloads(&self.spec, g)).collect();
        step(&mut self.spec);
        self.limits.note(&self.spec);
        for (at, event) in self.spec.events.iter().enumerate() {
            let Event::SpawnBegun { group, ticket, .. } = *event else { continue };
            // An order records whether it reloads when it is given. A restart later in the step
            // cancels it.
            let restarts_later = self.spec.events[at..].contains(&Event::Restarting { group });
            let reload = if restarts_later { before[group] } else { reloads(&self.spec, group) };
            if reload {
                self.reported.reloads(ticket);
            }
        }
        for event in &self.spec.events {
            self.reported.add(&self.spec, event);
        }
        for event in &self.spec.events {
            if let Event::Failed { client, why } = *event {
                self.failed[client] = Some(why);
            }
        }
    }

    /// Carries out the specification's side of the connects that one run of a task makes.
    fn connect(&mut self, client: usize, connects: Vec<Connect>) {
        let mut connects = connects.into_iter();
        loop {
            match self.spec.clients[client].at {
                At::Connecting(_) => {
                    let action = match connects.next().unwrap_or(Connect::Well) {
                        Connect::Well => Action::Connected { client },
                        Connect::Process => Action::ConnectFails { client, local: false },
                        Connect::Local => Action::ConnectFails { client, local: true },
                    };
                    self.apply(action);
                }
                At::Again => self.apply(Action::Retry { client }),
                _ => return,
            }
        }
    }

    /// Lets a client's task run once.
    fn run(&mut self, client: usize, connects: &[Connect]) {
        let waits = matches!(self.spec.clients[client].at, At::Waiting(_));
        let (pool, waiting) = (self.pool.clone(), self.spec.waiting);
        if let Client::Blocked(leased) = &self.clients[client] {
            let ended = || leased.try_recv().map_or(Poll::Pending, Poll::Ready);
            let is_queued = || waits && pool.counts().waiting == waiting;
            let polled = look_until(ended, |polled| polled.is_ready() || is_queued());
            if polled.is_ready() {
                self.limits.has_ended(client);
            }
            return self.checked_out(client, polled);
        }
        if let Client::CheckingOut(task) = &mut self.clients[client] {
            let polled = poll(task, || waits && pool.counts().waiting == waiting);
            return self.checked_out(client, polled);
        }
        let Client::Asking(task) = &mut self.clients[client] else { return };
        self.spawner.book().connects = connects.iter().copied().collect();
        let polled = poll(task, || waits && pool.counts().waiting == waiting);
        self.spawner.book().connects.clear();
        match polled {
            Poll::Ready(got) => self.ended(client, got),
            Poll::Pending => {
                if !matches!(self.spec.clients[client].at, At::Waiting(_)) {
                    self.is_wrong(client, "waits");
                }
            }
        }
    }

    fn checked_out(&mut self, client: usize, polled: Poll<Leased>) {
        match (polled, self.spec.clients[client].at) {
            (Poll::Pending, At::Waiting(_)) => {}
            (Poll::Ready(Ok(lease)), At::Connecting(process)) => {
                let theirs = lease.identifier().as_u64();
                if process.is_some_and(|process| process as u64 != theirs) {
                    self.is_wrong(client, format!("is given a lease of {theirs}"));
                }
                self.clients[client] = Client::Leasing(lease);
            }
            (Poll::Ready(Err(error)), At::Out) => self.ended(client, Err(error)),
            (polled, _) => self.is_wrong(client, format!("checks out: {polled:?}")),
        }
    }

    /// A real get has ended: the specification's must have ended the same way.
    fn ended(&mut self, client: usize, got: Got) {
        let at = self.spec.clients[client].at;
        match (got, at) {
            (Ok(session), At::InSession(process)) => {
                let theirs = Session::identifier(&session).as_u64();
                if process.is_some_and(|process| process as u64 != theirs) {
                    self.is_wrong(client, format!("is served by {theirs}"));
                }
                self.clients[client] = Client::InSession(session);
            }
            (Err(error), At::Out) => {
                self.clients[client] = Client::Out;
                match self.failed[client].take() {
                    Some(why) if is_this(&error, why, self.limits.is_too_long(client)) => {}
                    why => self.is_wrong(client, format!("fails with {error}, not with {why:?}")),
                }
            }
            (got, _) => {
                self.clients[client] = Client::Out;
                self.is_wrong(client, format!("is given {got:?}"));
            }
        }
    }

    fn is_wrong(&mut self, client: usize, what: impl std::fmt::Display) {
        let at = self.spec.clients[client].at;
        let said = format!("client {client} {what}; the specification has it {at:?}");
        self.wrong.get_or_insert(said);
    }
}

/// Polls a task when it is woken, until it is ready or waits in its queue. At first it waits for a look at the restart
/// files, which a thread of the pool makes.
fn poll<T>(task: &mut Task<T>, is_queued: impl Fn() -> bool) -> Poll<T> {
    let task = std::cell::RefCell::new(task);
    let once = || task.borrow_mut().poll_if_woken().map_or(Poll::Pending, Poll::Ready);
    look_until(once, |polled| polled.is_ready() || is_queued())
}

fn process_is_detached(spec: &pool::Pool, process: usize) -> bool {
    spec.find(process).is_none_or(|process| process.detached)
}

fn is_this(error: &GetError, why: Failure, too_long: bool) -> bool {
    match why {
        _ if too_long => matches!(error, GetError::QueuedTooLong),
        Failure::Closed => matches!(error, GetError::Closed),
        Failure::QueueFull => matches!(error, GetError::QueueFull { .. }),
        Failure::WouldBlock => matches!(error, GetError::WouldBlock),
        Failure::Spawn => matches!(error, GetError::Spawn(_)),
        Failure::Connect => matches!(error, GetError::Connect(_)),
        Failure::GaveUp => matches!(error, GetError::TimedOut),
    }
}
