//! What owners do: each runs a small program. With the interlock it makes a machine that can be explored.

use crate::checker::Machine;
use crate::interlock::guards::after;
use crate::interlock::rules::Defect::LeakedShare;
use crate::interlock::rules::Planted::GivesUpAtOnce;
use crate::interlock::rules::Rules;
use crate::interlock::state::{Event, Interlock, Mode, Owner, OwnerId, Purpose, Refusal, Sleep};
use std::collections::BTreeSet;

/// One statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// An execution begins.
    Enter,
    /// And ends.
    Leave,
    /// Asks for the lock, and waits for it.
    Acquire(Purpose),
    /// The same, without wanting to wait.
    Try(Purpose),
    /// The same, and waits only for a while.
    AcquireFor(Purpose),
    /// Unloads, and loads again.
    Unload,
    /// The lock is released, and others of the kind go first.
    Release,
    /// The same, and others go first only for a while.
    ReleaseFor,
    /// The lock is released, and nobody goes first: its holder was dropped, or had no share before.
    Drop,
    /// A block begins in which others may load.
    Permit,
    /// And ends.
    End,
    /// Uses what is loaded.
    Use,
    /// Another owner begins its program.
    Spawn(OwnerId),
    /// Waits until another's program is over; the interlock is not told.
    Join(OwnerId),
    /// The same, and the interlock is told.
    Wait(OwnerId),
    /// The same, until all children's programs are over that have begun by now.
    WaitForAll,
    /// Waits until everybody who has this one is at it, or past it.
    Barrier(u8),
    /// Waits until another has asked for the lock, and sleeps.
    Request(OwnerId),
    /// Dies, with all it has.
    Die,
    /// The program begins again.
    Again,
}

/// An owner's program, and whose child it is.
#[derive(Clone, Debug)]
pub struct Script {
    /// What stories call it.
    pub name: &'static str,
    /// Whose child it is, if the interlock is told.
    pub parent: Option<OwnerId>,
    /// What it does.
    pub ops: Vec<Op>,
}

/// Owners, their programs and the rules: what is explored.
#[derive(Clone, Debug)]
pub struct World {
    /// The owners.
    pub scripts: Vec<Script>,
    /// The rules.
    pub rules: Rules,
}

/// What an owner does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The next statement of its program.
    Next(Op),
    /// Waiting p, and X: it holds the lock.
    Granted(Purpose),
    /// Draining, nobody holds, and not E.
    Drained(Purpose),
    /// Waiting, and its time is up, or it is cancelled.
    GiveUp(Purpose),
    /// Given up, and C.
    Resumed(Purpose),
    /// Who it waits for is over.
    Joined,
    /// Dead: what it had is given back.
    Forfeit,
}

/// A step of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    /// Whose.
    pub owner: OwnerId,
    /// Which.
    pub step: Step,
}

impl World {
    /// The statement that an owner is at.
    pub fn next(&self, s: &Interlock, o: OwnerId) -> Option<Op> {
        let owner = &s.owners[o];
        let exists = owner.started && !owner.dead;
        self.scripts[o].ops.get(owner.at).copied().filter(|_| exists)
    }
    /// Whether an owner's program is over, or it died.
    pub fn is_over(&self, s: &Interlock, o: OwnerId) -> bool {
        s.owners[o].dead || s.owners[o].started && self.next(s, o).is_none()
    }
    /// Whether an owner's program has an end.
    pub fn ends(&self, o: OwnerId) -> bool {
        !self.scripts[o].ops.contains(&Op::Again)
    }

    /// The children of an owner that have begun and are not over.
    fn children(&self, s: &Interlock, o: OwnerId) -> Vec<OwnerId> {
        let lives = |&c: &OwnerId| s.owners[c].started && !self.is_over(s, c);
        let its_own = |&c: &OwnerId| self.scripts[c].parent == Some(o);
        (0..self.scripts.len()).filter(its_own).filter(lives).collect()
    }

    /// What an owner can do next. At most one thing, and that it gives up.
    fn steps(&self, s: &Interlock, o: OwnerId) -> Vec<Step> {
        let owner = &s.owners[o];
        if owner.dead {
            let has = s.mode(o) != Mode::Out;
            return if has && !s.original(LeakedShare) { vec![Step::Forfeit] } else { vec![] };
        }
        let Some(op) = self.next(s, o) else { return vec![] };
        let (can, step) = match owner.sleeps {
            Some(Sleep::For(p)) => {
                let mut steps = vec![];
                if s.x(o, p) {
                    steps.push(Step::Granted(p));
                }
                if matches!(op, Op::AcquireFor(_)) {
                    steps.push(Step::GiveUp(p));
                }
                return steps;
            }
            Some(Sleep::Draining(p)) => {
                let drained = s.c(o) && !s.e(after(p));
                let mut steps = if drained { vec![Step::Drained(p)] } else { vec![] };
                if op == Op::ReleaseFor {
                    steps.push(Step::GiveUp(p));
                }
                return steps;
            }
            Some(Sleep::GivenUp(p)) => (s.c(o) || s.planted(GivesUpAtOnce), Step::Resumed(p)),
            None => match (&owner.waits_on[..], op) {
                (children @ [_, ..], _) => {
                    (children.iter().all(|&child| self.is_over(s, child)), Step::Joined)
                }
                (_, Op::Enter) => (s.may_enter(o) || s.is_deadlock(self, o, true), Step::Next(op)),
                (_, Op::End) => (s.c(o), Step::Next(op)),
                (_, Op::Join(other)) => (self.is_over(s, other), Step::Next(op)),
                (_, Op::Barrier(_)) => (self.all_are_at(s, op), Step::Next(op)),
                (_, Op::Request(other)) => (s.owners[other].sleeps.is_some(), Step::Next(op)),
                _ => (true, Step::Next(op)),
            },
        };
        if can { vec![step] } else { vec![] }
    }

    /// Whether everybody who has this barrier has come to it.
    fn all_are_at(&self, s: &Interlock, barrier: Op) -> bool {
        self.scripts.iter().zip(&s.owners).all(|(script, owner)| {
            let at = script.ops.iter().position(|op| *op == barrier);
            at.is_none_or(|at| owner.at >= at)
        })
    }

    /// The statement after the one that ends what begins here.
    fn after_block(&self, o: OwnerId, from: usize) -> usize {
        let ops = &self.scripts[o].ops;
        let mut open = 0;
        for (at, op) in ops.iter().enumerate().skip(from) {
            match op {
                Op::Enter | Op::Permit | Op::Acquire(_) | Op::Try(_) | Op::AcquireFor(_) => {
                    open += 1;
                }
                Op::Leave | Op::End | Op::Release | Op::ReleaseFor | Op::Drop => open -= 1,
                _ => {}
            }
            if open == 0 {
                return at + 1;
            }
        }
        ops.len()
    }

    fn apply(&self, s: &mut Interlock, action: &Action) {
        let o = action.owner;
        let here = s.owners[o].at;
        let outcome = match action.step {
            Step::Next(op) => self.statement(s, o, op),
            Step::Granted(p) => {
                s.granted(o, p);
                Ok(true)
            }
            Step::Drained(p) => {
                s.drained(o, p);
                Ok(true)
            }
            Step::GiveUp(p) => {
                s.give_up(o, p);
                Ok(false)
            }
            Step::Resumed(p) => {
                let has_drained = self.next(s, o) == Some(Op::ReleaseFor);
                s.resumed(o, p);
                if has_drained { Ok(true) } else { Err(Refusal::TimedOut) }
            }
            Step::Joined => {
                s.owners[o].waits_on.clear();
                Ok(true)
            }
            Step::Forfeit => {
                s.forfeit(o);
                Ok(false)
            }
        };
        let owner = &mut s.owners[o];
        match outcome {
            Ok(goes_on) => owner.at += usize::from(goes_on),
            Err(why) => {
                owner.refused = Some(why);
                owner.at = self.after_block(o, here);
                s.tell(Event::Refused(why));
            }
        }
        if self.next(s, o) == Some(Op::Again) {
            s.owners[o].at = 0;
        }
    }

    /// Carries a statement out. Whether the program goes on, or why the statement is refused.
    fn statement(&self, s: &mut Interlock, o: OwnerId, op: Op) -> Result<bool, Refusal> {
        match op {
            Op::Enter => s.enter(o)?,
            Op::Leave => s.leave(o),
            Op::Acquire(p) | Op::AcquireFor(p) => {
                s.acquire(self, o, p, false)?;
                return Ok(s.holds(o));
            }
            Op::Try(p) => s.acquire(self, o, p, true)?,
            Op::Unload => s.unload(o),
            Op::Release | Op::ReleaseFor => {
                s.release(o);
                return Ok(s.owners[o].sleeps.is_none());
            }
            Op::Drop => s.drop_lock(o),
            Op::Permit => s.permit(o),
            Op::End => s.end(o),
            Op::Spawn(child) => s.owners[child].started = true,
            Op::Wait(child) => {
                s.wait_on(self, o, vec![child])?;
                return Ok(false);
            }
            Op::WaitForAll => {
                let children = self.children(s, o);
                let waits = !children.is_empty();
                s.wait_on(self, o, children)?;
                return Ok(!waits);
            }
            Op::Die => {
                s.owners[o].dead = true;
                return Ok(false);
            }
            Op::Use | Op::Join(_) | Op::Barrier(_) | Op::Request(_) | Op::Again => {}
        }
        Ok(true)
    }
}

impl Machine for World {
    type State = Interlock;
    type Action = Action;

    fn initial(&self) -> Interlock {
        let spawned = |o: OwnerId| self.scripts.iter().any(|s| s.ops.contains(&Op::Spawn(o)));
        let owner = |(o, script): (OwnerId, &Script)| Owner {
            parent: script.parent,
            started: !spawned(o),
            ..Owner::default()
        };
        let owners = self.scripts.iter().enumerate().map(owner).collect();
        Interlock { rules: self.rules, holder: None, depth: 0, generation: 0, owners, told: vec![] }
    }

    fn actions(&self, s: &Interlock) -> Vec<Action> {
        let of = |o| self.steps(s, o).into_iter().map(move |step| Action { owner: o, step });
        (0..s.owners.len()).flat_map(of).collect()
    }

    fn step(&self, s: &Interlock, action: &Action) -> Interlock {
        let mut next = s.clone();
        next.told.clear();
        self.apply(&mut next, action);
        next
    }

    /// What was told is forgotten. Generations are compared and not counted: those that somebody still
    /// remembers and needs are numbered anew.
    fn normal(&self, s: &mut Interlock) {
        s.told.clear();
        for o in 0..s.owners.len() {
            if !s.in_execution(o) {
                s.owners[o].sees = s.generation;
            }
            if !matches!(s.owners[o].sleeps, Some(Sleep::For(_))) && !s.holds(o) {
                s.owners[o].asked = s.generation;
            }
        }
        let remembered = s.owners.iter().flat_map(|owner| [owner.sees, owner.asked]);
        let needed: BTreeSet<u8> = remembered.chain([s.generation]).collect();
        let number = |generation: u8| needed.range(..generation).count() as u8;
        s.generation = number(s.generation);
        for owner in &mut s.owners {
            (owner.sees, owner.asked) = (number(owner.sees), number(owner.asked));
        }
    }

    /// Nobody can do anything, and somebody is not through.
    fn stuck(&self, s: &Interlock, actions: &[Action]) -> bool {
        actions.is_empty() && (0..s.owners.len()).any(|o| !self.is_over(s, o))
    }
}
