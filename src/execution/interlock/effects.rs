//! The effects of a critical section: user code that runs after the lock.

use crate::collections::wait_queue::Wake;
use crate::user_code::{contain, drop_contained};
use std::task::Waker;

pub(crate) enum Effect {
    Wake(Wake),
    Drop(Waker),
}
pub(crate) type Effects = Vec<Effect>;

impl Effect {
    pub(super) fn run(self) {
        match self {
            // A waker that panics must not stop the other wake-ups.
            Effect::Wake(wake) => drop(contain(|| wake.wake())),
            Effect::Drop(waker) => drop_contained(waker),
        }
    }
}
