//! User code calls the pool back while the pool is closed: a process's answers, a spawn's cancel hook, a spawn error.
//!
//! The in-memory spawner calls back in other places only, so these models have a spawner of their own.

use crate::ManualClock;
use crate::application_pool::{
    CancelToken, ConnectError, GetError, Process, ShutDown, SpawnError, SpawnRequest, Spawner,
};
use crate::kernel::sync::thread::inline;
use crate::models::rig::*;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// A spawner that is its own process: each spawn returns a clone.
#[derive(Clone, Default)]
struct Caller {
    /// Entered when the pool asks the process for its properties.
    questions: Reentry,
    /// The hook that the next spawn registers for its cancellation.
    hook: Arc<Mutex<Option<Hook>>>,
    /// The error of the next spawn.
    refusal: Arc<Mutex<Option<Refusal>>>,
    shut_down: Arc<AtomicUsize>,
}

impl Spawner for Caller {
    type Process = Caller;

    fn spawn(&self, request: &SpawnRequest) -> Result<Caller, SpawnError> {
        // Weak, because a hook that kept the token would keep itself alive.
        let token = Arc::new(request.cancel().clone());
        if let Some(hook) = self.hook.lock().expect("the lock is not poisoned").take() {
            let token = Arc::downgrade(&token);
            request.cancel().on_cancel(move || hook.call(&token));
        }
        match self.refusal.lock().expect("the lock is not poisoned").take() {
            Some(refusal) => Err(SpawnError::new(refusal)),
            None => Ok(self.clone()),
        }
    }
}

impl Process for Caller {
    type Connection = ();

    fn connect(&self) -> Result<(), ConnectError> {
        Ok(())
    }
    fn concurrency(&self) -> Option<NonZeroUsize> {
        self.questions.enter();
        Some(NonZeroUsize::MIN)
    }
    fn pid(&self) -> Option<u32> {
        self.questions.enter();
        None
    }
    fn shut_down(&self, _: ShutDown) {
        self.shut_down.fetch_add(1, Ordering::SeqCst);
    }
}

fn pool_of(caller: &Caller) -> crate::ApplicationPool<Caller> {
    let clock = ManualClock::new();
    let builder = crate::ApplicationPool::builder(caller.clone()).clock(clock.clock());
    builder.cleaner(false).max(1).build().expect("a valid pool")
}

/// Guards that `Inner::spawn` asks the process (`concurrency`, `pid`) without the lock and before it is attached.
/// Under the lock, a callback that re-enters the pool deadlocks.
///
/// Asserted: a get made by either callback finds no process, or a closed pool. A closed pool stays closed, and the
/// process is shut down once.
#[test]
fn asked_process_x_close() {
    let expected = ["open, open", "open, closed", "closed, closed"];
    explore(Model("asked_process_x_close", 120), &expected, |outcomes| {
        let caller = Caller::default();
        let pool = pool_of(&caller);
        let found: Arc<Mutex<Vec<&str>>> = Arc::default();
        let (weak, finds) = (pool.downgrade(), found.clone());
        caller.questions.enable(move || {
            let pool = weak.upgrade().expect("a close waits for the spawn");
            let it_is = match pool.try_get(&app("a")) {
                Err(GetError::WouldBlock) => "open",
                Err(GetError::Closed) => "closed",
                other => panic!("{:?}", other.map(drop)),
            };
            finds.lock().expect("the lock is not poisoned").push(it_is);
        });
        assert!(matches!(pool.try_get(&app("a")), Err(GetError::WouldBlock)));
        pool.close();
        assert!(pool.wait_closed(DRAIN), "a closed pool becomes empty");
        assert_eq!(caller.shut_down.load(Ordering::SeqCst), 1);
        outcomes.note(found.lock().expect("the lock is not poisoned").join(", "));
    });
}

/// Looks at its token and at the pool when it is called, and at the pool again when it is dropped.
struct Hook {
    reentry: Reentry,
    /// The thread that closes the pool.
    closer: usize,
    outcome: &'static str,
    outcomes: crate::models::tool::explore::Outcomes,
    dropped: Counter,
}

impl Hook {
    fn call(mut self, token: &Weak<CancelToken>) {
        self.reentry.enter();
        if let Some(token) = token.upgrade() {
            assert!(token.is_cancelled(), "the hook was called before the cancellation");
        }
        let by_closer = crate::kernel::sync::me() == self.closer;
        self.outcome = if by_closer { "called by the close" } else { "called at once" };
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.reentry.enter();
        if !crate::kernel::sync::has_failed() {
            self.outcomes.note(self.outcome);
            self.dropped.up();
        }
    }
}

/// Guards three places that run the hook, or drop it, without a lock:
/// - `State::give_up_spawn` leaves the cancellation to an effect;
/// - `CancelToken` calls its hooks without its own lock, whether registered before the cancellation or after it;
/// - `Reservation::end` drops a hook that was never called after its section.
///
/// Under a lock, a hook that re-enters the pool deadlocks. Asserted: the hook is called at most once, by the close or
/// by its registration, and dropped once.
#[test]
fn cancel_hook_x_close() {
    let expected = ["called at once", "called by the close", "never called"];
    explore(Model("cancel_hook_x_close", 639), &expected, |outcomes| {
        let caller = Caller::default();
        let pool = pool_of(&caller);
        let (reentry, dropped) = (Reentry::default(), Counter::new());
        enable_for(&reentry, &pool);
        let hook = Hook {
            reentry,
            closer: crate::kernel::sync::me(),
            outcome: "never called",
            outcomes: outcomes.clone(),
            dropped: dropped.clone(),
        };
        *caller.hook.lock().expect("the lock is not poisoned") = Some(hook);
        assert!(matches!(pool.try_get(&app("a")), Err(GetError::WouldBlock)));
        pool.close();
        dropped.wait(1);
        assert!(pool.wait_closed(DRAIN), "a closed pool becomes empty");
        assert_eq!(caller.shut_down.load(Ordering::SeqCst), 1);
    });
}

/// An error that calls the pool when it is displayed and when it is dropped.
struct Refusal(Reentry);

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Refusal")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.enter();
        f.write_str("no database")
    }
}

impl std::error::Error for Refusal {}

impl Drop for Refusal {
    fn drop(&mut self) {
        self.0.enter();
    }
}

/// Guards that `Inner::snapshot` formats a group's error after its section, and that `State::forget_history` defers
/// the drop of the error. Under the lock, an error that re-enters the pool deadlocks. Asserted: the snapshot shows
/// the error, or the close has forgotten it, whichever of the two drops the last reference.
#[test]
fn shown_error_x_close() {
    let expected = ["forgotten", "shown"];
    explore(Model("shown_error_x_close", 36), &expected, |outcomes| {
        let (caller, reentry) = (Caller::default(), Reentry::default());
        let pool = pool_of(&caller);
        enable_for(&reentry, &pool);
        *caller.refusal.lock().expect("the lock is not poisoned") = Some(Refusal(reentry));
        let refused = inline(|| pool.get(&app("a")).map(drop));
        assert!(matches!(refused, Err(GetError::Spawn(_))));
        drop(refused);
        let theirs = pool.clone();
        let closer = spawn(move || theirs.close());
        let groups = pool.snapshot().groups;
        closer.join().expect("no panic");
        let shown = groups.first().and_then(|group| group.last_error.as_deref());
        outcomes.note(match shown {
            Some("no database") => "shown",
            None => "forgotten",
            Some(other) => panic!("{other}"),
        });
    });
}
