//! The factory: its script, and its record of the pool's calls.

use crate::refinement::calls::{Call, called};
use crate::refinement::history::End;
use cabrank::resource_pool::{AsyncResourceFactory, ResourceFactory};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

/// The error of a scripted failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scripted;

impl std::fmt::Display for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("as scripted")
    }
}

/// The factory's script, and its record of the pool's calls.
#[derive(Default)]
pub(crate) struct Book {
    /// How the next calls end.
    ends: VecDeque<End>,
    made: u32,
    /// The destroyed resources.
    pub(crate) destroyed: Vec<u32>,
    pub(crate) destroy_panics: bool,
    /// Returns what is seen of the pool.
    look: Option<Look>,
    /// The calls of the current step, and what was seen of the pool then.
    pub(crate) calls: Vec<String>,
    /// The call of the pool that the factory's call of this number in the step makes.
    inner: Option<(usize, Box<dyn FnOnce() + Send>)>,
}

type Look = Arc<dyn Fn() -> String + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct Factory(Arc<Mutex<Book>>);

impl Factory {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The calls during `during` end like this.
    pub(crate) fn ending<R>(&self, ends: &[End], during: impl FnOnce() -> R) -> R {
        let outer = std::mem::replace(&mut self.book().ends, ends.iter().copied().collect());
        let result = during();
        self.book().ends = outer;
        result
    }
    /// From now on each call looks at the pool.
    pub(crate) fn looks(&self, look: Option<Look>) {
        self.book().look = look;
    }
    /// Notes a call, just before it ends.
    fn note(&self, call: Call, resource: Option<u32>) {
        let look = self.book().look.clone();
        if let Some(look) = look {
            let seen = called(call, resource, &look());
            let mut book = self.book();
            book.calls.push(seen);
            let count = book.calls.len();
            let inner = book.inner.take_if(|(nth, _)| *nth < count);
            drop(book);
            if let Some((_, inner)) = inner {
                self.ending(&[], inner);
            }
        }
    }
    /// Within the call of this number in the step, this is done.
    pub(crate) fn within(&self, nth: usize, inner: impl FnOnce() + Send + 'static) {
        self.book().inner = Some((nth, Box::new(inner)));
    }
    /// Forgets what was not done.
    pub(crate) fn without(&self) {
        let inner = self.book().inner.take();
        drop(inner);
    }
    /// A call that ends at once; without a script it succeeds.
    fn call(&self, call: Call, resource: Option<u32>) -> bool {
        let end = self.book().ends.pop_front();
        self.note(call, resource);
        well(end.unwrap_or(End::Well))
    }
    /// A call that pends until its end is scripted.
    async fn awaited(&self, call: Call, resource: Option<u32>) -> bool {
        let end = poll_fn(|_| match self.book().ends.pop_front() {
            Some(end) => Poll::Ready(end),
            None => Poll::Pending,
        });
        let end = end.await;
        self.note(call, resource);
        well(end)
    }
    fn made(&self) -> u32 {
        let mut book = self.book();
        book.made += 1;
        book.made
    }
    fn gone(&self, resource: u32) {
        self.book().destroyed.push(resource);
        self.note(Call::Destroy, Some(resource));
        let panics = self.book().destroy_panics;
        if panics {
            std::panic::resume_unwind(Box::new("scripted"));
        }
    }
}

fn well(end: End) -> bool {
    match end {
        End::Well => true,
        End::Badly => false,
        // Panics without calling the panic hook.
        End::Panic => std::panic::resume_unwind(Box::new("scripted")),
    }
}

fn or_error(well: bool) -> Result<(), Scripted> {
    if well { Ok(()) } else { Err(Scripted) }
}

impl ResourceFactory for Factory {
    type Resource = u32;
    type Metadata = usize;
    type Error = Scripted;
    fn create(&self, _: &usize) -> Result<u32, Scripted> {
        or_error(self.call(Call::Create, None)).map(|()| self.made())
    }
    fn destroy(&self, _: &usize, resource: u32) {
        self.gone(resource);
    }
    fn validate(&self, _: &usize, resource: &mut u32) -> bool {
        self.call(Call::Validate, Some(*resource))
    }
    fn activate(&self, _: &usize, resource: &mut u32) -> Result<(), Scripted> {
        or_error(self.call(Call::Activate, Some(*resource)))
    }
    fn passivate(&self, _: &usize, resource: &mut u32) -> Result<(), Scripted> {
        or_error(self.call(Call::Passivate, Some(*resource)))
    }
}

/// The same, asynchronous.
pub(crate) struct Tasks(pub(super) Factory);

impl AsyncResourceFactory for Tasks {
    type Resource = u32;
    type Metadata = usize;
    type Error = Scripted;
    async fn create(&self, _: &usize) -> Result<u32, Scripted> {
        or_error(self.0.awaited(Call::Create, None).await).map(|()| self.0.made())
    }
    fn destroy(&self, _: &usize, resource: u32) {
        self.0.gone(resource);
    }
    async fn validate(&self, _: &usize, resource: &mut u32) -> bool {
        self.0.awaited(Call::Validate, Some(*resource)).await
    }
    async fn activate(&self, _: &usize, resource: &mut u32) -> Result<(), Scripted> {
        or_error(self.0.awaited(Call::Activate, Some(*resource)).await)
    }
    async fn passivate(&self, _: &usize, resource: &mut u32) -> Result<(), Scripted> {
        or_error(self.0.awaited(Call::Passivate, Some(*resource)).await)
    }
}
