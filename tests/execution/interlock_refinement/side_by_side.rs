//! Carries each operation out on both sides.
//!
//! On the machine's side, an operation is a list of critical sections. Each of them may have to wait, and each ends
//! with the grants.

use crate::interlock_refinement::history::{Block, Operation};
use crate::interlock_refinement::machine::{Machine, Outcome};
use crate::interlock_refinement::player::{Answer, Order, Player};
use cabrank::execution::interlock::OwnerId;
use cabrank::{Interlock, ManualClock};
use cabrank_spec::interlock::script::Op;
use cabrank_spec::interlock::state::Purpose::{Load, Unload};
use cabrank_spec::interlock::state::Sleep;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The time limit of each wait.
const LIMIT: Duration = Duration::from_secs(1000);
const TICK: Duration = Duration::from_secs(1);

/// Names an execution by its player and by the number of permit blocks around it.
pub(crate) type Name = (usize, usize);
pub(crate) type Names = BTreeMap<OwnerId, Name>;

pub(crate) struct SideBySide {
    pub(crate) machine: Machine,
    pub(crate) interlock: Interlock,
    pub(crate) people: Vec<Person>,
    pub(crate) names: Names,
    clock: ManualClock,
    pub(crate) now: Duration,
    /// The last operation.
    pub(crate) said: Option<String>,
}

/// A player. Its index is its owner's in the machine.
pub(crate) struct Person {
    pub(crate) player: Player,
    blocks: Vec<Open>,
    pub(crate) doing: Option<Doing>,
    /// Its next answer.
    pub(crate) expected: Option<Answer>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    block: Block,
    task: bool,
}

/// An order that was not carried out to its end yet.
pub(crate) struct Doing {
    open: Open,
    begins: bool,
    left: VecDeque<Section>,
    /// Since when it waits in the first of these sections.
    pub(crate) since: Option<Duration>,
    /// The time limit of a task has passed, and its future was not polled yet.
    pub(crate) expired: bool,
}

/// A critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    /// Gets the share back, if an earlier wait was given up.
    Regain,
    Begin(Op),
    End(Op),
    /// Ends an unload.
    Unloaded,
    /// Ends a permit block without waiting for the share.
    DropPermit,
}

impl Doing {
    pub(crate) fn is_view(&self) -> bool {
        self.left.contains(&Section::Regain) && self.left.contains(&Section::Begin(Op::Enter))
    }
}

impl SideBySide {
    pub(crate) fn new(players: usize) -> SideBySide {
        let clock = ManualClock::new();
        let interlock = Interlock::builder().clock(clock.clock()).acquire_timeout(LIMIT).build();
        let person = |_| Person {
            player: Player::new(&interlock),
            blocks: vec![],
            doing: None,
            expected: None,
        };
        let people = (0..players).map(person).collect();
        let (machine, names) = (Machine::new(players), Names::new());
        SideBySide { machine, interlock, people, names, clock, now: Duration::ZERO, said: None }
    }

    /// Carries the operation out, if it is possible now, and compares.
    pub(crate) fn step(&mut self, operation: &Operation) -> Result<(), String> {
        // Waits that began at different operations end at different times.
        if self.deadlines().all(|(deadline, _)| self.now + TICK < deadline) {
            self.advance(self.now + TICK);
        }
        if self.act(operation)?.is_none() {
            return Ok(());
        }
        while let Some(i) = (0..self.people.len()).find(|&i| self.goes_on(i)) {
            self.go_on(i)?;
        }
        self.compare()
    }
    fn advance(&mut self, to: Duration) {
        self.clock.advance(to - self.now);
        self.now = to;
    }

    fn act(&mut self, operation: &Operation) -> Result<Option<()>, String> {
        match *operation {
            Operation::Begin { nth, block, task } => {
                let Some(i) = self.nth(nth, |both, i| both.fit(i, block, task).is_some()) else {
                    return Ok(None);
                };
                let Some(open) = self.fit(i, block, task) else { return Ok(None) };
                let block = open.block;
                self.say(i, format!("begins {block:?}, as a task: {task}"));
                let has_share = !self.machine.waits(i);
                self.people[i].player.order(Order::Begin { block, task, has_share });
                // Only a reloader unloads in an execution of its own.
                let unloads = block == Block::Unload && !self.people[i].blocks.is_empty();
                if unloads || !has_share && !task && self.is_task(i) {
                    self.people[i].expected = Some(Answer::Deadlock);
                    return Ok(Some(()));
                }
                let enter = Section::Begin(Op::Enter);
                let left = match block {
                    Block::Run => vec![Section::Regain, enter],
                    Block::Load => vec![Section::Regain, Section::Begin(Op::Acquire(Load))],
                    Block::Unload => vec![enter, Section::Begin(Op::Acquire(Unload))],
                    Block::Permit => vec![Section::Regain, Section::Begin(Op::Permit)],
                };
                self.begin_doing(i, open, true, left)?;
            }
            Operation::End { nth, dropped } => {
                let may_end = |both: &Self, i: usize| {
                    both.people[i].doing.is_none() && !both.people[i].blocks.is_empty()
                };
                let Some(i) = self.nth(nth, may_end) else { return Ok(None) };
                let open = self.people[i].blocks.pop().expect("it may end");
                self.say(i, format!("ends its {:?}, dropped: {dropped}", open.block));
                self.people[i].player.order(Order::End { dropped });
                let left = match open.block {
                    Block::Run => vec![Section::End(Op::Leave)],
                    Block::Load if dropped => vec![Section::End(Op::Drop)],
                    Block::Load => vec![Section::End(Op::Release)],
                    Block::Unload => vec![Section::Unloaded, Section::End(Op::Leave)],
                    Block::Permit if dropped => vec![Section::DropPermit],
                    Block::Permit => vec![Section::End(Op::End)],
                };
                self.begin_doing(i, open, false, left)?;
            }
            Operation::Poll { nth } => {
                let Some(i) = self.nth(nth, Self::pends) else { return Ok(None) };
                self.say(i, "is polled".into());
                self.people[i].player.order(Order::Poll);
                let has_expired = self.people[i].doing.as_ref().is_some_and(|it| it.expired);
                if self.machine.waits(i) {
                    match has_expired {
                        true => self.give_up(i, Answer::TimedOut)?,
                        false => self.people[i].expected = Some(Answer::Pends),
                    }
                } else {
                    self.go_on(i)?;
                }
            }
            Operation::Cancel { nth } => {
                let Some(i) = self.nth(nth, Self::pends) else { return Ok(None) };
                self.say(i, "drops its future".into());
                self.people[i].player.order(Order::Cancel);
                match self.machine.waits(i) {
                    true => self.give_up(i, Answer::GaveUp)?,
                    false => self.give_back(i)?,
                }
            }
            Operation::Deadline => {
                let Some((deadline, i)) = self.deadlines().min() else { return Ok(None) };
                if self.deadlines().filter(|(other, _)| *other == deadline).count() > 1 {
                    // They would give up in any order.
                    return Ok(None);
                }
                self.say(i, "reaches its time limit".into());
                match self.pends(i) {
                    true => self.people[i].doing.iter_mut().for_each(|it| it.expired = true),
                    false => self.give_up(i, Answer::TimedOut)?,
                }
                self.advance(deadline);
            }
        }
        Ok(Some(()))
    }

    fn say(&mut self, i: usize, what: String) {
        self.said = Some(format!("player {i} {what}"));
    }
    /// Returns the player of this number among those that `holds` selects.
    fn nth(&self, nth: usize, holds: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        let found: Vec<_> = (0..self.people.len()).filter(|&i| holds(self, i)).collect();
        found.get(nth % found.len().max(1)).copied()
    }
    /// Returns the block that a player can begin at its place.
    fn fit(&self, i: usize, block: Block, task: bool) -> Option<Open> {
        let person = &self.people[i];
        let block = match (person.blocks.last().map(|open| open.block), block) {
            (Some(Block::Run), block) => block,
            (_, Block::Unload) => Block::Unload,
            _ => Block::Run,
        };
        // Two threads that each wait twice would race for the order of their second requests.
        let waits_twice = !task && (block == Block::Unload || self.machine.waits(i));
        let other_does = || {
            let twice = |doing: &Doing| !doing.open.task && doing.left.len() > 1;
            self.people.iter().any(|person| person.doing.as_ref().is_some_and(twice))
        };
        let is_free = person.doing.is_none() && !(waits_twice && other_does());
        is_free.then_some(Open { block, task })
    }
    /// Returns whether the player's execution is a task's. A thread does not wait for its missing share.
    fn is_task(&self, i: usize) -> bool {
        let blocks = self.people[i].blocks.rsplit(|open| open.block == Block::Permit).next();
        blocks.and_then(|blocks| blocks.first()).is_some_and(|open| open.task)
    }
    /// Returns whether a player's future is pending.
    pub(crate) fn pends(&self, i: usize) -> bool {
        self.people[i].doing.as_ref().is_some_and(|doing| doing.open.task)
    }
    /// Returns the time limits that have not passed, with their players.
    fn deadlines(&self) -> impl Iterator<Item = (Duration, usize)> {
        let deadline = |(i, person): (usize, &Person)| {
            let doing = person.doing.as_ref().filter(|it| !it.expired && self.machine.waits(i))?;
            Some((doing.since? + LIMIT, i))
        };
        self.people.iter().enumerate().filter_map(deadline)
    }

    fn begin_doing(
        &mut self,
        i: usize,
        open: Open,
        begins: bool,
        left: Vec<Section>,
    ) -> Result<(), String> {
        let left = left.into();
        self.people[i].doing = Some(Doing { open, begins, left, since: None, expired: false });
        self.carry_out(i)
    }
    /// Returns whether a thread's wait has ended.
    fn goes_on(&self, i: usize) -> bool {
        let doing = self.people[i].doing.as_ref().filter(|doing| !doing.open.task);
        doing.is_some() && !self.machine.waits(i)
    }
    /// A wait has ended: the player goes on with its next section.
    fn go_on(&mut self, i: usize) -> Result<(), String> {
        let doing = self.people[i].doing.as_mut().expect("it waited");
        doing.left.pop_front();
        (doing.since, doing.expired) = (None, false);
        self.carry_out(i)
    }
    /// Carries sections out, until one waits.
    fn carry_out(&mut self, i: usize) -> Result<(), String> {
        loop {
            let doing = self.people[i].doing.as_mut().expect("it acts");
            let Some(section) = doing.left.front().copied() else { break };
            let outcome = self.section(i, section)?;
            self.machine.settle()?;
            let now = self.now;
            let person = &mut self.people[i];
            let doing = person.doing.as_mut().expect("it acts");
            match outcome {
                Outcome::Done => drop(doing.left.pop_front()),
                Outcome::Waits => {
                    doing.since = Some(now);
                    if doing.open.task {
                        person.expected = Some(Answer::Pends);
                    }
                    return Ok(());
                }
                Outcome::Deadlock => {
                    (person.expected, person.doing) = (Some(Answer::Deadlock), None);
                    return Ok(());
                }
            }
        }
        let person = &mut self.people[i];
        let Doing { open, begins, .. } = person.doing.take().expect("it acts");
        person.expected = Some(if begins { Answer::Began } else { Answer::Over });
        person.blocks.extend(begins.then_some(open));
        Ok(())
    }
    fn section(&mut self, i: usize, section: Section) -> Result<Outcome, String> {
        let machine = &mut self.machine;
        match section {
            Section::Regain if machine.waits(i) => Ok(Outcome::Waits),
            Section::Regain => Ok(Outcome::Done),
            Section::Begin(op) => machine.begin(i, op),
            Section::End(op) => machine.end(i, op),
            Section::Unloaded => {
                machine.unload(i)?;
                machine.end(i, Op::Drop)
            }
            Section::DropPermit => {
                machine.end(i, Op::End)?;
                if machine.state.owners[i].sleeps == Some(Sleep::Ending) {
                    machine.gives_up(i)?;
                }
                Ok(Outcome::Done)
            }
        }
    }

    /// Gives a wait up: its time limit has passed, or its future is dropped.
    fn give_up(&mut self, i: usize, answer: Answer) -> Result<(), String> {
        let doing = self.people[i].doing.take().expect("it waits");
        self.people[i].expected = Some(answer);
        match doing.left.front() {
            // Its share comes back without it.
            Some(Section::Regain) => return Ok(()),
            _ => self.machine.gives_up(i)?,
        }
        self.machine.settle()?;
        let has_entered = doing.left.front() == Some(&Section::Begin(Op::Acquire(Unload)));
        if has_entered {
            self.machine.end(i, Op::Leave)?;
            self.machine.settle()?;
        }
        Ok(())
    }
    /// Drops a future whose wait has ended, but which has not noticed.
    fn give_back(&mut self, i: usize) -> Result<(), String> {
        let doing = self.people[i].doing.take().expect("it waited");
        self.people[i].expected = Some(Answer::GaveUp);
        let back = match doing.left.front() {
            Some(Section::Begin(Op::Enter)) => vec![Op::Leave],
            // Nothing was unloaded.
            Some(Section::Begin(Op::Acquire(Unload))) => vec![Op::Drop, Op::Leave],
            Some(Section::Begin(Op::Acquire(_))) => vec![Op::Drop],
            _ => vec![],
        };
        for op in back {
            self.machine.end(i, op)?;
            self.machine.settle()?;
        }
        Ok(())
    }
}
