//! A reload is requested during another reload, whose change a second execution has found, too.
//!
//! Guards that `Execution::begin` notes the request under its share. Noted during an unload instead, it would be
//! taken up by the next execution that waits to unload. That one would reload once more, between the first one's
//! reload and its body. Guards too that the request is noted at all. Asserted: each body runs after one reload, that
//! of the change; the requested reload is a second one.
//!
//! The two executions are tasks of one thread. The end of a load lets both in, so both look before either unloads.

use crate::models::rig::*;
use crate::models::world::World;

#[test]
fn reload_now_x_reload() {
    explore("reload_now_x_reload", &["two reloads"], |outcomes| {
        let (world, builder) = World::new(2);
        let reloader = builder.build().expect("valid");
        let interlock = reloader.executor().interlock().expect("it has one");
        let mut loader = interlock.enter();
        let loading = block_on(loader.load_async()).expect("no other execution runs");
        let [mut first, mut second] = [(); 2].map(|()| {
            Box::pin(reloader.wrap_async(async |_| {
                assert_eq!(
                    world.unloads(),
                    1,
                    "a second reload came between its reload and its body"
                );
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
