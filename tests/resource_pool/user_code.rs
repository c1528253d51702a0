//! Panics and errors of the factory, of resources, keys, wakers and the listener: each is contained
//! and reported where possible, and frees its place.

use crate::common::{Outcome, Pool, locked, pool};
use crate::shared::end_the_run_when_the_library_panics;
use crate::shared::task::{Task, block_on};
use cabrank::resource_pool::{
    AddError, Async, AsyncResourceFactory, BorrowError, Borrowed, Event, Failure,
    KeyedResourcePool, ResourceFactory, ResourcePool, WeakResourcePool,
};
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};

/// The report of a panicking test names the test, whatever its purpose.
#[test]
fn a_panicking_test_is_reported_by_its_name() {
    let rig = pool(|b| b.test_on_return(true));
    rig.script.panics("validate");
    drop(rig.lend());
    assert_eq!(rig.events(), [r#"m: ValidatePanicked("on purpose")"#]);
}

/// An error or panic of `create` goes to its borrower, and has no further effect.
#[test]
fn a_failed_creation_goes_to_its_borrower_only() {
    for (fails, failure) in [
        (true, Failure::Error("on purpose".to_owned())),
        (false, Failure::Panicked("on purpose".to_owned())),
    ] {
        let rig = pool(|b| b.max_active(1).max_total(1));
        rig.script.goes_wrong("create", fails);
        assert_eq!(rig.pool.borrow().unwrap_err(), BorrowError::Create(failure.clone()));
        assert_eq!(rig.pool.add(), Err(AddError::Create(failure)));
        assert_eq!((rig.counts(), rig.pool.num_total()), ((0, 0), 0));
        assert!(rig.events().is_empty(), "only the borrower gets the error");
        rig.script.is_well("create");
        drop(rig.lend());
    }
}

/// An idle resource that cannot be activated is destroyed, and the borrower gets another. A new one
/// that cannot be activated is the borrower's error.
#[test]
fn an_activation_that_fails() {
    for (fails, reported) in
        [(true, r#"Error("on purpose")"#), (false, r#"Panicked("on purpose")"#)]
    {
        let rig = pool(|b| b.max_active(2).max_total(2));
        drop(rig.lend_all::<2>());
        let failing = move |number| match number {
            2 if fails => Outcome::Fails,
            2 => resume_unwind(Box::new("on purpose")),
            _ => Outcome::Well,
        };
        rig.script.on("activate", failing);
        assert_eq!(rig.lend().number, 1);
        assert_eq!(rig.events(), [format!("m: ActivateFailed({reported})")]);
        assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 1));
        rig.pool.clear();
        rig.script.goes_wrong("activate", fails);
        assert!(matches!(rig.pool.borrow(), Err(BorrowError::Activate(_))));
        assert_eq!((rig.counts(), rig.pool.num_total(), rig.script.alive()), ((0, 0), 0, 0));
    }
}

/// A resource that cannot be passivated is destroyed, and a waiter gets its place.
#[test]
fn a_passivation_that_fails() {
    for (fails, reported) in
        [(true, r#"Error("on purpose")"#), (false, r#"Panicked("on purpose")"#)]
    {
        let rig = pool(|b| b.max_active(1));
        let lent = rig.lend();
        let waits = rig.queue();
        rig.script.goes_wrong("passivate", fails);
        drop(lent);
        let new = waits.end().expect("a new one");
        assert_eq!((new.number, rig.script.alive()), (2, 1));
        assert_eq!(rig.events(), [format!("m: PassivateFailed({reported})")]);
        assert!(matches!(rig.pool.add(), Err(AddError::Passivate(_))));
        assert_eq!(rig.events(), [""; 0], "only the caller gets the error");
        rig.script.is_well("passivate");
        drop(new);
        assert_eq!((rig.counts(), rig.pool.num_total()), ((0, 1), 1));
    }
}

/// A refill reports a failure once, under the name of the call that failed.
#[test]
fn a_passivation_that_fails_in_a_refill() {
    let rig = pool(|b| b.min_idle(1));
    rig.script.fails("passivate");
    assert_eq!(rig.due().expect("it is tried again").as_millis(), 500);
    assert_eq!(rig.events(), [r#"m: PassivateFailed(Error("on purpose"))"#]);
    assert_eq!((rig.counts(), rig.script.made(), rig.script.alive()), ((0, 0), 1, 0));
}

#[test]
fn a_test_that_panics_is_one_that_fails() {
    let rig = pool(|b| b.test_on_borrow(true));
    drop(rig.lend());
    rig.script.panics("validate");
    let new = rig.lend();
    assert_eq!((new.number, rig.script.alive()), (2, 1));
    assert_eq!(rig.events(), [r#"m: ValidatePanicked("on purpose")"#]);
    let rig = pool(|b| b.test_on_create(true));
    rig.script.panics("validate");
    assert_eq!(rig.pool.borrow().unwrap_err(), BorrowError::Invalid);
    assert_eq!((rig.pool.num_total(), rig.script.alive()), (0, 0));
}

/// A failed destruction counts as a destruction.
#[test]
fn a_destruction_that_panics() {
    let rig = pool(|b| b.max_active(1).max_total(1));
    rig.script.panics("destroy");
    let lent = rig.lend();
    let waits = rig.queue();
    Borrowed::invalidate(lent);
    drop(waits.end().expect("its place"));
    rig.pool.clear();
    assert_eq!(rig.events(), [r#"m: DestroyPanicked("on purpose")"#; 2]);
    assert_eq!((rig.counts(), rig.pool.num_total(), rig.script.alive()), ((0, 0), 0, 0));
}

/// A resource returned while a panic unwinds is destroyed (defect `elixir-leaked-loan`).
#[test]
fn a_loan_of_a_borrower_that_panics_is_destroyed() {
    let rig = pool(|b| b.max_active(1));
    let lent = rig.lend();
    let waits = rig.queue();
    let panicked = std::thread::spawn(move || {
        let _lent = lent;
        resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.join().is_err());
    assert_eq!(waits.end().expect("a new one").number, 2);
    let calls = rig.script.calls();
    assert!(calls.contains("destroy 1") && !calls.contains("passivate 1"), "{calls}");
}

/// Resources, metadata and a factory whose drops panic.
struct Explosive;
impl Drop for Explosive {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            resume_unwind(Box::new("on purpose"));
        }
    }
}
impl std::fmt::Display for Explosive {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("on purpose")
    }
}
impl ResourceFactory for Explosive {
    type Resource = Explosive;
    type Metadata = Explosive;
    type Error = Explosive;
    fn create(&self, _: &Explosive) -> Result<Explosive, Explosive> {
        Ok(Explosive)
    }
    fn passivate(&self, _: &Explosive, _: &mut Explosive) -> Result<(), Explosive> {
        Err(Explosive)
    }
}

#[test]
fn panicking_drops_are_contained() {
    end_the_run_when_the_library_panics();
    let pool = ResourcePool::builder(Explosive, Explosive).max_total(2).listener(|_, _| {});
    let pool = pool.build().expect("valid");
    drop(pool.borrow());
    assert_eq!(pool.num_total(), 0);
    pool.borrow().map(Borrowed::invalidate).ok().expect("room");
    let kept = Borrowed::into_owned(pool.borrow().ok().expect("room"));
    drop(pool);
    drop(kept);
}

/// A key whose hash, comparison or clone panics: the caller gets the panic, and the pool is
/// unchanged.
#[derive(Debug)]
struct Moody(&'static str, Arc<AtomicUsize>);

impl Moody {
    fn at(&self, step: usize) {
        if self.1.load(SeqCst) == step {
            resume_unwind(Box::new("on purpose"));
        }
    }
}
impl Hash for Moody {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at(1);
        self.0.hash(state);
    }
}
impl PartialEq for Moody {
    fn eq(&self, other: &Moody) -> bool {
        self.at(2);
        self.0 == other.0
    }
}
impl Eq for Moody {}
impl Clone for Moody {
    fn clone(&self) -> Moody {
        self.at(3);
        Moody(self.0, self.1.clone())
    }
}
impl Drop for Moody {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.at(4);
        }
    }
}

struct OfMoody;
impl ResourceFactory for OfMoody {
    type Resource = ();
    type Metadata = Moody;
    type Error = std::convert::Infallible;
    fn create(&self, _: &Moody) -> Result<(), std::convert::Infallible> {
        Ok(())
    }
}

#[test]
fn a_key_that_panics_is_its_callers() {
    end_the_run_when_the_library_panics();
    let mood = Arc::new(AtomicUsize::new(0));
    let pool = KeyedResourcePool::builder(OfMoody).max_total(2).build().expect("valid");
    let [known, other] = ["known", "other"].map(|name| Moody(name, mood.clone()));
    drop(pool.borrow(&known));
    type Pool = KeyedResourcePool<Moody, OfMoody>;
    let calls: [fn(&Pool, &Moody); 5] = [
        |pool, key| drop(pool.borrow(key)),
        |pool, key| drop(block_on(pool.borrow_async(key))),
        |pool, key| drop(pool.add(key)),
        |pool, key| pool.clear_key(key),
        |pool, key| assert!(pool.num_idle_of(key) < 2),
    ];
    // Only a creation clones the key.
    for (step, key, concerned) in [(1, &known, 5), (2, &known, 5), (3, &other, 3)] {
        for call in &calls[..concerned] {
            mood.store(step, SeqCst);
            let called = catch_unwind(AssertUnwindSafe(|| call(&pool, key)));
            assert!(called.is_err(), "step {step}");
            mood.store(0, SeqCst);
            assert_eq!((pool.num_active(), pool.num_total(), pool.num_keys()), (0, 1, 1));
        }
    }
    // The key's drop panics when the pool forgets the key.
    mood.store(4, SeqCst);
    pool.clear();
    mood.store(0, SeqCst);
    assert_eq!((pool.num_keys(), pool.num_total()), (0, 0));
    drop(pool.borrow(&known).expect("as before"));
}

/// A listener that panics, and one that uses the pool.
#[test]
fn a_listener_may_panic_or_use_the_pool() {
    end_the_run_when_the_library_panics();
    let script = crate::common::Script::default();
    let reported = Arc::new(AtomicUsize::new(0));
    let (theirs, slot) = (reported.clone(), Arc::new(OnceLock::<WeakResourcePool<_>>::new()));
    let weak = slot.clone();
    let pool = ResourcePool::builder(script.clone(), "m").test_on_return(true);
    let pool = pool.listener(move |_, _: &Event<String>| {
        let pool = weak.get().and_then(WeakResourcePool::upgrade).expect("it is open");
        assert!(pool.num_active() <= 1);
        drop(pool.try_borrow());
        theirs.fetch_add(1, SeqCst);
        resume_unwind(Box::new("on purpose"));
    });
    let pool = pool.build().expect("valid");
    assert!(slot.set(pool.downgrade()).is_ok());
    let mut lent = pool.borrow().expect("one");
    lent.valid = false;
    drop(lent);
    assert_eq!((reported.load(SeqCst), pool.num_active(), script.alive()), (1, 0, 1));
}

/// The pool calls the factory without its lock, and the new resource already has its place: the
/// factory may use the pool.
#[test]
fn the_factory_may_use_the_pool() {
    let rig =
        pool(|b| b.max_active(2).test_on_create(true).test_on_borrow(true).test_on_return(true));
    for call in ["create", "validate", "activate", "passivate", "destroy"] {
        let pool = rig.pool.downgrade();
        rig.script.on(call, move |_| {
            let pool = pool.upgrade().expect("it is open");
            assert!(pool.num_total() >= 1 && pool.snapshot().total >= 1);
            pool.set_max_idle(2).expect("valid");
            Outcome::Well
        });
    }
    drop(rig.lend());
    rig.pool.clear();
    assert_eq!(rig.script.alive(), 0);
}

/// A waker that panics does not keep the other waiters from being served.
#[test]
fn a_waker_that_panics_blocks_no_other_waiter() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            resume_unwind(Box::new("on purpose"));
        }
    }
    let rig = pool(|b| b.max_active(1));
    let lent = rig.lend();
    let theirs = rig.pool.clone();
    let mut task = Task::new(async move { theirs.borrow_async().await.map(drop) });
    assert!(task.poll_with(&Waker::from(Arc::new(Panics))).is_none());
    let waits = rig.queue();
    drop(lent);
    task.poll().expect("it was served").expect("one");
    drop(waits.end().expect("and so is the next"));
}

/// The writer may use the pool. An earlier version printed under the lock.
#[test]
fn a_pool_is_printed_without_its_lock() {
    struct Uses(Pool);
    impl std::fmt::Write for Uses {
        fn write_str(&mut self, _: &str) -> std::fmt::Result {
            assert_eq!(self.0.num_idle(), 0);
            Ok(())
        }
    }
    let rig = pool(|b| b);
    std::fmt::Write::write_fmt(&mut Uses(rig.pool.clone()), format_args!("{:?}", rig.pool))
        .expect("it is written");
}

/// A future of the factory that waits for ever at one of its calls, and holds a value whose drop
/// panics.
struct Cut(&'static str);

impl Cut {
    async fn at(&self, call: &'static str) -> Result<(), String> {
        if self.0 == call {
            let _in_hand = Explosive;
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}
impl AsyncResourceFactory for Cut {
    type Resource = ();
    type Metadata = ();
    type Error = String;
    async fn create(&self, (): &()) -> Result<(), String> {
        self.at("create").await
    }
    async fn validate(&self, (): &(), (): &mut ()) -> bool {
        self.at("validate").await.is_ok()
    }
    async fn activate(&self, (): &(), (): &mut ()) -> Result<(), String> {
        self.at("activate").await
    }
    async fn passivate(&self, (): &(), (): &mut ()) -> Result<(), String> {
        self.at("passivate").await
    }
}

/// Cancellation drops a future of the factory; that drop is user code too.
#[test]
fn a_cancelled_future_that_panics_is_contained() {
    end_the_run_when_the_library_panics();
    let calls = ["create", "validate", "activate", "passivate"];
    for (nth, call) in calls.into_iter().enumerate() {
        let pool = |tests: bool| {
            let pool = ResourcePool::builder(Async(Cut(call)), ());
            let pool = pool.max_active(1).test_on_create(tests).test_on_borrow(tests);
            pool.maintenance(false).build_async().expect("valid")
        };
        let (borrowing, adding, returning) = (pool(true), pool(true), pool(false));
        let theirs = borrowing.clone();
        let borrow =
            Task::new(async move { theirs.borrow_async().await.map(drop).map_err(|_| ()) });
        let theirs = adding.clone();
        let add = Task::new(async move { theirs.add_async().await.map_err(|_| ()) });
        let theirs = returning.clone();
        let put_back = Task::new(async move {
            Borrowed::put_back(theirs.borrow_async().await.map_err(|_| ())?).await;
            Ok(())
        });
        for (mut task, pool, hangs) in
            [(borrow, borrowing, nth < 3), (add, adding, nth != 2), (put_back, returning, nth != 1)]
        {
            assert_eq!(task.poll().is_none(), hangs, "{call}");
            let cut = catch_unwind(AssertUnwindSafe(|| drop(task)));
            let cleared = catch_unwind(AssertUnwindSafe(|| pool.clear()));
            assert!(cut.is_ok() && cleared.is_ok(), "{call}");
            assert_eq!((pool.num_active(), pool.num_total()), (0, 0), "{call}");
        }
    }
}

/// The same for the creation of the only resource: its place is free again.
#[test]
fn a_dropped_creation_that_panics_is_contained() {
    end_the_run_when_the_library_panics();
    let pool = ResourcePool::builder(Async(Cut("create")), ()).max_active(1).max_total(1);
    let pool = pool.maintenance(false).build_async().expect("valid");
    for _ in 0..2 {
        let theirs = pool.clone();
        let mut task = Task::new(async move { theirs.borrow_async().await.is_ok() });
        assert!(task.poll().is_none());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(task))).is_ok());
        assert_eq!((pool.num_active(), pool.num_total()), (0, 0));
    }
}

/// The same for a creation that was begun for the idle list and is no longer wanted.
#[test]
fn an_unwanted_creation_that_panics_is_contained() {
    end_the_run_when_the_library_panics();
    for closes in [false, true] {
        let pool = ResourcePool::builder(Async(Cut("create")), ())
            .maintenance(false)
            .build_async()
            .expect("valid");
        let theirs = pool.clone();
        let mut task = Task::new(async move { theirs.add_async().await.is_ok() });
        assert!(task.poll().is_none());
        match closes {
            true => pool.close(),
            false => pool.clear_all(),
        }
        assert!(catch_unwind(AssertUnwindSafe(|| drop(task))).is_ok());
        assert_eq!((pool.num_active(), pool.num_idle(), pool.num_total()), (0, 0, 0));
    }
}

/// Counts its drops, and panics in them.
struct Panicking(Arc<AtomicUsize>);
impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        // The drop of the last reference panics.
    }
}
impl Drop for Panicking {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        resume_unwind(Box::new("on purpose"));
    }
}

/// A future is leaked after its grant, or while it waits for the end of the pool. The pool's drop
/// destroys the grant, and contains its panics.
#[test]
fn a_leaked_grant_is_destroyed_with_the_pool() {
    for panics in [false, true] {
        let rig = pool(|b| b.max_active(1));
        let lent = rig.lend();
        let mut forgotten = Box::pin(rig.pool.borrow_async());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(forgotten.as_mut().poll(&mut cx).is_pending());
        drop(lent);
        std::mem::forget(forgotten);
        rig.pool.close();
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut forgotten = Box::pin(rig.pool.wait_closed_async());
        let waker = Waker::from(Arc::new(Panicking(dropped.clone())));
        let mut cx = Context::from_waker(&waker);
        assert!(forgotten.as_mut().poll(&mut cx).is_pending());
        std::mem::forget(forgotten);
        // The pool holds the last reference.
        drop(waker);
        assert_eq!(
            (rig.script.calls().as_str(), rig.script.alive()),
            ("create activate 1 passivate 1", 1)
        );
        if panics {
            rig.script.panics("destroy");
        }
        let (script, events) = rig.end();
        assert_eq!((script.calls().as_str(), script.alive()), ("destroy 1", 0));
        assert_eq!(dropped.load(SeqCst), 1);
        let reported: &[&str] = if panics { &[r#"m: DestroyPanicked("on purpose")"#] } else { &[] };
        assert_eq!(*locked(&events), reported);
    }
}

/// A waker whose drop uses the pool.
struct UsesThePool(crate::steps::Pool);
impl std::task::Wake for UsesThePool {
    fn wake(self: Arc<Self>) {}
}
impl Drop for UsesThePool {
    fn drop(&mut self) {
        assert_eq!(self.0.num_idle(), 0);
    }
}

/// It is dropped with the wait, and without the lock.
#[test]
fn the_waker_of_a_wait_for_the_end_may_use_the_pool_when_it_is_dropped() {
    // All of it on that thread: a pool whose lock stays taken could not be dropped here.
    crate::shared::soon(|| {
        let rig = crate::steps::rig(|b| b);
        let lent = rig.lend();
        rig.pool.close();
        let pool = rig.pool.clone();
        let mut end = Box::pin(async move { pool.wait_closed_async().await });
        let waker = std::task::Waker::from(Arc::new(UsesThePool(rig.pool.clone())));
        assert!(end.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        drop(waker);
        drop(end);
        drop(lent);
    });
}
