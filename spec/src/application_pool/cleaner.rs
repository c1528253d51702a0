//! The pseudocode's `cleaner`, and the other timed work.
//!
//! One pass does all work that is due. It shuts down processes that no minimum protects and that have
//! been idle for `MAX_IDLE_TIME`. It removes detached processes that have not finished their sessions by
//! the deadline (E13). It lets groups spawn again when their back-off ends (E26, E28). It makes room for groups
//! that have waited too long for their first process, or that starve (E37). With E30 mended, the
//! cleaner sleeps until the next work is due: [`next_due`](Pool::next_due).
//!
//! Errata: E5, E29, E30, E40, E41. Invariants: INV-EVICTABLE, INV-INACTIVE-ORDER. Properties: PROP-IDLE-TIME,
//! PROP-IDLE-BOUND.

use crate::application_pool::configuration::{ClientId, GroupId, ProcessId, Time};
use crate::application_pool::pool::{At, Pool, Reason};
use crate::application_pool::rules::Erratum::*;

impl Pool {
    /// Makes one pass.
    pub(crate) fn clean(&mut self) {
        self.pass(&[]);
    }
    /// Makes one pass in which also these clients give up, in this order, if they wait: their time in the queue has
    /// ended. The machine itself has no such times, so this is no [`Action`](crate::application_pool::pool::Action) of it.
    pub fn clean_and_give_up(&mut self, late: &[ClientId]) {
        self.events.clear();
        self.pass(late);
        self.end_step();
    }

    fn pass(&mut self, late: &[ClientId]) {
        while let Some(process) = self.idle_too_long() {
            let group = self.process(process).group;
            self.detach_process(process, Reason::Idle);
            self.changed(group);
            self.settle();
        }
        while let Some(&process) = self.draining.first()
            && self.now >= self.process(process).drain_deadline
        {
            self.end_drain(process);
            self.settle();
        }
        while let Some((until, group)) = self.next_back_off()
            && self.now >= until
        {
            self.end_back_off(group);
            self.changed(group);
            self.settle();
        }
        for &client in late {
            if matches!(self.clients[client].at, At::Waiting(_)) {
                self.give_up(client);
                self.settle();
            }
        }
        while self.room_due().is_some_and(|due| self.now >= due) {
            self.make_room();
            self.settle();
        }
        self.cleaner_sleeps_until = self.next_due().filter(|_| self.forgets_older());
    }

    /// E40 as written. With E30 as written there is no such cleaner.
    fn forgets_older(&self) -> bool {
        self.written(E40) && !self.written(E30)
    }
    /// E40 as written: wakes the cleaner for this time, but not for what is due sooner.
    pub(crate) fn tell_cleaner(&mut self, due: Option<Time>) {
        let earlier = |due: &Time| self.cleaner_sleeps_until.is_none_or(|until| *due < until);
        if let Some(due) = due.filter(|due| self.forgets_older() && earlier(due)) {
            self.cleaner_sleeps_until = Some(due);
        }
    }
    /// E40 as written: tells the cleaner of a process that has just become idle.
    pub(crate) fn tell_of_idle(&mut self) {
        let limit = Some(self.max_idle_time).filter(|limit| *limit > 0);
        let due = limit.map(|limit| self.now + limit);
        self.tell_cleaner(due.filter(|_| self.next_idle().is_some()));
    }

    fn idle_too_long(&self) -> Option<ProcessId> {
        let process = self.next_idle().filter(|_| self.max_idle_time > 0)?;
        (self.now >= self.idle_since(process) + self.max_idle_time).then_some(process)
    }
    fn idle_since(&self, process: ProcessId) -> Time {
        self.process(process).last_used
    }

    /// Returns when the next work is due.
    pub fn next_due(&self) -> Option<Time> {
        let idle = self.next_idle().filter(|_| self.max_idle_time > 0);
        let idle = idle.map(|process| self.idle_since(process) + self.max_idle_time);
        let drain = self.draining.first().map(|&process| self.process(process).drain_deadline);
        let back_off = self.next_back_off().map(|(until, _)| until);
        [idle, drain, back_off, self.room_due()].into_iter().flatten().min()
    }
    /// Returns whether work is due and the cleaner is awake.
    pub fn is_due(&self) -> bool {
        if self.forgets_older() {
            return self.cleaner_sleeps_until.is_some_and(|until| until <= self.now);
        }
        // With E30 as in the pseudocode, the cleaner wakes only at multiples of `MAX_IDLE_TIME`.
        let awake =
            !self.written(E30) || self.max_idle_time == 0 || self.now % self.max_idle_time == 0;
        awake && self.next_due().is_some_and(|due| due <= self.now)
    }

    fn next_back_off(&self) -> Option<(Time, GroupId)> {
        let &group = self.backing_off.first()?;
        Some((self.groups[group].back_off_until?, group))
    }
}
