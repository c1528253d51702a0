//! A counterexample told in words, step by step, with the owners drawn after each.

use crate::checker::{Counterexample, Machine};
use crate::interlock::properties::says;
use crate::interlock::script::{Action, Op, Step, World};
use crate::interlock::state::{Accepts, Event, Interlock, Mode, OwnerId, Purpose, Refusal, Sleep};
use std::fmt::Write;

/// The story of a counterexample.
pub fn tell(world: &World, counterexample: &Counterexample<Action>) -> String {
    let mut story = String::from("The programs:\n");
    let width = world.scripts.iter().map(|script| script.name.len()).max().unwrap_or_default();
    for script in &world.scripts {
        let ops: Vec<_> = script.ops.iter().map(|op| statement(world, *op)).collect();
        let of = script.parent.map(|parent| format!(" (child of {})", world.scripts[parent].name));
        let (name, of) = (script.name, of.unwrap_or_default());
        let _ = writeln!(story, "   {name:width$}{of}  {}", ops.join("; "));
    }
    story.push('\n');
    let mut state = world.initial();
    for (number, action) in counterexample.actions.iter().enumerate() {
        state = told(&mut story, &format!("{}.", number + 1), world, &state, action);
    }
    if !counterexample.for_ever.is_empty() {
        story += "And then, over and over again:\n\n";
    }
    for action in &counterexample.for_ever {
        state = told(&mut story, "*", world, &state, action);
    }
    let _ = match says(counterexample.what) {
        Some(says) => writeln!(story, "=> {} does not hold: {says}.", counterexample.what),
        None => {
            writeln!(story, "=> deadlock: somebody is not through, and nobody can do anything.")
        }
    };
    story
}

fn told(
    story: &mut String,
    number: &str,
    world: &World,
    before: &Interlock,
    action: &Action,
) -> Interlock {
    let after = world.step(before, action);
    let _ = writeln!(story, "{number} {}", sentence(world, action, &after));
    let _ = writeln!(story, "{}", draw(world, &after));
    after
}

/// A statement of a program.
fn statement(world: &World, op: Op) -> String {
    let name = |o: OwnerId| world.scripts[o].name;
    match op {
        Op::Enter => "enter".into(),
        Op::Leave => "leave".into(),
        Op::Acquire(p) => format!("acquire {}", purpose(p)),
        Op::Try(p) => format!("try {}", purpose(p)),
        Op::AcquireFor(p) => format!("acquire {} for a while", purpose(p)),
        Op::Unload => "unload".into(),
        Op::Release => "release".into(),
        Op::ReleaseFor => "release, and let others go first for a while".into(),
        Op::Drop => "release at once".into(),
        Op::Permit => "permit".into(),
        Op::End => "end".into(),
        Op::Use => "use".into(),
        Op::Spawn(o) => format!("start {}", name(o)),
        Op::Join(o) => format!("join {}", name(o)),
        Op::Wait(o) => format!("wait for {}", name(o)),
        Op::WaitForAll => "wait for all children".into(),
        Op::Barrier(_) => "meet".into(),
        Op::Request(o) => format!("until {} asks", name(o)),
        Op::Die => "die".into(),
        Op::Again => "again".into(),
    }
}

fn purpose(p: Purpose) -> &'static str {
    match p {
        Purpose::Load => "load",
        Purpose::Unload => "unload",
        Purpose::Unnamed => "for no purpose",
    }
}

/// What happens in a step.
pub fn sentence(world: &World, action: &Action, after: &Interlock) -> String {
    let name = |o: OwnerId| world.scripts[o].name;
    let did = match action.step {
        Step::Next(op) => match op {
            Op::Enter => "enters".into(),
            Op::Leave => "leaves".into(),
            Op::Acquire(p) | Op::Try(p) | Op::AcquireFor(p) => {
                format!("asks for the lock ({})", purpose(p))
            }
            Op::Unload if after.told.contains(&Event::Coalesced) => {
                "finds that somebody has reloaded since it asked".into()
            }
            Op::Unload => "unloads, and loads again".into(),
            Op::Release | Op::ReleaseFor => "releases the lock".into(),
            Op::Drop => "releases the lock, and lets nobody go first".into(),
            Op::Permit => "permits loads".into(),
            Op::End => "ends its permit block".into(),
            Op::Use => "uses what is loaded".into(),
            Op::Spawn(o) => format!("starts {}", name(o)),
            Op::Join(o) => format!("has waited for {}", name(o)),
            Op::Wait(o) => format!("waits for {}, and says so", name(o)),
            Op::WaitForAll => "waits for all its children, and says so".into(),
            Op::Barrier(_) => "meets the others".into(),
            Op::Request(o) => format!("has waited until {} asked", name(o)),
            Op::Die => "dies".into(),
            Op::Again => "begins again".into(),
        },
        Step::Granted(_) => "is granted the lock".into(),
        Step::Drained(_) => "goes on".into(),
        Step::GiveUp(_) => "gives up".into(),
        Step::Resumed(_) => "has what it had before".into(),
        Step::Joined => "has waited long enough".into(),
        Step::Forfeit => "is dead: what it had is given back".into(),
    };
    let then = |event: &Event| match event {
        Event::Waits => Some(", and waits"),
        Event::Drains => Some(", and lets others go first"),
        Event::Refused(Refusal::WouldBlock) => Some(": it would have to wait, and is told so"),
        Event::Refused(Refusal::Deadlock) => Some(": it would wait for itself, and is told so"),
        Event::Refused(Refusal::Child) => Some(": it is a child, and is refused"),
        Event::Refused(Refusal::Holding) => Some(": not while it holds the lock"),
        Event::Refused(Refusal::InsideLoad) => Some(": not inside a load"),
        Event::Refused(Refusal::TimedOut) => Some(", but not the lock"),
        Event::Holds if !matches!(action.step, Step::Granted(_)) => Some(", and has it"),
        Event::Holds | Event::Reloaded | Event::Coalesced | Event::Woke => None,
    };
    let then: String = after.told.iter().filter_map(then).collect();
    format!("{} {did}{then}.", name(action.owner))
}

/// All owners, one in a line.
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
        Mode::Out if world.is_over(s, o) => "over".into(),
        Mode::Holding => {
            let held = s.holder.map_or("", |(_, p)| purpose(p));
            format!("holding ({held}), {}", count(owner.shares, "share"))
        }
        Mode::Running => format!("running, {}", count(owner.shares, "share")),
        mode => format!("{mode:?}").to_lowercase(),
    };
    if let Some(Sleep::For(p) | Sleep::Draining(p) | Sleep::GivenUp(p)) = owner.sleeps {
        let _ = write!(says, " ({})", purpose(p));
    }
    let given_up: u8 = owner.frames.iter().map(|frame| frame.shares).sum();
    if given_up > 0 {
        let _ = write!(says, ", {} given up", count(given_up, "share"));
    }
    if let Some(entry) = owner.entry {
        let _ = write!(says, ", lets in {}", in_words(entry.accepts));
    }
    for &child in &owner.waits_on {
        let _ = write!(says, ", waits for {}", world.scripts[child].name);
    }
    match world.next(s, o) {
        Some(Op::Enter) if !s.may_enter(o) => says += ", wants to enter",
        Some(Op::End) if !s.c(o) => says += ", wants to end its permit block",
        _ => {}
    }
    if owner.dead {
        says += ", dead";
    }
    says
}

fn count(n: u8, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Whom an entry lets in.
fn in_words(accepts: Accepts) -> String {
    let names = [
        (Accepts::SHARE, "shares"),
        (Accepts::LOAD, "loads"),
        (Accepts::UNLOAD, "unloads"),
        (Accepts::UNNAMED, "the unnamed"),
    ];
    let let_in: Vec<_> = names.iter().filter(|(a, _)| accepts.includes(*a)).map(|n| n.1).collect();
    if let_in.is_empty() { "nobody".into() } else { let_in.join(", ") }
}
