//! A reload is asked for while somebody reloads a change that somebody else has found, too.
//!
//! Guards where `Execution::begin` notes that one was asked for: under its share. Noted while somebody unloads, it
//! would be taken up by whoever waits to unload behind that one, and the world reloaded once more between the
//! first one's reload and its body. And that it is noted at all. Asserted: each body runs after one reload, the
//! change's; what was asked for is a second one.
//!
//! The two are tasks of one thread: both are let in by the end of a load, so both look before either unloads.

use crate::models::rig::*;
use crate::models::world::World;

#[test]
fn reload_now_x_reload() {
    explore("reload_now_x_reload", &["two reloads"], |outcomes| {
        let (world, builder) = World::new(2);
        let reloader = builder.build().expect("valid");
        let interlock = reloader.executor().interlock().expect("it has one");
        let mut loader = interlock.enter();
        let loading = block_on(loader.load_async()).expect("nobody else runs");
        let [mut first, mut second] = [(); 2].map(|()| {
            Box::pin(reloader.wrap_async(async |_| {
                assert_eq!(world.unloads(), 1, "reloaded between its reload and its body");
                assert_eq!(world.look(), 2);
                Ok(())
            }))
        });
        assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
        drop(loading);
        drop(loader);
        assert!(poll_once(first.as_mut()).is_pending(), "the second runs");
        let theirs = reloader.clone();
        world.amid_unload(move || theirs.reload_now().expect("it succeeds"));
        assert!(poll_once(second.as_mut()).is_pending(), "it lets the first have its turn");
        assert!(poll_once(first.as_mut()).is_ready() && poll_once(second.as_mut()).is_ready());
        world.join();
        assert_eq!(world.unloads(), 2);
        outcomes.note("two reloads");
    });
}
