//! The word that all sides signal by, and the slot through which the sleeper is woken.
//!
//! | bit | set | cleared |
//! |---|---|---|
//! | `RUNNING` | by the open that starts a run | by the run, when it ends |
//! | `CLOSED` | by close | by open |
//! | `AGAIN` | by an open that finds a run awake, perhaps about to end | when the target is called |
//! | `FRESH` | by an open that follows a close which the run has not obeyed yet | when the target is called |
//! | `WOKEN` | by wake | when the target is called |
//! | `SKIPS` | by skip_sleep | when a pause begins |
//! | `ASLEEP` | by the run, before it parks | by whoever will wake it; when the target is called |
//! | `JOINED` | by a join, before it waits | by the run, when it ends |
//!
//! # No wake-up is lost
//! The word is one atomic that is only changed by read-modify-writes, so all changes are in one order.
//! A run that wants to sleep shows its waker in the slot, then sets `ASLEEP`. If a close, a wake or an
//! open came before that in the order, the run sees its bit in the same step, and does not sleep. If it
//! came after, it saw `ASLEEP`, cleared it, and takes the waker out of the slot, where it was shown
//! before.
//!
//! Who has cleared `ASLEEP` and is held up before it reaches the slot may take the waker of a *later*
//! sleep, out of which it then wakes the run for nothing. The slot is empty after that. So the run shows
//! its waker anew whenever it wakes, for whatever reason.
//!
//! Only who clears `ASLEEP` takes the waker: one sleep is ended by one unpark, and a signal to a run that
//! is awake is one step on the word. A run that was woken, but may not call its target yet because of
//! the minimum interval, sleeps with `WOKEN` and `ASLEEP` set: more wakes leave it alone.
//!
//! # An open that races with the end is not lost
//! A run ends by one step on the word ([`Signal::end`]). If an open came before it in the order, it left
//! `AGAIN` or `FRESH`, and the run goes on as if it had just been started. If it came after, there is no
//! run, and it starts one. A run that cannot be started ends by the same step: it goes on by being
//! started once more (`Core::open`).
//!
//! Close, wake and skip_sleep take no lock and allocate nothing: they change the word and, at most, take
//! the waker and wake it. A thread's waker unparks; a task's waker wakes its runtime's (`task_waker.rs`). Neither
//! panics.

use super::outcome::Phase;
use crate::sync::{Flags, WakerSlot};
use std::task::Waker;

const RUNNING: u32 = 1;
const CLOSED: u32 = 1 << 1;
const AGAIN: u32 = 1 << 2;
const FRESH: u32 = 1 << 3;
const WOKEN: u32 = 1 << 4;
const SKIPS: u32 = 1 << 5;
const ASLEEP: u32 = 1 << 6;
const JOINED: u32 = 1 << 7;

#[derive(Debug)]
pub(super) struct Signal {
    word: Flags,
    sleeper: WakerSlot,
}

/// What a run finds that lies down to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaySleep {
    /// No signal came: the run may sleep until it is due.
    UntilDue,
    /// A wake came: the run may sleep until its minimum interval has passed.
    UntilEarliest,
    /// It was closed or reopened, or skips this pause: the run must not sleep.
    No,
}

impl Signal {
    pub(super) fn new() -> Self {
        Signal { word: Flags::new(0), sleeper: WakerSlot::default() }
    }

    pub(super) fn close(&self) {
        let before = self.word.update(|word| (word | CLOSED) & !ASLEEP);
        if before & ASLEEP != 0 {
            self.wake_sleeper();
        }
    }

    pub(super) fn wake(&self) {
        let news = |word| word & WOKEN == 0;
        let before =
            self.word.update(|word| if news(word) { (word | WOKEN) & !ASLEEP } else { word });
        if news(before) && before & ASLEEP != 0 {
            self.wake_sleeper();
        }
    }

    pub(super) fn skip_sleep(&self) {
        self.word.update(|word| word | SKIPS);
    }

    /// The hands of the clock have been moved: the sleeper must look at it. Says whether somebody may join,
    /// who must look at it, too; a join that comes later has not looked yet.
    pub(super) fn clock_advanced(&self) -> bool {
        let before = self.word.update(|word| word & !ASLEEP);
        if before & ASLEEP != 0 {
            self.wake_sleeper();
        }
        before & JOINED != 0
    }

    fn wake_sleeper(&self) {
        if let Some(waker) = self.sleeper.take() {
            waker.wake();
        }
    }

    /// Whether an open has nothing to do, for no close came since the last one and nothing can end but
    /// by what is to come.
    pub(super) fn is_settled(&self) -> bool {
        self.word.read() & (RUNNING | CLOSED | ASLEEP) == RUNNING | ASLEEP
    }

    /// Opens. Says whether the caller has to start a run.
    pub(super) fn open(&self) -> bool {
        let before = self.word.update(|word| {
            if word & RUNNING == 0 {
                RUNNING | word & SKIPS
            } else if word & CLOSED != 0 {
                // It was roused by the close, if it slept.
                (word | FRESH) & !CLOSED
            } else if word & ASLEEP == 0 {
                word | AGAIN
            } else {
                word
            }
        });
        before & RUNNING == 0
    }

    /// The run is about to call its target: whether it may. What was signalled before is served by it.
    pub(super) fn begin_call(&self) -> bool {
        let before = self.word.update(|word| {
            if word & CLOSED == 0 { word & !(AGAIN | FRESH | WOKEN | ASLEEP) } else { word }
        });
        before & CLOSED == 0
    }

    /// The run lies down: unless it has to get up at once, it may park after that, if it is not time. If its
    /// pause begins by this, that may be left out.
    pub(super) fn prepare_to_sleep(&self, waker: &Waker, begins: bool) -> MaySleep {
        self.sleeper.show(waker);
        let wakeful = if begins { CLOSED | FRESH | SKIPS } else { CLOSED | FRESH };
        let before = self.word.update(|word| match word & wakeful {
            0 => word | ASLEEP,
            _ if begins => word & !SKIPS,
            _ => word,
        });
        if before & wakeful != 0 {
            MaySleep::No
        } else if before & WOKEN != 0 {
            MaySleep::UntilEarliest
        } else {
            MaySleep::UntilDue
        }
    }

    /// Forgets the waker of the run that is about to end; it could not tell it from its successor's later.
    pub(super) fn take_waker(&self) -> Option<Waker> {
        self.sleeper.take()
    }

    /// The run would end. Says whether it was opened again meanwhile, and has to go on; unless it
    /// cannot.
    pub(super) fn end(&self, can_go_on: bool) -> bool {
        let goes_on = |word| can_go_on && word & CLOSED == 0 && word & (AGAIN | FRESH) != 0;
        let before = self.word.update(|word| if goes_on(word) { word } else { 0 });
        goes_on(before)
    }

    /// A join is about to wait: whether there is a run that it can wait for.
    pub(super) fn announce_join(&self) -> bool {
        let joined = |word| if word & RUNNING == 0 { word } else { word | JOINED };
        self.word.update(joined) & RUNNING != 0
    }
    pub(super) fn is_running(&self) -> bool {
        self.word.read() & RUNNING != 0
    }
    pub(super) fn phase(&self) -> Phase {
        match self.word.read() {
            word if word & RUNNING == 0 => Phase::Stopped,
            word if word & ASLEEP == 0 => Phase::Busy,
            _ => Phase::Asleep,
        }
    }
    pub(super) fn is_open(&self) -> bool {
        self.word.read() & (RUNNING | CLOSED) == RUNNING
    }
}
