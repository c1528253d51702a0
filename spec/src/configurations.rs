//! The configurations that are explored as ruled.
//!
//! Each is a closed world (see [`configuration`](crate::configuration)), small enough to be explored to
//! the last state. There are three shapes: two groups, one group, and three groups, in pools with room
//! for fewer. Each comes with a global queue and with private ones, and with the combinations of events
//! that meet in the algorithm. A name that ends in `-deep` marks a configuration that takes too long for
//! every run of the tests.
//!
//! The figures beside the name are the pinned numbers of states and steps, and the depth. A change of the
//! machine that changes them needs a second look.

use crate::configuration::{Config, Options, RestartMode};
use crate::story;

/// A configuration with a name.
pub struct Named {
    /// The name, for the command line.
    pub name: &'static str,
    /// The configuration.
    pub config: Config,
    /// The numbers of states and steps, and the depth, that an exploration finds.
    pub pinned: (usize, usize, usize),
}

impl Named {
    /// Returns whether the exploration takes too long for every run of the tests.
    pub fn deep(&self) -> bool {
        self.name.ends_with("-deep")
    }
    /// Describes the pool and the events that may happen.
    pub fn about(&self) -> String {
        let events = self.config.environment.events();
        let may: Vec<_> = events.iter().filter(|(may, _)| *may).map(|(_, event)| *event).collect();
        let may = if may.is_empty() { "only gets".into() } else { may.join(", ") };
        format!("{}: {may}", story::world(&self.config))
    }
}

/// Finds a configuration by name.
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
    giving_up environment.give_up = true;
    try_get environment.try_get = true;
    processes_fail environment.processes_fail = true;
    clients_fail environment.clients_fail = true;
    closes environment.close = true;
    endings environment.detach_group = true, closes;
    everything environment.touch = true, failures, detaches, lowered;
    connects connects = true;
    idle max_idle_time = 1;
    idle_for_2 max_idle_time = 2;
    no_draining max_draining = Some(0);
}

macro_rules! configurations {
    ($($name:literal [$states:literal, $steps:literal, $depth:literal]: $config:expr, $($change:ident),+;)*) => {
        /// Returns all configurations.
        pub fn all() -> Vec<Named> {
            vec![$({
                let mut config = $config;
                $($change(&mut config);)+
                Named { name: $name, config, pinned: ($states, $steps, $depth) }
            },)*]
        }
    };
}

configurations! {
    // Two groups, max 2, three clients unless the row says otherwise.
    "two-global" [277_590, 2_054_064, 27]: two(global(2)), failures, detaches, lowered, idle;
    "two-private" [306_600, 2_269_592, 29]: two(private(2)), failures, detaches, lowered, idle;
    "two-global-deep" [1_640_241, 15_918_891, 36]: two(global(2)),
        failures, detaches, giving_up, limits, idle;
    "two-private-deep" [1_839_657, 17_642_691, 39]: two(private(2)),
        failures, detaches, giving_up, limits, idle;
    "two-minimum" [134_699, 890_499, 27]: two(first_min(global(2), 1)), failures, detaches, idle;
    "two-restarts" [50_158, 286_010, 25]: two(private(2)), restarts, spawns_fail;
    "two-restarts-deep" [2_901_236, 23_755_507, 38]: two(private(2)), failures, restarts, deletes;
    "two-rolling" [688_808, 4_239_343, 39]: two(rolling(global(2))), restarts, deletes;
    "two-rolling-deep" [3_885_766, 32_634_584, 44]: two(rolling_first(global(2))), failures, restarts;
    "two-groups-detached" [413_323, 3_817_601, 32]: two(global(2)), failures, endings;
    "two-rolling-forgotten" [68_285, 544_236, 31]: pool(rolling(first_min(global(2), 1)), 2, 2),
        restarts, endings;
    "two-connecting" [31_409, 295_620, 19]: two(private(2)),
        connects, giving_up, processes_fail, clients_fail, try_get;
    "two-always" [36_324, 205_542, 31]: pool(always_first(global(2)), 2, 2),
        connects, failures, processes_fail;
    "two-deleted" [42_068, 208_979, 22]: two(global(2)), restarts, deletes;
    "two-threads" [7033, 40_138, 21]: two(first_min(private(2), 1)), no_thread, idle;
    "two-punctual" [29_964, 204_051, 20]: two(first_min(global(2), 1)),
        idle_for_2, failures, punctual, idle_limits;
    "two-options" [53_560, 393_756, 19]: two(global(2)).or(0, |o| (o.min_processes, o.max_queue) = (1, 1)),
        detaches, time, idle;
    "two-restarts-detached" [62_910, 503_118, 21]: pool(global(2), 2, 2),
        restarts, detaches, giving_up, limits;
    "two-rolling-detached" [80_912, 532_436, 31]: pool(rolling(global(2)), 2, 2),
        restarts, detaches, giving_up;
    "two-everything-global-deep" [420_380, 3_201_164, 36]: pool(global(2), 2, 2), everything, idle;
    "two-everything-private-deep" [432_660, 3_284_876, 36]: pool(private(2), 2, 2), everything, idle;
    "two-rolling-private" [201_826, 1_152_198, 40]: two(rolling(private(2))), restarts;
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
    "two-requests" [12_903, 92_427, 16]: pool(vec![
            Options { concurrency: 2, max_requests: 2, ..Options::new("a") },
            Options { max_requests: 1, ..Options::new("b") },
        ], 2, 3), detaches, time, idle, limits;
    "three-unmarked" [74_649, 467_364, 31]: pool(vec![
            Options { concurrency: 2, max_requests: 3, ..Options::new("a") }, Options::new("b"), Options::new("c"),
        ], 2, 3), limits;
    "one-options" [39_784, 222_476, 26]:
        pool(global(1), 2, 3).or(0, |o| (o.concurrency, o.max_requests) = (0, 2)),
        connects, processes_fail;
    "one-directories" [33_620, 252_330, 30]: pool(global(1), 2, 2).or(0, |o| {
            (o.restart_dir, o.min_processes, o.restart_mode) = (1, 1, RestartMode::Rolling);
        }), restarts, deletes;
    "one-rolling" [180_758, 1_556_888, 39]: pool(rolling(first_min(global(1), 2)), 3, 3), failures, restarts;
    "one-rolling-deep" [1_157_640, 10_690_376, 43]: one(rolling(first_min(global(1), 2))), failures, restarts;
    "one-rolling-forgotten" [9475, 87_808, 26]: pool(rolling(first_min(global(1), 1)), 2, 2),
        failures, restarts, giving_up, endings;
    "one-private-forgotten" [4210, 34_034, 17]: pool(first_min(private(1), 1), 2, 2),
        failures, restarts, detaches, endings, idle;
    "one-rolling-private" [12_850, 76_756, 28]: pool(rolling(private(1)), 3, 3), restarts;
    // Three groups, max 2, three clients.
    "three-global" [199_642, 1_194_880, 24]: three(global(3)), failures, idle;
    "three-private" [166_858, 1_100_728, 26]: three(private(3)), failures, idle;
    "three-detached" [136_935, 1_192_896, 22]: three(private(3)), detaches, giving_up, limits;
    "three-minimum" [93_913, 636_214, 20]: three(first_min(global(3), 1)), time, detaches, idle;
    "three-restarts" [322_430, 1_503_020, 25]: three(global(3)), restarts;
    "three-restarts-private" [297_830, 1_437_434, 25]: three(private(3)), restarts;
    "three-limits" [33_438, 203_478, 19]: three(global(3)), limits;
    "three-restarts-deep" [818_844, 5_510_256, 30]: pool(global(3), 2, 2), everything, no_time;
    "three-draining" [5024, 22_974, 15]: three(private(3)), detaches, no_draining;
}
