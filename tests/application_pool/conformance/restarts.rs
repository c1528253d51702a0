//! `restart.txt` and `always_restart.txt` in immediate mode, as the pseudocode has it.

use crate::common::files::{AppDir, stat};
use crate::common::{Rig, app};
use cabrank::PoolOptions;
use std::path::Path;

/// A pool that looks at real files.
fn on_disk() -> Rig {
    Rig::new(|b| b.restart_files(stat))
}

/// Returns the number of the process that serves a get, and the code that it runs.
#[track_caller]
fn served(rig: &Rig, options: &PoolOptions) -> (u32, String) {
    let session = rig.get(options);
    (session.pid(), session.code().to_owned())
}
#[track_caller]
fn pid(rig: &Rig, options: &PoolOptions) -> u32 {
    served(rig, options).0
}

/// Erratum E23: a first look that finds the file is no reason; its creation after that look is.
#[test]
fn creating_restart_txt_replaces_every_process_and_keeps_the_file() {
    let rig = Rig::watching(|b| b);
    let old = rig.idle(&app("x"), 2);
    assert_eq!(rig.counts(), (0, 2));
    rig.touch(&app("x"));
    let new = pid(&rig, &app("x"));
    assert!(!old.contains(&new));
    assert_eq!(rig.counts(), (0, 1));
    assert_eq!(rig.gone(), old);
    assert!(rig.files.exists(Path::new("/srv/x/tmp/restart.txt")));
}

/// Erratum E23: the file exists before the first get, which takes it as the baseline.
#[test]
fn a_new_time_of_restart_txt_restarts_once() {
    let (rig, dir) = (on_disk(), AppDir::new());
    let x = PoolOptions::new(dir.root());
    dir.create_dir("tmp/restart.txt");
    dir.set_modified("tmp/restart.txt", 10);
    let old = pid(&rig, &x);
    assert_eq!(pid(&rig, &x), old);
    dir.set_modified("tmp/restart.txt", 15);
    let new = pid(&rig, &x);
    assert_ne!(new, old);
    assert_eq!(pid(&rig, &x), new);
}

#[test]
fn a_restart_runs_the_new_code() {
    let rig = Rig::watching(|b| b);
    rig.spawner.set_code("/srv/x", "old");
    assert_eq!(served(&rig, &app("x")).1, "old");
    rig.spawner.set_code("/srv/x", "new");
    assert_eq!(served(&rig, &app("x")).1, "old", "no restart was requested");
    rig.touch(&app("x"));
    assert_eq!(served(&rig, &app("x")).1, "new");
}

#[test]
fn always_restart_txt_replaces_the_process_for_every_get() {
    let rig = Rig::watching(|b| b);
    let file = Path::new("/srv/x/tmp/always_restart.txt");
    let before = pid(&rig, &app("x"));
    rig.files.touch(file);
    let mut pids = vec![before];
    for _ in 0..2 {
        pids.push(pid(&rig, &app("x")));
        assert_eq!(rig.counts(), (0, 1));
    }
    assert_eq!(pids, [1, 2, 3]);
    assert!(rig.files.exists(file));
}

#[test]
fn always_restart_txt_may_be_a_directory() {
    let (rig, dir) = (on_disk(), AppDir::new());
    let x = PoolOptions::new(dir.root());
    dir.create_dir("tmp/always_restart.txt");
    let pids: Vec<u32> = (0..3).map(|_| pid(&rig, &x)).collect();
    assert_eq!(pids, [1, 2, 3]);
    assert_eq!(rig.counts(), (0, 1));
    assert!(dir.path("tmp/always_restart.txt").is_dir());
}

#[test]
fn always_restart_txt_shows_every_get_the_newest_code() {
    let rig = Rig::watching(|b| b);
    rig.files.touch(Path::new("/srv/x/tmp/always_restart.txt"));
    for code in ["first", "second", "third"] {
        rig.spawner.set_code("/srv/x", code);
        assert_eq!(served(&rig, &app("x")).1, code);
    }
}

#[test]
fn both_files_together_restart_every_get_and_are_kept() {
    let rig = Rig::watching(|b| b);
    let always = Path::new("/srv/x/tmp/always_restart.txt");
    rig.files.touch(always);
    rig.touch(&app("x"));
    let pids: Vec<u32> = (0..3).map(|_| pid(&rig, &app("x"))).collect();
    assert_eq!(pids, [1, 2, 3]);
    rig.touch(&app("x"));
    assert_eq!(pid(&rig, &app("x")), 4, "once, though there are two reasons");
    assert!(rig.files.exists(always));
    assert!(rig.files.exists(Path::new("/srv/x/tmp/restart.txt")));
}

#[test]
fn an_absolute_restart_directory_is_looked_into() {
    let (rig, dir, elsewhere) = (on_disk(), AppDir::new(), AppDir::new());
    let x = PoolOptions::new(dir.root()).with_restart_dir(elsewhere.root());
    let old = pid(&rig, &x);
    dir.create("tmp/restart.txt");
    assert_eq!(pid(&rig, &x), old, "that is not the directory");
    elsewhere.create("restart.txt");
    assert_ne!(pid(&rig, &x), old);
}

#[test]
fn a_relative_restart_directory_is_below_the_application() {
    let (rig, dir) = (on_disk(), AppDir::new());
    let x = PoolOptions::new(dir.root()).with_restart_dir("public");
    let old = pid(&rig, &x);
    dir.create("tmp/restart.txt");
    assert_eq!(pid(&rig, &x), old, "that is not the directory");
    dir.create_dir("public");
    dir.create("public/restart.txt");
    assert_ne!(pid(&rig, &x), old);
}

#[test]
fn the_spawner_is_asked_once_to_reload_the_group_that_restarts() {
    let rig = Rig::watching(|b| b.max(1));
    rig.idle(&app("x"), 1);
    rig.idle(&app("y"), 1);
    assert!(rig.pids(&app("x")).is_empty(), "evicted");
    rig.touch(&app("x"));
    rig.idle(&app("x"), 1);
    assert_eq!(rig.spawner.reloaded(), ["/srv/x"]);
    rig.idle(&app("y"), 1);
    rig.idle(&app("x"), 1);
    assert_eq!(rig.spawner.reloaded(), ["/srv/x"]);
}

#[test]
fn two_directories_of_one_group_restart_together() {
    let rig = Rig::watching(|b| b);
    let (one, two) = (app("one").with_app_group_name("g"), app("two").with_app_group_name("g"));
    let (first, second) = (rig.get(&one), rig.get(&two));
    assert_eq!(first.request("hello"), "hello from /srv/one");
    assert_eq!(second.request("hello"), "hello from /srv/two");
    drop(first);
    drop(second);
    assert_eq!(rig.counts(), (0, 2));
    rig.touch(&two);
    drop(rig.get(&two));
    assert_eq!(rig.counts(), (0, 1));
}

/// Each directory has its own restart file; the other directory's file counts as no change.
#[test]
fn two_directories_of_one_group_do_not_take_each_others_files_for_changes() {
    let rig = Rig::watching(|b| b);
    let (one, two) = (app("one").with_app_group_name("g"), app("two").with_app_group_name("g"));
    rig.touch(&one);
    for _ in 0..3 {
        drop(rig.get(&one));
        drop(rig.get(&two));
    }
    assert_eq!(rig.group(&one).generation, 0);
    assert!(rig.gone().is_empty());
}
