//! The liveness properties: promises that come about in the end.
//!
//! A [`Liveness`] property rests on fairness, stated in [`Liveness::assumes`]. [`LIVENESS`] is the only home of the
//! names and sentences.

use crate::application_pool::configuration::{ClientId, Config, ProcessId};
use crate::application_pool::pool::{Action, At, Pool, Process, SpawnResult};

/// The kinds of actions: a liveness property says which kinds may go on for ever.
pub mod kind {
    #![allow(missing_docs, reason = "each is named after its action")]
    pub const GET: u8 = 0;
    pub const SERVED: u8 = 1;
    pub const CLOSE: u8 = 2;
    pub const SPAWN_OK: u8 = 3;
    pub const SPAWN_FAILS: u8 = 4;
    pub const TIME: u8 = 5;
    pub const CLIENT_FAILS: u8 = 6;
    pub const ENVIRONMENT: u8 = 7;

    /// Gets come, sessions end, spawns succeed and time passes.
    pub const QUIET: u64 = 1 << GET | 1 << SERVED | 1 << CLOSE | 1 << SPAWN_OK | 1 << TIME;
}

/// A promise that comes about in the end.
#[derive(Clone, Copy)]
pub struct Liveness {
    /// The name, `PROP-…`.
    pub name: &'static str,
    /// The property in one sentence.
    pub says: &'static str,
    /// The assumptions, in words.
    pub assumes: &'static str,
    /// The kinds of actions that may go on for ever while the promise is outstanding, one bit each.
    pub may: u64,
    /// Returns whether a class of actions is fair: taken in the end if it stays possible.
    pub fair: fn(u8) -> bool,
    /// Returns whether the promise to this client or group is outstanding.
    pub not_yet: fn(&Pool, usize) -> bool,
    /// Whether the promise is to each client, or else to each group.
    pub of_clients: bool,
    /// Returns whether a configuration has what the property assumes.
    pub applies: fn(&Config) -> bool,
}

/// The number of fairness classes of each kind: one for each client or group.
const CLIENTS: u8 = 8;

macro_rules! is {
    (client) => {
        true
    };
    (group) => {
        false
    };
}
macro_rules! liveness {
    ($($name:literal $says:literal assumes $assumes:literal
       applies $applies:expr; may $may:expr; fair $fair:expr; not_yet $of:ident $not_yet:expr;)*) => {
        /// The promises that come about in the end.
        ///
        $(#[doc = concat!("- <a id=\"", $name, "\"></a>**", $name, "**: ", $says, ".")])*
        pub const LIVENESS: &[Liveness] = &[$(Liveness {
            name: $name, says: $says, assumes: $assumes,
            applies: $applies, may: $may, fair: $fair, not_yet: $not_yet, of_clients: is!($of),
        },)*];
    };
}

liveness! {
    "PROP-EVERY-GET-ENDS" "every waiting get ends, with a session or an error (E19, E21)"
        assumes "sessions close, clients connect, spawns end (with success or failure), the cleaner runs, time \
                 passes; gets may go on coming and spawns may go on failing; restarts, detaches and changes of \
                 limits and options stop; where a process takes several sessions at once, only the deadline of \
                 E37 makes room, for which time must pass"
        applies |config| all_close(config) && has_deadline(config);
        may kind::QUIET | 1 << kind::SPAWN_FAILS; fair |_| true;
        not_yet client |s, client|
            matches!(s.clients[client].at, At::Waiting(_) | At::Again | At::Spawning);
    "PROP-NO-GROUP-STARVES" "a group without processes, draining ones included, whose gets wait is given a process, or its gets end (E18)"
        assumes "the same as PROP-EVERY-GET-ENDS"
        applies |config| all_close(config) && has_deadline(config);
        may kind::QUIET | 1 << kind::SPAWN_FAILS; fair |_| true;
        // A process that is given its last session may leave in the same step (E36). The get was served nevertheless.
        not_yet group |s, group| !s.groups[group].queue.is_empty()
            && s.processes.iter().all(|process| process.group != group);
    "PROP-MINIMUM-REFILLED" "a group below its minimum grows to it, as long as there is room (E28)"
        assumes "the same, and spawns stop failing; the group has no max_requests, by which it may lose \
                 processes as fast as they start"
        applies all_close;
        may kind::QUIET; fair |_| true;
        not_yet group |s, id| {
            let group = &s.groups[id];
            let wants = group.known && !group.forgotten && !s.closed;
            let room = !s.is_capped(id) && (group.spawning.is_some() || s.may_reserve());
            wants && room && group.enabled() < s.options(id).min_processes
        };
    "PROP-RESTART-ENDS" "a rolling restart replaces every outdated process (E34)"
        assumes "the same, and spawns stop failing; there is room for a successor: max_draining is not 0, and \
                 max was not lowered during the restart (tests/findings.rs)"
        applies all_close;
        may kind::QUIET; fair |_| true;
        not_yet group |s, group| s.groups[group].outdated > 0;
    "PROP-DRAIN-ENDS" "a draining process is gone in the end, even if its sessions do not close (E13)"
        assumes "time passes, the cleaner runs; sessions need not close"
        applies |config| config.environment.time;
        may kind::QUIET | 1 << kind::SPAWN_FAILS | 1 << kind::CLIENT_FAILS;
        fair |class| !(CLIENTS * 2..CLIENTS * 3).contains(&class);
        not_yet client |s, client| {
            let process = s.clients[client].at.process().and_then(|p| s.find(p));
            process.is_some_and(|process| process.detached)
        };
    "PROP-ENDLESS-SESSIONS" "every waiting get ends even if other sessions never close, unless such sessions hold every process of its group, and it is at its limit or no other process becomes idle (E37)"
        assumes "the same as PROP-EVERY-GET-ENDS, but only sessions that may close do"
        applies |config| !all_close(config) && has_deadline(config);
        may kind::QUIET | 1 << kind::SPAWN_FAILS; fair |_| true;
        not_yet client |s, client|
            matches!(s.clients[client].at, At::Waiting(_) | At::Again) && !s.waits_for_endless(client);
}

fn all_close(config: &Config) -> bool {
    config.environment.endless.is_empty()
}

/// Returns whether no group can keep its place for ever: time passes, or no sessions overlap and all close.
fn has_deadline(config: &Config) -> bool {
    let mut all = config.groups.iter().chain(config.environment.options.iter().map(|(_, o)| o));
    let overlap = config.groups.len() > 1 && all.any(|options| options.concurrency != 1);
    config.environment.time || all_close(config) && !overlap
}

impl Pool {
    /// Returns whether sessions that never close hold every process of the group for which this client waits, none is
    /// being spawned, and no process of another group ever becomes idle.
    pub(crate) fn waits_for_endless(&self, client: ClientId) -> bool {
        let id = self.clients[client].group;
        let group = &self.groups[id];
        let sessions =
            |p: ProcessId| self.clients.iter().filter(move |c| c.at.process() == Some(p));
        let is_held = |p: ProcessId| sessions(p).next().is_some() && sessions(p).all(|c| c.endless);
        // Sessions that overlap may keep a process busy for ever.
        let becomes_idle = |p: &Process| {
            let alone = self.options_of(p).concurrency == 1;
            p.is_idle() || alone && !p.detached && !is_held(p.identifier)
        };
        let may_grow =
            !self.is_capped(id) && (self.may_reserve() || self.processes.iter().any(becomes_idle));
        let all_held = group.size > 0 && group.processes.iter().all(|&p| is_held(p));
        all_held && group.spawning.is_none() && !may_grow
    }
}

impl Liveness {
    /// Finds a property by name.
    pub fn named(name: &str) -> Option<&'static Liveness> {
        LIVENESS.iter().find(|property| property.name == name)
    }
    /// Counts the states, given by their [`marks`], in which the promise is outstanding.
    pub(crate) fn not_yet_in(&self, marks: &[u64]) -> usize {
        let place = LIVENESS.iter().position(|other| other.name == self.name);
        let bits = ((1 << SUBJECTS) - 1) << (place.expect("one of them") * SUBJECTS);
        marks.iter().filter(|&&marks| marks & bits != 0).count()
    }
    /// Returns how many clients or groups the promise is made to.
    pub fn subjects(&self, pool: &Pool) -> usize {
        if self.of_clients { pool.clients.len() } else { pool.groups.len() }
    }
}

/// The number of bits that each property's marks take.
pub const SUBJECTS: usize = 8;

/// Returns one bit for each liveness property and each client or group: set while it is outstanding.
pub fn marks(pool: &Pool) -> u64 {
    let mut bits = 0;
    for (at, property) in LIVENESS.iter().enumerate() {
        for subject in 0..property.subjects(pool) {
            bits |= u64::from((property.not_yet)(pool, subject)) << (at * SUBJECTS + subject);
        }
    }
    bits
}

/// Returns an action's kind and fairness class.
///
/// Each of these is fair by itself:
/// - a woken client looks again; a client connects; a session closes;
/// - the spawn that a group waits for ends; the cancelled spawns of a group end;
/// - time passes; the cleaner runs.
pub fn kind_and_class(pool: &Pool, action: &Action) -> (u8, u8) {
    let unfair = crate::checking::machine::UNFAIR;
    match *action {
        Action::Get { .. } | Action::TryGet { .. } => (kind::GET, unfair),
        Action::Retry { client } => (kind::SERVED, client as u8),
        Action::Connected { client } => (kind::SERVED, CLIENTS + client as u8),
        Action::ConnectFails { client, .. } => (kind::CLIENT_FAILS, CLIENTS + client as u8),
        Action::CloseSession { client } => (kind::CLOSE, CLIENTS * 2 + client as u8),
        Action::SessionFails { client } => (kind::CLIENT_FAILS, CLIENTS * 2 + client as u8),
        Action::SpawnEnds { ticket, result } => {
            let spawn = pool.spawns.iter().find(|spawn| spawn.ticket == ticket);
            let group = spawn.map_or(0, |spawn| spawn.group);
            let wanted = pool.groups[group].spawning == Some(ticket)
                || spawn.is_some_and(|spawn| spawn.under_lock.is_some());
            let class = CLIENTS * if wanted { 3 } else { 4 } + group as u8;
            let ends_well = result == SpawnResult::Process;
            (if ends_well { kind::SPAWN_OK } else { kind::SPAWN_FAILS }, class)
        }
        Action::Tick => (kind::TIME, CLIENTS * 5),
        Action::Clean => (kind::TIME, CLIENTS * 5 + 1),
        Action::GiveUp { .. } => (kind::CLIENT_FAILS, unfair),
        _ => (kind::ENVIRONMENT, unfair),
    }
}
