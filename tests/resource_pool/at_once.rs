//! What an asynchronous factory does by futures that keep nothing: their size is zero, as that of the defaults is.
//! It is done at once where nothing can be awaited; what is not ready then is made again, to be awaited.

use crate::common::locked;
use crate::shared::end_the_run_when_the_library_panics;
use crate::shared::task::{Task, block_on};
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, AsyncResourcePool, BorrowError, Borrowed, ResourcePool,
    ResourcePoolBuilder,
};
use std::cell::Cell;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

#[derive(Clone, Copy)]
enum Mood {
    Ready,
    Pending,
    Fails,
    Panics,
}
use Mood::{Fails, Panics, Pending, Ready};

// What the futures come to: they themselves keep nothing.
thread_local! {
    static ACTIVATION: Cell<Mood> = const { Cell::new(Ready) };
    static PASSIVATION: Cell<Mood> = const { Cell::new(Ready) };
}

pub(crate) fn panics() -> ! {
    std::panic::resume_unwind(Box::new("on purpose"))
}

fn poll(mood: Mood) -> Poll<Result<(), &'static str>> {
    match mood {
        Ready => Poll::Ready(Ok(())),
        Pending => Poll::Pending,
        Fails => Poll::Ready(Err("no")),
        Panics => panics(),
    }
}

struct Activation;
impl Future for Activation {
    type Output = Result<(), &'static str>;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        poll(ACTIVATION.get())
    }
}

struct Passivation;
impl Future for Passivation {
    type Output = Result<(), &'static str>;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        poll(PASSIVATION.get())
    }
}

/// Numbers its resources, and notes each call.
#[derive(Clone, Default)]
struct Keepless {
    made: Arc<Mutex<u32>>,
    noted: Arc<Mutex<Vec<String>>>,
}

impl Keepless {
    fn note(&self, call: &str, number: u32) {
        locked(&self.noted).push(format!("{call} {number}"));
    }
}

impl AsyncResourceFactory for Keepless {
    type Resource = u32;
    type Metadata = ();
    type Error = &'static str;

    async fn create(&self, (): &()) -> Result<u32, &'static str> {
        let mut made = locked(&self.made);
        *made += 1;
        Ok(*made)
    }
    fn destroy(&self, (): &(), number: u32) {
        self.note("destroy", number);
    }
    async fn validate(&self, (): &(), number: &mut u32) -> bool {
        self.note("validate", *number);
        true
    }
    fn activate(
        &self,
        (): &(),
        number: &mut u32,
    ) -> impl Future<Output = Result<(), &'static str>> + Send {
        self.note("activate", *number);
        Activation
    }
    fn passivate(
        &self,
        (): &(),
        number: &mut u32,
    ) -> impl Future<Output = Result<(), &'static str>> + Send {
        self.note("passivate", *number);
        Passivation
    }
}

type Pool = AsyncResourcePool<Keepless>;
type Building = ResourcePoolBuilder<Async<Keepless>, Pool>;
type Got = Result<Borrowed<'static, Async<Keepless>>, BorrowError<&'static str>>;

struct Rig {
    pool: Pool,
    factory: Keepless,
}

impl Rig {
    /// With one resource in stock.
    fn new(configure: fn(Building) -> Building) -> Rig {
        end_the_run_when_the_library_panics();
        let factory = Keepless::default();
        let told = factory.noted.clone();
        let builder = ResourcePool::builder(Async(factory.clone()), ()).max_active(1);
        let builder = builder.listener(move |(), event| locked(&told).push(format!("{event:?}")));
        let pool = configure(builder).build_async().expect("valid");
        let rig = Rig { pool, factory };
        drop(rig.lend());
        rig.noted();
        rig
    }
    fn begin(&self) -> (Task<Got>, Option<Got>) {
        let pool = self.pool.clone();
        let mut task =
            Task::new(async move { pool.borrow_async().await.map(Borrowed::into_owned) });
        let got = task.poll();
        (task, got)
    }
    #[track_caller]
    fn lend(&self) -> Borrowed<'static, Async<Keepless>> {
        self.begin().1.expect("at once").expect("a resource")
    }
    /// Since the last time.
    fn noted(&self) -> String {
        std::mem::take(&mut *locked(&self.factory.noted)).join(", ")
    }
}

#[test]
fn what_is_ready_is_done_at_once() {
    let rig = Rig::new(|b| b);
    let lent = rig.lend();
    assert_eq!(rig.noted(), "activate 1");
    drop(lent);
    assert_eq!(rig.noted(), "passivate 1");
}

/// A test is awaited, and what follows it comes after it.
#[test]
fn nothing_is_done_before_a_test_that_is_due() {
    let rig = Rig::new(|b| b.test_on_return(true).test_on_borrow(true));
    drop(rig.lend());
    let comes_back = "validate 1, passivate 1";
    assert_eq!(rig.noted(), format!("{comes_back}, activate 1, validate 1"));
}

#[test]
fn what_is_not_ready_at_the_return_is_made_again_for_the_next_borrower() {
    let rig = Rig::new(|b| b);
    let lent = rig.lend();
    rig.noted();
    PASSIVATION.set(Pending);
    drop(lent);
    assert_eq!((rig.noted().as_str(), rig.pool.num_idle()), ("passivate 1", 1));
    let (mut task, got) = rig.begin();
    assert!(got.is_none());
    assert_eq!(rig.noted(), "passivate 1");
    PASSIVATION.set(Ready);
    assert_eq!(*task.poll().expect("done").expect("a resource"), 1);
    assert_eq!(rig.noted(), "activate 1, passivate 1");
}

#[test]
fn what_is_not_ready_for_a_borrower_is_made_again_and_awaited() {
    let rig = Rig::new(|b| b);
    ACTIVATION.set(Pending);
    let (mut task, got) = rig.begin();
    assert!(got.is_none());
    assert_eq!(rig.noted(), "activate 1, activate 1");
    ACTIVATION.set(Ready);
    assert_eq!(*task.poll().expect("done").expect("a resource"), 1);
    assert_eq!(rig.noted(), "passivate 1");

    // Who gives up while it is awaited leaves nothing behind.
    ACTIVATION.set(Pending);
    drop(rig.begin());
    assert_eq!(rig.noted(), "activate 1, activate 1, destroy 1");
    assert_eq!((rig.pool.num_active(), rig.pool.num_total()), (0, 0));
}

/// What cannot be passivated is destroyed; in the place of what cannot be activated, another is lent.
#[test]
fn what_fails_at_once_is_told_of() {
    for (mood, said) in [(Fails, "Error(\"no\")"), (Panics, "Panicked(\"on purpose\")")] {
        let rig = Rig::new(|b| b);
        let lent = rig.lend();
        rig.noted();
        PASSIVATION.set(mood);
        drop(lent);
        PASSIVATION.set(Ready);
        let told = format!("PassivateFailed({said})");
        assert_eq!(rig.noted(), format!("passivate 1, {told}, destroy 1"));
        assert_eq!(rig.pool.num_total(), 0);

        drop(rig.lend());
        rig.noted();
        ACTIVATION.set(mood);
        let (_, got) = rig.begin();
        ACTIVATION.set(Ready);
        let error = got.expect("at once").expect_err("the new one cannot be activated, either");
        assert!(matches!(error, BorrowError::Activate(_)), "{error:?}");
        let told = format!("ActivateFailed({said})");
        assert_eq!(rig.noted(), format!("activate 2, {told}, destroy 2, activate 3, destroy 3"));
        assert_eq!((rig.pool.num_active(), rig.pool.num_total()), (0, 0));
    }
}

/// What is said of a factory whose resources are nothing: only what is done with them matters.
macro_rules! makes_nothing {
    () => {
        type Resource = ();
        type Metadata = ();
        type Error = &'static str;
        async fn create(&self, (): &()) -> Result<(), &'static str> {
            Ok(())
        }
    };
}

/// Of no size, too; but to drop it is foreign code, so it is not done in passing.
struct Explosive;
impl Future for Explosive {
    type Output = Result<(), &'static str>;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(()))
    }
}
impl Drop for Explosive {
    fn drop(&mut self) {
        panics();
    }
}

struct Dropped;
impl AsyncResourceFactory for Dropped {
    makes_nothing!();
    fn passivate(
        &self,
        (): &(),
        (): &mut (),
    ) -> impl Future<Output = Result<(), &'static str>> + Send {
        Explosive
    }
}

#[test]
fn what_is_to_be_dropped_is_awaited() {
    end_the_run_when_the_library_panics();
    let pool = ResourcePool::builder(Async(Dropped), ()).max_active(1).build_async();
    let pool = pool.expect("valid");
    let borrow = || {
        let pool = pool.clone();
        Task::new(async move { pool.borrow_async().await.map(drop) }).poll()
    };
    for _ in 0..2 {
        borrow().expect("at once").expect("what failed to be passivated is replaced");
        assert_eq!((pool.num_idle(), pool.num_total()), (1, 1));
    }
}

fn counted(count: &'static std::thread::LocalKey<Cell<u32>>) {
    count.set(count.get() + 1);
}

thread_local! {
    static TESTS: Cell<u32> = const { Cell::new(0) };
    static PASSIVATIONS: Cell<u32> = const { Cell::new(0) };
}

/// Its passivation keeps something, though nothing is to be dropped of it.
struct Keeps;
struct Counting(u8);
impl Future for Counting {
    type Output = Result<(), &'static str>;
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.0 += 1;
        counted(&PASSIVATIONS);
        Poll::Ready(Ok(()))
    }
}
impl AsyncResourceFactory for Keeps {
    makes_nothing!();
    fn passivate(
        &self,
        (): &(),
        (): &mut (),
    ) -> impl Future<Output = Result<(), &'static str>> + Send {
        Counting(0)
    }
}

/// As it is awaited, it may be what a runtime has to poll, and what it begins may be cut short.
#[test]
fn what_keeps_something_is_left_to_who_can_await_it() {
    end_the_run_when_the_library_panics();
    let pool = ResourcePool::builder(Async(Keeps), ()).build_async().expect("valid");
    let lend = || block_on(pool.borrow_async()).expect("lent");
    drop(lend());
    assert_eq!(PASSIVATIONS.get(), 0);
    let lent = lend();
    assert_eq!(PASSIVATIONS.get(), 1);
    // What is put back has been passivated, however it came back before.
    block_on(lent.put_back());
    assert_eq!(PASSIVATIONS.get(), 2);
    drop(lend());
    assert_eq!(PASSIVATIONS.get(), 2);
}

/// Nothing of it is left as it is but the activation and the passivation.
struct Tested;
impl AsyncResourceFactory for Tested {
    makes_nothing!();
    async fn validate(&self, (): &(), (): &mut ()) -> bool {
        counted(&TESTS);
        TESTS.get() != 2
    }
}

#[test]
fn what_is_clean_is_tested_before_it_is_lent() {
    end_the_run_when_the_library_panics();
    let pool = ResourcePool::builder(Async(Tested), ()).max_active(1).test_on_borrow(true);
    let pool = pool.build_async().expect("valid");
    let lend = || drop(block_on(pool.borrow_async()).expect("lent"));
    lend();
    assert_eq!(TESTS.get(), 0, "it has just been made");
    lend();
    assert_eq!(TESTS.get(), 1);
    // It fails: another is made in its place.
    lend();
    assert_eq!((TESTS.get(), pool.num_total()), (2, 1));
}

/// What panics before it has given a future.
struct Refusing;
impl AsyncResourceFactory for Refusing {
    makes_nothing!();
    fn activate(
        &self,
        (): &(),
        (): &mut (),
    ) -> impl Future<Output = Result<(), &'static str>> + Send {
        match ACTIVATION.get() {
            Panics => panics(),
            _ => Counting(0),
        }
    }
}

/// Rule 7.
#[test]
fn a_panic_before_there_is_a_future_goes_no_further() {
    end_the_run_when_the_library_panics();
    let pool = ResourcePool::builder(Async(Refusing), ()).build_async().expect("valid");
    drop(block_on(pool.borrow_async()).expect("lent"));
    ACTIVATION.set(Panics);
    let error = block_on(pool.borrow_async()).map(drop).expect_err("it cannot be activated");
    ACTIVATION.set(Ready);
    assert!(matches!(error, BorrowError::Activate(_)), "{error:?}");
    assert_eq!((pool.num_active(), pool.num_total()), (0, 0));
}
