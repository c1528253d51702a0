//! Each variant of an error, of an event and of a creation's end has its metric.

use crate::common::{Background, Outcome, Pool, Rig, Script, pool};
use crate::observed::{Seen, keep_events_enabled};
use crate::shared::SECOND;
use crate::shared::woken::Woken;
use crate::steps::{self, Step, rig_on};
use cabrank::Clock;
use cabrank::resource_pool::{Borrowed, Builder, WhenExhausted};
use metrics::with_local_recorder;

/// Returns the lines of this metric that `act` leads to, without their beginning.
fn recorded(metric: &str, act: impl FnOnce()) -> Vec<String> {
    keep_events_enabled();
    let seen = Seen::default();
    with_local_recorder(&seen, act);
    let begin = format!("{metric} pool=db ");
    seen.take().iter().filter_map(|line| line.strip_prefix(&begin)).map(str::to_owned).collect()
}

type Act = fn(&Rig<Pool>);
type Configure = fn(Builder<Script, Pool>) -> Builder<Script, Pool>;

#[test]
fn each_error_of_a_borrower_has_its_reason() {
    let table: [(&str, Configure, Act); 8] = [
        (
            "closed",
            |b| b,
            |rig| {
                rig.pool.close();
                rig.pool.borrow().expect_err("closed");
            },
        ),
        (
            "exhausted",
            |b| b.when_exhausted(WhenExhausted::Fail),
            |rig| {
                let _lent = rig.lend();
                rig.pool.borrow().expect_err("exhausted");
            },
        ),
        (
            "would_block",
            |b| b,
            |rig| {
                let _lent = rig.lend();
                rig.pool.try_borrow().expect_err("it would wait");
            },
        ),
        (
            "timed_out",
            |b| b,
            |rig| {
                let _lent = rig.lend();
                rig.pool.borrow_timeout(std::time::Duration::ZERO).expect_err("too late");
            },
        ),
        (
            "create",
            |b| b,
            |rig| {
                rig.script.fails("create");
                rig.pool.borrow().expect_err("it fails");
            },
        ),
        (
            "create",
            |b| b,
            |rig| {
                rig.script.panics("create");
                rig.pool.borrow().expect_err("it panics");
            },
        ),
        (
            "activate",
            |b| b,
            |rig| {
                rig.script.fails("activate");
                rig.pool.borrow().expect_err("it fails");
            },
        ),
        (
            "invalid",
            |b| b.test_on_create(true),
            |rig| {
                rig.script.fails("validate");
                rig.pool.borrow().expect_err("it fails");
            },
        ),
    ];
    for (reason, configure, act) in table {
        let reasons = recorded("borrow.failures", || {
            act(&pool(|b| configure(b.name("db").max_active(1))));
        });
        assert_eq!(reasons, [format!("reason={reason} +1")]);
    }
}

#[test]
fn each_event_has_its_kind() {
    let table: [(&str, Configure, Act); 9] = [
        (
            "create_failed",
            |b| b.min_idle(1),
            |rig| {
                rig.script.fails("create");
                rig.pool.maintain();
            },
        ),
        (
            "activate_failed",
            |b| b,
            |rig| {
                rig.pool.add().expect("there is room");
                rig.script.on("activate", |number| match number {
                    1 => Outcome::Fails,
                    _ => Outcome::Well,
                });
                drop(rig.lend());
            },
        ),
        (
            "passivate_failed",
            |b| b,
            |rig| {
                rig.script.fails("passivate");
                drop(rig.lend());
            },
        ),
        (
            "validate_panicked",
            |b| b.test_on_return(true),
            |rig| {
                rig.script.panics("validate");
                drop(rig.lend());
            },
        ),
        (
            "invalid",
            |b| b.test_on_return(true),
            |rig| {
                rig.script.fails("validate");
                drop(rig.lend());
            },
        ),
        (
            "invalid",
            |b| b.test_while_idle(true).eviction_interval(SECOND),
            |rig| {
                rig.pool.add().expect("there is room");
                rig.script.fails("validate");
                rig.clock.advance(SECOND);
                rig.pool.maintain();
            },
        ),
        (
            "destroy_panicked",
            |b| b,
            |rig| {
                rig.script.panics("destroy");
                Borrowed::invalidate(rig.lend());
            },
        ),
        (
            "abandoned",
            |b| b.abandoned_after(SECOND),
            |rig| {
                let _lent = rig.lend();
                rig.clock.advance(SECOND);
                rig.pool.maintain();
            },
        ),
        (
            "abandoned",
            |b| b.abandoned_after(SECOND).remove_abandoned(true),
            |rig| {
                let _lent = rig.lend();
                rig.clock.advance(SECOND);
                rig.pool.maintain();
            },
        ),
    ];
    for (kind, configure, act) in table {
        let kinds = recorded("events", || act(&pool(|b| configure(b.name("db").max_active(1)))));
        assert_eq!(kinds, [format!("event={kind} +1")]);
    }
}

type OnRuntime = fn(&steps::Rig, &Woken);

#[test]
fn each_event_of_a_runtime_has_its_kind() {
    let table: [(&str, OnRuntime); 4] = [
        ("validate_timed_out", |rig, runtime| {
            drop(rig.lend());
            rig.steps.on("validate", Step::Held);
            let mut tests = rig.waits();
            runtime.run();
            runtime.pass(SECOND);
            drop(tests.poll().expect("another"));
        }),
        ("destroy_timed_out", |rig, runtime| {
            drop(rig.lend());
            rig.steps.on("destroy", Step::Held);
            rig.pool.clear();
            runtime.run();
            runtime.pass(6 * SECOND);
        }),
        ("runtime_ended", |rig, runtime| {
            drop(rig.lend());
            rig.steps.on("validate", Step::Held);
            let mut tests = rig.waits();
            runtime.run();
            runtime.forget_all();
            assert!(tests.poll().is_none(), "without a limit");
            rig.steps.go_on("validate");
            drop(tests.poll().expect("the same"));
        }),
        ("create_failed", |rig, runtime| {
            rig.steps.on("create", Step::Held);
            drop(rig.waits());
            runtime.run();
            rig.steps.on("create", Step::Fails);
            runtime.run();
            // A wake-up has it look again.
            rig.steps.go_on("nothing");
            runtime.run();
        }),
    ];
    for (kind, act) in table {
        let kinds = recorded("events", || {
            let runtime = Woken::eager();
            let configure = |b: steps::Building| {
                let limited = b.validate_timeout(SECOND).test_on_borrow(true);
                limited.name("db").clock(Clock::monotonic())
            };
            act(&rig_on(configure, runtime.clone()), &runtime);
        });
        assert_eq!(kinds, [format!("event={kind} +1")]);
    }
}

#[test]
fn each_end_of_a_creation_has_its_outcome() {
    for (outcome, step) in
        [("created", None), ("error", Some(Step::Fails)), ("panicked", Some(Step::Panics))]
    {
        for runtime in [None, Some(Woken::eager())] {
            let outcomes = recorded("create.duration", || {
                let rig = match runtime {
                    None => steps::rig(|b| b.name("db")),
                    Some(runtime) => rig_on(|b| b.name("db").clock(Clock::monotonic()), runtime),
                };
                if let Some(step) = step {
                    rig.steps.on("create", step);
                }
                drop(rig.begin());
            });
            assert_eq!(outcomes, [format!("outcome={outcome}")]);
        }
    }
    let outcomes = recorded("create.duration", || {
        let runtime = Woken::eager();
        let rig = rig_on(|b| b.name("db").clock(Clock::monotonic()), runtime.clone());
        rig.steps.on("create", Step::Held);
        let mut creates = rig.waits();
        runtime.run();
        runtime.pass(30 * SECOND);
        assert!(creates.poll().expect("it took too long").is_err());
    });
    assert_eq!(outcomes, ["outcome=timed_out"]);
}

/// Each call of `destroy` counts, however the resource came to its end.
#[test]
fn each_destruction_is_counted() {
    let ends: [Act; 6] = [
        |rig| Borrowed::invalidate(rig.lend()),
        |rig| {
            drop(rig.lend());
            rig.pool.clear();
        },
        |rig| {
            drop(rig.lend());
            rig.pool.close();
        },
        |rig| {
            rig.script.panics("destroy");
            Borrowed::invalidate(rig.lend());
        },
        |rig| {
            rig.script.fails("passivate");
            drop(rig.lend());
        },
        |rig| {
            drop(rig.lend());
            rig.pool.retain(|_, _| false);
        },
    ];
    for (nth, end) in ends.into_iter().enumerate() {
        keep_events_enabled();
        let seen = Seen::default();
        with_local_recorder(&seen, || end(&pool(|b| b.name("db"))));
        let destroyed = seen.take();
        let destroyed = destroyed.iter().filter(|line| line.starts_with("destroyed"));
        assert_eq!(destroyed.collect::<Vec<_>>(), ["destroyed pool=db +1"], "{nth}");
    }
}

/// A loan ends once, whichever way it ends.
#[test]
fn each_end_of_a_loan_is_measured_once() {
    let ends: [Act; 5] = [
        |rig| drop(rig.lend()),
        |rig| Borrowed::invalidate(rig.lend()),
        |rig| drop(Borrowed::detach(rig.lend())),
        |rig| crate::shared::task::block_on(Borrowed::put_back(rig.lend())),
        |rig| {
            let lent = rig.lend();
            rig.pool.close();
            drop(lent);
        },
    ];
    for (nth, end) in ends.into_iter().enumerate() {
        keep_events_enabled();
        let seen = Seen::default();
        with_local_recorder(&seen, || end(&pool(|b| b.name("db"))));
        let lines = seen.take();
        let measured = |name: &str| lines.iter().filter(|line| line.starts_with(name)).count();
        assert_eq!((measured("borrow.duration"), measured("loan.duration")), (1, 1), "{nth}");
    }
}

/// The gauges are those of the moment.
#[test]
fn gauges_count_what_there_is() {
    let rig = pool(|b| b.name("db").max_active(2));
    let lent = [rig.lend(), rig.lend()];
    let waits: [Background<_>; 2] = [rig.queue(), rig.queue()];
    let seen = Seen::default();
    with_local_recorder(&seen, || rig.pool.record_gauges());
    let expected = ["active pool=db =2", "idle pool=db =0", "total pool=db =2"];
    assert_eq!(seen.take()[..3], expected);
    drop(lent);
    for waits in waits {
        drop(waits.end().expect("its turn"));
    }
    with_local_recorder(&seen, || rig.pool.record_gauges());
    let expected =
        ["active pool=db =0", "idle pool=db =2", "total pool=db =2", "waiting pool=db =0"];
    assert_eq!(seen.take(), expected);
}

/// The return ends the loan, and so does the destruction that follows. It is one loan.
#[test]
fn a_loan_whose_return_fails_counts_once() {
    keep_events_enabled();
    let seen = Seen::default();
    with_local_recorder(&seen, || {
        let rig = pool(|b| b.name("db").test_on_return(true));
        let lent = rig.lend();
        rig.script.fails("validate");
        drop(lent);
        assert_eq!(rig.script.alive(), 0);
    });
    let loans = seen.take().iter().filter(|line| *line == "loan.duration pool=db").count();
    assert_eq!(loans, 1);
}
