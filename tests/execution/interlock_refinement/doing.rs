//! The steps of the machine for each operation.

use crate::interlock_refinement::history::{Block, How};
use crate::interlock_refinement::machine::InLine;
use crate::interlock_refinement::people::{Expected, Open, Pending, Untold, Why};
use crate::interlock_refinement::program::Program;
use crate::interlock_refinement::side_by_side::SideBySide;
use cabrank_spec::interlock::script::{Op, Step};
use cabrank_spec::interlock::state::{Mode, OwnerId, Purpose, Refusal};
use std::time::Duration;

impl SideBySide {
    pub(crate) fn begin(
        &mut self,
        i: usize,
        open: Open,
        deadline: Option<Duration>,
    ) -> Result<(), String> {
        let outside = self.people[i].owner.is_none();
        let o = match self.people[i].owner {
            Some(o) => o,
            None => self.machine.program.owner(None),
        };
        self.people[i].owner = Some(o);
        if outside {
            match open.purpose() {
                Some(p) => self.machine.stands_in_line(o, InLine::Request(p)),
                None => self.enter(o)?,
            }
            self.waits(i, true, open, deadline);
            return Ok(());
        }
        let refused = match open.block {
            _ if self.machine.lost.contains(&o) => self.finds_out(o, open),
            Block::Run => {
                self.enter(o)?;
                None
            }
            Block::Load | Block::Unload | Block::UnloadOnce => self.ask(o, open)?,
            Block::Permit if !self.is_alone(o) => Some(Why::Nested),
            Block::Permit => {
                self.machine.program.write_block(o, Op::Permit, Op::End);
                self.machine.program.next(o)?;
                None
            }
            Block::Wait => self.wait(o)?,
            Block::PermitWait if !self.is_alone(o) => Some(Why::Nested),
            Block::PermitWait => {
                self.machine.program.write_block(o, Op::Permit, Op::End);
                self.machine.program.next(o)?;
                let refused = self.wait(o)?;
                if refused.is_some() {
                    self.machine.program.write_end(o, Op::End);
                    self.machine.program.next(o)?;
                }
                refused
            }
        };
        match refused {
            Some(why) => self.people[i].expected = Some(Expected::Refused(why)),
            None => self.waits(i, true, open, deadline),
        }
        Ok(())
    }
    /// Requests a share.
    pub(crate) fn enter(&mut self, o: OwnerId) -> Result<(), String> {
        self.machine.program.write_block(o, Op::Enter, Op::Leave);
        let s = &self.machine.program.state;
        match s.mode(o) {
            Mode::Running | Mode::Holding => {
                self.machine.program.next(o)?;
            }
            Mode::Out if !s.has_live_ancestor(o) => {
                self.machine.stands_in_line(o, InLine::Newcomer);
            }
            _ => self.machine.comes(o),
        }
        Ok(())
    }
    /// Returns whether the player has exactly one share at its place and may give it up.
    fn is_alone(&self, o: OwnerId) -> bool {
        let s = &self.machine.program.state;
        s.mode(o) == Mode::Running && s.owners[o].shares == 1
    }
    /// Requests the lock. The code refuses two requests that the machine grants: giving up a share beside another
    /// one in the same frame, and an unload in a permit block.
    fn ask(&mut self, o: OwnerId, open: Open) -> Result<Option<Why>, String> {
        let purpose = open.purpose().expect("it is a request");
        let s = &self.machine.program.state;
        let unloads = purpose == Purpose::Unload;
        if unloads && s.has_live_ancestor(o) {
            return Ok(Some(Why::Child));
        }
        let person = self.people.iter().find(|p| p.owner == Some(o)).expect("another player's");
        let shares = person.blocks.iter().rev().take_while(|open| open.block == Block::Run);
        let permits = s.mode(o) == Mode::Running && !s.owners[o].frames.is_empty();
        if shares.count() > 1 || unloads && permits {
            return Ok(Some(Why::Nested));
        }
        let op = match open.how {
            How::Try => Op::Try(purpose),
            How::Forever => Op::Acquire(purpose),
            How::For | How::Task => Op::AcquireFor(purpose),
        };
        self.machine.program.write_block(o, op, Op::Release);
        let refused = self.carry_out(o)?;
        if self.machine.program.sleeps(o).is_some() {
            self.machine.asks(o);
        }
        Ok(refused)
    }
    fn wait(&mut self, o: OwnerId) -> Result<Option<Why>, String> {
        self.machine.program.write(o, &[Op::WaitForAll]);
        let refused = self.carry_out(o)?;
        if refused.is_none() && self.machine.program.state.mode(o) == Mode::Running {
            self.machine.declared.insert(o);
        }
        Ok(refused)
    }
    /// Carries out a statement that may be refused.
    fn carry_out(&mut self, o: OwnerId) -> Result<Option<Why>, String> {
        let untold = self.machine.program.if_untold(o);
        let told = self.machine.program.next(o)?;
        Ok(Program::refused(&told).map(|refusal| match refusal {
            Refusal::WouldBlock => Why::WouldBlock,
            Refusal::Deadlock => Why::Deadlock(o, Box::new(Untold(untold.0, untold.1))),
            Refusal::Child => Why::Child,
            Refusal::Holding | Refusal::InsideLoad => Why::Nested,
            Refusal::TimedOut => Why::TimedOut,
        }))
    }

    /// Carries out the order when no owner is in its way.
    pub(crate) fn waits(&mut self, i: usize, begins: bool, open: Open, deadline: Option<Duration>) {
        self.people[i].pending = Some(Pending {
            begins,
            open,
            deadline,
            timed_out: false,
            skipped: false,
            forfeited: false,
        });
    }

    pub(crate) fn end_block(&mut self, i: usize, open: Open, dropped: bool) -> Result<(), String> {
        let o = self.people[i].owner.expect("it is in an execution");
        if self.machine.lost.contains(&o) {
            // Its shares are already given back.
            self.waits(i, false, open, None);
            return Ok(());
        }
        let program = &mut self.machine.program;
        match open.block {
            Block::Run => {
                program.write_end(o, Op::Leave);
                program.next(o)?;
            }
            Block::Permit => {
                program.write_end(o, Op::End);
                self.machine.comes(o);
            }
            Block::Wait => self.wait_ends(o)?,
            Block::PermitWait => {
                self.wait_ends(o)?;
                self.machine.program.write_end(o, Op::End);
                self.machine.comes(o);
            }
            Block::Load | Block::Unload | Block::UnloadOnce => {
                self.unload(o)?;
                let op = match (self.people[i].blocks.is_empty() || dropped, open.how) {
                    (true, _) => Op::Drop,
                    (false, How::Task) => Op::ReleaseFor,
                    (false, _) => Op::Release,
                };
                self.machine.program.write_end(o, op);
                self.machine.program.next(o)?;
            }
        }
        self.waits(i, false, open, None);
        if self.people[i].blocks.is_empty() {
            self.machine.program.over(o);
        }
        Ok(())
    }
    fn wait_ends(&mut self, o: OwnerId) -> Result<(), String> {
        self.machine.declared.remove(&o);
        if !self.machine.program.state.owners[o].waits_on.is_empty() {
            self.machine.program.step(o, Step::Joined)?;
        }
        Ok(())
    }
    /// Ends an unload. It happens regardless of other unloads since the request.
    fn unload(&mut self, o: OwnerId) -> Result<(), String> {
        let s = &mut self.machine.program.state;
        if s.holder == Some((o, Purpose::Unload)) && s.depth == 1 {
            s.owners[o].asked = s.generation;
            self.machine.program.write(o, &[Op::Unload]);
            self.machine.program.next(o)?;
        }
        Ok(())
    }

    /// Drops a task's future.
    pub(crate) fn cancel(&mut self, i: usize) -> Result<(), String> {
        let is_done = self.is_done(i);
        let o = self.people[i].owner.expect("it is in an execution, or wants to be");
        let pending = self.people[i].pending.take().expect("it is a task that waits");
        self.people[i].expected = Some(Expected::GaveUp);
        let program = &mut self.machine.program;
        match (pending.begins, pending.open.purpose(), is_done) {
            // Its grant is already given back.
            _ if self.machine.lost.contains(&o) => {}
            (true, None, false) => self.machine.leaves_line(o),
            (true, None, true) => {
                program.write_end(o, Op::Leave);
                program.next(o)?;
            }
            // The grant was never seen, so its block does not run.
            (true, Some(_), true) => {
                program.write_end(o, Op::Drop);
                program.next(o)?;
            }
            (_, Some(p), false) => self.machine.gives_up(o, p)?,
            // The end of a permit block is not really given up: it keeps its place.
            (false, ..) => {}
        }
        if self.people[i].blocks.is_empty() {
            self.machine.over(o);
            self.people[i].owner = None;
        }
        Ok(())
    }
    pub(crate) fn times_out(&mut self, i: usize) -> Result<(), String> {
        let o = self.people[i].owner.expect("it is in an execution, or wants to be");
        let Some(pending) = &mut self.people[i].pending else { return Ok(()) };
        pending.timed_out = true;
        match pending.open.purpose() {
            Some(p) if self.machine.in_line(o).is_none() => self.machine.gives_up(o, p)?,
            _ => self.machine.leaves_line(o),
        }
        Ok(())
    }
}
