//! The runtime that a pool was built with, without its type.

use crate::periodic_executor::{BoxFuture, Runtime};
use crate::user_code::UserValue;
use std::sync::Arc;
use std::time::Instant;

/// The runtime of a pool.
pub(super) struct Drives {
    pub(super) spawn: Box<dyn Fn(BoxFuture<()>) + Send + Sync>,
    pub(super) sleep: Box<dyn Fn(Instant) -> BoxFuture<()> + Send + Sync>,
}

impl Drives {
    pub(super) fn new<R: Runtime>(runtime: Arc<UserValue<R>>) -> Self {
        let spawns = runtime.clone();
        Drives {
            spawn: Box::new(move |task| spawns.spawn(task)),
            sleep: Box::new(move |at| Box::pin(runtime.sleep_until(at))),
        }
    }
}
