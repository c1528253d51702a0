//! The library's order of service; the machine only says which owners may go on.
//!
//! 1. Owners that gave up their share to load, in order.
//! 2. Owners that wait for the holder only: children, ends of permit blocks, shares that come back.
//! 3. Draining owners, once none of the requests that they let go first waits.
//! 4. Owners that gave up their share to unload, in order.
//! 5. The line of newcomers and of requests without a share. Newcomers enter up to the first request; then the
//!    first request that can go on does.
//!
//! In the machine's terms, a request in the line is made when it is granted. Until then it blocks only newcomers
//! behind it, and no owner drains for it. An owner that is granted the lock out of the line ends with `Drop`.

use crate::interlock_refinement::program::Program;
use cabrank_spec::interlock::guards::after;
use cabrank_spec::interlock::script::{Op, Step};
use cabrank_spec::interlock::state::{Mode, OwnerId, Purpose, Sleep};
use std::collections::BTreeSet;
use std::mem::take;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InLine {
    Newcomer,
    Request(Purpose),
}

pub(crate) struct Machine {
    pub(crate) program: Program,
    /// The owners that gave up a share to hold, in the order of their requests.
    asked: Vec<OwnerId>,
    /// The owners that wait for the holder only.
    coming: Vec<OwnerId>,
    pub(crate) line: Vec<(OwnerId, InLine)>,
    /// The owners that declared a wait for their children, even for none.
    pub(crate) declared: BTreeSet<OwnerId>,
    /// The owners that were forfeited and have not left.
    pub(crate) lost: BTreeSet<OwnerId>,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        Machine {
            program: Program::new(),
            asked: vec![],
            coming: vec![],
            line: vec![],
            declared: BTreeSet::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Returns whether it does not wait.
    pub(crate) fn is_free(&self, o: OwnerId) -> bool {
        self.program.is_idle(o) && self.in_line(o).is_none()
    }
    pub(crate) fn in_line(&self, o: OwnerId) -> Option<InLine> {
        self.line.iter().find(|(owner, _)| *owner == o).map(|(_, what)| *what)
    }
    /// Returns whether it waits for the end of a permit block, or for its share.
    pub(crate) fn is_coming(&self, o: OwnerId) -> bool {
        self.coming.contains(&o)
    }

    /// Returns whether a descendant of this owner waits to enter.
    pub(crate) fn lets_in(&self, o: OwnerId) -> bool {
        let parent = |o: &OwnerId| self.program.world.scripts[*o].parent;
        let descends = |q: &OwnerId| std::iter::successors(parent(q), parent).any(|a| a == o);
        self.coming.iter().any(descends)
    }

    /// Returns its queue.
    pub(crate) fn waits_as(&self, o: OwnerId) -> Option<&'static str> {
        match self.program.sleeps(o) {
            Some(Sleep::For(_)) => Some("a request"),
            Some(Sleep::Draining(_)) => Some("draining"),
            Some(Sleep::GivenUp(_)) => Some("given up"),
            None if self.is_coming(o) => Some("coming"),
            None => self.in_line(o).map(|_| "in the line"),
        }
    }

    /// Queues a request to hold.
    pub(crate) fn asks(&mut self, o: OwnerId) {
        self.asked.push(o);
    }
    /// Lets it go on when no owner holds.
    pub(crate) fn comes(&mut self, o: OwnerId) {
        self.coming.push(o);
    }
    pub(crate) fn stands_in_line(&mut self, o: OwnerId, what: InLine) {
        self.line.push((o, what));
    }
    /// Removes it from the line and from the newcomers.
    pub(crate) fn leaves_line(&mut self, o: OwnerId) {
        let in_line = self.in_line(o);
        self.line.retain(|(owner, _)| *owner != o);
        self.coming.retain(|owner| *owner != o);
        if in_line != Some(InLine::Request(Purpose::Load))
            && in_line != Some(InLine::Request(Purpose::Unload))
        {
            self.program.unwrite_block(o);
        }
    }
    /// Gives up: its share comes back when no owner holds.
    pub(crate) fn gives_up(&mut self, o: OwnerId, p: Purpose) -> Result<(), String> {
        self.program.step(o, Step::GiveUp(p))?;
        self.asked.retain(|owner| *owner != o);
        self.comes(o);
        Ok(())
    }

    /// Returns whether it can be forfeited: it is in an execution or holds, and was not forfeited.
    pub(crate) fn has_something(&self, o: OwnerId) -> bool {
        self.program.state.mode(o) != Mode::Out && !self.lost.contains(&o)
    }
    /// Gives back its shares and the lock, as if it had died, and ends its wait. Its unload may or may not have
    /// happened.
    pub(crate) fn forfeits(&mut self, o: OwnerId) -> Result<(), String> {
        let s = &mut self.program.state;
        if s.holder == Some((o, Purpose::Unload)) {
            s.owners[o].asked = s.generation;
            self.program.write(o, &[Op::Unload]);
            self.program.next(o)?;
        }
        self.declared.remove(&o);
        self.asked.retain(|owner| *owner != o);
        self.coming.retain(|owner| *owner != o);
        self.program.dies(o);
        self.program.step(o, Step::Forfeit)?;
        self.lost.insert(o);
        Ok(())
    }
    /// Removes an owner that has left.
    pub(crate) fn over(&mut self, o: OwnerId) {
        self.lost.remove(&o);
        self.program.over(o);
    }

    /// Lets every owner go on that can, in the library's order.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        use Purpose::{Load, Unload};
        if self.program.state.holder.is_some() || self.grant_first(Load)? {
            return Ok(());
        }
        for o in take(&mut self.coming) {
            match self.program.sleeps(o) {
                Some(Sleep::GivenUp(p)) => self.program.step(o, Step::Resumed(p))?,
                _ => self.program.next(o)?,
            };
        }
        for p in [Load, Unload] {
            let drains = Some(Sleep::Draining(p));
            if !self.program.state.e(after(p)) {
                for o in 0..self.program.state.owners.len() {
                    if self.program.sleeps(o) == drains {
                        self.program.step(o, Step::Drained(p))?;
                    }
                }
            }
        }
        if !self.grant_first(Unload)? {
            self.settle_line()?;
        }
        Ok(())
    }
    fn grant_first(&mut self, p: Purpose) -> Result<bool, String> {
        let waits = |o: &&OwnerId| self.program.sleeps(**o) == Some(Sleep::For(p));
        let Some(&o) = self.asked.iter().find(waits) else { return Ok(false) };
        if !self.program.state.x(o, p) {
            return Ok(false);
        }
        self.program.step(o, Step::Granted(p))?;
        self.asked.retain(|owner| *owner != o);
        Ok(true)
    }
    fn settle_line(&mut self) -> Result<(), String> {
        while let Some(&(o, InLine::Newcomer)) = self.line.first() {
            if !self.program.state.n(o) {
                break;
            }
            self.program.next(o)?;
            self.line.remove(0);
        }
        let can = |&(o, what): &(OwnerId, InLine)| match what {
            InLine::Newcomer => false,
            InLine::Request(p) => self.program.state.x(o, p),
        };
        let Some(at) = self.line.iter().position(can) else { return Ok(()) };
        let (o, what) = self.line.remove(at);
        if let InLine::Request(p) = what {
            self.program.write_block(o, Op::Acquire(p), Op::Drop);
            self.program.next(o)?;
        }
        Ok(())
    }
}
