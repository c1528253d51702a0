//! The same random histories of two pools: one has a factory that need not be awaited, the other is asynchronous and
//! does the same by futures that keep nothing. Every call, event, answer and count is the same in both.

use crate::at_once::panics;
use crate::common::locked;
use crate::shared::end_the_run_when_the_library_panics;
use crate::shared::random::Random;
use crate::shared::task::Task;
use cabrank::ManualClock;
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, BorrowError, Borrowed, Form, ResourceFactory, ResourcePool,
    ResourcePoolBuilder,
};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum End {
    Well,
    Badly,
    Panic,
}

fn ended(end: End) -> Result<(), &'static str> {
    match end {
        End::Well => Ok(()),
        End::Badly => Err("no"),
        End::Panic => panics(),
    }
}

/// What has happened, and how what happens next comes to an end.
#[derive(Clone)]
struct Story(Arc<Mutex<(Vec<String>, Random, u32)>>);

impl Story {
    fn note(&self, what: String) {
        locked(&self.0).0.push(what);
    }
    fn call(&self, what: &str, number: u32) -> End {
        let mut story = locked(&self.0);
        let end = match story.1.below(30) {
            0 => End::Badly,
            1 => End::Panic,
            _ => End::Well,
        };
        story.0.push(format!("{what} {number} {end:?}"));
        end
    }
    fn made(&self) -> u32 {
        let mut story = locked(&self.0);
        story.2 += 1;
        story.2
    }
}

struct Now(Story);
impl ResourceFactory for Now {
    type Resource = u32;
    type Metadata = ();
    type Error = &'static str;
    fn create(&self, (): &()) -> Result<u32, &'static str> {
        ended(self.0.call("create", 0))?;
        Ok(self.0.made())
    }
    fn destroy(&self, (): &(), number: u32) {
        let _ = ended(self.0.call("destroy", number));
    }
    fn validate(&self, (): &(), number: &mut u32) -> bool {
        ended(self.0.call("validate", *number)).is_ok()
    }
    fn activate(&self, (): &(), number: &mut u32) -> Result<(), &'static str> {
        ended(self.0.call("activate", *number))
    }
    fn passivate(&self, (): &(), number: &mut u32) -> Result<(), &'static str> {
        ended(self.0.call("passivate", *number))
    }
}

thread_local! {
    static NEXT: Cell<End> = const { Cell::new(End::Well) };
}

/// Comes to what was decided when it was made.
struct AsDecided;
impl Future for AsDecided {
    type Output = Result<(), &'static str>;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ended(NEXT.replace(End::Well)))
    }
}

struct AtOnce(Story);
impl AsyncResourceFactory for AtOnce {
    type Resource = u32;
    type Metadata = ();
    type Error = &'static str;
    async fn create(&self, (): &()) -> Result<u32, &'static str> {
        ended(self.0.call("create", 0))?;
        Ok(self.0.made())
    }
    fn destroy(&self, (): &(), number: u32) {
        let _ = ended(self.0.call("destroy", number));
    }
    async fn validate(&self, (): &(), number: &mut u32) -> bool {
        ended(self.0.call("validate", *number)).is_ok()
    }
    fn activate(
        &self,
        (): &(),
        number: &mut u32,
    ) -> impl Future<Output = Result<(), &'static str>> + Send {
        NEXT.set(self.0.call("activate", *number));
        AsDecided
    }
    fn passivate(
        &self,
        (): &(),
        number: &mut u32,
    ) -> impl Future<Output = Result<(), &'static str>> + Send {
        NEXT.set(self.0.call("passivate", *number));
        AsDecided
    }
}

type Got<F> = Result<Borrowed<'static, F>, BorrowError<&'static str>>;
const SECOND: Duration = Duration::from_secs(1);

/// The options of this seed.
fn configured<F, P>(
    builder: ResourcePoolBuilder<F, P>,
    (seed, clock, story): (u64, &ManualClock, &Story),
) -> ResourcePoolBuilder<F, P>
where
    F: Form<Resource = u32, Metadata = (), Error = &'static str>,
{
    let mut random = Random::new(seed);
    let told = story.clone();
    let builder = builder.clock(clock.clock()).max_active(1 + random.below(3));
    let builder = builder.listener(move |(), event| told.note(format!("told {event:?}")));
    let builder = builder.fair(!random.one_in(3)).fifo(random.one_in(3));
    let builder = builder.test_on_borrow(random.one_in(2)).test_on_create(random.one_in(3));
    let builder = if random.one_in(2) { builder.max_idle(random.below(3)) } else { builder };
    let builder = if random.one_in(3) { builder.max_idle_time(SECOND * 9) } else { builder };
    if random.one_in(3) { builder.max_lifetime(SECOND * 20) } else { builder }
}

/// What comes of forty steps.
fn told<F>(pool: ResourcePool<F>, (seed, clock, story): (u64, &ManualClock, &Story)) -> Vec<String>
where
    F: Form<Resource = u32, Metadata = (), Error = &'static str>,
{
    let mut random = Random::new(seed);
    let mut waiting: Vec<Task<Got<F>>> = Vec::new();
    let mut lent = Vec::new();
    for _ in 0..40 {
        let step = random.below(20);
        let nth = random.below(1 << 20);
        let mut got = None;
        match step {
            0..=5 => {
                let pool = pool.clone();
                let borrowed = async move { pool.borrow_async().await.map(Borrowed::into_owned) };
                let mut task = Task::new(borrowed);
                got = task.poll();
                if got.is_none() {
                    waiting.push(task);
                }
            }
            6..=8 if !waiting.is_empty() => {
                let nth = nth % waiting.len();
                got = waiting[nth].poll();
                if got.is_some() {
                    drop(waiting.remove(nth));
                }
            }
            9 if !waiting.is_empty() => drop(waiting.remove(nth % waiting.len())),
            10..=13 if !lent.is_empty() => drop(lent.remove(nth % lent.len())),
            14 if !lent.is_empty() => {
                let returned: Borrowed<'static, F> = lent.remove(nth % lent.len());
                Task::new(returned.put_back()).poll().expect("nothing is awaited");
            }
            15 if !lent.is_empty() => lent.remove(nth % lent.len()).invalidate(),
            16 if !lent.is_empty() => {
                let held = lent.remove(nth % lent.len());
                let unwinding = catch_unwind(AssertUnwindSafe(move || {
                    let _held = held;
                    panics()
                }));
                assert!(unwinding.is_err());
            }
            17 => pool.retain(|(), number| *number % 3 > 0),
            18 => clock.advance(SECOND * 3),
            19 if nth.is_multiple_of(3) => pool.clear_all(),
            19 if nth.is_multiple_of(7) => pool.close(),
            _ => {}
        }
        match got {
            Some(Ok(got)) => {
                story.note(format!("got {}", *got));
                lent.push(got);
            }
            Some(Err(error)) => story.note(format!("{error:?}")),
            None => {}
        }
        story.note(format!("{step}: {:?}", pool.snapshot()));
    }
    drop((waiting, lent));
    pool.close();
    assert!(pool.wait_closed(Duration::ZERO));
    std::mem::take(&mut locked(&story.0).0)
}

#[test]
fn what_is_done_at_once_is_done_as_by_a_factory_that_is_not_awaited() {
    end_the_run_when_the_library_panics();
    for seed in 0..1_000 {
        let story = || Story(Arc::new(Mutex::new((Vec::new(), Random::new(seed), 0))));
        let of = (seed, &ManualClock::new(), &story());
        let pool = configured(ResourcePool::builder(Now(of.2.clone()), ()), of);
        let expected = told(pool.maintenance(false).build().expect("valid"), of);
        let of = (seed, &ManualClock::new(), &story());
        let pool = configured(ResourcePool::builder(Async(AtOnce(of.2.clone())), ()), of);
        let told = told(pool.build_async().expect("valid"), of);
        let differs = expected.iter().zip(&told).position(|(one, other)| one != other);
        let from = |nth: usize| (&expected[..=nth], &told[nth]);
        assert_eq!(differs.map(from), None, "seed {seed}");
        assert_eq!(expected.len(), told.len(), "seed {seed}");
    }
}
