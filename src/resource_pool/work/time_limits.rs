//! Time limits of the factory's calls, by the timer of the runtime that the pool was built with.
//!
//! A call that takes too long is dropped, and its resource is destroyed. Without a runtime, and with a manual clock,
//! there are no limits. If the runtime ends, the listener is notified, and there are none until it takes tasks again. If its
//! timer panics, the listener is notified once, and there are none from then on.

use super::inner::Inner;
use crate::kernel::any_runtime::{Timer, TimerEnd};
use crate::resource_pool::api::error::Failure;
use crate::resource_pool::api::event::Event;
use crate::resource_pool::api::factory::{Creation, Form};
use crate::resource_pool::state::state::State;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Awaits a call of the factory, within the time limit of that name.
// A macro, not a function: without a limit, the call is polled in place.
macro_rules! limited {
    ($pool:expr, $limit:ident, $call:expr) => {
        match $pool.options.$limit {
            None => $call.await,
            Some(time) => $pool.limited(time, $call).await,
        }
    };
}
pub(crate) use limited;

/// The end of a call's time.
pub(crate) struct Limit {
    at: Instant,
    /// The first poll sets it.
    timer: Option<Timer>,
    /// The runtime has ended, so there is no limit any more.
    is_lost: bool,
}

impl Limit {
    pub(crate) fn poll<F: Form>(&mut self, pool: &Inner<F>, cx: &mut Context<'_>) -> Poll<()> {
        match self.poll_end(pool, cx) {
            Poll::Ready(TimerEnd::InTime) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// The same, and says if the timer is lost, or panics.
    pub(crate) fn poll_end<F: Form>(
        &mut self,
        pool: &Inner<F>,
        cx: &mut Context<'_>,
    ) -> Poll<TimerEnd> {
        let (Some(runtime), false) = (pool.runtime.get(), self.is_lost) else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Timer::new(runtime, self.at));
        let end = std::task::ready!(timer.poll(cx));
        self.is_lost = end != TimerEnd::InTime;
        match end {
            TimerEnd::InTime => {}
            TimerEnd::WithoutRuntime => pool.note_runtime_end(),
            TimerEnd::Panicked => pool.report_runtime_end(),
        }
        Poll::Ready(end)
    }
}

impl<F: Form> Inner<F> {
    /// Returns a limit that begins now.
    fn limit(&self, time: Option<Duration>) -> Option<Limit> {
        let runtime = self.runtime.get().filter(|runtime| !runtime.has_ended());
        let time = time.filter(|_| runtime.is_some_and(|runtime| !runtime.timers_panic()))?;
        let at = self.clock().deadline(time).instant()?;
        Some(Limit { at, timer: None, is_lost: false })
    }

    /// Sleeps for this time, if there are timers.
    pub(crate) async fn pause(&self, time: Duration) {
        if let Some(mut end) = self.limit(Some(time)) {
            poll_fn(|cx| end.poll_end(self, cx)).await;
        }
    }

    /// Notifies the listener once that the runtime has ended.
    #[cold]
    pub(crate) fn report_runtime_end(&self) {
        let Some(runtime) = self.runtime.get() else { return };
        if runtime.reports() {
            let a_key =
                |state: &State<F>| state.subs.iter().next().map(|(_, sub)| sub.metadata.clone());
            if let Some(meta) = self.state.look(a_key) {
                self.report(&meta, Event::RuntimeEnded);
            }
        }
    }

    /// Returns when a creation that begins now is overdue (`orders.rs`).
    pub(crate) fn overdue_limit(&self) -> Option<Limit> {
        self.limit(self.options.overdue_after)
    }

    /// Begins a creation. With a runtime, its time is limited.
    pub(crate) fn creation(
        &self,
        meta: &crate::resource_pool::state::names::Meta<F>,
    ) -> Creation<F> {
        let mut creation = F::create(self.factory.clone(), meta.clone());
        let limit = self.limit(self.options.create_timeout);
        let (Some(mut limit), Some(pool)) = (limit, self.me.upgrade()) else {
            return self.observed.creation::<F>(creation);
        };
        self.observed.creation::<F>(Box::pin(poll_fn(move |cx| match creation.as_mut().poll(cx) {
            Poll::Pending => limit.poll(&pool, cx).map(|()| Err(Failure::TimedOut)),
            made => made,
        })))
    }

    /// Awaits a call of the factory. Returns an error, and drops the call, once it has taken longer than `time`.
    ///
    /// The time begins when the call first pends, so a call that is ready at once costs no look at the clock.
    pub(crate) async fn limited<T>(
        &self,
        time: Duration,
        call: impl Future<Output = Result<T, Box<Failure<F::Error>>>>,
    ) -> Result<T, Box<Failure<F::Error>>> {
        self.in_time(Some(time), pin!(call))
            .await
            .unwrap_or_else(|| Err(Box::new(Failure::TimedOut)))
    }

    /// Awaits a call. Returns `None` once it has taken longer than `time`, if there is one.
    // No `async fn`: that would have room for its arguments twice.
    pub(crate) fn in_time<T>(
        &self,
        time: Option<Duration>,
        mut call: Pin<&mut impl Future<Output = T>>,
    ) -> impl Future<Output = Option<T>> {
        let mut limit = None;
        poll_fn(move |cx| match call.as_mut().poll(cx) {
            // Boxed, because most calls are ready at once, and then have no room for it.
            Poll::Pending => match limit.get_or_insert_with(|| self.limit(time).map(Box::new)) {
                Some(limit) => limit.poll(self, cx).map(|()| None),
                None => Poll::Pending,
            },
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
        })
    }

    /// Tests a resource.
    pub(crate) async fn validate(
        &self,
        metadata: &F::Metadata,
        resource: &mut F::Resource,
    ) -> Result<(), Box<Event<F::Error>>> {
        let test = self.factory.validate(metadata, resource);
        match limited!(self, validate_timeout, test).map_err(|why| *why) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Box::new(Event::Invalid)),
            Err(Failure::Panicked(message)) => Err(Box::new(Event::ValidatePanicked(message))),
            Err(Failure::TimedOut) => Err(Box::new(Event::ValidateTimedOut)),
            Err(Failure::Error(_)) => unreachable!("a test returns no error of the factory's"),
        }
    }
}
