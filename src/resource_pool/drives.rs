//! The runtime that a pool was built with, without its type.

use crate::kernel::user_code::UserValue;
use crate::periodic_executor::{BoxFuture, Runtime};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The runtime of a pool.
pub(super) struct Drives {
    pub(super) spawn: Box<dyn Fn(BoxFuture<()>) + Send + Sync>,
    pub(super) sleep: Arc<dyn Fn(Instant) -> BoxFuture<()> + Send + Sync>,
    /// It dropped a task, or its timer panicked. From then on the pool does without it.
    pub(super) has_ended: Arc<AtomicBool>,
    /// The listener was notified of that.
    pub(super) reported: AtomicBool,
}

impl Drives {
    pub(super) fn new<R: Runtime>(runtime: Arc<UserValue<R>>) -> Self {
        let spawns = runtime.clone();
        Drives {
            spawn: Box::new(move |task| spawns.spawn(task)),
            sleep: Arc::new(move |at| Box::pin(runtime.sleep_until(at))),
            has_ended: Arc::default(),
            reported: AtomicBool::new(false),
        }
    }
}
