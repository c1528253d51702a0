//! A named pool passes its times and events on to `metrics` and to `tracing`. A pool without a name passes on neither.

use crate::common::locked;
use crate::runtimes::Numbers;
use crate::shared::end_the_run_when_the_library_panics;
use crate::steps::{Step, rig};
use cabrank::resource_pool::{Borrowed, ResourceFactory, ResourcePool, WhenExhausted};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit, with_local_recorder,
};
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Subscriber};

/// The metrics and events that the recorder and the subscriber received, each in a line.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn push(&self, line: String) {
        locked(&self.0).push(line);
    }
    /// Takes what was received since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.0))
    }
    #[track_caller]
    fn check(&self, expected: &[&str]) {
        assert_eq!(self.take(), expected);
    }
}

/// Keeps events of named pools enabled, in every thread. Each test calls this before it builds a named pool.
///
/// `tracing` decides once for each place in the code whether a subscriber wants its events. While it knows of one subscriber at most,
/// only the first thread's counts: a test without a subscriber could silence the test that has one.
pub(crate) fn keep_events_enabled() {
    static LISTENERS: LazyLock<[Dispatch; 2]> =
        LazyLock::new(|| [(); 2].map(|()| Dispatch::new(Seen::default())));
    LazyLock::force(&LISTENERS);
}

/// One metric, by its name without the scheme's prefix, and its labels.
struct Metric(Seen, String);

impl CounterFn for Metric {
    fn increment(&self, value: u64) {
        self.0.push(format!("{} +{value}", self.1));
    }
    fn absolute(&self, _: u64) {
        panic!("not used");
    }
}
impl GaugeFn for Metric {
    fn increment(&self, _: f64) {
        panic!("not used");
    }
    fn decrement(&self, _: f64) {
        panic!("not used");
    }
    fn set(&self, value: f64) {
        self.0.push(format!("{} ={value}", self.1));
    }
}
impl HistogramFn for Metric {
    fn record(&self, seconds: f64) {
        assert!((0.0..60.0).contains(&seconds), "{seconds}");
        self.0.push(self.1.clone());
    }
}

impl Seen {
    fn metric(&self, key: &Key) -> Arc<Metric> {
        let mut name = key.name().strip_prefix("cabrank.resource_pool.").expect("ours").to_owned();
        for label in key.labels() {
            name += &format!(" {}={}", label.key(), label.value());
        }
        Arc::new(Metric(self.clone(), name))
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.metric(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.metric(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.metric(key))
    }
}

#[test]
fn a_named_pool_records_metrics() {
    keep_events_enabled();
    let seen = Seen::default();
    with_local_recorder(&seen, || {
        let rig = rig(|b| {
            b.name("db").max_total(1).test_on_borrow(true).when_exhausted(WhenExhausted::Fail)
        });
        let lent = rig.lend();
        seen.check(&["create.duration pool=db outcome=created", "borrow.duration pool=db"]);
        assert!(rig.begin().1.expect("at once").is_err());
        seen.check(&["borrow.failures pool=db reason=exhausted +1"]);
        rig.pool.record_gauges();
        seen.check(&[
            "active pool=db =1",
            "idle pool=db =0",
            "total pool=db =1",
            "waiting pool=db =0",
        ]);
        drop(lent);
        seen.check(&["loan.duration pool=db"]);
        // The idle one fails its test, and the borrower gets another.
        rig.steps.on("validate", Step::Fails);
        let lent = rig.lend();
        seen.check(&[
            "events pool=db event=invalid +1",
            "destroyed pool=db +1",
            "create.duration pool=db outcome=created",
            "borrow.duration pool=db",
        ]);
        Borrowed::invalidate(lent);
        seen.check(&["loan.duration pool=db", "destroyed pool=db +1"]);
        drop(Borrowed::detach(rig.lend()));
        locked(&seen.0).drain(..2);
        seen.check(&["loan.duration pool=db"]);
        rig.steps.on("create", Step::Fails);
        assert!(rig.begin().1.expect("at once").is_err());
        seen.check(&[
            "create.duration pool=db outcome=error",
            "borrow.failures pool=db reason=create +1",
        ]);
        rig.steps.go_on("create");
        // A resource that cannot be activated was not lent.
        drop(rig.lend());
        locked(&seen.0).clear();
        rig.steps.on("activate", Step::Fails);
        assert!(rig.begin().1.expect("at once").is_err());
        seen.check(&[
            "events pool=db event=activate_failed +1",
            "destroyed pool=db +1",
            "create.duration pool=db outcome=created",
            "destroyed pool=db +1",
            "borrow.failures pool=db reason=activate +1",
        ]);
    });
}

/// A pool without a name observes nothing.
#[test]
fn a_pool_without_a_name_is_silent() {
    keep_events_enabled();
    let seen = Seen::default();
    with_local_recorder(&seen, || {
        tracing::subscriber::with_default(seen.clone(), || {
            let rig = rig(|b| b);
            drop(rig.lend());
            Borrowed::invalidate(rig.lend());
            rig.pool.record_gauges();
        });
    });
    seen.check(&[]);
}

/// The recorder is user code: its panics are contained, and it may call the pool.
#[test]
fn a_recorder_that_panics() {
    keep_events_enabled();
    struct Panics;
    impl Recorder for Panics {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            std::panic::resume_unwind(Box::new("on purpose"))
        }
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            std::panic::resume_unwind(Box::new("on purpose"))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            std::panic::resume_unwind(Box::new("on purpose"))
        }
    }
    end_the_run_when_the_library_panics();
    with_local_recorder(&Panics, || {
        let pool = ResourcePool::builder(Numbers, ()).max_total(1).name("db").build();
        let pool = pool.expect("a valid pool");
        drop(pool.borrow().expect("a new one"));
        Borrowed::invalidate(pool.borrow().expect("the same"));
        let _: u32 = Borrowed::detach(pool.borrow().expect("a new one"));
        drop(pool.borrow().expect("a new one"));
        pool.record_gauges();
        assert_eq!((pool.num_active(), pool.num_total()), (0, 1));
    });
}

/// The fields of an event, without times.
struct Fields(String);
impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "after" | "lent_for" | "took" => self.0 += &format!(" {}", field.name()),
            "message" => self.0.insert_str(0, &format!("{value:?}:")),
            name => self.0 += &format!(" {name}={value:?}"),
        }
    }
}

impl Subscriber for Seen {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        assert_eq!(metadata.level(), &Level::DEBUG);
        metadata.target() == "cabrank::resource_pool"
    }
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.push(fields.0);
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        panic!("there are no spans")
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_named_pool_traces_its_events() {
    keep_events_enabled();
    let seen = Seen::default();
    tracing::subscriber::with_default(seen.clone(), || {
        let rig = rig(|b| b.name("db").max_total(1).when_exhausted(WhenExhausted::Fail));
        let lent = rig.lend();
        seen.check(&[
            r#"creation ended: pool="db" outcome="created" took"#,
            r#"lent: pool="db" after"#,
        ]);
        assert!(rig.begin().1.expect("at once").is_err());
        seen.check(&[r#"not lent: pool="db" reason="exhausted""#]);
        rig.steps.on("passivate", Step::Fails);
        drop(lent);
        seen.check(&[r#"returned: pool="db" lent_for"#]);
        let lent = rig.lend();
        seen.check(&[
            r#"reported: pool="db" event="passivate_failed" why="on purpose""#,
            r#"destroyed: pool="db""#,
            r#"creation ended: pool="db" outcome="created" took"#,
            r#"lent: pool="db" after"#,
        ]);
        Borrowed::invalidate(lent);
        seen.check(&[r#"returned: pool="db" lent_for"#, r#"destroyed: pool="db""#]);
    });
}

/// Durations of a creation, a borrow and a loan. The loan begins where the borrow ends.
#[test]
fn durations_are_measured() {
    keep_events_enabled();
    const LONG: Duration = Duration::from_millis(400);
    struct Slow;
    impl ResourceFactory for Slow {
        type Resource = ();
        type Metadata = ();
        type Error = std::convert::Infallible;
        fn create(&self, (): &()) -> Result<(), std::convert::Infallible> {
            std::thread::sleep(LONG);
            Ok(())
        }
    }
    #[derive(Clone, Default)]
    struct Durations(Arc<Mutex<Vec<(String, f64)>>>);
    struct Of(Durations, String);
    impl HistogramFn for Of {
        fn record(&self, seconds: f64) {
            locked(&self.0.0).push((self.1.clone(), seconds));
        }
    }
    impl Recorder for Durations {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }
        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(Arc::new(Of(self.clone(), key.name().to_owned())))
        }
    }
    let durations = Durations::default();
    with_local_recorder(&durations, || {
        let pool = ResourcePool::builder(Slow, ()).name("db").build().expect("a valid pool");
        let lent = pool.borrow().expect("a resource");
        std::thread::sleep(LONG / 8);
        drop(lent);
    });
    let of = |name: &str| {
        let all = locked(&durations.0);
        let found = all.iter().find(|(this, _)| this == &format!("cabrank.resource_pool.{name}"));
        Duration::from_secs_f64(found.unwrap_or_else(|| panic!("{name}: {all:?}")).1)
    };
    assert!(of("create.duration") >= LONG);
    assert!(of("borrow.duration") >= LONG);
    assert!((LONG / 8..LONG).contains(&of("loan.duration")));
}
