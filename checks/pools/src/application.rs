//! An application pool of processes in memory, whose clock jumps.

use crate::course::{Course, DONE, before_long, count};
use crate::random::Random;
use cabrank::application_pool::{Event, Lease, RestartMode};
use cabrank::in_memory::{InMemorySpawner, Spawn};
use cabrank::{ApplicationPool, ManualClock, PoolOptions};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::{Duration, Instant, SystemTime};

const APPS: usize = 4;
const WORKERS: u64 = 4;
/// The processes that the pool has room for when it rests.
const FULL: usize = 5;

type Session = cabrank::application_pool::Session<InMemorySpawner>;
type Got = Pin<Box<dyn Future<Output = Option<Session>> + Send>>;

/// Events, counted by their observer.
#[derive(Default)]
struct Events {
    spawned: AtomicU64,
    failed: AtomicU64,
    detached: AtomicU64,
}

/// The times of each application's `restart.txt` and `always_restart.txt`, in seconds. Zero: the file is absent.
type Files = [[AtomicU64; 2]; APPS];

pub(crate) struct InMemory {
    pool: ApplicationPool<InMemorySpawner>,
    spawner: InMemorySpawner,
    clock: ManualClock,
    events: Arc<Events>,
    files: Arc<Files>,
    options: Vec<PoolOptions>,
}

fn look_up(files: &Files, path: &Path) -> io::Result<SystemTime> {
    let app = path.components().nth(2).and_then(|app| app.as_os_str().to_str()?.parse().ok());
    let always = path.ends_with("always_restart.txt");
    let file = app.and_then(|app: usize| Some(&files.get(app)?[usize::from(always)]));
    match file.map_or(0, |file| file.load(SeqCst)) {
        0 => Err(io::ErrorKind::NotFound.into()),
        seconds => Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
    }
}

fn seconds(n: usize) -> Duration {
    Duration::from_secs(n as u64)
}

fn some(n: usize) -> Option<usize> {
    (n > 0).then_some(n)
}

impl InMemory {
    pub(crate) fn open(random: &mut Random) -> InMemory {
        let clock = ManualClock::new();
        let spawner = InMemorySpawner::with_clock(clock.clock());
        let (events, files): (Arc<Events>, Arc<Files>) = Default::default();
        let (seen, theirs) = (events.clone(), files.clone());
        let pool = ApplicationPool::builder(spawner.clone())
            .clock(clock.clock())
            .restart_files(move |path| look_up(&theirs, path))
            .max(1 + random.below(4))
            .max_per_app(some(random.below(4)))
            .max_idle_time(*random.of(&[None, Some(seconds(5)), Some(seconds(300))]))
            .drain_timeout(seconds(*random.of(&[1, 60])))
            .back_off(seconds(1), seconds(8))
            .stat_throttle(seconds(random.below(2)))
            .observer(move |event| match event {
                Event::Spawned { .. } => count(&seen.spawned),
                Event::SpawnFailed { .. } => count(&seen.failed),
                Event::Detached { .. } => count(&seen.detached),
                _ => {}
            })
            .build()
            .expect("a valid pool");
        let mut options = Vec::new();
        for app in 0..APPS {
            let concurrency = *random.of(&[None, Some(1), Some(3)]);
            spawner.always(format!("/srv/{app}"), Spawn::ready().concurrency(concurrency));
            for mode in [RestartMode::Immediate, RestartMode::Rolling] {
                options.push(
                    PoolOptions::new(format!("/srv/{app}"))
                        .with_min_processes(*random.of(&[0, 0, 1, 2]))
                        .with_max_requests(some(*random.of(&[0, 1, 2, 50])))
                        .with_global_queue(random.one_in(4))
                        .with_max_queue(some(*random.of(&[0, 1, 100])))
                        .with_restart_mode(mode),
                );
            }
        }
        InMemory { pool, spawner, clock, events, files, options }
    }

    fn worker(&self, seed: u64, until: Instant) {
        let mut random = Random::new(seed);
        let (mut held, mut tasks) = (Vec::new(), Vec::new());
        while Instant::now() < until {
            self.step(&mut random, &mut held, &mut tasks);
        }
    }

    fn keep(&self, got: Option<Session>, held: &mut Vec<Session>) {
        count(if got.is_some() { &DONE.lent } else { &DONE.refused });
        held.extend(got);
    }

    fn step(&self, random: &mut Random, held: &mut Vec<Session>, tasks: &mut Vec<Got>) {
        let app = random.of(&self.options).clone();
        let timeout = Duration::from_millis(random.below(2000) as u64);
        match random.below(40) {
            0..4 => self.keep(self.pool.get_timeout(&app, timeout).ok(), held),
            4..10 => self.keep(self.pool.try_get(&app).ok(), held),
            10 => drop(self.pool.checkout_timeout(&app, timeout).map(Lease::cancel)),
            11..17 => {
                let pool = self.pool.clone();
                tasks.push(Box::pin(async move { pool.get_async(&app).await.ok() }));
                self.poll(random, held, tasks);
            }
            17..20 if !tasks.is_empty() => self.poll(random, held, tasks),
            20..33 if !held.is_empty() => {
                let session = held.swap_remove(random.below(held.len()));
                if random.one_in(16) {
                    count(&DONE.crashed);
                    Session::fail(session);
                }
            }
            _ => self.rarely(random, &app),
        }
    }

    /// Polls a task, or drops it.
    fn poll(&self, random: &mut Random, held: &mut Vec<Session>, tasks: &mut Vec<Got>) {
        let nth = random.below(tasks.len());
        if random.one_in(3) || tasks.len() > 8 {
            count(&DONE.cancelled);
            drop(tasks.swap_remove(nth));
        } else if let std::task::Poll::Ready(got) =
            tasks[nth].as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            drop(tasks.swap_remove(nth));
            self.keep(got, held);
        }
    }

    fn rarely(&self, random: &mut Random, app: &PoolOptions) {
        let pool = &self.pool;
        let (nth, what) = (random.below(APPS), random.below(30));
        if (1..4).contains(&what) {
            count(&DONE.resized);
        }
        match what {
            0 => _ = pool.detach_group(app.app_group_name()),
            1 => pool.set_max(1 + random.below(5)).expect("not zero"),
            2 => pool.set_max_per_app(some(random.below(4))).expect("not zero"),
            3 => pool.set_max_idle_time(*random.of(&[None, Some(seconds(5))])).expect("not zero"),
            4 => _ = self.files[nth][0].fetch_add(1, SeqCst),
            5 => self.files[nth][1].store(random.below(4) as u64 / 3, SeqCst),
            6..12 => {
                let script = match random.below(6) {
                    0 => Spawn::fail("no database"),
                    1 => Spawn::panic(),
                    2 => Spawn::hang(),
                    3 => Spawn::ready().after(Duration::from_millis(700)),
                    _ => Spawn::ready().held(),
                };
                let script = script.concurrency(*random.of(&[None, Some(1), Some(3)]));
                self.spawner.always(app.app_root(), script);
            }
            12..16 => {
                let processes = self.spawner.processes();
                if !processes.is_empty() {
                    count(&DONE.crashed);
                    let process = random.of(&processes);
                    match random.below(3) {
                        0 => process.kill(),
                        1 => process.run_out_of_descriptors(1),
                        _ => process.panic_on_connect(),
                    }
                }
            }
            16..20 => self.clock.advance(Duration::from_millis(*random.of(&[10, 900, 70_000]))),
            20..24 => self.spawner.release(),
            24 => pool.clean(),
            _ => self.spawner.always(app.app_root(), Spawn::ready()),
        }
    }

    /// Lets held spawns and times end. Spawns that hang end with their group.
    fn go_on(&self) {
        self.clock.advance(Duration::from_millis(500));
        self.spawner.release();
        self.pool.clean();
        for group in self.pool.snapshot().groups {
            if group.spawning {
                self.pool.detach_group(&group.name);
            }
        }
    }
}

impl Course for InMemory {
    fn work(&mut self, seed: u64, until: Instant) {
        let this = &*self;
        std::thread::scope(|scope| {
            let start = |nth| scope.spawn(move || this.worker(seed * WORKERS + nth, until));
            let workers: Vec<_> = (0..WORKERS).map(start).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                this.clock.advance(Duration::from_millis(50));
                std::thread::sleep(Duration::from_micros(100));
            }
        });
    }

    fn rest(&mut self) {
        for file in self.files.iter() {
            file[1].store(0, SeqCst);
        }
        for app in &self.options {
            self.spawner.always(app.app_root(), Spawn::ready());
        }
        self.pool.set_max(FULL).expect("not zero");
        self.pool.set_max_per_app(None).expect("no limit");
        // No session is left, so every group comes to rest.
        before_long(
            "no session, wait or spawn is left",
            || self.go_on(),
            || {
                let counts = self.pool.counts();
                (counts.active, counts.waiting, counts.spawning, counts.draining) == (0, 0, 0, 0)
            },
        );
        // Every slot can be used at once. A group that has a process would wait for a free slot, and evict no other's.
        for app in &self.options {
            self.pool.detach_group(app.app_group_name());
        }
        let app = PoolOptions::new("/srv/full");
        let ends = AtomicBool::new(false);
        let this = &*self;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(SeqCst) {
                    this.clock.advance(Duration::from_millis(500));
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
            let get = |_| match this.pool.get_timeout(&app, seconds(1000)) {
                Ok(session) => session,
                Err(why) => panic!("a slot is free: {why:?}: {:#?}", this.pool.snapshot()),
            };
            let sessions: Vec<_> = (0..FULL).map(get).collect();
            assert_eq!(this.pool.counts().active, FULL);
            assert!(this.pool.try_get(&app).is_err(), "there is no further slot");
            drop(sessions);
            ends.store(true, SeqCst);
        });
        self.pool.detach_group(app.app_group_name());
        before_long(
            "processes, totals and events agree",
            || self.go_on(),
            || {
                let (snapshot, events) = (self.pool.snapshot(), &self.events);
                let totals = snapshot.totals;
                (snapshot.active, snapshot.spawning, snapshot.draining) == (0, 0, 0)
                    && totals.spawned - totals.detached == snapshot.count as u64
                    && totals.spawned == events.spawned.load(SeqCst)
                    && totals.spawns_failed == events.failed.load(SeqCst)
                    && totals.detached == events.detached.load(SeqCst)
                    && self.spawner.processes().len() == snapshot.count
            },
        );
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        let (pool, clock) = (&self.pool, &self.clock);
        DONE.created.fetch_add(pool.snapshot().totals.spawned, SeqCst);
        pool.close();
        before_long(
            "the pool is closed",
            || clock.advance(seconds(1)),
            || pool.wait_closed(Duration::ZERO),
        );
        assert_eq!(pool.counts(), Default::default(), "a closed pool is empty");
        before_long("no process is left", || (), || self.spawner.processes().is_empty());
        let totals = pool.snapshot().totals;
        assert_eq!(totals.spawned, totals.detached);
        assert_eq!(self.spawner.shut_down().len() as u64, totals.spawned, "each is shut down once");
    }
}
