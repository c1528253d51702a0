//! The asynchronous half: the same transitions and queues, with a task in place of a thread.
//!
//! # Cancel safety
//! A drop at any await leaves the queue, and gives back what was granted meanwhile. A share that was given up
//! comes back at once, or once the current holder releases. Until then the [`Running`] has [no
//! share](Running::has_share), and its next operation waits for it.
//!
//! # Deadlines
//! Use the runtime's time-out around the future, which drops it. There are no `try_` variants: those of the
//! blocking half never wait, so a task may call them.

use super::Interlock;
use super::alone::{Loading, Unloading};
use super::ambient::ambient_is_not_alone;
use super::child::Child;
use super::error::AcquireError;
use super::exclusive::Exclusive;
use super::inner::{Inner, Limit};
use super::modes::{Asker, Outcome, Purpose, Step};
use super::owner::{Record, Seat};
use super::running::{Begun, Running};
use super::vitals::Context;
use crate::section::{Guarded, Patience};
use crate::sync::has_failed;
use std::mem::replace;
use std::ops::Deref;
use std::sync::Arc;

impl Interlock {
    /// [`enter`](Self::enter) as a future, for any runtime.
    ///
    /// # Cancel safety
    /// It may be dropped at any await.
    ///
    /// # Panics
    /// As `enter`.
    pub async fn enter_async(&self) -> Running<'static> {
        ambient_is_not_alone(&self.0);
        Arrival::enter(&self.0, self.ambient_child()).await
    }
}

impl Child {
    /// [`enter`](Self::enter) as a future.
    ///
    /// # Cancel safety
    /// It may be dropped at any await. That uses the token up.
    ///
    /// # Panics
    /// As `enter`.
    pub async fn enter_async(self) -> Running<'static> {
        let home = self.home().clone();
        ambient_is_not_alone(&home);
        Arrival::enter(&home, Some(self)).await
    }
}

/// An owner that waits to enter.
pub(super) struct Arrival<'a> {
    home: &'a Inner,
    /// Absent once it has entered.
    seat: Option<Seat>,
    /// The child's token. It counts as the child until the execution begins.
    child: Option<Child>,
}

impl<'a> Arrival<'a> {
    pub(super) async fn enter(home: &'a Arc<Inner>, child: Option<Child>) -> Running<'static> {
        let seat = Seat::take(home);
        if let Begun::Yes = home.begin(&seat, child.as_ref().and_then(Child::lineage), Asker::Task)
        {
            return Running::begun(seat, child);
        }
        let key = seat.record.key();
        let mut arrival = Arrival { home, seat: Some(seat), child };
        // Only a grant ends this wait.
        let _ = home.turn_of_task(key).await;
        let seat = arrival.seat.take().expect("only this function takes it");
        Running::begun(seat, arrival.child.take())
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take().filter(|_| !has_failed()) else { return };
        let key = seat.record.key();
        self.home.critical(|state, _| {
            if !state.owner(key).mode.is_queued() {
                // It was granted meanwhile.
                state.slow_down(&self.home.word);
                state.adopt(key);
            }
            state.leave(key);
            seat.record.vitals().end();
        });
        seat.give_back();
    }
}

impl Running<'_> {
    /// [`load`](Self::load) for tasks: the guard holds, and its `finish` lets others have their turn.
    ///
    /// ```
    /// # use std::{pin::pin, task::{Context, Poll, Waker}};
    /// # fn now<T>(future: impl Future<Output = T>) -> T {
    /// #     match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
    /// #         Poll::Ready(value) => value,
    /// #         Poll::Pending => panic!("it has to wait"),
    /// #     }
    /// # }
    /// # now(async {
    /// let interlock = cabrank::Interlock::new();
    /// let mut running = interlock.enter_async().await;
    /// let loading = running.load_async().await?;
    /// // No other execution runs here, at any await.
    /// loading.finish().await;
    /// # Ok::<_, cabrank::execution::interlock::AcquireError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of `load`.
    ///
    /// # Cancel safety
    /// As for [`permit_loads_async`](Self::permit_loads_async).
    pub async fn load_async(&mut self) -> Result<LoadingGuard<'_>, AcquireError> {
        let hold = self.hold_async(Purpose::Load).await?;
        Ok(LoadingGuard { loading: Loading::new(hold.section()), hold })
    }
    /// [`unload`](Self::unload) for tasks; see [`load_async`](Self::load_async).
    ///
    /// # Errors
    /// Those of `unload`.
    ///
    /// # Cancel safety
    /// As for `load_async`.
    pub async fn unload_async(&mut self) -> Result<UnloadingGuard<'_>, AcquireError> {
        let hold = self.hold_async(Purpose::Unload).await?;
        Ok(UnloadingGuard { unloading: Unloading::new(hold.section()), hold })
    }
    /// [`unload_once`](Self::unload_once) for tasks. Returns `None` if another execution has unloaded since
    /// `seen`.
    ///
    /// ```
    /// # use std::{pin::pin, task::{Context, Poll, Waker}};
    /// # fn now<T>(future: impl Future<Output = T>) -> T {
    /// #     match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
    /// #         Poll::Ready(value) => value,
    /// #         Poll::Pending => panic!("it has to wait"),
    /// #     }
    /// # }
    /// # now(async {
    /// let interlock = cabrank::Interlock::new();
    /// let (mut running, seen) = (interlock.enter_async().await, interlock.generation());
    /// for unloads in [true, false] {
    ///     let unloading = running.unload_once_async(seen).await?;
    ///     assert_eq!(unloading.is_some(), unloads);
    /// }
    /// # Ok::<_, cabrank::execution::interlock::AcquireError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of `unload`.
    ///
    /// # Cancel safety
    /// As for `load_async`.
    pub async fn unload_once_async(
        &mut self,
        seen: u64,
    ) -> Result<Option<UnloadingGuard<'_>>, AcquireError> {
        if !self.home().is_due(seen) {
            return Ok(None);
        }
        let hold = self.hold_async(Purpose::Unload).await?;
        if hold.generation == seen {
            return Ok(Some(UnloadingGuard { unloading: Unloading::new(hold.section()), hold }));
        }
        finish(hold, false).await;
        Ok(None)
    }
    async fn hold_async(&mut self, purpose: Purpose) -> Result<Exclusive<'_>, AcquireError> {
        self.regain_async().await;
        if self.ask(purpose, Asker::Task, Limit::Never)? == Step::Wait {
            let (home, key) = (self.home(), self.record().key());
            let given_up = GivenUp::new(self.record(), self.level);
            match home.turn_of_task(key).await {
                Outcome::Granted => given_up.forget(),
                Outcome::Forfeited => return Err(AcquireError::Forfeited),
            }
        }
        Ok(Exclusive::new(self))
    }
    /// Waits for the share, if a dropped future gave it up.
    pub(super) async fn regain_async(&mut self) {
        let (above, forsaken) = (Context::above(self.level), Context::forsaken(self.level));
        if [above, forsaken].contains(&self.record().vitals().context()) {
            let _ = self.record().returning(self.level).come(Patience::Task).await;
        }
    }
}

/// A share that an owner gave up. Its drop takes the share back: at once, or, while another owner holds, at
/// the owner's next request.
struct GivenUp {
    record: Arc<Record>,
    level: u32,
    open: bool,
}

impl GivenUp {
    fn new(record: &Arc<Record>, level: u32) -> Self {
        GivenUp { record: record.clone(), level, open: true }
    }
    fn forget(mut self) {
        self.open = false;
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if !replace(&mut self.open, false) || has_failed() {
            return;
        }
        let (record, key) = (&self.record, self.record.key());
        let step = record.home.slowly(|state| state.take_back(key));
        match step == Step::Done {
            true => record.sink(self.level),
            false => record.forsake(self.level),
        }
    }
}

/// A permit block around a future.
pub(super) struct Permit(GivenUp);

impl Permit {
    pub(super) fn new(record: &Arc<Record>, level: u32) -> Self {
        Permit(GivenUp::new(record, level))
    }
    pub(super) async fn end(self) {
        let record = &self.0.record;
        let key = record.key();
        let step = record.home.slowly(|state| state.end_permit(key, Asker::Task));
        if step == Step::Wait {
            let _ = record.home.turn_of_task(key).await;
        }
        record.sink(self.0.level);
        self.0.forget();
    }
}

/// Releases, and waits until others have had their turn. `done`: something was loaded or unloaded.
async fn finish(hold: Exclusive<'_>, done: bool) {
    let (record, level) = (hold.record.clone(), hold.level());
    let given_up = GivenUp::new(&record, level);
    if hold.finish_as_task(done) == Step::Wait {
        let _ = record.home.turn_of_task(record.key()).await;
    }
    record.sink(level);
    given_up.forget();
}

/// A guard for [`Loading`]. A drop without `finish` releases without a turn for others.
///
/// The section belongs to no thread. A blocking call beside it waits for it: on the guard's own thread for
/// ever, except [`run`](Interlock::run) inside its own execution, which panics. So only tasks may use the
/// interlock inside it.
///
/// ```
/// # use std::{pin::pin, task::{Context, Waker}};
/// let interlock = cabrank::Interlock::new();
/// let mut running = interlock.enter();
/// let mut loading = pin!(running.load_async());
/// let polled = loading.as_mut().poll(&mut Context::from_waker(Waker::noop()));
/// assert!(polled.is_ready()); // no other execution runs
/// ```
#[must_use = "it releases when it is dropped"]
#[derive(Debug)]
pub struct LoadingGuard<'a> {
    loading: Loading<'a>,
    pub(super) hold: Exclusive<'a>,
}

/// A guard for [`Unloading`]. A drop without `finish` releases without a turn for others.
///
/// ```
/// # use std::{pin::pin, task::{Context, Waker}};
/// let interlock = cabrank::Interlock::new();
/// let mut running = interlock.enter();
/// let mut unloading = pin!(running.unload_async());
/// let polled = unloading.as_mut().poll(&mut Context::from_waker(Waker::noop()));
/// assert!(polled.is_ready()); // no other execution runs
/// ```
#[must_use = "it releases when it is dropped"]
#[derive(Debug)]
pub struct UnloadingGuard<'a> {
    unloading: Unloading<'a>,
    pub(super) hold: Exclusive<'a>,
}

impl LoadingGuard<'_> {
    /// Returns the right to load. It borrows the guard, so it cannot be swapped with another one's or outlive
    /// the section.
    ///
    /// ```compile_fail,E0505
    /// # use cabrank::execution::interlock::{Loaded, LoadingGuard};
    /// fn kept(version: &Loaded<u32>, mut first: LoadingGuard<'_>, mut second: LoadingGuard<'_>) {
    ///     let (mut one, mut other) = (first.loading(), second.loading());
    ///     std::mem::swap(&mut one, &mut other);
    ///     drop(first);
    ///     version.set(2, &mut other);
    /// }
    /// ```
    /// ```compile_fail,E0596
    /// # use cabrank::execution::interlock::LoadingGuard;
    /// fn swapped(first: &mut LoadingGuard<'_>, second: &mut LoadingGuard<'_>) {
    ///     std::mem::swap(&mut **first, &mut **second);
    /// }
    /// ```
    pub fn loading(&mut self) -> Loading<'_> {
        Loading::new(self.hold.section())
    }
    /// Ends the section, lets others that wait to load have their turn, and gets the share back.
    ///
    /// # Cancel safety
    /// The section has ended; for the share, as for [`Running::permit_loads_async`].
    pub async fn finish(self) {
        finish(self.hold, true).await;
    }
}
impl UnloadingGuard<'_> {
    /// Returns the right to unload; see [`LoadingGuard::loading`].
    ///
    /// ```compile_fail,E0505
    /// # use cabrank::execution::interlock::{Loaded, UnloadingGuard};
    /// fn kept(version: &Loaded<u32>, mut first: UnloadingGuard<'_>, mut second: UnloadingGuard<'_>) {
    ///     let (mut one, mut other) = (first.unloading(), second.unloading());
    ///     std::mem::swap(&mut one, &mut other);
    ///     drop(first);
    ///     version.clear(&mut other);
    /// }
    /// ```
    /// ```compile_fail,E0596
    /// # use cabrank::execution::interlock::UnloadingGuard;
    /// fn swapped(first: &mut UnloadingGuard<'_>, second: &mut UnloadingGuard<'_>) {
    ///     std::mem::swap(&mut **first, &mut **second);
    /// }
    /// ```
    pub fn unloading(&mut self) -> Unloading<'_> {
        Unloading::new(self.hold.section())
    }
    /// Ends the section, lets others that wait to load or unload have their turn, and gets the share
    /// back.
    ///
    /// # Cancel safety
    /// As for [`LoadingGuard::finish`].
    pub async fn finish(self) {
        finish(self.hold, true).await;
    }
}

impl<'a> Deref for LoadingGuard<'a> {
    type Target = Loading<'a>;
    fn deref(&self) -> &Loading<'a> {
        &self.loading
    }
}
impl<'a> Deref for UnloadingGuard<'a> {
    type Target = Unloading<'a>;
    fn deref(&self) -> &Unloading<'a> {
        &self.unloading
    }
}
