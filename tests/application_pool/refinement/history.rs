//! The operations of a random history.
//!
//! An operation names its objects by small numbers, modulo how many there are when its turn comes.
//! So every prefix and every shrunk history can happen.

use crate::refinement::limits::World;
use cabrank_spec::application_pool::configuration::{Config, Options, RestartMode};
use proptest::prelude::*;

/// One call of the public API, or one event in the pool's environment.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// An idle client asks for a session, or for a lease to connect on its own. Its connects end as
    /// listed, then well.
    Ask {
        client: usize,
        group: usize,
        lease: bool,
        how: How,
        connects: Vec<Connect>,
    },
    /// A client ends its lease.
    Lease {
        nth: usize,
        end: LeaseEnd,
    },
    /// A task that was granted a process runs.
    Run {
        nth: usize,
        connects: Vec<Connect>,
    },
    /// The caller drops a task that waits, or that has not run since it was served.
    GiveUp {
        nth: usize,
    },
    Close {
        nth: usize,
    },
    Fail {
        nth: usize,
    },
    SpawnEnds {
        nth: usize,
        end: SpawnEnd,
    },
    Touch {
        dir: usize,
    },
    Delete {
        dir: usize,
    },
    Detach {
        nth: usize,
    },
    ProcessFails {
        nth: usize,
    },
    /// Disables a process, or enables one that is disabled.
    Toggle {
        nth: usize,
    },
    DetachGroup {
        group: usize,
    },
    RestartGroup {
        group: usize,
        rolling: bool,
    },
    PreStart {
        group: usize,
    },
    /// Later gets of the group come with other options.
    SetOptions {
        group: usize,
        nth: usize,
    },
    /// The pool refuses 0.
    SetMax(usize),
    SetMaxPerApp(usize),
    SetMaxIdleTime(u8),
    /// Moves the clock by so many seconds.
    Tick(u8),
    Clean,
    ClosePool,
    /// Asks whether a closed pool has come to its end.
    WaitClosed,
    /// Makes a weak handle and keeps it.
    Downgrade,
}

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Awaits,
    Tries,
    /// On the test's own thread, with a deadline that has already come, so that it always ends.
    Blocks,
    /// On a thread of its own, for at most so many seconds. Only a lease is asked for in this way.
    Timed(u8),
}

/// How a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    /// The lease becomes a session.
    Connected,
    Close,
    Fail,
    Cancel,
}

/// How a spawn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpawnEnd {
    Well,
    Error,
    Panic,
}

/// How an attempt to connect ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connect {
    Well,
    /// The process is at fault.
    Process,
    /// The caller's side is at fault.
    Local,
}

fn connects() -> impl Strategy<Value = Vec<Connect>> {
    let bad = prop_oneof![3 => Just(Connect::Process), 1 => Just(Connect::Local)];
    prop_oneof![6 => Just(vec![]), 1 => prop::collection::vec(bad, 1..3)]
}

fn lease_end() -> impl Strategy<Value = LeaseEnd> {
    use LeaseEnd::*;
    prop_oneof![4 => Just(Connected), 4 => Just(Close), 1 => Just(Fail), 1 => Just(Cancel)]
}

fn spawn_end() -> impl Strategy<Value = SpawnEnd> {
    use SpawnEnd::*;
    prop_oneof![12 => Just(Well), 2 => Just(Error), 1 => Just(Panic)]
}

fn ask(
    lease: bool,
    how: How,
    connects: impl Strategy<Value = Vec<Connect>>,
) -> impl Strategy<Value = Operation> {
    (0..8usize, 0..8usize, connects).prop_map(move |(client, group, connects)| Operation::Ask {
        client,
        group,
        lease,
        how,
        connects,
    })
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let n = || 0..8usize;
    prop_oneof![
        24 => ask(false, How::Awaits, connects()),
        2 => ask(false, How::Tries, prop_oneof![Just(vec![]), Just(vec![Connect::Local])]),
        4 => ask(false, How::Blocks, connects()),
        8 => ask(true, How::Awaits, Just(vec![])),
        2 => ask(true, How::Tries, Just(vec![])),
        2 => ask(true, How::Blocks, Just(vec![])),
        3 => (1..4u8).prop_flat_map(|seconds| ask(true, How::Timed(seconds), Just(vec![]))),
        8 => (n(), lease_end()).prop_map(|(nth, end)| Lease { nth, end }),
        12 => (n(), connects()).prop_map(|(nth, connects)| Run { nth, connects }),
        3 => n().prop_map(|nth| GiveUp { nth }),
        14 => n().prop_map(|nth| Close { nth }),
        1 => n().prop_map(|nth| Fail { nth }),
        16 => (n(), spawn_end()).prop_map(|(nth, end)| SpawnEnds { nth, end }),
        3 => n().prop_map(|dir| Touch { dir }),
        1 => n().prop_map(|dir| Delete { dir }),
        2 => n().prop_map(|nth| Detach { nth }),
        2 => n().prop_map(|nth| ProcessFails { nth }),
        3 => n().prop_map(|nth| Toggle { nth }),
        1 => n().prop_map(|group| DetachGroup { group }),
        1 => (n(), any::<bool>()).prop_map(|(group, rolling)| RestartGroup { group, rolling }),
        1 => n().prop_map(|group| PreStart { group }),
        4 => (n(), n()).prop_map(|(group, nth)| SetOptions { group, nth }),
        2 => (0..5usize).prop_map(SetMax),
        1 => (0..4usize).prop_map(SetMaxPerApp),
        1 => (0..5u8).prop_map(SetMaxIdleTime),
        6 => (1..4u8).prop_map(Tick),
        4 => Just(Clean),
        1 => prop::bool::weighted(0.1).prop_map(|close| if close { ClosePool } else { Clean }),
        1 => Just(WaitClosed),
        1 => Just(Downgrade),
    ]
}

/// The options of one group, without its name. The directory's number decides whether it has an
/// `always_restart.txt`.
fn options() -> impl Strategy<Value = Options> {
    let numbers =
        (0..3usize, 0..4usize, 0..3usize, 0..4usize, any::<bool>(), 0..4usize, any::<bool>());
    numbers.prop_map(|(min, max_requests, concurrency, max_queue, rolling, dir, eager)| {
        let mut options = Options::new("").min(min).dir(dir.min(2));
        options.max_requests = max_requests;
        options.concurrency = concurrency;
        options.eager_growth = eager;
        options.max_queue = max_queue;
        options.restart_mode = if rolling { RestartMode::Rolling } else { RestartMode::Immediate };
        options
    })
}

/// The limits, the groups, and the options of their gets. Each limit meets each other one.
pub(crate) fn world() -> impl Strategy<Value = World> {
    let group = (options(), prop::collection::vec(options(), 0..3));
    let limits = (1..5usize, 0..4usize, 0..5i64, 1..4i64);
    let more =
        (prop::option::of(0..3usize), 1..3i64, 0..3i64, any::<bool>(), prop::bool::weighted(0.2));
    let queue_times = prop::collection::vec(prop::option::weighted(0.4, 0..4u8), 4);
    let throttle = prop_oneof![2 => Just(0), 1 => 1..4u8];
    let beside = (queue_times, throttle);
    (prop::collection::vec(group, 1..4), 1..7usize, limits, more, beside).prop_map(
        |(groups, clients, limits, more, (queue_times, throttle))| {
            let (max, max_per_app, max_idle_time, drain_timeout) = limits;
            let (max_draining, first, further, restart_file, always) = more;
            let complete = |n: usize, options: Options| Options {
                name: format!("/{n}"),
                always_restart: always && options.restart_dir == 0,
                ..options
            };
            let (first_ones, others): (Vec<_>, Vec<_>) = groups.into_iter().unzip();
            let groups = first_ones.into_iter().enumerate().map(|(n, group)| complete(n, group));
            let mut config = Config::new(groups.collect(), max, clients);
            for (group, options) in others.into_iter().enumerate() {
                for options in options {
                    config = config.or(group, |these| *these = complete(group, options));
                }
            }
            let config = config.but(|config| {
                config.max_per_app = max_per_app;
                config.max_idle_time = max_idle_time;
                config.drain_timeout = drain_timeout;
                config.max_draining = max_draining;
                config.back_off = (first, first + further);
                config.max_attempts = 10;
                config.connects = true;
                config.restart_file = restart_file;
                config.environment.early_deaths = true;
            });
            World { config, queue_times, throttle }
        },
    )
}
