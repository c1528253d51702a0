//! The owners' small programs. Programs and interlock together are a machine that can be explored.

use crate::check::{Invariant, Liveness, Promises, StepProperty};
use crate::checker::{Counterexample, Machine};
use crate::interlock::guards::after;
use crate::interlock::rules::Defect::LeakedShare;
use crate::interlock::rules::Planted::GivesUpAtOnce;
use crate::interlock::rules::Rules;
use crate::interlock::state::{Event, Interlock, Mode, Owner, OwnerId, Purpose, Refusal, Sleep};
use crate::interlock::{properties, story};
use std::collections::BTreeSet;

/// One statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Begins an execution.
    Enter,
    /// Ends an execution.
    Leave,
    /// Requests the lock and waits for it.
    Acquire(Purpose),
    /// Requests the lock without waiting.
    Try(Purpose),
    /// Requests the lock and waits for it until a time limit.
    AcquireFor(Purpose),
    /// Unloads and loads again.
    Unload,
    /// Releases the lock; other requests of the kind go first.
    Release,
    /// Releases the lock; other requests of the kind go first, until a time limit.
    ReleaseFor,
    /// Releases the lock without draining: its holder was dropped, or had no share before.
    Drop,
    /// Begins a block in which others may load.
    Permit,
    /// Ends that block.
    End,
    /// Uses loaded code.
    Use,
    /// Starts the program of another owner.
    Spawn(OwnerId),
    /// Waits until another's program has ended, without declaring the wait.
    Join(OwnerId),
    /// Declares a wait and waits until another's program has ended.
    Wait(OwnerId),
    /// Declares a wait for all children that have started by now, and waits until their programs have ended.
    WaitForAll,
    /// Waits until each owner that has this barrier has reached it.
    Barrier(u8),
    /// Waits until another owner has requested the lock and sleeps.
    Request(OwnerId),
    /// Dies, with its shares and the lock.
    Die,
    /// Restarts the program.
    Again,
}

/// An owner's program and its parent.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its name in stories.
    pub name: &'static str,
    /// Its parent, if declared.
    pub parent: Option<OwnerId>,
    /// Its statements.
    pub ops: Vec<Op>,
}

/// The machine that is explored: owners, their programs, and the rules.
#[derive(Clone, Debug)]
pub struct World {
    /// The owners.
    pub scripts: Vec<Script>,
    /// The rules.
    pub rules: Rules,
}

/// One owner's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The next statement of its program.
    Next(Op),
    /// Waiting p, and X: the owner takes the lock.
    Granted(Purpose),
    /// Draining, C, and not E: the owner goes on.
    Drained(Purpose),
    /// Waiting or draining: the time limit expires, or the wait is cancelled.
    GiveUp(Purpose),
    /// Given up, and C: the owner has its shares again.
    Resumed(Purpose),
    /// The programs for which it waits have ended.
    Joined,
    /// The shares and the lock of a dead owner are given back.
    Forfeit,
}

/// A step of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    /// The owner.
    pub owner: OwnerId,
    /// The step.
    pub step: Step,
}

impl World {
    /// Returns the statement at which an owner is.
    pub fn next(&self, s: &Interlock, o: OwnerId) -> Option<Op> {
        let owner = &s.owners[o];
        let exists = owner.started && !owner.dead;
        self.scripts[o].ops.get(owner.at).copied().filter(|_| exists)
    }
    /// Returns whether an owner's program has ended, or the owner died.
    pub fn is_over(&self, s: &Interlock, o: OwnerId) -> bool {
        s.owners[o].dead || s.owners[o].started && self.next(s, o).is_none()
    }
    /// Returns whether an owner's program has an end.
    pub fn ends(&self, o: OwnerId) -> bool {
        !self.scripts[o].ops.contains(&Op::Again)
    }

    /// Returns the children of an owner that have started and not ended.
    fn children(&self, s: &Interlock, o: OwnerId) -> Vec<OwnerId> {
        let lives = |&c: &OwnerId| s.owners[c].started && !self.is_over(s, c);
        let its_own = |&c: &OwnerId| self.scripts[c].parent == Some(o);
        (0..self.scripts.len()).filter(its_own).filter(lives).collect()
    }

    /// Returns the possible steps of an owner: at most one, and giving up.
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

    /// Returns whether each owner that has this barrier has reached it.
    fn all_are_at(&self, s: &Interlock, barrier: Op) -> bool {
        self.scripts.iter().zip(&s.owners).all(|(script, owner)| {
            let at = script.ops.iter().position(|op| *op == barrier);
            at.is_none_or(|at| owner.at >= at)
        })
    }

    /// Returns the index after the end of the block that begins at `from`.
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
                s.emit(Event::Refused(why));
            }
        }
        if self.next(s, o) == Some(Op::Again) {
            s.owners[o].at = 0;
        }
    }

    /// Carries a statement out. Returns whether the program goes on.
    ///
    /// # Errors
    /// Returns the reason if the statement is refused.
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
        Interlock {
            rules: self.rules,
            holder: None,
            depth: 0,
            generation: 0,
            owners,
            events: vec![],
        }
    }

    fn actions(&self, s: &Interlock) -> Vec<Action> {
        let of = |o| self.steps(s, o).into_iter().map(move |step| Action { owner: o, step });
        (0..s.owners.len()).flat_map(of).collect()
    }

    fn step(&self, s: &Interlock, action: &Action) -> Interlock {
        let mut next = s.clone();
        next.events.clear();
        self.apply(&mut next, action);
        next
    }

    /// Clears the events and renumbers the generations that an owner still needs: only their order matters.
    fn normal(&self, s: &mut Interlock) {
        s.events.clear();
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

    /// Returns whether no owner can move, although a program has not ended.
    fn stuck(&self, s: &Interlock, actions: &[Action]) -> bool {
        actions.is_empty() && (0..s.owners.len()).any(|o| !self.is_over(s, o))
    }
}

impl Promises for World {
    const INVARIANTS: &'static [Invariant<World>] = properties::INVARIANTS;
    const STEP_PROPERTIES: &'static [StepProperty<World>] = properties::STEP_PROPERTIES;
    const LIVENESS: &'static [Liveness<World>] = properties::LIVENESS;

    fn kind_and_class(s: &Interlock, action: &Action) -> (u8, u8) {
        properties::kind_and_class(s, action)
    }
    fn tell(&self, counterexample: &Counterexample<Action>) -> String {
        story::tell(self, counterexample)
    }
    /// Returns the refusals, once every program has ended.
    fn ending(&self, s: &Interlock) -> Option<String> {
        if !self.actions(s).is_empty() {
            return None;
        }
        let refused = |(script, owner): (&Script, &Owner)| {
            let died = owner.dead.then(|| format!("{} died", script.name));
            owner.refused.map(|why| format!("{}: {why:?}", script.name)).or(died)
        };
        let refused: Vec<_> = self.scripts.iter().zip(&s.owners).filter_map(refused).collect();
        Some(if refused.is_empty() { "all are served".into() } else { refused.join(", ") })
    }
}
