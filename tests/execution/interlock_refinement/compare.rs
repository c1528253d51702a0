//! Waits until every player has come to rest, and compares both sides.

use crate::interlock_refinement::observed::{of_the_machine, of_the_real};
use crate::interlock_refinement::people::{Expected, Untold, Why};
use crate::interlock_refinement::player::Answer;
use crate::interlock_refinement::side_by_side::SideBySide;
use cabrank::execution::interlock::{AcquireError, Dump, OwnerState};
use cabrank_spec::interlock::state::OwnerId;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A limit that a thread does not reach on any machine.
const SOON: Duration = Duration::from_secs(30);
/// After the first difference, shrinking would wait this long in every history.
const SOON_ENOUGH: Duration = Duration::from_secs(1);
static FOUND: AtomicBool = AtomicBool::new(false);

fn soon() -> Instant {
    Instant::now() + if FOUND.load(Ordering::Relaxed) { SOON_ENOUGH } else { SOON }
}

impl SideBySide {
    /// Returns the first difference, if there is one.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
        let compared = self.rest().and_then(|dump| {
            self.compare_answers()?;
            self.compare_dumps(&dump)
        });
        compared.inspect_err(|_| FOUND.store(true, Ordering::Relaxed))
    }

    /// Waits until each player has answered its order or is queued.
    fn rest(&mut self) -> Result<Dump, String> {
        let until = soon();
        let awaited = self.people.iter().filter(|person| person.expected.is_some());
        awaited.for_each(|person| person.player.wait(until));
        loop {
            let busy: Vec<_> = self.busy().collect();
            let dump = self.interlock.dump();
            self.name(&dump)?;
            if busy.iter().all(|&i| self.is_queued(i, &dump)) {
                return Ok(dump);
            }
            if Instant::now() > until {
                return Err(format!("players {busy:?} do not come to rest\n{dump}"));
            }
            std::thread::yield_now();
        }
    }
    /// Returns the players that carry an order out.
    fn busy(&self) -> impl Iterator<Item = usize> {
        let all = self.people.iter().enumerate();
        all.filter(|(_, person)| person.acts_still()).map(|(i, _)| i)
    }
    fn is_queued(&self, i: usize, dump: &Dump) -> bool {
        let person = &self.people[i];
        if person.expected.is_some() {
            return false;
        }
        let owner = person.owner.and_then(|o| {
            let id = self.names.iter().find(|(_, named)| **named == o)?.0;
            dump.owner(*id)
        });
        let times_out = person.pending.as_ref().is_some_and(|pending| pending.timed_out);
        owner.is_some_and(|owner| {
            let queued = owner.waiting.is_some();
            queued && (!times_out || owner.state == OwnerState::Resuming)
        })
    }
    /// A new owner belongs to the player that has just begun.
    fn name(&mut self, dump: &Dump) -> Result<(), String> {
        for owner in &dump.owners {
            if self.names.contains_key(&owner.id) {
                continue;
            }
            let nameless = |o: &OwnerId| !self.names.values().any(|named| named == o);
            let mut owners = self.people.iter().filter_map(|person| person.owner);
            match owners.find(nameless) {
                Some(o) => self.names.insert(owner.id, o),
                None => return Err(format!("no owner is {}\n{dump}", owner.id)),
            };
        }
        Ok(())
    }

    fn compare_answers(&mut self) -> Result<(), String> {
        for i in 0..self.people.len() {
            let answer = self.people[i].player.take_answer();
            let mut expected = self.people[i].expected.take();
            let may_be_early = matches!(expected, Some(Expected::MayPend));
            if let Some(Expected::MayPend) = expected {
                if let Some(Answer::Pends) = answer {
                    expected = Some(Expected::Pends);
                } else {
                    self.done(i);
                    expected = self.people[i].expected.take();
                }
            }
            if answer.is_some() {
                self.people[i].acts = false;
            }
            self.compare_answer(self.people[i].owner, expected, answer)
                .map_err(|difference| format!("player {i}: {difference}"))?;
            let person = &self.people[i];
            let is_task = !person.acts && person.pending.is_some();
            if is_task && person.player.was_woken() != self.is_done(i) {
                let woken = person.player.was_woken();
                return Err(format!("player {i}: its task was woken: {woken}"));
            }
            if person.player.was_woken_in_vain(may_be_early) {
                return Err(format!("player {i}: an unused waker was woken"));
            }
        }
        Ok(())
    }
    fn compare_answer(
        &mut self,
        owner: Option<OwnerId>,
        expected: Option<Expected>,
        answer: Option<Answer>,
    ) -> Result<(), String> {
        match (expected, answer) {
            (None, None)
            | (Some(Expected::Began), Some(Answer::Began(None)))
            | (Some(Expected::Over), Some(Answer::Over))
            | (Some(Expected::Skipped), Some(Answer::Skipped))
            | (Some(Expected::Pends), Some(Answer::Pends))
            | (Some(Expected::GaveUp), Some(Answer::GaveUp)) => Ok(()),
            (Some(Expected::Began), Some(Answer::Began(Some(id))))
                if self.names.get(&id).copied() == owner =>
            {
                Ok(())
            }
            (Some(Expected::Token(o)), Some(Answer::Token(child))) => {
                self.tokens.push((o, child));
                Ok(())
            }
            (Some(Expected::Refused(why)), Some(Answer::Refused(error))) => {
                self.compare_refusal(why, error)
            }
            (expected, answer) => Err(format!("says {answer:?}, expected {expected:?}")),
        }
    }
    fn compare_refusal(&self, why: Why, error: AcquireError) -> Result<(), String> {
        match (why, error) {
            (Why::WouldBlock, AcquireError::WouldBlock)
            | (Why::TimedOut, AcquireError::TimedOut)
            | (Why::Child, AcquireError::Child)
            | (Why::Nested, AcquireError::Nested)
            | (Why::Forfeited, AcquireError::Forfeited) => Ok(()),
            (Why::Deadlock(o, untold), AcquireError::Deadlock(told)) => {
                let Untold(world, state) = *untold;
                let circle: Vec<_> = told.cycle().iter().map(|id| self.names[id]).collect();
                let next = circle.iter().cycle().skip(1);
                let waits = |(&a, b): (&OwnerId, &OwnerId)| state.waits_for(&world, a).contains(b);
                match circle.first() == Some(&o) && circle.iter().zip(next).all(waits) {
                    true => Ok(()),
                    false => Err(format!("{circle:?} is no cycle of {o}: {told}")),
                }
            }
            (why, error) => Err(format!("is refused: {error:?}, expected {why:?}")),
        }
    }

    fn compare_dumps(&mut self, dump: &Dump) -> Result<(), String> {
        self.note_queued();
        let now = self.now;
        let since = |o| self.queued.get(&o).map(|(_, since)| now - *since);
        let real = of_the_real(dump, &self.names);
        let machine = of_the_machine(&self.machine, since);
        match real == machine {
            true => Ok(()),
            false => Err(format!("the code: {real:#?}\nthe machine: {machine:#?}\n{dump}")),
        }
    }
    /// Compares since when each owner waits, and for what.
    fn note_queued(&mut self) {
        for o in 0..self.machine.program.state.owners.len() {
            match self.machine.waits_as(o) {
                None => {
                    self.queued.remove(&o);
                }
                Some(what) => {
                    let (was, since) = self.queued.entry(o).or_insert((what, self.now));
                    if *was != what {
                        (*was, *since) = (what, self.now);
                    }
                }
            }
        }
    }

    /// Ends all blocks, and checks that no owner is left.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.tokens.clear();
        self.close();
        let until = soon();
        for (i, person) in std::mem::take(&mut self.people).into_iter().enumerate() {
            if !person.player.has_ended(until) {
                FOUND.store(true, Ordering::Relaxed);
                return Err(format!("in the end player {i} hangs\n{}", self.interlock.dump()));
            }
        }
        let dump = self.interlock.dump();
        match dump.owners.is_empty() {
            true => Ok(()),
            false => Err(format!("an owner is left at the end\n{dump}")),
        }
    }
    fn close(&self) {
        self.people.iter().for_each(|person| person.player.close());
    }
}

impl Drop for SideBySide {
    fn drop(&mut self) {
        self.close();
    }
}
