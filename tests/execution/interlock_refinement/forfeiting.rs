//! Players that are forfeited, whatever they do just then.
//!
//! What they have is gone, and their waits are over: a request's is refused, any other ends as if what it waits
//! for had come. A task finds that out when it is polled. One that was granted what it asked for, and has
//! not seen it, is inside when it is polled; but then holds nothing any more.
//!
//! From then on nothing that they do is a step of the machine's.

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
    /// One that was forfeited begins something: why it is refused.
    pub(crate) fn finds_out(&self, o: OwnerId, open: Open) -> Option<Why> {
        let is_child = self.machine.program.state.has_live_ancestor(o);
        match (open.block, open.purpose()) {
            // For these it needs nothing that it has lost.
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
            // Nobody knows whether it has unloaded: so it has.
            (pending.begins, pending.skipped) = (false, true);
        }
    }
}
