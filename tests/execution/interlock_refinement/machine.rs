//! Who goes on first, as the library rules it: the machine says only who may.
//!
//! 1. Owners that gave up their share to load, the first first.
//! 2. All who wait for the holder alone: children, ends of permit blocks, shares that come back.
//! 3. All who let others go first, once none of those waits.
//! 4. Owners that gave up their share to unload, the first first.
//! 5. The line of newcomers and of requests of owners without a share. Newcomers enter up to the first
//!    request; then the first request goes on that can.
//!
//! A request that stands in the line is made, in the machine's terms, when it is granted: until then it
//! stands in nobody's way but that of newcomers behind it, and nobody lets it go first. Whoever is granted
//! the lock out of the line ends with it (`Drop`).

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
    /// Those that gave up their share to hold, in the order in which they asked.
    asked: Vec<OwnerId>,
    /// Those that wait for the holder alone.
    coming: Vec<OwnerId>,
    pub(crate) line: Vec<(OwnerId, InLine)>,
    /// Those that have said that they wait for their children, be it for none.
    pub(crate) declared: BTreeSet<OwnerId>,
    /// Those that were forfeited, and have not left.
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

    /// Whether it waits for nothing.
    pub(crate) fn is_free(&self, o: OwnerId) -> bool {
        self.program.is_idle(o) && self.in_line(o).is_none()
    }
    pub(crate) fn in_line(&self, o: OwnerId) -> Option<InLine> {
        self.line.iter().find(|(owner, _)| *owner == o).map(|(_, what)| *what)
    }
    /// Whether it waits for its end of a permit block, or its share.
    pub(crate) fn is_coming(&self, o: OwnerId) -> bool {
        self.coming.contains(&o)
    }

    /// Whether a descendant of this one waits to enter.
    pub(crate) fn lets_in(&self, o: OwnerId) -> bool {
        let parent = |o: &OwnerId| self.program.world.scripts[*o].parent;
        let descends = |q: &OwnerId| std::iter::successors(parent(q), parent).any(|a| a == o);
        self.coming.iter().any(descends)
    }

    /// The queue that it is in.
    pub(crate) fn waits_as(&self, o: OwnerId) -> Option<&'static str> {
        match self.program.sleeps(o) {
            Some(Sleep::For(_)) => Some("a request"),
            Some(Sleep::Draining(_)) => Some("draining"),
            Some(Sleep::GivenUp(_)) => Some("given up"),
            None if self.is_coming(o) => Some("coming"),
            None => self.in_line(o).map(|_| "in the line"),
        }
    }

    /// It has asked to hold, and waits.
    pub(crate) fn asks(&mut self, o: OwnerId) {
        self.asked.push(o);
    }
    /// It goes on when nobody holds.
    pub(crate) fn comes(&mut self, o: OwnerId) {
        self.coming.push(o);
    }
    pub(crate) fn stands_in_line(&mut self, o: OwnerId, what: InLine) {
        self.line.push((o, what));
    }
    /// Waits for nothing that it waited for in the line, or to enter.
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
    /// Gives up: its share comes back when nobody holds.
    pub(crate) fn gives_up(&mut self, o: OwnerId, p: Purpose) -> Result<(), String> {
        self.program.step(o, Step::GiveUp(p))?;
        self.asked.retain(|owner| *owner != o);
        self.comes(o);
        Ok(())
    }

    /// Whether it is in an execution, or holds: it has something to forfeit, and has not yet.
    pub(crate) fn has_something(&self, o: OwnerId) -> bool {
        self.program.state.mode(o) != Mode::Out && !self.lost.contains(&o)
    }
    /// What it has is given back, as if it had died, and it waits for nothing. What was unloaded then, nobody
    /// knows.
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
    /// It has left.
    pub(crate) fn over(&mut self, o: OwnerId) {
        self.lost.remove(&o);
        self.program.over(o);
    }

    /// Everybody goes on who can, in the order of the ruling.
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
