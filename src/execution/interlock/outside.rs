//! Loading and unloading by who is in no execution: it gives no share up, and gets none back.

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
    /// Unloads without being in an execution: as [`Running::unload`](super::Running::unload), but nobody
    /// lets it go first. Those that ask like this have their turns in the order in which they came, and so
    /// have newcomers.
    ///
    /// # Errors
    /// None today: it waits as long as it takes.
    ///
    /// # Panics
    /// Inside a `run` of this thread: it would wait for itself.
    pub fn unload<R>(&self, f: impl FnOnce(&mut Unloading<'_>) -> R) -> Result<R, AcquireError> {
        self.unload_by(Limit::Forever, f)
    }
    /// [`unload`](Self::unload), if nobody runs, loads or unloads now, or is in a permit block.
    ///
    /// ```
    /// let interlock = cabrank::Interlock::new();
    /// interlock.try_unload(|_| ()).expect("nobody runs");
    /// let _running = interlock.enter();
    /// assert!(interlock.try_unload(|_| unreachable!("somebody runs")).is_err());
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

    /// Loads without being in an execution; see [`unload`](Self::unload).
    ///
    /// # Errors
    /// None today, as for `unload`.
    ///
    /// # Panics
    /// Inside a `run` of this thread.
    pub fn load<R>(&self, f: impl FnOnce(&mut Loading<'_>) -> R) -> Result<R, AcquireError> {
        self.load_by(Limit::Forever, f)
    }
    /// [`load`](Self::load), if nobody runs, loads or unloads now.
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
            Waited::Forfeited => unreachable!("it holds nothing that could be forfeited"),
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

    /// It had the age of whoever had its place before, until its thread had gone on.
    #[test]
    fn who_was_granted_and_has_not_gone_on_has_an_age_of_its_own() {
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
        assert_eq!(aged, second, "it has gone on");
        assert!(interlock.dump().owners.is_empty());
        seat.give_back();
    }

    #[test]
    fn who_was_granted_and_has_not_gone_on_may_be_forfeited() {
        let interlock = Interlock::new();
        let seat = Seat::take(&interlock.0);
        let (key, vitals) = (seat.record.key(), seat.record.vitals());
        vitals.rename();
        let asked = interlock.0.slowly(|state| state.request(key, Purpose::Unload, Asker::Thread));
        assert_eq!(asked, Some(Step::Done));
        assert!(interlock.forfeit(seat.record.id()));
        let running = interlock.try_enter().expect("nobody holds");
        Exclusive::alone(&seat.record).run(|_| ());
        assert!(interlock.dump().owners.iter().all(|owner| owner.id == running.id()));
        drop(running);
        seat.give_back();
        interlock.try_unload(|_| ()).expect("nobody is left");
    }
}
