//! An execution from its own point of view: its share, its permit blocks, its children.

use super::ambient::{self, Frame, Kind, Within};
use super::error::{AcquireError, Deadlock};
use super::owner::{Context, Lineage, OwnerId, Record, Seat};
use super::state::{Asker, Mode, Parent, State, Step};
use super::{Inner, Interlock, Limit, Waited};
use crate::slab_list::Key;
use crate::sync::has_failed;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// A share: while it lives, nobody loads or unloads but itself.
///
/// Handles to what is loaded borrow from it, so that the compiler refuses any that would live across a
/// permit block, a load or an unload. It may go from thread to thread. Leaked, it keeps everybody from
/// loading: see [`Interlock::forfeit`].
///
/// The lifetime keeps the shares of two closures from being swapped; to write it is never needed.
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

/// How a share is given back.
pub(super) enum Hold {
    /// It began the execution. `token`: with the token of a child. Empty once it is given back.
    First { seat: Option<Seat>, token: bool },
    /// It is one share more of an execution.
    Nested(Frame),
}

impl Interlock {
    /// Runs `f` in an execution, which begins when nobody loads or unloads, or waits to.
    ///
    /// Inside another `run` of this interlock on the same thread it is the same execution, and does not
    /// wait (in a permit block: for the holder alone).
    ///
    /// # Panics
    /// If another thread has borrowed the enclosing [`Running`] and loads, unloads or permits with it.
    pub fn run<R>(&self, f: impl for<'s> FnOnce(&mut Running<'s>) -> R) -> R {
        self.run_by(Limit::Forever, f)
            .unwrap_or_else(|_| unreachable!("it waits as long as it takes"))
    }
    /// [`run`](Self::run), if that needs no waiting.
    ///
    /// # Errors
    /// [`AcquireError::WouldBlock`].
    pub fn try_run<R>(
        &self,
        f: impl for<'s> FnOnce(&mut Running<'s>) -> R,
    ) -> Result<R, AcquireError> {
        self.run_by(Limit::Never, f)
    }
    /// [`run`](Self::run), if it can begin within `timeout`.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`].
    pub fn run_timeout<R>(
        &self,
        timeout: Duration,
        f: impl for<'s> FnOnce(&mut Running<'s>) -> R,
    ) -> Result<R, AcquireError> {
        self.run_by(self.0.deadline(timeout), f)
    }
    fn run_by<R>(
        &self,
        limit: Limit,
        f: impl for<'s> FnOnce(&mut Running<'s>) -> R,
    ) -> Result<R, AcquireError> {
        match ambient::innermost(&self.0) {
            Some(frame) => Running::nested(frame, limit).map(|mut running| {
                let within = running.within(Kind::Running);
                let result = f(&mut running);
                drop(within);
                result
            }),
            None => Running::first(&self.0, None, limit).map(|running| running.run(f)),
        }
    }

    /// Begins an execution that ends when the guard is dropped, on whatever thread.
    ///
    /// The guard is an owner of its own: a `run` on this thread does not nest in it (see
    /// [`Running::in_scope`]). Inside a `run` it begins a child of that execution.
    ///
    /// # Panics
    /// Inside an exclusive section of this thread: it would wait for itself.
    pub fn enter(&self) -> Running<'static> {
        self.enter_by(Limit::Forever)
            .unwrap_or_else(|_| unreachable!("it waits as long as it takes"))
    }
    /// [`enter`](Self::enter), if that needs no waiting.
    ///
    /// # Errors
    /// [`AcquireError::WouldBlock`].
    pub fn try_enter(&self) -> Result<Running<'static>, AcquireError> {
        self.enter_by(Limit::Never)
    }
    /// [`enter`](Self::enter), if it can begin within `timeout`.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`].
    pub fn enter_timeout(&self, timeout: Duration) -> Result<Running<'static>, AcquireError> {
        self.enter_by(self.0.deadline(timeout))
    }
    fn enter_by(&self, limit: Limit) -> Result<Running<'static>, AcquireError> {
        let lineage = self.ambient_lineage(matches!(limit, Limit::Forever));
        Running::first(&self.0, lineage.map(|lineage| (lineage, false)), limit)
    }
    /// What an execution begun by a guard descends from here.
    pub(super) fn ambient_lineage(&self, waits: bool) -> Option<Arc<Lineage>> {
        let frame = ambient::innermost(&self.0)?;
        assert!(
            !waits || frame.kind != Kind::Exclusive,
            "this thread loads or unloads: a guard would wait for it. Use `run`, which nests"
        );
        Some(Lineage::below(&frame.record, frame.lineage))
    }
}

/// An owner that waits to enter, or is refused, and is given its record back.
pub(super) enum Begun {
    Yes,
    Waits,
    Refused,
}

impl Inner {
    /// The execution of this seat begins, or waits to.
    #[inline]
    pub(super) fn begin(
        self: &Arc<Self>,
        seat: &Seat,
        lineage: Option<&(Arc<Lineage>, bool)>,
        asker: Asker,
    ) -> Begun {
        seat.record.vitals().rename();
        if lineage.is_none() && self.enter_fast() {
            seat.record.vitals().begin(self.clock.now());
            return Begun::Yes;
        }
        self.begin_slowly(seat, lineage, asker)
    }
    #[cold]
    fn begin_slowly(
        &self,
        seat: &Seat,
        lineage: Option<&(Arc<Lineage>, bool)>,
        asker: Asker,
    ) -> Begun {
        let descends = lineage.is_some_and(|(lineage, _)| lineage.is_live());
        let parent = lineage.map(|(lineage, _)| lineage.id);
        let now = self.clock.now();
        self.critical(|state| {
            let (key, id) = (seat.record.key(), seat.record.id());
            let token = lineage.is_some_and(|(_, token)| *token);
            state.owners[key.index()].parent =
                parent.map(|parent| Parent { of: id, id: parent, token });
            let step = if state.slow {
                state.enter(key, descends, asker)
            } else {
                // The bit is set under the mutex only: nothing but other exchanges is in the way.
                while !self.enter_fast() {}
                Some(Step::Done)
            };
            if step == Some(Step::Done) {
                seat.record.vitals().begin(now);
            }
            match step {
                Some(Step::Done) => Begun::Yes,
                Some(Step::Wait) => Begun::Waits,
                None => Begun::Refused,
            }
        })
    }
    /// The execution of this seat is over.
    #[inline]
    fn end(&self, seat: &Seat, lineage: Option<&Lineage>, token: bool) {
        let vitals = seat.record.vitals();
        let regular = vitals.context() == Context::BASE;
        // Before the word: who sets SLOW after it has been counted down sees that it has left.
        vitals.set(Context::OUT);
        if regular && !token && self.leave_fast() {
            return;
        }
        self.end_slowly(seat, lineage, token);
    }
    #[cold]
    fn end_slowly(&self, seat: &Seat, lineage: Option<&Lineage>, token: bool) {
        self.critical(|state| {
            if state.slow || !self.leave_fast() {
                let key = seat.record.key();
                state.adopt(key);
                state.leave(key);
            }
            // `forfeit` may have come in between.
            seat.record.vitals().set(Context::OUT);
            if let Some(lineage) = lineage.filter(|_| token) {
                state.remove_child(lineage.id);
            }
        });
    }
}

impl<'scope> Running<'scope> {
    /// The first share of an execution.
    #[inline]
    fn first(
        home: &Arc<Inner>,
        lineage: Option<(Arc<Lineage>, bool)>,
        limit: Limit,
    ) -> Result<Self, AcquireError> {
        let seat = Seat::take(home);
        match home.begin(&seat, lineage.as_ref(), limit.asker()) {
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
                seat.record.vitals().begin(home.clock.now());
            }
        }
        Ok(Running::begun(seat, lineage))
    }
    #[inline]
    pub(super) fn begun(seat: Seat, lineage: Option<(Arc<Lineage>, bool)>) -> Self {
        let token = lineage.as_ref().is_some_and(|(_, token)| *token);
        Running {
            hold_on: Hold::First { seat: Some(seat), token },
            level: Context::BASE.level,
            lineage: lineage.map(|(lineage, _)| lineage),
            scope: PhantomData,
        }
    }
    /// One share more.
    fn nested(frame: Frame, limit: Limit) -> Result<Self, AcquireError> {
        let (level, vitals) = (frame.level, frame.record.vitals());
        let lost = loop {
            let now = vitals.context();
            if now == Context::LOST {
                break true;
            }
            assert_eq!(
                now.level, level,
                "another thread loads, unloads or permits with this share"
            );
            if now.shares == 0 && frame.kind == Kind::Permit {
                frame.record.enter_frame(limit)?;
            } else {
                assert!(now.shares > 0 || frame.kind == Kind::Exclusive, "it has a share");
            }
            if vitals.exchange(now, Context { level, shares: now.shares + 1 }) {
                break false;
            }
        };
        let lineage = frame.lineage.clone();
        // Of a forfeited execution nothing is left to share.
        let level = if lost { Context::LOST.level } else { level };
        Ok(Running { hold_on: Hold::Nested(frame), level, lineage, scope: PhantomData })
    }

    fn run<R>(mut self, f: impl for<'s> FnOnce(&mut Running<'s>) -> R) -> R {
        let twin = match &mut self.hold_on {
            Hold::First { seat: Some(seat), .. } => seat.twin.take(),
            _ => None,
        };
        let record = twin.unwrap_or_else(|| self.record().clone());
        let (level, lineage) = (self.level, self.lineage.clone());
        let within = ambient::push(Frame { record, level, kind: Kind::Running, lineage });
        let result = f(&mut self);
        if let Some(frame) = within.end()
            && let Hold::First { seat: Some(seat), .. } = &mut self.hold_on
        {
            seat.twin = Some(frame.record);
        }
        result
    }

    pub(super) fn record(&self) -> &Arc<Record> {
        match &self.hold_on {
            Hold::First { seat: Some(seat), .. } => &seat.record,
            Hold::First { seat: None, .. } => unreachable!("it was given back"),
            Hold::Nested(frame) => &frame.record,
        }
    }
    pub(super) fn home(&self) -> &Arc<Inner> {
        &self.record().home
    }
    fn frame(&self, level: u32, kind: Kind) -> Frame {
        Frame { record: self.record().clone(), level, kind, lineage: self.lineage.clone() }
    }
    /// This thread is in this execution, until the guard is dropped.
    fn within(&self, kind: Kind) -> Within {
        ambient::push(self.frame(self.level, kind))
    }

    /// Its name in dumps.
    pub fn id(&self) -> OwnerId {
        self.record().id()
    }
    /// Gives it a name of your own in dumps and reports of deadlocks.
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
        let former = self.home().locked(|state| {
            let owner = &mut state.owners[id.key().index()];
            owner.name.replace((id, name))
        });
        drop(former);
    }

    /// Whether it has its share: it has not while a future that waits for another one is leaked, or
    /// was dropped and somebody loads; nor once it is forfeited.
    pub fn has_share(&self) -> bool {
        let context = self.record().vitals().context();
        context.level == self.level && context.shares > 0
    }

    /// `f`, on this thread, is in this execution: a `run` inside it nests.
    pub fn in_scope<R>(&self, f: impl FnOnce() -> R) -> R {
        let _within = self.within(Kind::Running);
        f()
    }
    /// The same for a future, whichever thread polls it.
    pub async fn in_scope_async<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            let _within = self.within(Kind::Running);
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Begins something that this share alone may do, one level up, where it has no share.
    pub(super) fn rise(&mut self) -> Result<(), AcquireError> {
        let vitals = self.record().vitals();
        let alone = Context { level: self.level, shares: 1 };
        let above = Context { level: self.level.wrapping_add(1), shares: 0 };
        loop {
            if vitals.exchange(alone, above) {
                return Ok(());
            }
            let now = vitals.context();
            if now == Context::LOST {
                return Err(AcquireError::Forfeited);
            }
            if now != above || !self.record().recover() {
                return Err(AcquireError::Nested);
            }
            vitals.exchange(above, alone);
        }
    }
    /// It is over, and the share is there again.
    pub(super) fn sink(&self) {
        self.record().sink(self.level);
    }

    /// Runs `f` without a share, so that others may load (and not unload) meanwhile. For whatever may
    /// wait for somebody who loads; `f` promises to use nothing that is loaded, and the compiler holds
    /// it to that.
    ///
    /// # Errors
    /// [`AcquireError::Nested`], [`AcquireError::Forfeited`]; `f` has not run.
    pub fn permit_loads<R>(&mut self, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        let level = self.begin_permit()?;
        let within = ambient::push(self.frame(level, Kind::Permit));
        // The share is to be there again for whoever catches the panic.
        let result = catch_unwind(AssertUnwindSafe(f));
        drop(within);
        if !has_failed() {
            let record = self.record();
            let step = record.home.slowly(|state| state.end_permit(record.key(), Asker::Thread));
            record.home.wait_for_share(record.key(), step);
            self.sink();
        }
        result.or_else(|panic| resume_unwind(panic))
    }
    fn begin_permit(&mut self) -> Result<u32, AcquireError> {
        self.rise()?;
        let record = self.record();
        let permitted = record.home.slowly(|state| {
            state.adopt(record.key());
            let running = state.owner(record.key()).mode == Mode::Running;
            if running {
                state.permit(record.key());
            }
            running
        });
        if !permitted {
            // In an exclusive section, in which nobody else could load.
            self.sink();
            return Err(AcquireError::Nested);
        }
        Ok(self.level + 1)
    }
    /// [`permit_loads`](Self::permit_loads) around a future.
    ///
    /// # Errors
    /// Those of `permit_loads`.
    ///
    /// # Cancel safety
    /// Dropped in the middle, the share is back at once, or, if somebody loads just then, when this
    /// `Running` next loads, unloads or permits: until then it has [no share](Self::has_share).
    pub async fn permit_loads_async<F: Future>(
        &mut self,
        future: F,
    ) -> Result<F::Output, AcquireError> {
        self.recover_async().await;
        let level = self.begin_permit()?;
        let permit = super::tasks::Permit::new(self.record(), self.level);
        let frame = self.frame(level, Kind::Permit);
        let mut future = pin!(future);
        let output = std::future::poll_fn(|cx| {
            let _within = ambient::push(frame.clone());
            future.as_mut().poll(cx)
        })
        .await;
        permit.end().await;
        Ok(output)
    }
    /// [`permit_loads`](Self::permit_loads), by the name of what it is most often for: a call that
    /// blocks, of whatever kind.
    ///
    /// # Errors
    /// Those of `permit_loads`.
    pub fn blocking<R>(&mut self, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        self.permit_loads(f)
    }
    /// Waits for a thread's end, and permits loads meanwhile.
    ///
    /// # Errors
    /// Those of `permit_loads`; then the thread is detached.
    pub fn join<T>(
        &mut self,
        thread: std::thread::JoinHandle<T>,
    ) -> Result<std::thread::Result<T>, AcquireError> {
        self.permit_loads(|| thread.join())
    }

    /// Runs `f`, which waits until all [children](Self::child) have ended, and keeps the share.
    ///
    /// A child that waits to load waits for this share: then neither could ever go on. That the wait is
    /// told lets the interlock see it, whatever others do meanwhile: whoever closes the circle is refused,
    /// the child its load, or this wait.
    ///
    /// # Errors
    /// [`AcquireError::Deadlock`], if a child waits to load; [`AcquireError::Nested`] inside an exclusive
    /// section, while there are children: they may have to wait until it ends. `f` has not run.
    ///
    /// ```
    /// use cabrank::AcquireError::Nested;
    ///
    /// let interlock = cabrank::Interlock::new();
    /// let mut running = interlock.enter();
    /// let child = running.child();
    /// let inside = || interlock.run(|r| r.waiting(|| unreachable!("for ever")));
    /// assert!(matches!(running.load(|_| inside()), Ok(Err(Nested))));
    /// drop(child);
    /// running.waiting(|| ()).expect("there is nobody to wait for");
    /// ```
    pub fn waiting<R>(&self, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        struct Declared<'a>(&'a Record);
        impl Drop for Declared<'_> {
            fn drop(&mut self) {
                if !has_failed() {
                    self.0.home.slowly(|state| state.undeclare(self.0.key()));
                }
            }
        }
        let record = self.record();
        let _declared = match self.has_share() {
            true => record.declare()?.then_some(Declared(record)),
            false => None,
        };
        Ok(f())
    }

    /// A token with which a thread or task begins an execution that this one may wait for: it enters
    /// although an unload waits, as that waits for its parent.
    ///
    /// ```
    /// let interlock = cabrank::Interlock::new();
    /// interlock.run(|r| {
    ///     let child = r.child();
    ///     let thread = std::thread::spawn(move || child.run(|r| r.load(|_| 7).unwrap()));
    ///     assert_eq!(r.join(thread).unwrap().unwrap(), 7);
    /// });
    /// ```
    pub fn child(&self) -> Child {
        let record = self.record();
        record.home.critical(|state| state.add_child(record.id()));
        let lineage = Lineage::below(record, self.lineage.clone());
        Child { home: record.home.clone(), lineage: Some(lineage) }
    }
}

impl Drop for Running<'_> {
    #[inline]
    fn drop(&mut self) {
        if has_failed() {
            return;
        }
        match &mut self.hold_on {
            Hold::First { seat, token } => {
                let Some(seat) = seat.take() else { return };
                seat.record.home.end(&seat, self.lineage.as_deref(), *token);
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

impl Record {
    pub(super) fn sink(&self, level: u32) {
        let above = Context { level: level.wrapping_add(1), shares: 0 };
        // Not if it was forfeited meanwhile.
        self.vitals().exchange(above, Context { level, shares: 1 });
    }
    fn enter_frame(&self, limit: Limit) -> Result<(), AcquireError> {
        let asker = limit.asker();
        match self.home.slowly(|state| state.enter_frame(self.key(), asker)) {
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
    /// The share that was to come back after something was dropped: waits for it. False if there is
    /// none to come.
    fn recover(&self) -> bool {
        let step = self.home.slowly(|state| state.recover(self.key(), Asker::Thread));
        step.is_some_and(|step| {
            self.home.wait_for_share(self.key(), step);
            true
        })
    }
    /// Whether it counts as waiting for its children from here on.
    fn declare(&self) -> Result<bool, AcquireError> {
        self.home.slowly(|state| {
            state.adopt(self.key());
            state.declare(self.key())
        })
    }
}

impl State {
    /// The owner waits for its children. False if that is not to be counted.
    fn declare(&mut self, key: Key) -> Result<bool, AcquireError> {
        match self.owner(key).mode {
            Mode::Running => {
                self.change(key, |owner| owner.declared += 1);
                if self.tally.blocked == 0 {
                    return Ok(true);
                }
                let told = Deadlock::of(self, key);
                self.undeclare(key);
                Err(told)
            }
            // A child may have to wait for the holder, so a holder waits for no child.
            Mode::Holding if self.owner(key).live_children().0 > 0 => Err(AcquireError::Nested),
            _ => Ok(false),
        }
    }
    fn undeclare(&mut self, key: Key) {
        // Not if it was forfeited meanwhile.
        self.change(key, |owner| owner.declared = owner.declared.saturating_sub(1));
    }
}

/// The right to begin an execution that is a child of another: for a thread or task that its parent
/// waits for. One execution each; dropped, there is none.
///
/// See [`Running::child`].
#[must_use = "whoever waits for its children waits for this one, too"]
pub struct Child {
    home: Arc<Inner>,
    lineage: Option<Arc<Lineage>>,
}

impl Child {
    /// Runs `f` in the child's execution.
    pub fn run<R>(self, f: impl for<'s> FnOnce(&mut Running<'s>) -> R) -> R {
        self.enter().run(f)
    }
    /// Begins the child's execution, which ends when the guard is dropped.
    pub fn enter(mut self) -> Running<'static> {
        let lineage = self.lineage.take().map(|lineage| (lineage, true));
        Running::first(&self.home, lineage, Limit::Forever)
            .unwrap_or_else(|_| unreachable!("it waits as long as it takes"))
    }
    pub(super) fn into_parts(mut self) -> (Arc<Inner>, Option<Arc<Lineage>>) {
        (self.home.clone(), self.lineage.take())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(lineage) = self.lineage.take().filter(|_| !has_failed()) {
            self.home.critical(|state| {
                state.remove_child(lineage.id);
            });
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.lineage.as_ref().map(|lineage| lineage.id);
        f.debug_struct("Child").field("parent", &parent).finish()
    }
}
