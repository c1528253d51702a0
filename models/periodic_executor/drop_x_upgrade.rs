//! The target's last owner drops it while the executor is about to call it.
//!
//! A call keeps the target alive. So the executor may own the last reference, and then drops the target on its
//! own thread. Each model asserts that the executor ends, and that the target is dropped once.

use crate::kernel::sync::{Arc, me};
use crate::models::periodic_executor::rig::*;
use crate::periodic_executor::CloseOnDrop;
use std::sync::{Mutex, OnceLock};

const WAYS: [&str; 2] = ["dropped by its owner", "dropped by the executor"];

/// The target owns a `CloseOnDrop`.
///
/// Guards the close in its drop: without it, an executor sleeps on that was asleep when its target went.
/// Also asserts that this drop takes no lock, on either thread.
#[test]
fn periodic_drop_x_upgrade() {
    explore(Model("periodic_drop_x_upgrade", 456), &WAYS, |outcomes| {
        struct Owner {
            closes: Mutex<Option<CloseOnDrop>>,
            dropped_by: Arc<OnceLock<usize>>,
        }
        impl Drop for Owner {
            fn drop(&mut self) {
                let closes = self.closes.get_mut().expect("no panic").take();
                lock_free(|| drop(closes));
                self.dropped_by.set(me()).expect("dropped once");
            }
        }
        let dropped_by = Arc::new(OnceLock::new());
        let owner = Arc::new(Owner { closes: Mutex::default(), dropped_by: dropped_by.clone() });
        let executor =
            builder().build_weak_ref(Arc::downgrade(&owner), |_: &Arc<Owner>| Flow::Continue);
        *owner.closes.lock().expect("no panic") = Some(executor.close_on_drop());
        executor.open().expect("a thread");
        drop(owner);
        let joined = executor.join().expect("no panic");
        assert!(matches!(joined, Joined::Closed | Joined::TargetGone), "{joined:?}");
        let by = *dropped_by.get().expect("the target was dropped");
        outcomes.note(if by == me() { WAYS[0] } else { WAYS[1] });
    });
}

/// The target closes its executor in its drop, and joins it.
///
/// Guards `Core::is_inside`, by which a join knows its own thread: without it, an executor that drops its target
/// waits for itself.
#[test]
fn periodic_drop_x_own_join() {
    explore(Model("periodic_drop_x_own_join", 456), &WAYS, |outcomes| {
        struct Owner {
            executor: OnceLock<PeriodicExecutor>,
            joined: Arc<OnceLock<Joined>>,
        }
        impl Drop for Owner {
            fn drop(&mut self) {
                let executor = self.executor.get().expect("the owner has an executor");
                executor.close();
                if !crate::kernel::sync::has_failed() {
                    let joined = executor.join().expect("no panic");
                    self.joined.set(joined).expect("dropped once");
                }
            }
        }
        let joined = Arc::new(OnceLock::new());
        let owner = Arc::new(Owner { executor: OnceLock::new(), joined: joined.clone() });
        let executor =
            builder().build_weak_ref(Arc::downgrade(&owner), |_: &Arc<Owner>| Flow::Continue);
        owner.executor.set(executor.clone()).expect("the owner had no executor");
        executor.open().expect("a thread");
        drop(owner);
        executor.join().expect("no panic");
        let by_executor = joined.get() == Some(&Joined::Itself);
        assert!(joined.get().is_some(), "the target was dropped");
        outcomes.note(if by_executor { WAYS[1] } else { WAYS[0] });
    });
}
