//! The pools that are explored, as ruled.
//!
//! Each is a closed world (see [`configuration`](crate::configuration)) small enough to be explored to
//! the last state. The three shapes are those in which what goes wrong between groups, within one
//! group, and among those that have none, shows; each with a global queue and with private ones; and
//! each with the things that may happen to it in the combinations that meet in the algorithm: failures
//! with time and the cleaner; restarts; detaches; limits raised and lowered; gets that give up.

use crate::configuration::{Config, Environment, Options, RestartMode};

/// A configuration with a name.
pub struct Named {
    /// Its name, for the command line.
    pub name: &'static str,
    /// What is special about it.
    pub about: &'static str,
    /// Whether it takes too long for every run of the tests.
    pub deep: bool,
    /// Itself.
    pub config: Config,
}

/// The configuration of this name.
pub fn named(name: &str) -> Option<Named> {
    all().into_iter().find(|configuration| configuration.name == name)
}

fn global(n: usize) -> Vec<Options> {
    ["a", "b", "c"][..n].iter().map(|name| Options::new(name)).collect()
}
fn private(n: usize) -> Vec<Options> {
    global(n).into_iter().map(Options::private).collect()
}
fn rolling(groups: Vec<Options>) -> Vec<Options> {
    groups.into_iter().map(Options::rolling).collect()
}
fn rolling_first(mut groups: Vec<Options>) -> Vec<Options> {
    groups[0] = groups[0].clone().rolling();
    groups
}
fn always_first(mut groups: Vec<Options>) -> Vec<Options> {
    groups[0].always_restart = true;
    groups
}
fn first_min(mut groups: Vec<Options>, min: usize) -> Vec<Options> {
    groups[0].min_processes = min;
    groups
}

/// Spawns fail, time passes, the cleaner runs.
fn failures(env: &mut Environment) {
    env.spawns_fail = true;
    env.time = true;
}
fn restarts(env: &mut Environment) {
    env.touch = true;
}
fn detaches(env: &mut Environment) {
    env.detach = true;
}
fn limits(env: &mut Environment) {
    env.set_max = vec![1, 2, 3];
}
fn lowered(env: &mut Environment) {
    env.set_max = vec![1, 2];
}
fn no_thread(env: &mut Environment) {
    env.no_thread = true;
    env.time = true;
}
fn punctual(env: &mut Environment) {
    env.time = true;
    env.punctual = true;
}
fn giving_up(env: &mut Environment) {
    env.give_up = true;
}
/// The pool is closed, and groups are detached and forgotten.
fn endings(env: &mut Environment) {
    env.detach_group = true;
    env.close = true;
}
/// Whatever happens to a pool besides gets: only the cleaner is for the caller to add.
fn everything(env: &mut Environment) {
    failures(env);
    restarts(env);
    detaches(env);
    lowered(env);
}
fn idle(config: &mut Config) {
    config.max_idle_time = 1;
}

/// All of them.
pub fn all() -> Vec<Named> {
    let new = |name, about, deep, config| Named { name, about, deep, config };
    let two = |groups| Config::new(groups, 2, 3);
    let one = |groups| Config::new(groups, 3, 4);
    let three = |groups| Config::new(groups, 2, 3);
    vec![
        // Two groups, max 2, three clients.
        new(
            "two-global",
            "2 groups, max 2, 3 clients, global queue: failures, cleaner, detaches, max 1 and 2",
            false,
            two(global(2)).with(failures).with(detaches).with(lowered).but(idle),
        ),
        new(
            "two-private",
            "the same with private queues",
            false,
            two(private(2)).with(failures).with(detaches).with(lowered).but(idle),
        ),
        new(
            "two-global-deep",
            "two-global, and gets give up, and max is 1 to 3",
            true,
            two(global(2)).with(failures).with(detaches).with(giving_up).with(limits).but(idle),
        ),
        new(
            "two-private-deep",
            "two-private, and gets give up, and max is 1 to 3",
            true,
            two(private(2)).with(failures).with(detaches).with(giving_up).with(limits).but(idle),
        ),
        new(
            "two-minimum",
            "one of the two groups keeps a minimum of 1: failures, cleaner, detaches",
            false,
            two(first_min(global(2), 1)).with(failures).with(detaches).but(idle),
        ),
        new(
            "two-restarts",
            "2 groups that share a directory, immediate restarts, failures",
            false,
            two(private(2)).with(restarts).with(|env| env.spawns_fail = true),
        ),
        new(
            "two-restarts-deep",
            "two-restarts, and time passes, and restart.txt is deleted",
            true,
            two(private(2)).with(failures).with(restarts).with(|env| env.delete = true),
        ),
        new(
            "two-rolling",
            "2 groups that share a directory, rolling restarts, restart.txt is deleted",
            false,
            two(rolling(global(2))).with(restarts).with(|env| env.delete = true),
        ),
        new(
            "two-rolling-deep",
            "2 groups, one of them restarting one by one, failures, time",
            true,
            two(rolling_first(global(2))).with(failures).with(restarts),
        ),
        new(
            "two-groups-detached",
            "groups are detached and forgotten, the pool is closed; failures",
            false,
            two(global(2)).with(failures).with(endings),
        ),
        new(
            "two-rolling-forgotten",
            "groups are detached and forgotten, the pool is closed; a minimum of 1, rolling restarts; two clients",
            false,
            Config::new(rolling(first_min(global(2), 1)), 2, 2).with(restarts).with(endings),
        ),
        new(
            "two-connecting",
            "connecting is a step of its own and fails, by either side; sessions break; giving up",
            false,
            two(private(2)).but(|config| config.connects = true).with(giving_up).with(|env| {
                env.processes_fail = true;
                env.clients_fail = true;
                env.try_get = true;
            }),
        ),
        new(
            "two-always",
            "one of the two groups has an always_restart.txt; connecting fails, and so do spawns; two clients",
            false,
            Config::new(always_first(global(2)), 2, 2)
                .but(|config| config.connects = true)
                .with(failures)
                .with(|env| env.processes_fail = true),
        ),
        new(
            "two-deleted",
            "2 groups that share a directory, immediate restarts, restart.txt is deleted",
            false,
            two(global(2)).with(restarts).with(|env| env.delete = true),
        ),
        new(
            "two-threads",
            "one of the two groups keeps a minimum of 1: spawner threads cannot be started; cleaner",
            false,
            two(first_min(private(2), 1)).with(no_thread).but(idle),
        ),
        new(
            "two-punctual",
            "the cleaner is punctual, and MAX_IDLE_TIME is 0 to 2 and changed; a minimum of 1, failures",
            false,
            two(first_min(global(2), 1))
                .but(|config| config.max_idle_time = 2)
                .with(failures)
                .with(punctual)
                .with(|env| {
                    env.set_max_idle_time = vec![0, 1, 2];
                }),
        ),
        new(
            "two-options",
            "gets for one of the groups come with another minimum and a queue of one; detaches, cleaner",
            false,
            two(global(2))
                .or(0, |options| (options.min_processes, options.max_queue) = (1, 1))
                .with(detaches)
                .with(|env| env.time = true)
                .but(idle),
        ),
        new(
            "two-restarts-detached",
            "2 groups that share a directory, immediate restarts, detaches, giving up, max 1 to 3; two clients",
            false,
            Config::new(global(2), 2, 2).with(restarts).with(detaches).with(giving_up).with(limits),
        ),
        new(
            "two-rolling-detached",
            "the same with rolling restarts, and max stays 2",
            false,
            Config::new(rolling(global(2)), 2, 2).with(restarts).with(detaches).with(giving_up),
        ),
        new(
            "two-everything-global-deep",
            "failures, restarts, detaches, cleaner, max 1 and 2, all at once; two clients",
            true,
            Config::new(global(2), 2, 2).with(everything).but(idle),
        ),
        new(
            "two-everything-private-deep",
            "the same with private queues",
            true,
            Config::new(private(2), 2, 2).with(everything).but(idle),
        ),
        new(
            "two-rolling-private",
            "2 groups that share a directory, rolling restarts, private queues",
            false,
            Config::new(rolling(private(2)), 2, 3).with(restarts),
        ),
        // One group, max 3, four clients.
        new(
            "one-global",
            "1 group, max 3, 4 clients, global queue: failures, cleaner, detaches, max and max_per_app",
            false,
            one(first_min(global(1), 1)).with(failures).with(detaches).with(limits).but(idle).with(
                |env| {
                    env.set_max_per_app = vec![0, 2];
                },
            ),
        ),
        new(
            "one-private",
            "the same with a private queue",
            false,
            one(first_min(private(1), 1))
                .with(failures)
                .with(detaches)
                .with(limits)
                .but(idle)
                .with(|env| {
                    env.set_max_per_app = vec![0, 2];
                }),
        ),
        new(
            "one-restarts-global",
            "1 group, max 3, 4 clients, global queue: immediate restarts",
            false,
            one(global(1)).with(restarts),
        ),
        new(
            "one-restarts-private",
            "the same with a private queue",
            false,
            one(private(1)).with(restarts),
        ),
        new(
            "one-everything-global",
            "failures, restarts, detaches, cleaner, max 1 and 2, all at once; a minimum of 1; three clients",
            false,
            Config::new(first_min(global(1), 1), 3, 3).with(everything).but(idle),
        ),
        new(
            "one-everything-private",
            "the same with a private queue",
            false,
            Config::new(first_min(private(1), 1), 3, 3).with(everything).but(idle),
        ),
        new(
            "one-everything-global-deep",
            "one-everything-global with four clients",
            true,
            one(first_min(global(1), 1)).with(everything).but(idle),
        ),
        new(
            "one-everything-private-deep",
            "one-everything-private with four clients, and no minimum",
            true,
            one(private(1)).with(everything).but(idle),
        ),
        new(
            "one-restarts-deep",
            "failures, restarts, detaches, max 1 and 2; no minimum, no cleaner",
            true,
            one(global(1)).with(everything),
        ),
        new(
            "one-concurrent",
            "two sessions at once and three in all for each process, a queue of two, detaches",
            false,
            one(vec![Options {
                concurrency: 2,
                max_requests: 3,
                max_queue: 2,
                ..Options::new("a")
            }])
            .with(detaches)
            .with(giving_up),
        ),
        new(
            "one-options",
            "gets come with another concurrency and max_requests; connecting fails; max 2, 3 clients",
            false,
            Config::new(global(1), 2, 3)
                .or(0, |options| (options.concurrency, options.max_requests) = (0, 2))
                .but(|config| config.connects = true)
                .with(|env| env.processes_fail = true),
        ),
        new(
            "one-directories",
            "gets come with another restart directory and mode, and minimum; restart.txt is deleted; max 2, 2 clients",
            false,
            Config::new(global(1), 2, 2)
                .or(0, |options| {
                    (options.restart_dir, options.min_processes) = (1, 1);
                    options.restart_mode = RestartMode::Rolling;
                })
                .with(restarts)
                .with(|env| env.delete = true),
        ),
        new(
            "one-rolling",
            "rolling restarts of up to three processes, at least two, failures, time; three clients",
            false,
            Config::new(rolling(first_min(global(1), 2)), 3, 3).with(failures).with(restarts),
        ),
        new(
            "one-rolling-deep",
            "the same with four clients",
            true,
            one(rolling(first_min(global(1), 2))).with(failures).with(restarts),
        ),
        new(
            "one-rolling-forgotten",
            "the group is detached and forgotten, the pool is closed; a minimum of 1, rolling restarts, failures, giving up; max 2, 2 clients",
            false,
            Config::new(rolling(first_min(global(1), 1)), 2, 2)
                .with(failures)
                .with(restarts)
                .with(giving_up)
                .with(endings),
        ),
        new(
            "one-private-forgotten",
            "the same with a private queue: a minimum of 1, immediate restarts, failures, cleaner, detaches; max 2, 2 clients",
            false,
            Config::new(first_min(private(1), 1), 2, 2)
                .with(failures)
                .with(restarts)
                .with(detaches)
                .with(endings)
                .but(idle),
        ),
        new(
            "one-rolling-private",
            "rolling restarts, a private queue; three clients",
            false,
            Config::new(rolling(private(1)), 3, 3).with(restarts),
        ),
        // Three groups, max 2, three clients.
        new(
            "three-global",
            "3 groups, max 2, 3 clients, global queue: failures, cleaner",
            false,
            three(global(3)).with(failures).but(idle),
        ),
        new(
            "three-private",
            "the same with private queues",
            false,
            three(private(3)).with(failures).but(idle),
        ),
        new(
            "three-detached",
            "3 groups, private queues: detaches, giving up, max 1 to 3",
            false,
            three(private(3)).with(detaches).with(giving_up).with(limits),
        ),
        new(
            "three-minimum",
            "3 groups, one of them keeps a minimum of 1: cleaner, detaches",
            false,
            three(first_min(global(3), 1)).with(|env| env.time = true).with(detaches).but(idle),
        ),
        new(
            "three-restarts",
            "3 groups that share a directory, immediate restarts",
            false,
            three(global(3)).with(restarts),
        ),
        new(
            "three-restarts-private",
            "the same with private queues",
            false,
            Config::new(private(3), 2, 3).with(restarts),
        ),
        new(
            "three-limits",
            "3 groups, global queue, max 1 to 3",
            false,
            three(global(3)).with(limits),
        ),
        new(
            "three-restarts-deep",
            "failures without time, restarts, detaches, max 1 and 2; two clients",
            true,
            Config::new(global(3), 2, 2).with(everything).with(|env| env.time = false),
        ),
        new(
            "three-draining",
            "3 groups, max 2, nothing may drain beyond max: detaches",
            false,
            three(private(3)).with(detaches).but(|config| config.max_draining = Some(0)),
        ),
    ]
}
