//! The threads of runs that have ended.
//!
//! A run ends on its thread, which then drops its thread-locals and leaves the process. A join and a shutdown wait
//! for that, too. An executor can be opened again while its former thread leaves, and it can be dropped. So each
//! executor keeps a list of threads, and so does each registry. A run that ends joins the older threads of
//! its lists, so an executor that is never joined keeps few of them.

use crate::kernel::clock::Deadline;
use crate::kernel::sync::thread::Thread;
use std::sync::Arc;

/// The thread of a run that ends.
#[derive(Clone)]
pub(super) struct Exit {
    /// The executor's name.
    pub(super) name: Arc<str>,
    pub(super) thread: Thread,
}

impl Exit {
    /// Waits until the thread is gone. Returns whether it was in time; true also on the thread itself.
    ///
    /// A manual clock does not limit the wait, for no time passes there.
    pub(super) fn is_gone_by(&self, deadline: Deadline) -> bool {
        self.thread.join_by(deadline.instant())
    }
}

/// The threads of an executor, or of a registry, that may not be gone.
#[derive(Default)]
pub(super) struct Exits(Vec<Exit>);

impl Exits {
    /// Adds the thread of a run that ends. Returns the older threads, which the caller reaps.
    pub(super) fn add(&mut self, exit: Exit) -> Vec<Exit> {
        self.0.retain(|exit| !exit.thread.is_gone());
        let older = self.0.clone();
        self.0.push(exit);
        older
    }
    pub(super) fn all(&self) -> Vec<Exit> {
        self.0.clone()
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::kernel::sync::thread::start_joinable;
    use std::sync::mpsc::channel;

    /// An executor that is opened again and again, and never joined, keeps the thread of its last run.
    #[test]
    fn threads_that_are_gone_are_forgotten() {
        let mut exits = Exits::default();
        for _ in 0..100 {
            let (sender, thread) = channel();
            let f = move |this| sender.send(this).expect("the test waits");
            start_joinable("exit", None, f).expect("a thread");
            let thread = thread.recv().expect("it says which it is");
            assert!(exits.add(Exit { name: "exit".into(), thread }).len() <= 1);
            assert!(exits.all().iter().all(|exit| exit.is_gone_by(Deadline::Never)));
        }
        assert_eq!(exits.all().len(), 1);
    }
}
