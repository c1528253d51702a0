//! The pseudocode's *Types* and *Instance variables*: the state of the machine.
//!
//! A [`Pool`] is a plain value. Each critical section of the pseudocode is one [`Action`], and the
//! machine takes one action at a time. So it needs no lock, except for E2 and E4 as written, where the
//! pseudocode waits while it holds the lock.
//!
//! A [`Group`] is known from the first get for it until it is unused. In the pseudocode it exists only
//! while it has processes. As ruled it outlives them, because it holds the queue, the back-off and what
//! the group saw of its restart file.
//!
//! A [`Process`] is idle, active, retiring (it takes no more sessions), disabled, draining (detached, with
//! sessions), or gone. A disabled process counts as active. A gone process is no longer part of the pool's data.

pub use crate::application_pool::action::{Action, Event, Failure, Reason, SpawnResult};
use crate::application_pool::configuration::{
    ClientId, Config, GroupId, Options, OptionsId, ProcessId, Time,
};
use crate::application_pool::rules::Erratum;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The need of a group that may not spawn at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Want {
    /// No need.
    #[default]
    Nothing,
    /// Its first process, for waiting gets: other groups must lose processes (E18, E29).
    First,
    /// One more process for waiting gets, when there is room.
    More,
    /// One more process up to the minimum, when there is room (E28).
    Minimum,
    /// A process of the new generation beside the old ones (E34).
    Replacement,
    /// One more process, but it has as many as `max_per_app` allows.
    Capped,
}

/// The pseudocode's `Group`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group {
    /// Whether the group is found in `groups`.
    pub known: bool,
    /// The pseudocode's `detached`: the group is not found in `groups` (E8).
    pub detached: bool,
    /// The options of the get that looked for a process last.
    pub options: OptionsId,
    /// The attached processes: idle ones first, then by sessions, retiring ones last. `Pool::insert`
    /// keeps the order.
    pub processes: Vec<ProcessId>,
    /// The number of attached processes.
    pub size: usize,
    /// The number of attached processes that are enabled and have no sessions.
    pub idle: usize,
    /// The number of attached processes that are disabled.
    pub disabled: usize,
    /// The waiting gets, in the order of arrival.
    pub queue: Vec<ClientId>,
    /// The spawn in flight that the group waits for: the pseudocode's `spawning` and `spawner_thread`.
    pub spawning: Option<ProcessId>,

    /// The number of restarts.
    pub generation: u64,
    /// The number of attached processes of older generations.
    pub outdated: usize,
    /// Whether a restart has begun and no process with the new code is attached yet (E22).
    pub reload_pending: bool,
    /// The restart file that the group last saw in each directory. The outer `None` means that the
    /// group never looked.
    pub seen: Vec<Option<Option<u64>>>,

    /// The number of failed spawns in a row.
    pub failures: u32,
    /// The end of the back-off, during which the group does not spawn (E26).
    pub back_off_until: Option<Time>,
    /// Whether the latest spawn failed.
    pub last_error: bool,

    /// The rank in `by_surplus`, if the group is there.
    pub surplus: Option<usize>,
    /// The line in which the group stands.
    pub want: Want,
    /// While the group wants its first process: when a busy process must make room for it. While its gets wait for one
    /// more: when it starves (E37).
    pub room_due: Time,
    /// Whether the group was detached by name. It is removed once it is unused.
    pub forgotten: bool,
}

impl Group {
    fn new(dirs: usize) -> Group {
        Group { detached: true, seen: vec![None; dirs], ..Group::default() }
    }
    /// Returns the number of attached processes that are enabled.
    pub fn enabled(&self) -> usize {
        self.size - self.disabled
    }
    /// Returns whether no process can serve the group's gets before the end of its back-off (E27).
    pub fn is_out_of_order(&self) -> bool {
        self.enabled() == 0 && self.spawning.is_none() && self.back_off_until.is_some()
    }
}

/// The rank of a process in its group's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Attached, with room for a session; ordered by sessions.
    Open(usize),
    /// Attached, with room for a session, but marked for eviction (E18): chosen last.
    Marked,
    /// Attached, with as many sessions as it takes at once.
    Full(usize),
    /// Attached, but takes no more sessions: it was given its last session (E36 as written), or is marked for
    /// eviction (E37 as written).
    Retiring,
    /// Attached, but takes no sessions until it is enabled.
    Disabled,
    /// Detached, with sessions (E13).
    Draining,
}

/// The pseudocode's `ProcessInfo`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// The pseudocode's `identifier`.
    pub identifier: ProcessId,
    /// The pseudocode's `group_name`.
    pub group: GroupId,
    /// The group's options when the spawn began; they limit the process's sessions.
    pub options: OptionsId,
    /// The time of attaching.
    pub start_time: Time,
    /// The time when a session last closed, or else of attaching (E5).
    pub last_used: Time,
    /// The number of open sessions.
    pub sessions: usize,
    /// The number of closed sessions.
    pub processed: usize,
    /// The group's failures in a row before the process was attached; `None` once a session has proved it.
    pub failures_before: Option<u32>,
    /// The group's generation when the process was attached.
    pub generation: u64,
    /// Whether the process is no longer in its group.
    pub detached: bool,
    /// Whether the process is marked for eviction (E18).
    pub marked: bool,
    /// Whether the process is disabled.
    pub disabled: bool,
    /// The deadline of the drain.
    pub drain_deadline: Time,
}

impl Process {
    /// Returns whether the process is idle: it has no session, and may be given one.
    pub fn is_idle(&self) -> bool {
        self.sessions == 0 && !self.disabled
    }
}

/// A spawn in flight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spawn {
    /// The group that the process is for.
    pub group: GroupId,
    /// The options, carried with the spawn request (E7).
    pub options: OptionsId,
    /// The identifier of the spawn, and later of its process.
    pub ticket: ProcessId,
    /// Whether the process replaces an outdated one; otherwise it raises `count`.
    pub replaces: bool,
    /// The client that holds the lock during the spawn (E4 as written).
    pub under_lock: Option<ClientId>,
}

/// The condition that a client waits for.
///
/// The pseudocode has two condition variables; as ruled there is one kind of wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// `global_queue_position_became_available`
    GlobalQueue,
    /// `new_app_group_creatable`
    NewGroup,
}

/// The position of a client in its `get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// The client is in no get.
    Out,
    /// The client waits in its group's queue.
    Waiting(Condition),
    /// The client looks for a process again: a connect failed, or (E17 as written) it was woken.
    Again,
    /// The client holds the lock and spawns (E4 as written).
    Spawning,
    /// The client connects to its process; `None` if the process is gone.
    Connecting(Option<ProcessId>),
    /// The client has a session; `None` if the process is gone.
    InSession(Option<ProcessId>),
}

impl At {
    /// Returns the client's process, if it is not gone.
    pub fn process(self) -> Option<ProcessId> {
        match self {
            At::Connecting(process) | At::InSession(process) => process,
            _ => None,
        }
    }
}

/// A caller of `get`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client {
    /// The position in the get.
    pub at: At,
    /// The group that the client asks for.
    pub group: GroupId,
    /// The options that the client brought.
    pub options: OptionsId,
    /// The number of attempts, this one included.
    pub attempt: usize,
    /// The order in which the gets came (E38).
    pub turn: usize,
    /// Whether the get has waited. It counts once, however often it waits.
    pub waited: bool,
    /// The restart file that the client saw when its get began.
    pub look: Option<u64>,
    /// Whether the client never closes its session (E37).
    pub endless: bool,
}

impl Client {
    pub(crate) const OUT: Client = Client {
        at: At::Out,
        group: 0,
        options: 0,
        attempt: 0,
        turn: 0,
        waited: false,
        look: None,
        endless: false,
    };
}

/// The holder of the lock between two actions; as ruled the lock is always free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lock {
    /// The lock is free.
    #[default]
    Free,
    /// A caller that joins this group's spawner thread holds the lock (E2 as written).
    Joining(GroupId),
    /// A client that spawns holds the lock (E4 as written).
    Spawning(ClientId),
}

/// Counters that only grow. The normal form leaves them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Totals {
    /// The number of spawns that gave a process.
    pub spawned: u64,
    /// The number of spawns that failed.
    pub spawns_failed: u64,
    /// The number of processes detached, or never attached.
    pub detached: u64,
    /// The number of processes never attached, among these.
    pub unwanted: u64,
    /// The number of sessions closed.
    pub processed: u64,
    /// The number of gets that waited.
    pub waited: u64,
}

/// The configuration, which never changes and is no part of the state's identity.
#[derive(Clone, Debug, Default)]
pub struct Fixed(pub(crate) Arc<Config>);

impl Hash for Fixed {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
impl PartialEq for Fixed {
    fn eq(&self, _: &Fixed) -> bool {
        true
    }
}
impl Eq for Fixed {}

/// The pool, with its clients and restart files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pool {
    pub(crate) config: Fixed,

    /// The groups.
    pub groups: Vec<Group>,
    /// The maximum number of processes.
    pub max: usize,
    /// The maximum number of processes in one group; 0 is no limit.
    pub max_per_app: usize,
    /// The number of attached processes.
    pub count: usize,
    /// The number of attached processes with sessions. E1 as written can make it negative.
    pub active: isize,
    /// The attached processes without sessions, longest idle first.
    pub inactive_apps: Vec<ProcessId>,
    /// The pseudocode's `waiting_on_global_queue`: the number of waiting gets.
    pub waiting: usize,
    /// The pseudocode's `MAX_IDLE_TIME`.
    pub max_idle_time: Time,

    /// Every process that is attached or drains.
    pub processes: Vec<Process>,
    /// The callers of `get`.
    pub clients: Vec<Client>,
    /// The options that gets for each group bring at present.
    pub brought: Vec<OptionsId>,
    /// The spawns in flight.
    pub spawns: Vec<Spawn>,
    /// The identifier that was given out last.
    pub last_identifier: ProcessId,

    /// The number of spawns in flight that will raise `count` (E3).
    pub reserved: usize,
    /// The number of spawns in flight whose process replaces an outdated one (E34).
    pub replacing: usize,
    /// The detached processes with sessions, by deadline (E13).
    pub draining: Vec<ProcessId>,
    /// The processes that are marked for eviction (E18): at most one, except with E37 as written.
    pub marked: Vec<ProcessId>,
    /// The groups that want their first process.
    pub first: Vec<GroupId>,
    /// The groups whose gets wait for one more process, in the order in which they were last served.
    pub more: Vec<GroupId>,
    /// The groups that are below their minimum.
    pub minimum: Vec<GroupId>,
    /// The groups that want a replacement.
    pub replacements: Vec<GroupId>,
    /// The groups that want one more process than `max_per_app` allows.
    pub capped: Vec<GroupId>,
    /// The groups with a process that may be marked for eviction, longest at their surplus first.
    pub by_surplus: Vec<GroupId>,
    /// The groups that the present action has changed; empty between two actions.
    pub(crate) changed: Vec<GroupId>,
    /// Whether it has changed a limit, or makes room for a group in time.
    pub(crate) pool_changed: bool,
    /// Until when the cleaner sleeps (E40 as written); as ruled it sleeps until the next work is due.
    pub cleaner_sleeps_until: Option<Time>,
    /// The groups that back off, in the order in which their back-offs end, and then began.
    pub backing_off: Vec<GroupId>,

    /// Whether the pool is closed.
    pub closed: bool,
    /// The holder of the lock.
    pub lock: Lock,
    /// The time.
    pub now: Time,
    /// When each directory's `restart.txt` was last touched; `None` if it does not exist.
    pub files: Vec<Option<u64>>,
    /// The restart files as the last get of any group saw them (E22 as written).
    pub files_seen: Vec<Option<Option<u64>>>,
    /// The number of live processes that the pool has lost (E12 as written).
    pub orphans: usize,
    /// Counters of past events.
    pub totals: Totals,
    /// The events of the latest action.
    pub events: Vec<Event>,

    /// The bound of `count + reserved` after `max` was lowered.
    pub ceiling: usize,
    /// The bound of the number alive after `max` was lowered.
    pub live_ceiling: usize,
}

impl Pool {
    /// Returns an empty pool.
    pub fn new(config: impl Into<Arc<Config>>) -> Pool {
        let config: Arc<Config> = config.into();
        let max_draining = config.max_draining.unwrap_or(config.max);
        Pool {
            groups: vec![Group::new(config.dirs()); config.groups.len()],
            max: config.max,
            max_per_app: config.max_per_app,
            max_idle_time: config.max_idle_time,
            clients: vec![Client::OUT; config.clients.len()],
            brought: vec![0; config.groups.len()],
            files: vec![config.restart_file.then_some(0); config.dirs()],
            files_seen: vec![None; config.dirs()],
            ceiling: config.max,
            live_ceiling: config.max + max_draining,
            config: Fixed(config),
            ..Pool::default()
        }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config.0
    }
    /// Returns whether an erratum is carried out as written.
    #[inline]
    pub(crate) fn written(&self, erratum: Erratum) -> bool {
        self.config.0.rules.original(erratum)
    }
    /// Returns the options of a group: those of the get that looked for a process last.
    pub fn options(&self, group: GroupId) -> &Options {
        self.config.0.options(group, self.groups[group].options)
    }
    /// Returns the options that gets for the group bring at present.
    pub fn options_brought(&self, group: GroupId) -> &Options {
        self.config.0.options(group, self.brought[group])
    }
    /// Returns the options that a process was spawned with.
    pub fn options_of(&self, process: &Process) -> &Options {
        self.config.0.options(process.group, process.options)
    }
    /// Finds the process with this identifier, unless it is gone.
    pub fn find(&self, identifier: ProcessId) -> Option<&Process> {
        self.processes.iter().find(|p| p.identifier == identifier)
    }
    /// Finds the attached process with this identifier.
    pub fn attached(&self, identifier: ProcessId) -> Option<&Process> {
        self.find(identifier).filter(|process| !process.detached)
    }
    pub(crate) fn process(&self, identifier: ProcessId) -> &Process {
        self.find(identifier).expect("the process is not gone")
    }
    pub(crate) fn process_mut(&mut self, identifier: ProcessId) -> &mut Process {
        let found = self.processes.iter_mut().find(|p| p.identifier == identifier);
        found.expect("the process is not gone")
    }
    pub(crate) fn report(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Returns whether the process was given its last session (E14).
    pub fn is_exhausted(&self, process: &Process) -> bool {
        let max_requests = self.options_of(process).max_requests;
        max_requests > 0 && process.processed + process.sessions >= max_requests
    }

    /// Returns the rank that the process's sessions and flags give it.
    pub fn place(&self, process: &Process) -> Place {
        let options = self.options_of(process);
        let exhausted = self.is_exhausted(process);
        if process.detached {
            Place::Draining
        } else if process.disabled {
            Place::Disabled
        } else if exhausted && !self.written(Erratum::E14)
            || process.marked && self.written(Erratum::E37)
        {
            Place::Retiring
        } else if options.concurrency > 0 && process.sessions >= options.concurrency {
            Place::Full(process.sessions)
        } else if process.marked {
            Place::Marked
        } else {
            Place::Open(process.sessions)
        }
    }
}
