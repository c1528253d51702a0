//! The transitions of the state machine, one function each.
//!
//! At the end of the critical section [`settle`](super::settle) grants the waits that can end because of
//! them.

use super::modes::{Asker, Children, Mode, Outcome, Owner, Purpose, Step};
use super::state::{Holder, State};
use super::vitals::{Context, OwnerId};
use crate::collections::slab_list::Key;

impl State {
    /// Guard N: no owner holds, and every entry accepts a new sharer.
    fn may_enter(&self) -> bool {
        self.holder.is_none() && self.tally.reject_share == 0
    }
    /// Guard X, for an owner whose own share and entry do not count.
    fn may_hold(&self, key: Key, purpose: Purpose) -> bool {
        let own = self.owner(key).tally();
        let others = self.running() - own.running;
        let rejecting = self.tally.reject_unload - own.reject_unload;
        self.holder.is_none() && others == 0 && (purpose == Purpose::Load || rejecting == 0)
    }
    /// Guard E: another owner, which gave its share up, waits for its turn, and no entry stops it.
    pub(super) fn has_turns(&self, after: Purpose) -> bool {
        let [loads, unloads] = &self.upgrading;
        !loads.is_empty()
            || after == Purpose::Unload && !unloads.is_empty() && self.tally.reject_unload == 0
    }

    /// Out → Running. A descendant of a live execution waits only for the holder.
    pub(super) fn enter(&mut self, key: Key, descends: bool, asker: Asker) -> Option<Step> {
        self.renew(key);
        let may = if descends { self.holder.is_none() } else { self.may_enter() };
        if may {
            self.begin_to_run(key);
            return Some(Step::Done);
        }
        let mode = if descends { Mode::Arriving } else { Mode::Entering };
        (asker != Asker::Impatient).then(|| self.enqueue(key, mode, asker))
    }
    /// Yielded → Running, on top of the frame.
    pub(super) fn enter_frame(&mut self, key: Key, asker: Asker) -> Option<Step> {
        if self.owner(key).mode == Mode::Forfeited {
            // Without effect: its guards find out on their next request.
            return Some(Step::Done);
        }
        if self.holder.is_none() {
            self.begin_to_run(key);
            return Some(Step::Done);
        }
        (asker != Asker::Impatient).then(|| self.enqueue(key, Mode::Arriving, asker))
    }
    /// Running → Yielded: gives back the share on top of the frame.
    pub(super) fn leave_frame(&mut self, key: Key) {
        if self.owner(key).mode == Mode::Running {
            self.set_mode(key, Mode::Yielded);
        }
    }

    /// Out → Waiting or Holding: a request without a share.
    pub(super) fn request(&mut self, key: Key, purpose: Purpose, asker: Asker) -> Option<Step> {
        self.renew(key);
        self.acquire(key, purpose, asker)
    }
    /// Running → Holding or Waiting. `None` if an impatient caller would have to wait.
    pub(super) fn acquire(&mut self, key: Key, purpose: Purpose, asker: Asker) -> Option<Step> {
        let upgrading = self.owner(key).mode == Mode::Running;
        self.change(key, Owner::forget_declared);
        if self.may_hold(key, purpose) {
            self.hold(key, purpose, upgrading);
            return Some(Step::Done);
        }
        if asker == Asker::Impatient {
            return None;
        }
        Some(self.enqueue(key, Mode::Waiting { purpose, upgrading }, asker))
    }
    pub(super) fn hold(&mut self, key: Key, purpose: Purpose, upgraded: bool) {
        if !upgraded {
            // As in `resume`, it holds before its thread goes on. It has no share.
            let above = Context::above(Context::BASE.level);
            self.owner(key).vitals.begin_at(self.clock.now(), above);
        }
        self.change(key, |owner| {
            owner.mode = Mode::Holding;
            owner.restore();
            if purpose == Purpose::Unload {
                owner.sees = None;
            }
        });
        self.holder = Some(Holder { key, purpose, depth: 1, upgraded });
    }
    /// Holding → Draining, Running or Out. `done`: something was loaded or unloaded.
    pub(super) fn release(&mut self, key: Key, done: bool, drain: Option<Asker>) -> Step {
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.key == key) else {
            return Step::Done; // Forfeited.
        };
        holder.depth -= 1;
        if holder.depth > 0 {
            return Step::Done;
        }
        let Holder { purpose, upgraded, .. } = *holder;
        self.let_go(done);
        if !upgraded {
            self.change(key, |owner| owner.clear(Mode::Out));
        } else if let Some(asker) = drain.filter(|_| self.has_turns(purpose)) {
            return self.enqueue(key, Mode::Draining(purpose), asker);
        } else {
            self.begin_to_run(key);
        }
        Step::Done
    }
    fn let_go(&mut self, done: bool) {
        if self.holder.take().is_some_and(|holder| done && holder.purpose == Purpose::Unload) {
            self.generation += 1;
        }
    }

    /// Running → Yielded, in one more frame.
    pub(super) fn permit(&mut self, key: Key) {
        self.change(key, |owner| {
            owner.forget_declared();
            owner.permits += 1;
            owner.mode = Mode::Yielded;
            owner.restore();
        });
    }
    /// Yielded → Running or Resuming: leaves the frame, with the share that it saved.
    pub(super) fn end_permit(&mut self, key: Key, asker: Asker) -> Step {
        if self.owner(key).mode == Mode::Forfeited {
            return Step::Done;
        }
        if self.holder.is_none() {
            self.resume(key, true);
            return Step::Done;
        }
        // From now on it waits only for the holder.
        self.change(key, Owner::stop_awaiting);
        self.enqueue(key, Mode::Resuming { ends_permit: true }, asker)
    }
    pub(super) fn resume(&mut self, key: Key, ends_permit: bool) {
        let vitals = &self.owner(key).vitals;
        if vitals.context() == Context::OUT {
            // It counts from now on, even if its task is never polled again.
            vitals.begin(self.clock.now());
        }
        if ends_permit {
            self.change(key, Owner::leave_permit);
        }
        self.begin_to_run(key);
    }

    /// Withdraws a request. A share given up for it comes back; while another owner holds, the owner is
    /// queued for it as `asker`.
    pub(super) fn cancel(&mut self, key: Key, asker: Asker) -> Step {
        let mode = self.owner(key).mode;
        self.unlink(key);
        self.withdraw_wake(key);
        match mode {
            Mode::Entering | Mode::Waiting { upgrading: false, .. } => {
                self.change(key, |owner| owner.clear(Mode::Out));
            }
            Mode::Arriving => {
                let on_frame = self.owner(key).permits > 0;
                self.set_mode(key, if on_frame { Mode::Yielded } else { Mode::Out });
            }
            Mode::Waiting { upgrading: true, .. } | Mode::Draining(_) => {
                if self.holder.is_some() {
                    return self.enqueue(key, Mode::Resuming { ends_permit: false }, asker);
                }
                self.resume(key, false);
            }
            Mode::Resuming { .. } => unreachable!("an owner cannot give up regaining its share"),
            Mode::Out | Mode::Running | Mode::Holding | Mode::Yielded | Mode::Forfeited => {}
        }
        Step::Done
    }

    /// Re-acquires the share after the operation that gave it up was dropped. While another owner holds, the
    /// owner is queued as resuming, and only its watchers are woken.
    pub(super) fn take_back(&mut self, key: Key) -> Step {
        match self.owner(key).mode {
            // Granted, but the dropped operation never saw it.
            Mode::Holding => self.release(key, false, None),
            Mode::Yielded => self.end_permit(key, Asker::Task),
            Mode::Resuming { .. } => {
                self.withdraw_wake(key); // It keeps its place.
                Step::Wait
            }
            mode if mode.is_queued() => self.cancel(key, Asker::Task),
            _ => Step::Done,
        }
    }

    /// → Yielded, in the frames below: the share on top of a permit block is given back before a dropped or
    /// leaked operation returned it.
    pub(super) fn forgo(&mut self, key: Key) {
        let mode = self.owner(key).mode;
        if mode == Mode::Forfeited {
            return;
        }
        self.unlink(key);
        self.wake_watchers(key);
        if self.holder.is_some_and(|holder| holder.key == key) {
            self.let_go(true);
        }
        self.withdraw_wake(key);
        let in_permit = matches!(mode, Mode::Yielded | Mode::Resuming { ends_permit: true });
        self.change(key, |owner| {
            if in_permit {
                owner.leave_permit();
            }
            owner.mode = Mode::Yielded;
            owner.restore();
        });
    }

    /// Any mode → Out.
    pub(super) fn leave(&mut self, key: Key) {
        if self.owner(key).mode == Mode::Forfeited {
            self.forfeited -= 1;
            self.count_lost(key, false);
        }
        self.take_out(key, Mode::Out);
    }
    /// Any mode → Forfeited: it no longer counts.
    pub(super) fn forfeit(&mut self, key: Key) {
        if self.owner(key).mode.is_queued() {
            self.resolve(key, Outcome::Forfeited);
        }
        self.take_out(key, Mode::Forfeited);
        self.forfeited += 1;
        self.count_lost(key, true);
    }
    /// Counts a forfeited child in its parent, or uncounts it.
    fn count_lost(&mut self, key: Key, more: bool) {
        let owner = self.owner(key);
        let Some(parent) = owner.parent.filter(|parent| parent.of == owner.id()) else { return };
        self.change(parent.id.key(), |owner| {
            if owner.children.of == parent.id {
                let lost = &mut owner.children.lost;
                *lost = if more { *lost + 1 } else { *lost - 1 };
            }
        });
    }
    fn take_out(&mut self, key: Key, mode: Mode) {
        self.unlink(key);
        self.wake_watchers(key);
        if self.holder.is_some_and(|holder| holder.key == key) {
            self.let_go(true);
        }
        self.withdraw_wake(key);
        self.change(key, |owner| owner.clear(mode));
    }

    pub(super) fn add_child(&mut self, parent: OwnerId) {
        self.change(parent.key(), |owner| {
            if owner.children.of != parent {
                owner.children = Children::none(parent);
            }
            owner.children.alive += 1;
        });
    }
    /// Uncounts a child, after its token was dropped or its execution ended.
    pub(super) fn remove_child(&mut self, parent: OwnerId) {
        self.change(parent.key(), |owner| {
            // The children of an ended execution are not counted.
            if owner.children.of == parent {
                owner.children.alive -= 1;
            }
        });
    }
}
