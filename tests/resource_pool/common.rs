//! A scripted factory that records its calls, pools on a manual clock, and borrowers in the
//! background.

use crate::shared::task::Task;
use crate::shared::{SOON, before_long, end_the_run_when_the_library_panics};
use cabrank::ManualClock;
use cabrank::resource_pool::{
    BorrowError, Borrowed, Builder, Event, KeyedResourcePool, ResourceFactory, ResourcePool,
};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

type AnyPool<K> = cabrank::resource_pool::Pool<Script, K>;
pub(crate) type Pool = ResourcePool<Script>;
pub(crate) type Keyed = KeyedResourcePool<&'static str, Script>;
pub(crate) type Lent = Borrowed<'static, Script>;
pub(crate) type Got = Result<Lent, BorrowError<String>>;

/// Locks a mutex, poisoned or not.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Act = Arc<dyn Fn(usize) -> Outcome + Send + Sync>;

/// How a scripted call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Well,
    Fails,
}

/// A factory that records its calls and ends them as scripted. Clones share everything.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<State>);

#[derive(Default)]
struct State {
    made: AtomicUsize,
    alive: AtomicUsize,
    most_alive: AtomicUsize,
    of_keys: Mutex<HashMap<&'static str, Alive>>,
    acts: Mutex<HashMap<&'static str, Act>>,
    calls: Mutex<Vec<String>>,
}

#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) number: usize,
    pub(crate) active: bool,
    pub(crate) valid: bool,
    pub(crate) key: &'static str,
    _exists: Exists,
}

/// How many resources of a key exist, and the most that ever existed at once.
#[derive(Clone, Copy, Default)]
struct Alive {
    now: usize,
    most: usize,
}

/// Counts the existing resources, wherever they are dropped.
#[derive(Debug)]
struct Exists(Arc<State>, &'static str);

impl Exists {
    fn new(state: &Arc<State>, key: &'static str) -> Exists {
        let alive = state.alive.fetch_add(1, SeqCst) + 1;
        state.most_alive.fetch_max(alive, SeqCst);
        let mut of_keys = locked(&state.of_keys);
        let of_key = of_keys.entry(key).or_default();
        of_key.now += 1;
        of_key.most = of_key.most.max(of_key.now);
        Exists(state.clone(), key)
    }
}

impl Drop for Exists {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, SeqCst);
        locked(&self.0.of_keys).entry(self.1).or_default().now -= 1;
    }
}

impl Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("State")
    }
}

impl Script {
    /// Scripts `call` (the name of a method). The closure gets the resource's number, zero for a
    /// creation.
    pub(crate) fn on(
        &self,
        call: &'static str,
        act: impl Fn(usize) -> Outcome + Send + Sync + 'static,
    ) {
        locked(&self.0.acts).insert(call, Arc::new(act));
    }
    pub(crate) fn fails(&self, call: &'static str) {
        self.on(call, |_| Outcome::Fails);
    }
    pub(crate) fn panics(&self, call: &'static str) {
        // Panics without calling the panic hook.
        self.on(call, |_| std::panic::resume_unwind(Box::new("on purpose")));
    }
    /// Makes the call fail, or else panic.
    pub(crate) fn goes_wrong(&self, call: &'static str, fails: bool) {
        match fails {
            true => self.fails(call),
            false => self.panics(call),
        }
    }
    /// Makes the call succeed again.
    pub(crate) fn is_well(&self, call: &'static str) {
        locked(&self.0.acts).remove(call);
    }
    /// Returns the calls since the last time: `create 1 validate 1`.
    pub(crate) fn calls(&self) -> String {
        std::mem::take(&mut *locked(&self.0.calls)).join(" ")
    }
    pub(crate) fn alive(&self) -> usize {
        self.0.alive.load(SeqCst)
    }
    /// Returns the most resources that were alive at once.
    pub(crate) fn most_alive(&self) -> usize {
        self.0.most_alive.load(SeqCst)
    }
    /// Returns the same for one key.
    pub(crate) fn most_alive_of(&self, key: &str) -> usize {
        locked(&self.0.of_keys).get(key).map_or(0, |of_key| of_key.most)
    }
    pub(crate) fn made(&self) -> usize {
        self.0.made.load(SeqCst)
    }

    fn call(&self, what: &'static str, number: usize) -> Outcome {
        let note = if number == 0 { what.to_owned() } else { format!("{what} {number}") };
        locked(&self.0.calls).push(note);
        let act = locked(&self.0.acts).get(what).cloned();
        act.map_or(Outcome::Well, |act| act(number))
    }
    fn result(outcome: Outcome) -> Result<(), String> {
        match outcome {
            Outcome::Well => Ok(()),
            Outcome::Fails => Err("on purpose".to_owned()),
        }
    }
}

impl ResourceFactory for Script {
    type Resource = Resource;
    type Metadata = &'static str;
    type Error = String;

    fn create(&self, key: &&'static str) -> Result<Resource, String> {
        Script::result(self.call("create", 0))?;
        let number = self.0.made.fetch_add(1, SeqCst) + 1;
        Ok(Resource { number, active: false, valid: true, key, _exists: Exists::new(&self.0, key) })
    }
    fn destroy(&self, key: &&'static str, resource: Resource) {
        assert_eq!(*key, resource.key);
        self.call("destroy", resource.number);
    }
    fn validate(&self, _: &&'static str, resource: &mut Resource) -> bool {
        self.call("validate", resource.number) == Outcome::Well && resource.valid
    }
    fn activate(&self, key: &&'static str, resource: &mut Resource) -> Result<(), String> {
        assert!(!resource.active, "activated twice");
        assert_eq!(*key, resource.key);
        Script::result(self.call("activate", resource.number))?;
        resource.active = true;
        Ok(())
    }
    fn passivate(&self, _: &&'static str, resource: &mut Resource) -> Result<(), String> {
        Script::result(self.call("passivate", resource.number))?;
        resource.active = false;
        Ok(())
    }
}

/// A pool with its factory, its clock, and its listener's events.
pub(crate) struct Rig<P> {
    pub(crate) pool: P,
    pub(crate) script: Script,
    pub(crate) clock: ManualClock,
    events: Arc<Mutex<Vec<String>>>,
}

impl<P> Rig<P> {
    /// Returns the listener's events since the last call.
    pub(crate) fn events(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.events))
    }
    /// Drops the pool, and returns the records of that.
    pub(crate) fn end(self) -> (Script, Arc<Mutex<Vec<String>>>) {
        drop(self.pool);
        (self.script, self.events)
    }
}

fn listener(
    events: &Arc<Mutex<Vec<String>>>,
) -> impl Fn(&&'static str, &Event<String>) + Send + Sync + use<> {
    let events = events.clone();
    move |key, event| locked(&events).push(format!("{key}: {event:?}"))
}

fn rig<K>(
    builder: impl FnOnce(Script) -> Builder<Script, AnyPool<K>>,
    configure: impl FnOnce(Builder<Script, AnyPool<K>>) -> Builder<Script, AnyPool<K>>,
) -> Rig<AnyPool<K>> {
    end_the_run_when_the_library_panics();
    let (script, clock, events) = (Script::default(), ManualClock::new(), Arc::default());
    let builder = builder(script.clone()).clock(clock.clock()).maintenance(false);
    let pool = configure(builder.listener(listener(&events))).build().expect("a valid pool");
    Rig { pool, script, clock, events }
}

/// Returns a pool on a manual clock, without maintenance in the background: the test calls
/// `maintain()`.
pub(crate) fn pool(
    configure: impl FnOnce(Builder<Script, Pool>) -> Builder<Script, Pool>,
) -> Rig<Pool> {
    rig(|script| ResourcePool::builder(script, "m"), configure)
}

/// Returns a keyed pool.
pub(crate) fn keyed(
    configure: impl FnOnce(Builder<Script, Keyed>) -> Builder<Script, Keyed>,
) -> Rig<Keyed> {
    rig(KeyedResourcePool::builder, configure)
}

impl<K: 'static> Rig<AnyPool<K>> {
    /// Runs one pass of the maintenance, and returns when the next is due.
    pub(crate) fn due(&self) -> Option<Duration> {
        let pool = self.pool.clone();
        Task::new(async move { pool.maintain_async().await }).finish()
    }
    /// Returns (active, idle), as the Elixir pool's tests write it.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.pool.num_active(), self.pool.num_idle())
    }
    /// Starts a borrower on a thread of its own, and returns once it waits.
    #[track_caller]
    fn queued(&self, borrow: impl FnOnce(AnyPool<K>) -> Got + Send + 'static) -> Background<Got> {
        let (pool, before) = (self.pool.clone(), self.pool.num_waiting());
        let waits = Background::start(move || borrow(pool));
        before_long(|| self.pool.num_waiting() == before + 1);
        waits
    }
}

/// Borrows a resource that is available at once, and returns it. Returns its number.
#[track_caller]
pub(crate) fn use_one(rig: &Rig<Pool>) -> usize {
    rig.lend().number
}

/// Returns a borrower that is a task and waits.
#[track_caller]
fn waiting(borrower: impl Future<Output = Got> + Send + 'static) -> Task<Got> {
    let mut task = Task::new(borrower);
    assert!(task.poll().is_none(), "it waits");
    task
}

impl Rig<Pool> {
    #[track_caller]
    pub(crate) fn task(&self) -> Task<Got> {
        let pool = self.pool.clone();
        waiting(async move { pool.borrow_async().await.map(Borrowed::into_owned) })
    }
    /// Borrows a resource that is available at once.
    #[track_caller]
    pub(crate) fn lend(&self) -> Lent {
        Borrowed::into_owned(self.pool.try_borrow().expect("there is one"))
    }
    #[track_caller]
    pub(crate) fn lend_all<const N: usize>(&self) -> [Lent; N] {
        std::array::from_fn(|_| self.lend())
    }
    #[track_caller]
    pub(crate) fn queue(&self) -> Background<Got> {
        self.queued(|pool| pool.borrow().map(Borrowed::into_owned))
    }
}

impl Rig<Keyed> {
    #[track_caller]
    pub(crate) fn task(&self, key: &'static str) -> Task<Got> {
        let pool = self.pool.clone();
        waiting(async move { pool.borrow_async(&key).await.map(Borrowed::into_owned) })
    }
    #[track_caller]
    pub(crate) fn lend(&self, key: &'static str) -> Lent {
        Borrowed::into_owned(self.pool.try_borrow(&key).expect("there is one"))
    }
    #[track_caller]
    pub(crate) fn queue(&self, key: &'static str) -> Background<Got> {
        self.queued(move |pool| pool.borrow(&key).map(Borrowed::into_owned))
    }
}

/// A call on a thread of its own.
pub(crate) struct Background<T> {
    answer: Receiver<T>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> Background<T> {
    pub(crate) fn start(work: impl FnOnce() -> T + Send + 'static) -> Background<T> {
        let (sender, answer) = channel();
        let thread = std::thread::spawn(move || {
            // The test may have ended.
            let _ = sender.send(work());
        });
        Background { answer, thread }
    }
    /// Waits for its result.
    #[track_caller]
    pub(crate) fn end(self) -> T {
        let end = self.answer.recv_timeout(SOON).expect("it ends");
        self.thread.join().expect("no panic in the thread");
        end
    }
    /// Advances the clock until it has its result. A wait may begin only after an advance, so one may not do.
    #[track_caller]
    pub(crate) fn end_by(self, clock: &ManualClock, step: Duration) -> T {
        while !self.thread.is_finished() {
            clock.advance(step);
            std::thread::yield_now();
        }
        self.end()
    }
    /// Returns whether it has no result yet.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.answer.try_recv(), Err(TryRecvError::Empty))
    }
}
