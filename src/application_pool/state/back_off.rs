//! Back-off: for how long a group does not spawn after failures (errata E26, E27).
//!
//! A failure is a failed spawn, or an early death: a process fails before it has proved itself. A process has proved
//! itself when it has lived for as long as the longest back-off. A process with a session, open or ended, has proved
//! itself after the first back-off. So a process that says it is ready and dies soon after is not replaced again and
//! again, whether or not gets come meanwhile. A later failure during a session is no early death: the request may be its
//! cause. The first early death in a row is replaced at once: one crash stops no group.
//!
//! A ready process ends the count of failures. It remembers the count until it has proved itself; its early death
//! continues it.

use super::effects::{Effect, Effects};
use super::process_info::ProcessInfo;
use super::state::State;
use super::table_keys::{GroupKey, ProcessKey};
use crate::application_pool::api::error::SpawnError;
use crate::application_pool::api::event::{DetachReason, Event};
use crate::application_pool::api::spawner::{Identifier, Spawner};
use crate::kernel::clock::Time;
use std::time::Duration;

/// A shorter back-off would keep a processor busy with spawns that fail at once.
const SHORTEST: Duration = Duration::from_millis(10);

/// Returns the back-off after this number of failures in a row: doubled with each, up to the cap.
fn back_off((first, cap): (Duration, Duration), failures: u32) -> Duration {
    let times = failures.checked_sub(1).and_then(|doubled| 1_u32.checked_shl(doubled));
    first.max(SHORTEST).saturating_mul(times.unwrap_or(u32::MAX)).min(cap.max(SHORTEST))
}

impl<S: Spawner> State<S> {
    /// The group backs off; its healthy processes stay (erratum E26: PROP-HEALTHY-STAY). If the group has no
    /// process, `settle` fails its waiting gets with the error.
    pub(crate) fn spawn_has_failed(
        &mut self,
        key: GroupKey,
        error: SpawnError,
        fx: &mut Effects<S>,
    ) {
        self.totals.spawns_failed += 1;
        let group = self.group_mut(key);
        group.failures = group.failures.saturating_add(1);
        let retry_in = self.back_off(key, error.clone(), fx);
        let name = &self.groups[key].name;
        fx.event(|| Event::SpawnFailed { group: name.clone(), error: error.clone(), retry_in });
        fx.push(Effect::DropError(error));
    }

    /// Begins the group's back-off, and returns its length.
    fn back_off(&mut self, key: GroupKey, error: SpawnError, fx: &mut Effects<S>) -> Duration {
        let failures = self.group(key).failures;
        let length = back_off(self.limits.back_off, failures);
        let until = self.clock.now().plus(length);
        let group = self.group_mut(key);
        if let Some(former) = group.last_error.replace(error) {
            fx.push(Effect::DropError(former));
        }
        group.back_off_until = Some(until);
        self.back_offs += 1;
        let rank = (until, self.back_offs);
        self.backing_off.set(self.groups.links(), key, Some(rank));
        self.is_due(until, fx);
        length
    }

    pub(crate) fn end_back_off(&mut self, key: GroupKey) {
        self.group_mut(key).back_off_until = None;
        self.backing_off.set(self.groups.links(), key, None);
    }

    /// Returns the group whose back-off ends next, and when.
    pub(crate) fn next_back_off(&self) -> Option<(Time, GroupKey)> {
        self.backing_off.first().map(|((until, ..), key)| (until, key))
    }

    /// Detaches an attached process that has failed. An early death counts as a failed spawn (PROP-EARLY-DEATH).
    pub(crate) fn detach_failed(&mut self, key: ProcessKey, fx: &mut Effects<S>) {
        let (age, limits) =
            (self.clock.now().since(self.process(key).start_time), self.limits.back_off);
        let info = self.process(key);
        let (group, failures) =
            (info.group, info.failures_before.filter(|_| info.is_unproved(age, limits)));
        self.detach_process(key, DetachReason::Failed, fx);
        if let Some(failures) = failures {
            self.died_early(group, failures, fx);
        }
    }

    /// A process of the group has died early, after this number of failures in a row.
    pub(crate) fn died_early(&mut self, key: GroupKey, failures: u32, fx: &mut Effects<S>) {
        let group = self.group_mut(key);
        group.failures = group.failures.max(failures).saturating_add(1);
        if group.failures > 1 {
            self.back_off(key, SpawnError::new("a process failed soon after it was ready"), fx);
        }
    }

    /// Notes the failure of a process: of an attached one, or of one whose spawn has not ended yet. Returns whether
    /// there is such a process.
    pub(crate) fn process_has_failed(
        &mut self,
        identifier: Identifier,
        fx: &mut Effects<S>,
    ) -> bool {
        if let Some(has_failed) = self.in_flight.get_mut(&identifier) {
            *has_failed = true;
            return true;
        }
        let Some(&key) = self.by_identifier.get(&identifier) else { return false };
        self.detach_failed(key, fx);
        true
    }
}

/// Whether a session proves a process that has lived for so long.
fn session_proves(age: Duration, (first, _): (Duration, Duration)) -> bool {
    age >= first.max(SHORTEST)
}

impl<E> ProcessInfo<E> {
    /// Whether it has not proved itself at this age; `failures_before` says so of its ended sessions.
    fn is_unproved(&self, age: Duration, limits: (Duration, Duration)) -> bool {
        age < limits.1 && (self.sessions == 0 || !session_proves(age, limits))
    }
    /// A session of it ends, and was used.
    pub(crate) fn has_served(&mut self, now: Time, limits: (Duration, Duration)) {
        if session_proves(now.since(self.start_time), limits) {
            self.failures_before = None;
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_to_its_cap_exactly_and_is_never_zero() {
        let ms = Duration::from_millis;
        let limits = (ms(15), ms(1000));
        let lengths: Vec<Duration> = (1..9).map(|failures| back_off(limits, failures)).collect();
        assert_eq!(lengths, [15, 30, 60, 120, 240, 480, 960, 1000].map(ms));
        assert_eq!(back_off((ms(10), Duration::MAX), 32), ms(10) * (1 << 31));
        for failures in [32, 33, 34, 1000, u32::MAX] {
            assert_eq!(back_off(limits, failures), ms(1000));
            assert_eq!(back_off((Duration::ZERO, Duration::ZERO), failures), ms(10));
        }
        assert_eq!(back_off((ms(500), ms(100)), 1), ms(100));
    }
}
