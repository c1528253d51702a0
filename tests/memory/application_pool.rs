//! Life cycles of groups, processes, sessions, gets and spawns.

use super::keeps_no_memory;
use crate::common::{SECOND, app, before_long};
use cabrank::application_pool::{
    ConnectError, Event, GetError, Process, RestartMode, ShutDown, SpawnError, SpawnRequest,
    Spawner,
};
use cabrank::{ApplicationPool, ManualClock, PoolOptions, Session};
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

/// Spawns processes that keep no record. `/srv/fails` fails, and `/srv/hangs` ends by its cancellation.
///
/// Its processes own no memory, so no thread drops them.
#[derive(Default)]
struct Plain {
    refuses: Option<&'static AtomicBool>,
}

struct Made(Option<&'static AtomicBool>);

impl Spawner for Plain {
    type Process = Made;
    fn spawn(&self, request: &SpawnRequest) -> Result<Made, SpawnError> {
        let root = request.options().app_root();
        if root == "/srv/hangs" {
            request.cancel().on_cancel(|| ());
            request.cancel().wait();
        }
        match root == "/srv/hangs" || root == "/srv/fails" {
            true => Err(SpawnError::new("no database")),
            false => Ok(Made(self.refuses)),
        }
    }
}

impl Process for Made {
    type Connection = ();
    fn connect(&self) -> Result<(), ConnectError> {
        match self.0.is_some_and(|refuses| refuses.load(Ordering::SeqCst)) {
            true => Err(ConnectError::local("too many open files")),
            false => Ok(()),
        }
    }
    fn shut_down(&self, _: ShutDown) {}
}

type Builder = cabrank::application_pool::Builder<Plain>;
type Pool = ApplicationPool<Plain>;

/// A pool without a cleaner, whose observer hears each event.
fn pool(configure: impl FnOnce(Builder) -> Builder) -> (Pool, ManualClock) {
    let clock = ManualClock::new();
    let builder = ApplicationPool::builder(Plain::default()).clock(clock.clock()).cleaner(false);
    let builder = builder.observer(|event: &Event| drop(event.clone()));
    (configure(builder).build().expect("a valid pool"), clock)
}

fn settled(pool: &Pool) {
    before_long(|| pool.counts().spawning == 0 && pool.counts().shutting_down == 0);
}

#[test]
fn sessions_and_leases() {
    let (pool, _) = pool(|b| b);
    let x = app("x");
    keeps_no_memory(|_| {
        drop(pool.get(&x).expect("a session"));
        pool.checkout(&x).expect("a lease").cancel();
        drop(pool.snapshot());
        drop(pool.downgrade().upgrade());
    });
}

#[test]
fn connections_that_fail() {
    static REFUSES: AtomicBool = AtomicBool::new(false);
    let spawner = Plain { refuses: Some(&REFUSES) };
    let pool = ApplicationPool::builder(spawner).cleaner(false).build().expect("a valid pool");
    drop(pool.get(&app("x")).expect("a session"));
    REFUSES.store(true, Ordering::SeqCst);
    keeps_no_memory(|_| assert!(matches!(pool.get(&app("x")), Err(GetError::Connect(_)))));
}

#[test]
fn gets_that_are_refused() {
    let (pool, _) = pool(|b| b.max(1));
    let one = app("x").with_max_queue(1);
    let busy = pool.get(&one).expect("a session");
    let mut waits = pin!(pool.get_async(&one));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    keeps_no_memory(|_| {
        assert!(matches!(pool.try_get(&one), Err(GetError::WouldBlock)));
        let full = pool.get_timeout(&one, SECOND);
        assert!(matches!(full, Err(GetError::QueueFull { .. })));
    });
    drop(busy);
}

/// With other options each time, as a caller makes them anew.
#[test]
fn gets_that_give_up() {
    let (pool, clock) = pool(|b| b.max(1));
    let _busy = pool.get(&app("x")).expect("a session");
    let mut cx = Context::from_waker(Waker::noop());
    keeps_no_memory(|nth| {
        let limited = app("x").with_max_queue_time((nth % 2 == 0).then_some(2 * SECOND));
        {
            let (mut get, mut checkout) =
                (Box::pin(pool.get_async(&limited)), Box::pin(pool.checkout_async(&limited)));
            assert!(get.as_mut().poll(&mut cx).is_pending());
            assert!(checkout.as_mut().poll(&mut cx).is_pending());
        }
        assert!(matches!(pool.get_timeout(&limited, Duration::ZERO), Err(GetError::TimedOut)));
        let hurried = app("x").with_max_queue_time(SECOND);
        let mut late = Box::pin(pool.get_async(&hurried));
        assert!(late.as_mut().poll(&mut cx).is_pending());
        clock.advance(SECOND);
        pool.clean();
        assert!(late.as_mut().poll(&mut cx).is_ready());
    });
}

/// A session that was granted to a future that is dropped.
#[test]
fn grants_that_pass_on() {
    let (pool, _) = pool(|b| b.max(1));
    let mut cx = Context::from_waker(Waker::noop());
    keeps_no_memory(|_| {
        let x = app("x");
        let busy = pool.get(&x).expect("a session");
        let (mut granted, mut next) = (Box::pin(pool.get_async(&x)), Box::pin(pool.get_async(&x)));
        assert!(granted.as_mut().poll(&mut cx).is_pending());
        assert!(next.as_mut().poll(&mut cx).is_pending());
        drop(busy);
        drop(granted);
        assert!(next.as_mut().poll(&mut cx).is_ready());
    });
}

/// Each group has a name of its own.
#[test]
fn groups_without_processes_that_are_forgotten() {
    let (pool, clock) = pool(|b| b.forget_groups_after(SECOND));
    keeps_no_memory(|nth| {
        let (named, timed) = (app(&format!("n{nth}")), app(&format!("t{nth}")));
        pool.pre_start(&named).expect("an open pool");
        pool.pre_start(&timed).expect("an open pool");
        assert!(pool.detach_group(named.app_group_name()));
        clock.advance(SECOND);
        pool.clean();
        assert_eq!(pool.snapshot().groups.len(), 0);
    });
}

#[test]
fn groups_with_processes_that_are_forgotten() {
    let (pool, clock) = pool(|b| b.forget_groups_after(SECOND).max_idle_time(SECOND));
    keeps_no_memory(|nth| {
        let x = app(&format!("x{nth}"));
        drop(pool.get(&x).expect("a session"));
        settled(&pool);
        match nth % 2 {
            0 => assert!(pool.detach_group(x.app_group_name())),
            _ => (0..2).for_each(|_| {
                clock.advance(SECOND);
                pool.clean();
            }),
        }
        assert_eq!(pool.snapshot().groups.len(), 0);
    });
}

#[test]
fn processes_that_are_detached_fail_or_restart() {
    let (pool, clock) = pool(|b| b.max(2));
    keeps_no_memory(|nth| {
        let session = pool.get(&app("x").with_max_requests(3)).expect("a session");
        let process = Session::identifier(&session);
        match nth % 6 {
            0 => assert!(pool.detach(process)),
            1 => Session::fail(session),
            2 => assert!(pool.process_has_failed(process)),
            3 => assert!(pool.restart_group("/srv/x", RestartMode::Immediate)),
            4 => assert!(pool.restart_group("/srv/x", RestartMode::Rolling)),
            _ => assert!(pool.disable(process) && pool.enable(process)),
        }
        settled(&pool);
        clock.advance(100 * SECOND);
        pool.clean();
    });
}

#[test]
fn spawns_that_fail_or_are_cancelled() {
    let (pool, clock) = pool(|b| b);
    let (fails, hangs) = (PoolOptions::new("/srv/fails"), PoolOptions::new("/srv/hangs"));
    keeps_no_memory(|nth| {
        assert!(matches!(pool.get(&fails), Err(GetError::Spawn(_))));
        clock.advance(100 * SECOND);
        assert!(matches!(pool.try_get(&hangs), Err(GetError::WouldBlock)));
        match nth % 2 {
            0 => assert!(pool.detach_group("/srv/hangs")),
            _ => assert!(pool.restart_group("/srv/hangs", RestartMode::Immediate)),
        }
        assert!(pool.detach_group("/srv/hangs") || nth % 2 == 0);
        settled(&pool);
    });
}

/// No thread can have such a stack.
#[test]
fn spawns_whose_thread_does_not_start() {
    let (pool, clock) = pool(|b| b.spawner_stack_size(usize::MAX));
    keeps_no_memory(|_| {
        assert!(matches!(pool.get(&app("x")), Err(GetError::Spawn(_))));
        clock.advance(100 * SECOND);
    });
}

/// A get without time begins the look, whose end makes the group. Each directory is looked at once.
#[test]
fn looks_at_restart_files() {
    for throttle in [Duration::ZERO, SECOND] {
        let (pool, clock) =
            pool(|b| b.stat_throttle(throttle).restart_files(|_| Err(ErrorKind::NotFound.into())));
        keeps_no_memory(|nth| {
            let x = app(&format!("x{nth}"));
            let late = pool.get_timeout(&x, Duration::ZERO);
            assert!(matches!(late, Err(GetError::TimedOut)));
            before_long(|| pool.detach_group(x.app_group_name()));
            clock.advance(SECOND);
        });
    }
}

#[test]
fn waits_for_the_end_of_a_pool_that_are_late() {
    let (pool, _) = pool(|b| b);
    let session = pool.get(&app("x")).expect("a session");
    pool.close();
    keeps_no_memory(|_| {
        assert!(!pool.wait_closed(Duration::ZERO));
        assert!(pool.close_timeout(Duration::ZERO).is_err());
        assert!(matches!(pool.get(&app("x")), Err(GetError::Closed)));
    });
    drop(session);
}

/// All of them have one clock, which forgets those that are gone.
#[test]
fn whole_pools() {
    let clock = ManualClock::new();
    keeps_no_memory(|nth| {
        let builder = ApplicationPool::builder(Plain::default()).clock(clock.clock());
        let pool = builder.cleaner(nth % 100 == 0).build().expect("a valid pool");
        let session = pool.try_get(&app("x"));
        assert!(session.is_err(), "its process is being spawned");
        pool.close();
        assert!(pool.wait_closed(SECOND));
    });
}
