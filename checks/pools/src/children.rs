//! An application pool of child processes, each a `cat` that echoes lines. Some are killed. The time is real.

use crate::course::{Course, DONE, before_long, count};
use crate::random::Random;
use cabrank::application_pool::{
    ConnectError, Event, Process, Session, ShutDown, SpawnError, SpawnRequest, Spawner,
};
use cabrank::{ApplicationPool, PoolOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

const APPS: usize = 3;
const WORKERS: u64 = 4;
const FULL: usize = 4;
const SOON: Duration = Duration::from_secs(20);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child with its pipes. Its drop waits for its end.
pub(crate) struct Cat {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    alive: Arc<AtomicUsize>,
}

impl Cat {
    fn echo(&mut self, text: &str) -> bool {
        let mut answer = String::new();
        let input = self.input.as_mut().expect("taken only by its drop");
        let sent = writeln!(input, "{text}").is_ok();
        sent && self.output.read_line(&mut answer).is_ok() && answer.trim_end() == text
    }
}

impl Drop for Cat {
    fn drop(&mut self) {
        drop(self.input.take()); // at the end of its input, `cat` exits
        let _ = self.child.wait();
        self.alive.fetch_sub(1, SeqCst);
    }
}

#[derive(Clone, Default)]
pub(crate) struct Cats {
    alive: Arc<AtomicUsize>,
    all: Arc<Mutex<Vec<Weak<Mutex<Cat>>>>>,
    spawns: Arc<AtomicUsize>,
}

/// A connection is the child itself: it takes one session at a time.
pub(crate) struct OneCat(Arc<Mutex<Cat>>);

impl Spawner for Cats {
    type Process = OneCat;

    fn spawn(&self, _: &SpawnRequest) -> Result<OneCat, SpawnError> {
        match self.spawns.fetch_add(1, SeqCst) % 16 {
            7 => return Err(SpawnError::new("no database")),
            11 => std::panic::resume_unwind(Box::new("on purpose")),
            _ => {}
        }
        let mut command = Command::new("cat");
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(SpawnError::new)?;
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        self.alive.fetch_add(1, SeqCst);
        let output = BufReader::with_capacity(64, output);
        let cat = Arc::new(Mutex::new(Cat { child, input, output, alive: self.alive.clone() }));
        let mut all = locked(&self.all);
        all.retain(|cat| cat.strong_count() > 0);
        all.push(Arc::downgrade(&cat));
        Ok(OneCat(cat))
    }
}

impl Process for OneCat {
    type Connection = Arc<Mutex<Cat>>;

    fn connect(&self) -> Result<Self::Connection, ConnectError> {
        match locked(&self.0).child.try_wait() {
            Ok(None) => Ok(self.0.clone()),
            Ok(Some(status)) => Err(ConnectError::process(format!("cat has exited: {status}"))),
            Err(error) => Err(ConnectError::local(error)),
        }
    }
    fn shut_down(&self, _: ShutDown) {
        let _ = locked(&self.0).child.kill();
    }
}

pub(crate) struct Children {
    pool: ApplicationPool<Cats>,
    cats: Cats,
    /// Events: spawned, detached.
    events: Arc<[AtomicU64; 2]>,
    dir: PathBuf,
    options: Vec<PoolOptions>,
}

impl Children {
    pub(crate) fn open(random: &mut Random) -> Children {
        let (cats, events) = (Cats::default(), Arc::<[AtomicU64; 2]>::default());
        let seen = events.clone();
        let pool = ApplicationPool::builder(cats.clone())
            .max(FULL)
            .max_idle_time(Duration::from_millis(200))
            .drain_timeout(Duration::from_millis(200))
            .back_off(Duration::from_millis(1), Duration::from_millis(4))
            .restart_files(|path| path.metadata()?.modified())
            .observer(move |event| match event {
                Event::Spawned { .. } => count(&seen[0]),
                Event::Detached { .. } => count(&seen[1]),
                _ => {}
            })
            .build()
            .expect("a valid pool");
        let dir = std::env::temp_dir().join(format!("cabrank-checks-pools-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let options = (0..APPS).map(|app| {
            PoolOptions::new(format!("/srv/{app}"))
                .with_min_processes(random.below(2))
                .with_max_requests([None, Some(50)][app % 2])
                .with_restart_dir(&dir)
        });
        Children { pool, cats, events, options: options.collect(), dir }
    }

    fn worker(&self, seed: u64, until: Instant) {
        let mut random = Random::new(seed);
        while Instant::now() < until {
            let app = random.of(&self.options);
            match random.below(64) {
                0 => {
                    let all = locked(&self.cats.all).clone();
                    let nth = random.below(all.len().max(1));
                    if let Some(cat) = all.get(nth).and_then(Weak::upgrade) {
                        let _ = locked(&cat).child.kill();
                        count(&DONE.crashed);
                    }
                }
                1 => _ = self.pool.detach_group(app.app_group_name()),
                2 => {
                    self.pool.set_max(1 + random.below(FULL + 2)).expect("not zero");
                    count(&DONE.resized);
                }
                3 => std::fs::write(self.dir.join("restart.txt"), "").expect("a file"),
                _ => {
                    let timeout = Duration::from_millis(random.below(30) as u64);
                    let Ok(session) = self.pool.get_timeout(app, timeout) else {
                        count(&DONE.refused);
                        continue;
                    };
                    count(&DONE.lent);
                    let well = locked(&session).echo("meow");
                    if !well {
                        Session::fail(session);
                    }
                }
            }
        }
    }
}

impl Course for Children {
    fn work(&mut self, seed: u64, until: Instant) {
        let this = &*self;
        std::thread::scope(|scope| {
            for nth in 0..WORKERS {
                scope.spawn(move || this.worker(seed * WORKERS + nth, until));
            }
        });
    }

    fn rest(&mut self) {
        let pool = &self.pool;
        pool.set_max(FULL).expect("not zero");
        for app in &self.options {
            pool.detach_group(app.app_group_name());
        }
        // A spawn may still fail.
        let mut sessions = Vec::new();
        before_long(
            "every slot is lent",
            || (),
            || {
                sessions.extend(pool.get_timeout(&self.options[0], SOON).ok());
                sessions.len() == FULL
            },
        );
        assert_eq!(pool.counts().active, FULL);
        assert!(pool.try_get(&self.options[1]).is_err(), "there is no further slot");
        drop(sessions);
        for app in &self.options {
            pool.detach_group(app.app_group_name());
        }
        before_long(
            "children, totals and events agree",
            || (),
            || {
                let (snapshot, events) = (pool.snapshot(), &self.events);
                let totals = snapshot.totals;
                (snapshot.count, snapshot.spawning, snapshot.draining, snapshot.waiting)
                    == (0, 0, 0, 0)
                    && totals.spawned == totals.detached
                    && totals.spawned == events[0].load(SeqCst)
                    && totals.detached == events[1].load(SeqCst)
                    && self.cats.alive.load(SeqCst) == 0
            },
        );
        locked(&self.cats.all).clear();
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        DONE.created.fetch_add(self.pool.snapshot().totals.spawned, SeqCst);
        self.pool.close();
        assert!(self.pool.wait_closed(SOON), "the pool is closed");
        assert_eq!(self.pool.counts(), Default::default(), "a closed pool is empty");
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
