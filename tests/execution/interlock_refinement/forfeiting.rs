//! Players that are forfeited at any moment.
//!
//! A forfeited player loses its shares, and its waits end: a request is refused, and any other wait ends as if it
//! had succeeded. A task finds out at its next poll. One that was granted its request without having seen it is
//! inside at its next poll, without the lock.
//!
//! From then on its actions are no steps of the machine.

use crate::interlock_refinement::history::Block;
use crate::interlock_refinement::people::{Open, Why};
use crate::interlock_refinement::side_by_side::SideBySide;
use cabrank_spec::interlock::state::{OwnerId, Purpose, Sleep};

impl SideBySide {
    pub(crate) fn forfeit(&mut self, i: usize) -> Result<(), String> {
        let o = self.people[i].owner.expect("it is in an execution, or wants to be");
        let name = self.names.iter().find(|(_, named)| **named == o);
        let id = *name.expect("it was seen").0;
        let has_something = self.machine.has_something(o);
        if self.interlock.forfeit(id) != has_something {
            return Err(format!("{id} is forfeited: {}, expected {has_something}", !has_something));
        }
        if has_something {
            self.ends_its_wait(i, o);
            self.machine.forfeits(o)?;
        }
        Ok(())
    }
    /// Returns the refusal when a forfeited player begins an operation.
    pub(crate) fn finds_out(&self, o: OwnerId, open: Open) -> Option<Why> {
        let is_child = self.machine.program.state.has_live_ancestor(o);
        match (open.block, open.purpose()) {
            // These need no share.
            (Block::Run | Block::Wait, _) => None,
            (_, Some(Purpose::Unload)) if is_child => Some(Why::Child),
            _ => Some(Why::Forfeited),
        }
    }
    fn ends_its_wait(&mut self, i: usize, o: OwnerId) {
        let s = &self.machine.program.state;
        let (asks, unloads) = (
            matches!(s.owners[o].sleeps, Some(Sleep::For(_))),
            s.holder == Some((o, Purpose::Unload)),
        );
        let Some(pending) = &mut self.people[i].pending else { return };
        pending.forfeited = asks;
        if unloads && pending.begins && pending.open.block == Block::UnloadOnce {
            // Its unload may or may not have happened. The test assumes that it has.
            (pending.begins, pending.skipped) = (false, true);
        }
    }
}
