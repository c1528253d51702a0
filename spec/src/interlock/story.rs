//! Writes a counterexample as a story: each step as a sentence, with the owners drawn after it.

use crate::check::{Promises, write_steps};
use crate::checker::{Counterexample, Machine};
use crate::interlock::script::{Action, Op, Step, World};
use crate::interlock::state::{
    Accepts, Event, Interlock, LOAD, Mode, OwnerId, Purpose, Refusal, SHARE, Sleep, UNLOAD,
};
use std::fmt::Write;

/// Returns the story of a counterexample.
pub fn tell(world: &World, counterexample: &Counterexample<Action>) -> String {
    let mut story = String::from("The programs:\n");
    let width = world.scripts.iter().map(|script| script.name.len()).max().unwrap_or_default();
    for script in &world.scripts {
        let ops: Vec<_> = script.ops.iter().map(|op| statement(world, *op)).collect();
        let limit = if script.limited { "within a time limit: " } else { "" };
        let _ = writeln!(story, "   {:width$}  {limit}{}", script.name, ops.join("; "));
    }
    story.push('\n');
    let mut state = world.initial();
    write_steps(&mut story, counterexample, |action| {
        state = world.step(&state, action);
        format!("{}\n{}", sentence(world, action, &state), draw(world, &state))
    });
    let deadlock = "=> deadlock: an owner has not ended, and no owner can move.\n";
    story + &World::verdict(counterexample.what).unwrap_or_else(|| deadlock.into())
}

/// Returns a statement of a program in words.
fn statement(world: &World, op: Op) -> String {
    let name = |o: OwnerId| world.scripts[o].name;
    match op {
        Op::Acquire(p) => format!("acquire {}", purpose(p)),
        Op::Drop => "release at once".into(),
        Op::Spawn(o) => format!("start {}", name(o)),
        Op::Join(o) => format!("join {}", name(o)),
        Op::Request(o) => format!("until {} waits", name(o)),
        op => format!("{op:?}").to_lowercase(),
    }
}

fn purpose(p: Purpose) -> &'static str {
    match p {
        Purpose::Load => "load",
        Purpose::Unload => "unload",
        Purpose::Unnamed => "without a purpose",
    }
}

/// Returns the sentence for a step.
pub fn sentence(world: &World, action: &Action, after: &Interlock) -> String {
    let did = match action.step {
        Step::Next(op) => statement(world, op),
        Step::Granted(_) => "is granted the lock".into(),
        Step::Resumed => "has its shares again".into(),
        Step::GiveUp => "gives up".into(),
    };
    let then = |event: &Event| match event {
        Event::Waits => Some(", and waits"),
        Event::Drains => Some(", and drains"),
        Event::Refused(Refusal::Deadlock) => Some(": refused, for it would wait for itself"),
        Event::Holds if !matches!(action.step, Step::Granted(_)) => Some(", and has it"),
        _ => None,
    };
    let then: String = after.events.iter().filter_map(then).collect();
    format!("{}: {did}{then}.", world.scripts[action.owner].name)
}

/// Draws the owners, one in each line.
pub fn draw(world: &World, s: &Interlock) -> String {
    let mut drawing = String::new();
    let width = world.scripts.iter().map(|script| script.name.len()).max().unwrap_or_default();
    for (o, script) in world.scripts.iter().enumerate() {
        let _ = writeln!(drawing, "   | {:width$}  {}", script.name, owner(world, s, o));
    }
    let _ = writeln!(drawing, "   | generation {}", s.generation);
    drawing
}

fn owner(world: &World, s: &Interlock, o: OwnerId) -> String {
    let owner = &s.owners[o];
    let mut says = match s.mode(o) {
        _ if !owner.started => "not started".into(),
        _ if world.is_over(s, o) => format!("ended, {}", count(owner.shares, "share")),
        Mode::Holding => {
            let held = s.holder.map_or("", |(_, p)| purpose(p));
            format!("holding ({held}), {}", count(owner.shares, "share"))
        }
        Mode::Running => format!("running, {}", count(owner.shares, "share")),
        mode => format!("{mode:?}").to_lowercase(),
    };
    if let Some(Sleep::For(p) | Sleep::Draining(p)) = owner.sleeps {
        let _ = write!(says, " ({})", purpose(p));
    }
    let given_up: u8 = owner.frames.iter().map(|frame| frame.shares).sum();
    if given_up > 0 {
        let _ = write!(says, ", {} given up", count(given_up, "share"));
    }
    if let Some(entry) = owner.entry {
        let _ = write!(says, ", accepts {}", in_words(entry.accepts));
    }
    if owner.sleeps.is_none() && world.wait(s, o) == Some(None) {
        says += ", wants to enter";
    }
    says
}

fn count(n: u8, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Returns the requests that an entry accepts.
fn in_words(accepts: Accepts) -> String {
    let names = [
        (SHARE, "newcomers"),
        (LOAD, "loads"),
        (UNLOAD, "unloads"),
        (Purpose::Unnamed.request(), "requests without a purpose"),
    ];
    let accepted: Vec<_> = names.iter().filter(|(a, _)| accepts & a != 0).map(|n| n.1).collect();
    if accepted.is_empty() { "no request".into() } else { accepted.join(", ") }
}
