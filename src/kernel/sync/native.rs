//! The native facade: parking_lot's locks, and atomics.

use super::orderings::FLAG;
pub(crate) use parking_lot::{Condvar, MutexGuard};
pub(crate) use std::sync::Arc;

/// parking_lot's lock, for which a thread spins a little longer before it parks.
///
/// Sections are O(1) and call no user code, so a lock is free again soon. A thread that parks at once often
/// has a resource to return, and a queue forms for that resource meanwhile. A queue that is served in order does not
/// dissolve while its threads come again, and each hand-off then costs a change of threads. In the column
/// "8 threads, pool of 2" of `benches/README.md` a borrow takes a hundred times as long without these spins.
#[derive(Debug)]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex(parking_lot::Mutex::new(value))
    }
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.try_lock().unwrap_or_else(|| self.spin_then_lock())
    }
    /// Reaches the value without the lock: only the caller has it.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    #[cold]
    fn spin_then_lock(&self) -> MutexGuard<'_, T> {
        for _ in 0..LOOKS {
            // Each look takes the lock's cache line from its holder.
            (0..SPINS_PER_LOOK).for_each(|_| std::hint::spin_loop());
            if !self.0.is_locked() {
                if let Some(guard) = self.0.try_lock() {
                    return guard;
                }
            }
        }
        self.0.lock()
    }
}

/// Unlocks, and passes the lock to the thread that has waited longest.
pub(crate) fn unlock_fairly<T>(guard: MutexGuard<'_, T>) {
    MutexGuard::unlock_fair(guard);
}

/// In all some ten microseconds: what it costs to park and be woken.
const LOOKS: u32 = 24;
const SPINS_PER_LOOK: u32 = 64;

/// Returns whether a model has failed and unwinds. A drop may take no step then.
#[inline]
pub(crate) const fn has_failed() -> bool {
    false
}

/// A flag that is read without a lock.
#[derive(Debug)]
pub(crate) struct Flag(std::sync::atomic::AtomicBool);

impl Flag {
    pub(crate) const fn new(value: bool) -> Self {
        Flag(std::sync::atomic::AtomicBool::new(value))
    }
    pub(crate) fn raise(&self) {
        self.0.store(true, FLAG);
    }
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(FLAG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::mpsc::{Sender, channel};
    use std::thread;
    use std::time::Duration;

    /// Returns the path of a file that says whether the calling thread sleeps.
    #[cfg(target_os = "linux")]
    fn own_state() -> std::path::PathBuf {
        let own = std::fs::read_link("/proc/thread-self").expect("the thread is there");
        std::path::Path::new("/proc").join(own).join("stat")
    }
    #[cfg(target_os = "linux")]
    fn sleeps(state: &std::path::Path) -> bool {
        let state = std::fs::read_to_string(state).expect("the thread is there");
        // The name before it may contain any character.
        state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
    }

    /// Two threads sleep until they get the lock. The first one unlocks and at once tries to lock again: the lock is the
    /// second one's. After an ordinary unlock, the first one may have it again before the second one has woken.
    ///
    /// An earlier version let five milliseconds pass instead of asking whether both threads sleep, and the second one did
    /// not keep the lock until the first one had looked. On a busy machine either came too late in most turns.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_fair_unlock_passes_the_lock_on() {
        const TURNS: usize = 20;
        let lock = Mutex::new(());
        let turn = |_: &usize| {
            let (is_taken, has_looked) = (AtomicBool::new(false), AtomicBool::new(false));
            let waits = |begins: Sender<_>| {
                begins.send(own_state()).expect("the test waits");
                let held = lock.lock();
                if is_taken.swap(true, SeqCst) {
                    while !has_looked.load(SeqCst) {
                        thread::yield_now();
                    }
                    return false;
                }
                unlock_fairly(held);
                let passed_on = lock.0.try_lock().is_none();
                has_looked.store(true, SeqCst);
                passed_on
            };
            let held = lock.lock();
            let (begins, begun) = channel();
            thread::scope(|scope| {
                let waiters = [(); 2].map(|()| {
                    let (begins, waits) = (begins.clone(), &waits);
                    scope.spawn(move || waits(begins))
                });
                for state in begun.iter().take(2) {
                    while !sleeps(&state) {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
                drop(held);
                waiters.map(|waiter| waiter.join().expect("no panic")).contains(&true)
            })
        };
        let passed = (0..TURNS).filter(turn).count();
        // A thread may sleep for another reason before it waits for the lock.
        assert!(passed + 1 >= TURNS, "{passed} of {TURNS} unlocks passed the lock on");
    }
}
