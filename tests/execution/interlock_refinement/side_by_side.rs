//! Carries each operation out on both sides.

use crate::interlock_refinement::history::{Block, How, Operation};
use crate::interlock_refinement::machine::Machine;
use crate::interlock_refinement::observed::Names;
use crate::interlock_refinement::people::{Expected, Open, Pending, Person, Why};
use crate::interlock_refinement::player::{Limit, Order, Player};
use cabrank::execution::interlock::Child;
use cabrank::{Interlock, ManualClock};
use cabrank_spec::interlock::script::{Op, Step};
use cabrank_spec::interlock::state::{OwnerId, Purpose};
use std::collections::HashMap;
use std::time::Duration;

pub(crate) struct SideBySide {
    pub(crate) machine: Machine,
    pub(crate) interlock: Interlock,
    hands: ManualClock,
    pub(crate) now: Duration,
    /// All deadlines differ.
    deadlines: u32,
    pub(crate) people: Vec<Person>,
    pub(crate) tokens: Vec<(OwnerId, Child)>,
    pub(crate) names: Names,
    /// Since when an owner waits, and for what.
    pub(crate) queued: HashMap<OwnerId, (&'static str, Duration)>,
    /// The last operation.
    pub(crate) said: Option<String>,
}

impl SideBySide {
    pub(crate) fn new(players: usize) -> SideBySide {
        let hands = ManualClock::new();
        let interlock = Interlock::with_clock(hands.clock());
        let person = |_| Person {
            player: Player::new(&interlock),
            owner: None,
            blocks: vec![],
            pending: None,
            expected: None,
            acts: false,
        };
        let people: Vec<_> = (0..players).map(person).collect();
        SideBySide {
            machine: Machine::new(),
            people,
            interlock,
            hands,
            now: Duration::ZERO,
            deadlines: 0,
            tokens: vec![],
            names: Names::new(),
            queued: HashMap::new(),
            said: None,
        }
    }

    /// Carries the operation out, if it is possible now, and compares.
    pub(crate) fn step(&mut self, operation: &Operation) -> Result<(), String> {
        if self.act(operation)?.is_none() {
            return Ok(());
        }
        self.settle()?;
        self.compare()
    }

    fn act(&mut self, operation: &Operation) -> Result<Option<()>, String> {
        match *operation {
            Operation::Begin { nth, block, how } => {
                let Some(i) = self.nth(nth, |both, p| both.fit(p, block, how).is_some()) else {
                    return Ok(None);
                };
                let Some((block, how)) = self.fit(&self.people[i], block, how) else {
                    return Ok(None);
                };
                self.say(format!("player {i} begins {block:?}, {how:?}"));
                let limit = self.limit(how);
                self.people[i].order(Order::Begin(block, limit));
                let open = Open { block, how };
                let deadline = (how == How::For).then_some(self.now + self.until());
                self.begin(i, open, deadline)?;
            }
            Operation::BeginChild { nth, token, how } => {
                let outside = |_: &_, p: &Person| p.owner.is_none();
                let Some(i) = self.nth(nth, outside).filter(|_| !self.tokens.is_empty()) else {
                    return Ok(None);
                };
                let (o, child) = self.tokens.remove(token % self.tokens.len());
                self.say(format!("player {i} begins as the child {o}, {how:?}"));
                let limit = self.limit(how);
                self.people[i].order(Order::BeginChild(child, limit));
                self.people[i].owner = Some(o);
                self.enter(o)?;
                let deadline = (how == How::For).then_some(self.now + self.until());
                self.waits(i, true, Open { block: Block::Run, how }, deadline);
            }
            Operation::End { nth, dropped } => {
                let Some(i) = self.nth(nth, |both, p| both.may_end(p)) else { return Ok(None) };
                let open = self.people[i].blocks.pop().expect("it may end");
                let how = match (dropped, open.how) {
                    (false, _) => "ends",
                    (true, How::Task) => "drops",
                    (true, _) => "panics out of",
                };
                self.say(format!("player {i} {how} its {:?}", open.block));
                self.people[i].order(Order::End { dropped });
                self.end_block(i, open, dropped)?;
            }
            Operation::Poll { nth } => {
                let Some(i) = self.nth_task(nth) else { return Ok(None) };
                self.say(format!("player {i} is polled"));
                self.people[i].order(Order::Poll);
            }
            Operation::Cancel { nth } => {
                let Some(i) = self.nth_task(nth) else { return Ok(None) };
                self.say(format!("player {i}'s future is dropped"));
                self.people[i].order(Order::Cancel);
                self.cancel(i)?;
            }
            Operation::Token { nth } => {
                // A holder outside any execution ends when it releases. The code then lets a waiting child in as a
                // child, and the machine as a newcomer.
                let shared = |both: &Self, p: &Person| {
                    let is_run = |open: &Open| open.block == Block::Run;
                    let blocks = (p.blocks.first(), p.blocks.last());
                    both.is_free(p) && blocks.0.is_some_and(is_run) && blocks.1.is_some_and(is_run)
                };
                let Some(i) = self.nth(nth, shared) else { return Ok(None) };
                let parent = self.people[i].owner;
                let child = self.machine.program.owner(parent);
                self.say(format!("player {i} makes a token for the child {child}"));
                self.people[i].order(Order::Token);
                self.people[i].expected = Some(Expected::Token(child));
            }
            Operation::DropToken { nth } => {
                if self.tokens.is_empty() {
                    return Ok(None);
                }
                let (o, child) = self.tokens.remove(nth % self.tokens.len());
                self.say(format!("the token for the child {o} is dropped"));
                self.machine.program.over(o);
                drop(child);
            }
            Operation::Forfeit { nth, waits } => {
                // As with a token: the code lets a waiting child in as the child as which it came.
                let forfeitable = |both: &Self, p: &Person| {
                    (p.pending.is_some() || !waits)
                        && p.owner.is_some_and(|o| !both.machine.lets_in(o))
                };
                let Some(i) = self.nth(nth, forfeitable) else { return Ok(None) };
                self.say(format!("player {i} is forfeited"));
                self.forfeit(i)?;
            }
            Operation::Deadline => {
                let waits = |(i, p): (usize, &Person)| {
                    let pending = p.pending.as_ref()?;
                    let waits = !pending.timed_out && !self.is_done(i);
                    Some((pending.deadline.filter(|_| waits)?, i))
                };
                let Some((deadline, i)) = self.people.iter().enumerate().filter_map(waits).min()
                else {
                    return Ok(None);
                };
                self.say(format!("player {i}'s deadline passes"));
                self.times_out(i)?;
                self.hands.advance(deadline - self.now);
                self.now = deadline;
            }
        }
        Ok(Some(()))
    }

    fn say(&mut self, what: String) {
        self.said = Some(what);
    }
    /// Returns the player of this number among those that `which` selects.
    fn nth(&self, nth: usize, holds: impl Fn(&Self, &Person) -> bool) -> Option<usize> {
        let all = 0..self.people.len();
        let found: Vec<_> = all.filter(|&i| holds(self, &self.people[i])).collect();
        found.get(nth % found.len().max(1)).copied()
    }
    fn nth_task(&self, nth: usize) -> Option<usize> {
        self.nth(nth, |_, p| p.pending.as_ref().is_some_and(|it| it.open.how == How::Task))
    }
    fn limit(&mut self, how: How) -> Limit {
        self.deadlines += 1;
        Limit::new(how, self.until())
    }
    fn until(&self) -> Duration {
        // Whole seconds keep all later deadlines later.
        Duration::from_secs(self.deadlines.into()) * 1000
    }

    /// Returns whether it can begin a block.
    fn is_free(&self, person: &Person) -> bool {
        let waits = person.blocks.last().is_some_and(|open| open.waits());
        let is_free = |o| self.machine.is_free(o) || self.machine.lost.contains(&o);
        person.pending.is_none() && !waits && person.owner.is_none_or(is_free)
    }
    /// Returns a block that it can begin at its place.
    fn fit(&self, person: &Person, block: Block, how: How) -> Option<(Block, How)> {
        let run = |how| (Block::Run, if how == How::Task { How::Forever } else { how });
        let top = person.blocks.last();
        if !self.is_free(person) || top.is_some_and(|open| open.is_bare()) {
            return None;
        }
        Some(match (top.map(|open| open.block), block, how) {
            (None, Block::Load | Block::Unload, How::Task) => (block, How::Forever),
            (None, Block::Load | Block::Unload, _) => (block, how),
            (None, ..) => (Block::Run, how),
            (Some(Block::Run), Block::Run, how) => run(how),
            (Some(Block::Run), Block::Permit | Block::Wait | Block::PermitWait, how) => {
                (block, if how == How::Task { how } else { How::Forever })
            }
            (Some(Block::Run), ..) => (block, how),
            (Some(_), _, how) => run(how),
        })
    }
    fn may_end(&self, person: &Person) -> bool {
        let waits = || person.owner.is_some_and(|o| self.machine.program.can(o, Step::Joined));
        let begun = !person.blocks.is_empty() && person.pending.is_none();
        let is_lost = || person.owner.is_some_and(|o| self.machine.lost.contains(&o));
        begun && (person.owner.is_some_and(|o| self.machine.is_free(o)) || waits() || is_lost())
    }

    /// Returns whether the player's wait has ended in the machine.
    pub(crate) fn is_done(&self, i: usize) -> bool {
        let person = &self.people[i];
        let over = !person.pending.as_ref().is_some_and(|pending| pending.begins)
            && person.blocks.is_empty();
        let waits = person.pending.as_ref().is_some_and(|it| it.begins && it.open.waits());
        let may_go_on = |o| self.machine.is_free(o) || self.machine.lost.contains(&o);
        over || waits || person.owner.is_none_or(may_go_on)
    }
    /// Orders the player, too.
    pub(crate) fn done(&mut self, i: usize) {
        let person = &mut self.people[i];
        let Some(pending) = person.pending.take() else { return };
        person.expected = Some(match pending {
            Pending { timed_out: true, .. } => Expected::Refused(Why::TimedOut),
            Pending { forfeited: true, .. } => Expected::Refused(Why::Forfeited),
            Pending { skipped: true, .. } => Expected::Skipped,
            Pending { begins: true, open, .. } => {
                person.blocks.push(open);
                Expected::Began
            }
            Pending { .. } => Expected::Over,
        });
        if person.blocks.is_empty() {
            let o = person.owner.take();
            o.into_iter().for_each(|o| self.machine.over(o));
        }
    }

    /// Lets every owner go on that can. Each answers; a task answers when it is polled.
    fn settle(&mut self) -> Result<(), String> {
        self.machine.settle()?;
        let polled = |both: &Self, i: usize| {
            let pending = both.people[i].pending.as_ref();
            let is_task = pending.is_some_and(|pending| pending.open.how == How::Task);
            is_task && both.people[i].is_first_polled() && !both.is_done(i)
        };
        let mut pend: Vec<_> = (0..self.people.len()).filter(|&i| polled(self, i)).collect();
        while let Some(i) = self.skip_unload()? {
            self.machine.settle()?;
            pend.extend(Some(i).filter(|&i| polled(self, i)));
        }
        for i in pend {
            let may_pend = self.is_done(i);
            self.people[i].expected =
                Some(if may_pend { Expected::MayPend } else { Expected::Pends });
        }
        for i in 0..self.people.len() {
            let Some(pending) = &self.people[i].pending else { continue };
            let is_task = pending.open.how == How::Task;
            let begins = pending.begins && self.people[i].blocks.is_empty();
            let no_wait =
                pending.open.how == How::Try && (begins || pending.open.block == Block::Run);
            if no_wait && !self.is_done(i) {
                self.refuse_entry(i);
            } else if self.is_done(i) && (!is_task || self.people[i].is_first_polled()) {
                self.done(i);
            }
        }
        Ok(())
    }
    /// It would have had to wait to enter.
    fn refuse_entry(&mut self, i: usize) {
        let person = &mut self.people[i];
        person.pending = None;
        person.expected = Some(Expected::Refused(Why::WouldBlock));
        let Some(o) = person.owner else { return };
        self.machine.leaves_line(o);
        if person.blocks.is_empty() {
            self.machine.program.over(o);
            person.owner = None;
        }
    }
    /// Returns the player that requested to unload once and is granted it after another's unload. It releases as
    /// soon as it sees that: a thread at once, a task when polled.
    fn skip_unload(&mut self) -> Result<Option<usize>, String> {
        let s = &self.machine.program.state;
        let Some((o, Purpose::Unload)) = s.holder else { return Ok(None) };
        let late = s.depth == 1 && s.owners[o].asked != s.generation;
        let i = self.people.iter().position(|p| p.owner == Some(o)).expect("another player's");
        let person = &mut self.people[i];
        let is_polled = person.is_first_polled();
        let Some(pending) = &mut person.pending else { return Ok(None) };
        let is_task = pending.open.how == How::Task;
        let sees = !is_task || is_polled;
        if !late || !sees || !pending.begins || pending.open.block != Block::UnloadOnce {
            return Ok(None);
        }
        // It drains, however long that takes.
        (pending.begins, pending.skipped, pending.deadline) = (false, true, None);
        self.machine.program.write(o, &[Op::Unload]);
        self.machine.program.next(o)?;
        let release = if is_task { Op::ReleaseFor } else { Op::Release };
        self.machine.program.write_end(o, release);
        self.machine.program.next(o)?;
        Ok(Some(i))
    }
}
