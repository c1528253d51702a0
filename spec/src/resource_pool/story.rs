//! A counterexample told in words, step by step, with the pool drawn after each.

use crate::checker::{Counterexample, Machine};
use crate::resource_pool::invariants::INVARIANTS;
use crate::resource_pool::machine::{Action, Config};
use crate::resource_pool::properties::{LIVENESS, STEP_PROPERTIES};
use crate::resource_pool::state::{
    At, ClientId, Event, Key, Limit, Limits, Refusal, ResourcePool, Slot, Test,
};
use std::fmt::Write;

/// Everything that is promised: its name, and what it says.
pub fn promises() -> impl Iterator<Item = (&'static str, &'static str)> {
    let invariants = INVARIANTS.iter().map(|i| (i.name, i.says));
    let steps = STEP_PROPERTIES.iter().map(|p| (p.name, p.says));
    let in_the_end = LIVENESS.iter().filter(|p| p.promised).map(|p| (p.name, p.says));
    invariants.chain(steps).chain(in_the_end)
}

/// The story of a counterexample.
pub fn tell(config: &Config, counterexample: &Counterexample<Action>) -> String {
    let mut story = format!("The pool: {} ({}).\n\n", config.about, limits(&config.limits));
    let mut state = config.initial();
    for (number, action) in counterexample.actions.iter().enumerate() {
        told(&mut story, &format!("{}.", number + 1), &mut state, action);
    }
    if !counterexample.for_ever.is_empty() {
        story += "And then, over and over again:\n\n";
    }
    for action in &counterexample.for_ever {
        told(&mut story, "*", &mut state, action);
    }
    let _ = match promises().find(|(name, _)| *name == counterexample.what) {
        Some((name, says)) => writeln!(story, "=> {name} does not hold: {says}."),
        None => writeln!(story, "=> deadlock: somebody waits, and nothing can help."),
    };
    story
}

fn told(story: &mut String, number: &str, state: &mut ResourcePool, action: &Action) {
    let did = sentence(state, action);
    state.apply(action);
    let _ = writeln!(story, "{number} {did}{}.", state.told.iter().map(then).collect::<String>());
    let _ = writeln!(story, "{}", draw(state));
}

fn name(client: ClientId) -> char {
    (b'a' + client as u8) as char
}

/// What happens in a step.
fn sentence(s: &ResourcePool, action: &Action) -> String {
    let has = |client: ClientId| s.clients[client].slot().map_or(0, |slot| slot.id);
    let of = |key: Key| if s.total.len() == 1 { String::new() } else { format!(" of key {key}") };
    match *action {
        Action::Borrow { client, key, waits: true } => {
            format!("{} borrows{}", name(client), of(key))
        }
        Action::Borrow { client, key, .. } => {
            format!("{} tries to borrow{}", name(client), of(key))
        }
        Action::Retry { client } => format!("{} tries again", name(client)),
        Action::Come { client } => format!("{} comes for what it was handed", name(client)),
        Action::MadeRoom { client } => {
            let victim = s.clients[client].victim().map_or(0, |victim| victim.slot.id);
            format!("{} has destroyed r{victim}, which made room", name(client))
        }
        Action::Created { client } => format!("{} has created r{}", name(client), has(client)),
        Action::Ready { client } => format!("r{} is ready", has(client)),
        Action::CreateFails { client } => {
            format!("{} fails to create r{}", name(client), has(client))
        }
        Action::PrepareFails { client } => {
            format!("{} finds r{} broken, and destroys it", name(client), has(client))
        }
        Action::GiveUp { client } => format!("{} gives up", name(client)),
        Action::Cancel { client } => {
            format!("{} is cancelled while it has r{}", name(client), has(client))
        }
        Action::Return { client } => format!("{} returns r{}", name(client), has(client)),
        Action::Invalidate { client } => {
            format!("{} gives up r{} as broken", name(client), has(client))
        }
        Action::Detach { client } => format!("{} keeps r{} for good", name(client), has(client)),
        Action::Die { client } => format!("{} dies, with r{}", name(client), has(client)),
        Action::Expire { client } => format!("the lifetime of r{} is over", has(client)),
        Action::Destroyed { at } => format!("r{} is destroyed", s.leaving[at].id),
        Action::Add { key } => format!("one more{} is to be added", of(key)),
        Action::Refill { key } => format!("stock{} is filled up", of(key)),
        Action::Added { at } => format!("r{} is added", s.adding[at].id),
        Action::AddFails { at } => format!("r{} cannot be created", s.adding[at].id),
        Action::CancelAdd { at } => {
            format!("who adds r{} gives up while it is being made", s.adding[at].id)
        }
        Action::Test { at } => format!("r{} is tested", s.idle[at].slot.id),
        Action::Tested { at, valid } => {
            let says = if valid { "valid" } else { "broken" };
            format!("r{} is tested, and {says}", s.idle[at].slot.id)
        }
        Action::Age { at } => format!("r{} has been idle for too long", s.idle[at].slot.id),
        Action::Outlive { at } => {
            format!("r{} has been there for so long that it must not be lent", s.idle[at].slot.id)
        }
        Action::Evict { at, .. } => {
            format!("somebody looks at r{}, which is due", s.idle[at].slot.id)
        }
        Action::Clear => "what is idle is cleared".into(),
        Action::ClearAll => "all is cleared".into(),
        Action::Close => "the pool is closed".into(),
        Action::Resize(to) => format!("the limits are changed ({})", limits(&to)),
    }
}

/// What it told.
fn then(event: &Event) -> String {
    match *event {
        Event::Waits(client) => format!("; {} waits", name(client)),
        Event::Takes(client, id) => format!("; {} takes r{id}", name(client)),
        Event::Creates(client, id, None) => format!("; {} creates r{id}", name(client)),
        Event::Creates(client, id, Some(victim)) => {
            format!("; {} destroys r{victim}, and creates r{id} in its place", name(client))
        }
        Event::Completes(client, id) => format!("; {} completes r{id}", name(client)),
        Event::Called(client) => format!("; {} is called", name(client)),
        Event::Has(client, id) => format!("; {} has r{id}", name(client)),
        Event::Refused(client, why) => format!("; {} is told: {}", name(client), refusal(why)),
        Event::Adds(Some(id)) => format!(": r{id}"),
        Event::Adds(None) => ": there is no room".into(),
        Event::Idles(id) => format!("; r{id} becomes idle"),
        Event::Leaves(id) => format!("; r{id} leaves"),
    }
}

fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::Closed => "closed",
        Refusal::Exhausted => "exhausted",
        Refusal::WouldBlock => "it would have to wait",
        Refusal::GaveUp => "it gave up",
        Refusal::Failed => "it failed",
    }
}

fn limits(limits: &Limits) -> String {
    let bounds = [
        ("max_active", limits.max_active),
        ("max_total", limits.max_total),
        ("max_total_per_key", limits.max_total_per_key),
        ("max_idle", limits.max_idle),
        ("min_idle", Limit(Some(limits.min_idle).filter(|&n| n > 0))),
    ];
    let of = |(name, limit): (&str, Limit)| limit.0.map(|number| format!("{name} {number}"));
    bounds.into_iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

/// The pool: its counts and its stock, then its borrowers.
pub fn draw(s: &ResourcePool) -> String {
    let mut drawing = String::new();
    for key in s.keys() {
        let counts = format!("active {}, total {}", s.active[key], s.total[key]);
        let idle = s.idle_of(key).map(|idle| match idle.test {
            Test::No => format!("r{}", idle.slot.id),
            Test::Running | Test::Doomed => format!("r{} (being tested)", idle.slot.id),
        });
        let of_key = |slots: &[Slot]| {
            let mine = slots.iter().filter(|slot| slot.key == key);
            mine.map(|slot| format!("r{}", slot.id)).collect::<Vec<_>>()
        };
        let parts = [
            ("idle", idle.collect()),
            ("being added", of_key(&s.adding)),
            ("being destroyed", of_key(&s.leaving)),
        ];
        let parts = parts.into_iter().filter(|(_, ids)| !ids.is_empty());
        let parts: String =
            parts.map(|(what, ids)| format!("; {what}: {}", ids.join(" "))).collect();
        let closed = if s.closed { "closed; " } else { "" };
        let _ = writeln!(drawing, "   | key {key}: {closed}{counts}{parts}");
    }
    for (client, at) in s.clients.iter().enumerate() {
        let does = match at {
            At::Out => "out".into(),
            At::Waiting(_) => match s.line.iter().position(|waiter| waiter.client == client) {
                Some(place) => format!("waits, number {} in line", place + 1),
                None => "waits, and is in no line".into(),
            },
            At::Called(_) => "is called to try again".into(),
            At::MakingRoom { slot, victim, .. } => {
                format!("destroys r{}, to create r{}", victim.slot.id, slot.id)
            }
            At::Creating { slot, .. } => format!("creates r{}", slot.id),
            At::Preparing { slot, .. } => format!("activates r{}", slot.id),
            At::Lent(slot) => format!("has r{}", slot.id),
        };
        let _ = writeln!(drawing, "   | {}: {does}", name(client));
    }
    drawing
}
