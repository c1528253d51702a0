//! What holds beyond the invariants: of steps, and in the end.
//!
//! An invariant looks at one state. Some promises are about a step (who is served, who is detached and
//! why), and some about what comes about in the end. Those depend on what is fair: see
//! [`Liveness::assumes`].

use crate::configuration::{GroupId, Options, ProcessId, RestartMode};
use crate::pool::{Action, At, Event, Lock, Pool, Reason, SpawnResult};

/// Something that every step keeps.
#[derive(Clone, Copy)]
pub struct StepProperty {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    /// Whether a step from the first state to the second keeps it. None: nothing in the step is what
    /// it is about. A property of which that is so everywhere would hold whatever the machine does;
    /// `tests/exploration.rs` sees to it that there is none.
    pub judge: fn(&Pool, &Action, &Pool) -> Option<bool>,
}

macro_rules! step_properties {
    ($($name:literal $says:literal $judge:expr;)*) => {
        /// What every step keeps.
        pub const STEP_PROPERTIES: &[StepProperty] =
            &[$(StepProperty { name: $name, says: $says, judge: $judge },)*];
    };
}

step_properties! {
    "PROP-SESSIONS" "a process has as many sessions as there are clients that have one with it (E16)"
        |_, _, s| each(s.processes.iter(), |p| {
            let has = |client: &&crate::pool::Client| client.at.process() == Some(p.identifier);
            s.clients.iter().filter(has).count() == p.sessions
        });
    "PROP-CLOSE-POSSIBLE" "whoever has a session can close it: nobody holds the lock and waits (E2, E4)"
        |_, _, s| each(s.clients.iter().filter(|client| matches!(client.at, At::InSession(_))),
            |_| s.lock == Lock::Free);
    "PROP-NO-ORPHAN" "every process that lives is known of, or was told to shut down (E12)"
        |before, action, after| match *action {
            Action::SpawnEnds { ticket, result: SpawnResult::Process } => {
                let unwanted = before.groups.iter().all(|g| g.spawning != Some(ticket));
                unwanted.then_some(after.orphans == 0)
            }
            _ => None,
        };
    "PROP-NO-OVERTAKING" "nobody is served while somebody who asked for the same group earlier waits (E17)"
        no_overtaking;
    "PROP-CHOICE" "a get is given an idle process if there is one, and else one with the fewest sessions (E33)"
        choice;
    "PROP-QUEUE-BOUND" "no get begins to wait where max_queue of them wait already (E19)"
        |_, action, s| {
            let group = asked_for(action)?;
            let waits = s.told.iter().any(|event| matches!(event, Event::Waits { .. }));
            let bound = s.options(group).max_queue;
            (waits && bound > 0).then(|| s.groups[group].queue.len() <= bound)
        };
    "PROP-WORK-CONSERVING" "no get waits for a group that may spawn and does not (E20)"
        |_, _, s| {
            let waits = |&c: &usize| matches!(s.clients[c].at, At::Waiting(_));
            let live = !s.closed && s.lock == Lock::Free;
            let waited_for = |&id: &usize| live && s.groups[id].queue.iter().any(waits);
            each((0..s.groups.len()).filter(waited_for), |id| {
                let g = &s.groups[id];
                g.spawning.is_some() || g.back_off_until.is_some() || g.outdated > 0
                    || !s.spawning_allowed(id)
            })
        };
    "PROP-IDLE-TIME" "the cleaner shuts down only what has been idle for MAX_IDLE_TIME (E5)"
        |before, _, after| each(detached(after).filter(|d| d.2 == Reason::Idle), |(process, ..)|
            before.find(process).is_some_and(|p|
                before.now - p.last_used.max(p.start_time) >= before.max_idle_time));
    "PROP-IDLE-BOUND" "what no minimum protects is idle for MAX_IDLE_TIME at most, if the cleaner is punctual (E30)"
        |_, action, s| {
            let bounded = s.config().environment.punctual && s.max_idle_time > 0;
            // It is time that passes the bound; to lower it makes something due at once.
            let passes = *action == Action::Tick && bounded;
            let idle = s.next_idle().filter(|_| passes)?;
            Some(s.now - s.process(idle).last_used <= s.max_idle_time)
        };
    "PROP-HEALTHY-STAY" "a spawn that fails detaches no process of its group (E26)"
        |before, action, after| match action {
            Action::SpawnEnds { ticket, result } if *result != SpawnResult::Process => {
                let of = before.spawns.iter().find(|spawn| spawn.ticket == *ticket)?.group;
                (before.groups[of].size > 0).then(|| detached(after).all(|(_, group, _)| group != of))
            }
            _ => None,
        };
    "PROP-BACK-OFF-SPARES" "nothing is evicted for a group that backs off, unless it is restarted (E27)"
        |before, _, after| {
            let backs_off = |&id: &GroupId| !restarts(after, id)
                && before.groups[id].back_off_until.is_some_and(|until| until > before.now);
            each((0..before.groups.len()).filter(backs_off), |id| detached(after)
                .all(|(_, _, reason)| reason != Reason::Evicted(Some(id))))
        };
    "PROP-VICTIM" "nothing that a minimum protects is evicted while something else is idle (E29)"
        victims;
    "PROP-LOCAL-FAILURE" "whoever fails to connect for reasons of its own detaches nothing (E31)"
        |_, action, after| matches!(action, Action::ConnectFails { local: true, .. })
            .then(|| detached(after).all(|(_, _, reason)| reason != Reason::Failed));
    "PROP-RESTART-SEEN" "a group that gets to see a new restart.txt restarts, whoever else saw it (E22)"
        |before, action, after| {
            let group = asked_for(action).filter(|_| !before.closed)?;
            let options = before.options_brought(group);
            sees_news(before, group, options).then(|| restarts(after, group))
        };
    "PROP-RESTART-CAUSE" "a group restarts only for a file that was made or touched since it last looked (E23)"
        |before, action, after| each((0..after.groups.len()).filter(|&id| restarts(after, id)), |id| {
            let options = before.options_brought(id);
            asked_for(action) == Some(id) && (options.always_restart || sees_news(before, id, options))
        });
    "PROP-RESTART-LOSS" "no restart detaches a process when there is no restart.txt (E23)"
        |before, action, after| {
            let group = asked_for(action)?;
            let (options, g) = (before.options_brought(group), &before.groups[group]);
            let dir = options.restart_dir;
            let deleted = before.files[dir].is_none() && g.seen[dir].flatten().is_some();
            let at_once = options.restart_mode == RestartMode::Immediate && !options.always_restart;
            (deleted && at_once && g.size > 0 && !before.closed)
                .then(|| detached(after).all(|(_, of, reason)| of != group || reason != Reason::Restarted))
        };
    "PROP-RESTART-ONCE" "no get restarts its group after it has waited (E24)"
        |before, action, after| {
            let Action::Retry { client } = *action else { return None };
            let group = before.clients[client].group;
            let options = before.config().options(group, before.clients[client].options);
            (options.always_restart || sees_news(before, group, options)).then(||
                !after.told.iter().any(|event| matches!(event, Event::Restarting { .. })))
        };
    "PROP-ROLLING" "a rolling restart detaches a process only when its successor is there (E34)"
        |_, _, s| {
            // In the order in which it is told: who comes afterwards is no successor yet.
            let mut successors = vec![0; s.groups.len()];
            let detached = s.told.iter().filter_map(|event| match *event {
                Event::Attached { group, .. } => {
                    successors[group] += 1;
                    None
                }
                Event::Detached { group, reason: Reason::Restarted, .. }
                    if s.options(group).restart_mode == RestartMode::Rolling =>
                {
                    let was_there = successors[group] > 0;
                    successors[group] -= usize::from(was_there);
                    Some(was_there)
                }
                _ => None,
            });
            each(detached, |successor_was_there| successor_was_there)
        };
    "PROP-BEGINS-ANEW" "a group that is detached, or closed, has no restart, failure or restart file to remember (E22, E23, E26)"
        |before, action, after| {
            let anew: Vec<GroupId> = match *action {
                Action::DetachGroup { group } => vec![group],
                Action::ClosePool if !before.closed => (0..before.groups.len()).collect(),
                _ => return None,
            };
            each(anew.into_iter().filter(|&id| before.groups[id].known), |id| {
                let g = &after.groups[id];
                !g.reload_pending && g.failures == 0 && !g.last_error && g.back_off_until.is_none()
                    && g.seen.iter().all(Option::is_none)
            })
        };
    "PROP-FORGOTTEN" "nothing is spawned for a group that was detached until a get asks for it again, whatever its minimum (E28)"
        |before, action, s| {
            // Not only where the group says so: the step that is to make it say so, too.
            let detached = match *action {
                Action::DetachGroup { group } if before.groups[group].known => Some(group),
                _ => None,
            };
            let unasked = |id: &GroupId| {
                s.groups[*id].forgotten || Some(*id) == detached && s.groups[*id].queue.is_empty()
            };
            each((0..s.groups.len()).filter(unasked), |id| {
                let g = &s.groups[id];
                let quiet = g.spawning.is_none() && g.want == crate::pool::Want::Nothing;
                g.size == 0 && quiet && (g.forgotten || !g.known)
            })
        };
    "PROP-OPTIONS" "a group has the options of the get that looked last; a process keeps those its spawn was ordered with (E7)"
        |before, action, after| {
            let (group, options) = match *action {
                Action::Retry { client } =>
                    (before.clients[client].group, before.clients[client].options),
                _ => asked_for(action).map(|group| (group, before.brought[group]))?,
            };
            let g = &before.groups[group];
            (g.known && !before.closed && g.options != options).then(|| {
                let as_it_was = |p: &crate::pool::Process| before.find(p.identifier);
                after.groups[group].options == options && after.processes.iter()
                    .all(|p| as_it_was(p).is_none_or(|before| before.options == p.options))
            })
        };
    "PROP-DETACHED-STATED" "detached says that a group or process is not found in the pool (E8)"
        |_, _, s| Some(s.groups.iter().all(|g| detached_as_stated(s, g.detached, g.known))
            && s.processes.iter().all(|p| {
                let accessible = s.groups[p.group].processes.contains(&p.identifier);
                detached_as_stated(s, p.detached, accessible)
            }));
}

/// The text's invariant of `detached`; as written it says the opposite.
fn detached_as_stated(s: &Pool, detached: bool, accessible: bool) -> bool {
    match s.written(crate::rules::Erratum::E8) {
        true => detached == accessible,
        false => detached != accessible,
    }
}

impl StepProperty {
    /// The property of this name.
    pub fn named(name: &str) -> Option<&'static StepProperty> {
        STEP_PROPERTIES.iter().find(|property| property.name == name)
    }
}

/// Whether all are as they should be; none, if there are none.
fn each<T>(of: impl Iterator<Item = T>, holds: impl FnMut(T) -> bool) -> Option<bool> {
    let mut of = of.peekable();
    of.peek()?;
    Some(of.all(holds))
}

fn detached(s: &Pool) -> impl Iterator<Item = (ProcessId, GroupId, Reason)> + '_ {
    s.told.iter().filter_map(|event| match *event {
        Event::Detached { process, group, reason, .. } => Some((process, group, reason)),
        _ => None,
    })
}
fn restarts(s: &Pool, group: GroupId) -> bool {
    s.told.contains(&Event::Restarting { group })
}

/// The group that a new get asks for.
fn asked_for(action: &Action) -> Option<GroupId> {
    match *action {
        Action::Get { group, .. } | Action::TryGet { group, .. } => Some(group),
        _ => None,
    }
}
/// Whether there is a `restart.txt`, where these options say, other than the group last saw.
fn sees_news(s: &Pool, group: GroupId, options: &Options) -> bool {
    let file = s.files[options.restart_dir];
    let seen = s.groups[group].seen[options.restart_dir];
    file.is_some() && seen.is_some() && seen != Some(file)
}

fn no_overtaking(before: &Pool, _: &Action, after: &Pool) -> Option<bool> {
    let overtakes = |event: &Event| {
        let Event::Served { client, .. } = event else { return None };
        let mut groups = before.groups.iter().enumerate();
        let place = groups.find_map(|(id, group)| {
            group.queue.iter().position(|c| c == client).map(|at| (id, at))
        });
        // Who did not wait came last of all; which group it asked for, its process says.
        let served_by = after.clients[*client].at.process().and_then(|p| after.find(p));
        let (group, at) = match (place, served_by) {
            (Some(place), _) => place,
            (None, Some(process)) => (process.group, usize::MAX),
            (None, None) => return None,
        };
        let earlier = before.groups[group].queue.iter().take(at);
        each(earlier, |other| !after.groups[group].queue.contains(other))
    };
    each(after.told.iter().filter_map(overtakes), |kept| kept)
}

/// What the text's two ways to choose allow, of the processes that take another session.
fn choice(before: &Pool, action: &Action, after: &Pool) -> Option<bool> {
    let (Action::Get { client, group } | Action::TryGet { client, group }) = action else {
        return None;
    };
    let served =
        after.told.iter().any(|e| matches!(e, Event::Served { client: c, .. } if c == client));
    if !served || restarts(after, *group) {
        return None;
    }
    let chosen = before.find(after.clients[*client].at.process()?)?;
    let others = before.groups[*group].processes.iter().map(|&p| before.process(p));
    let others = others.filter(|other| {
        let has_room = matches!(before.place(other), crate::pool::Place::Open(_));
        has_room && other.identifier != chosen.identifier
    });
    each(others, |other| chosen.sessions <= other.sessions)
}

/// Each eviction of a step, by what was idle at that moment and how many each group had.
fn victims(before: &Pool, action: &Action, after: &Pool) -> Option<bool> {
    let mut sizes: Vec<usize> = before.groups.iter().map(|group| group.size).collect();
    let of = |process: ProcessId| (process, before.process(process).group);
    let mut idle: Vec<(ProcessId, GroupId)> =
        before.inactive_apps.iter().copied().chain(becomes_idle(before, action)).map(of).collect();
    let mut judged = Vec::new();
    for event in &after.told {
        match *event {
            Event::Detached { process, group, reason, .. } => {
                let above = |group: GroupId| sizes[group] > after.options(group).min_processes;
                let choosable = idle.iter().any(|&(_, of)| above(of));
                let protects = idle.iter().any(|&(_, of)| !above(of));
                let evicted = matches!(reason, Reason::Evicted(Some(_)));
                if evicted && choosable && protects && idle.iter().any(|&(p, _)| p == process) {
                    judged.push(above(group));
                }
                sizes[group] = sizes[group].saturating_sub(1);
                idle.retain(|&(p, _)| p != process);
            }
            Event::Attached { process, group } => {
                sizes[group] += 1;
                idle.push((process, group));
            }
            Event::Served { process, .. } => idle.retain(|&(p, _)| p != process),
            _ => {}
        }
    }
    each(judged.into_iter(), |kept| kept)
}

/// The process that is left without a session before anything else happens in this step.
fn becomes_idle(before: &Pool, action: &Action) -> Option<ProcessId> {
    use Action::{CloseSession, ConnectFails, GiveUp, SessionFails};
    let (CloseSession { client }
    | SessionFails { client }
    | GiveUp { client }
    | ConnectFails { client, .. }) = *action
    else {
        return None;
    };
    let process = before.find(before.clients[client].at.process()?)?;
    (process.sessions == 1 && !process.detached).then_some(process.identifier)
}

/// The kinds of actions, for what may go on for ever.
pub mod kind {
    #![allow(missing_docs)]
    pub const GET: u8 = 0;
    pub const SERVED: u8 = 1;
    pub const CLOSE: u8 = 2;
    pub const SPAWN_OK: u8 = 3;
    pub const SPAWN_FAILS: u8 = 4;
    pub const TIME: u8 = 5;
    pub const CLIENT_FAILS: u8 = 6;
    pub const ENVIRONMENT: u8 = 7;

    /// Gets come and sessions end, spawns give processes, time passes.
    pub const QUIET: u64 = 1 << GET | 1 << SERVED | 1 << CLOSE | 1 << SPAWN_OK | 1 << TIME;
}

/// Something that comes about in the end.
#[derive(Clone, Copy)]
pub struct Liveness {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    /// What it needs.
    pub assumes: &'static str,
    /// The kinds of actions that may go on for ever while it has not come about.
    pub may: u64,
    /// Which classes of actions are taken if they stay possible.
    pub fair: fn(u8) -> bool,
    /// For each client, or group: whether it has not come about yet.
    pub not_yet: fn(&Pool, usize) -> bool,
    /// Whether it is about clients, or about groups.
    pub of_clients: bool,
}

const CLIENTS: u8 = 8;
fn fair_close(class: u8) -> bool {
    (CLIENTS * 2..CLIENTS * 3).contains(&class)
}

/// What comes about in the end.
pub const LIVENESS: &[Liveness] = &[
    Liveness {
        name: "PROP-EVERY-GET-ENDS",
        says: "every get that waits ends, with a session or an error (E19, E21)",
        assumes: "sessions close, clients connect, spawns end (well or not), the cleaner runs, time passes; \
                  others go on asking, spawns go on failing; restarts, detaches and changes of limits and options stop",
        may: kind::QUIET | 1 << kind::SPAWN_FAILS,
        fair: |_| true,
        not_yet: |s, client| {
            let client = &s.clients[client];
            matches!(client.at, At::Waiting(_) | At::Again | At::Spawning)
        },
        of_clients: true,
    },
    Liveness {
        name: "PROP-NO-GROUP-STARVES",
        says: "a group without processes that somebody waits for gets one, or its gets end (E18)",
        assumes: "as before",
        may: kind::QUIET | 1 << kind::SPAWN_FAILS,
        fair: |_| true,
        not_yet: |s, group| s.groups[group].size == 0 && !s.groups[group].queue.is_empty(),
        of_clients: false,
    },
    Liveness {
        name: "PROP-MINIMUM-REFILLED",
        says: "a group below its minimum comes up to it, as long as there is room (E28)",
        assumes: "as before, and spawns stop failing; the group has no max_requests, by which it may lose \
                  processes as fast as they come",
        may: kind::QUIET,
        fair: |_| true,
        not_yet: |s, id| {
            let group = &s.groups[id];
            let wants = group.known && !group.forgotten && !s.closed;
            let room = !s.is_capped(id) && (group.spawning.is_some() || s.may_reserve());
            wants && room && group.size < s.options(id).min_processes
        },
        of_clients: false,
    },
    Liveness {
        name: "PROP-RESTART-ENDS",
        says: "a rolling restart replaces every outdated process (E34)",
        assumes: "as before, and spawns stop failing; there is room for a successor: max_draining is not 0, and \
                  max was not lowered meanwhile (tests/findings.rs)",
        may: kind::QUIET,
        fair: |_| true,
        not_yet: |s, group| s.groups[group].outdated > 0,
        of_clients: false,
    },
    Liveness {
        name: "PROP-DRAIN-ENDS",
        says: "a process that drains is gone in the end, though its sessions do not close (E13)",
        assumes: "time passes, the cleaner runs; sessions need not close",
        may: kind::QUIET | 1 << kind::SPAWN_FAILS | 1 << kind::CLIENT_FAILS,
        fair: |class| !fair_close(class),
        not_yet: |s, client| {
            let process = s.clients[client].at.process().and_then(|p| s.find(p));
            process.is_some_and(|process| process.detached)
        },
        of_clients: true,
    },
];

impl Liveness {
    /// The property of this name.
    pub fn named(name: &str) -> Option<&'static Liveness> {
        LIVENESS.iter().find(|property| property.name == name)
    }
    /// Whether a world has what the property assumes: drains have an end only where time passes.
    pub fn applies(&self, config: &crate::configuration::Config) -> bool {
        (self.fair)(CLIENTS * 2) || config.environment.time
    }
    /// In how many of these states, by their [`marks`], it has not come about yet for somebody.
    pub(crate) fn not_yet_in(&self, marks: &[u64]) -> usize {
        let place = LIVENESS.iter().position(|other| other.name == self.name);
        let bits = ((1 << SUBJECTS) - 1) << (place.expect("one of them") * SUBJECTS);
        marks.iter().filter(|&&marks| marks & bits != 0).count()
    }
    /// How many clients or groups it is about.
    pub fn subjects(&self, pool: &Pool) -> usize {
        if self.of_clients { pool.clients.len() } else { pool.groups.len() }
    }
}

/// How many bits each property's marks take.
pub const SUBJECTS: usize = 8;

/// For each liveness property and each client or group: whether it has not come about yet.
pub fn marks(pool: &Pool) -> u64 {
    let mut bits = 0;
    for (at, property) in LIVENESS.iter().enumerate() {
        for subject in 0..property.subjects(pool) {
            bits |= u64::from((property.not_yet)(pool, subject)) << (at * SUBJECTS + subject);
        }
    }
    bits
}

/// An action's kind and fairness class. Fair are, each for itself: that a client looks again when woken
/// or connects; that a session closes; that the spawn which a group waits for ends; that those which
/// nobody waits for end; that time passes; that the cleaner runs.
pub fn kind_and_class(pool: &Pool, action: &Action) -> (u8, u8) {
    let unfair = crate::checker::UNFAIR;
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
