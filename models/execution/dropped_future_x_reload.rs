//! A future of `wrap_async` is dropped while another execution reloads: in its body, or before it.
//!
//! Guards that `Execution::carry` keeps the execution, and so the share, beside the body. A dropped future then
//! drops the body first, completes the hooks, and leaves the share last. If it left the share earlier, the body's
//! `Drop` would run during a reload.
//!
//! Asserted: bodies, their drops and hooks see whole code that stays the same. An
//! execution that has begun is completed once, the other never, and the other execution reloads.

use crate::models::loaded_code::{LoadedCode, execute};
use crate::models::rig::*;
use std::future::pending;

/// Looks at the code when it is dropped.
struct Local(LoadedCode);

impl Drop for Local {
    fn drop(&mut self) {
        self.0.look();
    }
}

#[test]
fn dropped_future_x_reload() {
    let ways = ["in its body, before the reload", "in its body, after it", "before its body"];
    explore(Model("dropped_future_x_reload", 13_284), &ways, move |outcomes| {
        let (code, builder) = LoadedCode::new(2);
        let reloader = builder.build().expect("valid");
        let executor = reloader.executor().clone();
        let seen = code.clone();
        let other = spawn(move || execute(&reloader, &seen).expect("it succeeds"));
        let mut version = None;
        {
            let mut future = Box::pin(executor.wrap_async(async |_| {
                let local = Local(code.clone());
                version = Some(code.look());
                pending::<()>().await;
                drop(local);
                Ok(())
            }));
            assert!(poll_once(future.as_mut()).is_pending());
        }
        assert_eq!(other.join().expect("no panic"), 2);
        let began = usize::from(version.is_some());
        assert_eq!((code.unloads(), code.completed()), (1, 1 + began));
        outcomes.note(match version {
            Some(1) => ways[0],
            Some(_) => ways[1],
            None => ways[2],
        });
    });
}
