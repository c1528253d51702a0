//! Configurations: a pool's options and limits, its clients, and its environment.
//!
//! A [`Config`] is a closed world: groups, clients, the groups they may ask for, and the events of the
//! environment that may happen. A possible event may happen at any time and any number of times. There are
//! no budgets, so a property that holds here holds for histories of any length. The space is finite
//! because the [normal form](crate::application_pool::pool::Pool::normal) forgets what no longer matters.

use crate::application_pool::rules::Rules;

/// A group: its index in [`Config::groups`].
pub type GroupId = usize;
/// A client: its index in [`Config::clients`].
pub type ClientId = usize;
/// The pseudocode's `identifier`. It counts upwards, so the lowest in a group is the oldest.
pub type ProcessId = usize;
/// A time: a counter.
pub type Time = i64;
/// A directory for restart files.
pub type Dir = usize;

/// A group's set of options: 0 is the one in [`Config::groups`], n the nth in [`Environment::options`].
pub type OptionsId = usize;

/// The way a restart replaces a group's processes (E34).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RestartMode {
    /// Detaches all processes at once.
    #[default]
    Immediate,
    /// Replaces processes one by one, each when its successor is ready.
    Rolling,
}

/// The pseudocode's `PoolOptions`, with the options that the rulings add.
///
/// A get brings its options; the group has those of the get that looked for a process last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// The pseudocode's `app_group_name`.
    pub name: String,
    /// The number of processes that the group keeps.
    pub min_processes: usize,
    /// The total number of sessions that a process is given; 0 is no limit.
    pub max_requests: usize,
    /// The number of sessions that a process takes at once.
    ///
    /// 0 is no limit, the pseudocode's private queue; 1 is its global queue.
    pub concurrency: usize,
    /// Whether an additional process is spawned as soon as every process has a session, even if one has
    /// room (E35).
    pub eager_growth: bool,
    /// The number of gets that may wait; 0 is no limit (E19).
    pub max_queue: usize,
    /// The way a restart replaces processes.
    pub restart_mode: RestartMode,
    /// The directory of `restart.txt`.
    pub restart_dir: Dir,
    /// Whether `always_restart.txt` exists.
    pub always_restart: bool,
}

impl Options {
    /// Returns options with the global queue, no minimum, no limit, and restart directory 0.
    pub fn new(name: &str) -> Options {
        Options { name: name.into(), concurrency: 1, ..Options::default() }
    }
    /// Sets a private queue for each process, and the pseudocode's rule of growth: without that, a group of
    /// private queues has one process (E35).
    pub fn private(mut self) -> Options {
        (self.concurrency, self.eager_growth) = (0, true);
        self
    }
    /// Sets the minimum.
    pub fn min(mut self, min_processes: usize) -> Options {
        self.min_processes = min_processes;
        self
    }
    /// Sets rolling restarts.
    pub fn rolling(mut self) -> Options {
        self.restart_mode = RestartMode::Rolling;
        self
    }
    /// Sets the directory of the restart files.
    pub fn dir(mut self, dir: Dir) -> Options {
        self.restart_dir = dir;
        self
    }
}

/// The events that may happen at any time without a client's request.
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
    /// A group may be restarted by its name, in either mode.
    pub restart_group: bool,
    /// The minimum of a group's processes may be asked for without a get.
    pub pre_start: bool,
    /// A process may be disabled, and enabled again. One of `max` stays enabled.
    pub disable: bool,
    /// A process may break a session or refuse a connection.
    pub processes_fail: bool,
    /// A process may be seen to have failed, and may fail before it has proved itself (E26). Elsewhere a process
    /// has proved itself when it is attached.
    pub early_deaths: bool,
    /// A client may fail to connect because of an error on its own side (E31).
    pub clients_fail: bool,
    /// The clients whose sessions may become endless (E37).
    pub endless: Vec<ClientId>,
    /// A get may give up.
    pub give_up: bool,
    /// A client may ask without waiting.
    pub try_get: bool,
    /// Time passes, and the cleaner runs.
    pub time: bool,
    /// No time passes while the cleaner has work that is due.
    pub punctual: bool,
    /// The values that `max` may be set to.
    pub set_max: Vec<usize>,
    /// The values that `max_per_app` may be set to.
    pub set_max_per_app: Vec<usize>,
    /// The values that `MAX_IDLE_TIME` may be set to.
    pub set_max_idle_time: Vec<Time>,
    /// The other options that gets for a group may bring; [`Config::or`] adds them.
    pub options: Vec<(GroupId, Options)>,
    /// The pool may be closed.
    pub close: bool,
}

impl Environment {
    /// Returns each event, and whether it may happen.
    #[rustfmt::skip]
    pub fn events(&self) -> [(bool, &'static str); 22] {
        let Environment {
            spawns_fail, no_thread, touch, delete, detach, detach_group, restart_group, pre_start, disable, processes_fail,
            early_deaths, clients_fail, endless, give_up, try_get, time, punctual, set_max, set_max_per_app, set_max_idle_time, options, close,
        } = self;
        [
            (*spawns_fail, "spawns fail"),
            (*no_thread, "spawner threads fail to start"),
            (*touch, "restart.txt is touched"),
            (*delete, "restart.txt is deleted"),
            (*detach, "processes are detached"),
            (*detach_group, "groups are detached"),
            (*restart_group, "groups are restarted by name"),
            (*pre_start, "the minimum is asked for without a get"),
            (*disable, "processes are disabled and enabled"),
            (*processes_fail, "processes break sessions"),
            (*early_deaths, "processes fail early"),
            (*clients_fail, "clients fail to connect"),
            (!endless.is_empty(), "sessions become endless"),
            (*give_up, "gets give up"),
            (*try_get, "gets do not wait"),
            (*time, "time passes"),
            (*punctual, "the cleaner is punctual"),
            (!set_max.is_empty(), "max changes"),
            (!set_max_per_app.is_empty(), "max_per_app changes"),
            (!set_max_idle_time.is_empty(), "MAX_IDLE_TIME changes"),
            (!options.is_empty(), "gets bring other options"),
            (*close, "the pool is closed"),
        ]
    }
}

/// A closed world.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Config {
    /// The groups that may be asked for.
    pub groups: Vec<Options>,
    /// For each client, the groups it may ask for.
    pub clients: Vec<Vec<GroupId>>,
    /// The maximum number of processes.
    pub max: usize,
    /// The maximum number of processes in one group; 0 is no limit.
    pub max_per_app: usize,
    /// The pseudocode's `MAX_IDLE_TIME`; 0 is no limit.
    pub max_idle_time: Time,
    /// The time that a detached process has to finish its sessions (E13).
    pub drain_timeout: Time,
    /// The number of processes beyond `max` that may live (E25); `None` means `max`.
    pub max_draining: Option<usize>,
    /// The first and the longest back-off of a group (E26).
    pub back_off: (Time, Time),
    /// The number of attempts of a get whose connects fail.
    pub max_attempts: usize,
    /// Whether connecting is a separate action.
    pub connects: bool,
    /// Whether the first restart file exists at the start.
    pub restart_file: bool,
    /// The errata that are carried out as written.
    pub rules: Rules,
    /// The events that may happen.
    pub environment: Environment,
}

impl Config {
    /// Returns a world of these groups, in which each client may ask for each group.
    pub fn new(groups: Vec<Options>, max: usize, clients: usize) -> Config {
        let all: Vec<GroupId> = (0..groups.len()).collect();
        Config {
            groups,
            clients: vec![all; clients],
            max,
            drain_timeout: 2,
            back_off: (1, 2),
            max_attempts: 2,
            ..Config::default()
        }
    }
    /// Changes the environment.
    pub fn with(mut self, change: impl FnOnce(&mut Environment)) -> Config {
        change(&mut self.environment);
        self
    }
    /// Changes the configuration.
    pub fn but(mut self, change: impl FnOnce(&mut Config)) -> Config {
        change(&mut self);
        self
    }
    /// Lets gets for the group also bring its options with this change; the name stays.
    pub fn or(mut self, group: GroupId, change: impl FnOnce(&mut Options)) -> Config {
        let mut options = self.groups[group].clone();
        change(&mut options);
        options.name.clone_from(&self.groups[group].name);
        self.environment.options.push((group, options));
        self
    }
    /// Sets the rules.
    pub fn ruled(mut self, rules: Rules) -> Config {
        self.rules = rules;
        self
    }
    /// Returns the number of restart directories.
    pub fn dirs(&self) -> usize {
        let others = self.environment.options.iter().map(|(_, options)| options);
        let all = self.groups.iter().chain(others);
        all.map(|options| options.restart_dir + 1).max().unwrap_or(0)
    }
    /// Returns one of a group's sets of options.
    pub fn options(&self, group: GroupId, id: OptionsId) -> &Options {
        match id.checked_sub(1) {
            None => &self.groups[group],
            Some(nth) => &self.environment.options[nth].1,
        }
    }
    /// Returns all sets of options of a group.
    pub fn options_of(&self, group: GroupId) -> impl Iterator<Item = OptionsId> + '_ {
        let others = self.environment.options.iter().enumerate();
        let here = others.filter(move |(_, (of, _))| *of == group);
        std::iter::once(0).chain(here.map(|(nth, _)| nth + 1))
    }
    /// Returns the first set of options that gives a process the same behaviour as this one.
    pub(crate) fn alike(&self, group: GroupId, id: OptionsId) -> OptionsId {
        let matters = |id: OptionsId| {
            let options = self.options(group, id);
            (options.concurrency, options.max_requests)
        };
        self.options_of(group).find(|&other| matters(other) == matters(id)).unwrap_or(id)
    }
}
