//! The words of a story: each step as a sentence, and a drawing of the pool.

use crate::resource_pool::action::Action;
use crate::resource_pool::machine::Config;
use crate::resource_pool::state::{
    At, ClientId, Event, Key, Limit, Limits, Refusal, ResourcePool, Slot, Test,
};
use std::fmt::Write;

/// Describes the pool in a line.
pub fn opening(config: &Config) -> String {
    format!("The pool: {} ({}).\n", config.about, limits(&config.limits))
}

/// Returns the sentence for a step, with its events.
pub fn sentence(before: &ResourcePool, action: &Action, after: &ResourcePool) -> String {
    format!("{}{}.", deed(before, action), after.events.iter().map(then).collect::<String>())
}

fn name(client: ClientId) -> char {
    (b'a' + client as u8) as char
}

/// Returns the action in words.
fn deed(s: &ResourcePool, action: &Action) -> String {
    let has = |client: ClientId| s.clients[client].slot().map_or(0, |slot| slot.id);
    let of = |key: Key| if s.total.len() == 1 { String::new() } else { format!(" of key {key}") };
    match *action {
        Action::Borrow { client, key, waits: true } => {
            format!("{} borrows{}", name(client), of(key))
        }
        Action::Borrow { client, key, .. } => {
            format!("{} tries to borrow{}", name(client), of(key))
        }
        Action::Retry { client } => format!("{} retries", name(client)),
        Action::PickUp { client } => format!("{} picks up its grant", name(client)),
        Action::VictimDestroyed { client } => {
            let victim = s.clients[client].victim().map_or(0, |victim| victim.slot.id);
            format!("{} has destroyed the victim r{victim}", name(client))
        }
        Action::Created { client } => format!("{} has created r{}", name(client), has(client)),
        Action::Ready { client } => format!("r{} is ready", has(client)),
        Action::CreateFails { client } => {
            format!("{} fails to create r{}", name(client), has(client))
        }
        Action::ActivateFails { client } => {
            format!("{} finds r{} broken and destroys it", name(client), has(client))
        }
        Action::GiveUp { client } => format!("{} gives up", name(client)),
        Action::Cancel { client } => {
            format!("{} is cancelled while it has r{}", name(client), has(client))
        }
        Action::Return { client } => format!("{} returns r{}", name(client), has(client)),
        Action::Invalidate { client } => {
            format!("{} invalidates r{}", name(client), has(client))
        }
        Action::Detach { client } => format!("{} detaches r{}", name(client), has(client)),
        Action::Die { client } => format!("{} dies with r{}", name(client), has(client)),
        Action::Expire { client } => format!("the lifetime of r{} ends", has(client)),
        Action::Destroyed { at } => format!("r{} is destroyed", s.leaving[at].id),
        Action::Add { key } => format!("an addition{} begins", of(key)),
        Action::Refill { key } => format!("a refill{} begins", of(key)),
        Action::Added { at } => format!("r{} is added", s.adding[at].id),
        Action::AddFails { at } => format!("r{} cannot be created", s.adding[at].id),
        Action::Overdue { at } => format!("the creation of r{} takes long", s.adding[at].id),
        Action::VictimGone { at } => {
            let victim = s.adding[at].evicts.map_or(0, |(victim, _)| victim);
            format!("the victim r{victim} of r{} is destroyed", s.adding[at].id)
        }
        Action::Hangs { at } => format!("the creation of r{} hangs", s.adding[at].id),
        Action::Lost { at } => {
            format!("the runtime ends, and drops the creation of r{}", s.adding[at].id)
        }
        Action::RuntimeIsBack => "the pool has a runtime again".into(),
        Action::Test { at } => format!("r{} is tested", s.idle[at].slot.id),
        Action::Tested { at, valid } => {
            let says = if valid { "valid" } else { "broken" };
            format!("r{} is tested, and {says}", s.idle[at].slot.id)
        }
        Action::Age { at } => format!("r{} becomes due", s.idle[at].slot.id),
        Action::Outlive { at } => {
            format!("r{} expires", s.idle[at].slot.id)
        }
        Action::Evict { at, .. } => {
            format!("the pool considers r{}, which is due, for eviction", s.idle[at].slot.id)
        }
        Action::Clear => "the idle list is cleared".into(),
        Action::ClearAll => "the whole pool is cleared".into(),
        Action::Close => "the pool is closed".into(),
        Action::Resize(to) => format!("the limits change ({})", limits(&to)),
    }
}

/// Returns an event in words.
fn then(event: &Event) -> String {
    match *event {
        Event::Waits(client) => format!("; {} waits", name(client)),
        Event::Takes(client, id) => format!("; {} takes r{id}", name(client)),
        Event::Creates(client, id, None) => format!("; {} creates r{id}", name(client)),
        Event::Creates(client, id, Some(victim)) => {
            format!("; {} destroys r{victim} and creates r{id} in its place", name(client))
        }
        Event::Called(client) => format!("; {} is called", name(client)),
        Event::Has(client, id) => format!("; {} has r{id}", name(client)),
        Event::Refused(client, why) => format!("; {} is refused: {}", name(client), refusal(why)),
        Event::Orders(id, None) => format!("; the pool creates r{id}"),
        Event::Orders(id, Some(victim)) => {
            format!("; the pool destroys r{victim} and creates r{id} in its place")
        }
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

/// Draws the pool: its counts and idle list, then its borrowers.
pub fn draw(s: &ResourcePool) -> String {
    let mut drawing = String::new();
    for key in s.keys() {
        let counts = format!("active {}, total {}", s.active[key], s.total[key]);
        let idle = s.idle_of(key).map(|idle| match idle.test {
            Test::No => format!("r{}", idle.slot.id),
            Test::Running | Test::Doomed => format!("r{} (under test)", idle.slot.id),
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
                None => "waits outside the line".into(),
            },
            At::Called(_) => "is called to retry".into(),
            At::Evicting { slot, victim, .. } => {
                format!("destroys r{} to create r{}", victim.slot.id, slot.id)
            }
            At::Creating { slot, .. } => format!("creates r{}", slot.id),
            At::Activating { slot, .. } => format!("activates r{}", slot.id),
            At::Lent(slot) => format!("has r{}", slot.id),
        };
        let _ = writeln!(drawing, "   | {}: {does}", name(client));
    }
    drawing
}
