//! Explores every configuration as ruled, to the last state: every invariant in every state, every step
//! property in every step, no deadlock, and what comes about in the end. The figures are pinned: if
//! the machine changes, so do they, and whoever changes it looks twice.
//!
//! The larger ones: `cargo test -p cabrank-spec --test exploration -- --include-ignored --nocapture`.

use cabrank_spec::configuration::Environment;
use cabrank_spec::configurations::{Named, all};
use cabrank_spec::exploration::check;
use cabrank_spec::properties::{LIVENESS, STEP_PROPERTIES};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Mutex;

/// Name, states, steps, depth.
const PINNED: &[(&str, usize, usize, usize)] = &[
    ("two-global", 277_590, 2_054_064, 27),
    ("two-private", 306_600, 2_269_592, 29),
    ("two-global-deep", 1_640_241, 15_918_891, 36),
    ("two-private-deep", 1_839_657, 17_642_691, 39),
    ("two-restarts-deep", 2_901_236, 23_755_507, 38),
    ("two-rolling-deep", 3_885_766, 32_634_584, 44),
    ("one-rolling-deep", 1_157_640, 10_690_376, 43),
    ("two-minimum", 134_699, 890_499, 27),
    ("two-restarts", 50_158, 286_010, 25),
    ("two-rolling", 688_808, 4_239_343, 39),
    ("two-groups-detached", 413_323, 3_817_601, 32),
    ("two-rolling-forgotten", 68_285, 544_236, 31),
    ("one-rolling-forgotten", 9475, 87_808, 26),
    ("one-private-forgotten", 4210, 34_034, 17),
    ("two-everything-global-deep", 420_380, 3_201_164, 36),
    ("two-everything-private-deep", 432_660, 3_284_876, 36),
    ("one-everything-global", 82_980, 740_704, 20),
    ("one-everything-private", 103_286, 927_786, 24),
    ("one-everything-global-deep", 728_720, 7_153_052, 24),
    ("one-everything-private-deep", 931_278, 9_159_424, 28),
    ("one-restarts-deep", 607_986, 5_833_192, 24),
    ("three-restarts-deep", 818_844, 5_510_256, 30),
    ("two-rolling-private", 201_826, 1_152_198, 40),
    ("one-rolling-private", 12_850, 76_756, 28),
    ("three-restarts-private", 297_830, 1_437_434, 25),
    ("three-limits", 33_438, 203_478, 19),
    ("two-connecting", 31_409, 295_620, 19),
    ("two-always", 36_324, 205_542, 31),
    ("two-deleted", 42_068, 208_979, 22),
    ("two-threads", 7033, 40_138, 21),
    ("two-punctual", 29_964, 204_051, 20),
    ("two-options", 53_560, 393_756, 19),
    ("two-restarts-detached", 62_910, 503_118, 21),
    ("two-rolling-detached", 80_912, 532_436, 31),
    ("one-global", 204_282, 2_008_908, 23),
    ("one-private", 285_880, 2_865_064, 26),
    ("one-restarts-global", 6864, 33_522, 14),
    ("one-restarts-private", 7776, 40_926, 17),
    ("one-concurrent", 12_062, 80_586, 24),
    ("one-rolling", 180_758, 1_556_888, 39),
    ("one-options", 75_310, 439_764, 30),
    ("one-directories", 33_620, 252_330, 30),
    ("three-global", 199_642, 1_194_880, 24),
    ("three-private", 166_858, 1_100_728, 26),
    ("three-detached", 136_935, 1_192_896, 22),
    ("three-restarts", 322_430, 1_503_020, 25),
    ("three-draining", 5024, 22_974, 15),
    ("three-minimum", 93_913, 636_214, 20),
];

/// How often each property had something to say.
type Said = BTreeMap<&'static str, usize>;

fn explore_one(Named { name, about, config, .. }: Named) -> Vec<(&'static str, usize)> {
    let report = check(&config).unwrap_or_else(|story| panic!("{name}: {about}\n{story}"));
    let found = (name, report.states, report.steps, report.depth);
    // Past the test harness, which shows what failed only.
    let _ = writeln!(
        std::io::stderr(),
        "{name}: {} states, {} steps, depth {}, {:.1} s; {} liveness properties, {:.1} s ({about})",
        report.states,
        report.steps,
        report.depth,
        report.time.as_secs_f64(),
        report.liveness.len(),
        report.liveness_time.as_secs_f64(),
    );
    let pinned = PINNED.iter().find(|pinned| pinned.0 == name);
    assert_eq!(pinned, Some(&found), "the figures have changed");
    report.said
}

fn explore(which: impl Fn(&Named) -> bool, at_once: usize) -> Said {
    let left = Mutex::new(all().into_iter().filter(which).collect::<Vec<_>>());
    let next = || left.lock().expect("nobody panics here").pop();
    let explore_all = || std::iter::from_fn(next).flat_map(explore_one).collect::<Vec<_>>();
    let mut said = Said::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(explore_all)).collect();
        for (name, times) in
            threads.into_iter().flat_map(|thread| thread.join().expect("as pinned"))
        {
            *said.entry(name).or_default() += times;
        }
    });
    said
}

#[test]
fn every_pool_keeps_every_promise_and_no_promise_is_empty() {
    let said = explore(|named| !named.deep, 2);
    let properties = STEP_PROPERTIES.iter().map(|property| property.name);
    for name in properties.chain(LIVENESS.iter().map(|property| property.name)) {
        let times = said.get(name).copied().unwrap_or(0);
        let _ = writeln!(std::io::stderr(), "{name} had something to say {times} times");
    }
    let empty: Vec<_> = said.iter().filter(|(_, times)| **times == 0).collect();
    assert!(empty.is_empty(), "hold because nothing that they are about happens: {empty:?}");
    assert_eq!(said.len(), STEP_PROPERTIES.len() + LIVENESS.len());
}

#[test]
#[ignore = "takes minutes: run by `.ci/run deep`"]
fn deep() {
    explore(|named| named.deep, 1);
}

#[test]
fn every_configuration_is_pinned() {
    let names: BTreeSet<_> = all().iter().map(|named| named.name).collect();
    let pinned: BTreeSet<_> = PINNED.iter().map(|pinned| pinned.0).collect();
    assert_eq!(names, pinned);
}

/// Whatever may happen to a pool may happen to one of those that every run explores.
#[test]
fn everything_that_may_happen_does_in_some_pool() {
    let mut happens = [false; 17];
    for named in all().into_iter().filter(|named| !named.deep) {
        let Environment {
            spawns_fail,
            no_thread,
            touch,
            delete,
            detach,
            detach_group,
            processes_fail,
            clients_fail,
            give_up,
            try_get,
            time,
            punctual,
            set_max,
            set_max_per_app,
            set_max_idle_time,
            options,
            close,
        } = named.config.environment;
        let here = [
            spawns_fail,
            no_thread,
            touch,
            delete,
            detach,
            detach_group,
            processes_fail,
            clients_fail,
            give_up,
            try_get,
            time,
            punctual,
            !set_max.is_empty(),
            !set_max_per_app.is_empty(),
            !set_max_idle_time.is_empty(),
            !options.is_empty(),
            close,
        ];
        happens.iter_mut().zip(here).for_each(|(happens, here)| *happens |= here);
    }
    assert_eq!(happens, [true; 17]);
}

/// `1234567` as the README writes it.
fn readable(n: usize) -> String {
    let digits = n.to_string();
    let places = digits.chars().enumerate().map(|(at, digit)| {
        let comma = at > 0 && (digits.len() - at).is_multiple_of(3);
        format!("{}{digit}", if comma { "," } else { "" })
    });
    places.collect()
}

/// What is explored in which shape.
#[test]
fn the_readme_has_the_table_of_what_is_combined() {
    let table = cabrank_spec::coverage::table();
    let readme = include_str!("../README.md");
    assert!(readme.contains(&format!("\n{table}\n")), "it is now:\n{table}");
}

#[test]
fn the_readme_has_the_figures() {
    let readme = include_str!("../README.md");
    let row = |name: &str| readme.lines().find(|line| line.starts_with(&format!("| `{name}`")));
    for &(name, states, steps, depth) in PINNED {
        let figures = format!("| {} | {} | {depth} |", readable(states), readable(steps));
        assert!(row(name).is_some_and(|row| row.ends_with(&figures)), "{name}: {figures}");
    }
    for deep in [false, true] {
        let names: Vec<_> = all().into_iter().filter(|n| n.deep == deep).map(|n| n.name).collect();
        let of = |p: &&(&str, usize, usize, usize)| names.contains(&p.0);
        let states: usize = PINNED.iter().filter(of).map(|p| p.1).sum();
        let steps: usize = PINNED.iter().filter(of).map(|p| p.2).sum();
        assert!(readme.contains(&format!("{} states", readable(states))), "{states}");
        assert!(readme.contains(&readable(steps)), "{steps}");
    }
}
