//! What the models of executions share: a world that is loaded from a source, in two halves, and
//! reloaded.

use crate::execution::{ExecutionError, Executor, Interlock, Reloader, ReloaderBuilder, Report};
use crate::sync::Mutex;
use crate::sync::thread::{JoinHandle, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};

/// Seen by no scheduler: what it is read and written under is what the models are about.
#[derive(Clone)]
pub(super) struct World(Arc<State>);

#[derive(Default)]
struct State {
    source: AtomicU32,
    /// Unloaded first, loaded last: a world in which they differ is half reloaded.
    halves: [AtomicU32; 2],
    unloads: AtomicUsize,
    completed: AtomicUsize,
    told: AtomicUsize,
    /// The last unload has failed: it was not done, whatever is prepared on it.
    broken: AtomicBool,
    /// How many unloads there are until one fails, that one included; 0 for none.
    fails_in: AtomicUsize,
    /// Begun by the next unload, on a thread of its own.
    amid: std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>,
    begun: std::sync::Mutex<Option<JoinHandle<()>>>,
    /// One more step at each access, for models that must come between.
    steps: Option<Mutex<()>>,
    /// Re-entered at each of those: whatever runs here is the user's code.
    interlock: Option<Interlock>,
}

impl World {
    /// A world of version 1, and what reloads it; the source is at `version`. With each execution
    /// something is completed that looks at the world.
    pub(super) fn new(version: u32) -> (World, ReloaderBuilder) {
        World::of(State::default(), version)
    }
    /// The same, in which others may come between any two accesses.
    pub(super) fn with_steps(version: u32) -> (World, ReloaderBuilder) {
        World::of(State { steps: Some(Mutex::new(())), ..State::default() }, version)
    }
    /// The same, and each access re-enters the interlock.
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
        let told = world.clone();
        let report = move |_: &Report<'_>| {
            _ = reports();
            told.0.told.fetch_add(1, SeqCst);
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
    /// The next reload fails in the middle.
    pub(super) fn fail_once(&self) {
        self.0.fails_in.store(1, SeqCst);
    }
    /// The one after that does.
    pub(super) fn fail_second(&self) {
        self.0.fails_in.store(2, SeqCst);
    }
    /// In the middle of the next unload, this is begun on a thread of its own.
    pub(super) fn amid_unload(&self, work: impl FnOnce() + Send + 'static) {
        *self.0.amid.lock().expect("no panic") = Some(Box::new(work));
    }
    /// Waits for its end.
    pub(super) fn join(&self) {
        let begun = self.0.begun.lock().expect("no panic").take();
        begun.expect("there was an unload").join().expect("no panic");
    }
    /// The version that is loaded, and whole.
    pub(super) fn look(&self) -> u32 {
        let [first, second] = self.stay();
        let whole = first == second && !self.0.broken.load(SeqCst);
        assert!(whole, "code runs on a half reloaded world");
        first
    }
    /// What is loaded, the same before and after others had their turn.
    fn stay(&self) -> [u32; 2] {
        let halves = || [0, 1].map(|half| self.0.halves[half].load(SeqCst));
        let before = halves();
        self.step();
        assert_eq!(before, halves(), "reloaded under running code");
        before
    }
    /// The last unload has failed.
    pub(super) fn is_broken(&self) -> bool {
        self.0.broken.load(SeqCst)
    }
    pub(super) fn unloads(&self) -> usize {
        self.0.unloads.load(SeqCst)
    }
    /// Executions that were completed.
    pub(super) fn completed(&self) -> usize {
        self.0.completed.load(SeqCst)
    }
    /// Executions of which the reporter was told.
    pub(super) fn told(&self) -> usize {
        self.0.told.load(SeqCst)
    }
}

/// One execution with the reloader, and what its body saw.
pub(super) fn execute(reloader: &Reloader, world: &World) -> Result<u32, ExecutionError> {
    reloader.wrap(|_| Ok(world.look()))
}
