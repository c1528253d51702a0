//! The operating system's threads, and the wait until one is gone.
//!
//! `std`'s handle waits without a deadline, and only once. A [`Thread`] has deadlines and any number of joins. A thread
//! that ends first drops its thread-locals, which is user code, and then notifies its joins. The rest of its end is the
//! system's work and runs no user code, so only the wait for the notification has a deadline.

use parking_lot::{Condvar, Mutex};
use std::cell::RefCell;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, ThreadId};
use std::time::Instant;

pub(crate) use std::thread_local;

/// A thread that was started. The drop of the last clone detaches it.
#[derive(Clone)]
pub(crate) struct Thread(Arc<Shared>);

struct Shared {
    /// The process in which the thread runs. It does not run in a forked child.
    process: u32,
    /// Set when the thread begins.
    id: OnceLock<ThreadId>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// `None` before the spawn has returned, and once a join has taken it.
    handle: Option<JoinHandle<()>>,
    /// The thread has dropped its thread-locals.
    has_left: bool,
    is_gone: bool,
}

/// Starts a detached thread.
pub(crate) fn start(
    name: &str,
    stack_size: Option<usize>,
    f: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    spawn(name, stack_size, f).map(drop)
}

/// Starts a thread, and calls `f` on it with the thread.
pub(crate) fn start_joinable(
    name: &str,
    stack_size: Option<usize>,
    f: impl FnOnce(Thread) + Send + 'static,
) -> io::Result<()> {
    Thread::new().start(name, stack_size, f)
}

fn spawn(
    name: &str,
    stack_size: Option<usize>,
    f: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let mut builder = std::thread::Builder::new().name(name.to_owned());
    if let Some(bytes) = stack_size {
        builder = builder.stack_size(bytes);
    }
    builder.spawn(f)
}

impl Thread {
    fn new() -> Thread {
        let (id, state) = (OnceLock::new(), Mutex::default());
        let process = std::process::id();
        Thread(Arc::new(Shared { process, id, state, changed: Condvar::new() }))
    }

    fn start(
        &self,
        name: &str,
        stack_size: Option<usize>,
        f: impl FnOnce(Thread) + Send + 'static,
    ) -> io::Result<()> {
        let theirs = self.clone();
        let handle = spawn(name, stack_size, move || {
            theirs.begin();
            f(theirs);
        })?;
        // A join may have begun: the thread may already have passed itself on.
        self.change(|state| state.handle = Some(handle));
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.state.lock());
        self.0.changed.notify_all();
    }

    /// Runs first on the new thread, before the thread uses a thread-local.
    fn begin(&self) {
        struct Leaves(RefCell<Option<Thread>>);
        impl Drop for Leaves {
            fn drop(&mut self) {
                if let Some(thread) = self.0.take() {
                    thread.change(|state| state.has_left = true);
                }
            }
        }
        std::thread_local! {
            // A thread drops its locals in the reverse order of their first use. This one is used first.
            static LEAVES: Leaves = const { Leaves(RefCell::new(None)) };
        }
        let _ = self.0.id.set(std::thread::current().id());
        LEAVES.with(|leaves| *leaves.0.borrow_mut() = Some(self.clone()));
    }

    /// Waits until the thread is gone. Returns whether it was in time; true also on the thread itself.
    pub(crate) fn join_by(&self, deadline: Option<Instant>) -> bool {
        let shared = &*self.0;
        let is_mine = shared.id.get() == Some(&std::thread::current().id());
        if is_mine || shared.process != std::process::id() {
            return true;
        }
        let mut state = shared.state.lock();
        while !state.is_gone {
            if let Some(handle) = state.has_left.then(|| state.handle.take()).flatten() {
                drop(state);
                if let Err(panic) = handle.join() {
                    // The library contains panics of user code, so this one is its own. Its payload may panic when
                    // dropped.
                    std::mem::forget(panic);
                }
                self.change(|state| state.is_gone = true);
                return true;
            }
            match deadline {
                None => shared.changed.wait(&mut state),
                Some(at) if Instant::now() >= at => return false,
                Some(at) => _ = shared.changed.wait_until(&mut state, at),
            }
        }
        true
    }

    /// Waits for the system only: does nothing if the thread has not dropped its thread-locals.
    pub(crate) fn reap(&self) {
        let has_left = self.0.state.lock().has_left;
        if has_left {
            self.join_by(None);
        }
    }

    /// Returns whether a join has found the thread gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.state.lock().is_gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Starts a thread that runs until the sender is dropped.
    fn running() -> (Thread, std::sync::mpsc::Sender<()>) {
        let (end, ended) = channel::<()>();
        let (me, thread) = channel();
        let start = start_joinable("joined", None, move |this| {
            me.send(this).expect("it is waited for");
            let _ = ended.recv();
        });
        start.expect("a thread");
        (thread.recv().expect("it says which it is"), end)
    }

    /// The first of them takes the handle. It wakes all others when the thread is gone.
    #[test]
    fn each_of_many_joins_returns() {
        for _ in 0..20 {
            let (thread, end) = running();
            let joins: Vec<_> = (0..4)
                .map(|_| {
                    let (thread, (done, is_done)) = (thread.clone(), channel());
                    std::thread::spawn(move || done.send(thread.join_by(None)));
                    is_done
                })
                .collect();
            drop(end);
            for join in joins {
                assert_eq!(join.recv_timeout(Duration::from_secs(30)), Ok(true));
            }
        }
    }

    /// The thread does not end before the join has returned, so only its handle can wake the join.
    #[test]
    fn a_join_that_began_before_the_spawn_returned_is_notified() {
        let (thread, (end, ended), (begun, has_begun)) =
            (Thread::new(), channel::<()>(), channel());
        let theirs = thread.clone();
        let joins = std::thread::spawn(move || {
            let mut state = theirs.0.state.lock();
            // Under the lock, so that the spawn returns once this waits.
            begun.send(()).expect("it is waited for");
            let late = theirs.0.changed.wait_for(&mut state, Duration::from_secs(30));
            (late.timed_out(), state.handle.is_some())
        });
        has_begun.recv().expect("it waits");
        let runs = move |_| _ = ended.recv();
        thread.start("joined", None, runs).expect("a thread");
        assert_eq!(joins.join().expect("no panic"), (false, true));
        drop(end);
        assert!(thread.join_by(None));
    }

    /// Returns for how long this thread has run on a processor.
    #[cfg(target_os = "linux")]
    fn run_time() -> Duration {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
        let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse().ok());
        Duration::from_nanos(nanos.expect("the first number is the time"))
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_join_with_a_deadline_sleeps_and_ends_in_time() {
        let (thread, end) = running();
        let (begun, ran) = (Instant::now(), run_time());
        let timeout = Duration::from_millis(100);
        assert!(!thread.join_by(Some(begun + timeout)));
        assert!(begun.elapsed() >= timeout);
        assert!(begun.elapsed() < timeout + Duration::from_millis(800), "it sleeps for too long");
        assert!(run_time() - ran < timeout / 2, "it does not sleep");
        drop(end);
        assert!(thread.join_by(None));
    }
}
