//! What holds: in every state, in every step, and in the end.
//!
//! Most of it compares the interlock with where its owners are in their programs. What a program has open
//! there (executions, permit blocks, the lock) is known without asking the interlock.

use crate::interlock::script::{Action, Op, Step, World};
use crate::interlock::state::{Event, Interlock, Mode, OwnerId, Purpose, Sleep};

/// Something that holds in every state.
pub struct Property {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    /// Whether it holds.
    pub holds: fn(&World, &Interlock) -> bool,
}

/// Something that every step keeps.
pub struct StepProperty {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    /// Whether a step from the first state to the second keeps it.
    pub holds: fn(&World, &Interlock, &Action, &Interlock) -> bool,
}

/// Something that comes about in the end, for each owner by itself.
pub struct Liveness {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    /// Whether it is promised; if not, it is known to fail, and where (`tests/interlock.rs`).
    pub promised: bool,
    /// Whether it has not come about yet.
    pub not_yet: fn(&World, &Interlock, OwnerId) -> bool,
}

/// In every state.
pub const PROPERTIES: &[Property] = &[
    Property {
        name: "INV-ILK-ONE-HOLDER",
        says: "at most one owner is where a program has the lock",
        holds: |w, s| living(s).filter(|&o| open(w, s, o).locks > 0).count() <= 1,
    },
    Property {
        name: "INV-ILK-ALONE",
        says: "while one holds the lock nobody else has shares, and every entry lets its purpose in",
        holds: |_, s| {
            s.holder.is_none_or(|(o, p)| {
                s.others(o).all(|(_, q)| {
                    q.shares == 0 && q.entry.is_none_or(|e| e.accepts.includes(p.into()))
                })
            })
        },
    },
    Property {
        name: "INV-ILK-NO-PERMIT-IN-UNLOAD",
        says: "while one unloads no permit block of another is open",
        holds: |w, s| {
            let unloads = |&o: &OwnerId| w.next(s, o) == Some(Op::Unload) && s.holds(o);
            living(s)
                .find(unloads)
                .is_none_or(|o| living(s).all(|q| q == o || open(w, s, q).permits == 0))
        },
    },
    Property {
        name: "INV-ILK-SEES-ONE-WORLD",
        says: "what an execution sees is not reloaded, unless it asks for that itself",
        holds: |_, s| {
            (0..s.owners.len()).all(|o| {
                let asks = s.owners[o].sleeps.is_some_and(|sleep| {
                    let (Sleep::For(p) | Sleep::Draining(p) | Sleep::GivenUp(p)) = sleep;
                    p == Purpose::Unload
                });
                !s.in_execution(o) || asks || s.owners[o].sees == s.generation
            })
        },
    },
    Property {
        name: "INV-ILK-SHARES",
        says: "an owner that does not sleep has as many shares as its program has opened",
        holds: |w, s| awake(s).all(|o| s.owners[o].shares == open(w, s, o).shares),
    },
    Property {
        name: "INV-ILK-LOCK-DEPTH",
        says: "the lock is held exactly by who has acquired it, as often as it has",
        holds: |w, s| {
            (s.depth > 0) == s.holder.is_some()
                && awake(s).all(|o| open(w, s, o).locks == if s.holds(o) { s.depth } else { 0 })
        },
    },
    Property {
        name: "INV-ILK-ENTRY",
        says: "an owner has an entry and frames exactly while it waits, drains, or has a permit block open",
        holds: |w, s| {
            living(s).all(|o| {
                let owner = &s.owners[o];
                let frames = open(w, s, o).permits + u8::from(owner.sleeps.is_some());
                owner.frames.len() == frames.into() && owner.entry.is_some() == (frames > 0)
            })
        },
    },
];

/// In every step.
pub const STEP_PROPERTIES: &[StepProperty] = &[
    StepProperty {
        name: "PROP-ILK-USE-UNDER-SHARE",
        says: "what is loaded is used by nobody without a share or the lock",
        holds: |_, s, action, _| {
            let uses = action.step == Step::Next(Op::Use);
            !uses || s.owners[action.owner].shares > 0 || s.holds(action.owner)
        },
    },
    StepProperty {
        name: "PROP-ILK-LOADS-FIRST",
        says: "no unload is granted while a load waits that gave up shares for it",
        holds: |_, before, action, after| {
            let unloads = after.told.contains(&Event::Holds)
                && after.holder == Some((action.owner, Purpose::Unload));
            !unloads
                || before.others(action.owner).all(|(_, q)| {
                    q.sleeps != Some(Sleep::For(Purpose::Load))
                        || q.frames.iter().all(|f| f.shares == 0)
                })
        },
    },
    StepProperty {
        name: "PROP-ILK-NEWCOMERS-WAIT",
        says: "no newcomer enters while somebody waits for the lock, or holds it",
        holds: |_, before, action, after| {
            let o = action.owner;
            let newcomer = before.mode(o) == Mode::Out && !before.has_live_ancestor(o);
            let enters =
                newcomer && action.step == Step::Next(Op::Enter) && after.owners[o].shares > 0;
            let waits = |q: OwnerId| matches!(before.mode(q), Mode::Waiting | Mode::Holding);
            !enters || before.others(o).all(|(q, _)| !waits(q))
        },
    },
    StepProperty {
        name: "PROP-ILK-RELOAD-ONCE",
        says: "nobody unloads what somebody else has reloaded since it asked",
        holds: |_, before, action, after| {
            !after.told.contains(&Event::Reloaded)
                || before.owners[action.owner].asked == before.generation
        },
    },
    StepProperty {
        name: "PROP-ILK-NO-LOST-WAKE-UP",
        says: "whatever lets somebody go on who sleeps wakes it",
        holds: |w, before, action, after| {
            let freed = |q: OwnerId| !w.may_go_on(before, q) && w.may_go_on(after, q);
            after.told.contains(&Event::Woke)
                || before
                    .others(action.owner)
                    .all(|(q, _)| !w.is_in_interlock(before, q) || !freed(q))
        },
    },
];

/// In the end, if whoever can do something some day does, and a time limit some day is up.
pub const LIVENESS: &[Liveness] = &[
    Liveness {
        name: "PROP-ILK-PROGRAMS-END",
        says: "every program comes to its end, if every program has one",
        promised: true,
        not_yet: |w, s, o| (0..s.owners.len()).all(|o| w.ends(o)) && !w.is_over(s, o),
    },
    Liveness {
        name: "PROP-ILK-REQUESTS-END",
        says: "whoever waits for the lock gets it, or is told why not",
        promised: true,
        not_yet: |_, s, o| matches!(s.owners[o].sleeps, Some(Sleep::For(_))),
    },
    Liveness {
        name: "PROP-ILK-RESUMES",
        says: "whoever let others go first, or gave up, goes on",
        promised: true,
        not_yet: |_, s, o| matches!(s.mode(o), Mode::Draining | Mode::Resuming),
    },
    Liveness {
        name: "PROP-ILK-ENTERS",
        says: "whoever wants to enter does",
        promised: false,
        not_yet: |w, s, o| w.next(s, o) == Some(Op::Enter),
    },
    Liveness {
        name: "PROP-ILK-PERMIT-ENDS",
        says: "whoever wants to end its permit block does",
        promised: false,
        not_yet: |w, s, o| w.next(s, o) == Some(Op::End),
    },
];

/// What a program has open where it is.
#[derive(Default)]
struct Open {
    /// Permit blocks.
    permits: u8,
    /// Executions within the innermost of these.
    shares: u8,
    /// How often it has the lock.
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
    // Who drains, or has given that up, has released the lock, though its program waits for the release
    // to end.
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
    /// Whether an owner is in the interlock, and may sleep there.
    fn is_in_interlock(&self, s: &Interlock, o: OwnerId) -> bool {
        let sleeps = s.owners[o].sleeps.is_some();
        sleeps
            || s.owners[o].waits_on.is_empty()
                && matches!(self.next(s, o), Some(Op::Enter | Op::End))
    }
    /// Whether its guard is true.
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

/// Everything that is promised: its name, and what it says.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let states = PROPERTIES.iter().map(|p| (p.name, p.says));
    let steps = STEP_PROPERTIES.iter().map(|p| (p.name, p.says));
    let in_the_end = LIVENESS.iter().filter(|p| p.promised).map(|p| (p.name, p.says));
    states.chain(steps).chain(in_the_end)
}

/// What a property of this name says.
pub fn says(name: &str) -> Option<&'static str> {
    let not_promised = LIVENESS.iter().filter(|p| !p.promised).map(|p| (p.name, p.says));
    all().chain(not_promised).find(|(other, _)| *other == name).map(|(_, says)| says)
}

/// How many bits each liveness property's marks take.
pub(crate) const SUBJECTS: usize = 8;

/// For each liveness property and each owner: whether it has not come about yet.
pub(crate) fn marks(w: &World, s: &Interlock) -> u64 {
    let mut bits = 0;
    for (at, property) in LIVENESS.iter().enumerate() {
        for o in 0..s.owners.len() {
            bits |= u64::from((property.not_yet)(w, s, o)) << (at * SUBJECTS + o);
        }
    }
    bits
}

/// An action's kind, of which there is one, and its fairness class: each owner is one, and its time limit
/// is another.
pub(crate) fn kind_and_class(_: &Interlock, action: &Action) -> (u8, u8) {
    let limit = matches!(action.step, Step::GiveUp(_));
    (0, action.owner as u8 + if limit { SUBJECTS as u8 } else { 0 })
}
