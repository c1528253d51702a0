//! An execution from its own point of view: its share.

use super::Interlock;
use super::ambient::{self, Frame, Kind, Within};
use super::child::Child;
use super::error::{AcquireError, Deadlock};
use super::inner::{Inner, Limit, Waited};
use super::modes::{Mode, Step};
use super::owner::{Lineage, Record, Seat};
use super::vitals::{Context, OwnerId};
use crate::execution::scoped::scoped;
use crate::section::Guarded;
use crate::sync::has_failed;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

/// A share of the interlock: while it lives, no other execution loads or unloads.
///
/// Handles to loaded values borrow from it, so the compiler refuses one that would live across a permit
/// block, a load or an unload. A share may move between threads. A leaked one blocks every load: see
/// [`forfeit`](super::Interlock::forfeit).
///
/// The lifetime keeps two closures from swapping their shares; you never need to write it.
///
/// ```
/// use cabrank::{Interlock, execution::interlock::Running};
///
/// fn handle(request: &str, running: &mut Running) -> String {
///     running.blocking(|| request.to_uppercase()).expect("this is the only share")
/// }
/// let interlock = Interlock::new();
/// assert_eq!(interlock.run(|r| handle("hello", r)), "HELLO");
/// ```
#[must_use = "the share is given back when this is dropped"]
pub struct Running<'scope> {
    pub(super) hold_on: Hold,
    pub(super) level: u32,
    pub(super) lineage: Option<Arc<Lineage>>,
    scope: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

/// The result of a begin.
pub(super) enum Begun {
    Yes,
    Waits,
    Refused,
}

/// How to give the share back.
pub(super) enum Hold {
    /// The first share of an execution. Empty once it is given back.
    First { seat: Option<Seat> },
    /// A further share of an execution.
    Nested(Frame),
}

impl<'scope> Running<'scope> {
    #[inline]
    pub(super) fn first(
        home: &Arc<Inner>,
        child: Option<Child>,
        limit: Limit,
    ) -> Result<Self, AcquireError> {
        let seat = Seat::take(home);
        match home.begin(&seat, child.as_ref().and_then(Child::lineage), limit.asker()) {
            Begun::Yes => {}
            Begun::Refused => {
                seat.give_back();
                return Err(AcquireError::WouldBlock);
            }
            Begun::Waits => {
                if let Waited::TimedOut(_) = home.wait(seat.record.key(), limit.deadline()) {
                    seat.give_back();
                    return Err(AcquireError::TimedOut);
                }
            }
        }
        Ok(Running::begun(seat, child))
    }
    #[inline]
    pub(super) fn begun(seat: Seat, child: Option<Child>) -> Self {
        Running {
            hold_on: Hold::First { seat: Some(seat) },
            level: Context::BASE.level,
            lineage: child.and_then(Child::begun),
            scope: PhantomData,
        }
    }
    /// Returns a further share; or a child's, if another borrower has given the share up.
    pub(super) fn nested(frame: Frame, limit: Limit) -> Result<Self, AcquireError> {
        let (level, vitals) = (frame.level, frame.record.vitals());
        let lost = loop {
            frame.record.regain(level, limit)?;
            let now = vitals.context();
            if now == Context::LOST {
                break true;
            }
            if now.level != level {
                return Running::beside(&frame, limit);
            }
            if now.shares == 0 && frame.kind == Kind::Permit {
                frame.record.enter_frame(limit)?;
            } else {
                assert!(
                    now.shares > 0 || frame.kind.is_alone(),
                    "a frame outside a section has a share"
                );
            }
            if vitals.exchange(now, Context { level, shares: now.shares + 1 }) {
                break false;
            }
        };
        let lineage = frame.lineage.clone();
        // A forfeited execution has no share to join.
        let level = if lost { Context::LOST.level } else { level };
        Ok(Running { hold_on: Hold::Nested(frame), level, lineage, scope: PhantomData })
    }

    /// Begins a child of an execution whose share a borrower has given up. It must not wait for that
    /// borrower, which may be a future of this thread.
    fn beside(frame: &Frame, limit: Limit) -> Result<Self, AcquireError> {
        let home = &frame.record.home;
        let at_once = match home.mode_of(frame) {
            Mode::Holding => return Err(AcquireError::Nested),
            // The borrower may hold next.
            Mode::Waiting { .. } => true,
            _ => false,
        };
        let child = Child::of(&frame.record, frame.lineage.clone());
        let limit_here = if at_once { Limit::Never } else { limit };
        let running = Running::first(home, Some(child), limit_here).map_err(|refused| {
            let is_own_limit = matches!(limit, Limit::Never) || !at_once;
            if is_own_limit { refused } else { AcquireError::Nested }
        })?;
        // A second share in its frame stops the child from giving any up: a load would wait for its parent.
        running.record().vitals().exchange(Context::BASE, Context::TWOFOLD);
        Ok(running)
    }

    pub(super) fn run<R>(mut self, f: impl for<'s> FnOnce(&mut Running<'s>) -> R) -> R {
        let twin = match &mut self.hold_on {
            Hold::First { seat: Some(seat) } => seat.twin.take(),
            _ => None,
        };
        let record = twin.unwrap_or_else(|| self.record().clone());
        let (level, lineage) = (self.level, self.lineage.clone());
        let within = ambient::push(Frame { record, level, kind: Kind::Running, lineage });
        let result = f(&mut self);
        if let Some(frame) = within.end() {
            if let Hold::First { seat: Some(seat) } = &mut self.hold_on {
                seat.twin = Some(frame.record);
            }
        }
        result
    }

    pub(super) fn record(&self) -> &Arc<Record> {
        match &self.hold_on {
            Hold::First { seat: Some(seat) } => &seat.record,
            Hold::First { seat: None, .. } => unreachable!("the share was given back"),
            Hold::Nested(frame) => &frame.record,
        }
    }
    pub(super) fn home(&self) -> &Arc<Inner> {
        &self.record().home
    }
    pub(super) fn frame(&self, level: u32, kind: Kind) -> Frame {
        Frame { record: self.record().clone(), level, kind, lineage: self.lineage.clone() }
    }
    pub(crate) fn is_of(&self, interlock: &Interlock) -> bool {
        Arc::ptr_eq(self.home(), &interlock.0)
    }
    /// Returns the same share with a free lifetime.
    pub(crate) fn out_of_scope(mut self) -> Running<'static> {
        Running {
            hold_on: std::mem::replace(&mut self.hold_on, Hold::First { seat: None }),
            level: self.level,
            lineage: self.lineage.take(),
            scope: PhantomData,
        }
    }
    pub(super) fn within(&self, kind: Kind) -> Within {
        ambient::push(self.frame(self.level, kind))
    }

    /// Returns the execution's name in dumps.
    pub fn id(&self) -> OwnerId {
        self.record().id()
    }
    /// Sets a name for dumps and deadlock reports.
    ///
    /// ```
    /// let interlock = cabrank::Interlock::new();
    /// interlock.run(|r| {
    ///     r.set_name("GET /users");
    ///     assert!(interlock.dump().to_string().contains("GET /users"));
    /// });
    /// ```
    pub fn set_name(&self, name: &str) {
        let (id, name) = (self.id(), Arc::from(name));
        let former = self.home().critical(|state, _| {
            let owner = &mut state.owners[id.key().index()];
            owner.name.replace((id, name))
        });
        drop(former);
    }

    /// Returns true if the execution has its share.
    ///
    /// The share is missing after `forfeit`, while a leaked future has given it up, or while another
    /// execution loads after a future was dropped.
    pub fn has_share(&self) -> bool {
        let context = self.record().vitals().context();
        context.level == self.level && context.shares > 0
    }

    /// Runs `f` inside this execution: a `run` in it nests.
    pub fn in_scope<R>(&self, f: impl FnOnce() -> R) -> R {
        let _within = self.within(Kind::Running);
        f()
    }
    /// The same for a future, on any thread that polls it.
    pub async fn in_scope_async<F: Future>(&self, future: F) -> F::Output {
        scoped(|| self.within(Kind::Running), future).await
    }

    /// Moves one level up, without a share, for an operation that needs the only share. If a dropped future
    /// gave it up, waits for it within `limit`.
    pub(super) fn rise(&mut self, limit: Limit) -> Result<(), AcquireError> {
        let vitals = self.record().vitals();
        let (alone, above) = (Context::alone(self.level), Context::above(self.level));
        loop {
            if vitals.exchange(alone, above) {
                return Ok(());
            }
            let now = vitals.context();
            if now == Context::LOST {
                return Err(AcquireError::Forfeited);
            }
            if now != above && now != Context::forsaken(self.level) {
                return Err(AcquireError::Nested);
            }
            self.record().returning(self.level).wait(limit)?;
        }
    }
    /// Ends such an operation: the share is there again.
    pub(super) fn sink(&self) {
        self.record().sink(self.level);
    }
}

impl Drop for Running<'_> {
    #[inline]
    fn drop(&mut self) {
        if has_failed() {
            return;
        }
        match &mut self.hold_on {
            Hold::First { seat } => {
                let Some(seat) = seat.take() else { return };
                seat.record.home.end(&seat, self.lineage.as_deref());
                seat.give_back();
            }
            Hold::Nested(frame) => frame.record.leave_nested(self.level, frame.kind),
        }
    }
}

impl fmt::Debug for Running<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Running").field(&self.id()).finish()
    }
}

impl Inner {
    pub(super) fn mode_of(&self, frame: &Frame) -> Mode {
        self.state.look(|state| {
            let owner = state.owner(frame.record.key());
            let is_known = state.slow && owner.epoch == state.epoch;
            if is_known { owner.mode } else { Mode::Running }
        })
    }
}

impl Record {
    pub(super) fn sink(&self, level: u32) {
        // Fails if the owner was forfeited meanwhile.
        self.vitals().exchange(Context::above(level), Context::alone(level));
    }
    /// The future one level up was dropped, and the share is not back yet.
    pub(super) fn forsake(&self, level: u32) {
        self.vitals().exchange(Context::above(level), Context::forsaken(level));
    }
    fn enter_frame(self: &Arc<Self>, limit: Limit) -> Result<(), AcquireError> {
        let (key, asker, here) = (self.key(), limit.asker(), ambient::beside(self));
        let entered = self.home.slowly(|state| {
            let entered = state.enter_frame(key, asker);
            let stuck = state.holder_among(&here).filter(|_| entered == Some(Step::Wait));
            let deadlock = stuck.map(|stuck| Deadlock::of(state, key, &[stuck]));
            if deadlock.is_some() {
                let _ = state.cancel(key, asker);
            }
            deadlock.map_or(Ok(entered), Err)
        });
        match entered? {
            Some(Step::Done) => Ok(()),
            Some(Step::Wait) => match self.home.wait(self.key(), limit.deadline()) {
                Waited::TimedOut(_) => Err(AcquireError::TimedOut),
                Waited::Granted | Waited::Forfeited => Ok(()),
            },
            None => Err(AcquireError::WouldBlock),
        }
    }
    fn leave_nested(&self, level: u32, kind: Kind) {
        loop {
            let now = self.vitals().context();
            // An operation inside it was leaked.
            if now.is_above(level) && kind == Kind::Permit {
                self.home.slowly(|state| {
                    state.forgo(self.key());
                    // Under the lock, because `forgo` and the context belong together. Fails if it was
                    // forfeited meanwhile.
                    self.vitals().exchange(now, Context { level, shares: 0 });
                });
                return;
            }
            if now.level != level || now.shares == 0 {
                return; // Forfeited.
            }
            if !self.vitals().exchange(now, Context { level, shares: now.shares - 1 }) {
                continue;
            }
            if now.shares == 1 && kind == Kind::Permit {
                self.home.slowly(|state| state.leave_frame(self.key()));
            }
            return;
        }
    }
}
