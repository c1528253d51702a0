//! Carries each operation out on both.

use crate::history::{Block, How, Operation};
use crate::machine::{InLine, Machine};
use crate::observed::Names;
use crate::player::{Limit, Order, Player};
use crate::program::Program;
use cabrank::execution::interlock::Child;
use cabrank::{Interlock, ManualClock};
use cabrank_spec::interlock::script::{Op, Step, World};
use cabrank_spec::interlock::state::{self as spec, Mode, OwnerId, Purpose, Refusal};
use std::collections::HashMap;
use std::time::Duration;

/// A player, and what the machine knows of it.
pub(crate) struct Person {
    pub(crate) player: Player,
    /// While it is in an execution, or wants to be.
    pub(crate) owner: Option<OwnerId>,
    /// What it has begun and not ended.
    blocks: Vec<Open>,
    /// What it waits for, or its task was not polled for.
    pub(crate) pending: Option<Pending>,
    /// What it has to say next.
    pub(crate) expected: Option<Expected>,
    /// Whether it was given an order and has said nothing since.
    pub(crate) acts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    block: Block,
    how: How,
}

/// What an order is for that has not been carried out.
pub(crate) struct Pending {
    begins: bool,
    open: Open,
    pub(crate) deadline: Option<Duration>,
    /// It has given up, and waits for its share.
    pub(crate) timed_out: bool,
}

#[derive(Debug)]
pub(crate) enum Expected {
    Began,
    Over,
    Skipped,
    Pends,
    /// What it waits for comes in this step, but of another player's doing: it may be polled too early.
    MayPend,
    GaveUp,
    Token(OwnerId),
    Refused(Why),
}

/// Why the code refuses something.
#[derive(Debug)]
pub(crate) enum Why {
    WouldBlock,
    TimedOut,
    Child,
    Nested,
    /// With what would be, if nobody were told.
    Deadlock(OwnerId, Box<(World, spec::Interlock)>),
}

pub(crate) struct SideBySide {
    pub(crate) machine: Machine,
    pub(crate) interlock: Interlock,
    hands: ManualClock,
    pub(crate) now: Duration,
    /// No two deadlines are the same.
    deadlines: u32,
    pub(crate) people: Vec<Person>,
    pub(crate) tokens: Vec<(OwnerId, Child)>,
    pub(crate) names: Names,
    /// Since when an owner waits as what.
    pub(crate) queued: HashMap<OwnerId, (&'static str, Duration)>,
    /// What was done last.
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

    /// Carries the operation out, if it can be at this moment, and compares.
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
            Operation::BeginChild { nth, token, task } => {
                let outside = |_: &_, p: &Person| p.owner.is_none();
                let Some(i) = self.nth(nth, outside).filter(|_| !self.tokens.is_empty()) else {
                    return Ok(None);
                };
                let (o, child) = self.tokens.remove(token % self.tokens.len());
                let how = if task { How::Task } else { How::Forever };
                self.say(format!("player {i} begins as the child {o}, {how:?}"));
                let limit = self.limit(how);
                self.people[i].order(Order::BeginChild(child, limit));
                self.people[i].owner = Some(o);
                self.enter(o)?;
                self.waits(i, true, Open { block: Block::Run, how }, None);
            }
            Operation::End { nth, dropped } => {
                let Some(i) = self.nth(nth, |both, p| both.may_end(p)) else { return Ok(None) };
                let open = self.people[i].blocks.pop().expect("it may end");
                let dropped = dropped && open.how == How::Task;
                let how = if dropped { "drops" } else { "ends" };
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
                // Who holds outside of any execution is over when it releases. A child that waits just then
                // the code lets in as the child as which it came, and the machine as a newcomer.
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
                self.people[i].acts = true;
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
    /// Of those of whom this holds, the one of this number.
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
        // Whole seconds, so that all later deadlines are later.
        Duration::from_secs(self.deadlines.into()) * 1000
    }

    /// Whether it can be told to begin something.
    fn is_free(&self, person: &Person) -> bool {
        let waits = person.blocks.last().is_some_and(|open| open.waits());
        person.pending.is_none() && !waits && person.owner.is_none_or(|o| self.machine.is_free(o))
    }
    /// What it can begin where it is, instead of this.
    fn fit(&self, person: &Person, block: Block, how: How) -> Option<(Block, How)> {
        let run = |how| (Block::Run, if how == How::Task { How::Forever } else { how });
        let top = person.blocks.last();
        if !self.is_free(person) || top.is_some_and(|open| open.is_bare()) {
            return None;
        }
        Some(match (top.map(|open| open.block), block, how) {
            (None, Block::Load, _) => (block, How::Forever),
            (None, Block::Unload, How::For) => (block, how),
            (None, Block::Unload, _) => (block, How::Forever),
            (None, ..) => (Block::Run, how),
            (Some(Block::Run), Block::Run, how) => run(how),
            (Some(Block::Run), Block::Wait | Block::PermitWait | Block::UnloadOnce, _) => {
                (block, How::Forever)
            }
            (Some(Block::Run), Block::Permit, How::Task) => (block, how),
            (Some(Block::Run), Block::Permit, _) => (block, How::Forever),
            (Some(Block::Run), ..) => (block, how),
            (Some(_), _, how) => run(how),
        })
    }
    fn may_end(&self, person: &Person) -> bool {
        let waits = || person.owner.is_some_and(|o| self.machine.program.can(o, Step::Joined));
        let begun = !person.blocks.is_empty() && person.pending.is_none();
        begun && (person.owner.is_some_and(|o| self.machine.is_free(o)) || waits())
    }

    fn begin(&mut self, i: usize, open: Open, deadline: Option<Duration>) -> Result<(), String> {
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
    /// Wants a share.
    fn enter(&mut self, o: OwnerId) -> Result<(), String> {
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
    /// Whether it has one share where it is, and nothing forbids to give that up.
    fn is_alone(&self, o: OwnerId) -> bool {
        let s = &self.machine.program.state;
        s.mode(o) == Mode::Running && s.owners[o].shares == 1
    }
    /// Wants to hold. What the code refuses and the machine does not: to give up a share beside another one
    /// in the same frame, and to unload in a permit block.
    fn ask(&mut self, o: OwnerId, open: Open) -> Result<Option<Why>, String> {
        let purpose = open.purpose().expect("it is a request");
        let s = &self.machine.program.state;
        let unloads = purpose == Purpose::Unload;
        if unloads && s.has_live_ancestor(o) {
            return Ok(Some(Why::Child));
        }
        let person = self.people.iter().find(|p| p.owner == Some(o)).expect("somebody's");
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
    /// A statement that may be refused.
    fn carry_out(&mut self, o: OwnerId) -> Result<Option<Why>, String> {
        let untold = self.machine.program.if_untold(o);
        let told = self.machine.program.next(o)?;
        Ok(Program::refused(&told).map(|refusal| match refusal {
            Refusal::WouldBlock => Why::WouldBlock,
            Refusal::Deadlock => Why::Deadlock(o, Box::new(untold)),
            Refusal::Child => Why::Child,
            Refusal::Holding | Refusal::InsideLoad => Why::Nested,
            Refusal::TimedOut => Why::TimedOut,
        }))
    }

    /// The order is carried out when nothing is in its way any more.
    fn waits(&mut self, i: usize, begins: bool, open: Open, deadline: Option<Duration>) {
        self.people[i].pending = Some(Pending { begins, open, deadline, timed_out: false });
    }

    fn end_block(&mut self, i: usize, open: Open, dropped: bool) -> Result<(), String> {
        let o = self.people[i].owner.expect("it is in an execution");
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
    /// What is done in an unload, at its end. It is done whatever others did since it was asked for.
    fn unload(&mut self, o: OwnerId) -> Result<(), String> {
        let s = &mut self.machine.program.state;
        if s.holder == Some((o, Purpose::Unload)) && s.depth == 1 {
            s.owners[o].asked = s.generation;
            self.machine.program.write(o, &[Op::Unload]);
            self.machine.program.next(o)?;
        }
        Ok(())
    }

    /// A task's future is dropped.
    fn cancel(&mut self, i: usize) -> Result<(), String> {
        let is_done = self.is_done(i);
        let o = self.people[i].owner.expect("it is in an execution, or wants to be");
        let pending = self.people[i].pending.take().expect("it is a task that waits");
        self.people[i].expected = Some(Expected::GaveUp);
        let program = &mut self.machine.program;
        match (pending.begins, pending.open.purpose(), is_done) {
            (true, None, false) => self.machine.leaves_line(o),
            (true, None, true) => {
                program.write_end(o, Op::Leave);
                program.next(o)?;
            }
            // It was granted, and never seen: nothing is done under it.
            (true, Some(_), true) => {
                program.write_end(o, Op::Drop);
                program.next(o)?;
            }
            (_, Some(p), false) => self.machine.gives_up(o, p)?,
            (false, _, true) => {}
            // The end of a permit block is given up only by name.
            (false, None, false) => {
                self.queued.remove(&o);
            }
        }
        if self.people[i].blocks.is_empty() {
            self.machine.program.over(o);
            self.people[i].owner = None;
        }
        Ok(())
    }
    fn times_out(&mut self, i: usize) -> Result<(), String> {
        let o = self.people[i].owner.expect("it is in an execution, or wants to be");
        let Some(pending) = &mut self.people[i].pending else { return Ok(()) };
        pending.timed_out = true;
        match pending.open.purpose() {
            Some(p) if self.machine.in_line(o).is_none() => self.machine.gives_up(o, p)?,
            _ => self.machine.leaves_line(o),
        }
        Ok(())
    }

    /// Whether what the player waits for has come, in the machine.
    pub(crate) fn is_done(&self, i: usize) -> bool {
        let person = &self.people[i];
        let over = !person.pending.as_ref().is_some_and(|pending| pending.begins)
            && person.blocks.is_empty();
        let waits = person.pending.as_ref().is_some_and(|it| it.begins && it.open.waits());
        over || waits || person.owner.is_none_or(|o| self.machine.is_free(o))
    }
    /// And the player is told.
    pub(crate) fn done(&mut self, i: usize) {
        let person = &mut self.people[i];
        let Some(pending) = person.pending.take() else { return };
        person.expected = Some(match pending {
            Pending { timed_out: true, .. } => Expected::Refused(Why::TimedOut),
            Pending { begins: true, open, .. } => {
                person.blocks.push(open);
                Expected::Began
            }
            Pending { open: Open { block: Block::UnloadOnce, how: How::Try }, .. } => {
                Expected::Skipped
            }
            Pending { .. } => Expected::Over,
        });
        if person.blocks.is_empty() {
            let o = person.owner.take();
            o.into_iter().for_each(|o| self.machine.program.over(o));
        }
    }

    /// Everybody goes on who can, and says so; whose task it is, says so when it is polled.
    fn settle(&mut self) -> Result<(), String> {
        self.machine.settle()?;
        let polled = |both: &Self, i: usize| {
            let pending = both.people[i].pending.as_ref();
            let is_task = pending.is_some_and(|pending| pending.open.how == How::Task);
            is_task && both.people[i].is_first_polled() && !both.is_done(i)
        };
        let pend: Vec<_> = (0..self.people.len()).filter(|&i| polled(self, i)).collect();
        while self.skip_unloads()? {
            self.machine.settle()?;
        }
        for i in pend {
            let may_pend = self.is_done(i);
            self.people[i].expected =
                Some(if may_pend { Expected::MayPend } else { Expected::Pends });
        }
        for i in 0..self.people.len() {
            let Some(pending) = &self.people[i].pending else { continue };
            let is_task = pending.open.how == How::Task;
            let no_wait = pending.open == Open { block: Block::Run, how: How::Try };
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
    /// Who was to unload once, and is granted it after somebody else has, releases at once. Whether there
    /// is one.
    fn skip_unloads(&mut self) -> Result<bool, String> {
        let Some((o, Purpose::Unload)) = self.machine.program.state.holder else {
            return Ok(false);
        };
        let s = &self.machine.program.state;
        let late = s.depth == 1 && s.owners[o].asked != s.generation;
        let its_own = |p: &&mut Person| p.owner == Some(o);
        let person = self.people.iter_mut().find(its_own).expect("somebody's");
        let Some(pending) = &mut person.pending else { return Ok(false) };
        if !late || !pending.begins || pending.open.block != Block::UnloadOnce {
            return Ok(false);
        }
        // An end that is `Try` is one that was not begun.
        (pending.begins, pending.open.how) = (false, How::Try);
        self.machine.program.write(o, &[Op::Unload]);
        self.machine.program.next(o)?;
        self.machine.program.write_end(o, Op::Release);
        self.machine.program.next(o)?;
        Ok(true)
    }
}

impl Person {
    fn order(&mut self, order: Order) {
        self.acts = true;
        self.player.order(order);
    }
    /// Whether it was given an order and has said nothing since.
    pub(crate) fn acts_still(&self) -> bool {
        self.acts && self.player.is_busy()
    }
    /// Whether its task was polled in this step, and has not said yet what came of it.
    fn is_first_polled(&self) -> bool {
        self.acts && self.expected.is_none()
    }
}

impl Open {
    fn purpose(self) -> Option<Purpose> {
        match self.block {
            Block::Load => Some(Purpose::Load),
            Block::Unload | Block::UnloadOnce => Some(Purpose::Unload),
            Block::Run | Block::Permit | Block::Wait | Block::PermitWait => None,
        }
    }
    /// Whether no `run` nests in it.
    fn is_bare(self) -> bool {
        self.how == How::Task && self.purpose().is_some() || self.waits()
    }
    fn waits(self) -> bool {
        matches!(self.block, Block::Wait | Block::PermitWait)
    }
}
