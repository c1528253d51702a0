//! Shared by all tests: the rig of an application pool, tasks that a test polls, wakers, and ways to wait without
//! sleeping.
#![allow(dead_code, unused_imports, reason = "each test binary uses its own part of this")]

pub(crate) mod files;
pub(crate) mod histories;
pub(crate) mod log;
pub(crate) mod random;
mod rig;
pub(crate) mod task;
mod waiting;
pub(crate) mod woken;

use cabrank::PoolOptions;
pub(crate) use rig::{Getting, Got, Pool, Rig, Session};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::time::Duration;
pub(crate) use waiting::{SOON, before_long, look_until, note_difference, patience};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Returns the result of `work`. A hang becomes a failure.
#[track_caller]
pub(crate) fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, result) = channel();
    std::thread::spawn(move || {
        let _ = sender.send(work());
    });
    result.recv_timeout(SOON).expect("it ends soon, and without a panic")
}

/// Returns the limit `max`; 0 stands for no limit.
pub(crate) fn limit(max: usize) -> Option<usize> {
    (max > 0).then_some(max)
}

pub(crate) fn app(name: &str) -> PoolOptions {
    PoolOptions::new(format!("/srv/{name}"))
}

/// Returns the options of an application that grows although its processes have room, as in the pseudocode.
pub(crate) fn eager(name: &str) -> PoolOptions {
    app(name).with_eager_growth(true)
}

/// A closed gate: each thread that arrives waits until the test opens it.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    arrived: usize,
    open: bool,
}

impl Gate {
    pub(crate) fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        changed.notify_all();
        while !state.open {
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).open = true;
        self.0.1.notify_all();
    }
    /// Waits until `n` have arrived.
    #[track_caller]
    pub(crate) fn await_arrivals(&self, n: usize) {
        before_long(|| self.0.0.lock().unwrap_or_else(PoisonError::into_inner).arrived >= n);
    }
}

/// Ends the run when an invariant fails. Otherwise the panic could end an unobserved background
/// thread, or leave a get waiting for ever.
pub(crate) fn end_the_run_when_the_library_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            usual(panic);
            let file = panic.location().map_or("", |location| location.file());
            let scripted = file.contains("in_memory");
            if Path::new(file).starts_with("src") && !scripted {
                // Past the test harness, whose capture is lost with the process.
                let _ = writeln!(
                    std::io::stderr(),
                    "{panic}\nthe library panicked: no further test means anything"
                );
                std::process::abort();
            }
        }));
    });
}
