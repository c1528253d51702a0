//! What is explored in which shape, as a table: made of the configurations, so that it claims no more than
//! they do. `spec/README.md` shows it, and a test compares.

use crate::configuration::{Config, RestartMode};
use crate::configurations::{Named, all};
use std::fmt::Write;

/// What may happen to a pool.
type Happens = fn(&Config) -> bool;

const HAPPENS: &[(&str, Happens)] = &[
    ("failures", fails),
    ("immediate restarts", |config| restarts(config, RestartMode::Immediate)),
    ("rolling restarts", |config| restarts(config, RestartMode::Rolling)),
    ("detaches", detaches),
    ("cleaner", is_cleaned),
    ("max lowered, raised", limits_change),
    ("giving up", |config| config.environment.give_up),
    ("groups detached, pool closed", |config| {
        config.environment.detach_group && config.environment.close
    }),
    ("failures, restarts, detaches and max", |config| all_but_the_cleaner(config)),
    ("… and the cleaner", |config| all_but_the_cleaner(config) && is_cleaned(config)),
];

fn fails(config: &Config) -> bool {
    config.environment.spawns_fail
}
fn restarts(config: &Config, mode: RestartMode) -> bool {
    config.environment.touch && config.groups.iter().any(|group| group.restart_mode == mode)
}
fn detaches(config: &Config) -> bool {
    config.environment.detach
}
fn is_cleaned(config: &Config) -> bool {
    config.environment.time && config.max_idle_time > 0
}
fn limits_change(config: &Config) -> bool {
    config.environment.set_max.len() > 1
}
fn all_but_the_cleaner(config: &Config) -> bool {
    fails(config) && config.environment.touch && detaches(config) && limits_change(config)
}

/// How many groups, how large `max` is at least, and how many sessions a process takes at once.
const SHAPES: &[(&str, usize, usize, usize)] = &[
    ("2 groups, max 2, global queue", 2, 2, 1),
    ("2 groups, max 2, private queues", 2, 2, 0),
    ("1 group, max 3, global queue", 1, 3, 1),
    ("1 group, max 3, private queue", 1, 3, 0),
    ("3 groups, max 2, global queue", 3, 2, 1),
    ("3 groups, max 2, private queues", 3, 2, 0),
];

/// For each shape, and whatever may happen: with how many clients that is explored, at most, in every run and
/// in the deep one.
pub fn table() -> String {
    let mut table = String::from("| with how many clients |");
    for (name, _) in HAPPENS {
        let _ = write!(table, " {name} |");
    }
    table += "\n|---|";
    table += &"---|".repeat(HAPPENS.len());
    let all = all();
    for (shape, groups, max, concurrency) in SHAPES {
        let _ = write!(table, "\n| {shape} |");
        let is_so = |named: &&Named| {
            let config = &named.config;
            let queue = config.groups.iter().all(|group| group.concurrency == *concurrency);
            queue && config.groups.len() == *groups && config.max >= *max
        };
        for (_, happens) in HAPPENS {
            let clients = |deep: bool| {
                let here = all.iter().filter(is_so).filter(|named| named.deep == deep);
                let here = here.filter(|named| happens(&named.config));
                here.map(|named| named.config.clients.len()).max().unwrap_or(0)
            };
            let cell = match (clients(false), clients(true)) {
                (0, 0) => "—".to_owned(),
                (0, deep) => format!("{deep} (deep)"),
                (usual, deep) if deep > usual => format!("{usual}, {deep} (deep)"),
                (usual, _) => usual.to_string(),
            };
            let _ = write!(table, " {cell} |");
        }
    }
    table
}
