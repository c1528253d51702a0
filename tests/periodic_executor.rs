//! The periodic executor, thread and task: what the original's own suite checks (Q1 to Q11), and what it
//! does not (reopening, wakes during a call, the minimum interval, shutdowns). Time is moved by hand.

mod common;

use cabrank::{
    AsyncPeriodicExecutor, BoxFuture, Flow, JoinError, Joined, ManualClock, OpenError,
    PeriodicExecutor, Phase, Registry, Runtime,
};
use common::task::block_on;
use common::{before_long, soon};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// Each task on a thread of its own. No test waits for its timer.
#[derive(Clone)]
struct Threads;

impl Runtime for Threads {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        std::thread::spawn(move || block_on(task));
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::pending()
    }
}

/// Both flavours under one name.
trait Executor: Clone + Send + Sync + 'static {
    fn build(interval: Duration, min: Duration, clock: &ManualClock, target: Target) -> Self;
    fn open(&self);
    fn close(&self);
    fn wake(&self);
    fn join(&self) -> Result<Joined, JoinError>;
    fn update_interval(&self, interval: Duration);
    fn skip_sleep(&self);
    fn phase(&self) -> Phase;
}

type Target = Box<dyn FnMut(usize) -> Flow + Send>;

impl Executor for PeriodicExecutor {
    fn build(interval: Duration, min: Duration, clock: &ManualClock, mut target: Target) -> Self {
        let builder = PeriodicExecutor::builder(interval).min_interval(min).clock(clock.clock());
        let mut calls = 0;
        builder.unregistered().target(move || {
            calls += 1;
            target(calls)
        })
    }
    fn open(&self) {
        PeriodicExecutor::open(self).expect("a thread");
    }
    fn close(&self) {
        PeriodicExecutor::close(self);
    }
    fn wake(&self) {
        PeriodicExecutor::wake(self);
    }
    fn join(&self) -> Result<Joined, JoinError> {
        let theirs = self.clone();
        soon(move || PeriodicExecutor::join(&theirs))
    }
    fn update_interval(&self, interval: Duration) {
        PeriodicExecutor::update_interval(self, interval);
    }
    fn skip_sleep(&self) {
        PeriodicExecutor::skip_sleep(self);
    }
    fn phase(&self) -> Phase {
        PeriodicExecutor::phase(self)
    }
}

impl Executor for AsyncPeriodicExecutor<Threads> {
    fn build(interval: Duration, min: Duration, clock: &ManualClock, mut target: Target) -> Self {
        let builder = AsyncPeriodicExecutor::builder(interval, Threads);
        let mut calls = 0;
        builder.min_interval(min).clock(clock.clock()).unregistered().target(move || {
            calls += 1;
            let flow = target(calls);
            async move { flow }
        })
    }
    fn open(&self) {
        AsyncPeriodicExecutor::open(self).expect("a task");
    }
    fn close(&self) {
        AsyncPeriodicExecutor::close(self);
    }
    fn wake(&self) {
        AsyncPeriodicExecutor::wake(self);
    }
    fn join(&self) -> Result<Joined, JoinError> {
        let theirs = self.clone();
        soon(move || block_on(AsyncPeriodicExecutor::join(&theirs)))
    }
    fn update_interval(&self, interval: Duration) {
        AsyncPeriodicExecutor::update_interval(self, interval);
    }
    fn skip_sleep(&self) {
        AsyncPeriodicExecutor::skip_sleep(self);
    }
    fn phase(&self) -> Phase {
        AsyncPeriodicExecutor::phase(self)
    }
}

/// An executor, and the seconds on its clock at which its target was called.
struct Rig<E> {
    executor: E,
    clock: ManualClock,
    seconds: Arc<AtomicUsize>,
    calls: Arc<Mutex<Vec<usize>>>,
}

impl<E: Executor> Rig<E> {
    fn new(
        interval: Duration,
        min: Duration,
        mut target: impl FnMut(usize) -> Flow + Send + 'static,
    ) -> Self {
        let clock = ManualClock::new();
        let (seconds, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let executor = {
            let (seconds, calls) = (seconds.clone(), calls.clone());
            let target = move |call| {
                calls.lock().expect("no panic").push(seconds.load(SeqCst));
                target(call)
            };
            E::build(interval, min, &clock, Box::new(target))
        };
        Rig { executor, clock, seconds, calls }
    }
    /// Waits until it sleeps, or has stopped: the clock may then be moved. It may look at the clock once more
    /// before it sleeps on, so a call that is due then may still be to come: see [`has_called`](Self::has_called).
    fn settle(&self) {
        before_long(|| self.executor.phase() != Phase::Busy);
    }
    fn advance(&self, seconds: usize) {
        self.settle();
        self.seconds.fetch_add(seconds, SeqCst);
        self.clock.advance(SECOND * u32::try_from(seconds).expect("few"));
        self.settle();
    }
    fn calls(&self) -> Vec<usize> {
        self.calls.lock().expect("no panic").clone()
    }
    /// It calls its target as often as this, at these seconds, and no more.
    #[track_caller]
    fn has_called(&self, at: &[usize]) {
        before_long(|| self.calls().len() >= at.len());
        self.settle();
        assert_eq!(self.calls(), at);
    }
    /// Wakes, and waits until that has been served or put off.
    fn wake(&self) {
        self.settle();
        self.executor.wake();
        self.settle();
    }
}

/// One test for each flavour.
macro_rules! both {
    ($($(#[$doc:meta])* $name:ident, $of_tasks:ident => $body:ident;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            $body::<PeriodicExecutor>();
        }
        $(#[$doc])*
        #[test]
        fn $of_tasks() {
            $body::<AsyncPeriodicExecutor<Threads>>();
        }
    )*};
}

both! {
    q01_join_before_the_first_open_returns, q01_a_task_is_joined_before_the_first_open => q01;
    q02_a_target_that_says_no_stops, q02_an_async_target_that_says_no_stops => q02;
    q03_skip_sleep_leaves_out_one_pause, q03_skip_sleep_of_a_task => q03;
    q04_wake_runs_early, q04_wake_runs_a_task_early => q04;
    q05_a_new_interval_counts_from_the_next_pause, q05_a_new_interval_of_a_task => q05;
    q06_what_has_stopped_can_be_opened_again, q06_a_task_that_has_stopped_can_be_opened_again => q06;
    q07_a_panic_stops_it_and_is_given_to_join, q07_a_panic_of_a_task => q07;
    a_wake_during_a_call_causes_another, a_wake_during_a_tasks_call => wake_during_a_call;
    wakes_are_held_back_by_the_minimum_interval, a_tasks_wakes_are_held_back => held_back;
    wakes_before_a_call_are_served_by_it, wakes_before_a_tasks_call => coalesced;
    a_target_chooses_its_pause, an_async_target_chooses_its_pause => chosen_pause;
    close_ends_a_sleep_at_once, close_ends_a_tasks_sleep => close_ends_a_sleep;
    an_open_that_follows_a_close_runs_at_once, a_task_runs_at_once_when_reopened => reopen;
    opening_what_is_open_changes_nothing, opening_an_open_task_changes_nothing => open_twice;
}

fn q01<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |_| Flow::Continue);
    assert_eq!(rig.executor.join(), Ok(Joined::NeverOpened));
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::NeverOpened));
}

fn q02<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |call| Flow::from(call < 3));
    rig.executor.open();
    for called in [&[0][..], &[0, 1], &[0, 1, 2]] {
        rig.has_called(called);
        rig.advance(1);
    }
    assert_eq!(rig.executor.join(), Ok(Joined::Finished));
    rig.has_called(&[0, 1, 2]);
}

fn q03<E: Executor>() {
    let skips: Arc<OnceLock<E>> = Arc::default();
    let executor = skips.clone();
    let rig = Rig::<E>::new(10 * SECOND, 5 * SECOND, move |call| {
        if call == 2 {
            executor.get().expect("it is set").skip_sleep();
        }
        Flow::from(call < 4)
    });
    assert!(skips.set(rig.executor.clone()).is_ok());
    rig.executor.open();
    rig.advance(10);
    // One pause is left out, and one only.
    rig.has_called(&[0, 10, 10]);
    rig.advance(10);
    assert_eq!(rig.executor.join(), Ok(Joined::Finished));
    rig.has_called(&[0, 10, 10, 20]);
}

fn q04<E: Executor>() {
    let rig = Rig::<E>::new(30 * SECOND, Duration::ZERO, |_| Flow::Continue);
    rig.executor.open();
    rig.advance(3);
    rig.has_called(&[0]);
    rig.wake();
    rig.has_called(&[0, 3]);
    rig.advance(29);
    // The interval begins anew.
    rig.has_called(&[0, 3]);
    rig.advance(1);
    rig.has_called(&[0, 3, 33]);
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
}

fn q05<E: Executor>() {
    let rig = Rig::<E>::new(30 * SECOND, Duration::ZERO, |_| Flow::Continue);
    rig.executor.open();
    rig.settle();
    rig.executor.update_interval(2 * SECOND);
    rig.advance(29);
    // The pause under way stays.
    rig.has_called(&[0]);
    rig.advance(1);
    rig.has_called(&[0, 30]);
    rig.advance(2);
    rig.has_called(&[0, 30, 32]);
    rig.advance(2);
    rig.has_called(&[0, 30, 32, 34]);
    rig.executor.close();
}

fn q06<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |_| Flow::Stop);
    for opened in 1..=3 {
        rig.executor.open();
        assert_eq!(rig.executor.join(), Ok(Joined::Finished));
        assert_eq!((rig.calls().len(), rig.executor.phase()), (opened, Phase::Stopped));
    }
}

fn q07<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |call| match call {
        // Without the report that a panic makes.
        1 => std::panic::resume_unwind(Box::new("no such host")),
        _ => Flow::Stop,
    });
    rig.executor.open();
    for _ in 0..2 {
        // Kept: each who asks is told.
        let panic = rig.executor.join().expect_err("it panicked");
        assert_eq!(panic, JoinError::Panicked("no such host".into()));
        assert_eq!(panic.to_string(), "the executor's target panicked: no such host");
    }
    assert_eq!(rig.executor.phase(), Phase::Stopped);
    rig.executor.open();
    assert_eq!(rig.executor.join(), Ok(Joined::Finished));
    assert_eq!(rig.calls().len(), 2);
}

/// What a target waits for, and who lets it go on.
fn gate() -> (Sender<()>, Receiver<()>) {
    channel()
}

fn wake_during_a_call<E: Executor>() {
    let ((entered, inside), (go, gone)) = (gate(), gate());
    let rig = Rig::<E>::new(Duration::MAX, Duration::ZERO, move |call| {
        if call == 1 {
            entered.send(()).expect("the test waits");
            gone.recv().expect("the test lets it go");
        }
        Flow::Continue
    });
    rig.executor.open();
    inside.recv().expect("it is called");
    rig.executor.wake();
    go.send(()).expect("it waits");
    before_long(|| rig.calls().len() == 2);
    rig.settle();
    assert_eq!(rig.calls().len(), 2);
}

fn held_back<E: Executor>() {
    let rig = Rig::<E>::new(60 * SECOND, 5 * SECOND, |_| Flow::Continue);
    rig.executor.open();
    rig.advance(1);
    rig.wake();
    rig.advance(3);
    // It knows: more wakes leave it asleep.
    rig.executor.wake();
    assert_eq!(rig.executor.phase(), Phase::Asleep);
    rig.has_called(&[0]);
    rig.advance(1);
    rig.has_called(&[0, 5]);
    // What was held back is not owed any more.
    rig.advance(10);
    rig.has_called(&[0, 5]);
    rig.wake();
    rig.has_called(&[0, 5, 15]);
    // Closing is not held back.
    rig.wake();
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
    rig.has_called(&[0, 5, 15]);
}

fn coalesced<E: Executor>() {
    let rig = Rig::<E>::new(60 * SECOND, Duration::ZERO, |_| Flow::Continue);
    rig.executor.wake();
    rig.executor.wake();
    rig.executor.open();
    rig.advance(1);
    rig.has_called(&[0]);
}

fn chosen_pause<E: Executor>() {
    let rig = Rig::<E>::new(60 * SECOND, 2 * SECOND, |call| match call {
        1 => Flow::After(7 * SECOND),
        2 => Flow::After(Duration::ZERO),
        3 => Flow::Idle,
        _ => Flow::Continue,
    });
    rig.executor.open();
    rig.advance(6);
    rig.advance(1);
    rig.has_called(&[0, 7]);
    rig.advance(2);
    // Not before the minimum interval.
    rig.has_called(&[0, 7, 9]);
    rig.advance(1000);
    rig.has_called(&[0, 7, 9]);
    rig.wake();
    rig.has_called(&[0, 7, 9, 1009]);
    rig.advance(60);
    rig.has_called(&[0, 7, 9, 1009, 1069]);
}

fn close_ends_a_sleep<E: Executor>() {
    let rig = Rig::<E>::new(Duration::MAX, Duration::MAX, |_| Flow::Continue);
    rig.executor.open();
    before_long(|| rig.calls().len() == 1);
    rig.settle();
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
    rig.executor.wake();
    assert_eq!((rig.calls().len(), rig.executor.phase()), (1, Phase::Stopped));
}

fn reopen<E: Executor>() {
    let rig = Rig::<E>::new(Duration::MAX, Duration::MAX, |_| Flow::Continue);
    for opened in 1..=100 {
        rig.executor.open();
        before_long(|| rig.calls().len() == opened);
        // Obeyed or not: the next open is a call more.
        rig.executor.close();
    }
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
    assert_eq!(rig.calls().len(), 100);
}

fn open_twice<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |_| Flow::Continue);
    rig.executor.open();
    rig.has_called(&[0]);
    for _ in 0..10 {
        rig.settle();
        rig.executor.open();
    }
    rig.advance(1);
    rig.has_called(&[0, 1]);
}

#[test]
fn q01_join_ends_at_its_time_out_on_its_own_thread_and_when_it_has_finished() {
    let clock = ManualClock::new();
    let (asked, answer) = channel();
    let me: Arc<OnceLock<PeriodicExecutor>> = Arc::default();
    let executor = {
        let me = me.clone();
        let builder = PeriodicExecutor::builder(Duration::MAX).clock(clock.clock()).unregistered();
        builder.target(move || {
            let joined = me.get().map(|me| me.join());
            asked.send(joined).expect("the test waits");
        })
    };
    assert!(me.set(executor.clone()).is_ok());
    executor.open().expect("a thread");
    assert_eq!(answer.recv().expect("it is called"), Some(Ok(Joined::Itself)));
    assert_eq!(executor.join_timeout(Duration::ZERO), Err(JoinError::TimedOut));
    let theirs = executor.clone();
    let joining = std::thread::spawn(move || theirs.join_timeout(5 * SECOND));
    // However early it has begun: its time comes.
    before_long(|| {
        clock.advance(SECOND);
        joining.is_finished()
    });
    assert_eq!(joining.join().expect("no panic"), Err(JoinError::TimedOut));
    executor.close();
    assert_eq!(executor.join_timeout(Duration::MAX), Ok(Joined::Closed));
    assert_eq!(executor.join(), Ok(Joined::Closed));
}

#[test]
fn q01_a_tasks_join_ends_by_the_runtimes_timer_within_its_own_call_and_when_dropped() {
    struct Early;
    impl Runtime for Early {
        type Sleep = std::future::Ready<()>;
        fn spawn(&self, task: BoxFuture<()>) {
            Threads.spawn(task);
        }
        fn sleep_until(&self, _: Instant) -> Self::Sleep {
            std::future::ready(())
        }
    }
    let me: Arc<OnceLock<AsyncPeriodicExecutor<Early>>> = Arc::default();
    let (asked, answer) = channel();
    let executor = {
        let me = me.clone();
        let builder = AsyncPeriodicExecutor::builder(Duration::MAX, Early).unregistered();
        builder.target(move || {
            let (me, asked) = (me.clone(), asked.clone());
            async move {
                let joined = me.get().expect("it is set").join().await;
                asked.send(joined).expect("the test waits");
            }
        })
    };
    assert!(me.set(executor.clone()).is_ok());
    executor.open().expect("a task");
    assert_eq!(answer.recv().expect("it is called"), Ok(Joined::Itself));
    assert_eq!(block_on(executor.join_timeout(SECOND)), Err(JoinError::TimedOut));
    executor.close();
    assert_eq!(block_on(executor.join()), Ok(Joined::Closed));
}

/// On the system's clock: each pause is as long as the interval, by one timer of the runtime, which is
/// set again if it is early.
#[test]
fn a_task_pauses_by_the_runtimes_timer() {
    const PAUSE: Duration = Duration::from_millis(5);
    /// Every other timer is ready before its time.
    #[derive(Clone, Default)]
    struct Timers(Arc<Mutex<Vec<Instant>>>);
    impl Runtime for Timers {
        type Sleep = BoxFuture<()>;
        fn spawn(&self, task: BoxFuture<()>) {
            Threads.spawn(task);
        }
        fn sleep_until(&self, at: Instant) -> Self::Sleep {
            let mut set = self.0.lock().expect("no panic");
            set.push(at);
            if set.len() % 2 == 1 {
                return Box::pin(std::future::ready(()));
            }
            Box::pin(std::future::poll_fn(move |cx| {
                match at.checked_duration_since(Instant::now()) {
                    None | Some(Duration::ZERO) => Poll::Ready(()),
                    Some(_) => {
                        // It is polled until its time has come.
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                }
            }))
        }
    }
    let (timers, calls) = (Timers::default(), Arc::new(Mutex::new(Vec::new())));
    let executor = {
        let calls = calls.clone();
        AsyncPeriodicExecutor::builder(PAUSE, timers.clone()).unregistered().target(move || {
            let mut calls = calls.lock().expect("no panic");
            calls.push(Instant::now());
            std::future::ready(calls.len() < 4)
        })
    };
    executor.open().expect("a task");
    assert_eq!(block_on(executor.join()), Ok(Joined::Finished));
    let (calls, mut set) = (calls.lock().expect("no panic"), timers.0.lock().expect("no panic"));
    // The early one, and the same again; unless it was time by then.
    set.dedup();
    assert_eq!((calls.len(), set.len()), (4, 3), "one for each of three pauses");
    for (due, pair) in set.iter().zip(calls.windows(2)) {
        assert!(pair[0] + PAUSE <= *due && *due <= pair[1]);
    }
}

/// A client with its four executors, as PyMongo's has: three monitors and the killer of cursors.
struct Client {
    executors: Vec<PeriodicExecutor>,
}

impl Client {
    fn new(registry: &Registry) -> Arc<Client> {
        Arc::new_cyclic(|me: &Weak<Client>| {
            let executor = |n| {
                let builder = PeriodicExecutor::builder(Duration::MAX).registry(registry);
                builder.name(&format!("monitor {n}")).weak(me.clone(), |_| ())
            };
            Client { executors: (0..4).map(executor).collect() }
        })
    }
    fn open(&self) -> Result<(), OpenError> {
        self.executors.iter().try_for_each(PeriodicExecutor::open)
    }
}

#[test]
fn q08_dropping_the_client_stops_and_unregisters_its_executors() {
    let registry = Registry::new();
    let client = Client::new(&registry);
    client.open().expect("threads");
    assert_eq!(registry.len(), 4);
    drop(client);
    before_long(|| registry.is_empty());
}

#[test]
fn q08_a_tie_stops_them_though_there_are_other_handles() {
    struct Owner(OnceLock<cabrank::Tie>);
    let owner = Arc::new(Owner(OnceLock::new()));
    let builder = PeriodicExecutor::builder(Duration::MAX).unregistered();
    let executor = builder.weak(Arc::downgrade(&owner), |_| ());
    assert!(owner.0.set(executor.tie()).is_ok());
    executor.open().expect("a thread");
    drop(owner);
    let theirs = executor.clone();
    let joined = soon(move || theirs.join()).expect("no panic");
    assert!(matches!(joined, Joined::Closed | Joined::TargetGone), "{joined:?}");
    executor.open().expect("a thread");
    let theirs = executor.clone();
    assert_eq!(soon(move || theirs.join()), Ok(Joined::TargetGone), "it stays gone");
}

#[test]
fn q08_without_a_tie_the_end_of_a_target_is_noticed_at_the_next_call() {
    let clock = ManualClock::new();
    let target = Arc::new(());
    let calls = Arc::new(AtomicUsize::new(0));
    let executor = {
        let calls = calls.clone();
        PeriodicExecutor::builder(SECOND).clock(clock.clock()).unregistered().weak(
            Arc::downgrade(&target),
            move |()| {
                calls.fetch_add(1, SeqCst);
            },
        )
    };
    executor.open().expect("a thread");
    before_long(|| executor.phase() == Phase::Asleep);
    drop(target);
    assert_eq!(executor.join_timeout(Duration::ZERO), Err(JoinError::TimedOut));
    clock.advance(SECOND);
    assert_eq!(soon(move || executor.join()), Ok(Joined::TargetGone));
    assert_eq!(calls.load(SeqCst), 1);
}

#[test]
fn q09_closing_the_client_stops_its_executors() {
    let registry = Registry::new();
    let client = Client::new(&registry);
    client.open().expect("threads");
    client.executors.iter().for_each(PeriodicExecutor::close);
    for executor in &client.executors {
        let executor = executor.clone();
        assert_eq!(soon(move || executor.join()), Ok(Joined::Closed));
    }
    assert!(registry.is_empty());
}

#[test]
fn q10_a_client_that_is_made_after_the_shutdown_is_refused_quietly() {
    let registry = Registry::new();
    registry.shutdown(SECOND).expect("nobody is there");
    let client = Client::new(&registry);
    assert!(matches!(client.open(), Err(OpenError::ShutDown)));
    assert_eq!(client.executors[0].join(), Ok(Joined::NeverOpened));
    assert_eq!(client.executors[0].phase(), Phase::Stopped);
    assert!(registry.is_empty());
}

#[test]
fn one_shutdown_ends_all_and_names_who_is_late() {
    let clock = ManualClock::new();
    let registry = Registry::with_clock(clock.clock());
    let ((entered, inside), (go, gone)) = (gate(), gate());
    let gone = Arc::new(Mutex::new(gone));
    let build = |name: &str, target: Box<dyn FnMut() + Send>| {
        let builder = PeriodicExecutor::builder(Duration::MAX).clock(clock.clock());
        builder.name(name).registry(&registry).target(target)
    };
    let stuck = |name: &str| {
        let (entered, gone) = (entered.clone(), gone.clone());
        build(
            name,
            Box::new(move || {
                entered.send(()).expect("the test waits");
                let _ = gone.lock().expect("no panic").recv();
            }),
        )
    };
    let executors = [stuck("one"), stuck("two"), build("three", Box::new(|| ()))];
    for executor in &executors {
        executor.open().expect("a thread");
    }
    (0..2).for_each(|_| inside.recv().expect("both are called"));
    let theirs = registry.clone();
    let shutting = std::thread::spawn(move || theirs.shutdown(5 * SECOND));
    // One deadline for all: five seconds are enough, whenever they begin.
    before_long(|| executors[2].phase() == Phase::Stopped);
    before_long(|| {
        clock.advance(5 * SECOND);
        shutting.is_finished()
    });
    let error = shutting.join().expect("no panic").expect_err("two are late");
    assert_eq!(error.to_string(), "not stopped in time: one, two");
    assert_eq!(registry.len(), 2);
    // They are closed all the same.
    drop(go);
    for executor in executors {
        assert_eq!(soon(move || executor.join()), Ok(Joined::Closed));
    }
    assert!(registry.is_empty());
}

#[test]
fn a_thread_that_cannot_be_started_is_reported_and_leaves_it_stopped() {
    let registry = Registry::new();
    let executor = PeriodicExecutor::builder(SECOND)
        .registry(&registry)
        .stack_size(usize::MAX / 2)
        .target(|| Flow::Stop);
    for _ in 0..2 {
        assert!(matches!(executor.open(), Err(OpenError::NotStarted(_))));
        assert_eq!(executor.join(), Ok(Joined::Abandoned));
        assert!(registry.is_empty() && !executor.is_open());
    }
}

#[test]
fn a_task_that_its_runtime_drops_has_ended() {
    #[derive(Clone, Default)]
    struct Keeps(Arc<Mutex<Vec<BoxFuture<()>>>>);
    impl Runtime for Keeps {
        type Sleep = std::future::Pending<()>;
        fn spawn(&self, task: BoxFuture<()>) {
            self.0.lock().expect("no panic").push(task);
        }
        fn sleep_until(&self, _: Instant) -> Self::Sleep {
            std::future::pending()
        }
    }
    let runtime = Keeps::default();
    let builder = AsyncPeriodicExecutor::builder(SECOND, runtime.clone()).unregistered();
    let executor = builder.target(|| async {});
    executor.open().expect("a task");
    assert!(executor.is_open());
    drop(runtime.0.lock().expect("no panic").pop());
    assert_eq!(block_on(executor.join()), Ok(Joined::Abandoned));
    executor.open().expect("a task");
    let task = runtime.0.lock().expect("no panic").pop().expect("it was spawned");
    executor.close();
    block_on(task);
    assert_eq!(block_on(executor.join()), Ok(Joined::Closed));
}

/// A target owns what it changes; it is dropped with the executor, and its panics then go no further.
#[test]
fn a_target_is_dropped_with_its_executor() {
    struct Bomb(Sender<()>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.send(()).expect("the test waits");
            std::panic::resume_unwind(Box::new("dropped"));
        }
    }
    let (dropped, told) = channel();
    let bomb = Bomb(dropped);
    let executor = PeriodicExecutor::builder(Duration::MAX).unregistered().target(move || {
        let _ = &bomb;
    });
    executor.open().expect("a thread");
    drop(executor);
    soon(move || told.recv()).expect("it is dropped");
}

/// Checked by the compiler.
#[test]
fn handles_may_be_shared_and_tasks_sent() {
    fn is_shared<T: Send + Sync + 'static>() {}
    fn is_send<T: Send>(_: &T) {}
    is_shared::<PeriodicExecutor>();
    is_shared::<AsyncPeriodicExecutor<Threads>>();
    is_shared::<Registry>();
    is_shared::<cabrank::Tie>();
    let executor = AsyncPeriodicExecutor::builder(SECOND, Threads).target(|| async {});
    is_send(&executor.join());
    is_send(&executor.join_timeout(SECOND));
}
