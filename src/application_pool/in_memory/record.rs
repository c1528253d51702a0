//! The facts that a spawner, its processes and a test share.

use super::script::{Call, Spawn};
use crate::application_pool::api::spawner::{Identifier, ShutDown};
use crate::kernel::clock::{Clock, ClockListener};
use crate::kernel::sync::{Condvar, Mutex};
use foldhash::HashMap;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError, Weak};

pub(super) type Hook = dyn Fn(Call) + Send + Sync;

/// The state of a spawner.
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) book: StdMutex<Book>,
    pub(super) hook: StdMutex<Option<Arc<Hook>>>,
    pub(super) releases: Mutex<usize>,
    pub(super) changed: Condvar,
}

/// Data for tests, behind a plain lock that the models do not explore.
#[derive(Default)]
pub(super) struct Book {
    pub(super) next: VecDeque<Spawn>,
    pub(super) usual: HashMap<PathBuf, Spawn>,
    pub(super) code: HashMap<PathBuf, String>,
    pub(super) begun: usize,
    pub(super) reloaded: Vec<String>,
    pub(super) processes: Vec<Weak<Facts>>,
    pub(super) shut_down: Vec<(u32, ShutDown)>,
    pub(super) last_pid: u32,
}

pub(super) fn open<T>(lock: &StdMutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn call(&self, call: Call) {
        let hook = open(&self.hook).clone();
        if let Some(hook) = hook {
            hook(call);
        }
    }
}

impl ClockListener for Shared {
    fn advanced(&self) {
        drop(self.releases.lock());
        self.changed.notify_all();
    }
}

/// A process, as its spawner, its pool and a test share it.
pub(super) struct Facts {
    pub(super) identifier: Identifier,
    pub(super) pid: u32,
    pub(super) app_root: PathBuf,
    pub(super) code: String,
    pub(super) concurrency: Option<NonZeroUsize>,
    pub(super) killed: AtomicBool,
    pub(super) out_of_descriptors: AtomicU32,
    pub(super) panics: AtomicBool,
    pub(super) spawner: Arc<Shared>,
}
