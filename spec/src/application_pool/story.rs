//! The words of a story: the configuration in a line, each step as a sentence, and a drawing of the pool.

use crate::application_pool::configuration::{Config, GroupId, Options, RestartMode};
use crate::application_pool::pool::{
    Action, At, Condition, Event, Failure, Lock, Place, Pool, Process, Reason, SpawnResult, Want,
};
use std::fmt::Write;

/// Describes the configuration in a line.
pub fn world(config: &Config) -> String {
    let alike = config.groups.chunk_by(|a, b| these(a) == these(b)).map(|groups| {
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        format!("{} ({})", names.join(", "), these(&groups[0]))
    });
    let groups: Vec<String> = alike.collect();
    let mut says = format!("max {}", config.max);
    if config.max_per_app > 0 {
        let _ = write!(says, ", max_per_app {}", config.max_per_app);
    }
    if config.max_idle_time > 0 {
        let _ = write!(says, ", MAX_IDLE_TIME {}", config.max_idle_time);
    }
    if let Some(max_draining) = config.max_draining {
        let _ = write!(says, ", max_draining {max_draining}");
    }
    if config.connects {
        says += ", connecting is a separate step";
    }
    if config.restart_file {
        says += ", restart.txt exists";
    }
    let clients = config.clients.len();
    format!("{says}; groups {}; {clients} client{}", groups.join(", "), plural(clients))
}

/// Describes options in words.
fn these(options: &Options) -> String {
    let mut says = match options.concurrency {
        0 => "private queues".into(),
        1 => "global queue".into(),
        n => format!("{n} sessions at once"),
    };
    if options.min_processes > 0 {
        let _ = write!(says, ", minimum {}", options.min_processes);
    }
    if options.max_requests > 0 {
        let _ = write!(says, ", max_requests {}", options.max_requests);
    }
    if options.max_queue > 0 {
        let _ = write!(says, ", at most {} wait", options.max_queue);
    }
    if options.restart_mode == RestartMode::Rolling {
        says += ", rolling restarts";
    }
    if options.always_restart {
        says += ", always_restart.txt";
    }
    says
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

struct Names<'a>(&'a Pool);

impl Names<'_> {
    fn group(&self, group: GroupId) -> &str {
        &self.0.options(group).name
    }
}

/// Describes a step in words.
pub fn sentence(before: &Pool, action: &Action, after: &Pool) -> String {
    let names = Names(before);
    let client = |c: usize| format!("client {}", c + 1);
    let mut says = match *action {
        Action::Get { client: c, group } => {
            format!("{} asks for {}", capital(&client(c)), names.group(group))
        }
        Action::TryGet { client: c, group } => {
            format!("{} asks for {} without waiting", capital(&client(c)), names.group(group))
        }
        Action::Retry { client: c } => {
            let group = names.group(before.clients[c].group);
            format!("{} looks again for a process of {group}", capital(&client(c)))
        }
        Action::Connected { client: c } => format!("{} has connected", capital(&client(c))),
        Action::ConnectFails { client: c, local: true } => {
            format!("{} cannot connect because of an error on its own side", capital(&client(c)))
        }
        Action::ConnectFails { client: c, local: false } => {
            format!("{} cannot connect to its process", capital(&client(c)))
        }
        Action::GiveUp { client: c } => format!("{} gives up", capital(&client(c))),
        Action::CloseSession { client: c } => {
            let with = process_of(before, c);
            format!("{} closes its session with {with}", capital(&client(c)))
        }
        Action::NeverCloses { client: c } => {
            format!(
                "{} keeps its session with {} for ever",
                capital(&client(c)),
                process_of(before, c)
            )
        }
        Action::SessionFails { client: c } => {
            format!("The session of {} is broken by {}", client(c), process_of(before, c))
        }
        Action::SpawnEnds { ticket, result } => {
            let of = before.spawns.iter().find(|spawn| spawn.ticket == ticket);
            let of = of.map_or("?", |spawn| names.group(spawn.group));
            match result {
                SpawnResult::Process => format!("The spawn of p{ticket} for {of} succeeds"),
                SpawnResult::Error => format!("The spawn of p{ticket} for {of} fails"),
                SpawnResult::NoThread => {
                    format!("The thread that spawns p{ticket} for {of} cannot be started")
                }
            }
        }
        Action::Touch { .. } => "restart.txt is touched".into(),
        Action::Delete { .. } => "restart.txt is deleted".into(),
        Action::Detach { process } => format!("A caller detaches p{process}"),
        Action::ProcessFails { process } => format!("p{process} fails"),
        Action::Disable { process } => format!("A caller disables p{process}"),
        Action::Enable { process } => format!("A caller enables p{process}"),
        Action::DetachGroup { group } => {
            format!("A caller detaches group {}", names.group(group))
        }
        Action::RestartGroup { group, mode } => {
            let how = if mode == RestartMode::Rolling { "one by one" } else { "at once" };
            format!("A caller restarts group {} {how}", names.group(group))
        }
        Action::PreStart { group } => {
            format!("A caller asks for the minimum of group {}", names.group(group))
        }
        Action::SetOptions { group, .. } => {
            let options = after.options_brought(group);
            format!("Gets for {} now bring other options: {}", options.name, these(options))
        }
        Action::SetMax(max) => format!("max is set to {max}"),
        Action::SetMaxPerApp(max) => format!("max_per_app is set to {max}"),
        Action::SetMaxIdleTime(time) => format!("MAX_IDLE_TIME is set to {time}"),
        Action::Tick => "Time passes".into(),
        Action::Clean => "The cleaner runs".into(),
        Action::ClosePool => "The pool is closed".into(),
    };
    let events: Vec<String> =
        after.events.iter().filter_map(|event| event_says(&names, event)).collect();
    if !events.is_empty() {
        says += ": ";
        says += &events.join("; ");
    }
    says + "."
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn process_of(pool: &Pool, client: usize) -> String {
    match pool.clients[client].at.process() {
        Some(process) => format!("p{process}"),
        None => "a process that is gone".into(),
    }
}

fn event_says(names: &Names<'_>, event: &Event) -> Option<String> {
    Some(match *event {
        Event::Waits { client } => format!("client {} waits", client + 1),
        Event::Woken { client } => format!("client {} is woken", client + 1),
        Event::Served { client, process } => format!("client {} is given p{process}", client + 1),
        Event::Failed { client, why } => {
            let why = match why {
                Failure::Closed => "the pool is closed",
                Failure::QueueFull => "the queue is full",
                Failure::WouldBlock => "it would have to wait",
                Failure::Spawn => "the spawn failed",
                Failure::Connect => "it cannot connect",
                Failure::GaveUp => return None,
            };
            format!("the get of client {} fails: {why}", client + 1)
        }
        Event::SpawnBegun { group, ticket, replaces } => {
            let what = if replaces { " as a replacement" } else { "" };
            format!("the spawn of p{ticket} for {} begins{what}", names.group(group))
        }
        Event::GivenUp { ticket } => format!("the spawn of p{ticket} is cancelled"),
        Event::Attached { group, process } => format!("p{process} joins {}", names.group(group)),
        Event::Unwanted { .. } => "the process is not needed and is shut down".into(),
        Event::Orphaned { .. } => "the process is not needed and is not shut down".into(),
        Event::SpawnFailed { .. } => return None,
        Event::Detached { process, reason, busy, .. } => {
            let why = match reason {
                Reason::Requested => "",
                Reason::Evicted(Some(requester)) => {
                    let requester = names.group(requester);
                    return Some(format!("p{process} is evicted for {requester}"));
                }
                Reason::Evicted(None) => " to make room",
                Reason::Idle => " after being idle",
                Reason::MaxRequests => " after its last session",
                Reason::Failed => " as broken",
                Reason::Restarted => " for the restart",
                Reason::SpawnFailed => " because a spawn failed",
                Reason::Closed => "",
            };
            let busy = if busy { ", with sessions open" } else { "" };
            format!("p{process} is detached{why}{busy}")
        }
        Event::Gone { .. } => return None,
        Event::Restarting { group } => format!("{} is restarted", names.group(group)),
        Event::MarkedForEviction { process } => format!("p{process} is marked for eviction"),
        Event::Unmarked { process } => format!("p{process} is unmarked"),
        Event::LockHeld => "the lock stays held".into(),
    })
}

/// Draws the pool.
pub fn draw(pool: &Pool) -> String {
    let mut picture = String::new();
    let lock = match pool.lock {
        Lock::Free => String::new(),
        Lock::Joining(group) => {
            format!("   LOCK HELD, joining the spawner of {}", pool.options(group).name)
        }
        Lock::Spawning(client) => format!("   LOCK HELD by client {}, spawning", client + 1),
    };
    let closed = if pool.closed { "   closed" } else { "" };
    let _ = writeln!(
        picture,
        "   | max {} count {} active {} reserved {} draining {} waiting {}{closed}{lock}",
        pool.max,
        pool.count,
        pool.active,
        pool.reserved + pool.replacing,
        pool.draining.len(),
        pool.waiting,
    );
    for id in 0..pool.groups.len() {
        draw_group(pool, id, &mut picture);
    }
    if pool.orphans > 0 {
        let _ = writeln!(picture, "   | alive but lost: {}", pool.orphans);
    }
    picture
}

fn draw_group(pool: &Pool, id: GroupId, picture: &mut String) {
    let group = &pool.groups[id];
    let drains = pool.processes.iter().filter(|p| p.group == id && p.detached);
    let attached = group.processes.iter().map(|&p| pool.process(p));
    let mut parts: Vec<String> = attached.chain(drains).map(|p| draw_process(pool, p)).collect();
    for spawn in pool.spawns.iter().filter(|spawn| spawn.group == id) {
        let wanted = group.spawning == Some(spawn.ticket) || spawn.under_lock.is_some();
        let unwanted = if wanted { "" } else { ", cancelled" };
        parts.push(format!("(p{} is being spawned{unwanted})", spawn.ticket));
    }
    if group.spawning.is_some_and(|t| pool.spawns.iter().all(|spawn| spawn.ticket != t)) {
        parts.push("(flag spawning is set)".into());
    }
    if let Some(until) = group.back_off_until {
        parts.push(format!("backs off for {}", (until - pool.now).max(0)));
    }
    match group.want {
        Want::Nothing => {}
        Want::First => parts.push("wants its first process".into()),
        Want::More => parts.push("wants one more".into()),
        Want::Minimum => parts.push("wants its minimum".into()),
        Want::Replacement => parts.push("wants a replacement".into()),
        Want::Capped => parts.push("wants more than max_per_app".into()),
    }
    let waits: Vec<String> = group.queue.iter().map(|&c| draw_waiter(pool, c)).collect();
    if !waits.is_empty() {
        parts.push(format!("waiting: {}", waits.join(", ")));
    }
    let parts = if parts.is_empty() { "-".into() } else { parts.join("  ") };
    let _ = writeln!(picture, "   | {}: {parts}", pool.options(id).name);
}

fn draw_process(pool: &Pool, process: &Process) -> String {
    let has = |at: At| at.process() == Some(process.identifier);
    let clients = pool.clients.iter().enumerate().filter(|(_, client)| has(client.at));
    let named = |(id, client): (usize, &crate::application_pool::pool::Client)| match client.at {
        At::Connecting(_) => format!("client {} connecting", id + 1),
        _ if client.endless => format!("client {} for ever", id + 1),
        _ => format!("client {}", id + 1),
    };
    let clients: Vec<String> = clients.map(named).collect();
    let mut says = format!("[p{}", process.identifier);
    if clients.len() != process.sessions {
        let _ = write!(says, " {} session{}", process.sessions, plural(process.sessions));
    }
    let _ = match clients.is_empty() {
        true => write!(says, " idle"),
        false => write!(says, " {}", clients.join(", ")),
    };
    match pool.place(process) {
        Place::Retiring => says += ", retiring",
        Place::Disabled => says += ", disabled",
        _ if process.marked => says += ", marked",
        Place::Draining => says += ", detached",
        _ => {}
    }
    if process.generation < pool.groups[process.group].generation && !process.detached {
        says += ", outdated";
    }
    says + "]"
}

fn draw_waiter(pool: &Pool, client: usize) -> String {
    let name = format!("client {}", client + 1);
    match pool.clients[client].at {
        At::Again => format!("{name} (woken)"),
        At::Waiting(Condition::NewGroup) => format!("{name} (for a new group)"),
        _ => name,
    }
}
