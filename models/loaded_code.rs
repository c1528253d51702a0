//! The code of the models of executions: it is loaded from a source, in two halves, and reloaded.

use crate::execution::{BoxError, ExecutionError, Executor, Reloader, ReloaderBuilder};
use crate::kernel::sync::Mutex;
use crate::{Interlock, ManualClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};

/// The loaded code. The schedulers do not see its accesses, because the models are about what orders them.
#[derive(Clone)]
pub(super) struct LoadedCode(Arc<State>);

struct State {
    source: AtomicU32,
    /// An unload changes the first, a preparation the second. Code in which they differ is half reloaded.
    halves: [AtomicU32; 2],
    unloads: AtomicUsize,
    completed: AtomicUsize,
    /// Whether the last unload has failed. A preparation does not repair that.
    broken: AtomicBool,
    /// The unload that fails, counted from the next one as 1; 0: every unload succeeds.
    fails_in: AtomicUsize,
    /// The next unload calls this.
    amid: std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Makes each access a step, so that other threads come between, and user code call the interlock.
    steps: Option<Mutex<()>>,
    clock: ManualClock,
    interlock: Interlock,
}

impl LoadedCode {
    /// Returns code of version 1 and the builder of its reloader. The source is at `version`.
    ///
    /// Each execution has a hook that looks at the code when it completes. Each access is a step, and calls the
    /// interlock.
    pub(super) fn new(version: u32) -> (LoadedCode, ReloaderBuilder) {
        LoadedCode::of(Some(Mutex::new(())), version)
    }
    /// Returns the same without these steps, for models of which loom cannot afford them.
    pub(super) fn without_steps(version: u32) -> (LoadedCode, ReloaderBuilder) {
        LoadedCode::of(None, version)
    }
    fn of(steps: Option<Mutex<()>>, version: u32) -> (LoadedCode, ReloaderBuilder) {
        let clock = ManualClock::new();
        let code = LoadedCode(Arc::new(State {
            source: AtomicU32::new(1),
            halves: [1, 1].map(AtomicU32::new),
            unloads: AtomicUsize::new(0),
            completed: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            fails_in: AtomicUsize::new(0),
            amid: std::sync::Mutex::new(None),
            steps,
            interlock: Interlock::builder().clock(clock.clock()).build(),
            clock,
        }));
        let [completed, reported, before, after, watched, unloaded, prepared] =
            [(); 7].map(|()| code.clone());
        let complete = move |()| {
            completed.stay();
            completed.0.completed.fetch_add(1, SeqCst);
            Ok(())
        };
        let executor = Executor::builder()
            .interlock(code.0.interlock.clone())
            .hook((|| Ok(()), complete))
            .reporter(move |_| reported.re_enter())
            .build();
        let builder = Reloader::builder(executor)
            .before_unload(move || before.re_entered())
            .after_unload(move |_| after.re_entered())
            .watch(move || {
                watched.step();
                watched.0.source.load(SeqCst)
            })
            .unload(move |_| unloaded.unload())
            .to_prepare(move |_| {
                let state = &prepared.0;
                prepared.step();
                state.halves[1].store(state.halves[0].load(SeqCst), SeqCst);
                Ok(())
            });
        code.0.source.store(version, SeqCst);
        (code, builder)
    }
    fn re_entered(&self) -> Result<(), BoxError> {
        self.re_enter();
        Ok(())
    }
    fn unload(&self) -> Result<(), BoxError> {
        let state = &self.0;
        self.step();
        state.halves[0].store(state.source.load(SeqCst), SeqCst);
        let left = state.fails_in.load(SeqCst);
        state.fails_in.store(left.saturating_sub(1), SeqCst);
        state.broken.store(left == 1, SeqCst);
        if let Some(work) = state.amid.lock().expect("no panic").take() {
            work();
        }
        if left == 1 {
            return Err("on purpose".into());
        }
        state.unloads.fetch_add(1, SeqCst);
        Ok(())
    }
    fn step(&self) {
        if let Some(steps) = &self.0.steps {
            drop(steps.lock());
        }
        self.re_enter();
    }
    fn re_enter(&self) {
        if self.0.steps.is_some() && !crate::kernel::sync::has_failed() {
            self.0.interlock.generation();
        }
    }

    pub(super) fn interlock(&self) -> &Interlock {
        &self.0.interlock
    }
    pub(super) fn clock(&self) -> &ManualClock {
        &self.0.clock
    }
    pub(super) fn edit(&self, version: u32) {
        self.step();
        self.0.source.store(version, SeqCst);
    }
    /// Makes a reload fail in the middle: the next one is 1.
    pub(super) fn fail(&self, reload: usize) {
        self.0.fails_in.store(reload, SeqCst);
    }
    /// Calls `work` in the middle of the next unload.
    pub(super) fn amid_unload(&self, work: impl FnOnce() + Send + 'static) {
        *self.0.amid.lock().expect("no panic") = Some(Box::new(work));
    }
    /// Asserts that the code is whole, and returns its version.
    pub(super) fn look(&self) -> u32 {
        let [first, second] = self.stay();
        let whole = first == second && !self.0.broken.load(SeqCst);
        assert!(whole, "code runs that is half reloaded");
        first
    }
    /// Asserts that the code stays the same over a step, and returns its halves.
    fn stay(&self) -> [u32; 2] {
        let halves = || [0, 1].map(|half| self.0.halves[half].load(SeqCst));
        let before = halves();
        self.step();
        assert_eq!(before, halves(), "reloaded under running code");
        before
    }
    /// Returns the number of unloads that succeeded.
    pub(super) fn unloads(&self) -> usize {
        self.0.unloads.load(SeqCst)
    }
    /// Returns the number of completed executions.
    pub(super) fn completed(&self) -> usize {
        self.0.completed.load(SeqCst)
    }
}

/// Runs one execution of the reloader and returns the version that its body saw.
pub(super) fn execute(reloader: &Reloader, code: &LoadedCode) -> Result<u32, ExecutionError> {
    reloader.wrap(|_| Ok(code.look()))
}
