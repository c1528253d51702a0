//! Loading and unloading outside of any execution, without a share before or after.

use super::Interlock;
use super::alone::{Loading, Section, Unloading};
use super::ambient;
use super::error::AcquireError;
use super::exclusive::Exclusive;
use super::inner::{Limit, Waited};
use super::modes::{Purpose, Step};
use super::owner::Seat;
use std::time::Duration;

impl Interlock {
    /// Unloads outside of any execution, as [`Running::unload`](super::Running::unload) inside of one.
    ///
    /// Such requests and newcomers have their turns in order of arrival; other waiters go first.
    ///
    /// # Errors
    /// Never fails today: it waits without a limit.
    ///
    /// # Panics
    /// Inside a `run` of this thread: it would wait for itself.
    pub fn unload<R>(&self, f: impl FnOnce(&mut Unloading<'_>) -> R) -> Result<R, AcquireError> {
        self.unload_by(Limit::Forever, f)
    }
    /// [`unload`](Self::unload), if no execution runs, loads, unloads or is in a permit block now.
    ///
    /// ```
    /// let interlock = cabrank::Interlock::new();
    /// interlock.try_unload(|_| ()).expect("the interlock is free");
    /// let _running = interlock.enter();
    /// assert!(interlock.try_unload(|_| unreachable!("an execution runs")).is_err());
    /// ```
    ///
    /// # Errors
    /// [`AcquireError::WouldBlock`].
    ///
    /// # Panics
    /// Inside a `run` of this thread.
    pub fn try_unload<R>(
        &self,
        f: impl FnOnce(&mut Unloading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        self.unload_by(Limit::Never, f)
    }
    /// [`unload`](Self::unload), if it can begin within `timeout`.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`].
    ///
    /// # Panics
    /// Inside a `run` of this thread.
    pub fn unload_timeout<R>(
        &self,
        timeout: Duration,
        f: impl FnOnce(&mut Unloading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        self.unload_by(self.0.deadline(timeout), f)
    }
    fn unload_by<R>(
        &self,
        limit: Limit,
        f: impl FnOnce(&mut Unloading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        self.hold(Purpose::Unload, limit, |section| f(&mut Unloading::new(section)))
    }

    /// Loads outside of any execution; see [`unload`](Self::unload).
    ///
    /// # Errors
    /// Never fails today, as `unload`.
    ///
    /// # Panics
    /// Inside a `run` of this thread.
    pub fn load<R>(&self, f: impl FnOnce(&mut Loading<'_>) -> R) -> Result<R, AcquireError> {
        self.load_by(Limit::Forever, f)
    }
    /// [`load`](Self::load), if no execution runs, loads or unloads now.
    ///
    /// # Errors
    /// [`AcquireError::WouldBlock`].
    ///
    /// # Panics
    /// Inside a `run` of this thread.
    pub fn try_load<R>(&self, f: impl FnOnce(&mut Loading<'_>) -> R) -> Result<R, AcquireError> {
        self.load_by(Limit::Never, f)
    }
    /// [`load`](Self::load), if it can begin within `timeout`.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`].
    ///
    /// # Panics
    /// Inside a `run` of this thread.
    pub fn load_timeout<R>(
        &self,
        timeout: Duration,
        f: impl FnOnce(&mut Loading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        self.load_by(self.0.deadline(timeout), f)
    }
    fn load_by<R>(
        &self,
        limit: Limit,
        f: impl FnOnce(&mut Loading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        self.hold(Purpose::Load, limit, |section| f(&mut Loading::new(section)))
    }

    fn hold<R>(
        &self,
        purpose: Purpose,
        limit: Limit,
        f: impl FnOnce(Section) -> R,
    ) -> Result<R, AcquireError> {
        assert!(
            ambient::innermost(&self.0).is_none(),
            "this thread is in an execution: ask its `Running`"
        );
        let seat = Seat::take(&self.0);
        let (key, asker) = (seat.record.key(), limit.asker());
        seat.record.vitals().rename();
        let waited = match self.0.slowly(|state| state.request(key, purpose, asker)) {
            Some(Step::Done) => Ok(Waited::Granted),
            Some(Step::Wait) => Ok(self.0.wait(key, limit.deadline())),
            None => Err(AcquireError::WouldBlock),
        };
        let result = waited.and_then(|waited| match waited {
            Waited::Granted => Ok(Exclusive::alone(&seat.record).run(f)),
            Waited::TimedOut(_) => Err(AcquireError::TimedOut),
            Waited::Forfeited => unreachable!("an owner without an execution cannot be forfeited"),
        });
        seat.give_back();
        result
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::super::dump::OwnerState;
    use super::super::modes::Asker;
    use super::*;
    use crate::ManualClock;

    /// Regression: until its thread went on, it had the age of its place's previous owner.
    #[test]
    fn a_granted_owner_that_has_not_gone_on_has_its_own_age() {
        let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
        let interlock = Interlock::with_clock(clock.clock());
        clock.advance(second);
        let running = interlock.enter();
        let seat = Seat::take(&interlock.0);
        let (key, vitals) = (seat.record.key(), seat.record.vitals());
        vitals.rename();
        let asked = interlock.0.slowly(|state| state.request(key, Purpose::Load, Asker::Thread));
        assert_eq!(asked, Some(Step::Wait));
        clock.advance(second);
        drop(running);
        clock.advance(second);

        let dump = interlock.dump();
        let [granted] = &dump.owners[..] else { panic!("{dump}") };
        assert_eq!((granted.state, granted.age), (OwnerState::Loading, second));
        let _waited = interlock.0.wait(key, crate::clock::Deadline::Never);
        let aged = Exclusive::alone(&seat.record).run(|_| interlock.dump().owners[0].age);
        assert_eq!(aged, second, "the age stays after it has gone on");
        assert!(interlock.dump().owners.is_empty());
        seat.give_back();
    }

    #[test]
    fn a_granted_owner_that_has_not_gone_on_may_be_forfeited() {
        let interlock = Interlock::new();
        let seat = Seat::take(&interlock.0);
        let (key, vitals) = (seat.record.key(), seat.record.vitals());
        vitals.rename();
        let asked = interlock.0.slowly(|state| state.request(key, Purpose::Unload, Asker::Thread));
        assert_eq!(asked, Some(Step::Done));
        assert!(interlock.forfeit(seat.record.id()));
        let running = interlock.try_enter().expect("the grant was forfeited");
        Exclusive::alone(&seat.record).run(|_| ());
        assert!(interlock.dump().owners.iter().all(|owner| owner.id == running.id()));
        drop(running);
        seat.give_back();
        interlock.try_unload(|_| ()).expect("every owner has left");
    }
}
