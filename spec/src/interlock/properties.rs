//! The properties of every state, of every step, and of the end.
//!
//! Most of them compare the interlock with the owners' places in their programs. The executions, permit blocks and
//! locks that a program has open follow from its place, without asking the interlock.

use crate::check::{Liveness, SUBJECTS, invariants, step_properties};
use crate::interlock::script::{Action, Op, Step, World};
use crate::interlock::state::{Event, Interlock, Mode, OwnerId, Purpose, Sleep};

invariants! {
    World:
    "INV-ILK-ONE-HOLDER" "at most one owner is at a place where its program has the lock"
        |w, s| living(s).filter(|&o| open(w, s, o).locks > 0).count() <= 1;
    "INV-ILK-ALONE" "while an owner holds the lock, it alone has shares, and every entry accepts its purpose"
        |_, s| s.holder.is_none_or(|(o, p)| {
            s.others(o).all(|(_, q)| {
                q.shares == 0 && q.entry.is_none_or(|e| e.accepts.includes(p.into()))
            })
        });
    "INV-ILK-NO-PERMIT-IN-UNLOAD" "while an owner unloads, no other owner has a permit block open"
        |w, s| {
            let unloads = |&o: &OwnerId| w.next(s, o) == Some(Op::Unload) && s.holds(o);
            living(s)
                .find(unloads)
                .is_none_or(|o| living(s).all(|q| q == o || open(w, s, q).permits == 0))
        };
    "INV-ILK-SEES-ONE-WORLD" "the code that an execution sees is not reloaded, unless the execution requests it"
        |_, s| (0..s.owners.len()).all(|o| {
            let asks = s.owners[o].sleeps.is_some_and(|sleep| {
                let (Sleep::For(p) | Sleep::Draining(p) | Sleep::GivenUp(p)) = sleep;
                p == Purpose::Unload
            });
            !s.in_execution(o) || asks || s.owners[o].sees == s.generation
        });
    "INV-ILK-SHARES" "an owner that does not sleep has as many shares as its program has opened"
        |w, s| awake(s).all(|o| s.owners[o].shares == open(w, s, o).shares);
    "INV-ILK-LOCK-DEPTH" "exactly the owner that acquired the lock holds it, as often as it acquired it"
        |w, s| {
            (s.depth > 0) == s.holder.is_some()
                && awake(s).all(|o| open(w, s, o).locks == if s.holds(o) { s.depth } else { 0 })
        };
    "INV-ILK-ENTRY" "an owner has an entry and frames exactly while it waits, drains, or has a permit block open"
        |w, s| living(s).all(|o| {
            let owner = &s.owners[o];
            let frames = open(w, s, o).permits + u8::from(owner.sleeps.is_some());
            owner.frames.len() == frames.into() && owner.entry.is_some() == (frames > 0)
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
                && after.holder == Some((action.owner, Purpose::Unload));
            unloads.then(|| before.others(action.owner).all(|(_, q)| {
                q.sleeps != Some(Sleep::For(Purpose::Load))
                    || q.frames.iter().all(|f| f.shares == 0)
            }))
        };
    "PROP-ILK-NEWCOMERS-WAIT" "no newcomer enters while an owner waits for the lock or holds it"
        |_, before, action, after| {
            let o = action.owner;
            let newcomer = before.mode(o) == Mode::Out && !before.has_live_ancestor(o);
            let enters =
                newcomer && action.step == Step::Next(Op::Enter) && after.owners[o].shares > 0;
            let waits = |q: OwnerId| matches!(before.mode(q), Mode::Waiting | Mode::Holding);
            enters.then(|| before.others(o).all(|(q, _)| !waits(q)))
        };
    "PROP-ILK-RELOAD-ONCE" "an owner does not unload if another has reloaded since its request"
        |_, before, action, after| after.events.contains(&Event::Reloaded)
            .then(|| before.owners[action.owner].asked == before.generation);
    "PROP-ILK-NO-LOST-WAKE-UP" "a step that lets a sleeping owner go on wakes it"
        |w, before, action, after| {
            let freed = |q: OwnerId| !w.may_go_on(before, q) && w.may_go_on(after, q);
            let mut others = before.others(action.owner);
            others.any(|(q, _)| w.is_in_interlock(before, q) && freed(q))
                .then(|| after.events.contains(&Event::Woke))
        };
}

/// A property of the end. It holds if each possible step is eventually taken, and each time limit eventually expires.
const fn in_the_end(
    name: &'static str,
    says: &'static str,
    promised: bool,
    not_yet: fn(&World, &Interlock, OwnerId) -> bool,
) -> Liveness<World> {
    let subjects: fn(&World) -> usize = |w| w.scripts.len();
    Liveness { name, says, assumes: "", may: 1, promised, applies: |_| true, subjects, not_yet }
}

/// The properties of the end, for each owner.
pub const LIVENESS: &[Liveness<World>] = &[
    in_the_end(
        "PROP-ILK-PROGRAMS-END",
        "every program comes to its end, if every program has one",
        true,
        |w, s, o| (0..s.owners.len()).all(|o| w.ends(o)) && !w.is_over(s, o),
    ),
    in_the_end(
        "PROP-ILK-REQUESTS-END",
        "an owner that waits for the lock gets it or a refusal",
        true,
        |_, s, o| matches!(s.owners[o].sleeps, Some(Sleep::For(_))),
    ),
    in_the_end("PROP-ILK-RESUMES", "an owner that drains or gave up goes on", true, |_, s, o| {
        matches!(s.mode(o), Mode::Draining | Mode::Resuming)
    }),
    in_the_end("PROP-ILK-ENTERS", "an owner that wants to enter does", false, |w, s, o| {
        w.next(s, o) == Some(Op::Enter)
    }),
    in_the_end(
        "PROP-ILK-PERMIT-ENDS",
        "an owner that wants to end its permit block does",
        false,
        |w, s, o| w.next(s, o) == Some(Op::End),
    ),
];

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
    for op in &w.scripts[o].ops[..s.owners[o].at] {
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
            Op::Acquire(_) | Op::Try(_) | Op::AcquireFor(_) => open.locks += 1,
            Op::Release | Op::ReleaseFor | Op::Drop => open.locks -= 1,
            _ => {}
        }
    }
    // An owner that drains, or has given that up, has released the lock, although its program still waits for the
    // release to end.
    let releases = matches!(w.next(s, o), Some(Op::Release | Op::ReleaseFor));
    open.locks -= u8::from(releases && s.owners[o].sleeps.is_some());
    open
}

fn living(s: &Interlock) -> impl Iterator<Item = OwnerId> {
    (0..s.owners.len()).filter(|&o| !s.owners[o].dead)
}
fn awake(s: &Interlock) -> impl Iterator<Item = OwnerId> {
    living(s).filter(|&o| s.owners[o].sleeps.is_none())
}

impl World {
    /// Returns whether an owner is in the interlock, and may sleep there.
    fn is_in_interlock(&self, s: &Interlock, o: OwnerId) -> bool {
        let sleeps = s.owners[o].sleeps.is_some();
        sleeps
            || s.owners[o].waits_on.is_empty()
                && matches!(self.next(s, o), Some(Op::Enter | Op::End))
    }
    /// Returns whether its guard is true.
    fn may_go_on(&self, s: &Interlock, o: OwnerId) -> bool {
        use crate::interlock::guards::after;
        match s.owners[o].sleeps {
            Some(Sleep::For(p)) => s.x(o, p),
            Some(Sleep::Draining(p)) => s.c(o) && !s.e(after(p)),
            Some(Sleep::GivenUp(_)) => s.c(o),
            None if self.next(s, o) == Some(Op::Enter) => s.may_enter(o),
            None => s.c(o),
        }
    }
}

/// Returns an action's kind and its fairness class. There is one kind. Each owner is a class, and its time limit is
/// another.
pub(crate) fn kind_and_class(_: &Interlock, action: &Action) -> (u8, u8) {
    let limit = matches!(action.step, Step::GiveUp(_));
    (0, action.owner as u8 + if limit { SUBJECTS as u8 } else { 0 })
}
