//! The checker of restart files, through what a group does: it restarts, or it does not.
//!
//! Erratum E23 changes three things. The first look is the baseline, whatever it sees (F1). Deletion
//! is no reason to restart (F6, F12). And what was seen is kept with the group, so there is no list
//! whose bound could make it forget (F13 to F19).

use crate::common::files::{AppDir, stat};
use crate::common::{Rig, SECOND, app};
use cabrank::PoolOptions;
use std::path::{Path, PathBuf};

const FILE: &str = "/srv/x/tmp/restart.txt";

/// One group that is asked again and again.
struct Watch {
    rig: Rig,
    options: PoolOptions,
    pid: u32,
}

impl Watch {
    /// After the first look.
    fn new(rig: Rig, options: PoolOptions) -> Watch {
        let pid = rig.get(&options).pid();
        Watch { rig, options, pid }
    }
    /// Whether the next get restarts the group.
    #[track_caller]
    fn restarts(&mut self) -> bool {
        let before = self.pid;
        self.pid = self.rig.get(&self.options).pid();
        self.pid != before
    }
}

fn watch() -> Watch {
    Watch::new(Rig::new(|b| b), app("x"))
}
/// The file is there before the first look.
fn watch_present() -> Watch {
    let rig = Rig::new(|b| b);
    rig.files.touch(Path::new(FILE));
    Watch::new(rig, app("x"))
}

/// The original answers whether the file exists; by erratum E23 the first look is the baseline.
#[test]
fn f01_the_first_look_is_the_baseline() {
    let mut present = watch_present();
    assert!(!present.restarts());
    assert_eq!(present.rig.spawner.reloaded(), [""; 0]);
}

#[test]
fn f02_a_first_look_that_sees_nothing_is_no_reason_to_restart() {
    let rig = Rig::new(|b| b);
    rig.files.touch(Path::new(FILE));
    let before = rig.files.deny(Path::new(FILE));
    let mut watch = Watch::new(rig, app("x"));
    assert!(!watch.restarts());
    // What is seen first is the baseline, however late.
    watch.rig.files.allow(Path::new(FILE), before);
    assert!(!watch.restarts());
    watch.rig.files.touch(Path::new(FILE));
    assert!(watch.restarts());
}

/// The directory is a file: the system says neither "there" nor "not there".
#[test]
fn f02_a_real_directory_that_cannot_be_read_is_no_reason_to_restart() {
    let dir = AppDir::new();
    dir.create("blocked");
    let options = PoolOptions::new(dir.root()).with_restart_dir("blocked");
    let mut watch = Watch::new(Rig::new(|b| b.restart_files(stat)), options);
    assert!(!watch.restarts());
}

#[test]
fn f03_a_file_that_stays_away_is_no_reason_to_restart() {
    let mut watch = watch();
    assert!(!watch.restarts());
    assert!(!watch.restarts());
}

#[test]
fn f04_a_file_that_stays_as_it_is_is_no_reason_to_restart() {
    let mut watch = watch();
    watch.rig.files.touch(Path::new(FILE));
    assert!(watch.restarts());
    assert!(!watch.restarts());
    assert!(!watch.restarts());
}

#[test]
fn f05_a_file_that_was_created_restarts() {
    let mut watch = watch();
    watch.rig.files.touch(Path::new(FILE));
    assert!(watch.restarts());
}

/// In the original it does: deletion is a change. Erratum E23 rules that it asks for nothing.
#[test]
fn f06_a_file_that_was_deleted_does_not_restart() {
    let mut watch = watch_present();
    watch.rig.files.remove(Path::new(FILE));
    assert!(!watch.restarts());
    watch.rig.files.touch(Path::new(FILE));
    assert!(watch.restarts(), "created again");
}

#[test]
fn f07_a_new_time_restarts_and_so_does_an_older_one() {
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
fn f08_a_directory_that_becomes_unreadable_does_not_restart() {
    let mut watch = watch_present();
    let before = watch.rig.files.deny(Path::new(FILE));
    assert!(!watch.restarts());
    watch.rig.files.allow(Path::new(FILE), before);
    assert!(!watch.restarts(), "it is as it was before");
}

#[test]
fn f08_a_real_directory_that_becomes_unreadable_does_not_restart() {
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
fn f09_the_throttle_hides_a_change_until_it_expires() {
    let mut watch = Watch::new(Rig::new(|b| b.stat_throttle(3 * SECOND)), app("x"));
    assert_eq!(watch.rig.files.take_look_ups().len(), 2);
    watch.rig.files.touch(Path::new(FILE));
    watch.rig.clock.advance(2 * SECOND);
    assert!(!watch.restarts());
    assert_eq!(watch.rig.files.take_look_ups(), [""; 0].map(PathBuf::from), "nobody looked");
    watch.rig.clock.advance(SECOND);
    assert!(watch.restarts());
    assert!(!watch.restarts());
}

#[test]
fn f10_the_files_of_several_groups_are_independent() {
    let rig = Rig::new(|b| b);
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

/// With a throttle the look-ups of one directory are shared; of two spellings of it they are not.
#[test]
fn f11_two_spellings_of_a_path_are_two_files() {
    let rig = Rig::new(|b| b.stat_throttle(SECOND));
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

/// In the original the deletion restarts once it can be seen; by erratum E23 it never does.
#[test]
fn f12_a_file_deleted_unseen_does_not_restart() {
    let mut watch = watch_present();
    watch.rig.files.deny(Path::new(FILE));
    assert!(!watch.restarts());
    watch.rig.files.remove(Path::new(FILE));
    assert!(!watch.restarts());
}

#[test]
fn f12_a_file_changed_unseen_restarts_once_it_can_be_seen() {
    let mut watch = watch_present();
    watch.rig.files.deny(Path::new(FILE));
    assert!(!watch.restarts());
    watch.rig.files.touch(Path::new(FILE));
    assert!(watch.restarts());
    assert!(!watch.restarts());
}

/// What was seen is kept with the group (erratum E22): there is no list, so there is no bound that
/// could evict the oldest, grow, shrink, or be lifted.
#[test]
fn f13_f14_f16_f17_f18_f19_however_many_groups_there_are_none_is_forgotten() {
    let rig = Rig::new(|b| b.max(1));
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
