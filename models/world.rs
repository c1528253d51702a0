//! A world for the models of executions: it is loaded from a source, in two halves, and reloaded.

use crate::execution::{ExecutionError, Executor, Interlock, Reloader, ReloaderBuilder, Report};
use crate::sync::Mutex;
use crate::sync::thread::{JoinHandle, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};

/// The loaded world. The schedulers do not see its accesses, because the models are about what orders them.
#[derive(Clone)]
pub(super) struct World(Arc<State>);

#[derive(Default)]
struct State {
    source: AtomicU32,
    /// An unload changes the first, a preparation the second. A world in which they differ is half reloaded.
    halves: [AtomicU32; 2],
    unloads: AtomicUsize,
    completed: AtomicUsize,
    reported: AtomicUsize,
    /// Whether the last unload has failed. A preparation does not repair that.
    broken: AtomicBool,
    /// The unload that fails, counted from the next one as 1; 0: every unload succeeds.
    fails_in: AtomicUsize,
    /// The next unload starts this on a thread of its own.
    amid: std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>,
    begun: std::sync::Mutex<Option<JoinHandle<()>>>,
    /// Makes each access a step, for models in which other threads must come between.
    steps: Option<Mutex<()>>,
    /// Each access re-enters this interlock, for it runs in user code.
    interlock: Option<Interlock>,
}

impl World {
    /// Returns a world of version 1 and the builder of its reloader. The source is at `version`.
    ///
    /// Each execution has a hook that looks at the world when it completes.
    pub(super) fn new(version: u32) -> (World, ReloaderBuilder) {
        World::of(State::default(), version)
    }
    /// Returns the same, with a step at each access.
    pub(super) fn with_steps(version: u32) -> (World, ReloaderBuilder) {
        World::of(State { steps: Some(Mutex::new(())), ..State::default() }, version)
    }
    /// Returns the same, with a step at each access that also re-enters the interlock.
    pub(super) fn reentrant(version: u32) -> (World, ReloaderBuilder) {
        let (steps, interlock) = (Some(Mutex::new(())), Some(Interlock::new()));
        World::of(State { steps, interlock, ..State::default() }, version)
    }
    fn of(state: State, version: u32) -> (World, ReloaderBuilder) {
        let interlock = state.interlock.clone().unwrap_or_default();
        let world = World(Arc::new(state));
        world.0.halves.iter().for_each(|half| half.store(1, SeqCst));
        world.0.source.store(1, SeqCst);
        let completed = world.clone();
        let complete = move |()| {
            completed.stay();
            completed.0.completed.fetch_add(1, SeqCst);
            Ok(())
        };
        let re_enter = || {
            let world = world.clone();
            move || {
                world.re_enter();
                Ok(())
            }
        };
        let (reports, before, after) = (re_enter(), re_enter(), re_enter());
        let executor = Executor::builder().interlock(interlock).hook((|| Ok(()), complete));
        let reported = world.clone();
        let report = move |_: &Report<'_>| {
            _ = reports();
            reported.0.reported.fetch_add(1, SeqCst);
        };
        let executor = executor.reporter(report).build();
        let (watched, unloaded, prepared) = (world.clone(), world.clone(), world.clone());
        let builder = Reloader::builder(executor)
            .before_unload(before)
            .after_unload(move |_| after())
            .watch(move || {
                watched.step();
                watched.0.source.load(SeqCst)
            })
            .unload(move |_| {
                let state = &unloaded.0;
                unloaded.step();
                state.halves[0].store(state.source.load(SeqCst), SeqCst);
                let left = state.fails_in.load(SeqCst);
                state.fails_in.store(left.saturating_sub(1), SeqCst);
                state.broken.store(left == 1, SeqCst);
                if let Some(work) = state.amid.lock().expect("no panic").take() {
                    *state.begun.lock().expect("no panic") = Some(spawn(work));
                }
                if left == 1 {
                    return Err("on purpose".into());
                }
                state.unloads.fetch_add(1, SeqCst);
                Ok(())
            })
            .to_prepare(move |_| {
                let state = &prepared.0;
                prepared.step();
                state.halves[1].store(state.halves[0].load(SeqCst), SeqCst);
                Ok(())
            });
        world.0.source.store(version, SeqCst);
        (world, builder)
    }
    fn step(&self) {
        if let Some(steps) = &self.0.steps {
            drop(steps.lock());
        }
        self.re_enter();
    }
    fn re_enter(&self) {
        if let Some(interlock) = self.0.interlock.as_ref().filter(|_| !crate::sync::has_failed()) {
            interlock.generation();
        }
    }
    pub(super) fn edit(&self, version: u32) {
        self.step();
        self.0.source.store(version, SeqCst);
    }
    /// Makes the next reload fail in the middle.
    pub(super) fn fail_once(&self) {
        self.0.fails_in.store(1, SeqCst);
    }
    /// Makes the second reload from now fail in the middle.
    pub(super) fn fail_second(&self) {
        self.0.fails_in.store(2, SeqCst);
    }
    /// Starts `work` on a thread of its own in the middle of the next unload.
    pub(super) fn amid_unload(&self, work: impl FnOnce() + Send + 'static) {
        *self.0.amid.lock().expect("no panic") = Some(Box::new(work));
    }
    /// Waits for the end of that thread.
    pub(super) fn join(&self) {
        let begun = self.0.begun.lock().expect("no panic").take();
        begun.expect("there was an unload").join().expect("no panic");
    }
    /// Asserts that the world is whole, and returns its version.
    pub(super) fn look(&self) -> u32 {
        let [first, second] = self.stay();
        let whole = first == second && !self.0.broken.load(SeqCst);
        assert!(whole, "code runs on a half reloaded world");
        first
    }
    /// Asserts that the world stays the same over a step, and returns its halves.
    fn stay(&self) -> [u32; 2] {
        let halves = || [0, 1].map(|half| self.0.halves[half].load(SeqCst));
        let before = halves();
        self.step();
        assert_eq!(before, halves(), "reloaded under running code");
        before
    }
    /// Returns whether the last unload has failed.
    pub(super) fn is_broken(&self) -> bool {
        self.0.broken.load(SeqCst)
    }
    pub(super) fn unloads(&self) -> usize {
        self.0.unloads.load(SeqCst)
    }
    /// Returns the number of completed executions.
    pub(super) fn completed(&self) -> usize {
        self.0.completed.load(SeqCst)
    }
    /// Returns the number of errors that the reporter got.
    pub(super) fn reported(&self) -> usize {
        self.0.reported.load(SeqCst)
    }
}

/// Runs one execution of the reloader and returns the version that its body saw.
pub(super) fn execute(reloader: &Reloader, world: &World) -> Result<u32, ExecutionError> {
    reloader.wrap(|_| Ok(world.look()))
}
