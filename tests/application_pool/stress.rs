//! Random threads call the whole public API of one pool. Spawns fail, panic, hang and are held;
//! processes die; restart files change; the clock jumps; user code re-enters the pool.
//!
//! The pool asserts every invariant in every critical section. At the end the test asserts that
//! every released call ends and that all counts are zero. Each group can be served, and every
//! process was shut down exactly once.
//!
//! The environment's `CABRANK_STRESS=<seed>` sets the first seed, `CABRANK_STRESS_SEEDS=<n>` how
//! many follow. The seed decides what each thread does, not how the threads interleave: a failure
//! may take some runs to return.

use crate::common::random::{Random, for_each_seed};
use crate::common::task::Task;
use crate::common::{self, files::Files};
use crate::common::{Got, Pool, Session, limit};
use cabrank::application_pool::{Builder, Identifier, Lease, Process, RestartMode, WeakPool};
use cabrank::in_memory::{InMemorySpawner, Spawn};
use cabrank::{ApplicationPool, ManualClock, PoolOptions};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{scope, sleep, spawn};
use std::time::{Duration, Instant};

const APPS: [&str; 4] = ["a", "b", "c", "d"];
const WORKERS: u64 = 4;
const STEPS: usize = 120;

/// The state that all threads of a run share.
struct Stage {
    pool: Pool,
    spawner: InMemorySpawner,
    clock: ManualClock,
    files: Files,
    /// Several options objects for each group: a get with another one changes the group's options.
    options: Vec<PoolOptions>,
}

fn options(random: &mut Random) -> Vec<PoolOptions> {
    let mut all = Vec::new();
    for app in APPS {
        for _ in 0..3 {
            let mode = *random.of(&[RestartMode::Immediate, RestartMode::Rolling]);
            all.push(
                common::app(app)
                    .with_min_processes(*random.of(&[0, 0, 1, 2]))
                    .with_max_requests(limit(*random.of(&[0, 0, 1, 2, 5])))
                    .with_global_queue(random.one_in(4))
                    .with_max_queue(limit(*random.of(&[0, 1, 3, 100])))
                    .with_restart_mode(mode),
            );
        }
    }
    // Another root in the same group.
    all.push(common::app("e").with_app_group_name("/srv/a"));
    all
}

fn seconds(n: usize) -> Duration {
    Duration::from_secs(u64::try_from(n).expect("few"))
}

impl Stage {
    fn new(random: &mut Random) -> Stage {
        let clock = ManualClock::new();
        let spawner = InMemorySpawner::with_clock(clock.clock());
        let files = Files::default();
        let me: Arc<OnceLock<WeakPool<InMemorySpawner>>> = Arc::default();
        let reenter = {
            let me = me.clone();
            move || {
                if let Some(pool) = me.get().and_then(WeakPool::upgrade) {
                    pool.counts();
                }
            }
        };
        let builder = ApplicationPool::builder(spawner.clone())
            .clock(clock.clock())
            .restart_files(files.look_up())
            .max(1 + random.below(4))
            .max_per_app(limit(random.below(4)))
            .max_idle_time(*random.of(&[None, Some(seconds(5)), Some(seconds(300))]))
            .drain_timeout(seconds(*random.of(&[1, 60])))
            .back_off(seconds(1), seconds(8))
            .stat_throttle(seconds(random.below(2)))
            .cleaner(random.one_in(2));
        let builder = match random.below(4) {
            3 => builder,
            n => Builder::max_draining(builder, n),
        };
        let observed = reenter.clone();
        let builder =
            if random.one_in(2) { builder.observer(move |_| observed()) } else { builder };
        let pool = builder.build().expect("a valid pool");
        assert!(me.set(pool.downgrade()).is_ok());
        spawner.on_call(move |_| reenter());
        Stage { pool, spawner, clock, files, options: options(random) }
    }
}

/// One thing that a worker holds.
enum Held {
    Session(Session),
    Lease(Lease<InMemorySpawner>),
    Task(Task<Got>),
}

fn step(stage: &Stage, random: &mut Random, held: &mut Vec<Held>) {
    let pool = &stage.pool;
    let app = random.of(&stage.options).clone();
    let timeout = Duration::from_millis(random.below(3000) as u64);
    match random.below(32) {
        0..4 => held.extend(pool.get_timeout(&app, timeout).ok().map(Held::Session)),
        4..6 => held.extend(pool.try_get(&app).ok().map(Held::Session)),
        6 => held.extend(pool.try_checkout(&app).ok().map(Held::Lease)),
        7 => held.extend(pool.checkout_timeout(&app, timeout).ok().map(Held::Lease)),
        8..12 => {
            let pool = pool.clone();
            let mut task = Task::new(async move { pool.get_async(&app).await });
            match task.poll() {
                Some(got) => held.extend(got.ok().map(Held::Session)),
                None => held.push(Held::Task(task)),
            }
        }
        12..23 if !held.is_empty() => {
            let at = random.below(held.len());
            let_go(held.swap_remove(at), random, held);
        }
        23 => {
            let numbers = pool.snapshot().groups.into_iter().flat_map(|g| g.processes);
            let all: Vec<Identifier> = numbers.map(|p| p.identifier).collect();
            if !all.is_empty() {
                pool.detach(*random.of(&all));
            }
        }
        24 => _ = pool.detach_group(app.app_group_name()),
        25 => pool.set_max(1 + random.below(5)).expect("not 0"),
        26 => pool.set_max_per_app(limit(random.below(4))).expect("not zero"),
        27 => {
            let times = [None, Some(seconds(1)), Some(seconds(5)), Some(seconds(300))];
            pool.set_max_idle_time(*random.of(&times)).expect("not zero");
        }
        28 => {
            let always = app.restart_dir().join("always_restart.txt");
            match random.below(8) {
                0 => stage.files.touch(&always),
                1..4 => stage.files.remove(&always),
                _ => stage.files.touch(&app.restart_dir().join("restart.txt")),
            }
        }
        29 => {
            let script = match random.below(6) {
                0 => Spawn::fail("no database"),
                1 => Spawn::panic(),
                2 => Spawn::hang(),
                3 => Spawn::ready().after(Duration::from_millis(700)),
                4 => Spawn::fail("held, and then no database").held(),
                _ => Spawn::ready().held(),
            };
            stage.spawner.next(script.concurrency(*random.of(&[None, Some(1), Some(3)])));
        }
        30 => {
            let processes = stage.spawner.processes();
            if !processes.is_empty() {
                let process = random.of(&processes);
                match random.below(3) {
                    0 => process.kill(),
                    1 => process.run_out_of_descriptors(1),
                    _ => process.panic_on_connect(),
                }
            }
        }
        31 => pool.clean(),
        _ => _ = pool.counts(),
    }
}

fn let_go(one: Held, random: &mut Random, held: &mut Vec<Held>) {
    match one {
        Held::Session(session) if random.one_in(8) => Session::fail(session),
        Held::Session(session) => drop(session),
        Held::Lease(lease) => match random.below(5) {
            0 => lease.fail(),
            1 => lease.cancel(),
            2 => lease.close(),
            _ => {
                if let Ok(connection) = lease.process().connect_unless_it_panics() {
                    held.push(Held::Session(lease.connected(connection)));
                }
            }
        },
        Held::Task(mut task) => match random.below(3) {
            // Drop it, served or not.
            0 => drop(task),
            _ => match task.poll() {
                Some(got) => held.extend(got.ok().map(Held::Session)),
                None => held.push(Held::Task(task)),
            },
        },
    }
}

/// A caller of `checkout` contains panics of its own calls.
trait Connect: Process {
    fn connect_unless_it_panics(&self) -> Result<Self::Connection, ()> {
        let connect = std::panic::AssertUnwindSafe(|| self.connect());
        std::panic::catch_unwind(connect).map_err(drop)?.map_err(drop)
    }
}
impl<P: Process> Connect for P {}

/// Waits until the condition holds, and moves the clock meanwhile.
fn eventually(stage: &Stage, what: &str, wanted: impl Fn() -> bool) {
    let deadline = Instant::now() + common::SOON;
    while !wanted() {
        assert!(Instant::now() < deadline, "{what}: {:#?}", stage.pool.snapshot());
        stage.clock.advance(Duration::from_millis(500));
        stage.pool.clean();
        sleep(Duration::from_micros(200));
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let stage = Stage::new(&mut random);
    for app in APPS {
        let concurrency = *random.of(&[None, Some(1), Some(3)]);
        stage.spawner.always(format!("/srv/{app}"), Spawn::ready().concurrency(concurrency));
    }
    let working = AtomicUsize::new(usize::try_from(WORKERS).expect("few"));
    let ended = Arc::new(AtomicBool::new(false));
    // Gets without a timeout. Each ends when it is served, fails, or the pool closes.
    let patient = {
        let (pool, ended) = (stage.pool.clone(), ended.clone());
        let options = stage.options.clone();
        let mut random = Random::new(seed ^ 0x5EED);
        spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                drop(pool.get(random.of(&options)));
                std::thread::yield_now();
            }
        })
    };
    scope(|threads| {
        for worker in 0..WORKERS {
            let (stage, working) = (&stage, &working);
            threads.spawn(move || {
                let mut random = Random::new(seed * 1000 + worker);
                let mut held = Vec::new();
                for _ in 0..STEPS {
                    step(stage, &mut random, &mut held);
                }
                working.fetch_sub(1, Ordering::SeqCst);
            });
        }
        while working.load(Ordering::SeqCst) > 0 {
            let by = [10, 200, 1000, 7000][random.below(4)];
            stage.clock.advance(Duration::from_millis(by));
            if random.one_in(4) {
                stage.spawner.release();
            }
            sleep(Duration::from_micros(100));
        }
    });

    // The workers are done. Release the held spawns and cancel the hanging ones: each group can be
    // served.
    ended.store(true, Ordering::SeqCst);
    for app in &stage.options {
        stage.files.remove(&app.restart_dir().join("always_restart.txt"));
    }
    if random.one_in(2) {
        let served = AtomicUsize::new(0);
        scope(|threads| {
            for app in &stage.options {
                let (stage, served) = (&stage, &served);
                threads.spawn(move || {
                    let app = app.clone().with_max_queue(None);
                    while stage.pool.get_timeout(&app, Duration::from_secs(9)).is_err() {
                        sleep(Duration::from_micros(200));
                    }
                    served.fetch_add(1, Ordering::SeqCst);
                });
            }
            eventually(&stage, "every group is served", || {
                for app in APPS {
                    let name = format!("/srv/{app}");
                    let groups = stage.pool.snapshot().groups;
                    if groups.iter().any(|g| g.name == name && g.processes.is_empty()) {
                        stage.pool.detach_group(&name);
                    }
                }
                stage.spawner.release();
                served.load(Ordering::SeqCst) == stage.options.len()
            });
        });
        let idle = || {
            let counts = stage.pool.counts();
            (counts.active, counts.draining) == (0, 0)
        };
        eventually(&stage, "no session is counted that is gone", idle);
    }
    let pool = stage.pool.clone();
    common::soon(move || pool.close());
    common::soon(move || patient.join()).expect("no panic");
    eventually(&stage, "nothing is left", || stage.pool.wait_closed(Duration::ZERO));
    let counts = stage.pool.counts();
    assert_eq!((counts.count, counts.active, counts.waiting), (0, 0, 0));
    eventually(&stage, "no process is left", || stage.spawner.processes().is_empty());
    let gone = stage.spawner.shut_down();
    let different: HashSet<u32> = gone.iter().map(|(pid, _)| *pid).collect();
    assert_eq!(different.len(), gone.len(), "shut down twice");
    // Numbers are given in order, so the highest is how many were ever spawned.
    assert_eq!(different.iter().max().copied().unwrap_or(0) as usize, gone.len());
}

#[test]
fn every_random_run_ends_and_leaves_the_pool_empty() {
    common::end_the_run_when_the_library_panics();
    for_each_seed(20, run);
}
