//! Factories of numbers and names, and runtimes for their pools.

use crate::common::locked;
use crate::shared::task::{Task, block_on};
use cabrank::periodic_executor::{BoxFuture, Runtime};
use cabrank::resource_pool::{AsyncResourceFactory, ResourceFactory};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
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

/// A runtime whose woken tasks the test polls. Their timers never end.
#[derive(Clone, Default)]
pub(crate) struct ByHand(Arc<Mutex<Vec<Polled>>>);

/// A task, and the number of its wakes at the last poll.
type Polled = (Task<()>, usize);

impl Runtime for ByHand {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        locked(&self.0).push((Task::new(task), 0));
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::pending()
    }
}

impl ByHand {
    /// Drops every task.
    pub(crate) fn forgets_all(&self) {
        let tasks = std::mem::take(&mut *locked(&self.0));
        drop(tasks);
    }
    /// Returns how many tasks there are.
    pub(crate) fn tasks(&self) -> usize {
        locked(&self.0).len()
    }
    /// Returns how many tasks are to be polled: new ones, and those that were woken.
    pub(crate) fn woken(&self) -> usize {
        locked(&self.0).iter().filter(|(task, polled)| task.wakes() + 1 != *polled).count()
    }
    /// Polls until every task that is left waits.
    pub(crate) fn run(&self) {
        loop {
            let mut tasks = std::mem::take(&mut *locked(&self.0));
            let mut waits = true;
            tasks.retain_mut(|(task, polled)| {
                let woken = task.wakes() + 1;
                if std::mem::replace(polled, woken) == woken {
                    return true;
                }
                waits = false;
                task.poll().is_none()
            });
            locked(&self.0).append(&mut tasks);
            if waits {
                return;
            }
        }
    }
}
