//! The words of a story: the programs, each step as a sentence, and a drawing of the owners.

use crate::interlock::script::{Action, Op, Step, World};
use crate::interlock::state::{
    Event, Interlock, LOAD, OwnerId, Purpose, Refusal, SHARE, Sleep, UNLOAD,
};
use std::fmt::Write;

/// Returns the programs, one in each line.
pub fn opening(world: &World) -> String {
    let mut story = String::from("The programs:\n");
    let width = world.scripts.iter().map(|script| script.name.len()).max().unwrap_or_default();
    for script in &world.scripts {
        let ops: Vec<_> = script.ops.iter().map(|op| statement(world, *op)).collect();
        let limit = if script.limited { "within a time limit: " } else { "" };
        let _ = writeln!(story, "   {:width$}  {limit}{}", script.name, ops.join("; "));
    }
    story
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
        _ if world.has_ended(s, o) => "ended".into(),
        mode => format!("{mode:?}").to_lowercase(),
    };
    let holds = s.holder.filter(|_| s.holds(o)).map(|(_, p)| p);
    if let (Some(p), _) | (_, Some(Sleep::For(p) | Sleep::Draining(p))) = (holds, owner.sleeps) {
        let _ = write!(says, " ({})", purpose(p));
    }
    let given_up: u8 = owner.frames.iter().map(|frame| frame.shares).sum();
    for (shares, of) in [(owner.shares, ""), (given_up, " given up")] {
        if shares > 0 {
            let _ = write!(says, ", {shares} share{}{of}", if shares == 1 { "" } else { "s" });
        }
    }
    if let Some(entry) = owner.entry {
        let unnamed = (Purpose::Unnamed.request(), "requests without a purpose");
        let names = [(SHARE, "newcomers"), (LOAD, "loads"), (UNLOAD, "unloads"), unnamed];
        let accepted = names.iter().filter(|(request, _)| entry.accepts & request != 0);
        let accepted: Vec<_> = accepted.map(|(_, name)| *name).collect();
        let _ = write!(
            says,
            ", accepts {}",
            if accepted.is_empty() { "no request".into() } else { accepted.join(", ") }
        );
    }
    if owner.sleeps.is_none() && world.wait(s, o) == Some(None) {
        says += ", wants to enter";
    }
    says
}
