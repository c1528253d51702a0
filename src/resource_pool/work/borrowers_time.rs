//! The time of a borrower that is a thread.

use crate::kernel::clock::{Clock, Deadline};
use crate::kernel::section::Patience;
use std::time::Duration;

/// How a borrower waits, or that its `max_wait` has not begun.
pub(crate) enum BorrowersTime {
    Begun(Patience),
    /// A thread whose time begins when it first waits: if it is served at once, it reads no clock. The limit is in the options,
    /// because a loan is so short that each word counts which is written here and read again.
    MaxWait,
}

impl BorrowersTime {
    /// Begins the time, unless it has begun.
    #[inline]
    pub(crate) fn begin(&mut self, max_wait: Option<Duration>, clock: &Clock) {
        if let BorrowersTime::MaxWait = self {
            let deadline = max_wait.map_or(Deadline::Never, |time| clock.deadline(time));
            *self = BorrowersTime::Begun(Patience::Thread(deadline));
        }
    }

    #[inline]
    pub(crate) fn patience(&self) -> &Patience {
        match self {
            BorrowersTime::Begun(patience) => patience,
            BorrowersTime::MaxWait => &Patience::Thread(Deadline::Never),
        }
    }
}
