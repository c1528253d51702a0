//! The owners' small programs. Programs and interlock together are a machine that can be explored.

use crate::checking::machine::Machine;
use crate::interlock::rules::Planted::LimitIgnoresHolder;
use crate::interlock::rules::Rules;
use crate::interlock::state::{Event, Interlock, Owner, OwnerId, Purpose, Refusal, Sleep};
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
    /// Unloads and loads again.
    Unload,
    /// Releases the lock; other requests of the kind go first.
    Release,
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
    /// Waits until another's program has ended. The interlock does not know of this wait.
    Join(OwnerId),
    /// Waits until another owner has requested the lock and sleeps.
    Request(OwnerId),
    /// Panics out of the whole program.
    Die,
    /// Restarts the program.
    Again,
}

/// An owner's program.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its name in stories.
    pub name: &'static str,
    /// Whether each of its waits has a time limit, or may be dropped.
    pub limited: bool,
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
    /// Draining, C, and not E; or Resuming, and C: the owner has its shares again.
    Resumed,
    /// The time limit of its wait expires, or the wait is dropped.
    GiveUp,
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
        self.scripts[o].ops.get(owner.at).copied().filter(|_| owner.started)
    }
    /// Returns whether an owner's program has ended.
    pub fn has_ended(&self, s: &Interlock, o: OwnerId) -> bool {
        s.owners[o].started && self.next(s, o).is_none()
    }
    /// Returns whether an owner's program has an end.
    pub fn ends(&self, o: OwnerId) -> bool {
        !self.scripts[o].ops.contains(&Op::Again)
    }

    /// Returns whether an owner waits in the interlock, and its way on from there, if its guard is true.
    pub fn wait(&self, s: &Interlock, o: OwnerId) -> Option<Option<Step>> {
        let op = self.next(s, o)?;
        let (step, can) = match s.owners[o].sleeps {
            Some(Sleep::For(p)) => (Step::Granted(p), s.x(o, p)),
            Some(Sleep::Draining(p)) => (Step::Resumed, s.c(o) && !s.e(p.lets_go_first())),
            Some(Sleep::Ending) => (Step::Resumed, s.c(o)),
            Some(Sleep::GivenUp { .. }) => (Step::Resumed, s.c(o) || s.planted(LimitIgnoresHolder)),
            None if op == Op::Enter => (Step::Next(op), s.may_enter(o)),
            None => return None,
        };
        Some(can.then_some(step))
    }

    /// Returns the possible steps of an owner.
    fn steps(&self, s: &Interlock, o: OwnerId) -> Vec<Step> {
        let Some(op) = self.next(s, o) else { return vec![] };
        let wait = self.wait(s, o);
        let mut steps = Vec::from_iter(wait.flatten());
        let sleeps = s.owners[o].sleeps;
        let has_given_up = matches!(sleeps, Some(Sleep::GivenUp { .. }));
        let needs_share =
            matches!(op, Op::Enter | Op::Acquire(_) | Op::Permit | Op::End | Op::Use | Op::Drop);
        let goes_on = if has_given_up { !needs_share } else { wait.is_none() };
        let can = match op {
            Op::Join(other) => self.has_ended(s, other),
            Op::Request(other) => s.owners[other].sleeps.is_some(),
            _ => true,
        };
        if goes_on && can {
            steps.push(Step::Next(op));
        }
        // A limit may expire just as the guard becomes true, but not before the wait has begun.
        if self.scripts[o].limited && !goes_on && (sleeps.is_some() || steps.is_empty()) {
            steps.push(Step::GiveUp);
        }
        steps
    }

    /// Returns the index after the block that begins at `from`, or after the statement there.
    fn after_block(&self, o: OwnerId, from: usize) -> usize {
        let ops = &self.scripts[o].ops;
        let mut open = 0;
        for (at, op) in ops.iter().enumerate().skip(from) {
            match op {
                Op::Enter | Op::Permit | Op::Acquire(_) => open += 1,
                Op::Leave | Op::End | Op::Release | Op::Drop => open -= 1,
                _ => {}
            }
            if open <= 0 {
                return at + 1;
            }
        }
        ops.len()
    }

    fn apply(&self, s: &mut Interlock, Action { owner: o, step }: Action) {
        let had_given_up = matches!(s.owners[o].sleeps, Some(Sleep::GivenUp { .. }));
        let mut outcome = Ok(());
        match step {
            Step::Next(op) => outcome = self.statement(s, o, op),
            Step::Granted(p) => s.granted(o, p),
            Step::Resumed => s.resumed(o),
            Step::GiveUp => {
                s.give_up(o);
                outcome = Err(Refusal::TimedOut);
            }
        }
        let owner = &mut s.owners[o];
        let sleeps = !matches!(owner.sleeps, None | Some(Sleep::GivenUp { .. }));
        match outcome {
            // The program stays at its statement while it waits there, and has passed the wait that it gave up.
            Ok(()) if sleeps || step == Step::Resumed && had_given_up => {}
            Ok(()) => owner.at += 1,
            Err(why) => {
                owner.refused = Some(why);
                owner.at = self.after_block(o, owner.at);
                s.events.push(Event::Refused(why));
            }
        }
        if self.next(s, o) == Some(Op::Again) {
            s.owners[o].at = 0;
        }
    }

    /// Carries a statement out.
    ///
    /// # Errors
    /// Returns the reason if the statement is refused.
    fn statement(&self, s: &mut Interlock, o: OwnerId, op: Op) -> Result<(), Refusal> {
        match op {
            Op::Enter => s.enter(o),
            Op::Leave => s.leave(o),
            Op::Acquire(p) => s.acquire(o, p)?,
            Op::Unload => s.unload(o),
            Op::Release | Op::Drop => s.release(o, op == Op::Release),
            Op::Permit => s.permit(o)?,
            Op::End => s.end(o),
            Op::Spawn(child) => s.owners[child].started = true,
            Op::Die => {
                s.unwind(o);
                s.owners[o].at = self.scripts[o].ops.len() - 1;
            }
            Op::Use | Op::Join(_) | Op::Request(_) | Op::Again => {}
        }
        Ok(())
    }
}

impl Machine for World {
    type State = Interlock;
    type Action = Action;

    fn initial(&self) -> Interlock {
        let spawned = |o: OwnerId| self.scripts.iter().any(|s| s.ops.contains(&Op::Spawn(o)));
        let owner = |o: OwnerId| Owner { started: !spawned(o), ..Owner::default() };
        Interlock {
            rules: self.rules,
            holder: None,
            depth: 0,
            generation: 0,
            owners: (0..self.scripts.len()).map(owner).collect(),
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
        self.apply(&mut next, *action);
        next
    }

    /// Clears the events and renumbers the generations that an owner still needs: only their order matters.
    fn normal(&self, s: &mut Interlock) {
        s.events.clear();
        let present = s.generation;
        for owner in s.owners.iter_mut().filter(|owner| !owner.in_execution()) {
            owner.sees = present;
        }
        let needed: BTreeSet<u8> =
            s.owners.iter().map(|owner| owner.sees).chain([present]).collect();
        let number = |generation: u8| needed.range(..generation).count() as u8;
        s.generation = number(present);
        s.owners.iter_mut().for_each(|owner| owner.sees = number(owner.sees));
    }

    /// Returns whether no owner can move, although a program has not ended.
    fn stuck(&self, s: &Interlock, actions: &[Action]) -> bool {
        actions.is_empty() && (0..s.owners.len()).any(|o| self.next(s, o).is_some())
    }
}
