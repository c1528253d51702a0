//! The liveness properties: promises that come about in the end.
//!
//! Each rests on fairness, which it states. [`LIVENESS`] is the only home of the names and sentences.

use crate::application_pool::configuration::{ClientId, Config, ProcessId};
use crate::application_pool::pool::{Action, At, Pool, Process, SpawnResult};
use crate::checking::machine::UNFAIR;
use crate::checking::promises::liveness;

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

/// The number of fairness classes of each kind: one for each client or group.
const CLIENTS: u8 = 8;

liveness! {
    Config:
    "PROP-EVERY-GET-ENDS" "every waiting get ends, with a session or an error (E19, E21)"
        assumes "sessions close, clients connect, spawns end (with success or failure), the cleaner runs, time \
                 passes; gets may go on coming and spawns may go on failing; restarts, detaches and changes of \
                 limits and options stop; where a process takes several sessions at once, only the deadline of \
                 E37 makes room, for which time must pass"
        promised true; applies |config| all_close(config) && has_deadline(config);
        may kind::QUIET | 1 << kind::SPAWN_FAILS; fair |_| true;
        subjects clients; not_yet |_, s, client|
            matches!(s.clients[client].at, At::Waiting(_) | At::Again | At::Spawning);
    "PROP-NO-GROUP-STARVES" "a group without processes, draining ones included, whose gets wait is given a process, or its gets end (E18)"
        assumes "the same as PROP-EVERY-GET-ENDS"
        promised true; applies |config| all_close(config) && has_deadline(config);
        may kind::QUIET | 1 << kind::SPAWN_FAILS; fair |_| true;
        // A process that is given its last session may leave in the same step (E36). The get was served nevertheless.
        subjects groups; not_yet |_, s, group| !s.groups[group].queue.is_empty()
            && s.processes.iter().all(|process| process.group != group);
    "PROP-MINIMUM-REFILLED" "a group below its minimum grows to it, as long as there is room (E28)"
        assumes "the same, and spawns stop failing; the group has no max_requests, by which it may lose \
                 processes as fast as they start"
        promised true; applies all_close;
        may kind::QUIET; fair |_| true;
        subjects groups; not_yet |_, s, id| {
            let group = &s.groups[id];
            let wants = group.known && !group.forgotten && !s.closed;
            let room = !s.is_capped(id) && (group.spawning.is_some() || s.may_reserve());
            wants && room && group.enabled() < s.options(id).min_processes
        };
    "PROP-RESTART-ENDS" "a rolling restart replaces every outdated process (E34)"
        assumes "the same, and spawns stop failing; there is room for a successor: max_draining is not 0, and \
                 max was not lowered during the restart (tests/findings.rs)"
        promised true; applies all_close;
        may kind::QUIET; fair |_| true;
        subjects groups; not_yet |_, s, group| s.groups[group].outdated > 0;
    "PROP-DRAIN-ENDS" "a draining process is gone in the end, even if its sessions do not close (E13)"
        assumes "time passes, the cleaner runs; sessions need not close"
        promised true; applies |config| config.environment.time;
        may kind::QUIET | 1 << kind::SPAWN_FAILS | 1 << kind::CLIENT_FAILS;
        fair |class| !(CLIENTS * 2..CLIENTS * 3).contains(&class);
        subjects clients; not_yet |_, s, client| {
            let process = s.clients[client].at.process().and_then(|p| s.find(p));
            process.is_some_and(|process| process.detached)
        };
    "PROP-ENDLESS-SESSIONS" "every waiting get ends even if other sessions never close, unless such sessions hold every process of its group, and it is at its limit or no other process becomes idle (E37)"
        assumes "the same as PROP-EVERY-GET-ENDS, but only sessions that may close do"
        promised true; applies |config| !all_close(config) && has_deadline(config);
        may kind::QUIET | 1 << kind::SPAWN_FAILS; fair |_| true;
        subjects clients; not_yet |_, s, client|
            matches!(s.clients[client].at, At::Waiting(_) | At::Again) && !s.waits_for_endless(client);
}

fn clients(config: &Config) -> usize {
    config.clients.len()
}
fn groups(config: &Config) -> usize {
    config.groups.len()
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

/// Returns an action's kind and fairness class.
///
/// Each of these is fair by itself:
/// - a woken client looks again; a client connects; a session closes;
/// - the spawn that a group waits for ends; the cancelled spawns of a group end;
/// - time passes; the cleaner runs.
pub fn kind_and_class(pool: &Pool, action: &Action) -> (u8, u8) {
    match *action {
        Action::Get { .. } | Action::TryGet { .. } => (kind::GET, UNFAIR),
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
        Action::GiveUp { .. } => (kind::CLIENT_FAILS, UNFAIR),
        _ => (kind::ENVIRONMENT, UNFAIR),
    }
}
