//! The checker of restart files, seen from outside: a group restarts, or it does not.
//!
//! Erratum E23 changes Passenger's answers: the first look is always the baseline, and deletion is
//! no reason to restart. The pool keeps what it saw with the group, so the list has no bound (E22).

use crate::common::files::{AppDir, stat};
use crate::common::{Rig, SECOND, app};
use cabrank::PoolOptions;
use std::path::{Path, PathBuf};

const FILE: &str = "/srv/x/tmp/restart.txt";

/// A group whose next get shows whether it restarts.
struct Watch {
    rig: Rig,
    options: PoolOptions,
    pid: u32,
}

impl Watch {
    /// Takes the first look.
    fn new(rig: Rig, options: PoolOptions) -> Watch {
        let pid = rig.get(&options).pid();
        Watch { rig, options, pid }
    }
    /// Returns whether the next get restarts the group.
    #[track_caller]
    fn restarts(&mut self) -> bool {
        let before = self.pid;
        self.pid = self.rig.get(&self.options).pid();
        self.pid != before
    }
}

/// A change of a file, or the next get, which restarts the group or not.
enum Step {
    Touch,
    Remove,
    /// Look-ups fail from now on.
    Deny,
    Allow,
    Restarts(bool),
}

/// In Passenger a first look restarts if the file exists, and so does a deletion; erratum E23 rules otherwise.
#[test]
fn a_group_restarts_when_its_file_has_changed() {
    use Step::*;
    let (yes, no) = (|| Restarts(true), || Restarts(false));
    for (scenario, before, steps) in [
        ("it stays away", vec![], vec![no(), no()]),
        ("it is created", vec![], vec![Touch, yes(), no(), no()]),
        ("the first look is the baseline", vec![Touch], vec![no()]),
        ("a first look that fails", vec![Touch, Deny], vec![no(), Allow, no(), Touch, yes()]),
        ("it is deleted and created again", vec![Touch], vec![Remove, no(), Touch, yes()]),
        ("it becomes unreadable for a while", vec![Touch], vec![Deny, no(), Allow, no()]),
        ("it is deleted unseen", vec![Touch], vec![Deny, no(), Remove, no()]),
        ("it is changed unseen", vec![Touch], vec![Deny, no(), Touch, yes(), no()]),
    ] {
        let rig = Rig::watching(|b| b);
        let (files, mut denied) = (rig.files.clone(), None);
        let mut happen = |step| match step {
            Touch => files.touch(Path::new(FILE)),
            Remove => files.remove(Path::new(FILE)),
            Deny => denied = files.deny(Path::new(FILE)),
            Allow => files.allow(Path::new(FILE), denied.take()),
            Restarts(_) => unreachable!("not before the first look"),
        };
        before.into_iter().for_each(&mut happen);
        let mut watch = Watch::new(rig, app("x"));
        for step in steps {
            match step {
                Restarts(expected) => assert_eq!(watch.restarts(), expected, "{scenario}"),
                step => happen(step),
            }
        }
    }
}

/// The "directory" is a file, so the look-up fails with neither "present" nor "absent".
#[test]
fn a_real_directory_that_cannot_be_read_is_no_reason_to_restart() {
    let dir = AppDir::new();
    dir.create("blocked");
    let options = PoolOptions::new(dir.root()).with_restart_dir("blocked");
    let mut watch = Watch::new(Rig::new(|b| b.restart_files(stat)), options);
    assert!(!watch.restarts());
}

#[test]
fn a_new_time_restarts_and_so_does_an_older_one() {
    let dir = AppDir::new();
    dir.create("tmp/restart.txt");
    dir.set_modified("tmp/restart.txt", 10);
    let rig = Rig::new(|b| b.restart_files(stat));
    let mut watch = Watch::new(rig, PoolOptions::new(dir.root()));
    dir.set_modified("tmp/restart.txt", 20);
    assert!(watch.restarts());
    assert!(!watch.restarts());
    dir.set_modified("tmp/restart.txt", 10);
    assert!(watch.restarts(), "a deployment may put an old file there");
}

#[test]
fn a_real_directory_that_becomes_unreadable_does_not_restart() {
    let dir = AppDir::new();
    dir.create("tmp/restart.txt");
    let rig = Rig::new(|b| b.restart_files(stat));
    let mut watch = Watch::new(rig, PoolOptions::new(dir.root()));
    std::fs::rename(dir.path("tmp"), dir.path("aside")).expect("it is ours");
    dir.create("tmp");
    assert!(!watch.restarts());
    std::fs::remove_file(dir.path("tmp")).expect("it is ours");
    std::fs::rename(dir.path("aside"), dir.path("tmp")).expect("it is ours");
    assert!(!watch.restarts());
}

#[test]
fn the_throttle_hides_a_change_until_it_expires() {
    let mut watch = Watch::new(Rig::watching(|b| b.stat_throttle(3 * SECOND)), app("x"));
    assert_eq!(watch.rig.files.take_look_ups().len(), 2);
    watch.rig.files.touch(Path::new(FILE));
    watch.rig.clock.advance(2 * SECOND);
    assert!(!watch.restarts());
    assert_eq!(watch.rig.files.take_look_ups(), [""; 0].map(PathBuf::from), "no look-up");
    watch.rig.clock.advance(SECOND);
    assert!(watch.restarts());
    assert!(!watch.restarts());
}

#[test]
fn the_files_of_several_groups_are_independent() {
    let rig = Rig::watching(|b| b);
    let mut pids = [rig.idle(&app("x"), 1)[0], rig.idle(&app("y"), 1)[0]];
    for round in 0..4 {
        let touched = round % 2;
        rig.touch(&app(["x", "y"][touched]));
        let now = [rig.get(&app("x")).pid(), rig.get(&app("y")).pid()];
        assert_ne!(now[touched], pids[touched]);
        assert_eq!(now[1 - touched], pids[1 - touched]);
        pids = now;
    }
}

/// With a throttle, look-ups of one directory are shared. Two spellings of a path are two
/// directories.
#[test]
fn two_spellings_of_a_path_are_two_files() {
    let rig = Rig::watching(|b| b.stat_throttle(SECOND));
    let plain = app("x");
    let spelled = app("y").with_restart_dir("../x/tmp");
    rig.idle(&plain, 1);
    rig.idle(&spelled, 1);
    let looked = rig.files.take_look_ups();
    let names = ["/srv/x/tmp", "/srv/y/../x/tmp"].map(|d| Path::new(d).join("restart.txt"));
    assert!(names.iter().all(|name| looked.contains(name)), "{looked:?}");
    rig.files.touch(&names[1]);
    rig.clock.advance(SECOND);
    rig.idle(&plain, 1);
    rig.idle(&spelled, 1);
    assert_eq!(rig.spawner.reloaded(), ["/srv/y"]);
}

/// Passenger bounds its list and evicts the oldest file. Here each group keeps what it saw (erratum
/// E22).
#[test]
fn the_files_of_any_number_of_groups_are_kept() {
    let rig = Rig::watching(|b| b.max(1));
    let apps: Vec<PoolOptions> = (0..40).map(|n| app(&format!("app{n}"))).collect();
    for app in &apps {
        rig.touch(app);
        rig.idle(app, 1);
    }
    assert_eq!(rig.spawner.reloaded(), [""; 0], "all seen for the first time");
    rig.touch(&apps[0]);
    rig.touch(&apps[39]);
    for app in &apps {
        rig.idle(app, 1);
    }
    assert_eq!(rig.spawner.reloaded(), ["/srv/app0", "/srv/app39"]);
}
