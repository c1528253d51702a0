//! The rest of a connection to a process whose HTTP is not ours, before it serves another request.
//!
//! A careless program may send bytes behind the end that its answer declares: a body that is longer than its length, or an
//! interim answer too late. They would become the answer to the next request, of another client. Such bytes
//! usually come at once, so the connection waits for them, and does not return to the pool if there are any.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time of a rest. A program that writes an answer in several parts takes less between two of them.
const REST: Duration = Duration::from_millis(20);

/// The connections of one core to one process that rest, in the order of their return.
#[derive(Debug)]
pub(super) struct Resting<T>(Mutex<Queue<T>>);

#[derive(Debug)]
struct Queue<T> {
    connections: VecDeque<(Instant, T)>,
    /// Whether a task takes them out.
    is_served: bool,
}

impl<T: Send + 'static> Resting<T> {
    pub(super) fn new() -> Self {
        Resting(Mutex::new(Queue { connections: VecDeque::new(), is_served: false }))
    }

    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        // Code under this lock does not panic, so a poisoned lock still guards a valid queue.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a connection rest, and then calls `after`. The function must be called on a runtime.
    pub(super) fn add(self: Arc<Self>, connection: T, after: fn(T)) {
        let mut queue = self.queue();
        queue.connections.push_back((Instant::now(), connection));
        let is_served = std::mem::replace(&mut queue.is_served, true);
        drop(queue);
        if !is_served {
            tokio::spawn(self.serve(after));
        }
    }

    /// Takes connections out after their rest, until none is left.
    async fn serve(self: Arc<Self>, after: fn(T)) {
        while let Some(since) = self.first() {
            tokio::time::sleep_until(since + REST).await;
            self.rested().into_iter().for_each(after);
        }
    }

    /// Returns the time of the connection that came first. Without one, the task ends.
    fn first(&self) -> Option<Instant> {
        let mut queue = self.queue();
        let first = queue.connections.front().map(|(since, _)| *since);
        queue.is_served = first.is_some();
        first
    }

    fn rested(&self) -> Vec<T> {
        let now = Instant::now();
        let mut queue = self.queue();
        let rested = queue.connections.iter().take_while(|(since, _)| *since + REST <= now).count();
        queue.connections.drain(..rested).map(|(_, connection)| connection).collect()
    }
}
