//! The target's last owner lets go of it while the executor is about to call it.
//!
//! The executor keeps the target for the time of a call, so the last reference may be its own, and the
//! target be dropped on its thread. Asserted in all: the executor ends; the target is dropped once.

use crate::models::periodic_executor::rig::*;
use crate::periodic_executor::CloseOnDrop;
use crate::sync::{Arc, me};
use std::sync::{Mutex, OnceLock};

const WAYS: [&str; 2] = ["dropped by its owner", "dropped by the executor"];

/// Guards the close in the drop of a `CloseOnDrop`: without it, an executor whose target goes while it sleeps
/// sleeps on. Asserted besides: the tie's drop takes no lock, wherever it happens.
#[test]
fn periodic_drop_x_upgrade() {
    explore("periodic_drop_x_upgrade", &WAYS, |outcomes| {
        struct Owner {
            tie: Mutex<Option<CloseOnDrop>>,
            dropped_by: Arc<OnceLock<usize>>,
        }
        impl Drop for Owner {
            fn drop(&mut self) {
                let tie = self.tie.get_mut().expect("no panic").take();
                lock_free(|| drop(tie));
                self.dropped_by.set(me()).expect("dropped once");
            }
        }
        let dropped_by = Arc::new(OnceLock::new());
        let owner = Arc::new(Owner { tie: Mutex::default(), dropped_by: dropped_by.clone() });
        let executor = builder().weak_ref(Arc::downgrade(&owner), |_: &Arc<Owner>| Flow::Continue);
        *owner.tie.lock().expect("no panic") = Some(executor.close_on_drop());
        executor.open().expect("a thread");
        drop(owner);
        let joined = executor.join().expect("no panic");
        assert!(matches!(joined, Joined::Closed | Joined::TargetGone), "{joined:?}");
        let by = *dropped_by.get().expect("it is gone");
        outcomes.note(if by == me() { WAYS[0] } else { WAYS[1] });
    });
}

/// An owner that closes its executor and waits for it, in its drop.
///
/// Guards that a join knows its own thread (`Core::is_inside`): without that, an executor that drops its
/// target waits for itself.
#[test]
fn periodic_drop_x_own_join() {
    explore("periodic_drop_x_own_join", &WAYS, |outcomes| {
        struct Owner {
            executor: OnceLock<PeriodicExecutor>,
            joined: Arc<OnceLock<Joined>>,
        }
        impl Drop for Owner {
            fn drop(&mut self) {
                let executor = self.executor.get().expect("it has one");
                executor.close();
                if !crate::sync::has_failed() {
                    let joined = executor.join().expect("no panic");
                    self.joined.set(joined).expect("dropped once");
                }
            }
        }
        let joined = Arc::new(OnceLock::new());
        let owner = Arc::new(Owner { executor: OnceLock::new(), joined: joined.clone() });
        let executor = builder().weak_ref(Arc::downgrade(&owner), |_: &Arc<Owner>| Flow::Continue);
        owner.executor.set(executor.clone()).expect("it had none");
        executor.open().expect("a thread");
        drop(owner);
        executor.join().expect("no panic");
        let by_executor = joined.get() == Some(&Joined::Itself);
        assert!(joined.get().is_some(), "it is gone");
        outcomes.note(if by_executor { WAYS[1] } else { WAYS[0] });
    });
}
