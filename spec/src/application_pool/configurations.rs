//! The configurations that are explored as ruled.
//!
//! Each is a closed world (see [`configuration`](crate::application_pool::configuration)), small enough to be explored to
//! the last state. There are three shapes: two groups, one group, and three groups, in pools with room
//! for fewer. Each comes with a global queue and with private ones, and with the combinations of events
//! that meet in the algorithm. A name that ends in `-deep` marks a configuration that takes too long for
//! every run of the tests.
//!
//! The figures beside the name are the pinned numbers of states and steps, and the depth. A change of the
//! machine that changes them needs a second look.

use crate::application_pool::configuration::{Config, Options, RestartMode};
use crate::application_pool::story;
use crate::checking::system::{self, Named};

/// Finds a configuration by name.
pub fn named(name: &str) -> Option<Config> {
    system::named(all(), name).map(|named| named.machine)
}

/// Describes the pool and the events that may happen.
fn about(config: &Config) -> String {
    let events = config.environment.events();
    let may: Vec<_> = events.iter().filter(|(may, _)| *may).map(|(_, event)| *event).collect();
    let may = if may.is_empty() { "only gets".into() } else { may.join(", ") };
    format!("{}: {may}", story::world(config))
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
    groups[0].restart_mode = RestartMode::Rolling;
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
fn pool(groups: Vec<Options>, max: usize, clients: usize) -> Config {
    Config::new(groups, max, clients)
}
fn two(groups: Vec<Options>) -> Config {
    pool(groups, 2, 3)
}
fn one(groups: Vec<Options>) -> Config {
    pool(groups, 3, 4)
}
fn three(groups: Vec<Options>) -> Config {
    pool(groups, 2, 3)
}

macro_rules! changes {
    ($($name:ident $($field:ident).+ = $value:expr $(, $and:ident)*;)*) => {
        $(fn $name(config: &mut Config) {
            config.$($field).+ = $value;
            $($and(config);)*
        })*
    };
}

changes! {
    spawns_fail environment.spawns_fail = true;
    time environment.time = true;
    no_time environment.time = false;
    failures environment.spawns_fail = true, time;
    no_thread environment.no_thread = true, time;
    punctual environment.punctual = true, time;
    restarts environment.touch = true;
    deletes environment.delete = true;
    detaches environment.detach = true;
    limits environment.set_max = vec![1, 2, 3];
    lowered environment.set_max = vec![1, 2];
    per_app_limits environment.set_max_per_app = vec![0, 2];
    idle_limits environment.set_max_idle_time = vec![0, 1, 2];
    endless environment.endless = vec![0, 1];
    giving_up environment.give_up = true;
    try_get environment.try_get = true;
    processes_fail environment.processes_fail = true;
    early_deaths environment.early_deaths = true;
    clients_fail environment.clients_fail = true;
    closes environment.close = true;
    endings environment.detach_group = true, closes;
    pre_starts environment.pre_start = true;
    disables environment.disable = true;
    by_name environment.restart_group = true, pre_starts;
    everything environment.touch = true, failures, detaches, lowered;
    connects connects = true;
    idle max_idle_time = 1;
    idle_for_2 max_idle_time = 2;
    short_drains drain_timeout = 1;
    no_draining max_draining = Some(0);
}

macro_rules! configurations {
    ($($name:literal [$states:literal, $steps:literal, $depth:literal]: $config:expr, $($change:ident),+;)*) => {
        /// Returns all configurations.
        pub fn all() -> Vec<Named<Config>> {
            vec![$({
                let mut config = $config;
                $($change(&mut config);)+
                let (about, pinned) = (about(&config), ($states, $steps, $depth));
                Named { name: $name, about, machine: config, pinned, ends: &[] }
            },)*]
        }
    };
}

configurations! {
    // Two groups, max 2, three clients unless the row says otherwise.
    "two-global" [309_758, 2_246_488, 29]: two(global(2)), failures, detaches, lowered, idle;
    "two-private" [328_810, 2_403_080, 31]: two(private(2)), failures, detaches, lowered, idle;
    "two-global-deep" [1_732_305, 16_742_343, 36]: two(global(2)),
        failures, detaches, giving_up, limits, idle;
    "two-private-deep" [1_880_949, 17_987_295, 39]: two(private(2)),
        failures, detaches, giving_up, limits, idle;
    "two-minimum" [139_979, 922_175, 27]: two(first_min(global(2), 1)), failures, detaches, idle;
    "two-restarts" [49_918, 285_050, 25]: two(private(2)), restarts, spawns_fail;
    "two-restarts-deep" [3_269_738, 26_623_821, 33]: two(private(2)), failures, restarts, deletes;
    "two-rolling" [695_090, 4_276_495, 39]: two(rolling(global(2))), restarts, deletes;
    "two-rolling-deep" [5_339_662, 44_774_018, 45]: two(rolling_first(global(2))), failures, restarts;
    "two-groups-detached" [506_059, 4_660_541, 28]: two(global(2)), failures, endings;
    "two-rolling-forgotten" [70_372, 561_532, 31]: pool(rolling(first_min(global(2), 1)), 2, 2),
        restarts, endings;
    "two-connecting" [37_519, 388_332, 20]: two(private(2)),
        connects, giving_up, processes_fail, clients_fail, try_get;
    "two-always" [45_661, 272_679, 30]: pool(always_first(global(2)), 2, 2),
        connects, failures, processes_fail;
    "two-early-deaths" [58_394, 391_465, 25]: pool(first_min(global(2), 1), 2, 2), failures, processes_fail, early_deaths;
    "two-deleted" [42_332, 209_939, 22]: two(global(2)), restarts, deletes;
    "two-threads" [40_578, 243_320, 31]: two(first_min(private(2), 1)), no_thread, idle;
    "two-punctual" [143_004, 1_016_958, 33]: two(first_min(global(2), 1)),
        idle_for_2, failures, punctual, idle_limits;
    "two-options" [56_884, 415_176, 19]: two(global(2)).or(0, |o| (o.min_processes, o.max_queue) = (1, 1)),
        detaches, time, idle;
    "two-restarts-detached" [62_910, 503_118, 21]: pool(global(2), 2, 2),
        restarts, detaches, giving_up, limits;
    "two-rolling-detached" [80_912, 532_436, 31]: pool(rolling(global(2)), 2, 2),
        restarts, detaches, giving_up;
    "two-everything-global-deep" [489_956, 3_648_884, 38]: pool(global(2), 2, 2), everything, idle;
    "two-everything-private-deep" [497_788, 3_703_692, 38]: pool(private(2), 2, 2), everything, idle;
    "two-rolling-private" [203_590, 1_168_618, 42]: two(rolling(private(2))), restarts;
    "two-endless-global" [65_233, 323_691, 35]: pool(global(2), 2, 4), endless, time;
    "two-endless-private" [64_857, 370_837, 30]: pool(private(2), 2, 3), endless, time, failures;
    "two-endless-room" [2_144, 7_284, 21]: pool(vec![
            Options { concurrency: 2, ..Options::new("a").min(1) }, Options { max_requests: 2, ..Options::new("b") },
        ], 1, 3), endless, time, no_draining;
    // One group, max 3, four clients.
    "one-global" [204_282, 2_008_908, 23]: one(first_min(global(1), 1)),
        failures, detaches, limits, idle, per_app_limits;
    "one-private" [285_880, 2_865_064, 26]: one(first_min(private(1), 1)),
        failures, detaches, limits, idle, per_app_limits;
    "one-restarts-global" [6864, 33_522, 14]: one(global(1)), restarts;
    "one-restarts-private" [7776, 40_926, 17]: one(private(1)), restarts;
    "one-everything-global" [82_980, 740_704, 20]: pool(first_min(global(1), 1), 3, 3), everything, idle;
    "one-everything-private" [103_286, 927_786, 24]: pool(first_min(private(1), 1), 3, 3), everything, idle;
    "one-everything-global-deep" [728_720, 7_153_052, 24]: one(first_min(global(1), 1)), everything, idle;
    "one-everything-private-deep" [931_278, 9_159_424, 28]: one(private(1)), everything, idle;
    "one-restarts-deep" [607_986, 5_833_192, 24]: one(global(1)), everything;
    "one-concurrent" [5_198, 33_874, 20]:
        one(vec![Options { concurrency: 2, max_requests: 3, max_queue: 2, eager_growth: true, ..Options::new("a") }]),
        detaches, giving_up;
    "one-growing" [56_373, 488_955, 20]: one(vec![Options { concurrency: 2, ..Options::new("a").min(1) }]),
        failures, detaches, giving_up, limits, idle;
    "two-requests" [13_473, 95_667, 16]: pool(vec![
            Options { concurrency: 2, max_requests: 2, ..Options::new("a") },
            Options { max_requests: 1, ..Options::new("b") },
        ], 2, 3), detaches, time, idle, limits;
    "three-unmarked" [74_721, 467_772, 31]: pool(vec![
            Options { concurrency: 2, max_requests: 3, ..Options::new("a") }, Options::new("b"), Options::new("c"),
        ], 2, 3), limits;
    "one-options" [54_722, 326_244, 25]:
        pool(global(1), 2, 3).or(0, |o| (o.concurrency, o.max_requests) = (0, 2)),
        connects, processes_fail;
    "one-early-deaths" [7_196, 43_170, 24]: pool(private(1), 2, 2), connects, failures, processes_fail, early_deaths;
    "one-directories" [33_620, 252_330, 30]: pool(global(1), 2, 2).or(0, |o| {
            (o.restart_dir, o.min_processes, o.restart_mode) = (1, 1, RestartMode::Rolling);
        }), restarts, deletes;
    "one-rolling" [180_758, 1_556_888, 39]: pool(rolling(first_min(global(1), 2)), 3, 3), failures, restarts;
    "one-rolling-deep" [1_157_640, 10_690_376, 43]: one(rolling(first_min(global(1), 2))), failures, restarts;
    "one-rolling-forgotten" [9_475, 87_808, 26]: pool(rolling(first_min(global(1), 1)), 2, 2),
        failures, restarts, giving_up, endings;
    "one-private-forgotten" [4_210, 34_034, 17]: pool(first_min(private(1), 1), 2, 2),
        failures, restarts, detaches, endings, idle;
    "one-rolling-private" [12_850, 76_756, 28]: pool(rolling(private(1)), 3, 3), restarts;
    "one-by-name" [8_581, 97_536, 20]: pool(first_min(private(1), 1), 2, 2), failures, endings, by_name;
    "two-by-name" [59_087, 774_987, 23]: pool(rolling_first(first_min(global(2), 1)), 2, 2), endings, by_name;
    "one-disabled" [86_205, 836_182, 24]: pool(vec![Options { concurrency: 2, ..Options::new("a").min(1) }], 3, 3), disables, detaches, idle, time;
    "two-disabled" [13_967, 79_906, 24]: two(first_min(global(2), 1)), disables, time, idle;
    "two-disabled-rolling" [136_622, 801_910, 34]: pool(rolling(private(2)), 2, 2), disables, restarts;
    "one-disabled-rolling" [19_165, 161_244, 28]: pool(rolling(private(1)), 2, 2), disables, restarts, closes, spawns_fail, time;
    "two-disabled-private" [7_995, 47_549, 21]: pool(private(2), 2, 3), disables, time, short_drains;
    // Three groups, max 2, three clients.
    "three-global" [27_026, 151_193, 22]: three(global(3)), time, idle, short_drains;
    "three-global-deep" [1_109_722, 7_244_401, 38]: three(global(3)), failures, idle, short_drains;
    "three-private" [23_786, 138_617, 22]: three(private(3)), time, idle, short_drains;
    "three-private-deep" [1_011_655, 6_924_598, 33]: three(private(3)), failures, idle, short_drains;
    "three-detached" [136_539, 1_190_088, 22]: three(private(3)), detaches, giving_up, limits;
    "three-minimum" [101_869, 679_150, 20]: three(first_min(global(3), 1)), time, detaches, idle;
    "three-restarts" [323_150, 1_505_180, 25]: three(global(3)), restarts;
    "three-restarts-private" [295_238, 1_429_658, 25]: three(private(3)), restarts;
    "three-limits" [33_690, 204_594, 19]: three(global(3)), limits;
    "three-restarts-deep" [818_844, 5_510_256, 30]: pool(global(3), 2, 2), everything, no_time;
    "three-draining" [4_916, 22_650, 15]: three(private(3)), detaches, no_draining;
}
