//! The modelled facade: the same vocabulary over loom or shuttle. Each operation is logged (`trace.rs`).

#[cfg(feature = "loom")]
use loom as rt;
#[cfg(not(feature = "loom"))]
use shuttle as rt;

use super::trace::about_to;
use crate::kernel::sync::orderings::FLAG;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::AcqRel;

/// parking_lot's interface, without poisoning, over one like `std`'s.
#[derive(Debug)]
pub(crate) struct Mutex<T>(rt::sync::Mutex<T>);
pub(crate) struct MutexGuard<'a, T>(Option<rt::sync::MutexGuard<'a, T>>);
#[derive(Debug)]
pub(crate) struct Condvar(rt::sync::Condvar);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(rt::sync::Mutex::new(value))
    }
    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        held::may_be_taken("a lock is taken");
        let step = about_to("lock");
        // A lock is poisoned by a failed assertion, whose panic is the report.
        let guard = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        step.done();
        held::taken();
        MutexGuard(Some(guard))
    }
    /// Reaches the value without the lock, and without a step: only the caller has it.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect("only absent inside wait")
    }
}
impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("only absent inside wait")
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Condvar(rt::sync::Condvar::new())
    }
    #[track_caller]
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let step = about_to("wait");
        let inner = guard.0.take().expect("only absent inside wait");
        held::released();
        guard.0 = Some(self.0.wait(inner).unwrap_or_else(|poisoned| poisoned.into_inner()));
        held::taken();
        step.done();
    }
    /// Waits without a deadline, because no time passes under either tool. A model's manual clock notifies.
    #[track_caller]
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: std::time::Instant) {
        self.wait(guard);
    }
    #[track_caller]
    pub(crate) fn notify_one(&self) {
        held::may_be_taken("a condition variable is notified");
        about_to("notify_one").done();
        self.0.notify_one();
    }
    #[track_caller]
    pub(crate) fn notify_all(&self) {
        held::may_be_taken("a condition variable is notified");
        about_to("notify_all").done();
        self.0.notify_all();
    }
}

/// Returns whether a model has failed and unwinds. A drop may take no step then.
pub(crate) fn has_failed() -> bool {
    std::thread::panicking()
}

/// A flag that is read without a lock.
#[derive(Debug)]
pub(crate) struct Flag(rt::sync::atomic::AtomicBool);

impl Flag {
    pub(crate) fn new(value: bool) -> Self {
        Flag(rt::sync::atomic::AtomicBool::new(value))
    }
    #[track_caller]
    pub(crate) fn raise(&self) {
        about_to("raise").done();
        // Not a store: loom lets an earlier read-modify-write overtake a plain store. A look under the same lock
        // would then miss the flag.
        self.0.fetch_or(true, FLAG);
    }
    #[track_caller]
    pub(crate) fn is_raised(&self) -> bool {
        about_to("look").done();
        // Not a load, which can end loom's search early.
        self.0.fetch_or(false, FLAG)
    }
}

/// A reference count that the scheduler sees, over `std`'s.
///
/// A clone of a strong reference commutes with each other operation, so only `upgrade` and `drop` are steps. The
/// count itself needs no scheduler, because only one thread runs at a time.
#[derive(Debug)]
pub(crate) struct Arc<T> {
    step: std::sync::Arc<rt::sync::atomic::AtomicUsize>,
    value: Option<std::sync::Arc<T>>,
}
#[derive(Debug)]
pub(crate) struct Weak<T> {
    step: std::sync::Arc<rt::sync::atomic::AtomicUsize>,
    value: std::sync::Weak<T>,
}

impl<T> Arc<T> {
    pub(crate) fn new(value: T) -> Self {
        let step = std::sync::Arc::new(rt::sync::atomic::AtomicUsize::new(0));
        Arc { step, value: Some(std::sync::Arc::new(value)) }
    }
    pub(crate) fn downgrade(this: &Self) -> Weak<T> {
        let value = this.value.as_ref().expect("only absent inside drop");
        Weak { step: this.step.clone(), value: std::sync::Arc::downgrade(value) }
    }
}
impl<T> Clone for Arc<T> {
    fn clone(&self) -> Self {
        Arc { step: self.step.clone(), value: self.value.clone() }
    }
}
impl<T> Deref for Arc<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_ref().expect("only absent inside drop")
    }
}
impl<T> Drop for Arc<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.step.fetch_add(1, AcqRel);
        }
        self.value = None;
    }
}
impl<T> Weak<T> {
    #[track_caller]
    pub(crate) fn upgrade(&self) -> Option<Arc<T>> {
        about_to("upgrade").done();
        self.step.fetch_add(1, AcqRel);
        let value = self.value.upgrade()?;
        Some(Arc { step: self.step.clone(), value: Some(value) })
    }
}
impl<T> Clone for Weak<T> {
    fn clone(&self) -> Self {
        Weak { step: self.step.clone(), value: self.value.clone() }
    }
}

/// Unlocks. Each order of the threads is explored anyway.
pub(crate) fn unlock_fairly<T>(guard: MutexGuard<'_, T>) {
    drop(guard);
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.0.is_some() && !std::thread::panicking() {
            held::released();
            about_to("unlock").done();
        }
    }
}

/// Counts the locks that each thread of the model holds. A thread that calls user code may hold no lock.
pub(crate) mod held {
    std::thread_local! {
        // Indexed by the model's threads, which both tools run on one thread.
        static HELD: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(Vec::new()) };
        // The threads that may take no lock at present.
        static WITHOUT: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    pub(super) fn enter() {
        let me = super::super::me::me();
        WITHOUT.with_borrow_mut(|without| without.push(me));
    }
    pub(super) fn leave() {
        let me = super::super::me::me();
        WITHOUT.with_borrow_mut(|without| {
            let at = without
                .iter()
                .rposition(|&thread| thread == me)
                .expect("each leave follows an enter");
            without.remove(at);
        });
    }
    pub(super) fn may_be_taken(what: &str) {
        if std::thread::panicking() {
            return;
        }
        let me = super::super::me::me();
        let forbidden = WITHOUT.with_borrow(|without| without.contains(&me));
        assert!(!forbidden, "{what} in a lock-free section");
    }
    fn of_mine<R>(f: impl FnOnce(&mut usize) -> R) -> R {
        let me = super::super::me::me();
        HELD.with_borrow_mut(|held| {
            if held.len() <= me {
                held.resize(me + 1, 0);
            }
            f(&mut held[me])
        })
    }
    pub(super) fn taken() {
        of_mine(|held| *held += 1);
    }
    pub(super) fn released() {
        of_mine(|held| *held -= 1);
    }
    /// Resets the counts at the beginning of an execution.
    pub(crate) fn clear() {
        HELD.with_borrow_mut(Vec::clear);
        WITHOUT.with_borrow_mut(Vec::clear);
    }
    pub(crate) fn by_me() -> usize {
        of_mine(|held| *held)
    }
}

/// Runs `section`, and fails the model if it takes a lock or notifies a condition variable.
///
/// Natively a notification takes a lock, too.
pub(crate) fn lock_free<R>(section: impl FnOnce() -> R) -> R {
    held::enter();
    let result = section();
    held::leave();
    result
}
