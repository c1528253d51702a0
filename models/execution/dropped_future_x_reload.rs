//! A future of `wrap_async` is dropped while another execution reloads: in its body, or before that has
//! begun.
//!
//! Guards that `Execution::carry_async` keeps the execution, and so the share, beside the body: when the
//! future is dropped the body goes first, then the hooks are completed, and the share is left last. If
//! it were left before, a body's `Drop` would run in the middle of a reload. Asserted: whatever runs, the
//! drop of a body and the completion of a hook too, sees a whole world that stays the same; who has begun
//! is completed once, and who has not, never; and the other reloads. What is called does not re-enter the
//! interlock: with that, loom is not through in five minutes.

use crate::models::rig::*;
use crate::models::world::{World, execute};
use std::future::pending;

/// Looks at the world when it is dropped.
struct Local(World);

impl Drop for Local {
    fn drop(&mut self) {
        self.0.look();
    }
}

#[test]
fn dropped_future_x_reload() {
    let ways = ["in its body, before the reload", "in its body, after it", "before its body"];
    explore("dropped_future_x_reload", &ways, move |outcomes| {
        let (world, builder) = World::with_steps(2);
        let reloader = builder.build().expect("valid");
        let executor = reloader.executor().clone();
        let seen = world.clone();
        let other = spawn(move || execute(&reloader, &seen).expect("it succeeds"));
        let mut version = None;
        {
            let mut future = Box::pin(executor.wrap_async(async |_| {
                let local = Local(world.clone());
                version = Some(world.look());
                pending::<()>().await;
                drop(local);
                Ok(())
            }));
            assert!(poll_once(future.as_mut()).is_pending());
        }
        assert_eq!(other.join().expect("no panic"), 2);
        let began = usize::from(version.is_some());
        assert_eq!((world.unloads(), world.completed()), (1, 1 + began));
        outcomes.note(match version {
            Some(1) => ways[0],
            Some(_) => ways[1],
            None => ways[2],
        });
    });
}
