//! The threads of a model, with the vocabulary of `native_threads.rs`.

use super::me::me;
use super::modelled::Flag;
use super::trace::about_to;
use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A thread that was started, for joins.
///
/// The native one also has a deadline and the destructors of thread-locals to wait for. Here no time passes, and
/// loom drops the locals of a thread after its joins.
#[derive(Clone)]
pub(crate) struct Thread(Arc<Shared>);

struct Shared {
    /// Set when the thread begins.
    id: OnceLock<usize>,
    /// `None` once a join has taken it, and for a thread that ran inline. No step comes between its start and its
    /// arrival here.
    handle: Mutex<Option<JoinHandle<()>>>,
    /// Held by the first join while the others wait.
    joining: super::modelled::Mutex<()>,
}

impl Thread {
    fn take_handle(&self) -> Option<JoinHandle<()>> {
        self.0.handle.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
    #[track_caller]
    pub(crate) fn join_by(&self, _: Option<std::time::Instant>) -> bool {
        if self.0.id.get() == Some(&me()) {
            return true;
        }
        let _joining = self.0.joining.lock();
        if let Some(handle) = self.take_handle() {
            let step = about_to("join thread");
            if let Err(panic) = handle.join() {
                std::panic::resume_unwind(panic);
            }
            step.done();
        }
        true
    }
    /// Does nothing: it only frees memory.
    pub(crate) fn reap(&self) {}
    /// Never lets an older thread be forgotten, so that each join waits for it.
    pub(crate) fn is_gone(&self) -> bool {
        false
    }
}

std::thread_local! {
    // The flag that each thread raises at its end, in a model that looks for it.
    static ENDED: RefCell<Option<Arc<Flag>>> = const { RefCell::new(None) };
}
/// Has the next joinable threads raise `ended` as their last step.
pub(crate) fn watch_end(ended: Arc<Flag>) {
    ENDED.set(Some(ended));
}

pub(crate) fn start_joinable(
    name: &str,
    stack_size: Option<usize>,
    f: impl FnOnce(Thread) + Send + 'static,
) -> io::Result<()> {
    let (id, handle) = (OnceLock::new(), Mutex::default());
    let joining = super::modelled::Mutex::new(());
    let thread = Thread(Arc::new(Shared { id, handle, joining }));
    let (theirs, ended) = (thread.clone(), ENDED.with_borrow(Clone::clone));
    let handle = spawn_or_call(name, stack_size, move || {
        let _ = theirs.0.id.set(me());
        f(theirs);
        if let Some(ended) = ended {
            ended.raise();
        }
    })?;
    *thread.0.handle.lock().unwrap_or_else(PoisonError::into_inner) = handle;
    Ok(())
}

pub(crate) fn start(
    name: &str,
    stack_size: Option<usize>,
    f: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    spawn_or_call(name, stack_size, f).map(drop)
}

fn spawn_or_call(
    _name: &str,
    stack_size: Option<usize>,
    f: impl FnOnce() + Send + 'static,
) -> io::Result<Option<JoinHandle<()>>> {
    // The native answer to a stack that does not fit into memory (erratum E11).
    if stack_size == Some(usize::MAX) {
        return Err(io::Error::from(io::ErrorKind::OutOfMemory));
    }
    if INLINE.with_borrow(|inline| inline.contains(&me())) {
        f();
        return Ok(None);
    }
    about_to("start thread").done();
    Ok(Some(spawn(f)))
}

std::thread_local! {
    // The model's threads that are inside `inline`. Both tools run them on one thread.
    static INLINE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}
/// Resets them at the beginning of an execution.
pub(crate) fn clear() {
    INLINE.with_borrow_mut(Vec::clear);
    ENDED.set(None);
}

/// Runs `f`, and each thread that it starts to its end where it starts it, so that the two do not interleave.
///
/// For the set-up before the race, and for spawns that a model is not about. Other threads of the model start
/// theirs as usual.
pub(crate) fn inline<R>(f: impl FnOnce() -> R) -> R {
    let me = me();
    INLINE.with_borrow_mut(|inline| inline.push(me));
    let result = f();
    INLINE.with_borrow_mut(|inline| {
        let mine = inline.iter().rposition(|&thread| thread == me).expect("it was pushed");
        inline.swap_remove(mine);
    });
    result
}

// The models' own actors use them, too.
#[cfg(feature = "loom")]
pub(crate) use loom::{
    thread::{JoinHandle, spawn},
    thread_local,
};
#[cfg(not(feature = "loom"))]
pub(crate) use shuttle::{
    thread::{JoinHandle, spawn},
    thread_local,
};
