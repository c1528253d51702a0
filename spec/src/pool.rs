//! The text's *Types* and *Instance variables*: what the machine remembers.
//!
//! A [`Pool`] is a plain value. What the text calls a critical section is an [`Action`]; the machine
//! takes one at a time, so there is no lock, but for what the text does while holding it (E2, E4).
//!
//! A [`Group`] is in `groups` from the first get for it until nothing needs it any more. In the text it
//! is there while it has processes; here it outlives them, for who waits, for the back-off and for what
//! was seen of the restart file. A [`Process`] is idle, active, retiring (it takes no session any
//! more), draining (detached, with sessions), or gone: then it is in none of the pool's data.

pub use crate::action::{Action, Event, Failure, Reason, SpawnResult};
use crate::configuration::{ClientId, Config, GroupId, Options, OptionsId, ProcessId, Time};
use crate::rules::Erratum;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a group that may not spawn at the moment waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Want {
    /// Nothing.
    #[default]
    Nothing,
    /// Its first process, for gets that wait: others must make room (E18, E29).
    First,
    /// One more process, when there is room.
    More,
    /// A process of the new generation beside the old ones (E34).
    Replacement,
    /// One more, but it has as many as `max_per_app` allows.
    Capped,
}

/// The text's `Group`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Whether it is found in `groups`.
    pub known: bool,
    /// The text's `detached`: it is not found there (E8).
    pub detached: bool,
    /// Those of the get that looked for one of its processes last.
    pub options: OptionsId,
    /// Idle ones first, then by sessions, in the end those that take no more; see
    /// `Pool::insert`.
    pub processes: Vec<ProcessId>,
    /// How many they are.
    pub size: usize,
    /// How many of them have no session.
    pub idle: usize,
    /// Gets that wait for one of them, in the order in which they came.
    pub queue: Vec<ClientId>,
    /// The spawn in flight that the group waits for: the text's `spawning` and `spawner_thread`.
    pub spawning: Option<ProcessId>,

    /// Counts restarts.
    pub generation: u64,
    /// Attached processes of older generations.
    pub outdated: usize,
    /// A restart was begun, and no process with the new code has come yet (E22).
    pub reload_pending: bool,
    /// What was last seen of the restart file in each directory; the outer none: it was never looked
    /// at.
    pub seen: Vec<Option<Option<u64>>>,

    /// Failed spawns in a row.
    pub failures: u32,
    /// Until when it does not spawn (E26).
    pub back_off_until: Option<Time>,
    /// Whether its latest spawn failed.
    pub last_error: bool,

    /// Its rank in `by_surplus`, if it is there.
    pub surplus: Option<usize>,
    /// In which of the pool's lines it stands.
    pub want: Want,
    /// It was detached by name, and goes when nothing needs it any more.
    pub forgotten: bool,
}

impl Group {
    fn new(dirs: usize) -> Group {
        Group {
            known: false,
            detached: true,
            options: 0,
            processes: vec![],
            size: 0,
            idle: 0,
            queue: vec![],
            spawning: None,
            generation: 0,
            outdated: 0,
            reload_pending: false,
            seen: vec![None; dirs],
            failures: 0,
            back_off_until: None,
            last_error: false,
            surplus: None,
            want: Want::Nothing,
            forgotten: false,
        }
    }
}

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// In its group, with room for a session; by sessions.
    Open(usize),
    /// In its group, with as many sessions as it takes at once.
    Full(usize),
    /// In its group, but takes no session any more: it has been given its last (E14), or is to make
    /// room (E18).
    Retiring,
    /// Detached, with sessions (E13).
    Draining,
}

/// The text's `ProcessInfo`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// The text's `identifier`.
    pub identifier: ProcessId,
    /// The text's `group_name`.
    pub group: GroupId,
    /// Those its group had when its spawn began: how many sessions it takes is theirs.
    pub options: OptionsId,
    /// When it was attached.
    pub start_time: Time,
    /// When a session of it was last closed, or else it was attached (E5).
    pub last_used: Time,
    /// Open sessions.
    pub sessions: usize,
    /// Closed sessions.
    pub processed: usize,
    /// Which of the group's restarts it belongs to.
    pub generation: u64,
    /// It is no longer in its group.
    pub detached: bool,
    /// It was chosen to make room (E18).
    pub condemned: bool,
    /// Until when it may drain.
    pub drain_deadline: Time,
}

/// A spawn in flight. Its identifier will be the process's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spawn {
    /// Whose it is.
    pub group: GroupId,
    /// With which options, for it is carried with the request (E7).
    pub options: OptionsId,
    /// Its identifier.
    pub ticket: ProcessId,
    /// Whether the process takes an outdated one's place, or raises `count`.
    pub replaces: bool,
    /// The client that holds the lock meanwhile (E4 as written).
    pub under_lock: Option<ClientId>,
}

/// What a client that waits is to be told of. As ruled there is one kind of wait; the text has two
/// condition variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// `global_queue_position_became_available`
    GlobalQueue,
    /// `new_app_group_creatable`
    NewGroup,
}

/// Where a client is in its `get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// It wants nothing.
    Out,
    /// It waits in its group's queue.
    Waiting(Condition),
    /// It is about to look for a process once more: it could not connect, or (E17 as written) was woken.
    Again,
    /// It holds the lock and spawns (E4 as written).
    Spawning,
    /// It has a process, and connects to it. None: the process has gone since.
    Connecting(Option<ProcessId>),
    /// It has a session. None: the process has gone since.
    InSession(Option<ProcessId>),
}

impl At {
    /// The process it has, if that is still there.
    pub fn process(self) -> Option<ProcessId> {
        match self {
            At::Connecting(process) | At::InSession(process) => process,
            _ => None,
        }
    }
}

/// Who calls `get`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client {
    /// Where it is.
    pub at: At,
    /// The group it asks for.
    pub group: GroupId,
    /// The options it came with.
    pub options: OptionsId,
    /// How often it has tried, this time included.
    pub attempt: usize,
    /// What it saw of the restart file when it came.
    pub look: Option<u64>,
}

impl Client {
    pub(crate) const OUT: Client =
        Client { at: At::Out, group: 0, options: 0, attempt: 0, look: None };
}

/// Who holds the lock between two actions; as ruled, nobody ever does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lock {
    /// Nobody.
    #[default]
    Free,
    /// Somebody who waits for this group's spawner thread to end (E2 as written).
    Joining(GroupId),
    /// A client that spawns (E4 as written).
    Spawning(ClientId),
}

/// What has happened so far. Only ever added to: the normal form leaves it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Totals {
    /// Spawns that gave a process.
    pub spawned: u64,
    /// Spawns that failed.
    pub spawns_failed: u64,
    /// Processes detached.
    pub detached: u64,
    /// Sessions closed.
    pub processed: u64,
    /// Gets that had to wait.
    pub waited: u64,
}

/// What never changes; no part of the state's identity.
#[derive(Clone, Debug)]
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

/// The pool, with its clients and its restart files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    pub(crate) config: Fixed,

    /// The text's instance variables.
    pub groups: Vec<Group>,
    /// How many processes there may be.
    pub max: usize,
    /// How many one group may have; 0: as many as the pool.
    pub max_per_app: usize,
    /// Attached processes.
    pub count: usize,
    /// Attached processes with sessions. The text can make it negative (E1).
    pub active: isize,
    /// Attached processes without sessions, longest idle first.
    pub inactive_apps: Vec<ProcessId>,
    /// The text's `waiting_on_global_queue`: gets that wait, whatever for.
    pub waiting: usize,
    /// The text's `MAX_IDLE_TIME`.
    pub max_idle_time: Time,

    /// Every process that the pool or a session still knows of.
    pub processes: Vec<Process>,
    /// Who calls `get`.
    pub clients: Vec<Client>,
    /// With which options gets of each group come at present.
    pub brought: Vec<OptionsId>,
    /// Spawns in flight.
    pub spawns: Vec<Spawn>,
    /// The identifier that comes next, less one.
    pub last_identifier: ProcessId,

    /// Spawns in flight that will raise `count` (E3).
    pub reserved: usize,
    /// Spawns in flight whose process takes the place of an old one (E34).
    pub replacing: usize,
    /// Detached processes with sessions, by their deadlines (E13).
    pub draining: Vec<ProcessId>,
    /// Processes that are to make room (E18).
    pub condemned: Vec<ProcessId>,
    /// Groups that want their first process.
    pub first: Vec<GroupId>,
    /// Groups that want one more.
    pub more: Vec<GroupId>,
    /// Groups that want a replacement.
    pub replacements: Vec<GroupId>,
    /// Groups that want one more than they may have.
    pub capped: Vec<GroupId>,
    /// Groups with a process that could be condemned, those longest at their surplus first.
    pub by_surplus: Vec<GroupId>,
    /// Groups that back off, in the order in which they began to.
    pub backing_off: Vec<GroupId>,

    /// Whether it was closed.
    pub closed: bool,
    /// Who holds the lock.
    pub lock: Lock,
    /// The time.
    pub now: Time,
    /// When each directory's `restart.txt` was last touched; none: there is none.
    pub files: Vec<Option<u64>>,
    /// What anybody saw last of them (E22 as written).
    pub files_seen: Vec<Option<Option<u64>>>,
    /// Processes that live, and that nobody knows of any more (E12 as written).
    pub orphans: usize,
    /// What has happened so far.
    pub totals: Totals,
    /// What happened in the latest action.
    pub told: Vec<Event>,

    /// What `count + reserved` may be, though `max` was lowered meanwhile.
    pub ceiling: usize,
    /// What the number alive may be, though `max` was lowered meanwhile.
    pub live_ceiling: usize,
}

impl Pool {
    /// An empty pool.
    pub fn new(config: impl Into<Arc<Config>>) -> Pool {
        let config: Arc<Config> = config.into();
        let max_draining = config.max_draining.unwrap_or(config.max);
        Pool {
            groups: vec![Group::new(config.dirs()); config.groups.len()],
            max: config.max,
            max_per_app: config.max_per_app,
            count: 0,
            active: 0,
            inactive_apps: vec![],
            waiting: 0,
            max_idle_time: config.max_idle_time,
            processes: vec![],
            clients: vec![Client::OUT; config.clients.len()],
            brought: vec![0; config.groups.len()],
            spawns: vec![],
            last_identifier: 0,
            reserved: 0,
            replacing: 0,
            draining: vec![],
            condemned: vec![],
            first: vec![],
            more: vec![],
            replacements: vec![],
            capped: vec![],
            by_surplus: vec![],
            backing_off: vec![],
            closed: false,
            lock: Lock::Free,
            now: 0,
            files: vec![config.restart_file.then_some(0); config.dirs()],
            files_seen: vec![None; config.dirs()],
            orphans: 0,
            totals: Totals::default(),
            told: vec![],
            ceiling: config.max,
            live_ceiling: config.max + max_draining,
            config: Fixed(config),
        }
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.config.0
    }
    /// Whether an erratum is carried out as written.
    #[inline]
    pub(crate) fn written(&self, erratum: Erratum) -> bool {
        self.config.0.rules.written(erratum)
    }
    /// The options of a group: those of the get that looked for one of its processes last.
    pub fn options(&self, group: GroupId) -> &Options {
        self.config.0.options(group, self.groups[group].options)
    }
    /// The options with which gets of the group come at present.
    pub fn options_brought(&self, group: GroupId) -> &Options {
        self.config.0.options(group, self.brought[group])
    }
    /// The options that a process was spawned with.
    pub fn options_of(&self, process: &Process) -> &Options {
        self.config.0.options(process.group, process.options)
    }
    /// The process with this identifier, if it is still known of.
    pub fn find(&self, identifier: ProcessId) -> Option<&Process> {
        self.processes.iter().find(|p| p.identifier == identifier)
    }
    /// The attached process with this identifier: the one that is meant when a process is to be
    /// detached by its identifier.
    pub fn attached(&self, identifier: ProcessId) -> Option<&Process> {
        self.find(identifier).filter(|process| !process.detached)
    }
    pub(crate) fn process(&self, identifier: ProcessId) -> &Process {
        self.find(identifier).expect("a process that is known of")
    }
    pub(crate) fn process_mut(&mut self, identifier: ProcessId) -> &mut Process {
        let found = self.processes.iter_mut().find(|p| p.identifier == identifier);
        found.expect("a process that is known of")
    }
    pub(crate) fn tell(&mut self, event: Event) {
        self.told.push(event);
    }

    /// Where a process belongs, by its numbers.
    pub fn place(&self, process: &Process) -> Place {
        let options = self.options_of(process);
        let given = process.processed + process.sessions;
        let exhausted = options.max_requests > 0 && given >= options.max_requests;
        if process.detached {
            Place::Draining
        } else if exhausted && !self.written(Erratum::E14) || process.condemned {
            Place::Retiring
        } else if options.concurrency > 0 && process.sessions >= options.concurrency {
            Place::Full(process.sessions)
        } else {
            Place::Open(process.sessions)
        }
    }
}
