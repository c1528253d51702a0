//! The specification's machine, with programs that are written while they run, and with the library's order of
//! service. The machine itself only says which owners may go on.
//!
//! Each owner's program always ends with the statements that close its open blocks. An idle statement stands at its
//! current place, and the next statement is inserted before it. So the machine never knows more than the code does.

use cabrank_spec::checking::machine::Machine as _;
use cabrank_spec::interlock::properties::{INVARIANTS, STEP_PROPERTIES};
use cabrank_spec::interlock::rules::Rules;
use cabrank_spec::interlock::script::{Action, Op, Script, Step, World};
use cabrank_spec::interlock::state::Purpose::{self, Load, Unload};
use cabrank_spec::interlock::state::{Event, Interlock, OwnerId, Refusal, Sleep};
use std::mem::replace;

/// The statement of an idle owner.
const IDLE: Op = Op::Use;

/// The outcome of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Waits,
    Deadlock,
}

pub(crate) struct Machine {
    world: World,
    pub(crate) state: Interlock,
    /// The owners that wait to hold, in the order of their requests.
    asked: Vec<OwnerId>,
    entering: Vec<OwnerId>,
}

impl Machine {
    pub(crate) fn new(owners: usize) -> Machine {
        let script = Script { name: "player", limited: true, ops: vec![IDLE] };
        let world = World { scripts: vec![script; owners], rules: Rules::AS_MENDED };
        let state = world.initial();
        Machine { world, state, asked: vec![], entering: vec![] }
    }

    /// Returns whether an owner waits, in the interlock or without a caller.
    pub(crate) fn waits(&self, o: OwnerId) -> bool {
        self.state.owners[o].sleeps.is_some() || self.is_entering(o)
    }
    pub(crate) fn is_entering(&self, o: OwnerId) -> bool {
        self.entering.contains(&o)
    }

    /// Begins a block, or waits to.
    pub(crate) fn begin(&mut self, o: OwnerId, op: Op) -> Result<Outcome, String> {
        let end = match op {
            Op::Enter => Op::Leave,
            Op::Permit => Op::End,
            _ => Op::Release,
        };
        let at = self.state.owners[o].at;
        self.world.scripts[o].ops.splice(at..at, [op, IDLE, end]);
        if op == Op::Enter && !self.state.may_enter(o) {
            self.entering.push(o);
            return Ok(Outcome::Waits);
        }
        let outcome = self.next(o)?;
        if matches!(self.state.owners[o].sleeps, Some(Sleep::For(_))) {
            self.asked.push(o);
        }
        Ok(outcome)
    }
    /// Ends the innermost block by this statement.
    pub(crate) fn end(&mut self, o: OwnerId, op: Op) -> Result<Outcome, String> {
        let at = self.state.owners[o].at;
        let ops = &mut self.world.scripts[o].ops;
        assert_eq!(ops[at], IDLE, "owner {o} is idle");
        ops.remove(at);
        ops[at] = op;
        self.next(o)
    }
    /// Unloads, as the holder.
    pub(crate) fn unload(&mut self, o: OwnerId) -> Result<Outcome, String> {
        let at = self.state.owners[o].at;
        self.world.scripts[o].ops.insert(at, Op::Unload);
        self.next(o)
    }
    pub(crate) fn gives_up(&mut self, o: OwnerId) -> Result<(), String> {
        self.step(o, Step::GiveUp)?;
        self.asked.retain(|owner| *owner != o);
        self.entering.retain(|owner| *owner != o);
        Ok(())
    }

    /// Lets every owner go on that can, in the library's order.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        if self.state.holder.is_some() || self.grant_first(Load)? {
            return Ok(());
        }
        let resumes = |sleep: Sleep| matches!(sleep, Sleep::Ending | Sleep::GivenUp { .. });
        self.resume(resumes)?;
        for p in [Load, Unload] {
            if !self.state.e(p.lets_go_first()) {
                self.resume(|sleep| sleep == Sleep::Draining(p))?;
            }
        }
        if self.grant_first(Unload)? {
            return Ok(());
        }
        for o in std::mem::take(&mut self.entering) {
            if self.state.may_enter(o) {
                self.next(o)?;
            } else {
                self.entering.push(o);
            }
        }
        Ok(())
    }
    fn resume(&mut self, which: impl Fn(Sleep) -> bool) -> Result<(), String> {
        for o in 0..self.state.owners.len() {
            if self.state.owners[o].sleeps.is_some_and(&which) {
                self.step(o, Step::Resumed)?;
            }
        }
        Ok(())
    }
    fn grant_first(&mut self, p: Purpose) -> Result<bool, String> {
        let waits = |o: &&OwnerId| self.state.owners[**o].sleeps == Some(Sleep::For(p));
        let Some(&o) = self.asked.iter().find(waits) else { return Ok(false) };
        if !self.state.x(o, p) {
            return Ok(false);
        }
        self.step(o, Step::Granted(p))?;
        self.asked.retain(|owner| *owner != o);
        Ok(true)
    }

    /// Takes the step of the owner's current statement.
    fn next(&mut self, o: OwnerId) -> Result<Outcome, String> {
        let op = self.world.next(&self.state, o).expect("the program goes on");
        self.step(o, Step::Next(op))?;
        let has = |event| self.state.events.contains(&event);
        Ok(if has(Event::Refused(Refusal::Deadlock)) {
            Outcome::Deadlock
        } else if has(Event::Waits) || has(Event::Drains) {
            Outcome::Waits
        } else {
            Outcome::Done
        })
    }
    /// Takes a step, if the machine allows it and every property holds.
    fn step(&mut self, o: OwnerId, step: Step) -> Result<(), String> {
        let action = Action { owner: o, step };
        if !self.world.actions(&self.state).contains(&action) {
            return Err(format!("the machine does not allow {step:?} to player {o}"));
        }
        let after = self.world.step(&self.state, &action);
        let before = replace(&mut self.state, after);
        let (world, after) = (&self.world, &self.state);
        if let Some(broken) = INVARIANTS.iter().find(|p| !(p.holds)(world, after)) {
            return Err(format!("{} does not hold after {step:?} of {o}", broken.name));
        }
        let mut steps = STEP_PROPERTIES.iter();
        let is_broken = |p: &Option<bool>| *p == Some(false);
        match steps.find(|p| is_broken(&(p.judge)(world, &before, &action, after))) {
            Some(broken) => Err(format!("{} does not hold in {step:?} of {o}", broken.name)),
            None => Ok(()),
        }
    }
}
