//! A waiting future is dropped while its process is freed, with another get behind it.
//!
//! Guards the drop of `Turn`: a get that was granted a session and never took it passes it on. Without that, the
//! process counts as busy for ever and the get behind sleeps (erratum E16). Asserted: the get behind is served,
//! whether the dropped future was still waiting or already granted. The pool ends idle.

use crate::models::rig::*;
use std::pin::pin;

#[test]
fn waiter_x_cancel() {
    explore(Model("waiter_x_cancel", 8_949), &["dropped served", "dropped waiting"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let app = app("a");
        let session = rig.session(&app);
        let mut first = Box::pin(rig.pool.get_async(&app));
        let mut behind = pin!(rig.pool.get_async(&app));
        assert!(rig.reentry.poll_once(first.as_mut()).is_pending());
        assert!(rig.reentry.poll_once(behind.as_mut()).is_pending());
        let closer = spawn(move || drop(session));
        let served = rig.pool.counts().waiting == 1;
        drop(first);
        drop(rig.reentry.block_on(behind).expect("a session"));
        closer.join().expect("no panic");
        assert_eq!(rig.counts(), (0, 1));
        outcomes.note(if served { "dropped served" } else { "dropped waiting" });
    });
}
