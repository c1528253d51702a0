//! The word by which all sides signal, and the slot that holds the sleeping run's waker.
//!
//! | bit | set | cleared |
//! |---|---|---|
//! | `RUNNING` | by the open that starts a run | by the run, when it ends |
//! | `CLOSED` | by close | by open |
//! | `AGAIN` | by an open that finds a run awake, perhaps about to end | when the target is called |
//! | `FRESH` | by an open after a close that the run has not obeyed yet | when the target is called |
//! | `WOKEN` | by wake | when the target is called |
//! | `SKIPS` | by skip_sleep | when a pause begins |
//! | `ASLEEP` | by the run, before it parks | by the thread that will wake it; when the target is called |
//! | `JOINED` | by a join, before it waits | by the run, when it ends |
//!
//! # No wake-up is lost
//! The word is one atomic that changes by read-modify-writes only, so all changes are in one order. A
//! run that is about to sleep shows its waker in the slot, then sets `ASLEEP`. A close, a wake or an open
//! before that step has left its bit: the run sees the bit in the same step and does not sleep. A signal
//! after that step finds `ASLEEP`, clears it, and takes the waker, which is already in the slot.
//!
//! A thread that has cleared `ASLEEP` may be delayed before it reaches the slot. It may then take the
//! waker of a *later* sleep, which causes a spurious wake-up and leaves the slot empty. Therefore the run shows its
//! waker again after each wake-up, whatever the cause.
//!
//! Only the thread that clears `ASLEEP` takes the waker. So one unpark ends one sleep, and a signal to a run
//! that is awake is one step on the word. A woken run that may not call its target yet, because of the
//! minimum interval, sleeps with `WOKEN` and `ASLEEP` set: further wakes leave it alone.
//!
//! # An open that races with the end is not lost
//! A run ends by one step on the word ([`Signal::end`]). An open before that step has left `AGAIN` or
//! `FRESH`, and the run goes on as if it had just started. An open after that step finds no run and
//! starts one. A run that could not be started ends by the same step: if it goes on, `Core::open` starts
//! it once more.
//!
//! # Cost
//! Close, wake and skip_sleep take no lock and do not allocate. They change the word and, at most, take the
//! waker and wake it. A thread's waker unparks; a task's waker wakes its runtime's (`task_waker.rs`).
//! Neither panics.

use super::outcome::Phase;
use crate::kernel::sync::{Flags, WakerSlot};
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

/// Whether, and until when, a run that has marked itself asleep may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaySleep {
    /// No signal came: the run may sleep until it is due.
    UntilDue,
    /// A wake came: the run may sleep until its minimum interval has passed.
    UntilEarliest,
    /// The run must not sleep: the executor was closed or reopened, or skips this pause.
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
        let is_first = |word| word & WOKEN == 0;
        let before =
            self.word.update(|word| if is_first(word) { (word | WOKEN) & !ASLEEP } else { word });
        if is_first(before) && before & ASLEEP != 0 {
            self.wake_sleeper();
        }
    }

    pub(super) fn skip_sleep(&self) {
        self.word.update(|word| word | SKIPS);
    }

    /// Wakes the sleeping run, so that it looks at an advanced manual clock. Returns whether a join may wait, too.
    ///
    /// A join that announces itself later has not looked at the clock yet.
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

    /// Returns whether an open has no effect: the run sleeps, and no close came since the last open.
    pub(super) fn is_settled(&self) -> bool {
        self.word.read() & (RUNNING | CLOSED | ASLEEP) == RUNNING | ASLEEP
    }

    /// Opens. Returns whether the caller must start a run.
    pub(super) fn open(&self) -> bool {
        let before = self.word.update(|word| {
            if word & RUNNING == 0 {
                RUNNING | word & SKIPS
            } else if word & CLOSED != 0 {
                // If the run slept, the close has woken it.
                (word | FRESH) & !CLOSED
            } else if word & ASLEEP == 0 {
                word | AGAIN
            } else {
                word
            }
        });
        before & RUNNING == 0
    }

    /// Returns whether the run may call its target now. The call serves all signals that came before.
    pub(super) fn begin_call(&self) -> bool {
        let before = self.word.update(|word| {
            if word & CLOSED == 0 { word & !(AGAIN | FRESH | WOKEN | ASLEEP) } else { word }
        });
        before & CLOSED == 0
    }

    /// Shows the run's waker and marks the run asleep, unless a signal forbids it.
    ///
    /// `begins`: this is the first sleep of the pause, which `skip_sleep` may skip.
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

    /// Removes the waker of a run that is about to end. Later the slot may hold its successor's.
    pub(super) fn take_waker(&self) -> Option<Waker> {
        self.sleeper.take()
    }

    /// Ends the run and returns false; or returns true if it was opened again meanwhile and must go on.
    ///
    /// With `can_go_on` false the run ends in any case.
    pub(super) fn end(&self, can_go_on: bool) -> bool {
        let goes_on = |word| can_go_on && word & CLOSED == 0 && word & (AGAIN | FRESH) != 0;
        let before = self.word.update(|word| if goes_on(word) { word } else { 0 });
        goes_on(before)
    }

    /// Returns whether there is a run that a join can wait for, and marks the run as joined.
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
