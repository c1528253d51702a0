//! The observable state of a pool, as one type for both sides.

use crate::refinement::real::{Pool, Scripted};
use cabrank::application_pool::{DetachReason, Event, ProcessState, ShutDown};
use cabrank_spec::application_pool::pool::{self, Place, Reason};
use std::collections::BTreeSet;

/// The state that is compared after each step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    max: usize,
    max_per_app: usize,
    count: usize,
    active: usize,
    spawning: usize,
    draining: usize,
    waiting: usize,
    closed: bool,
    /// From `counts`: count, active, spawning, draining, waiting.
    counts: [usize; 5],
    /// Spawned, failed, detached, unwanted, processed, waited.
    totals: [u64; 6],
    groups: Vec<Group>,
    /// The spawns in flight, by their identifiers.
    pub(crate) in_flight: BTreeSet<u64>,
    /// The spawns before which the spawner was asked to reload, since the beginning (erratum E22).
    reloaded: BTreeSet<u64>,
    /// Every process that was shut down since the beginning, once for each shut-down, and whether
    /// its drain's deadline had passed.
    gone: Vec<(u64, bool)>,
    /// All events since the beginning except waits, which belong to the client. Sorted, because
    /// several threads report them.
    reported: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Group {
    name: String,
    waiting: usize,
    spawning: bool,
    restarting: bool,
    generation: u64,
    backing_off: Option<i64>,
    last_error: bool,
    processes: Vec<Process>,
}

#[derive(Debug, PartialEq, Eq)]
struct Process {
    identifier: u64,
    state: ProcessState,
    sessions: usize,
    processed: usize,
    concurrency: usize,
    age: i64,
    last_used: i64,
    outdated: bool,
}

fn ticks(d: std::time::Duration) -> i64 {
    assert_eq!(d.subsec_nanos(), 0, "time passes in whole seconds");
    d.as_secs().try_into().expect("a short time")
}

pub(crate) fn of_the_real(pool: &Pool, spawner: &Scripted) -> Observed {
    let (s, c) = (pool.snapshot(), pool.counts());
    let t = s.totals;
    let groups = s.groups.into_iter().map(|g| Group {
        name: g.name,
        waiting: g.waiting,
        spawning: g.spawning,
        restarting: g.restarting,
        generation: g.generation,
        backing_off: g.backing_off.map(ticks),
        last_error: g.last_error.is_some(),
        processes: g
            .processes
            .into_iter()
            .map(|p| Process {
                identifier: p.identifier.as_u64(),
                state: p.state,
                sessions: p.sessions,
                processed: p.processed,
                concurrency: p.concurrency.unwrap_or(0),
                age: ticks(p.age),
                last_used: ticks(p.last_used),
                outdated: p.outdated,
            })
            .collect(),
    });
    let groups = groups.collect();
    let book = spawner.book();
    Observed {
        max: s.max,
        max_per_app: s.max_per_app.unwrap_or(0),
        count: s.count,
        active: s.active,
        spawning: s.spawning,
        draining: s.draining,
        waiting: s.waiting,
        closed: s.closed,
        counts: [c.count, c.active, c.spawning, c.draining, c.waiting],
        totals: [t.spawned, t.spawns_failed, t.detached, t.unwanted, t.processed, t.waited],
        groups,
        in_flight: book.in_flight.clone(),
        reloaded: book.reloaded.clone(),
        gone: sorted(book.gone.iter().map(|&(id, how)| (id, how == ShutDown::DeadlinePassed))),
        reported: sorted(book.events.iter().filter_map(reported_by_the_real)),
    }
}

fn reported_by_the_real(event: &Event) -> Option<String> {
    Some(match event {
        Event::Spawned { identifier, .. } => format!("{identifier} spawned"),
        Event::Detached { identifier, reason, .. } => format!("{identifier} detached: {reason}"),
        Event::SpawnFailed { group, .. } => format!("{group}: a spawn failed"),
        Event::Restarting { group, .. } => format!("{group}: restarting"),
        _ => return None,
    })
}

fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    all
}

/// The specification's side of the same events.
#[derive(Default)]
pub(crate) struct Reported {
    reloaded: BTreeSet<u64>,
    gone: Vec<(u64, bool)>,
    reported: Vec<String>,
}

impl Reported {
    /// The machine ordered a spawn with a reload.
    pub(crate) fn reloads(&mut self, ticket: usize) {
        self.reloaded.insert(ticket as u64);
    }
    pub(crate) fn add(&mut self, spec: &pool::Pool, event: &pool::Event) {
        let name = |group: usize| &spec.options(group).name;
        match *event {
            pool::Event::Attached { process, .. } => {
                self.reported.push(format!("{process} spawned"));
            }
            pool::Event::Detached { process, reason, .. } => {
                self.reported.push(format!("{process} detached: {}", reason_of(reason)));
            }
            pool::Event::SpawnFailed { group, .. } => {
                self.reported.push(format!("{}: a spawn failed", name(group)));
            }
            pool::Event::Restarting { group } => {
                self.reported.push(format!("{}: restarting", name(group)));
            }
            pool::Event::Gone { process, busy } => {
                self.gone.push((process as u64, busy));
            }
            pool::Event::Unwanted { ticket } => {
                self.gone.push((ticket as u64, false));
                self.reported.push(format!("{ticket} spawned"));
                self.reported.push(format!("{ticket} detached: {}", DetachReason::Unwanted));
            }
            _ => {}
        }
    }
}

fn reason_of(reason: Reason) -> DetachReason {
    match reason {
        Reason::Requested => DetachReason::Requested,
        Reason::Evicted(_) => DetachReason::Evicted,
        Reason::Idle => DetachReason::Idle,
        Reason::MaxRequests => DetachReason::MaxRequests,
        Reason::Failed => DetachReason::Failed,
        Reason::Restarted => DetachReason::Restarted,
        Reason::Closed => DetachReason::Closed,
        Reason::SpawnFailed => unreachable!("as written only (E26)"),
    }
}

pub(crate) fn of_the_specification(spec: &pool::Pool, reported: &Reported) -> Observed {
    let t = spec.totals;
    let known = (0..spec.groups.len()).filter(|&g| spec.groups[g].known);
    let active = spec.active.try_into().expect("as ruled it is never negative");
    Observed {
        max: spec.max,
        max_per_app: spec.max_per_app,
        count: spec.count,
        active,
        spawning: spec.spawns.len(),
        draining: spec.draining.len(),
        waiting: spec.waiting,
        closed: spec.closed,
        counts: [spec.count, active, spec.spawns.len(), spec.draining.len(), spec.waiting],
        totals: [t.spawned, t.spawns_failed, t.detached, t.unwanted, t.processed, t.waited],
        groups: known.map(|g| group(spec, g)).collect(),
        in_flight: spec.spawns.iter().map(|spawn| spawn.ticket as u64).collect(),
        reloaded: reported.reloaded.clone(),
        gone: sorted(reported.gone.iter().copied()),
        reported: sorted(reported.reported.iter().cloned()),
    }
}

fn group(spec: &pool::Pool, g: usize) -> Group {
    let group = &spec.groups[g];
    let mut processes: Vec<_> = spec.processes.iter().filter(|p| p.group == g).collect();
    processes.sort_by_key(|p| (p.detached, p.identifier));
    Group {
        name: spec.options(g).name.clone(),
        waiting: group.queue.len(),
        spawning: group.spawning.is_some(),
        restarting: group.reload_pending || group.outdated > 0,
        generation: group.generation,
        backing_off: group.back_off_until.map(|until| (until - spec.now).max(0)),
        last_error: group.last_error,
        processes: processes.into_iter().map(|p| process(spec, p)).collect(),
    }
}

fn process(spec: &pool::Pool, p: &pool::Process) -> Process {
    Process {
        identifier: p.identifier as u64,
        state: match spec.place(p) {
            Place::Draining => ProcessState::Draining,
            _ if p.disabled => ProcessState::Disabled,
            _ if p.marked => ProcessState::Retiring,
            _ if p.sessions > 0 => ProcessState::Busy,
            _ => ProcessState::Idle,
        },
        sessions: p.sessions,
        processed: p.processed,
        concurrency: spec.options_of(p).concurrency,
        age: spec.now - p.start_time,
        last_used: spec.now - p.last_used,
        outdated: p.generation < spec.groups[p.group].generation,
    }
}
