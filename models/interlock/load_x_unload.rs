//! One execution loads and another unloads.
//!
//! Guards which requests an owner lets go first. A waiting unload lets loads go first, but a waiting load lets no
//! unload go first (PROP-ILK-LOADS-FIRST, INV-ILK-ONE-GENERATION). If a waiting unload let no load go first, both
//! would wait for each other. Asserted: both end, each alone. While both have a share the load comes first,
//! whichever asked first.

use crate::models::interlock::rig::*;
use std::pin::pin;

#[test]
fn interlock_load_x_unload() {
    let expected = ["it did not wait", "it waited"];
    explore(Model("interlock_load_x_unload", 196), &expected, |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let (mut a, mut b) = (owner(&interlock), owner(&interlock));
        let theirs = code.clone();
        let thread = spawn(move || {
            unload(&mut b, || theirs.alone("unload"));
            theirs.runs();
        });
        {
            let mut load = pin!(a.load_async(async |_| code.alone("load")));
            let waits = poll_once(load.as_mut()).is_pending();
            outcomes.note(if waits { "it waited" } else { "it did not wait" });
            if waits {
                block_on(load).expect("no limit");
            }
        }
        code.runs();
        drop(a);
        thread.join().expect("no panic");
        assert_eq!(code.log(), "load, unload");
        assert_eq!(interlock.generation(), 1);
    });
}
