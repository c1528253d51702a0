//! Other executions have their turn between the reload of an asynchronous execution and its body, and one of them
//! fails to reload.
//!
//! Guards the loop in `Execution::begin_async`: a body begins once its share is back and the world is whole, not once
//! its own reload has succeeded. Without it, the first body runs on a world that the second has half reloaded.
//! Asserted: the body sees a whole world. If the second reload fails, the first execution makes a third.
//!
//! The second execution reloads last, because its child has left one more reload to make. The first two are tasks of
//! one thread; the child has its own. A load that is given up lets the first execution in once both have begun, so
//! the second waits for the first one's share. (`change_x_failing_reload` is the same for threads, and too large for
//! loom.)

use crate::models::rig::*;
use crate::models::world::World;
use std::task::Poll;

#[test]
fn async_begin_x_failing_reload() {
    let ways = ["both succeed", "the second fails"];
    explore("async_begin_x_failing_reload", &ways, move |outcomes| {
        let (world, builder) = World::new(2);
        let reloader = builder.always().build().expect("valid");
        let mut second = reloader.run().expect("nothing is due");
        let child = second.running().expect("there is an interlock").child();
        drop(reloader.run().expect("nothing is due")); // leaves a reload to the next
        world.fail_second();
        let mut begins = Box::pin(async {
            let mut first = reloader.run_async().await.expect("its own reload succeeds");
            first.within(|_| world.look());
        });
        {
            let mut loader = reloader.executor().interlock().expect("it has one").enter();
            let mut loads = Box::pin(loader.load_async());
            assert!(poll_once(loads.as_mut()).is_pending());
            assert!(poll_once(begins.as_mut()).is_pending(), "it waits to enter");
        }
        let mut ends = Box::pin(second.complete_async());
        assert!(poll_once(ends.as_mut()).is_pending(), "the first has entered");
        let theirs = reloader.clone();
        world.amid_unload(move || child.run(|_| drop(theirs.run())));
        assert!(poll_once(begins.as_mut()).is_pending(), "the second has its turn");
        let mut ended = poll_once(ends.as_mut());
        world.join();
        if ended.is_pending() {
            ended = poll_once(ends.as_mut());
        }
        let Poll::Ready(ended) = ended else { panic!("no owner is in its way") };
        assert!(poll_once(begins.as_mut()).is_ready());
        assert_eq!(world.unloads(), 1 + usize::from(ended.is_err()));
        outcomes.note(ways[usize::from(ended.is_err())]);
    });
}
