//! Waits until every player has come to rest, and compares both sides.

use crate::common::{note_difference, patience};
use crate::interlock_refinement::player::Answer;
use crate::interlock_refinement::side_by_side::{Name, Person, SideBySide};
use cabrank::execution::interlock::{Dump, OwnerState};
use cabrank_spec::interlock::state::Purpose::Unload;
use cabrank_spec::interlock::state::{Mode, Sleep};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The state that is compared after each step.
#[derive(Debug, PartialEq, Eq)]
struct Observed {
    generation: u64,
    executions: BTreeMap<Name, Execution>,
}

#[derive(Debug, PartialEq, Eq)]
struct Execution {
    state: OwnerState,
    permits: u32,
    views: u32,
    waits: Option<Duration>,
}

impl SideBySide {
    /// Returns the first difference, if there is one.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
        let compared = self.compare_answers().and_then(|()| self.compare_dumps());
        let compared = compared.and_then(|()| self.compare_wakes());
        compared.inspect_err(|_| note_difference())
    }

    fn compare_answers(&mut self) -> Result<(), String> {
        let until = patience();
        for (i, person) in self.people.iter_mut().enumerate() {
            if let Some(expected) = person.expected.take() {
                let answer = person.player.answer(until);
                if answer != Some(expected) {
                    let dump = self.interlock.dump();
                    return Err(format!("player {i}: {answer:?}, expected {expected:?}\n{dump}"));
                }
            }
        }
        Ok(())
    }
    /// A player that waits may not have come to rest yet.
    fn compare_dumps(&mut self) -> Result<(), String> {
        let (machine, until) = (self.of_the_machine(), patience());
        loop {
            let dump = self.interlock.dump();
            let real = self.of_the_real(&dump, &machine);
            if real.as_ref() == Some(&machine) {
                break;
            }
            if Instant::now() > until {
                return Err(format!("the code: {real:#?}\nthe machine: {machine:#?}\n{dump}"));
            }
            std::thread::yield_now();
        }
        let early = |person: &_| answered(person).map(|answer| format!("unexpected: {answer:?}"));
        self.people.iter().find_map(early).map_or(Ok(()), Err)
    }
    /// A task is woken exactly if its wait has ended.
    fn compare_wakes(&self) -> Result<(), String> {
        let until = patience();
        for (i, person) in self.people.iter().enumerate().filter(|(i, _)| self.pends(*i)) {
            let has_expired = person.doing.as_ref().is_some_and(|doing| doing.expired);
            let expected = has_expired || !self.machine.waits(i);
            // The timer's thread wakes it some time later.
            while person.player.was_woken() != expected {
                if !has_expired || Instant::now() > until {
                    return Err(format!("player {i}: its task was woken: {}", !expected));
                }
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Observes the code. Returns `None` while the execution that is about to begin is missing.
    fn of_the_real(&mut self, dump: &Dump, machine: &Observed) -> Option<Observed> {
        let mut executions = BTreeMap::new();
        self.names.retain(|id, _| dump.owner(*id).is_some());
        for owner in &dump.owners {
            let is_new = |name: &&Name| !self.names.values().any(|known| known == *name);
            let name = match self.names.get(&owner.id) {
                Some(name) => *name,
                None => *machine.executions.keys().find(is_new)?,
            };
            self.names.insert(owner.id, name);
            if let Some(wait) = &owner.wait {
                let blocker = dump.blockers(wait.blocked_by).next();
                assert!(blocker.is_some(), "{} is blocked by no execution\n{dump}", owner.id);
            }
            let execution = Execution {
                state: owner.state,
                permits: owner.permits,
                views: owner.views,
                waits: owner.wait.as_ref().map(|wait| wait.waited),
            };
            executions.insert(name, execution);
        }
        Some(Observed { generation: dump.generation, executions })
    }

    fn of_the_machine(&self) -> Observed {
        let s = &self.machine.state;
        let mut executions = BTreeMap::new();
        for (o, owner) in s.owners.iter().enumerate() {
            let permits = owner.permits();
            for (level, frame) in owner.frames[..permits].iter().enumerate() {
                let (state, views) = (OwnerState::Permitting, frame.shares.into());
                executions.insert((o, level), Execution { state, permits: 1, views, waits: None });
            }
            let state = match s.mode(o) {
                _ if self.machine.is_entering(o) => OwnerState::Entering,
                Mode::Out | Mode::Yielded => continue,
                Mode::Running => OwnerState::Running,
                Mode::Waiting if owner.sleeps == Some(Sleep::For(Unload)) => {
                    OwnerState::WaitingToUnload
                }
                Mode::Waiting => OwnerState::WaitingToLoad,
                Mode::Holding if s.holder == Some((o, Unload)) => OwnerState::Unloading,
                Mode::Holding => OwnerState::Loading,
                Mode::Draining => OwnerState::Draining,
                Mode::Resuming => OwnerState::Resuming,
            };
            let doing = self.people[o].doing.as_ref();
            let given_up = owner.frames.last().filter(|_| owner.sleeps.is_some());
            let shares = given_up.map_or(owner.shares, |frame| frame.shares);
            // The code counts a view before its share is back.
            let is_early = doing.is_some_and(|doing| doing.since.is_some() && doing.is_view());
            let is_new = u32::from(is_early || state == OwnerState::Entering);
            let since = doing.filter(|_| self.machine.waits(o)).and_then(|doing| doing.since);
            let execution = Execution {
                state,
                permits: 0,
                views: u32::from(shares) + is_new,
                waits: since.map(|since| self.now - since),
            };
            executions.insert((o, permits), execution);
        }
        Observed { generation: s.generation.into(), executions }
    }

    /// Ends all blocks, and checks that no owner is left.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.people.iter().for_each(|person| person.player.close());
        let until = patience();
        for (i, person) in std::mem::take(&mut self.people).into_iter().enumerate() {
            if !person.player.has_ended(until) {
                note_difference();
                return Err(format!("in the end player {i} hangs\n{}", self.interlock.dump()));
            }
        }
        let dump = self.interlock.dump();
        match dump.owners.is_empty() {
            true => Ok(()),
            false => Err(format!("an owner is left at the end\n{dump}")),
        }
    }
}

/// Returns the answer of a player from which none was expected.
fn answered(person: &Person) -> Option<Answer> {
    person.player.answer(Instant::now())
}

impl Drop for SideBySide {
    fn drop(&mut self) {
        self.people.iter().for_each(|person| person.player.close());
    }
}
