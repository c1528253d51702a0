//! The machine: the possible actions, and the effect of each.

use crate::application_pool::configuration::{Config, ProcessId, RestartMode};
use crate::application_pool::pool::{Action, At, Event, Lock, Pool, SpawnResult};
use crate::application_pool::session::Ending;

impl Pool {
    /// Returns the actions that the state and the configuration's environment allow.
    pub fn enabled(&self) -> Vec<Action> {
        let mut out = Vec::new();
        match self.lock {
            // The holder joins a thread, and the thread waits for the lock.
            Lock::Joining(_) => {}
            Lock::Spawning(_) => self.spawn_ends(&mut out),
            Lock::Free => {
                for client in 0..self.clients.len() {
                    self.client_acts(client, &mut out);
                }
                self.spawn_ends(&mut out);
                self.environment_acts(&mut out);
            }
        }
        out
    }

    fn client_acts(&self, client: usize, out: &mut Vec<Action>) {
        let env = &self.config().environment;
        let give_up = |out: &mut Vec<Action>| {
            if env.give_up {
                out.push(Action::GiveUp { client });
            }
        };
        match self.clients[client].at {
            At::Out if self.closed => {}
            At::Out => {
                for &group in &self.config().clients[client] {
                    out.push(Action::Get { client, group });
                    if env.try_get {
                        out.push(Action::TryGet { client, group });
                    }
                }
            }
            At::Waiting(_) => give_up(out),
            At::Again => {
                out.push(Action::Retry { client });
                give_up(out);
            }
            At::Spawning => {}
            At::Connecting(_) => {
                out.push(Action::Connected { client });
                if env.processes_fail {
                    out.push(Action::ConnectFails { client, local: false });
                }
                if env.clients_fail {
                    out.push(Action::ConnectFails { client, local: true });
                }
                give_up(out);
            }
            At::InSession(process) => {
                let endless = self.clients[client].endless && process.is_some();
                if !endless {
                    out.push(Action::CloseSession { client });
                    if env.endless.contains(&client) && process.is_some() {
                        out.push(Action::NeverCloses { client });
                    }
                }
                if env.processes_fail && process.is_some() {
                    out.push(Action::SessionFails { client });
                }
            }
        }
    }

    fn spawn_ends(&self, out: &mut Vec<Action>) {
        let env = &self.config().environment;
        for spawn in &self.spawns {
            if self.lock != Lock::Free && spawn.under_lock.is_none() {
                continue;
            }
            let ticket = spawn.ticket;
            out.push(Action::SpawnEnds { ticket, result: SpawnResult::Process });
            if env.spawns_fail {
                out.push(Action::SpawnEnds { ticket, result: SpawnResult::Error });
            }
            if env.no_thread && spawn.under_lock.is_none() {
                out.push(Action::SpawnEnds { ticket, result: SpawnResult::NoThread });
            }
        }
    }

    fn environment_acts(&self, out: &mut Vec<Action>) {
        let env = &self.config().environment;
        if env.touch {
            out.extend((0..self.files.len()).map(|dir| Action::Touch { dir }));
        }
        if env.delete {
            let there = (0..self.files.len()).filter(|&dir| self.files[dir].is_some());
            out.extend(there.map(|dir| Action::Delete { dir }));
        }
        if !env.options.is_empty() {
            for group in 0..self.groups.len() {
                let all = self.config().options_of(group);
                let others = all.filter(|&options| options != self.brought[group]);
                out.extend(others.map(|options| Action::SetOptions { group, options }));
            }
        }
        if env.detach {
            let attached = self.processes.iter().filter(|process| !process.detached);
            out.extend(attached.map(|process| Action::Detach { process: process.identifier }));
        }
        if env.disable {
            let attached = || self.processes.iter().filter(|process| !process.detached);
            // Otherwise no process may be left to serve a get, for ever.
            if attached().filter(|process| process.disabled).count() + 1 < self.max {
                let enabled = attached().filter(|process| !process.disabled);
                out.extend(enabled.map(|process| Action::Disable { process: process.identifier }));
            }
            let disabled = attached().filter(|process| process.disabled);
            out.extend(disabled.map(|process| Action::Enable { process: process.identifier }));
        }
        if env.early_deaths {
            let attached = self.processes.iter().filter(|process| !process.detached);
            out.extend(
                attached.map(|process| Action::ProcessFails { process: process.identifier }),
            );
        }
        if env.detach_group {
            let known = (0..self.groups.len()).filter(|&group| self.groups[group].known);
            out.extend(known.map(|group| Action::DetachGroup { group }));
        }
        if env.restart_group {
            let known = (0..self.groups.len()).filter(|&group| self.groups[group].known);
            let modes = [RestartMode::Immediate, RestartMode::Rolling];
            out.extend(known.flat_map(|group| {
                modes.into_iter().map(move |mode| Action::RestartGroup { group, mode })
            }));
        }
        if env.pre_start && !self.closed {
            out.extend((0..self.groups.len()).map(|group| Action::PreStart { group }));
        }
        let other = |values: &[usize], now: usize| -> Vec<usize> {
            values.iter().copied().filter(|&value| value != now).collect()
        };
        out.extend(other(&env.set_max, self.max).into_iter().map(Action::SetMax));
        let per_app = other(&env.set_max_per_app, self.max_per_app);
        out.extend(per_app.into_iter().map(Action::SetMaxPerApp));
        let idle = env.set_max_idle_time.iter().filter(|&&time| time != self.max_idle_time);
        out.extend(idle.map(|&time| Action::SetMaxIdleTime(time)));
        if env.time {
            if self.is_due() {
                out.push(Action::Clean);
            }
            if !(env.punctual && self.is_due()) {
                out.push(Action::Tick);
            }
        }
        if env.close && !self.closed {
            out.push(Action::ClosePool);
        }
    }

    /// Carries out an action. Its effects are in `events` afterwards.
    pub fn apply(&mut self, action: &Action) {
        self.events.clear();
        match *action {
            Action::Get { client, group } => self.get(client, group, true),
            Action::TryGet { client, group } => self.get(client, group, false),
            Action::Retry { client } => self.retry(client),
            Action::Connected { client } => self.connected(client),
            Action::ConnectFails { client, local } => self.connect_fails(client, local),
            Action::GiveUp { client } => self.give_up(client),
            Action::CloseSession { client } => {
                self.session_has_been_closed(client, Ending::Closed);
            }
            Action::SessionFails { client } => {
                self.session_has_been_closed(client, Ending::Failed);
            }
            Action::NeverCloses { client } => self.clients[client].endless = true,
            Action::SpawnEnds { ticket, result } => self.spawn_has_ended(ticket, result),
            Action::Touch { dir } => self.touch(dir),
            Action::Delete { dir } => self.delete(dir),
            Action::Detach { process } => self.detach_without_lock(process),
            Action::Disable { process } => self.set_enabled(process, false),
            Action::Enable { process } => self.set_enabled(process, true),
            Action::ProcessFails { process } => self.process_has_failed(process),
            Action::DetachGroup { group } => self.detach_group(group),
            Action::RestartGroup { group, mode } => self.restart_group(group, mode),
            Action::PreStart { group } => self.pre_start(group),
            Action::SetOptions { group, options } => self.brought[group] = options,
            Action::SetMax(max) => self.mutate_max(max),
            Action::SetMaxPerApp(max_per_app) => self.mutate_max_per_app(max_per_app),
            Action::SetMaxIdleTime(time) => {
                self.max_idle_time = time;
                self.tell_cleaner(self.next_due());
            }
            Action::Tick => self.now += 1,
            Action::Clean => self.clean(),
            Action::ClosePool => self.close(),
        }
        self.end_step();
    }
    pub(crate) fn end_step(&mut self) {
        self.settle();
        // A number above a lowered max may only fall, until it is within max again.
        self.ceiling = self.max.max(self.ceiling.min(self.count + self.reserved));
        self.live_ceiling = self.live_limit().max(self.live_ceiling.min(self.live()));
    }

    /// Returns the state after an action.
    pub fn step(&self, action: &Action) -> Pool {
        let mut next = self.clone();
        next.apply(action);
        next
    }
}

impl Action {
    /// Renames the processes and spawns in an action.
    pub fn renamed(self, name: impl Fn(ProcessId) -> ProcessId) -> Action {
        match self {
            Action::SpawnEnds { ticket, result } => {
                Action::SpawnEnds { ticket: name(ticket), result }
            }
            Action::Detach { process } => Action::Detach { process: name(process) },
            Action::ProcessFails { process } => Action::ProcessFails { process: name(process) },
            Action::Disable { process } => Action::Disable { process: name(process) },
            Action::Enable { process } => Action::Enable { process: name(process) },
            other => other,
        }
    }

    /// Returns whether the system takes the action without outside help.
    ///
    /// Such actions are: a woken client looks again, a client connects or closes its session, a spawn
    /// ends, time passes, the cleaner runs. All others, a new get included, need never happen.
    pub fn is_the_systems_own(&self) -> bool {
        use Action::*;
        matches!(
            self,
            Retry { .. } | Connected { .. } | CloseSession { .. } | SpawnEnds { .. } | Tick | Clean
        )
    }
}

impl Event {
    /// Renames the processes and spawns in an event.
    pub fn renamed(self, name: impl Fn(ProcessId) -> ProcessId) -> Event {
        let mut event = self;
        match &mut event {
            Event::Served { process: id, .. }
            | Event::SpawnBegun { ticket: id, .. }
            | Event::GivenUp { ticket: id }
            | Event::Attached { process: id, .. }
            | Event::Unwanted { ticket: id }
            | Event::Orphaned { ticket: id }
            | Event::SpawnFailed { ticket: id, .. }
            | Event::Detached { process: id, .. }
            | Event::Gone { process: id, .. }
            | Event::MarkedForEviction { process: id }
            | Event::Unmarked { process: id } => *id = name(*id),
            Event::Waits { .. } | Event::Woken { .. } | Event::Failed { .. } => {}
            Event::Restarting { .. } | Event::LockHeld => {}
        }
        event
    }
}

/// The [checker](crate::checking) explores a configuration.
impl crate::checking::machine::Machine for Config {
    type State = Pool;
    type Action = Action;

    fn initial(&self) -> Pool {
        Pool::new(self.clone())
    }
    fn actions(&self, pool: &Pool) -> Vec<Action> {
        pool.enabled()
    }
    fn step(&self, pool: &Pool, action: &Action) -> Pool {
        pool.step(action)
    }
    fn normal(&self, pool: &mut Pool) {
        pool.normal();
    }
    /// A client waits or the lock is held, and no action of the system itself can help.
    fn stuck(&self, pool: &Pool, actions: &[Action]) -> bool {
        let waits =
            |c: usize| matches!(pool.clients[c].at, At::Waiting(_)) && !pool.waits_for_endless(c);
        let waits = (0..pool.clients.len()).any(waits);
        let idles = |action: &Action| matches!(action, Action::Tick);
        (waits || pool.lock != Lock::Free)
            && !actions.iter().any(|action| action.is_the_systems_own() && !idles(action))
            && !(actions.contains(&Action::Tick) && pool.next_due().is_some())
    }
}
