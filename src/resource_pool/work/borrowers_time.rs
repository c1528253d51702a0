//! The time of a borrower that is a thread.

use crate::kernel::clock::{Clock, Deadline};
use crate::kernel::section::Patience;
use std::time::Duration;

/// How a borrower waits, and the time limit that has not begun yet.
#[derive(Clone, Copy)]
pub(crate) struct BorrowersTime {
    patience: Patience,
    to_begin: Option<Duration>,
}

impl BorrowersTime {
    /// A thread that waits for this long. The time begins when the thread first waits: a borrower that is served at once reads no
    /// clock.
    #[inline]
    pub(crate) fn of_thread(limit: Option<Duration>) -> Self {
        BorrowersTime { patience: Patience::Thread(Deadline::Never), to_begin: limit }
    }

    /// Begins the time, unless it has begun.
    #[inline]
    pub(crate) fn begin(&mut self, clock: &Clock) {
        if let Some(limit) = self.to_begin.take() {
            self.patience = Patience::Thread(clock.deadline(limit));
        }
    }

    #[inline]
    pub(crate) fn patience(&self) -> &Patience {
        &self.patience
    }
}

impl From<Patience> for BorrowersTime {
    #[inline]
    fn from(patience: Patience) -> Self {
        BorrowersTime { patience, to_begin: None }
    }
}
