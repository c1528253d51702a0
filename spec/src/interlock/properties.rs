//! The properties of every state, of every step, and of the end.
//!
//! Most of them compare the interlock with the owners' places in their programs. The executions, permit blocks and
//! locks that a program has open follow from its place, without asking the interlock.

use crate::checking::promises::{SUBJECTS, invariants, liveness, step_properties};
use crate::interlock::script::{Action, Op, Step, World};
use crate::interlock::state::Purpose::{Load, Unload};
use crate::interlock::state::{Event, Interlock, Mode, OwnerId, Sleep};

invariants! {
    World:
    "INV-ILK-ONE-HOLDER" "at most one owner is at a place where its program has the lock"
        |w, s| all(s).filter(|&o| open(w, s, o).locks > 0).count() <= 1;
    "INV-ILK-ALONE" "while an owner holds the lock, it alone has shares, and every entry accepts its purpose"
        |_, s| s.holder.is_none_or(|(o, p)| {
            s.others(o).all(|(_, q)| q.shares == 0 && q.accepts(p.request()))
        });
    "INV-ILK-NO-PERMIT-IN-UNLOAD" "while an owner unloads, no permit block is open"
        |w, s| {
            let unloads = |o: OwnerId| w.next(s, o) == Some(Op::Unload) && s.holds(o);
            !all(s).any(unloads) || all(s).all(|o| open(w, s, o).permits == 0)
        };
    "INV-ILK-ONE-GENERATION" "the code that an execution sees is not reloaded, unless the execution requests it"
        |_, s| s.owners.iter().all(|owner| {
            let asks = owner.sleeps.is_some_and(Sleep::unloads);
            !owner.in_execution() || asks || owner.sees == s.generation
        });
    "INV-ILK-SHARES" "an owner has, or gets back after its wait, as many shares as its program has opened"
        |w, s| all(s).all(|o| {
            let owner = &s.owners[o];
            let given_up = owner.frames.last().filter(|_| owner.sleeps.is_some());
            given_up.map_or(owner.shares, |frame| frame.shares) == open(w, s, o).shares
        });
    "INV-ILK-LOCK-DEPTH" "exactly the owner that acquired the lock holds it, as often as it acquired it"
        |w, s| {
            (s.depth > 0) == s.holder.is_some()
                && all(s).all(|o| open(w, s, o).locks == if s.holds(o) { s.depth } else { 0 })
        };
    "INV-ILK-ENTRY" "an owner has an entry and frames exactly while it waits, resumes, or has a permit block open"
        |w, s| all(s).all(|o| {
            let owner = &s.owners[o];
            let frames = open(w, s, o).permits + u8::from(owner.sleeps.is_some());
            owner.frames.len() == usize::from(frames) && owner.entry.is_some() == (frames > 0)
        });
}

step_properties! {
    World:
    "PROP-ILK-USE-UNDER-SHARE" "an owner uses loaded code only with a share or the lock"
        |_, s, action, _| (action.step == Step::Next(Op::Use))
            .then(|| s.owners[action.owner].shares > 0 || s.holds(action.owner));
    "PROP-ILK-LOADS-FIRST" "no unload is granted while a load waits that gave up shares for it"
        |_, before, action, after| {
            let unloads = after.events.contains(&Event::Holds)
                && after.holder == Some((action.owner, Unload));
            unloads.then(|| before.others(action.owner).all(|(_, q)| {
                q.sleeps != Some(Sleep::For(Load))
                    || q.frames.iter().all(|f| f.shares == 0)
            }))
        };
    "PROP-ILK-NEWCOMERS-WAIT" "no newcomer enters while another owner holds, waits to load, drains or resumes; it passes a waiting unload only while a permit block is open"
        |w, before, action, after| {
            let o = action.owner;
            let enters = action.step == Step::Next(Op::Enter)
                && matches!(before.mode(o), Mode::Out | Mode::Yielded)
                && after.owners[o].shares > 0;
            let permits = || all(before).any(|q| open(w, before, q).permits > 0);
            enters.then(|| before.others(o).all(|(q, _)| match before.mode(q) {
                Mode::Waiting => before.owners[q].sleeps == Some(Sleep::For(Unload)) && permits(),
                Mode::Holding | Mode::Draining | Mode::Resuming => false,
                Mode::Out | Mode::Running | Mode::Yielded => true,
            }))
        };
    "PROP-ILK-NO-LOST-WAKE-UP" "a step that lets a sleeping owner go on wakes it"
        |w, before, action, after| {
            let may_go_on = |s: &Interlock, q| w.wait(s, q).is_none_or(|step| step.is_some());
            let freed = |q: OwnerId| !may_go_on(before, q) && may_go_on(after, q);
            before.others(action.owner).any(|(q, _)| freed(q))
                .then(|| after.events.contains(&Event::Woke))
        };
}

// Each is for each owner. It holds if each possible step is eventually taken, and each time limit eventually expires.
liveness! {
    World:
    "PROP-ILK-PROGRAMS-END" "every program that has an end comes to it, beside an endless stream of executions"
        assumes "programs without an end neither request the lock nor permit loads"
        promised true;
        applies |w| endless(w).all(|ops| !ops.iter().any(|op| matches!(op, Op::Acquire(_) | Op::Permit)));
        may 1; fair |_| true;
        subjects owners; not_yet |w, s, o| w.ends(o) && w.next(s, o).is_some();
    "PROP-ILK-REQUESTS-END" "an owner that waits to load gets the lock, or gives up"
        assumes ""
        promised true; applies |_| true; may 1; fair |_| true;
        subjects owners; not_yet |_, s, o| s.owners[o].sleeps == Some(Sleep::For(Load));
    "PROP-ILK-UNLOADS-END" "an owner that waits to unload gets the lock, or gives up"
        assumes "executions that permit loads do not overlap for ever, and no permit block waits for a newcomer that starves"
        promised true;
        applies |w| endless(w).filter(|ops| ops.contains(&Op::Permit)).count() <= 1
            && (!endless(w).any(locks) || !w.scripts.iter().any(|it| awaits_newcomer(&it.ops)));
        may 1; fair |_| true;
        subjects owners; not_yet |_, s, o| s.owners[o].sleeps == Some(Sleep::For(Unload));
    "PROP-ILK-RESUMES" "an owner that drains, ended its permit block or gave up a wait gets its shares back"
        assumes ""
        promised true; applies |_| true; may 1; fair |_| true;
        subjects owners; not_yet |_, s, o| matches!(s.mode(o), Mode::Draining | Mode::Resuming);
    "PROP-ILK-ENTERS" "an owner that wants to enter does"
        assumes ""
        promised false; applies |_| true; may 1; fair |_| true;
        subjects owners; not_yet |w, s, o| w.next(s, o) == Some(Op::Enter);
}

fn owners(w: &World) -> usize {
    w.scripts.len()
}

/// Returns the programs without an end.
fn endless(w: &World) -> impl Iterator<Item = &[Op]> {
    (0..w.scripts.len()).filter(|&o| !w.ends(o)).map(|o| &w.scripts[o].ops[..])
}

fn locks(ops: &[Op]) -> bool {
    ops.iter().any(|op| matches!(op, Op::Acquire(_)))
}
/// Returns whether a program begins or awaits an execution inside a permit block.
fn awaits_newcomer(ops: &[Op]) -> bool {
    let mut permits = 0;
    ops.iter().any(|op| {
        permits += i32::from(*op == Op::Permit) - i32::from(*op == Op::End);
        permits > 0 && matches!(op, Op::Enter | Op::Join(_))
    })
}

/// The blocks that a program has open at its current place.
#[derive(Default)]
struct Open {
    /// Permit blocks.
    permits: u8,
    /// Executions within the innermost permit block.
    shares: u8,
    /// How often the program has the lock.
    locks: u8,
}

fn open(w: &World, s: &Interlock, o: OwnerId) -> Open {
    let mut open = Open::default();
    let mut outside = vec![];
    // An owner that drains or resumes has passed its statement, although its program still waits there.
    let passed = matches!(s.owners[o].sleeps, Some(Sleep::Draining(_) | Sleep::Ending));
    for op in &w.scripts[o].ops[..s.owners[o].at + usize::from(passed)] {
        match op {
            Op::Enter => open.shares += 1,
            Op::Leave => open.shares -= 1,
            Op::Permit => {
                outside.push(std::mem::take(&mut open.shares));
                open.permits += 1;
            }
            Op::End => {
                open.shares = outside.pop().unwrap_or_default();
                open.permits -= 1;
            }
            Op::Acquire(_) => open.locks += 1,
            Op::Release | Op::Drop => open.locks -= 1,
            // Its guards are dropped.
            Op::Die => open = Open::default(),
            _ => {}
        }
        if *op == Op::Die {
            break;
        }
    }
    open
}

fn all(s: &Interlock) -> std::ops::Range<OwnerId> {
    0..s.owners.len()
}

/// Returns an action's kind and its fairness class. There is one kind. Each owner's program is a class, its time limit
/// another, and the share that comes back to it a third.
pub(crate) fn kind_and_class(action: &Action) -> (u8, u8) {
    let of_step = match action.step {
        Step::Next(_) | Step::Granted(_) => 0,
        Step::GiveUp => 1,
        Step::Resumed => 2,
    };
    (0, (of_step * SUBJECTS + action.owner) as u8)
}
