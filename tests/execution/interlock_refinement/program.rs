//! The specification's machine, with programs that are written while they run.
//!
//! The machine's owners run fixed programs. Here each owner's program always ends with the statements that close
//! its open blocks. An idle statement stands at its current place, and the next statement is inserted before it. So
//! the machine never knows more than the code does.

use cabrank_spec::checker::Machine as _;
use cabrank_spec::interlock::properties::{INVARIANTS, STEP_PROPERTIES};
use cabrank_spec::interlock::rules::{Planted, Rules};
use cabrank_spec::interlock::script::{Action, Op, Script, Step, World};
use cabrank_spec::interlock::state::{Event, Interlock, Owner, OwnerId, Refusal, Sleep};

/// The statement of an idle owner.
const IDLE: Op = Op::Use;

pub(crate) struct Program {
    pub(crate) world: World,
    pub(crate) state: Interlock,
}

impl Program {
    pub(crate) fn new() -> Program {
        let rules = Rules::AS_MENDED;
        let world = World { scripts: vec![], rules };
        let state = world.initial();
        Program { world, state }
    }

    /// Adds an idle owner.
    pub(crate) fn owner(&mut self, parent: Option<OwnerId>) -> OwnerId {
        self.world.scripts.push(Script { name: "owner", parent, ops: vec![IDLE] });
        let sees = self.state.generation;
        self.state.owners.push(Owner { parent, started: true, sees, ..Owner::default() });
        self.state.owners.len() - 1
    }
    /// Ends its program.
    pub(crate) fn over(&mut self, o: OwnerId) {
        let at = self.state.owners[o].at;
        self.world.scripts[o].ops.truncate(at);
    }

    /// Returns whether it can get a statement.
    pub(crate) fn is_idle(&self, o: OwnerId) -> bool {
        let owner = &self.state.owners[o];
        owner.sleeps.is_none()
            && owner.waits_on.is_empty()
            && self.world.next(&self.state, o) == Some(IDLE)
    }
    /// Returns its current statement, unless it is idle.
    pub(crate) fn is_at(&self, o: OwnerId, op: Op) -> bool {
        self.world.next(&self.state, o) == Some(op)
    }
    pub(crate) fn can(&self, o: OwnerId, step: Step) -> bool {
        self.world.actions(&self.state).contains(&Action { owner: o, step })
    }

    /// Inserts a block as its next statement.
    pub(crate) fn write_block(&mut self, o: OwnerId, begin: Op, end: Op) {
        self.write(o, &[begin, IDLE, end]);
    }
    /// Inserts one statement as its next.
    pub(crate) fn write(&mut self, o: OwnerId, ops: &[Op]) {
        let at = self.state.owners[o].at;
        self.world.scripts[o].ops.splice(at..at, ops.iter().copied());
    }
    /// Removes the next statement again.
    pub(crate) fn unwrite_block(&mut self, o: OwnerId) {
        let at = self.state.owners[o].at;
        self.world.scripts[o].ops.drain(at..at + 3);
    }
    /// Makes this statement the end of its innermost block, and its next.
    pub(crate) fn write_end(&mut self, o: OwnerId, end: Op) {
        let at = self.state.owners[o].at;
        let ops = &mut self.world.scripts[o].ops;
        assert_eq!(ops[at], IDLE, "owner {o} is idle");
        ops.remove(at);
        ops[at] = end;
    }

    /// Returns its current statement.
    pub(crate) fn next(&mut self, o: OwnerId) -> Result<Vec<Event>, String> {
        let op = self.world.next(&self.state, o).expect("it is not over");
        self.step(o, Step::Next(op))
    }
    /// Takes a step, if the machine allows it and every property holds.
    pub(crate) fn step(&mut self, o: OwnerId, step: Step) -> Result<Vec<Event>, String> {
        let action = Action { owner: o, step };
        if !self.can(o, step) {
            return Err(format!("the machine does not allow {step:?} to owner {o}"));
        }
        let after = self.world.step(&self.state, &action);
        let before = std::mem::replace(&mut self.state, after);
        let (world, after) = (&self.world, &self.state);
        let mut states = INVARIANTS.iter();
        let mut steps = STEP_PROPERTIES.iter();
        if let Some(broken) = states.find(|p| !(p.holds)(world, after)) {
            return Err(format!("{} does not hold after {step:?} of {o}", broken.name));
        }
        if let Some(broken) =
            steps.find(|p| (p.judge)(world, &before, &action, after) == Some(false))
        {
            return Err(format!("{} does not hold in {step:?} of {o}", broken.name));
        }
        Ok(self.state.events.clone())
    }

    /// Lets it die, wherever it is. In the machine's own programs a sleeping owner does not die, but giving back is
    /// the same.
    pub(crate) fn dies(&mut self, o: OwnerId) {
        self.state.owners[o].dead = true;
    }

    /// Returns the state after a step that is refused with a deadlock, as if it had waited.
    pub(crate) fn if_untold(&self, o: OwnerId) -> (World, Interlock) {
        let rules = Rules::AS_MENDED.with(Planted::DeadlockUnreported);
        let untold = World { rules, ..self.world.clone() };
        let state = Interlock { rules, ..self.state.clone() };
        let op = untold.next(&state, o).expect("it is not over");
        let after = untold.step(&state, &Action { owner: o, step: Step::Next(op) });
        (untold, after)
    }
    pub(crate) fn refused(told: &[Event]) -> Option<Refusal> {
        told.iter().find_map(|event| match event {
            Event::Refused(refusal) => Some(*refusal),
            _ => None,
        })
    }
    pub(crate) fn sleeps(&self, o: OwnerId) -> Option<Sleep> {
        self.state.owners[o].sleeps
    }
}
