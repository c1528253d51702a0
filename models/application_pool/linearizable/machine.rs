//! The machine of `spec/` as a sequential specification: it takes one operation after the other.

use cabrank_spec::application_pool::configuration::{Config, Options};
use cabrank_spec::application_pool::pool::{Action, At, Event, Failure, Pool, SpawnResult};
use stateright::semantics::SequentialSpec;

pub(super) const GROUPS: [&str; 2] = ["/a", "/b"];

/// An operation, which takes effect at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Op {
    /// A get looks at its group's restart file, without the lock.
    Looks {
        client: usize,
        group: usize,
    },
    /// A get begins: it is served, queues up, or fails.
    Get {
        client: usize,
        group: usize,
    },
    /// A waiting get looks for its outcome.
    Sees {
        client: usize,
    },
    TryGet {
        client: usize,
        group: usize,
    },
    /// A waiting get is given up.
    GiveUp {
        client: usize,
    },
    Close {
        client: usize,
    },
    SpawnEnds {
        ticket: usize,
        well: bool,
    },
    Detach {
        process: usize,
    },
    SetMax(usize),
    Touch {
        group: usize,
    },
    ClosePool,
    Counts,
    Totals,
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ret {
    Done,
    /// The operation could not happen then.
    Impossible,
    /// The time of a restart file.
    Time(Option<u64>),
    Served(usize),
    Waits,
    Fails(Failure),
    Found(bool),
    Spawned(bool),
    /// The counts: processes, active ones, spawns, draining ones, waiting gets.
    Counts([usize; 5]),
    /// The totals: spawned, failed, detached, processed, waited.
    Totals([u64; 5]),
}

#[derive(Clone)]
pub(super) struct Machine {
    pool: Pool,
    /// The time that each client's get saw at the restart file, until the get begins.
    looked: Vec<Option<Option<u64>>>,
    /// The error of each client's get, until the client sees it.
    failed: Vec<Option<Failure>>,
    /// The result that each client saw before the machine had got so far.
    promised: Vec<Option<Ret>>,
}

impl Machine {
    pub(super) fn new(clients: usize, max: usize, restart_file: bool) -> Self {
        let groups = GROUPS.iter().enumerate().map(|(dir, name)| Options::new(name).dir(dir));
        let config = Config::new(groups.collect(), max, clients).but(|config| {
            config.connects = true;
            config.restart_file = restart_file;
            config.environment.early_deaths = true;
        });
        Machine {
            pool: Pool::new(config),
            looked: vec![None; clients],
            failed: vec![None; clients],
            promised: vec![None; clients],
        }
    }

    fn apply(&mut self, action: Action) -> Ret {
        self.pool.apply(&action);
        for event in &self.pool.events {
            if let Event::Failed { client, why } = *event {
                self.failed[client] = Some(why);
            }
        }
        Ret::Done
    }

    /// Begins a get with the time that it saw. The machine looks in the same step, but the pool does not. Another
    /// get's later look may have come first; then this look is no change.
    fn begin(&mut self, client: usize, group: usize, get: Action) -> Ret {
        if !self.keeps_promise(client) {
            return Ret::Impossible;
        }
        let now = self.pool.files[group];
        if now.is_some() {
            let Some(looked) = self.looked[client].take() else { return Ret::Impossible };
            // The look at the one directory that the group's gets name.
            let seen = self.pool.groups[group].seen[0].flatten();
            self.pool.files[group] = looked.max(seen);
        }
        self.apply(get);
        self.pool.files[group] = now;
        self.sees(client)
    }

    /// Returns whether the machine now gives the result that the client saw earlier.
    fn keeps_promise(&mut self, client: usize) -> bool {
        let promised = self.promised[client].take();
        promised.is_none_or(|promised| self.sees(client) == promised)
    }

    fn sees(&mut self, client: usize) -> Ret {
        match self.pool.clients[client].at {
            At::Connecting(Some(process)) => {
                self.apply(Action::Connected { client });
                Ret::Served(process)
            }
            At::Waiting(_) => Ret::Waits,
            At::Out => self.failed[client].take().map_or(Ret::Impossible, Ret::Fails),
            _ => Ret::Impossible,
        }
    }
}

impl SequentialSpec for Machine {
    type Op = Op;
    type Ret = Ret;

    fn invoke(&mut self, op: &Op) -> Ret {
        match *op {
            Op::Looks { client, group } => {
                self.looked[client] = Some(self.pool.files[group]);
                Ret::Time(self.pool.files[group])
            }
            Op::Get { client, group } => self.begin(client, group, Action::Get { client, group }),
            Op::Sees { client } => self.sees(client),
            Op::TryGet { client, group } => {
                self.begin(client, group, Action::TryGet { client, group })
            }
            Op::GiveUp { client } => match self.pool.clients[client].at {
                // Its outcome was granted meanwhile, and it did not look.
                At::Out => self.failed[client].take().map_or(Ret::Impossible, |_| Ret::Done),
                _ => {
                    self.apply(Action::GiveUp { client });
                    self.failed[client] = None;
                    Ret::Done
                }
            },
            Op::Close { client } => match self.keeps_promise(client) {
                true => self.apply(Action::CloseSession { client }),
                false => Ret::Impossible,
            },
            Op::SpawnEnds { ticket, well } => {
                if !self.pool.spawns.iter().any(|spawn| spawn.ticket == ticket) {
                    return Ret::Impossible;
                }
                let result = if well { SpawnResult::Process } else { SpawnResult::Error };
                self.apply(Action::SpawnEnds { ticket, result });
                let spawned = |event: &Event| {
                    matches!(event, Event::Attached { .. } | Event::Unwanted { .. })
                };
                Ret::Spawned(self.pool.events.iter().any(spawned))
            }
            Op::Detach { process } => {
                let attached = self.pool.find(process).is_some_and(|p| !p.detached);
                self.apply(Action::Detach { process });
                Ret::Found(attached)
            }
            Op::SetMax(max) => self.apply(Action::SetMax(max)),
            Op::Touch { group } => {
                self.pool.files[group] = self.pool.files[group].map(|time| time + 1);
                Ret::Done
            }
            Op::ClosePool => self.apply(Action::ClosePool),
            Op::Counts => {
                let p = &self.pool;
                let active = usize::try_from(p.active).expect("never negative as ruled");
                Ret::Counts([p.count, active, p.spawns.len(), p.draining.len(), p.waiting])
            }
            Op::Totals => {
                let t = self.pool.totals;
                Ret::Totals([t.spawned, t.spawns_failed, t.detached, t.processed, t.waited])
            }
        }
    }

    fn is_valid_step(&mut self, op: &Op, ret: &Ret) -> bool {
        let gives = self.invoke(op);
        if let (Op::Get { client, .. }, Ret::Waits) = (op, &gives) {
            self.promised[*client] = (*ret != Ret::Waits).then(|| ret.clone());
            return true;
        }
        gives == *ret
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Machine")
    }
}
