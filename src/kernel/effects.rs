//! The list of effects that a critical section leaves. They run without the lock.

use crate::kernel::collections::wait_queue::Wake;
use crate::kernel::user_code::{contain, drop_contained};
use std::mem::take;
use std::task::Waker;

/// The round of an effect among the others of its section.
///
/// User code may take its time, or hang. It comes last, so that it delays no waiter and no work of the library's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Round {
    /// It wakes a waiter.
    WakeUp,
    /// It wakes or starts the library's own work.
    Upkeep,
    /// It runs user code, or drops a value of the user's.
    UserCode,
}

pub(crate) trait Effect {
    fn round(&self) -> Round;
}

/// The effects of one section. The first one needs no allocation: most sections have at most one.
#[derive(Debug)]
pub(crate) struct Effects<E> {
    first: Option<E>,
    rest: Vec<E>,
}

impl<E: Effect> Effects<E> {
    #[inline]
    pub(crate) const fn new() -> Self {
        Effects { first: None, rest: Vec::new() }
    }
    /// Returns whether the list holds no effect, and owns no memory.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.capacity() == 0
    }
    pub(crate) fn push(&mut self, effect: E) {
        match self.first {
            None => self.first = Some(effect),
            Some(_) => self.rest.push(effect),
        }
    }
    /// Takes the first such effect out of the list.
    pub(crate) fn take(&mut self, is_it: impl Fn(&E) -> bool) -> Option<E> {
        if self.first.as_ref().is_some_and(&is_it) {
            return self.first.take();
        }
        self.rest.iter().position(is_it).map(|at| self.rest.remove(at))
    }
    /// Runs all effects by their rounds; those of one round, in the order in which they were pushed. If one panics, the
    /// others still run. Leaves the list empty, without memory.
    #[cold]
    pub(crate) fn run(&mut self, mut run: impl FnMut(E)) {
        let (first, mut rest) = (self.first.take(), take(&mut self.rest));
        if let Some(first) = first {
            if rest.is_empty() {
                // A panic of user code has no caller here to report to. It must only not spread.
                let _ = contain(|| run(first));
                return;
            }
            rest.insert(0, first);
        }
        rest.sort_by_key(Effect::round);
        for effect in rest {
            let _ = contain(|| run(effect));
        }
    }
}

/// An effect on a waiter. A system has no other effects if wakers are its only user code.
#[derive(Debug)]
pub(crate) enum OnWaiter {
    /// It has its outcome.
    Wake(Wake),
    /// It has left.
    Drop(Waker),
}

impl Effect for OnWaiter {
    fn round(&self) -> Round {
        match self {
            OnWaiter::Wake(_) => Round::WakeUp,
            OnWaiter::Drop(_) => Round::UserCode,
        }
    }
}

impl OnWaiter {
    pub(crate) fn run(self) {
        match self {
            OnWaiter::Wake(wake) => wake.wake(),
            OnWaiter::Drop(waker) => drop_contained(waker),
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    impl Effect for (Round, u32) {
        fn round(&self) -> Round {
            self.0
        }
    }
    use Round::{Upkeep, UserCode, WakeUp};

    fn list(effects: impl IntoIterator<Item = (Round, u32)>) -> Effects<(Round, u32)> {
        let mut fx = Effects::new();
        effects.into_iter().for_each(|effect| fx.push(effect));
        fx
    }
    fn order(mut fx: Effects<(Round, u32)>) -> Vec<u32> {
        let mut order = Vec::new();
        fx.run(|(_, number)| order.push(number));
        assert!(fx.is_empty());
        order
    }

    #[test]
    fn effects_run_by_their_turns_and_then_in_their_order() {
        let all =
            [(UserCode, 5), (WakeUp, 1), (Upkeep, 3), (UserCode, 6), (WakeUp, 2), (Upkeep, 4)];
        assert_eq!(order(list(all)), [1, 2, 3, 4, 5, 6]);
        assert_eq!(order(list([(UserCode, 1)])), [1]);
        assert_eq!(order(list([])), [0; 0]);
    }

    #[test]
    fn the_others_run_after_one_that_panics() {
        let mut ran = Vec::new();
        list([(WakeUp, 1), (UserCode, 2), (UserCode, 3)]).run(|(_, number)| {
            ran.push(number);
            assert_ne!(number, 2, "scripted panic");
        });
        assert_eq!(ran, [1, 2, 3]);
    }

    #[test]
    fn an_effect_that_is_taken_leaves_the_others_as_they_were() {
        for at in 0..4 {
            let mut fx = list((0..4).map(|number| (UserCode, number)));
            assert_eq!(fx.take(|(_, number)| *number == at), Some((UserCode, at)));
            assert_eq!(fx.take(|(_, number)| *number == at), None);
            assert_eq!(order(fx), (0..4).filter(|number| *number != at).collect::<Vec<_>>());
        }
    }
}
