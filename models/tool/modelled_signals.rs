//! The signals without a lock, as the models see them: each operation is one step on one object that the
//! scheduler knows.
//!
//! Each operation is a read-modify-write, even a read. The slot of the waker is an exchange, as `AtomicWaker`
//! promises. No time passes under either tool. Parking under shuttle also ends spuriously.

#[cfg(feature = "loom")]
use loom as rt;
#[cfg(not(feature = "loom"))]
use shuttle as rt;

use super::published::{Published, Write};
use super::trace::about_to;
use crate::kernel::sync::orderings::{FLAGS_READ, FLAGS_UPDATE};
use rt::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Flags {
    step: AtomicUsize,
    value: AtomicU32,
    published: Published,
}

impl Flags {
    pub(crate) fn new(value: u32) -> Self {
        let (step, value) = (AtomicUsize::new(0), AtomicU32::new(value));
        Flags { step, value, published: Published::default() }
    }
    #[track_caller]
    pub(crate) fn read(&self) -> u32 {
        about_to("read").done();
        self.step.fetch_add(1, FLAGS_READ);
        self.published.seen();
        self.value.load(Relaxed)
    }
    #[track_caller]
    pub(crate) fn update(&self, change: impl Fn(u32) -> u32) -> u32 {
        about_to("update").done();
        let write = Write::before_change();
        self.step.fetch_add(1, FLAGS_UPDATE);
        self.published.changed(write);
        // Until this thread takes its next step, no other thread runs.
        let before = self.value.load(Relaxed);
        self.value.store(change(before), Relaxed);
        before
    }
}

#[derive(Debug, Default)]
pub(crate) struct WakerSlot {
    step: Step,
    waker: Mutex<Option<Waker>>,
}

#[derive(Debug)]
struct Step(AtomicUsize);
impl Default for Step {
    fn default() -> Self {
        Step(AtomicUsize::new(0))
    }
}

impl WakerSlot {
    /// Fails the model where the waker's clone or the former waker's drop panics.
    #[track_caller]
    pub(crate) fn show(&self, waker: &Waker) {
        about_to("show waker").done();
        drop(self.exchange(Some(waker.clone())));
    }
    #[track_caller]
    pub(crate) fn take(&self) -> Option<Waker> {
        about_to("take waker").done();
        self.exchange(None)
    }
    fn exchange(&self, waker: Option<Waker>) -> Option<Waker> {
        self.step.0.fetch_add(1, AcqRel);
        // Never contended: until this thread takes its next step, no other thread runs.
        let mut slot = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *slot, waker)
    }
}

/// Parks by the tool's own `park`. A thread is unparked only while it is parked: loom's locks do not bear a token
/// left behind.
pub(crate) struct Parker {
    shared: Arc<Parking>,
    waker: Waker,
}

struct Parking {
    thread: rt::thread::Thread,
    step: AtomicUsize,
    token: AtomicBool,
    parked: AtomicBool,
}

impl Wake for Parking {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        about_to("unpark").done();
        self.step.fetch_add(1, AcqRel);
        // From here to the end of the function, as in `park_until`, no other thread runs.
        self.token.store(true, Relaxed);
        if self.parked.load(Relaxed) {
            self.thread.unpark();
        }
    }
}

impl Parker {
    pub(crate) fn of_this_thread() -> Self {
        let shared = Arc::new(Parking {
            thread: rt::thread::current(),
            step: AtomicUsize::new(0),
            token: AtomicBool::new(false),
            parked: AtomicBool::new(false),
        });
        Parker { waker: Waker::from(shared.clone()), shared }
    }
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
    /// Sleeps until it is woken. A model's manual clock wakes the thread at its deadline.
    #[track_caller]
    pub(crate) fn park_until(&self, _: Option<Instant>) {
        let step = about_to("park");
        self.shared.step.fetch_add(1, AcqRel);
        if !self.shared.token.load(Relaxed) {
            self.shared.parked.store(true, Relaxed);
            rt::thread::park();
            self.shared.parked.store(false, Relaxed);
        }
        self.shared.token.store(false, Relaxed);
        step.done();
    }
}
