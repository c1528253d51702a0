//! The end of a section: what follows from the changes of its groups.
//!
//! A section changes a group by a *touch* alone: [`TouchedArena`](crate::kernel::collections::touched) gives no other way.
//! Its end, and each sleep of a thread, settles the touched groups:
//! 1. Each group gets its place in `inactive_apps` and in `by_surplus`. A group that gains or loses a process gets it at once, because
//!    `by_surplus` keeps the order of these changes. Its gets are granted sessions, the oldest first, while
//!    a process has room. It gets its place in the line of what it wants (`capacity.rs`).
//! 2. The lines are served, one spawn or eviction after the other, until there is no capacity. Each touches its group again.
//! 3. A group that was detached by name is forgotten once it is unused, and any other unused one after a time
//!    (`forgetting.rs`).
//!
//! # Why no wake-up is lost
//! A get that waits can be served in three ways, each at the end of the section that makes it possible:
//! - a process of its group has room: a session has ended, a process was attached or enabled, or another get has left. Each
//!   touches the group, which grants (INV-EXACT-WAKE-UP);
//! - its group may spawn: the group wants a process, or capacity is free. The want follows from the group's own numbers, and a
//!   place becomes free by a touch of the group that loses a process or a reservation. New limits, and a time that has come,
//!   touch the pool. The lines are served after any touch (INV-WANT, PROP-WORK-CONSERVING);
//! - its group can serve no get, because it backs off without a process: a touch of the group fails its gets (INV-BACK-OFF).
//!
//! The session belongs to its get: no newcomer takes it, and a get that gives up passes it on (`State::leave_queue`). How a get
//! learns of its session is the business of [`section`](crate::kernel::section).
//!
//! One transition goes on from what its own settling leaves: the thread of a spawn that has ended takes its group's next order
//! (`spawning.rs`). So it calls [`State::settle`] itself. So does the cleaner, after each item that was due.

use super::effects::Effects;
use super::group::Want;
use super::state::State;
use super::table_keys::GroupKey;
use crate::application_pool::api::spawner::Spawner;

/// The most room that `State::settled` keeps. Otherwise one section that touches all groups would leave it for ever.
const MOST_SETTLED: usize = 256;

impl<S: Spawner> State<S> {
    /// Settles each group that the section has touched: serves every waiter that can now proceed (PROP-EVERY-GET-ENDS).
    #[inline]
    pub(crate) fn settle(&mut self, fx: &mut Effects<S>) {
        match self.groups.only_touched() {
            // Most sections touch one group, while no get waits.
            Some(key) if !self.has_work_for(key) => {
                self.groups.forget_only();
                self.refresh(key, fx);
                if let Some(time) = self.limits.forget_groups_after {
                    self.note_use(key, time, fx);
                }
            }
            _ => self.settle_all(fx),
        }
    }

    /// Returns whether more may follow from the group's numbers than its place among the idle ones.
    #[inline]
    fn has_work_for(&self, key: GroupKey) -> bool {
        let group = &self.groups[key];
        let is_content = group.queue.is_empty()
            && group.outdated == 0
            && group.enabled() >= group.min_processes()
            && !group.forgotten;
        !is_content || self.in_lines > 0 && self.may_serve(key) || self.pool_touched
    }

    /// Returns whether the lines, in which a group stands, may be served, or the group leaves one.
    #[inline(never)]
    fn may_serve(&self, key: GroupKey) -> bool {
        !self.first.is_empty()
            || !self.more.is_empty()
            || !self.minimum.is_empty() && self.may_reserve()
            || !self.replacements.is_empty() && self.has_live_room()
            || self.groups[key].want != Want::Nothing
    }

    #[cold]
    fn settle_all(&mut self, fx: &mut Effects<S>) {
        if !self.groups.any_touched() && !std::mem::take(&mut self.pool_touched) {
            return;
        }
        self.pool_touched = false;
        loop {
            while let Some(key) = self.groups.next_touched() {
                self.refresh(key, fx);
                self.global_queue_position_became_available(key, fx);
                self.reconsider(key, fx);
                self.settled.push(key);
            }
            if !self.new_app_group_creatable(fx) && !self.groups.any_touched() {
                break;
            }
        }
        // The cleaner makes room in time (PROP-ENDLESS-SESSIONS).
        if let Some(due) = self.room_due().filter(|_| !self.closed) {
            self.is_due(due, fx);
        }
        let mut settled = std::mem::take(&mut self.settled);
        for key in settled.drain(..) {
            self.note_end_of_use(key, fx);
        }
        if settled.capacity() <= MOST_SETTLED {
            self.settled = settled;
        }
    }

    /// Forgets the group, if it is to be forgotten; it may be gone already.
    fn note_end_of_use(&mut self, key: GroupKey, fx: &mut Effects<S>) {
        match self.groups.get(key) {
            Some(group) if group.forgotten => self.forget_if_unused(key, fx),
            Some(_) => {
                if let Some(time) = self.limits.forget_groups_after {
                    self.note_use(key, time, fx);
                }
            }
            None => {}
        }
    }
}
