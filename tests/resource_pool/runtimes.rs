//! Factories of numbers and names, and runtimes for their pools.

use crate::shared::task::block_on;
use cabrank::periodic_executor::{BoxFuture, Runtime};
use cabrank::resource_pool::{AsyncResourceFactory, ResourceFactory};
use std::convert::Infallible;
use std::time::{Duration, Instant};

pub(crate) const MOMENT: Duration = Duration::from_millis(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct Numbers;

impl ResourceFactory for Numbers {
    type Resource = u32;
    type Metadata = ();
    type Error = Infallible;
    fn create(&self, (): &()) -> Result<u32, Infallible> {
        Ok(1)
    }
}

impl AsyncResourceFactory for Numbers {
    type Resource = u32;
    type Metadata = ();
    type Error = Infallible;
    async fn create(&self, (): &()) -> Result<u32, Infallible> {
        Ok(1)
    }
}

/// The same with keys.
pub(crate) struct Names;

impl AsyncResourceFactory for Names {
    type Resource = &'static str;
    type Metadata = &'static str;
    type Error = Infallible;
    async fn create(&self, name: &&'static str) -> Result<&'static str, Infallible> {
        Ok(name)
    }
}

/// A runtime with a thread for each task.
pub(crate) struct Threads;

impl Runtime for Threads {
    type Sleep = BoxFuture<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        std::thread::spawn(|| block_on(task));
    }
    fn sleep_until(&self, at: Instant) -> BoxFuture<()> {
        Box::pin(async move { std::thread::sleep(at.saturating_duration_since(Instant::now())) })
    }
}
