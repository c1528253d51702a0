//! A future of `wrap_async` is dropped while another execution reloads: in its body, or before it.
//!
//! Guards that `Execution::carry` keeps the execution, and so the share, beside the body. A dropped future then
//! drops the body first, completes the hooks, and leaves the share last. If it left the share earlier, the body's
//! `Drop` would run during a reload.
//!
//! Asserted: all code sees a whole world that stays the same, a body's drop and a hook's completion, too. An
//! execution that has begun is completed once, the other never, and the other execution reloads.

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
        let (world, builder) = World::new(2);
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
