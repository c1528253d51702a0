//! The properties of steps.
//!
//! An invariant looks at one state. A property of steps looks at a step: which get it serves, which
//! process it detaches and why. [`STEP_PROPERTIES`] is the only home of the names and sentences.

use crate::application_pool::configuration::{
    ClientId, Config, GroupId, Options, ProcessId, RestartMode,
};
use crate::application_pool::pool::{
    Action, At, Event, Failure, Lock, Pool, Reason, SpawnResult, Want,
};
use crate::checking::promises::step_properties;

step_properties! {
    Config:
    "PROP-SESSIONS" "a process counts one session for each client that has one or is connecting (E16)"
        |_, _, _, s| each(s.processes.iter(), |p| {
            let has = |client: &&crate::application_pool::pool::Client| client.at.process() == Some(p.identifier);
            s.clients.iter().filter(has).count() == p.sessions
        });
    "PROP-CLOSE-POSSIBLE" "a client can always close its session: the lock is not held across a wait (E2, E4)"
        |_, _, _, s| each(s.clients.iter().filter(|client| matches!(client.at, At::InSession(_))),
            |_| s.lock == Lock::Free);
    "PROP-NO-ORPHAN" "the pool knows every live process, or has ordered its shutdown (E12)"
        |_, before, action, after| match *action {
            Action::SpawnEnds { ticket, result: SpawnResult::Process } => {
                let unwanted = before.groups.iter().all(|g| g.spawning != Some(ticket));
                unwanted.then_some(after.orphans == 0)
            }
            _ => None,
        };
    "PROP-NO-OVERTAKING" "no get is served while an earlier get for the same group waits (E17)"
        no_overtaking;
    "PROP-KEEPS-TURN" "a get whose process has crashed waits before all later gets, and the queue's bound does not refuse it (E38)"
        |_, _, action, s| {
            let (Action::Retry { client } | Action::ConnectFails { client, local: false }) = *action else {
                return None;
            };
            let refused = s.events.contains(&Event::Failed { client, why: Failure::QueueFull });
            let queue = s.groups.iter().map(|group| &group.queue).find(|queue| queue.contains(&client));
            let in_turn = |queue: &Vec<usize>| queue.iter().map(|&c| s.clients[c].turn).is_sorted();
            if refused { Some(false) } else { queue.map(in_turn) }
        };
    "PROP-CHOICE" "a get is given an idle process if there is one, and otherwise one with the fewest sessions (E33)"
        choice;
    "PROP-QUEUE-BOUND" "no get begins to wait where max_queue gets wait already (E19)"
        |_, _, action, s| {
            let group = asked_for(action)?;
            let waits = s.events.iter().any(|event| matches!(event, Event::Waits { .. }));
            let bound = s.options(group).max_queue;
            (waits && bound > 0).then(|| s.groups[group].queue.len() <= bound)
        };
    "PROP-WORK-CONSERVING" "no get waits for a group that may spawn and does not (E20)"
        |_, _, _, s| {
            let waits = |&c: &usize| matches!(s.clients[c].at, At::Waiting(_));
            let live = !s.closed && s.lock == Lock::Free;
            let waited_for = |&id: &usize| live && s.groups[id].queue.iter().any(waits);
            each((0..s.groups.len()).filter(waited_for), |id| {
                let g = &s.groups[id];
                g.spawning.is_some() || g.back_off_until.is_some() || g.outdated > 0
                    || !s.spawning_allowed(id)
            })
        };
    "PROP-SERVES-ON" "no get waits while an enabled process of its group can be given one more session, even if another group waits for its place (E37)"
        |_, _, _, s| each(s.clients.iter().filter(|client| matches!(client.at, At::Waiting(_))), |client| {
            let of_group = s.groups[client.group].processes.iter().map(|&p| s.process(p));
            of_group.into_iter().all(|p| {
                let takes = s.options_of(p).concurrency;
                p.disabled || s.is_exhausted(p) || takes > 0 && p.sessions >= takes
            })
        });
    "PROP-GROWTH" "a group above its minimum grows only when none of its processes has room, unless its options say otherwise (E35)"
        growth;
    "PROP-LAST-SESSION" "a process that is given its last session is detached in the same step, so its place is free (E36)"
        |_, _, _, s| {
            let served = s.events.iter().filter_map(|event| match *event {
                Event::Served { process, .. } => s.find(process),
                _ => None,
            });
            each(served.filter(|process| s.is_exhausted(process)), |process| process.detached)
        };
    "PROP-IDLE-TIME" "the cleaner shuts down only processes that have been idle for MAX_IDLE_TIME (E5)"
        |_, before, _, after| each(detached(after).filter(|d| d.2 == Reason::Idle), |(process, ..)|
            before.find(process).is_some_and(|p|
                before.now - p.last_used.max(p.start_time) >= before.max_idle_time));
    "PROP-IDLE-BOUND" "with a punctual cleaner, a process that no minimum protects is idle for at most MAX_IDLE_TIME (E30, E40)"
        |_, _, action, s| {
            let bounded = s.config().environment.punctual && s.max_idle_time > 0;
            // Only time can exceed the bound: lowering it makes a process due at once.
            let passes = *action == Action::Tick && bounded;
            let idle = s.next_idle().filter(|_| passes)?;
            Some(s.now - s.process(idle).last_used <= s.max_idle_time)
        };
    "PROP-DISABLED" "a disabled process is given no session, and leaves only for a caller, a restart or a failure"
        |_, before, action, after| {
            let is_disabled = |id: ProcessId| {
                let process = before.find(id).filter(|process| process.disabled && !process.detached);
                process.is_some() && *action != Action::Enable { process: id }
            };
            let right = |event: &Event| match *event {
                Event::Served { process, .. } => !is_disabled(process),
                Event::Detached { process, reason, .. } if is_disabled(process) => {
                    !matches!(reason, Reason::Evicted(_) | Reason::Idle)
                }
                _ => true,
            };
            let here = before.processes.iter().any(|process| is_disabled(process.identifier));
            here.then(|| after.events.iter().all(right))
        };
    "PROP-HEALTHY-STAY" "a failed spawn detaches no process of its group (E26), unless the pool stays full, another group starved before, and the process is idle (E37)"
        healthy_stay;
    "PROP-EARLY-DEATH" "a process that fails before it has lived for the longest back-off or, with a session, for the first counts as a failed spawn; its group backs off, unless it is the first failure in a row (E26)"
        |_, before, _, after| {
            let failed = detached(after).filter(|(_, _, reason)| *reason == Reason::Failed);
            let early = failed.filter_map(|(process, group, _)| {
                let failures = before.failed_early(before.find(process)?)?;
                Some((group, before.groups[group].failures.max(failures) + 1))
            });
            each(early, |(group, failures)| {
                let group = &after.groups[group];
                group.failures == failures && (failures == 1 || group.back_off_until.is_some())
            })
        };
    "PROP-BACK-OFF-SPARES" "no process is evicted for a group that backs off, unless the group restarts or is detached (E27)"
        |_, before, action, after| {
            // Both end the back-off.
            let ends = |id| restarts(after, id) || *action == Action::DetachGroup { group: id };
            let backs_off = |&id: &GroupId| !ends(id)
                && before.groups[id].back_off_until.is_some_and(|until| until > before.now);
            each((0..before.groups.len()).filter(backs_off), |id| detached(after)
                .all(|(_, _, reason)| reason != Reason::Evicted(Some(id))))
        };
    "PROP-VICTIM" "no process that a minimum protects is evicted while an unprotected process is idle (E29)"
        victims;
    "PROP-LOCAL-FAILURE" "a connect failure on the client's side detaches no process (E31)"
        |_, _, action, after| matches!(action, Action::ConnectFails { local: true, .. })
            .then(|| detached(after).all(|(_, _, reason)| reason != Reason::Failed));
    "PROP-RESTART-SEEN" "a group whose get sees a new restart.txt restarts, even if another group saw the file first (E22)"
        |_, before, action, after| {
            let group = asked_for(action).filter(|_| !before.closed)?;
            let options = before.options_brought(group);
            sees_change(before, group, options).then(|| restarts(after, group))
        };
    "PROP-RESTART-CAUSE" "a group restarts only if restart.txt was created or touched since the group last looked, or a caller restarts it by name (E23)"
        |_, before, action, after| each((0..after.groups.len()).filter(|&id| restarts(after, id)), |id| {
            let options = before.options_brought(id);
            restarts_by_name(action).is_some_and(|(group, _)| group == id) || asked_for(action) == Some(id) && (options.always_restart || sees_change(before, id, options))
        });
    "PROP-RESTART-LOSS" "no restart detaches a process while restart.txt is missing (E23)"
        |_, before, action, after| {
            let group = asked_for(action)?;
            let (options, g) = (before.options_brought(group), &before.groups[group]);
            let dir = options.restart_dir;
            let deleted = before.files[dir].is_none() && g.seen[dir].flatten().is_some();
            let at_once = options.restart_mode == RestartMode::Immediate && !options.always_restart;
            (deleted && at_once && g.size > 0 && !before.closed)
                .then(|| detached(after).all(|(_, of, reason)| of != group || reason != Reason::Restarted))
        };
    "PROP-RESTART-ONCE" "no get restarts its group after it has waited (E24)"
        |_, before, action, after| {
            let client = looks_again(before, action)?;
            let group = before.clients[client].group;
            let options = before.config().options(group, before.clients[client].options);
            (options.always_restart || sees_change(before, group, options)).then(||
                !after.events.iter().any(|event| matches!(event, Event::Restarting { .. })))
        };
    "PROP-ROLLING" "a rolling restart detaches a process only after its successor is attached (E34)"
        |_, _, action, s| {
            let at_once = |group| restarts_by_name(action) == Some((group, RestartMode::Immediate));
            // In the order of events: a process attached later is no successor yet.
            let mut successors = vec![0; s.groups.len()];
            let detached = s.events.iter().filter_map(|event| match *event {
                Event::Attached { group, .. } => {
                    successors[group] += 1;
                    None
                }
                Event::Detached { group, reason: Reason::Restarted, .. }
                    if s.options(group).restart_mode == RestartMode::Rolling && !at_once(group) =>
                {
                    let was_there = successors[group] > 0;
                    successors[group] -= usize::from(was_there);
                    Some(was_there)
                }
                _ => None,
            });
            each(detached, |successor_was_there| successor_was_there)
        };
    "PROP-DETACH-RESETS" "detaching a group or closing the pool clears what the group remembers of restarts, failures and restart files (E22, E23, E26)"
        |_, before, action, after| {
            let cleared: Vec<GroupId> = match *action {
                Action::DetachGroup { group } => vec![group],
                Action::ClosePool if !before.closed => (0..before.groups.len()).collect(),
                _ => return None,
            };
            each(cleared.into_iter().filter(|&id| before.groups[id].known), |id| {
                let g = &after.groups[id];
                !g.reload_pending && g.failures == 0 && !g.last_error && g.back_off_until.is_none()
                    && g.seen.iter().all(Option::is_none)
            })
        };
    "PROP-FORGOTTEN" "no process is spawned for a detached group until a get or a pre-start asks for it again, whatever its minimum (E28)"
        |_, before, action, s| {
            // Include the step that detaches the group, which must set `forgotten`.
            let detached = match *action {
                Action::DetachGroup { group } if before.groups[group].known => Some(group),
                _ => None,
            };
            let unasked = |id: &GroupId| {
                s.groups[*id].forgotten || Some(*id) == detached && s.groups[*id].queue.is_empty()
            };
            each((0..s.groups.len()).filter(unasked), |id| {
                let g = &s.groups[id];
                let quiet = g.spawning.is_none() && g.want == Want::Nothing;
                g.size == 0 && quiet && (g.forgotten || !g.known)
            })
        };
    "PROP-OPTIONS" "a group has the options of the get or pre-start that looked last; a process keeps the options its spawn was ordered with (E7)"
        |_, before, action, after| {
            let (group, options) = match looks_again(before, action) {
                Some(client) => (before.clients[client].group, before.clients[client].options),
                None => {
                    let group = asked_for(action).or(pre_starts(action));
                    group.map(|group| (group, before.brought[group]))?
                }
            };
            let g = &before.groups[group];
            (g.known && !before.closed && g.options != options).then(|| {
                let as_it_was = |p: &crate::application_pool::pool::Process| before.find(p.identifier);
                after.groups[group].options == options && after.processes.iter()
                    .all(|p| as_it_was(p).is_none_or(|before| before.options == p.options))
            })
        };
    "PROP-DETACHED-STATED" "detached means that the pool does not find the group or process (E8)"
        |_, _, _, s| Some(s.groups.iter().all(|g| detached_as_stated(s, g.detached, g.known))
            && s.processes.iter().all(|p| {
                let accessible = s.groups[p.group].processes.contains(&p.identifier);
                detached_as_stated(s, p.detached, accessible)
            }));
}

/// The pseudocode's invariant of `detached`; as written it says the opposite.
fn detached_as_stated(s: &Pool, detached: bool, accessible: bool) -> bool {
    match s.written(crate::application_pool::rules::Erratum::E8) {
        true => detached == accessible,
        false => detached != accessible,
    }
}

/// Returns whether `holds` is true of every item, or `None` without items.
fn each<T>(of: impl Iterator<Item = T>, holds: impl FnMut(T) -> bool) -> Option<bool> {
    let mut of = of.peekable();
    of.peek()?;
    Some(of.all(holds))
}

fn detached(s: &Pool) -> impl Iterator<Item = (ProcessId, GroupId, Reason)> + '_ {
    s.events.iter().filter_map(|event| match *event {
        Event::Detached { process, group, reason, .. } => Some((process, group, reason)),
        _ => None,
    })
}
fn restarts(s: &Pool, group: GroupId) -> bool {
    s.events.contains(&Event::Restarting { group })
}

/// Returns the group that a new get asks for.
fn asked_for(action: &Action) -> Option<GroupId> {
    match *action {
        Action::Get { group, .. } | Action::TryGet { group, .. } => Some(group),
        _ => None,
    }
}
/// Returns the group whose minimum a caller asks for.
fn pre_starts(action: &Action) -> Option<GroupId> {
    match *action {
        Action::PreStart { group } => Some(group),
        _ => None,
    }
}
/// Returns the group that a caller restarts by its name, and how.
fn restarts_by_name(action: &Action) -> Option<(GroupId, RestartMode)> {
    match *action {
        Action::RestartGroup { group, mode } => Some((group, mode)),
        _ => None,
    }
}
/// Returns the client that looks for a process again in this step.
fn looks_again(before: &Pool, action: &Action) -> Option<ClientId> {
    match *action {
        Action::Retry { client } => Some(client),
        Action::ConnectFails { client, local: false } => {
            let again = before.clients[client].attempt < before.config().max_attempts;
            (again && !before.written(crate::application_pool::rules::Erratum::E38))
                .then_some(client)
        }
        _ => None,
    }
}
/// Returns whether the directory of these options has a `restart.txt` newer than the group last saw.
fn sees_change(s: &Pool, group: GroupId, options: &Options) -> bool {
    let file = s.files[options.restart_dir];
    let seen = s.groups[group].seen[options.restart_dir];
    file.is_some() && seen.is_some() && seen != Some(file)
}

fn no_overtaking(_: &Config, before: &Pool, _: &Action, after: &Pool) -> Option<bool> {
    let overtakes = |event: &Event| {
        let Event::Served { client, .. } = event else { return None };
        let mut groups = before.groups.iter().enumerate();
        let place = groups.find_map(|(id, group)| {
            group.queue.iter().position(|c| c == client).map(|at| (id, at))
        });
        // A get that did not wait came last; its process shows the group it asked for.
        let served_by = after.clients[*client].at.process().and_then(|p| after.find(p));
        let (group, at) = match (place, served_by) {
            (Some(place), _) => place,
            (None, Some(process)) => (process.group, usize::MAX),
            (None, None) => return None,
        };
        let earlier = before.groups[group].queue.iter().take(at);
        each(earlier, |other| !after.groups[group].queue.contains(other))
    };
    each(after.events.iter().filter_map(overtakes), |kept| kept)
}

/// Judges each spawn that makes a group grow: after it, no process of the group has room, or is given a session in the
/// same step.
fn growth(_: &Config, _: &Pool, _: &Action, after: &Pool) -> Option<bool> {
    let begins = after.events.iter().enumerate().filter_map(|(at, event)| match *event {
        Event::SpawnBegun { group, replaces: false, .. } => Some((at, group)),
        _ => None,
    });
    let grows = |&(_, id): &(usize, GroupId)| {
        let (group, options) = (&after.groups[id], after.options(id));
        group.size > 0 && group.enabled() >= options.min_processes && !options.eager_growth
    };
    each(begins.filter(grows), |(at, id)| {
        let serves = |event: &Event| match *event {
            Event::Served { process, .. } => after.find(process).is_some_and(|p| p.group == id),
            _ => false,
        };
        after.select_process(id).is_none() && !after.events[at..].iter().any(serves)
    })
}

/// Judges the choice among processes with room: the pseudocode's two ways of choosing both allow it.
fn choice(_: &Config, before: &Pool, action: &Action, after: &Pool) -> Option<bool> {
    let (Action::Get { client, group } | Action::TryGet { client, group }) = action else {
        return None;
    };
    let served =
        after.events.iter().any(|e| matches!(e, Event::Served { client: c, .. } if c == client));
    if !served || restarts(after, *group) {
        return None;
    }
    let chosen = before.find(after.clients[*client].at.process()?)?;
    let others = before.groups[*group].processes.iter().map(|&p| before.process(p));
    let others = others.filter(|other| {
        let has_room = matches!(before.place(other), crate::application_pool::pool::Place::Open(_));
        has_room && other.identifier != chosen.identifier
    });
    each(others, |other| chosen.sessions <= other.sessions)
}

/// Judges a spawn that fails: its group keeps its processes. Only another group that starved before may take one, if the
/// process is idle and the place of the spawn does not suffice. The failure is not the cause: the next grant of
/// capacity takes the same process, whether or not the spawn has ended.
fn healthy_stay(_: &Config, before: &Pool, action: &Action, after: &Pool) -> Option<bool> {
    let Action::SpawnEnds { ticket, result } = *action else { return None };
    let spawn = before.spawns.iter().find(|spawn| spawn.ticket == ticket)?;
    if result == SpawnResult::Process || before.groups[spawn.group].size == 0 {
        return None;
    }
    let places = before.count + before.reserved - usize::from(!spawn.replaces);
    let stays_full = places >= before.max || before.live() > before.live_limit();
    let starved = |id: GroupId| {
        let group = &before.groups[id];
        id != spawn.group && group.want == Want::More && before.now >= group.room_due
    };
    let makes_room = |process: ProcessId, reason: Reason| {
        let idle = before.inactive_apps.contains(&process);
        stays_full && idle && matches!(reason, Reason::Evicted(Some(group)) if starved(group))
    };
    let mut lost = detached(after).filter(|(_, group, _)| *group == spawn.group);
    Some(lost.all(|(process, _, reason)| makes_room(process, reason)))
}

/// Judges each eviction of a step by the idle processes and group sizes of that moment.
fn victims(_: &Config, before: &Pool, action: &Action, after: &Pool) -> Option<bool> {
    let mut sizes: Vec<usize> = before.groups.iter().map(|group| group.enabled()).collect();
    let of = |process: ProcessId| (process, before.process(process).group);
    let mut idle: Vec<(ProcessId, GroupId)> =
        before.inactive_apps.iter().copied().chain(becomes_idle(before, action)).map(of).collect();
    let mut judged = Vec::new();
    for event in &after.events {
        match *event {
            Event::Detached { process, group, reason, .. } => {
                let above = |group: GroupId| sizes[group] > after.options(group).min_processes;
                let choosable = idle.iter().any(|&(_, of)| above(of));
                let protects = idle.iter().any(|&(_, of)| !above(of));
                let evicted = matches!(reason, Reason::Evicted(Some(_)));
                if evicted && choosable && protects && idle.iter().any(|&(p, _)| p == process) {
                    judged.push(above(group));
                }
                let enabled = before.find(process).is_none_or(|process| !process.disabled);
                sizes[group] = sizes[group].saturating_sub(usize::from(enabled));
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

/// Returns the process that loses its last session at the beginning of this step.
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
