//! A child that is forked from a process with executors and an interlock. A program of its own, because a child has
//! only the thread that forks: in a test harness that would be one of several.
//!
//! POSIX allows little to the child of a process with several threads. This child allocates and takes locks, which
//! glibc's and musl's allocators permit, and only locks that no other thread holds at the fork.

#[cfg(unix)]
fn main() {
    unix::a_forked_child_says_what_it_has();
    unix::a_guard_from_before_a_fork_shuts_down_the_childs_executors();
    println!("a forked child says what it has: ok");
}

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
mod unix {
    use cabrank::execution::interlock::AcquireError;
    use cabrank::periodic_executor::{Joined, OpenError, Phase, Registry, ShutdownAtExit};
    use cabrank::resource_pool::{AddError, BorrowError, Borrowed, ResourceFactory};
    use cabrank::{Interlock, ManualClock, PeriodicExecutor, ResourcePool};
    use std::cell::RefCell;
    use std::convert::Infallible;
    use std::future::{Future, pending};
    use std::panic::AssertUnwindSafe;
    use std::pin::{Pin, pin};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, Barrier};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);

    /// Holds up the end of its thread.
    struct Leaves(Arc<Barrier>);

    impl Drop for Leaves {
        fn drop(&mut self) {
            self.0.wait();
        }
    }

    thread_local! {
        static LEAVES: RefCell<Option<Leaves>> = const { RefCell::new(None) };
    }

    fn calls_once(name: &str) -> (PeriodicExecutor, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let theirs = calls.clone();
        let target = move || _ = theirs.fetch_add(1, SeqCst);
        (PeriodicExecutor::builder(None).name(name).build(target), calls)
    }

    fn before_long(mut condition: impl FnMut() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
    }

    /// Waits until each other thread sleeps: then none holds a lock at the fork. A thread that has just started holds one for a moment.
    fn the_other_threads_sleep() {
        #[cfg(target_os = "linux")]
        before_long(|| {
            let tasks = std::fs::read_dir("/proc/self/task").expect("a list of threads");
            let stats = tasks.filter_map(|task| {
                std::fs::read_to_string(task.expect("a thread").path().join("stat")).ok()
            });
            let states = stats
                .filter_map(|stat| stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('S')));
            states.filter(|sleeps| !sleeps).count() == 1 // this thread
        });
    }

    pub(super) fn a_guard_from_before_a_fork_shuts_down_the_childs_executors() {
        let at_exit = ShutdownAtExit::new(LONG);
        match fork::fork().expect("a child") {
            fork::Fork::Child => {
                let executor = PeriodicExecutor::builder(None).name("the child's").build(|| {});
                executor.open().expect("a thread");
                drop(at_exit.report(|late| panic!("{late}")));
                std::process::exit(i32::from(executor.is_open()));
            }
            fork::Fork::Parent(child) => {
                let status = fork::waitpid(child).expect("it ends");
                assert!(fork::WIFEXITED(status) && fork::WEXITSTATUS(status) == 0, "{status:#x}");
            }
        }
    }

    pub(super) fn a_forked_child_says_what_it_has() {
        let _at_exit = ShutdownAtExit::new(LONG);
        let (open, calls) = calls_once("open");
        open.open().expect("a thread");
        before_long(|| open.phase() == Phase::Asleep);
        // One in the middle of a call.
        let (entered, inside) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let busy = {
            let (entered, inside) = (entered.clone(), inside.clone());
            PeriodicExecutor::builder(None).name("busy").build(move || {
                entered.wait();
                inside.wait();
                false
            })
        };
        busy.open().expect("a thread");
        entered.wait();
        // One whose thread is about to leave: its run has ended.
        let may_leave = Arc::new(Barrier::new(2));
        let leaving = {
            let (may_leave, builder) = (may_leave.clone(), PeriodicExecutor::builder(None));
            builder.name("leaving").build(move || {
                LEAVES.set(Some(Leaves(may_leave.clone())));
                false
            })
        };
        leaving.open().expect("a thread");
        before_long(|| leaving.phase() == Phase::Stopped);
        let (built, _) = calls_once("built");
        // The first wait ends at its limit. From then on the timer sleeps until the limit of the second one.
        let clock = ManualClock::new();
        let builder = Interlock::builder().clock(clock.clock());
        let interlock = builder.acquire_timeout(LONG).build();
        let mut unload = pin!(interlock.unload_async(async |_| pending::<()>().await));
        let [mut first, mut second] = [0; 2].map(|_| Box::pin(interlock.run_async(async |_| ())));
        assert!(poll(unload.as_mut()).is_pending());
        assert!(poll(first.as_mut()).is_pending());
        clock.advance(LONG / 2);
        assert!(poll(second.as_mut()).is_pending());
        clock.advance(LONG / 2);
        before_long(|| poll(first.as_mut()).is_ready());
        let (pool, lent, calls_of_pool) = a_pool();
        the_other_threads_sleep();
        match fork::fork().expect("a child") {
            fork::Fork::Child => {
                let in_child = AssertUnwindSafe(|| {
                    // Its thread is in the parent only.
                    assert_eq!(leaving.join_timeout(LONG), Ok(Joined::Finished));
                    child(&open, &busy, &built);
                    child_of_an_interlock(&interlock);
                    child_of_a_pool(pool, lent, &calls_of_pool);
                });
                let checked = std::panic::catch_unwind(in_child);
                std::process::exit(i32::from(checked.is_err()));
            }
            fork::Fork::Parent(child) => {
                let status = fork::waitpid(child).expect("it ends");
                assert!(fork::WIFEXITED(status) && fork::WEXITSTATUS(status) == 0, "{status:#x}");
            }
        }
        // The parent's pool and executors go on as before.
        assert_eq!((pool.num_active(), pool.num_idle()), (3, 1));
        drop(lent);
        assert_eq!((pool.num_active(), calls_of_pool.load(SeqCst)), (0, 3));
        may_leave.wait();
        assert_eq!(leaving.join(), Ok(Joined::Finished));
        open.wake();
        before_long(|| calls.load(SeqCst) == 2);
        inside.wait();
        assert_eq!(busy.join(), Ok(Joined::Finished));
        assert_eq!(Registry::of_the_process().len(), 1);
    }

    /// A factory that counts the calls that speak to the other side, apart from creations.
    struct Talks(Arc<AtomicUsize>);

    impl ResourceFactory for Talks {
        type Resource = Spoken;
        type Metadata = ();
        type Error = Infallible;
        fn create(&self, (): &()) -> Result<Spoken, Infallible> {
            Ok(Spoken(self.0.clone()))
        }
        fn passivate(&self, (): &(), _: &mut Spoken) -> Result<(), Infallible> {
            self.0.fetch_add(1, SeqCst);
            Ok(())
        }
    }

    /// Its drop says farewell.
    struct Spoken(Arc<AtomicUsize>);
    impl Drop for Spoken {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    type Lent = [Borrowed<'static, Talks>; 3];

    /// Returns a pool with idle and lent resources.
    fn a_pool() -> (ResourcePool<Talks>, Lent, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let pool = ResourcePool::builder(Talks(calls.clone()), ()).max_idle_time(LONG);
        let pool = pool.build().expect("valid");
        pool.prefill(2).expect("there is room");
        let lent = [(); 3].map(|()| Borrowed::into_owned(pool.borrow().expect("one")));
        pool.add().expect("there is room");
        calls.store(0, SeqCst);
        (pool, lent, calls)
    }

    /// The child speaks over no connection of its parent's, and has pools of its own.
    fn child_of_a_pool(pool: ResourcePool<Talks>, lent: Lent, calls: &AtomicUsize) {
        assert!(matches!(pool.borrow(), Err(BorrowError::Forked)));
        assert!(matches!(pool.try_borrow(), Err(BorrowError::Forked)));
        let borrowed = poll(pin!(async { pool.borrow_async().await.map(drop) }));
        assert_eq!(borrowed, Poll::Ready(Err(BorrowError::Forked)));
        assert_eq!(pool.add(), Err(AddError::Forked));
        let [dropped, invalidated, put_back] = lent;
        drop(dropped);
        Borrowed::invalidate(invalidated);
        assert!(poll(pin!(Borrowed::put_back(put_back))).is_ready());
        pool.clear();
        pool.maintain();
        pool.close();
        assert!(pool.wait_closed(LONG));
        assert!(poll(pin!(pool.wait_closed_async())).is_ready());
        drop(pool);
        assert_eq!(calls.load(SeqCst), 0, "it spoke over a connection of its parent's");
        let (own, lent, calls) = a_pool();
        drop(lent);
        own.close();
        assert!(own.wait_closed(LONG) && calls.load(SeqCst) > 0);
    }

    /// In the child, a wait with a limit does not rely on the timer's thread.
    fn child_of_an_interlock(interlock: &Interlock) {
        let mut waits = pin!(interlock.run_async(async |_| ()));
        let ended = poll(waits.as_mut());
        assert!(matches!(ended, Poll::Ready(Err(AcquireError::TimedOut(_)))), "{ended:?}");
    }

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// In the child, no call returns late, and none claims that an executor of the parent runs.
    fn child(open: &PeriodicExecutor, busy: &PeriodicExecutor, built: &PeriodicExecutor) {
        for executor in [open, busy] {
            assert!(!executor.is_open());
            assert_eq!(executor.phase(), Phase::Stopped);
            assert_eq!(executor.join(), Ok(Joined::Forked));
            assert!(matches!(executor.open(), Err(OpenError::Forked)));
            executor.wake();
            executor.close();
            executor.skip_sleep();
            assert_eq!(executor.join_timeout(LONG), Ok(Joined::Forked));
        }
        // Executors that were not open, and new ones, work, in a registry of the child's own.
        assert!(Registry::of_the_process().is_empty());
        let (new, calls) = calls_once("new");
        for executor in [built, &new] {
            executor.open().expect("a thread");
        }
        before_long(|| calls.load(SeqCst) == 1);
        assert_eq!(Registry::of_the_process().len(), 2);
        drop(ShutdownAtExit::new(LONG).report(|late| panic!("{late}")));
        assert_eq!(built.join(), Ok(Joined::Closed));
        assert!(matches!(new.open(), Err(OpenError::ShutDown)));
    }
}
