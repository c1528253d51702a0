//! What a pool is made with, and what may happen to it: the text's `PoolOptions`, its limits, and the
//! environment.
//!
//! A [`Config`] is a closed world: the groups, the clients and what they may ask for, and which
//! of the things that no client does may happen. What may happen may happen at any time and any number
//! of times: there are no budgets to run out of, so what is found to hold holds for ever, and the
//! space stays finite because the machine's [normal form](crate::pool::Pool::normal) forgets what no longer
//! matters.

use crate::rules::Rules;

/// A group, by its place in [`Config::groups`].
pub type GroupId = usize;
/// A client, by its place in [`Config::clients`].
pub type ClientId = usize;
/// The text's `identifier`: counts upwards, so in a group the lowest is the oldest.
pub type ProcessId = usize;
/// Time is a counter.
pub type Time = i64;
/// A directory in which restart files are looked for.
pub type Dir = usize;

/// A set of options of a group: 0 is that in [`Config::groups`], n the nth of [`Environment::options`].
pub type OptionsId = usize;

/// How a group's processes are replaced (E34).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RestartMode {
    /// All go at once.
    #[default]
    Immediate,
    /// One by one, each when its successor is ready.
    Rolling,
}

/// The text's `PoolOptions`, with what was added to it. A get brings them; the group has those of the
/// get that looked for one of its processes last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The text's `app_group_name`.
    pub name: String,
    /// How many processes are kept; 0: none.
    pub min_processes: usize,
    /// How many sessions a process is given in all; 0: any number.
    pub max_requests: usize,
    /// How many sessions a process takes at once; 0: any number, the text's private queue; 1: the
    /// text's global queue.
    pub concurrency: usize,
    /// How many gets may wait; 0: any number (E19).
    pub max_queue: usize,
    /// How its processes are replaced.
    pub restart_mode: RestartMode,
    /// Where its `restart.txt` is.
    pub restart_dir: Dir,
    /// Whether there is an `always_restart.txt`.
    pub always_restart: bool,
}

impl Options {
    /// The global queue, no minimum, no limit; a restart directory of its own is for the caller to give.
    pub fn new(name: &str) -> Options {
        Options {
            name: name.into(),
            min_processes: 0,
            max_requests: 0,
            concurrency: 1,
            max_queue: 0,
            restart_mode: RestartMode::Immediate,
            restart_dir: 0,
            always_restart: false,
        }
    }
    /// With a private queue for each process.
    pub fn private(mut self) -> Options {
        self.concurrency = 0;
        self
    }
    /// With this minimum.
    pub fn min(mut self, min_processes: usize) -> Options {
        self.min_processes = min_processes;
        self
    }
    /// Restarting one by one.
    pub fn rolling(mut self) -> Options {
        self.restart_mode = RestartMode::Rolling;
        self
    }
    /// With its restart files in this directory.
    pub fn dir(mut self, dir: Dir) -> Options {
        self.restart_dir = dir;
        self
    }
}

/// What may happen that no client asks for, at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Environment {
    /// Spawns may fail.
    pub spawns_fail: bool,
    /// Spawner threads may fail to start (E11).
    pub no_thread: bool,
    /// `restart.txt` may be touched.
    pub touch: bool,
    /// `restart.txt` may be deleted (E23).
    pub delete: bool,
    /// A process may be detached by its identifier.
    pub detach: bool,
    /// A group may be detached and forgotten.
    pub detach_group: bool,
    /// A process may break a session, or not be connected to.
    pub processes_fail: bool,
    /// A client may fail to connect for reasons of its own (E31).
    pub clients_fail: bool,
    /// A get may give up.
    pub give_up: bool,
    /// A client may ask without wanting to wait.
    pub try_get: bool,
    /// Time passes, and the cleaner runs.
    pub time: bool,
    /// No time passes while something is due for the cleaner.
    pub punctual: bool,
    /// What `max` may be set to.
    pub set_max: Vec<usize>,
    /// What `max_per_app` may be set to.
    pub set_max_per_app: Vec<usize>,
    /// What `MAX_IDLE_TIME` may be set to.
    pub set_max_idle_time: Vec<Time>,
    /// With which other options gets may come, and for which group. Made by [`Config::or`].
    pub options: Vec<(GroupId, Options)>,
    /// The pool may be closed.
    pub close: bool,
}

/// A closed world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The groups that may be asked for.
    pub groups: Vec<Options>,
    /// For each client, which groups it asks for.
    pub clients: Vec<Vec<GroupId>>,
    /// How many processes there may be.
    pub max: usize,
    /// How many one group may have; 0: as many as the pool.
    pub max_per_app: usize,
    /// The text's `MAX_IDLE_TIME`; 0: never.
    pub max_idle_time: Time,
    /// How long a detached process may finish its sessions (E13).
    pub drain_timeout: Time,
    /// How many more than `max` may live; none: as many as `max` (E25).
    pub max_draining: Option<usize>,
    /// For how long a group backs off, at first and at most (E26).
    pub back_off: (Time, Time),
    /// How often a get tries when connecting fails.
    pub max_attempts: usize,
    /// Whether connecting is an action of its own.
    pub connects: bool,
    /// Whether the first restart file exists from the beginning.
    pub restart_file: bool,
    /// Which errata are carried out as written.
    pub rules: Rules,
    /// What else may happen.
    pub environment: Environment,
}

impl Config {
    /// A world of these groups, in which every one of so many clients may ask for each of them.
    pub fn new(groups: Vec<Options>, max: usize, clients: usize) -> Config {
        let all: Vec<GroupId> = (0..groups.len()).collect();
        Config {
            groups,
            clients: vec![all; clients],
            max,
            max_per_app: 0,
            max_idle_time: 0,
            drain_timeout: 2,
            max_draining: None,
            back_off: (1, 2),
            max_attempts: 2,
            connects: false,
            restart_file: false,
            rules: Rules::AS_RULED,
            environment: Environment::default(),
        }
    }
    /// The same, where this may happen, too.
    pub fn with(mut self, change: impl FnOnce(&mut Environment)) -> Config {
        change(&mut self.environment);
        self
    }
    /// The same, changed.
    pub fn but(mut self, change: impl FnOnce(&mut Config)) -> Config {
        change(&mut self);
        self
    }
    /// The same, where gets of the group may also come with its options so changed. Its name stays.
    pub fn or(mut self, group: GroupId, change: impl FnOnce(&mut Options)) -> Config {
        let mut options = self.groups[group].clone();
        change(&mut options);
        options.name.clone_from(&self.groups[group].name);
        self.environment.options.push((group, options));
        self
    }
    /// The same under other rules.
    pub fn ruled(mut self, rules: Rules) -> Config {
        self.rules = rules;
        self
    }
    /// How many directories of restart files there are.
    pub fn dirs(&self) -> usize {
        let others = self.environment.options.iter().map(|(_, options)| options);
        let all = self.groups.iter().chain(others);
        all.map(|options| options.restart_dir + 1).max().unwrap_or(0)
    }
    /// One set of options of a group.
    pub fn options(&self, group: GroupId, id: OptionsId) -> &Options {
        match id.checked_sub(1) {
            None => &self.groups[group],
            Some(nth) => &self.environment.options[nth].1,
        }
    }
    /// All sets of options of a group.
    pub fn options_of(&self, group: GroupId) -> impl Iterator<Item = OptionsId> + '_ {
        let others = self.environment.options.iter().enumerate();
        let here = others.filter(move |(_, (of, _))| *of == group);
        std::iter::once(0).chain(here.map(|(nth, _)| nth + 1))
    }
    /// The first set of options under which a process behaves as under this one.
    pub(crate) fn alike(&self, group: GroupId, id: OptionsId) -> OptionsId {
        let matters = |id: OptionsId| {
            let options = self.options(group, id);
            (options.concurrency, options.max_requests)
        };
        self.options_of(group).find(|&other| matters(other) == matters(id)).unwrap_or(id)
    }
}
